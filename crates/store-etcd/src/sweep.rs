//! Removing notes of grants elsewhere that are over: the one thing that is ever deleted.
//!
//! A note tells whoever asks again with the same request key where its grant is. Once the generator
//! id was granted to another, it leads nowhere.

use snowlease_lease::{Outage, TokenHash};

use crate::candidates::Draws;
use crate::core::Core;
use crate::net::Deadline;
use crate::proto::{RangeRequest, TxnRequest};
use crate::txn;

/// How many are looked at together.
const TOGETHER: i64 = 60;

impl Core {
    /// Looks at some of the notes, from a drawn place on.
    pub(crate) fn sweep(&self, draws: &mut Draws, deadline: Deadline) -> Result<(), Outage> {
        let (begin, end) = self.keys.all_moved();
        let mut bytes = [0; 32];
        bytes.fill_with(|| u8::try_from(draws.below(256)).unwrap_or(0));
        let key = self.keys.moved(&TokenHash::from_bytes(bytes));
        let page = |key, range_end, limit| {
            let request = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
            self.client.range(&request, deadline).map(|answer| answer.kvs)
        };
        let mut notes = page(key.clone(), end, TOGETHER)?;
        let rest = TOGETHER - i64::try_from(notes.len()).unwrap_or(TOGETHER);
        if rest > 0 {
            // And from the beginning up to there.
            notes.extend(page(begin, key, rest)?);
        }
        let success: Vec<_> = notes
            .iter()
            .filter_map(|note| {
                let token = note.key.rsplit(|byte| *byte == b'/').next()?;
                let token = TokenHash::from_text(std::str::from_utf8(token).ok()?)?;
                let id = std::str::from_utf8(&note.value).ok()?.parse().ok()?;
                Some(txn::nested(TxnRequest {
                    compare: vec![
                        txn::value_is_not(self.keys.request(id), token.as_bytes()),
                        txn::value_is(note.key.clone(), &note.value),
                    ],
                    success: vec![txn::delete(note.key.clone())],
                    failure: Vec::new(),
                }))
            })
            .collect();
        if !success.is_empty() {
            let request = TxnRequest { success, ..TxnRequest::default() };
            self.write(&request, deadline, u64::MAX)?;
        }
        Ok(())
    }
}
