//! Waiting for a tick: asleep while it is far, awake near its beginning, never without a bound.
//!
//! A sleeping thread may be woken a whole tick late, above all on a virtual processor that went
//! idle meanwhile. So one waiter of a generator, its [`Watch`], stays awake through the last tick
//! length and offers its core to others instead of sleeping; all other waiters sleep until just
//! before. At the cap that keeps at most one core busy, and no tick is missed.
//!
//! The bound must hold under a clock that stands still, so a wait is measured twice: by the clock,
//! and by what the wait itself asked for. It ends early once it is in vain, since a lease may be
//! closed meanwhile. No lock is held while waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Clock, Refusal, sync};

/// How late a sleeping thread is woken, ordinarily: the kernel's timer slack and a switch. A waiter
/// that is not on watch wakes this much early and gives way until the tick begins.
const WAKE_SLACK_NS: u64 = 70_000;

/// How long before the tick the waiter on watch stops sleeping.
const WATCH_NS: u64 = 1_100_000;

/// The longest nap, so that a clock that jumps forward, or a wait that is in vain, is soon seen.
const LONGEST_NAP_NS: u64 = 2_000_000;

/// How often a stalled clock is looked at before the wait is given up.
const STALLED_ROUNDS: u32 = 50_000;

/// Whether one of a generator's waiters stays awake.
#[derive(Debug, Default)]
pub(crate) struct Watch(AtomicBool);

/// The one waiter on watch, until it is dropped.
struct OnWatch<'a>(&'a AtomicBool);

impl Watch {
    fn begin(&self) -> Option<OnWatch<'_>> {
        // ORDERING: Relaxed, here and in `drop`; two on watch, or none for a moment, cost time
        // only.
        (!self.0.swap(true, Ordering::Relaxed)).then_some(OnWatch(&self.0))
    }
}

impl Drop for OnWatch<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see `begin`.
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Waits until the boot clock reads `target_ns`, which the caller has bounded, or `in_vain` says so
/// of a reading of the boot clock; it is asked after each nap.
///
/// # Errors
///
/// [`Refusal::ClockStalled`]: the clock stood still for as long as the wait was meant to last.
///
/// Cost: one waiter of the generator yields for about a tick length, the others for about 70 µs.
pub(crate) fn until_boot_ns(
    clock: &dyn Clock,
    watch: &Watch,
    target_ns: u64,
    in_vain: impl Fn(u64) -> bool,
) -> Result<(), Refusal> {
    let on_watch = watch.begin();
    let awake_ns = if on_watch.is_some() { WATCH_NS } else { WAKE_SLACK_NS };
    let began_ns = clock.boot_ns();
    let wait_ns = target_ns.saturating_sub(began_ns);
    let (mut last_ns, mut asked_ns, mut rounds) = (began_ns, 0u64, 0u32);
    loop {
        let now_ns = clock.boot_ns();
        if now_ns >= target_ns || in_vain(now_ns) {
            return Ok(());
        }
        if now_ns != last_ns {
            (last_ns, asked_ns, rounds) = (now_ns, 0, 0);
        } else if asked_ns > wait_ns.max(1_000_000) || rounds > STALLED_ROUNDS {
            return Err(Refusal::ClockStalled { waited: Duration::from_nanos(wait_ns) });
        }
        rounds += 1;
        let left_ns = target_ns - now_ns;
        if left_ns > awake_ns {
            let nap_ns = (left_ns - awake_ns).min(LONGEST_NAP_NS);
            nap(Duration::from_nanos(nap_ns));
            asked_ns = asked_ns.saturating_add(nap_ns);
        } else {
            give_way();
        }
    }
}

/// Sleeps.
fn nap(duration: Duration) {
    if cfg!(feature = "loom") {
        return sync::relax();
    }
    #[expect(clippy::disallowed_methods, reason = "the one bounded sleep of the issue path")]
    std::thread::sleep(duration);
}

/// Offers the core to another thread.
pub(crate) fn give_way() {
    if cfg!(feature = "loom") {
        return sync::relax();
    }
    std::thread::yield_now();
}
