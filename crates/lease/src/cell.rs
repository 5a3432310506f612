//! The cell: everything a store keeps for one generator id, and its bytes.
//!
//! ```text
//! 0        8        9        17       25       33       41                73
//! +--------+--------+--------+--------+--------+--------+----------------+-----------------
//! | D|until| version|  from  |  seq   |granted |format  |   token hash   | holder: 4 texts
//! +--------+--------+--------+--------+--------+--------+----------------+-----------------
//! ```
//!
//! Numbers are big-endian. The first eight bytes are the draining flag (top bit) and `until`, so
//! that one byte-wise comparison of a whole cell with [`free_bound`] answers "free at this tick?"
//! in any store. A cell is never deleted: its `until` is the high-water mark of its generator id.

use std::fmt;

use snowlease_core::Tick;

use crate::{Holder, TokenHash};

const DRAINING: u64 = 1 << 63;
const VERSION: u8 = 1;

/// What a store keeps for one generator id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// First tick that may not be used: the high-water mark.
    pub until: Tick,
    /// Set by an operator: not to be granted again, and its holder should move.
    pub draining: bool,
    /// First tick of the window.
    pub from: Tick,
    /// Grows by one at each change of the cell.
    pub seq: u64,
    /// When the lease was granted, in Unix ms on the granter's clock; 0 if never.
    pub granted_at_ms: i64,
    /// Fingerprint of the format the holder issues by.
    pub format: u64,
    /// Hash of the holder's token, [`TokenHash::NOBODY`] if there is none.
    pub token: TokenHash,
    /// Who holds it, for people.
    pub holder: Holder,
}

impl Cell {
    /// The cell of a generator id that was never granted.
    pub fn vacant(format: u64) -> Cell {
        Cell {
            until: Tick(0),
            draining: false,
            from: Tick(0),
            seq: 0,
            granted_at_ms: 0,
            format,
            token: TokenHash::NOBODY,
            holder: Holder::nobody(),
        }
    }

    /// Whether somebody's token is in the cell; its window may be over all the same.
    pub fn is_held(&self) -> bool {
        self.token != TokenHash::NOBODY
    }

    /// The bytes of the cell: one cell, one encoding.
    pub fn encode(&self) -> Vec<u8> {
        let head = self.until.0 | if self.draining { DRAINING } else { 0 };
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(head.to_be_bytes());
        bytes.push(VERSION);
        bytes.extend(self.from.0.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.granted_at_ms.to_be_bytes());
        bytes.extend(self.format.to_be_bytes());
        bytes.extend(self.token.as_bytes());
        for (_, text) in self.holder.parts() {
            // A part is at most 128 bytes, which `Holder` checks.
            bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    /// Reads what [`Cell::encode`] wrote.
    ///
    /// # Errors
    ///
    /// * [`CellError::Newer`]: written by a newer version; update this program.
    /// * [`CellError::Damaged`]: no cell; stop using the store and verify it.
    pub fn decode(bytes: &[u8]) -> Result<Cell, CellError> {
        let mut rest = Reader(bytes);
        let head = u64::from_be_bytes(rest.array()?);
        let [version] = rest.array()?;
        if version != VERSION {
            return Err(if version > VERSION {
                CellError::Newer { version }
            } else {
                CellError::Damaged
            });
        }
        let cell = Cell {
            until: Tick(head & !DRAINING),
            draining: head & DRAINING != 0,
            from: Tick(u64::from_be_bytes(rest.array()?)),
            seq: u64::from_be_bytes(rest.array()?),
            granted_at_ms: i64::from_be_bytes(rest.array()?),
            format: u64::from_be_bytes(rest.array()?),
            token: TokenHash::from_bytes(rest.array()?),
            holder: Holder::from_stored([rest.text()?, rest.text()?, rest.text()?, rest.text()?]),
        };
        if rest.0.is_empty() { Ok(cell) } else { Err(CellError::Damaged) }
    }
}

/// A cell is free for a window from `from` exactly if its bytes are below this bound, byte by byte:
/// it is not draining and `until <= from`.
pub fn free_bound(from: Tick) -> [u8; 8] {
    // Ticks have at most 63 bits, so adding one cannot wrap.
    (from.0 + 1).to_be_bytes()
}

/// Where the token hash lies in the bytes of a cell, for stores that look for one.
pub const TOKEN_BYTES: std::ops::Range<usize> = 41..73;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CellError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(CellError::Damaged)?;
        self.0 = rest;
        Ok(*head)
    }

