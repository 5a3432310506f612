//! Waiting for a tick: a short spin near its beginning, the core given back before, and a bound.
//!
//! The bound must hold under a clock that stands still, so a wait is measured twice: by the clock,
//! and by what the wait itself asked for. No lock is held while waiting.

use std::time::Duration;

use crate::{Clock, Refusal, sync};

/// How late a sleeping thread is woken at the most, ordinarily: the kernel's default timer slack
/// and a switch. The rest of a wait is spent yielding, so that the wait ends on time.
const WAKE_SLACK_NS: u64 = 70_000;

/// The longest nap, so that a clock that jumps forward, or a window that moves, is soon seen.
const LONGEST_NAP_NS: u64 = 2_000_000;

/// How often a stalled clock is looked at before the wait is given up.
const STALLED_ROUNDS: u32 = 50_000;

/// Waits until the boot clock reads `target_ns`, which the caller has bounded.
///
/// # Errors
///
/// [`Refusal::ClockStalled`]: the clock stood still for as long as the wait was meant to last.
///
/// Cost: sleeps, then yields for at most about 70 µs; a full core is never kept busy.
pub(crate) fn until_boot_ns(clock: &dyn Clock, target_ns: u64) -> Result<(), Refusal> {
    let began_ns = clock.boot_ns();
    let wait_ns = target_ns.saturating_sub(began_ns);
    let (mut last_ns, mut asked_ns, mut rounds) = (began_ns, 0u64, 0u32);
    loop {
        let now_ns = clock.boot_ns();
        if now_ns >= target_ns {
            return Ok(());
        }
        if now_ns != last_ns {
            (last_ns, asked_ns, rounds) = (now_ns, 0, 0);
        } else if asked_ns > wait_ns.max(1_000_000) || rounds > STALLED_ROUNDS {
            return Err(Refusal::ClockStalled { waited: Duration::from_nanos(wait_ns) });
        }
        rounds += 1;
        let left_ns = target_ns - now_ns;
        if left_ns > WAKE_SLACK_NS {
            let nap_ns = (left_ns - WAKE_SLACK_NS).min(LONGEST_NAP_NS);
            nap(Duration::from_nanos(nap_ns));
            asked_ns = asked_ns.saturating_add(nap_ns);
        } else if rounds.is_multiple_of(16) {
            give_way();
        } else {
            sync::relax();
        }
    }
}

#[cfg(not(feature = "loom"))]
fn nap(duration: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the one bounded sleep of the issue path")]
    std::thread::sleep(duration);
}

#[cfg(feature = "loom")]
fn nap(_: Duration) {
    sync::relax();
}

#[cfg(not(feature = "loom"))]
pub(crate) fn give_way() {
    std::thread::yield_now();
}

#[cfg(feature = "loom")]
pub(crate) fn give_way() {
    sync::relax();
}
