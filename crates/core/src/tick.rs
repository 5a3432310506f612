//! A tick: whole tick lengths since the epoch, the time field of an id.
//!
//! A type of its own, because a tick mixed up with milliseconds has made duplicates elsewhere.

use std::fmt;

/// Whole tick lengths since the epoch of a [`Format`](crate::Format).
///
/// Ticks of different formats do not compare; keep the format beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The tick `count` later, at most `u64::MAX`.
    #[must_use]
    pub const fn saturating_add(self, count: u64) -> Tick {
        Tick(self.0.saturating_add(count))
    }

    /// Ticks from `earlier` to this one; 0 if `earlier` is not earlier.
    pub const fn since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Why an instant has no tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickError {
    /// The instant is before the epoch. Set the clock, or configure an earlier epoch.
    BeforeEpoch {
        /// How far before the epoch, in milliseconds (rounded up).
        missing_ms: u64,
    },
    /// The instant is past the last tick of the time field. Ids of this format have run out:
    /// migrate to a format with a later epoch or a wider tick.
    TimeEnd {
        /// First Unix millisecond that no id of the format can carry; `i64::MAX` if beyond that.
        end_ms: i64,
    },
}

impl fmt::Display for TickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TickError::BeforeEpoch { missing_ms } => write!(
                f,
                "the time is {missing_ms} ms before the epoch: set the clock or configure an \
                 earlier epoch"
            ),
            TickError::TimeEnd { end_ms } => write!(
                f,
                "the time field is exhausted (it ended at Unix ms {end_ms}): \
                 migrate to a format with a later epoch or a wider tick"
            ),
        }
    }
}

impl std::error::Error for TickError {}
