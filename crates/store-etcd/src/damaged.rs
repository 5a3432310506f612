//! A grant over what is no cell: it is not answered, and what was there is put back.
//!
//! No comparison of etcd tells whether some bytes are a whole cell, so that shows only when one was
//! put in their place. Its high-water mark is not known, and nobody may issue ids by such a grant:
//! neither who asked, nor who asks again with the same request key.

use snowlease_lease::cell::CellError;
use snowlease_lease::{Cell, Grant, Outage, TokenHash};

use crate::core::{Core, View};
use crate::net::{Deadline, Kind};
use crate::proto::{KeyValue, RangeRequest, TxnRequest};
use crate::txn;

/// A grant that was made to the same request key before.
#[derive(Debug)]
pub(crate) struct Mine {
    pub(crate) grant: Grant,
    pub(crate) view: View,
    /// The revision at which its cell was put.
    pub(crate) revision: i64,
}

/// A cell that was put over something that cannot be read.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) id: u64,
    pub(crate) made: View,
    pub(crate) old: Vec<u8>,
    pub(crate) why: CellError,
}

impl Core {
    /// The grant, unless it was made over what is no cell: whoever made it may have had no time to
    /// find out, or to put that back.
    pub(crate) fn confirmed(&self, mine: Mine, deadline: Deadline) -> Result<Grant, Outage> {
        let Mine { grant, view, revision } = mine;
        let id = grant.generator_id;
        if self.view(id).as_ref() != Some(&view) {
            if let Some(kv) = self.before(id, revision, deadline)?
                && let Err(why) = Cell::decode(&kv.value)
            {
                let over = Over { id, made: view, old: kv.value, why };
                return Err(self.put_back(&over, deadline));
            }
            self.remember(id, view);
        }
        Ok(grant)
    }

    /// What a cell was before this revision; `None` if that is not kept any more. Whoever asks
    /// again does so long before etcd lets go of it.
    fn before(
        &self,
        id: u64,
        revision: i64,
        deadline: Deadline,
    ) -> Result<Option<KeyValue>, Outage> {
        let key = self.keys.cell(id);
        let revision = revision.saturating_sub(1);
        if revision < 1 {
            return Ok(None);
        }
        match self
            .client
            .range(&RangeRequest { key, revision, ..RangeRequest::default() }, deadline)
        {
            Ok(answer) => Ok(answer.kvs.into_iter().next()),
            Err(trouble) if trouble.kind == Kind::Compacted => Ok(None),
            // The grant is there all the same.
            Err(trouble) => Err(Outage::unknown(trouble.detail)),
        }
    }

    /// Puts back what was there, and says what to do about it.
    pub(crate) fn put_back(&self, over: &Over, deadline: Deadline) -> Outage {
        let key = self.keys.cell(over.id);
        let request = TxnRequest {
            compare: vec![
                txn::value_is(key.clone(), &over.made.bytes),
                txn::version_is(key.clone(), over.made.version),
            ],
            success: vec![
                txn::put(key, over.old.clone()),
                txn::put(self.keys.request(over.id), TokenHash::NOBODY.as_bytes().to_vec()),
            ],
            failure: Vec::new(),
        };
        // If it is not made, whoever asks again finds out once more.
        drop(self.write(&request, deadline, u64::MAX));
        let said = match over.why {
            CellError::Damaged => {
                self.damaged(format!("the cell of generator id {} cannot be read", over.id))
            }
            newer @ CellError::Newer { .. } => newer.into(),
        };
        Outage { unknown: true, ..said }
    }
}
