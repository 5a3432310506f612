//! The ticking guard: a thread publishes the ticks, so that calls read no clock.
//!
//! Only the ticker publishes. A caller that was delayed between its reading of the clock and its
//! store could otherwise publish an old tick after the ticker has parked, and nobody would clear
//! it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::Generator;
use super::cold::Turn;
use super::span::Span;
use crate::sync::{AtomicU64, Ordering};

/// After so many ticks in which nothing was issued the ticker rests.
const QUIET_TICKS: u32 = if cfg!(feature = "loom") { 1 } else { 64 };

/// When the ticker is to call [`Generator::tick`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticked {
    /// At this reading of the boot clock, or soon after.
    Again {
        /// The end of the tick, or the deadline of the lease if that is sooner; at most a second
        /// ahead.
        at_boot_ns: u64,
    },
    /// Once the waker is woken: nothing was issued for a while, or nothing may be. No tick is
    /// published.
    Idle,
}

/// What a ticker and the callers need to know of each other.
#[derive(Debug)]
pub(super) struct Ticking {
    waker: Waker,
    /// 1 while the ticker rests.
    resting: AtomicU64,
    /// Held by the ticker during a tick; a second one waits, so that one at a time publishes.
    pace: Mutex<Pace>,
}

/// What the ticker remembers from tick to tick.
#[derive(Debug, Default)]
struct Pace {
    /// The word as the last tick left it.
    word: u64,
    /// Ticks since a call last moved it.
    quiet: u32,
}

impl Ticking {
    pub(super) fn new(waker: Waker) -> Ticking {
        Ticking { waker, resting: AtomicU64::new(0), pace: Mutex::new(Pace::default()) }
    }

    /// Wakes the ticker if it rests. Cost: a load if it does not; only the first caller wakes it.
    pub(super) fn wake(&self) {
        // ORDERING: Relaxed; a hint. Whoever misses that it rests leaves it to the next caller.
        if self.resting.load(Ordering::Relaxed) == 0 {
            return;
        }
        // ORDERING: AcqRel; of several callers one sees 1. The tick that follows happens after the
        // rest that it ends.
        if self.resting.swap(0, Ordering::AcqRel) == 1 {
            self.waker.wake_by_ref();
        }
    }

    #[cfg(all(test, not(feature = "loom")))]
    pub(super) fn is_resting(&self) -> bool {
        // ORDERING: Relaxed; for a test on one thread.
        self.resting.load(Ordering::Relaxed) == 1
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generator {
    /// Has a thread publish the ticks, so that calls read no clock: the *ticking* guard. The thread
    /// calls [`tick`](Self::tick), again whenever that says so; `waker` ends its rest.
    ///
    /// # What it gives up
    ///
    /// A call reads no clock, and learns of a new tick from the thread:
    ///
    /// * an id carries the tick that the thread last published, and so lags by the thread's wake
    ///   latency: some 50 µs on an idle core, more on a busy one (G3);
    /// * right after a pause of the whole process (SIGSTOP, suspend, a stolen processor) ids may
    ///   carry the tick of before the pause until the thread wakes, also past the deadline of the
    ///   lease (G4): one sequence's worth of them at most. They are still unique, ascending and
    ///   inside the window (G1, G2).
    ///
    /// A call that finds no published tick reads the clock itself, and is as right as a precise
    /// one. Until somebody calls `tick`, every call is of that kind.
    #[must_use]
    pub fn with_ticker(mut self, waker: Waker) -> Generator {
        self.ticking = Some(Ticking::new(waker));
        self.take_gauge();
        self
    }

    /// Whether a ticker publishes the ticks.
    pub fn is_ticking(&self) -> bool {
        self.ticking.is_some()
    }

    /// Publishes the running tick: for the ticker's thread alone. Takes no id. On a generator
    /// without a ticker it does nothing.
    ///
    /// # What to do next
    ///
    /// As [`Ticked`] says. A wake between the beginning of this call and the rest that follows it
    /// counts: the thread must not rest then.
    ///
    /// Cost: about a cold call, once a tick; nothing while there is nothing to issue.
    pub fn tick(&self) -> Ticked {
        let Some(ticking) = &self.ticking else { return Ticked::Idle };
        // Before the lock, which another thread may have held at the fork.
        if self.page.forked() {
            return Ticked::Idle;
        }
        let mut pace = ticking.pace();
        match self.look(0, Duration::ZERO) {
            Ok(turn) if self.quiet_ticks(&mut pace, &turn) < QUIET_TICKS => {
                self.publish(&turn);
                let left_ns = turn.left_ns.min(Span::LONGEST_NS);
                Ticked::Again { at_boot_ns: turn.moment.boot_ns + left_ns }
            }
            Ok(_) | Err(_) => {
                *pace = Pace::default();
                self.page.park();
                // ORDERING: Release, after the tick was cleared: a caller that wakes the ticker has
                // nothing of the time before.
                ticking.resting.store(1, Ordering::Release);
                Ticked::Idle
            }
        }
    }

    /// How many ticks in a row have passed without a call, as of this turn.
    fn quiet_ticks(&self, pace: &mut Pace, turn: &Turn) -> u32 {
        pace.quiet = if turn.found == pace.word { pace.quiet + 1 } else { 0 };
        pace.word = turn.at;
        pace.quiet
    }
}
