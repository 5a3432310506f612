//! When: how long a lease lasts in real time, when it is renewed, how long to pause after a
//! failure.

use snowlease_core::clock::nanos;
use snowlease_core::{Format, Moment, Tick};

use crate::Terms;

/// A call to the store that is under way, or to be repeated.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// When it was first sent: the lease's real time is counted from here.
    pub(super) at: Moment,
    pub(super) tick: Tick,
    /// By how much the id clock is to be seeded anew if this succeeds: `at` and `tick` are by that
    /// time.
    pub(super) follow_ns: i64,
}

/// The times of one holder.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    terms: Terms,
    format: Format,
    /// Calls that failed in a row.
    pub(super) failures: u32,
    /// Before this reading of the boot clock the store is not asked.
    pub(super) retry_ns: u64,
    random: u64,
}

impl Pace {
    pub(super) fn new(terms: Terms, format: Format) -> Pace {
        Pace { terms, format, failures: 0, retry_ns: 0, random: 0 }
    }

    /// Spreads by this seed from now on.
    pub(super) fn seed(&mut self, seed: u64) {
        self.random = seed;
    }

    /// When to ask the store about a clock that was set: soon, and not with the whole fleet at
    /// once, whose clocks may have been set together.
    pub(super) fn ask_soon_ns(&mut self, now: &Moment) -> u64 {
        let spread_ns = nanos(self.terms.attempt()) / 8;
        now.boot_ns.saturating_add(self.random() % spread_ns.max(1))
    }

    /// When the lease's real time runs out, counted from when it was asked for, less the margin.
    pub(super) fn deadline_ns(&self, until: Tick, sent: &Sent) -> u64 {
        let length = self.length_ns(until, sent);
        let margin = nanos(self.terms.margin()).min(length / 4);
        sent.at.boot_ns.saturating_add(length - margin)
    }

    /// When to renew: the agreed time, earlier if less was granted, and up to a tenth earlier at
    /// random.
    pub(super) fn renew_ns(&mut self, until: Tick, sent: &Sent) -> u64 {
        let agreed = nanos(self.terms.renew()).min(self.length_ns(until, sent) / 3);
        let jitter = self.random() % (agreed / 10).max(1);
        sent.at.boot_ns.saturating_add(agreed - jitter)
    }

    /// The real time between sending and `until`, at most the longest window.
    fn length_ns(&self, until: Tick, sent: &Sent) -> u64 {
        let ticks = until.since(sent.tick);
        let tick_ns = u64::from(self.format.tick_ms()) * 1_000_000;
        ticks.saturating_mul(tick_ns).min(nanos(self.terms.bridge()))
    }

    /// Waits before the next call, up to a bound that doubles to a thirtieth of the window: full
    /// jitter, but for an eighth, so that a store that refuses at once is not asked in a tight
    /// loop.
    pub(super) fn back_off(&mut self, now: &Moment) {
        let most_ns = nanos(self.terms.window()) / 30;
        let bound_ns = ((most_ns / 16) << self.failures.min(5)).min(most_ns).max(8);
        self.failures = self.failures.saturating_add(1);
        let delay_ns = (self.random() % bound_ns).max(bound_ns / 8);
        self.retry_ns = now.boot_ns.saturating_add(delay_ns);
    }

    /// SplitMix64: spread is all that is asked of it.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}
