//! The ticking guard: what the ticker says, and what callers get between two of its ticks.

use std::sync::atomic::AtomicU32;
use std::task::Wake;

use super::*;

#[derive(Debug, Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn ticking(tick: u64, window: (u64, u64)) -> (Arc<ScriptedClock>, Generator, Arc<Wakes>) {
    let (clock, generator) = opened(Layout::DEFAULT, tick, window);
    let wakes = Arc::new(Wakes::default());
    let generator = generator.with_ticker(Waker::from(Arc::clone(&wakes)));
    (clock, generator, wakes)
}

fn tick_of(generator: &Generator) -> Result<u64, Refusal> {
    generator.try_next_id().map(|id| parts(generator, id).0)
}

#[test]
fn calls_take_the_published_tick_and_read_no_clock() {
    let (clock, generator, wakes) = ticking(100, (0, 1000));
    assert_eq!(generator.tick(), Ticked::Again { at_boot_ns: clock.boot_ns() + 1_000_000 });
    assert_eq!(tick_of(&generator), Ok(100));
    clock.advance_ms(7);
    assert_eq!(tick_of(&generator), Ok(100), "what the ticker has not said yet");
    assert!(matches!(generator.tick(), Ticked::Again { .. }));
    assert_eq!(tick_of(&generator), Ok(107));
    assert_eq!(wakes.count(), 0);
}

#[test]
fn without_its_ticker_a_ticking_generator_is_as_right_as_a_precise_one() {
    let (clock, generator, _) = ticking(100, (100, 110));
    for tick in 100..110 {
        assert_eq!(tick_of(&generator), Ok(tick));
        assert_eq!(generator.page.published(), 0, "only the ticker publishes");
        clock.advance_ms(1);
    }
    assert_eq!(tick_of(&generator), Err(Refusal::WindowEnd));
}

#[test]
fn a_pause_of_the_process_costs_one_sequence_of_the_old_tick_at_most() {
    let (clock, generator, _) = ticking(100, (0, 10_000));
    generator.tick();
    for _ in 0..10 {
        assert_eq!(tick_of(&generator), Ok(100));
    }
    clock.suspend_ms(3_600_000); // far beyond the window, and the ticker has not run yet
    let late = std::iter::from_fn(|| generator.try_next_id().ok()).count();
    assert_eq!(late, 4096 - 10);
    assert_eq!(tick_of(&generator), Err(Refusal::WindowEnd));
    assert_eq!(generator.tick(), Ticked::Idle);
}

#[test]
fn the_ticker_rests_when_nothing_is_issued_and_the_next_call_wakes_it() {
    let (clock, generator, wakes) = ticking(100, (0, 1 << 40));
    let mut ticks = 0;
    while generator.tick() != Ticked::Idle {
        ticks += 1;
        clock.advance_ms(1);
    }
    assert!((2..=100).contains(&ticks), "{ticks}");
    assert_eq!(generator.page.published(), 0);
    clock.advance_ms(1_000);
    assert_eq!(tick_of(&generator), Ok(1_100 + ticks), "the call that ends a rest is right");
    assert_eq!(tick_of(&generator), Ok(1_100 + ticks));
    assert_eq!(wakes.count(), 1, "one call pays for the wake");

    // It does not rest while calls come, however few.
    for _ in 0..200 {
        assert!(matches!(generator.tick(), Ticked::Again { .. }));
        clock.advance_ms(10);
        assert!(generator.next_id().is_ok());
    }
    assert_eq!(wakes.count(), 1);
}

#[test]
fn the_ticker_is_told_when_to_come_again() {
    let (clock, generator, _) = ticking(100, (0, 1000));
    let now_ns = clock.boot_ns();
    let window = generator.window().unwrap();
    generator.open(window, now_ns + 10_400_000).unwrap();
    clock.advance_ns(10_100_000);
    let at_boot_ns = now_ns + 10_400_000;
    assert_eq!(generator.tick(), Ticked::Again { at_boot_ns }, "at the deadline");
    clock.advance_ns(300_000);
    assert_eq!(generator.tick(), Ticked::Idle);
    assert_eq!(tick_of(&generator), Err(Refusal::WindowEnd));

    // A tick of an hour is looked at every second.
    let hourly = Format::new(Layout::DEFAULT, 3_600_000, EPOCH).unwrap();
    let generator = Generator::new(hourly, clock.clone()).with_ticker(Waker::noop().clone());
    open(&generator, 7, (0, 10));
    let at_boot_ns = clock.boot_ns() + 1_000_000_000;
    assert_eq!(generator.tick(), Ticked::Again { at_boot_ns });
}

#[test]
fn where_nothing_may_be_issued_the_ticker_clears_the_tick_and_rests() {
    type Trouble = fn(&ScriptedClock, &Generator);
    let troubles: [(Trouble, &str); 6] = [
        (|clock, _| clock.advance_ms(900), "window-end"),
        (|clock, _| clock.pause(-3_600_000, 60_000), "clock-stepped"),
        (|clock, _| clock.restore_machine(), "restored"),
        (|clock, _| clock.set_ms(EPOCH - 5), "before-epoch"),
        (|clock, _| clock.set_ms(EPOCH + (1 << 41)), "time-end"),
        (
            |_, generator| {
                generator.close();
            },
            "no-lease",
        ),
    ];
    for (trouble, code) in troubles {
        let clock = ScriptedClock::at_ms(EPOCH + 100);
        clock.keep_marker();
        let generator = Generator::new(Format::DEFAULT, clock.clone());
        let generator = generator.with_ticker(Waker::noop().clone());
        open(&generator, 7, (0, 1000));
        assert!(matches!(generator.tick(), Ticked::Again { .. }));
        assert!(generator.next_id().is_ok());
        trouble(&clock, &generator);
        assert_eq!(generator.tick(), Ticked::Idle, "{code}");
        assert_eq!(generator.page.published(), 0, "{code}");
        assert_eq!(generator.next_id().unwrap_err().code(), code);
    }
}

#[test]
fn refused_calls_do_not_wake_the_ticker() {
    let (clock, generator, wakes) = ticking(100, (0, 101));
    clock.advance_ms(1);
    assert_eq!(generator.tick(), Ticked::Idle);
    for _ in 0..10 {
        assert_eq!(generator.next_id(), Err(Refusal::WindowEnd));
    }
    assert_eq!(wakes.count(), 0);
    generator.extend(Tick(200), u64::MAX);
    assert_eq!(tick_of(&generator), Ok(101));
    assert_eq!(wakes.count(), 1);
}

#[test]
fn a_precise_generator_has_nothing_to_tick() {
    let (_clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    assert_eq!(generator.tick(), Ticked::Idle);
    assert_eq!(generator.page.published(), 0);
}
