//! One call for an id, as it is written down: when it began, when it returned, and with what.

use snowlease::Refusal;

/// Bytes of a record in a file.
pub const BYTES: usize = 24;

/// What is no refusal of the library: the answer never came, or was another one.
pub const NO_ANSWER: &str = "no-answer";
/// An answer that is neither an id nor a refusal.
pub const OTHER: &str = "other";

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The true time right before the call.
    pub begun_ns: u64,
    /// The true time right after it.
    pub ended_ns: u64,
    /// What came of it.
    pub said: Said,
}

/// What a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// An id.
    Id(u64),
    /// No id.
    Refused {
        /// The code of the refusal.
        code: &'static str,
        /// When to try again, if it said.
        retry_after_ms: Option<u64>,
    },
}

/// An id has the sign bit clear; a refusal sets it.
const REFUSED: u64 = 1 << 63;
const CODE_SHIFT: u32 = 48;
const MOST_MS: u64 = (1 << CODE_SHIFT) - 2;

impl Record {
    /// As it stands in a file.
    pub fn to_bytes(self) -> [u8; BYTES] {
        let said = match self.said {
            Said::Id(id) => id,
            Said::Refused { code, retry_after_ms } => {
                let index = codes().position(|known| known == code).unwrap_or(0);
                let ms = retry_after_ms.map_or(0, |ms| ms.min(MOST_MS) + 1);
                REFUSED | u64::try_from(index).unwrap_or(0) << CODE_SHIFT | ms
            }
        };
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.begun_ns, self.ended_ns, said]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The records of a file; one that was cut off at the end is not read yet.
    pub fn all(bytes: &[u8]) -> Vec<Record> {
        let (records, _) = bytes.as_chunks::<BYTES>();
        records.iter().map(Record::from_bytes).collect()
    }

    fn from_bytes(bytes: &[u8; BYTES]) -> Record {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |place: usize| words.get(place).map_or(0, |word| u64::from_le_bytes(*word));
        let said = word(2);
        let said = if said & REFUSED == 0 {
            Said::Id(said)
        } else {
            let index = usize::try_from((said & !REFUSED) >> CODE_SHIFT).unwrap_or(usize::MAX);
            let ms = said & ((1 << CODE_SHIFT) - 1);
            Said::Refused {
                code: codes().nth(index).unwrap_or(OTHER),
                retry_after_ms: ms.checked_sub(1),
            }
        };
        Record { begun_ns: word(0), ended_ns: word(1), said }
    }
}

impl Said {
    /// A refusal of the library.
    pub fn refusal(refusal: Refusal) -> Said {
        let ms = refusal.retry_after().map(|after| u64::try_from(after.as_millis()));
        Said::refused(refusal.code(), ms.map(|ms| ms.unwrap_or(MOST_MS)))
    }

    /// A refusal by its code.
    pub fn refused(code: &str, retry_after_ms: Option<u64>) -> Said {
        let code = codes().find(|known| *known == code).unwrap_or(OTHER);
        Said::Refused { code, retry_after_ms }
    }
}

fn codes() -> impl Iterator<Item = &'static str> {
    [OTHER, NO_ANSWER].into_iter().chain(Refusal::CODES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let records = [
            Said::Id(7),
            Said::Id(i64::MAX as u64),
            Said::refused("clock-stepped", Some(3_000)),
            Said::refused("forked", None),
            Said::refused("no-answer", None),
            Said::refused("a code to come", Some(0)),
        ]
        .map(|said| Record { begun_ns: 5, ended_ns: u64::MAX, said });
        let mut bytes: Vec<u8> = records.iter().flat_map(|record| record.to_bytes()).collect();
        assert_eq!(Record::all(&bytes), records);
        bytes.truncate(bytes.len() - 1);
        assert_eq!(Record::all(&bytes), records[..5]);
        assert_eq!(records[5].said, Said::Refused { code: OTHER, retry_after_ms: Some(0) });
    }
}
