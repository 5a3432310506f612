//! Handles of threads beside each other, single calls, a ticker and the keeper. Blocks are of two
//! values here, so that one reaches past the end of a tick.

use super::*;

fn shared(from: u64, until: u64) -> (std::sync::Arc<ScriptedClock>, std::sync::Arc<Generator>) {
    let (clock, generator) = generator(tiny(), 100);
    generator.open(window(tiny(), 5, from, until), u64::MAX).unwrap();
    (clock, std::sync::Arc::new(generator))
}

fn take_local(local: &mut Local, calls: usize) -> Vec<Id> {
    let ids: Vec<Id> = (0..calls).filter_map(|_| local.try_next_id().ok()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "the order of one handle broke: {ids:?}");
    ids
}

#[test]
fn loom_local_beside_local_and_a_new_tick() {
    model(|| {
        let (clock, generator) = shared(0, 200);
        let mut other = generator.local();
        let other = thread::spawn(move || {
            let mut ids = take_local(&mut other, 2);
            clock.advance_ms(1);
            ids.extend(take_local(&mut other, 1));
            ids
        });
        let mut local = generator.local();
        let mut ids = take_local(&mut local, 3);
        let beside = other.join().unwrap();
        // Nobody draws any more: a single call is above all that was issued.
        if let Ok(id) = generator.try_next_id() {
            assert!(ids.iter().chain(&beside).all(|issued| *issued < id));
            ids.push(id);
        }
        ids.extend(take_local(&mut local, 1));
        ids.extend(beside);
        assert_distinct(ids);
    });
}

#[test]
fn loom_close_beside_local_gives_back_nothing_of_a_block() {
    model(|| {
        let (clock, generator) = shared(0, 200);
        let mut local = generator.local();
        let mut ids = take_local(&mut local, 2); // a block of one, then one value of a block of two
        let holder = thread::spawn(move || take_local(&mut local, 3));
        let closed = generator.close().unwrap();
        // Another holder gets the same generator id from the first tick given back.
        clock.advance_ms(1);
        let next = Generator::new(tiny(), clock);
        let from = closed.unused_from.0;
        next.open(window(tiny(), 5, from, from + 10), u64::MAX).unwrap();
        ids.extend(take(&next, 2));
        ids.extend(holder.join().unwrap());
        assert_distinct(ids);
    });
}

#[test]
fn loom_switch_beside_local_stays_inside_each_window() {
    model(|| {
        let (clock, generator) = shared(0, 101);
        let mut local = generator.local();
        let mut ids = take_local(&mut local, 2);
        let caller = thread::spawn(move || take_local(&mut local, 3));
        clock.advance_ms(1);
        generator.open(window(tiny(), 4, 101, 200), u64::MAX).unwrap();
        ids.extend(caller.join().unwrap());
        assert!(ids.is_sorted_by(|a, b| a < b), "the order broke at the switch: {ids:?}");
        ids.extend(take(&generator, 1));
        assert_inside_each_window(&ids);
        assert_distinct(ids);
    });
}

#[test]
fn loom_reopening_the_same_generator_id_beside_local_repeats_nothing() {
    model(|| {
        let (clock, generator) = shared(0, 101);
        let mut local = generator.local();
        let mut ids = take_local(&mut local, 2);
        let caller = thread::spawn(move || take_local(&mut local, 2));
        let closed = generator.close().unwrap();
        clock.advance_ms(1);
        let from = closed.unused_from.0;
        generator.open(window(tiny(), 5, from, from + 9), u64::MAX).unwrap();
        ids.extend(take(&generator, 1));
        ids.extend(caller.join().unwrap());
        assert_distinct(ids);
    });
}

#[test]
fn loom_late_publication_lets_no_handle_past_a_close() {
    model(|| {
        let (clock, generator) = shared(0, 200);
        let mut local = generator.local();
        let mut ids = take_local(&mut local, 2);
        let publisher = {
            let generator = std::sync::Arc::clone(&generator);
            thread::spawn(move || take(&generator, 1))
        };
        let closed = generator.close().unwrap();
        // Whatever the other thread publishes from here on: the gate is closed.
        assert!(take_local(&mut local, 1).is_empty(), "an id after the close");
        ids.extend(publisher.join().unwrap());
        assert!(take_local(&mut local, 1).is_empty(), "an id after the close");
        clock.advance_ms(1);
        generator.open(window(tiny(), 5, closed.unused_from.0, 200), u64::MAX).unwrap();
        ids.extend(take_local(&mut local, 1));
        assert_distinct(ids);
    });
}
