//! What a generator does on one thread under scripted clocks, and on many under a running one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod asking;
mod batches;
mod gauge;
mod local;
mod marker;
mod threads;
mod ticking;
mod waits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock::ScriptedClock;
use crate::{IdParts, Layout, Tick, Window};

const EPOCH: i64 = Format::DEFAULT.epoch_ms();

fn opened(layout: Layout, tick: u64, window: (u64, u64)) -> (Arc<ScriptedClock>, Generator) {
    let format = Format::new(layout, 1, EPOCH).unwrap();
    let clock = ScriptedClock::at_ms(EPOCH + i64::try_from(tick).unwrap());
    let generator = Generator::new(format, clock.clone());
    open(&generator, 7 & layout.max_generator_id(), window);
    (clock, generator)
}

fn open(generator: &Generator, generator_id: u64, (from, until): (u64, u64)) -> Option<Closed> {
    let layout = generator.format().layout();
    let window = Window::new(layout, generator_id, Tick(from), Tick(until)).unwrap();
    generator.open(window, u64::MAX).unwrap()
}

fn parts(generator: &Generator, id: Id) -> (u64, u64, u64) {
    let IdParts { tick, generator_id, sequence } = generator.format().decode(id);
    (tick.0, generator_id, sequence)
}

#[test]
fn a_failed_call_leaves_no_trace() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let next_at = |tick| {
        clock.set_ms(EPOCH + tick);
        generator.try_next_id().map(|id| parts(&generator, id))
    };
    assert_eq!([100, 100, 100].map(next_at), [0, 1, 2].map(|sequence| Ok((100, 7, sequence))));
    assert!(matches!(next_at(99), Err(Refusal::TickFull { .. })));
    assert_eq!(next_at(100), Ok((100, 7, 3)));
}

#[test]
fn a_clock_that_steps_to_and_fro_never_repeats_an_id() {
    let (clock, generator) = opened(Layout::DEFAULT, 200, (0, 1000));
    let mut last = None;
    for tick in [200, 199, 200, 199, 200, 190, 201, 150, 201] {
        clock.set_ms(EPOCH + tick);
        if let Ok(id) = generator.try_next_id() {
            assert!(Some(id) > last);
            last = Some(id);
        }
    }
    assert_eq!(last.map(|id| parts(&generator, id)), Some((201, 7, 4)));
}

#[test]
fn the_first_id_after_a_full_tick_carries_the_new_tick() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    for sequence in 0..4096 {
        assert_eq!(parts(&generator, generator.try_next_id().unwrap()), (100, 7, sequence));
    }
    assert!(matches!(generator.try_next_id(), Err(Refusal::TickFull { .. })));
    clock.advance_at_each_reading_ns(100_000);
    assert_eq!(parts(&generator, generator.next_id().unwrap()), (101, 7, 0));
}

#[test]
fn each_tick_has_its_full_capacity() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    generator.next_ids(4000).unwrap();
    clock.advance_ms(1);
    let ids: Vec<Id> = (0..4096).map(|_| generator.try_next_id().unwrap()).collect();
    assert!(ids.iter().all(|id| parts(&generator, *id).0 == 101));
    assert!(matches!(generator.try_next_id(), Err(Refusal::TickFull { .. })));
}

#[test]
fn low_rates_do_not_give_every_id_the_same_low_bits() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1_000_000));
    let mut seen = HashSet::new();
    for _ in 0..4096 {
        clock.advance_ms(3);
        seen.insert(generator.next_id().unwrap().get() % 16);
    }
    assert_eq!(seen.len(), 16);
}

#[test]
fn a_clock_that_stands_still_ends_the_wait() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    generator.next_ids(4096).unwrap();
    let stalled = |result: Result<(), Refusal>| matches!(result, Err(Refusal::ClockStalled { .. }));
    assert!(stalled(generator.next_id().map(drop)));
    assert!(stalled(generator.next_ids(4097).map(drop)));
    assert!(generator.waits() >= 2);
}

#[test]
fn a_clock_hours_back_is_refused_with_the_deficit_and_not_waited_for() {
    let (clock, generator) = opened(Layout::DEFAULT, 40_000_000, (0, 1 << 40));
    generator.next_ids(4096).unwrap();
    clock.step_id_clock_ms(-8 * 3_600_000);
    for refusal in [generator.next_id().unwrap_err(), generator.next_ids(10).unwrap_err()] {
        let Refusal::ClockBehind { deficit_ms, retry_after } = refusal else {
            panic!("{refusal:?}")
        };
        assert!(deficit_ms.abs_diff(8 * 3_600_000) <= 1, "{deficit_ms}");
        assert!(retry_after >= Duration::from_hours(7));
    }
}