    fn text(&mut self) -> Result<String, CellError> {
        let [length] = self.array()?;
        let (head, rest) = self.0.split_at_checked(length.into()).ok_or(CellError::Damaged)?;
        self.0 = rest;
        let text = std::str::from_utf8(head).map_err(|_| CellError::Damaged)?;
        if text.len() > Holder::MAX_BYTES { Err(CellError::Damaged) } else { Ok(text.to_owned()) }
    }
}

/// Why bytes are no cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellError {
    /// Written by a newer version of this program. Update it.
    Newer {
        /// The version found.
        version: u8,
    },
    /// Not a cell. Nothing may be granted from it.
    Damaged,
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CellError::Newer { version } => write!(
                f,
                "a cell has schema version {version}, this program knows {VERSION}: update it"
            ),
            CellError::Damaged => f.write_str(
                "a cell is damaged: stop using the store and restore it with a quarantine",
            ),
        }
    }
}

impl std::error::Error for CellError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_cell() -> impl Strategy<Value = Cell> {
        let texts = ("[a-z0-9-]{1,128}", "[a-z]{0,9}", "[0-9]{0,9}", "[\\PC&&\\PZ]{0,20}");
        (0..1u64 << 63, any::<bool>(), any::<(u64, u64, i64, u64, [u8; 32])>(), texts).prop_map(
            |(until, draining, (from, seq, granted_at_ms, format, token), (a, b, c, d))| Cell {
                until: Tick(until),
                draining,
                from: Tick(from),
                seq,
                granted_at_ms,
                format,
                token: TokenHash::from_bytes(token),
                holder: Holder::new(a, b, c, d).unwrap(),
            },
        )
    }

    proptest! {
        #[test]
        fn bytes_round_trip(cell in any_cell()) {
            let bytes = cell.encode();
            prop_assert_eq!(&bytes[TOKEN_BYTES], cell.token.as_bytes());
            prop_assert_eq!(Cell::decode(&bytes), Ok(cell));
        }

        #[test]
        fn one_comparison_tells_free_from_not_free(
            cell in any_cell(), from in 0..(1u64 << 63) - 1,
        ) {
            let free = !cell.draining && cell.until <= Tick(from);
            prop_assert_eq!(cell.encode().as_slice() < free_bound(Tick(from)).as_slice(), free);
            let exact = cell.encode().as_slice() < free_bound(cell.until).as_slice();
            prop_assert_eq!(exact, !cell.draining);
        }

        #[test]
        fn no_bytes_panic_and_none_have_two_readings(bytes: Vec<u8>) {
            if let Ok(cell) = Cell::decode(&bytes) {
                prop_assert_eq!(cell.encode(), bytes);
            }
        }

        #[test]
        fn cut_or_extended_bytes_are_damaged(cell in any_cell(), cut in 0usize..73) {
            let mut bytes = cell.encode();
            prop_assert_eq!(Cell::decode(&bytes[..cut]), Err(CellError::Damaged));
            bytes.push(0);
            prop_assert_eq!(Cell::decode(&bytes), Err(CellError::Damaged));
        }
    }

    #[test]
    fn a_newer_schema_is_told_apart_from_damage() {
        let mut bytes = Cell::vacant(1).encode();
        bytes[8] = 2;
        assert_eq!(Cell::decode(&bytes), Err(CellError::Newer { version: 2 }));
        bytes[8] = 0;
        assert_eq!(Cell::decode(&bytes), Err(CellError::Damaged));
    }
}
