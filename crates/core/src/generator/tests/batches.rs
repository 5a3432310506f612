//! Which batches are taken, and what one that is refused leaves behind.

use super::*;

#[test]
fn batch_sizes_are_checked_before_anything_is_allocated() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    for asked in [0, Generator::MAX_BATCH + 1, usize::MAX] {
        let limit = Generator::MAX_BATCH;
        assert_eq!(generator.next_ids(asked), Err(Refusal::BatchSize { asked, limit }));
    }
    assert_eq!(generator.refusals()[Refusal::BatchSize { asked: 0, limit: 0 }.index()], 3);
    assert!(generator.next_ids_into(&mut []).is_err());
}

#[test]
fn no_batch_is_taken_that_could_never_be_served() {
    // 64 ids in 10 ms: 6,464 within a second.
    let layout = Layout::new(51, 6, 6).unwrap();
    let clock = ScriptedClock::at_ms(EPOCH + 1_000);
    clock.advance_at_each_reading_ns(2_000_000);
    let generator = Generator::new(Format::new(layout, 10, EPOCH).unwrap(), clock);
    open(&generator, 3, (0, 1 << 40));
    assert_eq!(generator.batch_limit(), 6_464);
    assert_eq!(generator.next_ids(6_464).map(|ids| ids.len()), Ok(6_464));
    let too_many = Err(Refusal::BatchSize { asked: 6_465, limit: 6_464 });
    assert_eq!(generator.next_ids(6_465), too_many);
    // Neither is one that a long tick would make wait for hours.
    let daily = Format::new(layout, Format::MAX_TICK_MS, EPOCH).unwrap();
    assert_eq!(Generator::new(daily, ScriptedClock::at_ms(EPOCH)).batch_limit(), 64);
}

#[test]
fn a_large_batch_of_another_is_a_full_tick_and_no_clock_behind() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 100_000));
    assert!(matches!(generator.next_ids(400_000), Err(Refusal::ClockStalled { .. })));
    // It reserved 98 ticks before the clock stood still.
    assert!(matches!(generator.try_next_id(), Err(Refusal::TickFull { .. })));
    assert!(matches!(generator.next_id(), Err(Refusal::TickFull { .. })));
}

#[test]
fn one_refusal_in_a_full_queue_reserves_nothing() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 100_000));
    let generator = generator.with_max_wait(Duration::from_millis(2));
    let refusal = generator.next_ids(20 * 4096).unwrap_err();
    assert!(matches!(refusal, Refusal::ClockStalled { .. }), "{refusal:?}");
    // The ticks it had reserved are ahead now; others are refused and leave them as they are.
    let before = generator.word.0.load(Ordering::Relaxed);
    for _ in 0..100 {
        let refusal = generator.next_ids(4096).unwrap_err();
        assert!(refusal.retry_after().is_some(), "{refusal:?}");
    }
    assert_eq!(generator.word.0.load(Ordering::Relaxed), before);
    clock.advance_ms(20);
    assert!(generator.next_ids(100).is_ok());
}

#[test]
fn a_batch_of_a_whole_tick_fits_a_tick_after_a_quiet_one() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    for tick in [101, 103, 105] {
        generator.next_ids(5).unwrap(); // would be carried over
        clock.advance_ms(1);
        let ids = generator.next_ids(4096).unwrap();
        assert_eq!(parts(&generator, ids[0]), (tick, 7, 0));
        assert_eq!(parts(&generator, ids[4095]), (tick, 7, 4095));
        clock.advance_ms(1);
    }
}
