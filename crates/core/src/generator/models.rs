//! loom models: every interleaving, within a preemption bound, of issue, turn, renew, close and
//! switch.
//!
//! Run by `cargo xtask test --only loom`, once as is and once with loads made read-modify-writes.
//! The layouts are tiny, so that a tick fills and a window ends within a few steps. The store's
//! part is played by a second generator that is opened where the first was closed. Opening, closing
//! and extending are not set against each other: one lock keeps them apart, and one keeper calls
//! them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod local;
mod marker;
mod ticking;

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::clock::ScriptedClock;
use crate::{Layout, Tick, Window};

const EPOCH: i64 = Format::DEFAULT.epoch_ms();

/// Ticks of four ids, so that a few calls fill one.
fn tiny() -> Format {
    Format::new(Layout::new(40, 21, 2).unwrap(), 1, EPOCH).unwrap()
}

fn generator(format: Format, tick: i64) -> (std::sync::Arc<ScriptedClock>, Generator) {
    let clock = ScriptedClock::at_ms(EPOCH + tick);
    let generator = Generator::new(format, clock.clone());
    (clock, generator)
}

fn window(format: Format, generator_id: u64, from: u64, until: u64) -> Window {
    Window::new(format.layout(), generator_id, Tick(from), Tick(until)).unwrap()
}

fn assert_distinct(mut ids: Vec<Id>) {
    ids.sort_unstable();
    assert!(ids.is_sorted_by(|a, b| a < b), "an id was issued twice: {ids:?}");
}

/// The window of generator id 5 ends at tick 101, where that of 4 begins.
fn assert_inside_each_window(ids: &[Id]) {
    for id in ids {
        let parts = tiny().decode(*id);
        match parts.generator_id {
            5 => assert!(parts.tick < Tick(101), "{parts:?} after its window"),
            4 => assert!(parts.tick >= Tick(101), "{parts:?} before its window"),
            other => panic!("generator id {other} was never leased"),
        }
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    // A caller that looks again during a switch makes a path long, not endless: it gives way each
    // time.
    builder.max_branches = 20_000;
    builder.check(body);
}

fn take(generator: &Generator, calls: usize) -> Vec<Id> {
    (0..calls).filter_map(|_| generator.try_next_id().ok()).collect()
}

#[test]
fn loom_issue_beside_issue_and_a_new_tick() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let other = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || {
                let mut ids = take(&generator, 2);
                clock.advance_ms(1);
                ids.extend(take(&generator, 2));
                assert!(ids.is_sorted_by(|a, b| a < b));
                ids
            })
        };
        let mut ids = take(&generator, 3);
        assert!(ids.is_sorted_by(|a, b| a < b));
        ids.extend(other.join().unwrap());
        assert_distinct(ids);
    });
}

#[test]
fn loom_close_beside_issue_gives_back_nothing_used() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let holder = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || take(&generator, 3))
        };
        let closed = generator.close().unwrap();
        // Another holder gets the same generator id from the first tick given back.
        clock.advance_ms(1);
        let next_format = tiny();
        let next = Generator::new(next_format, clock);
        let until = closed.unused_from.0 + 10;
        next.open(window(next_format, 5, closed.unused_from.0, until), u64::MAX).unwrap();
        let mut ids = take(&next, 2);
        ids.extend(holder.join().unwrap());
        assert_distinct(ids);
    });
}

#[test]
fn loom_switch_beside_issue_stays_inside_each_window() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 101), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || {
                let ids = take(&generator, 3);
                assert!(ids.is_sorted_by(|a, b| a < b));
                ids
            })
        };
        clock.advance_ms(1);
        // The window of generator id 5 ends where that of 4 begins.
        generator.open(window(tiny(), 4, 101, 200), u64::MAX).unwrap();
        let mut ids = take(&generator, 1);
        ids.extend(caller.join().unwrap());
        assert_inside_each_window(&ids);
        assert_distinct(ids);
    });
}

#[test]
fn loom_switch_to_a_shorter_window_keeps_order_and_end() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let caller = {
            let (generator, clock) = (Arc::clone(&generator), std::sync::Arc::clone(&clock));
            thread::spawn(move || {
                let mut ids = take(&generator, 1);
                clock.advance_ms(2);
                ids.extend(take(&generator, 1));
                assert!(ids.is_sorted_by(|a, b| a < b), "the order broke at the switch: {ids:?}");
                ids
            })
        };
        // Generator id 4 gives smaller ids in a tick that 5 has used, and its window ends early.
        generator.open(window(tiny(), 4, 100, 102), u64::MAX).unwrap();
        let mut ids = caller.join().unwrap();
        ids.extend(take(&generator, 1));
        for id in &ids {
            let parts = tiny().decode(*id);
            assert!(parts.generator_id == 5 || parts.tick < Tick(102), "{parts:?} past its window");
        }
        assert_distinct(ids);
    });
}

