//! Lengths of time, in nanoseconds and in the units of a gauge.

use super::mode::Kind;
use crate::Format;
use crate::sync::{AtomicU64, Ordering};

/// How long a tick lasts, and how fast each gauge runs.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) tick_ns: u64,
    /// Gauge units in a nanosecond, as a fixed-point number with 32 bits of fraction.
    per_ns: [AtomicU64; Kind::COUNT],
}

impl Span {
    /// No tick is published for longer than this, so that an error of the counter's rate stays
    /// small.
    pub(super) const LONGEST_NS: u64 = 1_000_000_000;

    pub(super) fn new(format: Format) -> Span {
        let tick_ns = u64::from(format.tick_ms()) * 1_000_000;
        Span { tick_ns, per_ns: [AtomicU64::new(0), AtomicU64::new(0)] }
    }

    /// Takes up the rate of a gauge; the longest a tick may be published for, in its units.
    pub(super) fn set_rate(&self, kind: Kind, hz: u64) -> u64 {
        let per_ns = (u128::from(hz) << 32) / 1_000_000_000;
        let per_ns = u64::try_from(per_ns).unwrap_or(u64::MAX);
        // ORDERING: Relaxed; one number that is right by itself: a turn that still has the former
        // rate publishes as it would have a moment before.
        self.per_ns[kind.index()].store(per_ns, Ordering::Relaxed);
        self.gauge_units(kind, self.tick_ns)
    }

    /// This many nanoseconds in units of the gauge, [`LONGEST_NS`](Self::LONGEST_NS) at most.
    pub(super) fn gauge_units(&self, kind: Kind, ns: u64) -> u64 {
        // ORDERING: Relaxed; see `set_rate`.
        let per_ns = self.per_ns[kind.index()].load(Ordering::Relaxed);
        let units = (u128::from(ns.min(Span::LONGEST_NS)) * u128::from(per_ns)) >> 32;
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}
