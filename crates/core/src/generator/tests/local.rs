//! A thread's own handle: its block obeys whatever a single call obeys.

use super::threads::RunningClock;
use super::*;

fn sequence(generator: &Generator, id: Id) -> u64 {
    parts(generator, id).2
}

/// A handle that holds the rest of a block, and what it has issued.
fn with_a_block(generator: &Arc<Generator>) -> (Local, Vec<Id>) {
    let mut local = generator.local();
    // 1, 1, 2, 4, 8, 16 and 32 values are drawn, and all but the last few used.
    let ids = (0..60).map(|_| local.try_next_id().unwrap()).collect();
    (local, ids)
}

#[test]
fn one_handle_gets_every_id_of_a_tick() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator);
    let mut local = generator.local();
    for tick in 100..103 {
        let ids: Vec<Id> = (0..4096).map(|_| local.try_next_id().unwrap()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids.iter().all(|id| parts(&generator, *id).0 == tick));
        assert!(matches!(local.try_next_id(), Err(Refusal::TickFull { .. })));
        clock.advance_ms(1);
    }
}

#[test]
fn handles_beside_single_calls_repeat_nothing() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator);
    let mut locals = [generator.local(), generator.local(), generator.local()];
    let mut seen = HashSet::new();
    for round in 0..3000 {
        let single = generator.try_next_id().unwrap();
        // Nobody has drawn after a single call, so it is the largest.
        assert!(seen.iter().all(|id| *id < single));
        assert!(seen.insert(single));
        for local in &mut locals {
            assert!(seen.insert(local.try_next_id().unwrap()));
        }
        if round % 100 == 99 {
            clock.advance_ms(1);
        }
    }
}

#[test]
fn a_handle_wastes_no_more_of_a_tick_than_it_used() {
    for used in [1, 2, 5, 17, 60, 300] {
        let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
        let generator = Arc::new(generator);
        let mut local = generator.local();
        let ids: Vec<Id> = (0..used).map(|_| local.try_next_id().unwrap()).collect();
        assert_eq!(ids.len() as u64, used);
        let drawn = sequence(&generator, generator.try_next_id().unwrap());
        let wasted = drawn - used;
        assert!(wasted <= used.min(63), "{used} were used and {wasted} wasted");
    }
}

#[test]
fn blocks_begin_anew_in_each_tick_though_others_publish_it() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator);
    let mut local = generator.local();
    for tick in 100..140 {
        let first = generator.try_next_id().unwrap(); // publishes the tick
        for _ in 0..2 {
            assert_eq!(parts(&generator, local.try_next_id().unwrap()).0, tick);
        }
        let last = generator.try_next_id().unwrap();
        let drawn = sequence(&generator, last) - sequence(&generator, first) - 1;
        assert!(drawn <= 4, "{drawn} values were drawn for 2 ids in tick {tick}");
        clock.advance_ms(1);
    }
}

/// What a thread does that lost its core between its look at the clock and its publication.
fn publish_late(generator: &Generator, meanwhile: impl FnOnce()) {
    let turn = generator.look(0, Duration::ZERO).unwrap();
    meanwhile();
    generator.publish(&turn);
}

#[test]
fn a_tick_published_late_lets_no_block_past_the_gate() {
    for ticking in [false, true] {
        let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
        let generator =
            if ticking { generator.with_ticker(Waker::noop().clone()) } else { generator };
        let generator = Arc::new(generator);
        generator.tick();
        let (mut local, _) = with_a_block(&generator);
        publish_late(&generator, || assert!(generator.close().is_some()));
        assert_eq!(local.try_next_id(), Err(Refusal::NoLease), "after the gate was closed");

        open(&generator, 3, (101, 1000));
        clock.advance_ms(1);
        generator.tick();
        let (mut local, ids) = with_a_block(&generator);
        publish_late(&generator, || {
            open(&generator, 7, (101, 1000));
            clock.advance_ms(5);
            assert_eq!(parts(&generator, generator.next_id().unwrap()), (106, 7, 0));
        });
        let id = local.try_next_id().unwrap();
        assert!(id > ids[59]);
        let (tick, generator_id, _) = parts(&generator, id);
        assert_eq!((tick, generator_id), (106, 7), "under a lease that was switched away");
    }
}

#[test]
fn callers_at_the_end_of_time_issue_nothing_under_the_next_generator_id() {
    let end = 1u64 << 41;
    let (_clock, generator) = opened(Layout::DEFAULT, end - 2, (0, end));
    // As though many had added at once.
    let word = generator.word.0.load(Ordering::Relaxed);
    let past = generator.shape.end(word) + 5;
    generator.word.0.fetch_add(past - word, Ordering::Relaxed);
    assert_eq!(generator.next_id(), Err(Refusal::TimeEnd));
    assert_eq!(generator.next_ids(3), Err(Refusal::TimeEnd));
    let closed = generator.close().unwrap();
    assert_eq!(closed, Closed { generator_id: 7, unused_from: Tick(end) });
}

#[test]
fn low_rates_of_a_handle_do_not_give_every_id_the_same_low_bits() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1_000_000));
    let mut local = Arc::new(generator).local();
    let mut seen = HashSet::new();
    for _ in 0..4096 {
        clock.advance_ms(3);
        seen.insert(local.next_id().unwrap().get() % 16);
    }
    assert_eq!(seen.len(), 16);
}