#[test]
fn nothing_is_issued_outside_the_window() {
    let (clock, generator) = opened(Layout::DEFAULT, 99, (100, 110));
    let not_yet = generator.next_id().unwrap_err();
    assert_eq!(not_yet, Refusal::NotYet { retry_after: Duration::from_millis(1) });
    clock.advance_ms(1);
    assert_eq!(parts(&generator, generator.next_id().unwrap()).0, 100);
    clock.advance_ms(9);
    assert_eq!(parts(&generator, generator.next_id().unwrap()).0, 109);
    clock.advance_ms(1);
    assert_eq!(generator.next_id(), Err(Refusal::WindowEnd));
    generator.extend(Tick(120), u64::MAX);
    assert_eq!(parts(&generator, generator.next_id().unwrap()).0, 110);
    generator.extend(Tick(111), 0); // a late, lower renewal changes nothing
    assert_eq!(generator.window().unwrap().until(), Tick(120));
    assert!(generator.next_id().is_ok());
}

#[test]
fn a_batch_that_would_cross_the_end_of_the_window_is_refused_whole() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (100, 102));
    assert_eq!(generator.next_ids(3 * 4096), Err(Refusal::WindowEnd));
    assert_eq!(parts(&generator, generator.next_id().unwrap()), (100, 7, 0));
}

#[test]
fn a_value_drawn_past_the_tick_waits_for_its_tick_and_is_void_past_the_window() {
    let layout = Layout::new(40, 22, 1).unwrap();
    for (until, issued) in [(102, Some(101)), (101, None)] {
        let (clock, generator) = opened(layout, 100, (0, until));
        generator.next_ids(2).unwrap();
        // What a caller holds that lost the race for the last id of the tick.
        let drawn = generator.word.0.fetch_add(1, Ordering::Relaxed);
        let settle = || generator.next_cold(Some(drawn), Duration::ZERO);
        assert!(matches!(settle(), Err(Refusal::TickFull { .. })));
        clock.advance_ms(1);
        let id = settle();
        assert_eq!(id.ok().map(|id| parts(&generator, id).0), issued, "{id:?}");
        clock.advance_ms(1);
        assert!(settle().map_or(true, |id| parts(&generator, id).0 == 102), "a passed tick");
    }
}

#[test]
fn no_call_after_the_deadline_returns_an_id() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1 << 40));
    let now_ns = clock.boot_ns();
    let window = generator.window().unwrap();
    generator.open(window, now_ns + 10_400_000).unwrap();
    assert!(generator.next_id().is_ok());
    clock.advance_ms(10);
    assert!(generator.next_id().is_ok());
    clock.advance_ns(399_999);
    assert!(generator.next_id().is_ok());
    clock.advance_ns(1); // in the middle of a tick that was published
    assert_eq!(generator.next_id(), Err(Refusal::WindowEnd));
    assert_eq!(generator.next_ids(2), Err(Refusal::WindowEnd));
}

#[test]
fn a_pause_beyond_the_lease_is_seen_by_the_very_first_call() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (100, 10_100));
    assert!(generator.next_id().is_ok());
    clock.suspend_ms(15_000);
    assert_eq!(generator.next_id(), Err(Refusal::WindowEnd));
}

#[test]
fn closing_gives_back_only_what_was_never_used() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (100, 200));
    assert_eq!(generator.next_ids(1).map(|ids| ids.len()), Ok(1));
    let closed = generator.close().unwrap();
    assert_eq!(closed, Closed { generator_id: 7, unused_from: Tick(101) });
    assert_eq!(generator.next_id(), Err(Refusal::NoLease));
    assert_eq!(generator.close(), None);

    // Never used: all of it goes back.
    open(&generator, 7, (150, 200));
    assert_eq!(generator.close().unwrap().unused_from, Tick(150));

    // The same generator id again, at a tick that the last lease had used: ids still differ.
    open(&generator, 7, (100, 200));
    clock.advance_ms(60);
    assert!(parts(&generator, generator.next_id().unwrap()).0 >= 150);
}

#[test]
fn a_switch_of_leases_keeps_the_order_and_leaves_no_gap() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let before = generator.next_id().unwrap();
    let closed = open(&generator, 3, (0, 1000)).unwrap();
    assert_eq!(closed, Closed { generator_id: 7, unused_from: Tick(101) });
    // Generator id 3 would give a smaller id in the same tick, so its first is of the next one.
    assert!(matches!(generator.try_next_id(), Err(Refusal::TickFull { .. })));
    _clock.advance_ms(1);
    let after = generator.next_id().unwrap();
    assert!(after > before);
    assert_eq!(parts(&generator, after), (101, 3, 0));
}

#[test]
fn windows_that_do_not_fit_change_nothing() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let fleet = Window::new(Layout::FLEET, 5000, Tick(0), Tick(10)).unwrap();
    assert!(generator.open(fleet, u64::MAX).is_err());
    assert_eq!(parts(&generator, generator.next_id().unwrap()).1, 7);
}