#[test]
fn loom_reopening_after_callers_drew_past_the_tick() {
    model(|| {
        let format = Format::new(Layout::new(40, 22, 1).unwrap(), 1, EPOCH).unwrap();
        let (clock, generator) = generator(format, 100);
        generator.open(window(format, 5, 0, 101), u64::MAX).unwrap();
        let mut ids = take(&generator, 2);
        // A caller that lost a race for the last id holds a value of the next tick, past the
        // window.
        let drawn = generator.word.0.fetch_add(1, Ordering::Relaxed);
        let generator = Arc::new(generator);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.next_cold(Some(drawn), Duration::ZERO).ok())
        };
        let closed = generator.close().unwrap();
        assert_eq!(closed.unused_from, Tick(101), "more was given back than was leased");
        clock.advance_ms(1);
        generator.open(window(format, 5, 101, 110), u64::MAX).unwrap();
        ids.extend(take(&generator, 2));
        ids.extend(caller.join().unwrap());
        assert_distinct(ids);
    });
}

#[test]
fn loom_renew_beside_issue_never_lets_an_id_past_what_was_confirmed() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 101), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || {
                let mut ids = take(&generator, 1);
                clock.advance_ms(1);
                ids.extend(take(&generator, 2));
                ids
            })
        };
        generator.extend(Tick(102), u64::MAX);
        generator.extend(Tick(101), u64::MAX); // late and lower
        let mut ids = caller.join().unwrap();
        ids.extend(take(&generator, 1));
        for id in &ids {
            assert!(tiny().decode(*id).tick < Tick(102));
        }
        assert!(ids.iter().any(|id| tiny().decode(*id).tick == Tick(101)), "renewed, yet not used");
        assert_distinct(ids);
    });
}

#[test]
fn loom_reopening_the_same_generator_id_repeats_nothing() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 101), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let caller = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || take(&generator, 3))
        };
        let closed = generator.close().unwrap();
        clock.advance_ms(1);
        let from = closed.unused_from.0;
        generator.open(window(tiny(), 5, from, from + 9), u64::MAX).unwrap();
        let mut ids = take(&generator, 3);
        ids.extend(caller.join().unwrap());
        assert_distinct(ids);
    });
}

#[test]
fn loom_a_change_of_gauge_beside_issue() {
    model(|| {
        let clock = ScriptedClock::at_ms(EPOCH + 100);
        clock.count_at(2_000_000_000);
        let generator = Generator::new(tiny(), clock.clone());
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let caller = {
            let (generator, clock) = (Arc::clone(&generator), std::sync::Arc::clone(&clock));
            thread::spawn(move || {
                let mut ids = take(&generator, 1);
                clock.advance_ms(1);
                ids.extend(take(&generator, 1));
                assert!(ids.is_sorted_by(|a, b| a < b));
                ids
            })
        };
        clock.trust_counter(false);
        generator.refresh_gauge();
        let mut ids = caller.join().unwrap();
        // Whatever was published meanwhile: a tick later nothing of it holds.
        clock.advance_ms(2);
        let late = generator.try_next_id().unwrap();
        assert!(tiny().decode(late).tick >= Tick(102), "an old tick holds on another gauge");
        ids.push(late);
        assert_distinct(ids);
    });
}

#[test]
fn loom_batch_beside_issue_and_close() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        clock.advance_at_each_reading_ns(150_000);
        let batch = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.next_ids(3).unwrap_or_default())
        };
        let mut ids = take(&generator, 1);
        let unused_from = generator.close().unwrap().unused_from;
        let batch = batch.join().unwrap();
        assert!(batch.is_empty() || batch.len() == 3);
        assert!(batch.is_sorted_by(|a, b| a < b));
        ids.extend(batch);
        for id in &ids {
            assert!(tiny().decode(*id).tick < unused_from, "{id:?} was given back");
        }
        assert_distinct(ids);
    });
}

#[test]
fn loom_batch_in_a_published_tick_beside_issue_and_close() {
    model(|| {
        let (clock, generator) = generator(tiny(), 100);
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let mut ids = take(&generator, 1); // publishes the tick
        let generator = Arc::new(generator);
        let batch = {
            let generator = Arc::clone(&generator);
            thread::spawn(move || generator.next_ids(2).unwrap_or_default())
        };
        let single = take(&generator, 1);
        let unused_from = generator.close().unwrap().unused_from;
        clock.advance_ms(1);
        let next = Generator::new(tiny(), clock);
        next.open(window(tiny(), 5, unused_from.0, 200), u64::MAX).unwrap();
        ids.extend(take(&next, 1));
        ids.extend(single);
        let batch = batch.join().unwrap();
        assert!(batch.is_empty() || batch.len() == 2 && batch[0] < batch[1]);
        ids.extend(batch);
        assert_distinct(ids);
    });
}
