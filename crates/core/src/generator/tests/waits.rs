//! Waits that are in vain end at once, however long a call may wait.

use std::sync::atomic::AtomicU64 as StdAtomicU64;

use super::threads::RunningClock;
use super::*;
use crate::{Moment, Pause};

/// A running clock that can be paused, on a machine that can be restored.
#[derive(Debug)]
struct TroubledClock {
    clock: Arc<RunningClock>,
    paused: AtomicBool,
    marker: &'static StdAtomicU64,
}

impl Clock for TroubledClock {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn pause(&self) -> Option<Pause> {
        let pause = Pause { by_ms: -7_200_000, until_boot_ns: u64::MAX };
        self.paused.load(Ordering::Relaxed).then_some(pause)
    }

    fn marker(&self) -> Option<&'static StdAtomicU64> {
        Some(self.marker)
    }
}

/// Ticks of a minute, of two ids each.
fn slow() -> (Arc<TroubledClock>, Generator) {
    let clock = Arc::new(TroubledClock {
        clock: RunningClock::start(),
        paused: AtomicBool::new(false),
        marker: Box::leak(Box::new(StdAtomicU64::new(1))),
    });
    let format = Format::new(Layout::new(40, 22, 1).unwrap(), 60_000, EPOCH).unwrap();
    let generator = Generator::new(format, clock.clone());
    let generator = generator.with_max_wait(Duration::from_hours(1));
    open(&generator, 5, (0, 1000));
    generator.next_ids(2).unwrap();
    (clock, generator)
}

#[test]
fn a_wait_ends_once_it_is_in_vain_however_long_it_may_be() {
    type Trouble = fn(&TroubledClock, &Generator);
    let troubles: [(Trouble, &str); 5] = [
        (
            |_, generator| {
                generator.close();
            },
            "no-lease",
        ),
        (
            |_, generator| {
                generator.retire();
                generator.close();
            },
            "shut-down",
        ),
        (|clock, _| clock.paused.store(true, Ordering::Relaxed), "clock-stepped"),
        (|clock, _| clock.marker.store(2, Ordering::Relaxed), "restored"),
        (
            |_, generator| {
                let layout = generator.format().layout();
                let until = Window::new(layout, 6, Tick(0), Tick(1)).unwrap();
                generator.open(until, u64::MAX).unwrap();
            },
            "window-end",
        ),
    ];
    for (trouble, code) in troubles {
        let (clock, generator) = slow();
        std::thread::scope(|scope| {
            let callers = [
                scope.spawn(|| generator.next_id().map(drop)),
                scope.spawn(|| generator.next_ids(2).map(drop)),
                scope.spawn(|| generator.next_ids(1).map(drop)),
            ];
            while generator.waits() < 3 {
                std::thread::yield_now();
            }
            trouble(&clock, &generator);
            let began_ns = clock.boot_ns();
            for caller in callers {
                assert_eq!(caller.join().unwrap().map_err(Refusal::code), Err(code));
            }
            let took_ns = clock.boot_ns() - began_ns;
            // A nap is 2 ms; the rest is for a busy machine.
            assert!(took_ns < 2_000_000_000, "{code}: {took_ns} ns");
        });
    }
}