#[test]
fn the_last_tick_works_and_the_next_is_a_typed_end() {
    let end = 1u64 << 41;
    let (clock, generator) = opened(Layout::DEFAULT, end - 2, (0, end));
    open(&generator, 1023, (0, end));
    assert_eq!(parts(&generator, generator.next_id().unwrap()), (end - 2, 1023, 0));
    clock.advance_ms(1);
    let mut count = 0;
    let refusal = loop {
        match generator.try_next_id() {
            Ok(id) => {
                assert_eq!(parts(&generator, id).0, end - 1);
                count += 1;
            }
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, Refusal::TimeEnd);
    assert!(count >= 4094, "{count}");
    clock.advance_ms(1);
    assert_eq!(generator.next_id(), Err(Refusal::TimeEnd));
    assert_eq!(generator.close().unwrap().unused_from, Tick(end));
    assert_eq!(generator.next_id(), Err(Refusal::TimeEnd));
}

#[test]
fn a_clock_before_the_epoch_is_a_typed_error() {
    let clock = ScriptedClock::at_ms(-86_400_000);
    let generator = Generator::new(Format::DEFAULT, clock);
    open(&generator, 1, (0, 1000));
    let missing_ms = 1_704_067_200_000 + 86_400_000;
    assert_eq!(generator.next_id(), Err(Refusal::BeforeEpoch { missing_ms }));
    generator.close();
    assert_eq!(generator.next_id(), Err(Refusal::BeforeEpoch { missing_ms }));
}

#[test]
fn the_epoch_itself_is_tick_0() {
    let (_clock, generator) = opened(Layout::DEFAULT, 0, (0, 10));
    open(&generator, 0, (0, 10));
    // Word 0 stands for "go cold" as well; nothing may be lost or repeated for it.
    let ids: Vec<u64> = (0..3).map(|_| generator.next_id().unwrap().get()).collect();
    assert_eq!(ids, [0, 1, 2]);
}

#[test]
fn batches_ascend_across_ticks_and_are_exact() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 100_000));
    clock.advance_at_each_reading_ns(50_000);
    let ids = generator.next_ids(10_000).unwrap();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert!(generator.next_id().unwrap() > ids[9_999]);
}

fn any_layout() -> impl Strategy<Value = Layout> {
    (18u8..=50, 0u8..=12)
        .prop_map(|(t, s)| Layout::new(t, 63 - t - s.min(63 - t), s.min(63 - t)).unwrap())
}

#[derive(Clone, Debug)]
enum Op {
    Next,
    TryNext,
    Batch(usize),
    Local { handle: usize, calls: usize },
    Ask { n: usize, drop: bool },
    Advance(u64),
    Step(i64),
    Extend(u64),
    Reopen { generator_id: u64, length: u64 },
    Close,
    Tick,
    RunCounterAt(u64),
    SetCounter(u64),
    RefreshGauge { trusted: bool },
    Pause(u64),
    Restore,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => Just(Op::Next),
        8 => Just(Op::TryNext),
        4 => (1usize..40).prop_map(Op::Batch),
        6 => (0usize..2, 1usize..9).prop_map(|(handle, calls)| Op::Local { handle, calls }),
        2 => (1usize..20, any::<bool>()).prop_map(|(n, drop)| Op::Ask { n, drop }),
        6 => (0u64..2_500_000).prop_map(Op::Advance),
        2 => (-5i64..5).prop_map(Op::Step),
        2 => (1u64..50).prop_map(Op::Extend),
        2 => (0u64..3, 1u64..30)
            .prop_map(|(generator_id, length)| Op::Reopen { generator_id, length }),
        1 => Just(Op::Close),
        6 => Just(Op::Tick),
        1 => prop_oneof![Just(0), 0u64..8_000_000_000].prop_map(Op::RunCounterAt),
        1 => prop_oneof![0u64..10_000_000, any::<u64>()].prop_map(Op::SetCounter),
        1 => any::<bool>().prop_map(|trusted| Op::RefreshGauge { trusted }),
        1 => (0u64..5).prop_map(Op::Pause),
        1 => Just(Op::Restore),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn ids_are_unique_ascending_and_inside_their_windows(
        layout in any_layout(), ops in prop::collection::vec(any_op(), 1..80),
    ) {
        unique_ascending_and_inside(layout, ops, |generator| generator)?;
    }

    #[test]
    fn ids_are_unique_ascending_and_inside_their_windows_under_a_ticker(
        layout in any_layout(), ops in prop::collection::vec(any_op(), 1..80),
    ) {
        let ticking = |generator: Generator| generator.with_ticker(Waker::noop().clone());
        unique_ascending_and_inside(layout, ops, ticking)?;
    }
}

