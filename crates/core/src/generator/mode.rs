//! What guards a call against a tick that is over: a gauge of its own, or a thread that ticks.

use crate::Gauge;
use crate::clock::read_counter;

/// Set if [`Clock::read_gauge`](crate::Clock::read_gauge) is the gauge, clear if the counter is.
pub(super) const CLOCK: u64 = 1;

/// Set if a ticker publishes the ticks: callers read no gauge.
pub(super) const TICKING: u64 = 1 << 1;

/// Set if there is a marker of restored machines to compare.
pub(super) const MARKED: u64 = 1 << 2;

/// The guards that are rarer, and cost a call or a second look.
pub(super) const GUARDED: u64 = CLOCK | MARKED;

/// The two kinds of gauge; each has its own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Clock,
}

impl Kind {
    pub(super) const COUNT: usize = 2;

    /// The kind that a mode names.
    #[inline(always)]
    pub(super) fn of(mode: u64) -> Kind {
        if mode & CLOCK == 0 { Kind::Counter } else { Kind::Clock }
    }

    #[inline(always)]
    pub(super) fn index(self) -> usize {
        match self {
            Kind::Counter => 0,
            Kind::Clock => 1,
        }
    }

    pub(super) fn bit(self) -> u64 {
        match self {
            Kind::Counter => 0,
            Kind::Clock => CLOCK,
        }
    }
}

/// The kind and the rate of a gauge: the boot clock's if this build knows no counter.
pub(super) fn kind_and_hz(gauge: Gauge) -> (Kind, u64) {
    match gauge {
        Gauge::Counter { hz } if read_counter().is_some() => (Kind::Counter, hz),
        Gauge::Counter { .. } => (Kind::Clock, 1_000_000_000),
        Gauge::Clock { hz } => (Kind::Clock, hz),
    }
}
