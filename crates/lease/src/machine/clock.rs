//! What a holder makes of a wall clock that was set: when it asks, when it follows, and how, so
//! that no promise breaks.
//!
//! * Set back: the ticks of the new time lie below those already used. Another generator id is
//!   leased by the new time while the old one is still held, and the switch seeds the id clock anew
//!   (make before break). Nothing waits for the clock to catch up.
//! * Set ahead: the lease is first renewed by the new time, so that its window reaches there, and
//!   then the id clock follows.
//! * Without a lease there is nothing to break.

use snowlease_core::Moment;

use super::{Command, Machine, State, Stepped};
use crate::id_clock::Verdict;

/// Steps that differ by no more are one: the rest is slewed.
pub(crate) const SAME_NS: u64 = 100_000_000;

impl Machine {
    /// The wall clock stands apart, or no longer does.
    pub(super) fn clock(&mut self, now: &Moment, stepped: Option<Stepped>) {
        self.stepped = stepped;
        let Some(stepped) = stepped else { return };
        let soon_ns = match stepped.verdict {
            // Its answer is what everything waits for. A clock that jumped ahead may also mean that
            // the machine stood still without its boot clock's knowing.
            Verdict::Asking => self.pace.ask_soon_ns(now),
            Verdict::Confirmed if stepped.by_ns > 0 => now.boot_ns,
            Verdict::Unanswered if stepped.by_ns > 0 => self.pace.ask_soon_ns(now),
            _ => return,
        };
        if let Some(seat) = &mut self.seat {
            seat.renew_ns = seat.renew_ns.min(soon_ns);
        }
    }

    /// By how much to follow, once that can be done under a lease; 0: not at all.
    pub(super) fn follow_ns(&self) -> i64 {
        let confirmed = |stepped: &Stepped| stepped.verdict == Verdict::Confirmed;
        self.stepped.filter(confirmed).map_or(0, |stepped| stepped.by_ns)
    }

    /// Whether what was sent for a time so far off is for the time that is wanted now.
    pub(super) fn is_wanted(&self, follow_ns: i64) -> bool {
        follow_ns.signum() == self.follow_ns().signum()
            && follow_ns.abs_diff(self.follow_ns()) <= SAME_NS
    }

    /// Whether another lease is wanted, by a time before that of the present one.
    pub(super) fn moves_back(&self) -> bool {
        self.seat.is_some() && self.follow_ns() < 0
    }

    /// Follows now, if no lease is in the way. A holder that never had one, or is suspended,
    /// follows whatever the wall clock does, as if it were started now; and so does one that
    /// has no tick to ask for. One that lost its lease waits for an answer, which the acquire
    /// that it makes will bring.
    pub(super) fn follow_if_free(&mut self, now: &Moment, commands: &mut Vec<Command>) -> bool {
        let free = self.seat.is_none() && self.retired.is_none() && !self.waiting_for_store;
        let follows = |stepped: &Stepped| match stepped.verdict {
            Verdict::Confirmed | Verdict::Unanswered => free,
            Verdict::Asking => free && matches!(self.state, State::Acquiring | State::Idle),
            Verdict::Contradicted => free && self.format.tick_at(*now).is_err(),
        };
        let Some(Stepped { by_ns, .. }) = self.stepped.filter(follows) else { return false };
        (self.stepped, self.key) = (None, None);
        self.pace.retry_ns = now.boot_ns;
        commands.push(Command::Follow { by_ns });
        true
    }

    /// Another copy of this process may have all that is remembered here: nothing of it is used
    /// again, nor given back, since it may be the other copy that goes on with it.
    pub(super) fn restored(&mut self, now: &Moment, seed: u64, commands: &mut Vec<Command>) {
        self.pace.seed(seed);
        (self.key, self.renewal) = (None, None);
        (self.retired, self.leaving, self.stepped) = (None, None, None);
        self.pace.retry_ns = now.boot_ns;
        self.lose(commands);
    }
}

/// The moment that a clock shows which is ahead of this one by so much.
pub(super) fn ahead(now: &Moment, by_ns: i64) -> Moment {
    let unix_ns =
        i128::from(now.unix_ms) * 1_000_000 + i128::from(now.sub_ms_ns) + i128::from(by_ns);
    Moment {
        unix_ms: i64::try_from(unix_ns.div_euclid(1_000_000)).unwrap_or(now.unix_ms),
        sub_ms_ns: u32::try_from(unix_ns.rem_euclid(1_000_000)).unwrap_or(0),
        boot_ns: now.boot_ns,
    }
}
