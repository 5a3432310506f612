//! Calls that never block: what they get, when they are to come again, and what they leave behind.

use super::*;

/// Goes on with a call, moving the clock to where it is told to come again.
fn answered(
    clock: &ScriptedClock,
    generator: &Generator,
    asking: &mut Asking,
    ids: &mut [Id],
) -> Result<u32, Refusal> {
    let mut waits = 0;
    while let Asked::Again { at_boot_ns } = generator.answer(asking, ids)? {
        waits += 1;
        clock.advance_ns(at_boot_ns - clock.boot_ns());
    }
    Ok(waits)
}

#[test]
fn a_call_gets_what_a_blocking_one_would_and_in_the_order_of_asking() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let first = generator.next_id().unwrap();
    assert!(generator.ask_one().unwrap() > first);
    let mut ids = vec![Id::MIN; 10_000];
    let mut asking = generator.ask(ids.len()).unwrap();
    assert!(matches!(generator.answer(&mut asking, &mut ids), Ok(Asked::Again { .. })));
    // It has its place: who asks later comes after it.
    let later = generator.next_ids(1);
    assert!(matches!(later, Err(Refusal::TickFull { .. } | Refusal::ClockStalled { .. })));
    assert_eq!(answered(&clock, &generator, &mut asking, &mut ids), Ok(2));
    assert!(ids.is_sorted_by(|a, b| a < b) && ids[0] > first);
    assert_eq!(parts(&generator, ids[9_999]).0, 102);
    assert!(generator.next_id().unwrap() > ids[9_999]);
}

#[test]
fn one_id_at_once_or_a_call_for_it() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let mut last = generator.next_ids(4096).unwrap()[4095];
    for tick in 101..104 {
        let mut asking = generator.ask_one().unwrap_err();
        let mut id = [Id::MIN];
        assert_eq!(answered(&clock, &generator, &mut asking, &mut id), Ok(1));
        assert_eq!(parts(&generator, id[0]).0, tick);
        assert!(id[0] > last);
        last = *generator.next_ids(4095).unwrap().last().unwrap();
    }
}

#[test]
fn a_call_that_comes_late_loses_what_it_missed_and_keeps_the_rest() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let mut ids = vec![Id::MIN; 3 * 4096];
    let mut asking = generator.ask(ids.len()).unwrap();
    assert!(matches!(generator.answer(&mut asking, &mut ids), Ok(Asked::Again { .. })));
    clock.advance_ms(2); // tick 101 went by
    assert!(matches!(generator.answer(&mut asking, &mut ids), Ok(Asked::Again { .. })));
    assert_eq!(answered(&clock, &generator, &mut asking, &mut ids), Ok(1));
    assert!(ids.is_sorted_by(|a, b| a < b));
    let ticks = [0, 4095, 4096, 8191, 8192].map(|n| parts(&generator, ids[n]).0);
    assert_eq!(ticks, [100, 100, 102, 102, 103]);
}

#[test]
fn a_call_that_is_dropped_leaves_a_gap_and_nothing_else() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    generator.next_ids(4096).unwrap();
    let reserved = generator.answer(&mut generator.ask(100).unwrap(), &mut [Id::MIN; 100]);
    assert!(matches!(reserved, Ok(Asked::Again { .. })));
    clock.advance_ms(1);
    assert_eq!(parts(&generator, generator.next_id().unwrap()), (101, 7, 100));
}

#[test]
fn a_call_is_refused_as_a_blocking_one_is() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 102));
    assert!(matches!(generator.ask(0), Err(Refusal::BatchSize { .. })));
    assert!(matches!(generator.ask(usize::MAX), Err(Refusal::BatchSize { .. })));
    let mut ids = vec![Id::MIN; 9_000];
    let mut asking = generator.ask(9_000).unwrap();
    assert_eq!(generator.answer(&mut asking, &mut ids), Err(Refusal::WindowEnd));

    // The lease is closed while it waits.
    let mut asking = generator.ask(5_000).unwrap();
    let answer = generator.answer(&mut asking, &mut ids[..5_000]);
    assert!(matches!(answer, Ok(Asked::Again { .. })));
    generator.close();
    clock.advance_ms(1);
    assert_eq!(generator.answer(&mut asking, &mut ids[..5_000]), Err(Refusal::NoLease));
}

#[test]
fn a_call_waits_no_longer_than_a_blocking_one_may() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = generator.with_max_wait(Duration::from_millis(2));
    generator.next_ids(4096).unwrap();
    let mut id = [Id::MIN];
    let mut asking = generator.ask_one().unwrap_err();
    assert!(matches!(generator.answer(&mut asking, &mut id), Ok(Asked::Again { .. })));
    clock.step_id_clock_ms(-50);
    clock.advance_ms(3);
    assert!(matches!(generator.answer(&mut asking, &mut id), Err(Refusal::TickFull { .. })));
}

#[test]
fn a_clock_that_stands_still_ends_a_call() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    generator.next_ids(4096).unwrap();
    let mut asking = generator.ask_one().unwrap_err();
    let refusal = loop {
        match generator.answer(&mut asking, &mut [Id::MIN]) {
            Ok(answer) => assert!(matches!(answer, Asked::Again { .. })),
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, Refusal::ClockStalled { .. }));
}

#[test]
fn a_call_across_a_restore_is_refused() {
    let clock = ScriptedClock::at_ms(EPOCH + 100);
    clock.keep_marker();
    let generator = Generator::new(Format::DEFAULT, clock.clone());
    open(&generator, 7, (0, 1000));
    let mut ids = vec![Id::MIN; 5_000];
    let mut asking = generator.ask(5_000).unwrap();
    assert!(matches!(generator.answer(&mut asking, &mut ids), Ok(Asked::Again { .. })));
    clock.restore_machine();
    clock.advance_ms(1);
    assert_eq!(generator.answer(&mut asking, &mut ids), Err(Refusal::Restored));
}

#[test]
fn a_wait_is_counted_once_however_often_it_is_asked_for() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    generator.next_ids(4096).unwrap();
    let mut asking = generator.ask_one().unwrap_err();
    for _ in 0..10 {
        let answer = generator.answer(&mut asking, &mut [Id::MIN]);
        assert!(matches!(answer, Ok(Asked::Again { .. })));
    }
    assert_eq!(generator.waits(), 1);
}

#[test]
fn a_long_call_waits_for_each_of_its_ticks_and_for_those_it_missed() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 10_000));
    let generator = generator.with_max_wait(Duration::ZERO);
    let mut ids = vec![Id::MIN; 150 * 4096];
    let mut asking = generator.ask(ids.len()).unwrap();
    let mut waits = 0;
    while let Asked::Again { at_boot_ns } = generator.answer(&mut asking, &mut ids).unwrap() {
        waits += 1;
        let late_ns = if waits == 50 { 5_000_000 } else { 0 };
        clock.advance_ns(at_boot_ns - clock.boot_ns() + late_ns);
    }
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert_eq!(parts(&generator, ids[150 * 4096 - 1]).0, 254, "five ticks were missed");
    assert_eq!(waits, 149);
}

#[test]
fn a_single_call_wakes_the_ticker() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    let generator = generator.with_ticker(Waker::noop().clone());
    generator.close();
    assert_eq!(generator.tick(), Ticked::Idle);
    open(&generator, 7, (0, 1000));
    assert!(generator.ticking.as_ref().unwrap().is_resting());
    let mut asking = generator.ask_one().unwrap_err();
    assert_eq!(generator.answer(&mut asking, &mut [Id::MIN]), Ok(Asked::Done));
    assert!(!generator.ticking.as_ref().unwrap().is_resting());
}