#[test]
fn what_a_block_holds_is_not_given_back() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator);
    // Of the last block of this tick some values lie in the next one.
    generator.next_ids(4030).unwrap();
    let (mut local, mut ids) = with_a_block(&generator);
    ids.extend(std::iter::from_fn(|| local.try_next_id().ok()));
    let closed = generator.close().unwrap();
    assert_eq!(closed.unused_from, Tick(102), "the block reaches into tick 101");
    assert_eq!(local.try_next_id(), Err(Refusal::NoLease));

    let next = Generator::new(Format::DEFAULT, clock.clone());
    open(&next, 7, (closed.unused_from.0, 1000));
    clock.advance_ms(2);
    assert_eq!(local.try_next_id(), Err(Refusal::NoLease));
    assert!(next.next_id().unwrap() > ids[ids.len() - 1]);
}

#[test]
fn a_block_ends_with_the_window_and_with_the_tick() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (100, 101));
    let generator = Arc::new(generator);
    let (mut local, _) = with_a_block(&generator);
    clock.advance_ms(1);
    assert_eq!(local.next_id(), Err(Refusal::WindowEnd));

    generator.extend(Tick(200), u64::MAX);
    let id = local.next_id().unwrap();
    assert_eq!(parts(&generator, id).0, 101, "a value of the tick before was used");
}

#[test]
fn a_block_ends_with_the_deadline_in_the_middle_of_a_tick() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1 << 40));
    let window = generator.window().unwrap();
    generator.open(window, clock.boot_ns() + 1_500_000).unwrap();
    let generator = Arc::new(generator);
    clock.advance_ms(1);
    let (mut local, _) = with_a_block(&generator);
    clock.advance_ns(499_999);
    assert!(local.next_id().is_ok());
    clock.advance_ns(1);
    assert_eq!(local.next_id(), Err(Refusal::WindowEnd));
}

#[test]
fn the_first_call_after_a_pause_is_as_right_as_a_single_one() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (100, 10_100));
    let generator = Arc::new(generator);
    let (mut local, _) = with_a_block(&generator);
    clock.suspend_ms(3000);
    assert_eq!(parts(&generator, local.next_id().unwrap()).0, 3100);
    clock.suspend_ms(15_000);
    assert_eq!(local.next_id(), Err(Refusal::WindowEnd));
}

#[test]
fn a_switch_of_the_lease_voids_the_block() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator);
    let (mut local, ids) = with_a_block(&generator);
    open(&generator, 3, (0, 1000));
    assert!(matches!(local.try_next_id(), Err(Refusal::TickFull { .. })));
    clock.advance_ms(1);
    let id = local.try_next_id().unwrap();
    assert_eq!(parts(&generator, id), (101, 3, 0));
    assert!(id > ids[59]);
}

#[test]
fn a_restored_machine_issues_nothing_from_a_block() {
    let clock = ScriptedClock::at_ms(EPOCH + 100);
    clock.keep_marker();
    let generator = Arc::new(Generator::new(Format::DEFAULT, clock.clone()));
    open(&generator, 7, (0, 1000));
    let (mut local, ids) = with_a_block(&generator);
    clock.restore_machine();
    assert_eq!(local.next_id(), Err(Refusal::Restored));
    assert_eq!(local.try_next_id(), Err(Refusal::Restored));
    // The same generator id at once, as a store would never grant it: the block stays void.
    generator.close();
    open(&generator, 7, (0, 1000));
    clock.advance_ms(1);
    let id = local.next_id().unwrap();
    assert!(id > ids[59]);
    assert_eq!(parts(&generator, id).0, 101);
}

#[test]
fn a_refused_call_keeps_what_it_drew() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator);
    let (mut local, _) = with_a_block(&generator);
    generator.next_ids(4096 - 64).unwrap();
    let mut rest = std::iter::from_fn(|| local.try_next_id().ok());
    let rest: Vec<Id> = rest.by_ref().collect();
    assert!(rest.iter().all(|id| parts(&generator, *id).0 == 100));
    let before = generator.word.0.load(Ordering::Relaxed);
    (0..100).for_each(|_| assert!(local.try_next_id().is_err()));
    assert_eq!(generator.word.0.load(Ordering::Relaxed), before, "refusals drew values");
    clock.advance_ms(1);
    assert_eq!(parts(&generator, local.try_next_id().unwrap()).0, 101);
}

#[test]
fn a_handle_waits_for_the_next_tick_and_no_longer_than_it_may() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = Arc::new(generator.with_max_wait(Duration::from_millis(3)));
    let mut local = generator.local();
    assert!((0..4096).all(|_| local.next_id().is_ok()));
    clock.advance_at_each_reading_ns(10_000);
    assert_eq!(parts(&generator, local.next_id().unwrap()).0, 101);
    clock.advance_at_each_reading_ns(0);
    assert!(std::iter::from_fn(|| local.try_next_id().ok()).count() > 4000);
    assert!(matches!(local.next_id(), Err(Refusal::ClockStalled { .. })));
}

#[test]
fn sixteen_threads_with_handles_repeat_nothing() {
    let generator = Arc::new(Generator::new(Format::DEFAULT, RunningClock::start()));
    open(&generator, 9, (0, 1 << 40));
    let issued: Vec<Vec<Id>> = std::thread::scope(|scope| {
        let threads = [(); 16].map(|()| {
            let mut local = generator.local();
            scope.spawn(move || {
                let mut ids = Vec::new();
                while ids.len() < 40_000 {
                    match local.next_id() {
                        Ok(id) => ids.push(id),
                        Err(refusal) => assert!(refusal.retry_after().is_some(), "{refusal}"),
                    }
                }
                ids
            })
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for ids in &issued {
        assert!(ids.is_sorted_by(|a, b| a < b));
    }
    let distinct: HashSet<Id> = issued.iter().flatten().copied().collect();
    assert_eq!(distinct.len(), 16 * 40_000);
}
