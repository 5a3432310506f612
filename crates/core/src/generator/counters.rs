//! Counts of what the cold path did, for metrics. They guard nothing, and cost the hot path
//! nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Refusal;

#[derive(Debug, Default)]
pub(super) struct Counters {
    refusals: [AtomicU64; Refusal::CODES.len()],
    waits: AtomicU64,
}

impl Counters {
    pub(super) fn refused(&self, refusal: Refusal) {
        // ORDERING: Relaxed, here and below: a count that guards nothing.
        self.refusals[refusal.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn waited(&self) {
        // ORDERING: Relaxed; see above.
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refusals(&self) -> [u64; Refusal::CODES.len()] {
        // ORDERING: Relaxed; see above.
        std::array::from_fn(|index| self.refusals[index].load(Ordering::Relaxed))
    }

    pub(super) fn waits(&self) -> u64 {
        // ORDERING: Relaxed; see above.
        self.waits.load(Ordering::Relaxed)
    }
}