#[expect(clippy::too_many_lines, reason = "one line or two for each operation")]
/// The store's part is played by `free_from`: per generator id, the first tick not yet granted.
fn unique_ascending_and_inside(
    layout: Layout,
    ops: Vec<Op>,
    guard: fn(Generator) -> Generator,
) -> Result<(), TestCaseError> {
    let format = Format::new(layout, 1, EPOCH).unwrap();
    let clock = ScriptedClock::at_ms(EPOCH + 1000);
    clock.advance_at_each_reading_ns(20_000);
    clock.count_at(2_450_000_000);
    clock.keep_marker();
    let generator = Generator::new(format, clock.clone()).with_max_wait(Duration::from_millis(3));
    let generator = Arc::new(guard(generator));
    let mut locals = [generator.local(), generator.local()];
    let mut last_of_local = [None, None];
    let mut stepped_back = false;
    let mut free_from = HashMap::new();
    let (mut seen, mut last) = (HashSet::new(), None);
    for op in ops {
        let mut ids = Vec::new();
        let mut by_local = None;
        match op {
            Op::Next => ids.extend(generator.next_id().ok()),
            Op::TryNext => ids.extend(generator.try_next_id().ok()),
            Op::Batch(n) => {
                if let Ok(batch) = generator.next_ids(n) {
                    prop_assert_eq!(batch.len(), n);
                    ids = batch;
                }
            }
            Op::Local { handle, calls } => {
                ids.extend((0..calls).filter_map(|_| locals[handle].try_next_id().ok()));
                by_local = Some(handle);
            }
            Op::Ask { n, drop } => {
                let (mut asked, mut asking) = (vec![Id::MIN; n], generator.ask(n).unwrap());
                let mut answer = generator.answer(&mut asking, &mut asked);
                while let (false, Ok(Asked::Again { at_boot_ns })) = (drop, &answer) {
                    clock.advance_ns(at_boot_ns.saturating_sub(clock.boot_ns()));
                    answer = generator.answer(&mut asking, &mut asked);
                }
                if answer == Ok(Asked::Done) {
                    ids = asked;
                }
            }
            Op::Advance(ns) => clock.advance_ns(ns),
            Op::Step(ms) => {
                clock.step_id_clock_ms(ms);
                stepped_back |= ms < 0;
            }
            Op::Extend(by) => {
                if let Some(window) = generator.window() {
                    let until = Tick(window.until().0 + by);
                    free_from.insert(window.generator_id(), until.0);
                    generator.extend(until, u64::MAX);
                }
            }
            Op::Reopen { generator_id, length } => {
                let generator_id = generator_id & layout.max_generator_id();
                let now = format.tick_at(clock.now()).unwrap().0;
                // A holder closes first when it is to have the same generator id again.
                if let Some(closed) = generator.close() {
                    free_from.insert(closed.generator_id, closed.unused_from.0);
                }
                let from = now.max(free_from.get(&generator_id).copied().unwrap_or(0));
                let until = (from + length).min(layout.max_tick());
                if from < until {
                    open(&generator, generator_id, (from, until));
                    free_from.insert(generator_id, until);
                }
            }
            Op::Close => {
                if let Some(closed) = generator.close() {
                    free_from.insert(closed.generator_id, closed.unused_from.0);
                }
            }
            Op::Tick => {
                if generator.tick() == Ticked::Idle {
                    prop_assert!(
                        !generator.is_ticking() || generator.page.published() == 0,
                        "a tick outlives the rest"
                    );
                }
            }
            Op::RunCounterAt(hz) => clock.run_counter_at(hz),
            Op::SetCounter(value) => clock.set_counter(value),
            Op::RefreshGauge { trusted } => {
                clock.trust_counter(trusted);
                generator.refresh_gauge();
            }
            Op::Pause(ms) => clock.pause(-1000, ms),
            Op::Restore => clock.restore_machine(),
        }
        prop_assert!(ids.is_empty() || !generator.is_restored());
        for id in ids {
            let window = generator.window().unwrap();
            let IdParts { tick, generator_id, .. } = format.decode(id);
            prop_assert!(window.from() <= tick && tick < window.until());
            prop_assert_eq!(generator_id, window.generator_id());
            prop_assert!(seen.insert(id), "{:?} was issued twice", id);
            if let Some(handle) = by_local {
                let own = last_of_local[handle].replace(id);
                prop_assert!(Some(id) > own, "{:?} after {:?} of one handle", id, own);
                let latest = last.map(|last| format.decode(last).tick);
                prop_assert!(stepped_back || Some(tick) >= latest, "{:?} after {:?}", id, last);
            } else {
                prop_assert!(Some(id) > last, "{:?} after {:?}", id, last);
            }
            last = last.max(Some(id));
        }
    }
    Ok(())
}
