//! Counters that stop, fall back or run wild, against a boot clock that does not.

use super::*;

/// At tick 100 of a window to 1000, with a counter of 2 GHz.
fn counting() -> (Arc<ScriptedClock>, Generator) {
    let clock = ScriptedClock::at_ms(EPOCH + 100);
    clock.count_at(2_000_000_000);
    let generator = Generator::new(Format::DEFAULT, clock.clone());
    open(&generator, 7, (0, 1000));
    assert_eq!(tick_of(&generator), 100);
    (clock, generator)
}

fn tick_of(generator: &Generator) -> u64 {
    parts(generator, generator.try_next_id().unwrap()).0
}

#[test]
fn a_counter_that_runs_as_it_says_ends_each_tick_to_the_nanosecond() {
    let (clock, generator) = counting();
    clock.advance_ns(999_999);
    assert_eq!(tick_of(&generator), 100);
    clock.advance_ns(1);
    assert_eq!(tick_of(&generator), 101);
    clock.suspend_ms(500);
    assert_eq!(tick_of(&generator), 601);
}

#[test]
fn a_counter_that_stops_holds_a_tick_for_one_sequence_at_most() {
    let (clock, generator) = counting();
    clock.run_counter_at(0);
    clock.advance_ms(50);
    let mut ids = vec![generator.try_next_id().unwrap()];
    while parts(&generator, ids[ids.len() - 1]).0 == 100 {
        ids.push(generator.try_next_id().unwrap());
    }
    assert_eq!((ids.len(), parts(&generator, ids[ids.len() - 1]).0), (4096, 150));
    assert!(ids.is_sorted_by(|a, b| a < b));
}

#[test]
fn a_counter_that_is_no_longer_trusted_is_left_by_the_very_next_call() {
    let (clock, generator) = counting();
    clock.run_counter_at(0);
    clock.advance_ms(50);
    assert_eq!(tick_of(&generator), 100);
    clock.trust_counter(false);
    generator.refresh_gauge();
    assert_eq!(generator.page.published(), 0, "what the old gauge held is held no more");
    assert_eq!(tick_of(&generator), 150);
    clock.advance_ms(1);
    assert_eq!(tick_of(&generator), 151);
    // And taken up again, with its own unit.
    clock.trust_counter(true);
    clock.run_counter_at(2_000_000_000);
    generator.refresh_gauge();
    assert_eq!(tick_of(&generator), 151);
    clock.advance_ns(999_999);
    assert_eq!(tick_of(&generator), 151);
    clock.advance_ns(1);
    assert_eq!(tick_of(&generator), 152);
}

#[test]
fn a_counter_that_begins_anew_after_a_resume_is_seen_by_the_very_first_call() {
    let (clock, generator) = counting();
    clock.suspend_ms(600);
    clock.set_counter(0);
    assert_eq!(tick_of(&generator), 700);
}

#[test]
fn a_counter_that_falls_back_inside_a_tick_prolongs_it_by_a_tick_at_most() {
    let (clock, generator) = counting();
    let began = clock.read_gauge();
    clock.advance_ns(999_999);
    clock.set_counter(began);
    assert_eq!(tick_of(&generator), 100);
    clock.advance_ns(999_999);
    assert_eq!(tick_of(&generator), 100);
    clock.advance_ns(1);
    assert_eq!(tick_of(&generator), 101);
    clock.set_counter(began - 3_000_000);
    assert_eq!(tick_of(&generator), 101, "looked at anew");
}

#[test]
fn a_counter_twice_as_fast_costs_readings_and_one_half_as_fast_a_tick() {
    let (clock, generator) = counting();
    clock.run_counter_at(4_000_000_000);
    for tick in 100..150 {
        assert_eq!(tick_of(&generator), tick);
        clock.advance_ms(1);
    }
    clock.run_counter_at(1_000_000_000);
    assert_eq!(tick_of(&generator), 150);
    clock.advance_ns(1_999_999);
    assert_eq!(tick_of(&generator), 150);
    clock.advance_ns(1);
    assert_eq!(tick_of(&generator), 152);
}

#[test]
fn a_counter_that_runs_wild_costs_no_id() {
    let (clock, generator) = counting();
    let (mut last, mut random) = (None, 0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        clock.set_counter(if random & 1 << 40 == 0 { random } else { 1 << 40 });
        clock.advance_ns(random >> 50);
        let id = generator.try_next_id().unwrap();
        assert!(Some(id) > last);
        last = Some(id);
    }
    assert!(parts(&generator, last.unwrap()).0 > 200);
}
