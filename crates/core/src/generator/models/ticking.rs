//! The ticker beside callers and its keeper: no tick outlives the rest, and one caller wakes.

use std::sync::atomic::AtomicU32;
use std::task::{Wake, Waker};

use super::*;

/// Counts how often it was woken.
#[derive(Debug, Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Parts {
    clock: std::sync::Arc<ScriptedClock>,
    generator: Arc<Generator>,
    wakes: std::sync::Arc<Wakes>,
}

/// A ticking generator at tick 100, opened for generator id 5.
fn ticking(from: u64, until: u64) -> Parts {
    let (clock, generator) = generator(tiny(), 100);
    let wakes = std::sync::Arc::new(Wakes::default());
    let generator = generator.with_ticker(Waker::from(std::sync::Arc::clone(&wakes)));
    generator.open(window(tiny(), 5, from, until), u64::MAX).unwrap();
    Parts { clock, generator: Arc::new(generator), wakes }
}

/// Ticks until there is nothing to do, and shows that no tick stays.
fn rest(generator: &Generator) {
    for _ in 0..4 {
        if generator.tick() == Ticked::Idle {
            assert_eq!(generator.page.published(), 0, "a tick outlives the rest");
            return;
        }
    }
    panic!("the ticker never rests");
}

#[test]
fn loom_a_ticker_beside_issue_and_a_new_tick() {
    model(|| {
        let Parts { clock, generator, .. } = ticking(0, 200);
        let ticker = {
            let (generator, clock) = (Arc::clone(&generator), std::sync::Arc::clone(&clock));
            thread::spawn(move || {
                let first = generator.tick();
                clock.advance_ms(1);
                assert!(matches!(first, Ticked::Again { .. }), "{first:?}");
                generator.tick();
            })
        };
        let mut ids = take(&generator, 3);
        assert!(ids.is_sorted_by(|a, b| a < b));
        ticker.join().unwrap();
        ids.extend(take(&generator, 1));
        assert!(ids.is_sorted_by(|a, b| a < b));
    });
}

#[test]
fn loom_a_ticker_beside_two_callers() {
    model(|| {
        let Parts { generator, .. } = ticking(0, 200);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || take(&generator, 2))
        };
        let ticker = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.tick())
        };
        let mut ids = take(&generator, 1);
        ids.extend(caller.join().unwrap());
        ticker.join().unwrap();
        assert_distinct(ids);
    });
}

#[test]
fn loom_no_tick_outlives_the_rest_of_the_ticker() {
    model(|| {
        let Parts { generator, wakes, .. } = ticking(0, 200);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || take(&generator, 2))
        };
        let mut idle = false;
        for _ in 0..2 {
            idle = generator.tick() == Ticked::Idle;
        }
        let ids = caller.join().unwrap();
        assert_distinct(ids);
        if idle {
            // Callers may have ended the rest; none may have published.
            assert_eq!(generator.page.published(), 0, "a tick outlives the rest");
        }
        rest(&generator);
        let before = wakes.0.load(Ordering::Relaxed);
        take(&generator, 2);
        assert_eq!(wakes.0.load(Ordering::Relaxed), before + 1, "one wake for one rest");
    });
}

#[test]
fn loom_callers_at_once_wake_the_ticker_once() {
    model(|| {
        let Parts { generator, wakes, .. } = ticking(0, 200);
        rest(&generator);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || take(&generator, 1))
        };
        let mut ids = take(&generator, 1);
        ids.extend(caller.join().unwrap());
        assert_distinct(ids);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn loom_the_end_of_a_window_beside_the_ticker() {
    model(|| {
        let Parts { clock, generator, .. } = ticking(0, 101);
        let ticker = {
            let (generator, clock) = (Arc::clone(&generator), std::sync::Arc::clone(&clock));
            thread::spawn(move || {
                generator.tick();
                clock.advance_ms(1);
                assert_eq!(generator.tick(), Ticked::Idle);
            })
        };
        let mut ids = take(&generator, 2);
        ticker.join().unwrap();
        assert_eq!(generator.page.published(), 0, "a tick outlives the window");
        ids.extend(take(&generator, 1));
        for id in &ids {
            assert!(tiny().decode(*id).tick < Tick(101), "{id:?} past the window");
        }
        assert_distinct(ids);
    });
}

#[test]
fn loom_close_beside_the_ticker_gives_back_nothing_used() {
    model(|| {
        let Parts { clock, generator, .. } = ticking(0, 200);
        let holder = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || take(&generator, 2))
        };
        let ticker = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.tick())
        };
        let closed = generator.close().unwrap();
        // Another holder gets the same generator id from the first tick given back.
        let next = Generator::new(tiny(), clock.clone());
        let from = closed.unused_from.0;
        next.open(window(tiny(), 5, from, from + 10), u64::MAX).unwrap();
        let mut ids = take(&next, 1);
        clock.advance_ms(1);
        ids.extend(take(&next, 1));
        ids.extend(holder.join().unwrap());
        ticker.join().unwrap();
        ids.extend(take(&generator, 1));
        assert_distinct(ids);
        rest(&generator);
    });
}

#[test]
fn loom_switch_beside_the_ticker_stays_inside_each_window() {
    model(|| {
        let Parts { clock, generator, .. } = ticking(0, 101);
        let ticker = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.tick())
        };
        let mut ids = take(&generator, 1);
        clock.advance_ms(1);
        generator.open(window(tiny(), 4, 101, 200), u64::MAX).unwrap();
        ids.extend(take(&generator, 1));
        ticker.join().unwrap();
        ids.extend(take(&generator, 1));
        for id in &ids {
            let parts = tiny().decode(*id);
            match parts.generator_id {
                5 => assert!(parts.tick < Tick(101), "{parts:?} after its window"),
                4 => assert!(parts.tick >= Tick(101), "{parts:?} before its window"),
                other => panic!("generator id {other} was never leased"),
            }
        }
        assert!(ids.is_sorted_by(|a, b| a < b));
        rest(&generator);
    });
}
