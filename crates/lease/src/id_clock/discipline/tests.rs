//! The step table, row by row.

use super::*;
use crate::id_clock::{ClockStatus, Gauged, Unbounded};

const MS: i64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// A discipline and the clocks it looks at.
struct Bench {
    sample: Sample,
    discipline: Discipline,
}

const UNSURE: KernelTime = KernelTime { max_error_us: 16_000_000, synchronised: false };
const SURE: KernelTime = KernelTime { max_error_us: 900, synchronised: true };

impl Bench {
    fn new(kernel: KernelTime) -> Bench {
        let sample = Sample {
            wall_ns: 1_704_067_200 * i128::from(S),
            boot_ns: 500 * S,
            running_ns: 400 * S,
            kernel: Some(kernel),
        };
        Bench { sample, discipline: Discipline::seeded(ClockTerms::DEFAULT, sample) }
    }

    /// The store answers, with a clock that is ahead of the id clock by so much.
    fn hear(&mut self, ahead_ns: i64) {
        let offset_ns = self.discipline.offset_ns + ahead_ns;
        let boot_ns = self.sample.boot_ns;
        self.discipline.hear(Some(Reading { offset_ns, error_ns: 1_000_000, boot_ns }));
    }

    /// The store answers, without a clock.
    fn hear_nothing(&mut self) {
        self.discipline.hear(None);
    }

    fn set_wall(&mut self, by_ns: i64) {
        self.sample.wall_ns += i128::from(by_ns);
    }

    fn pass(&mut self, ns: u64) {
        self.sample.wall_ns += i128::from(ns);
        self.sample.boot_ns += ns;
        self.sample.running_ns += ns;
        self.discipline.look(self.sample);
    }

    /// Looks four times a second, as the housekeeper does.
    fn seconds(&mut self, seconds: u64) {
        (0..seconds * 4).for_each(|_| self.pass(S / 4));
    }

    fn verdict(&self) -> Option<Verdict> {
        self.discipline.step().map(|step| step.verdict)
    }

    fn is_paused(&self) -> bool {
        self.discipline.step().is_some_and(|step| step.pause_until_ns > self.sample.boot_ns)
    }

    fn away_ms(&self) -> i64 {
        self.discipline.wall_ahead_ns() / MS
    }

    fn status(&self) -> ClockStatus {
        let gauged = Gauged { gauge: snowlease_core::Gauge::BOOTTIME, boot_read_ns: 20 };
        ClockStatus::of(&self.discipline, gauged)
    }
}

#[test]
fn up_to_2_ms_nothing_is_done() {
    for away in [0, 1, -1, 2, -2] {
        let mut bench = Bench::new(SURE);
        bench.set_wall(away * MS);
        bench.seconds(100);
        assert_eq!((bench.away_ms(), bench.verdict()), (away, None));
    }
}

#[test]
fn up_to_500_ms_it_is_slewed_by_5_ms_a_second_and_no_step_is_seen() {
    for away in [3, -3, 100, -100, 500, -500] {
        let mut bench = Bench::new(SURE);
        bench.set_wall(away * MS);
        bench.pass(S / 4);
        let mut seconds = 0;
        while bench.away_ms().abs() > 2 {
            let before = bench.discipline.wall_ahead_ns();
            bench.seconds(1);
            let slewed = (before - bench.discipline.wall_ahead_ns()).abs();
            assert!(slewed <= 5 * MS, "{slewed}");
            seconds += 1;
        }
        let needed = (away.abs() - 2) / 5;
        assert!((needed - 1..=needed + 1).contains(&seconds), "{away}: {seconds}");
        assert_eq!((bench.verdict(), bench.discipline.counts().steps), (None, 0));
    }
}

#[test]
fn a_process_that_slept_for_an_hour_does_not_make_up_for_it_in_one_go() {
    let mut bench = Bench::new(SURE);
    bench.set_wall(400 * MS);
    bench.pass(3_600 * S);
    assert_eq!(bench.away_ms(), 395);
    assert_eq!(bench.discipline.counts().pauses, 1);
}

#[test]
fn a_step_pauses_and_is_asked_about_and_a_pause_ends_whatever_happens() {
    for away in [501, -501, 3_600_000, -3_600_000] {
        let mut bench = Bench::new(UNSURE);
        bench.hear(0);
        bench.seconds(10);
        bench.set_wall(away * MS);
        bench.pass(S / 4);
        assert_eq!((bench.verdict(), bench.is_paused()), (Some(Verdict::Asking), true), "{away}");
        bench.seconds(2);
        assert_eq!(bench.away_ms(), away, "it does not move while it is asked about");
        assert!(bench.is_paused());
        bench.seconds(1);
        // By what the reference told last.
        assert_eq!((bench.verdict(), bench.is_paused()), (Some(Verdict::Contradicted), false));
        assert_eq!(bench.discipline.counts().steps, 1);
    }
}

#[test]
fn what_the_reference_told_before_the_boot_clock_moved_says_nothing() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    bench.seconds(10);
    bench.sample.boot_ns += 600 * S;
    bench.pass(S / 4);
    assert_eq!((bench.verdict(), bench.is_paused()), (Some(Verdict::Asking), true));
    bench.seconds(3);
    assert_eq!((bench.verdict(), bench.is_paused()), (Some(Verdict::Unanswered), false));
}

#[test]
fn an_answer_that_took_long_is_no_reading() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    bench.set_wall(-10_000 * MS);
    bench.pass(S / 4);
    let offset_ns = bench.discipline.offset_ns - 10_000 * MS;
    let boot_ns = bench.sample.boot_ns;
    let slow = Reading { offset_ns, error_ns: 251_000_000, boot_ns };
    bench.discipline.hear(Some(slow));
    assert_eq!(bench.verdict(), Some(Verdict::Asking));
}

#[test]
fn a_reference_that_agrees_confirms_and_one_that_does_not_contradicts() {
    for away in [900, -900, 3_600_000, -3_600_000] {
        let mut bench = Bench::new(UNSURE);
        bench.hear(0);
        bench.seconds(10);
        bench.set_wall(away * MS);
        bench.pass(S / 4);
        bench.hear(away * MS + 300 * MS);
        assert_eq!(bench.verdict(), Some(Verdict::Confirmed));
        assert!(bench.is_paused(), "until it is followed, or the time is over");
        let by_ns = bench.discipline.step().unwrap().by_ns;
        bench.discipline.follow(by_ns);
        assert_eq!((bench.verdict(), bench.away_ms()), (None, 0));
        assert_eq!(bench.discipline.counts().reseeds, 1);

        let mut bench = Bench::new(SURE);
        bench.hear(0);
        bench.seconds(10);
        bench.set_wall(away * MS);
        bench.pass(S / 4);
        bench.hear(10 * MS);
        assert_eq!((bench.verdict(), bench.is_paused()), (Some(Verdict::Contradicted), false));
        // From here on it goes by the reference, and holds where that is.
        bench.seconds(3);
        let (ahead, _) = bench.discipline.reference_ahead_ns().unwrap();
        assert!(ahead.abs() <= 4 * MS, "{ahead}");
        assert!((bench.away_ms() - away).abs() <= 10);
    }
}

#[test]
fn a_wall_clock_that_is_no_nearer_to_the_reference_is_not_followed() {
    for (reference, verdict) in [(350, Verdict::Confirmed), (250, Verdict::Contradicted)] {
        let mut bench = Bench::new(UNSURE);
        bench.hear(0);
        bench.set_wall(600 * MS);
        bench.pass(S / 4);
        bench.hear(reference * MS);
        assert_eq!(bench.verdict(), Some(verdict), "{reference}");
    }
}

#[test]
fn what_the_reference_said_before_the_step_is_no_verdict() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    bench.pass(S / 4);
    bench.set_wall(-10_000 * MS);
    bench.pass(S / 4);
    assert_eq!(bench.verdict(), Some(Verdict::Asking));
}

#[test]
fn a_wall_clock_that_is_set_right_again_ends_it_all() {
    for heard in [None, Some(-10_000 * MS), Some(0)] {
        let mut bench = Bench::new(UNSURE);
        bench.hear(0);
        bench.seconds(10);
        bench.set_wall(-10_000 * MS);
        bench.pass(S / 4);
        heard.into_iter().for_each(|ahead| bench.hear(ahead));
        bench.set_wall(10_000 * MS);
        bench.pass(S / 4);
        assert_eq!((bench.verdict(), bench.is_paused()), (None, false), "{heard:?}");
    }
}

#[test]
fn a_verdict_changes_with_the_reference() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    bench.seconds(10);
    bench.set_wall(-10_000 * MS);
    bench.pass(S / 4);
    bench.hear(0);
    assert_eq!(bench.verdict(), Some(Verdict::Contradicted));
    bench.seconds(20);
    bench.hear(-10_000 * MS);
    assert_eq!(bench.verdict(), Some(Verdict::Confirmed));
}

#[test]
fn without_a_reference_the_kernels_word_counts_and_nothing_pauses() {
    for (kernel, verdict, slewed) in
        [(SURE, Verdict::Confirmed, 0), (UNSURE, Verdict::Unanswered, 50)]
    {
        for away in [-10_000, 10_000] {
            let mut bench = Bench::new(kernel);
            bench.hear_nothing();
            bench.seconds(10);
            bench.set_wall(away * MS);
            bench.pass(S / 4);
            assert_eq!((bench.verdict(), bench.is_paused()), (Some(verdict), false));
            bench.seconds(10);
            let moved = (bench.away_ms() - away).abs();
            assert!(moved.abs_diff(slewed) <= 2, "{kernel:?}: {moved}");
        }
    }
}

#[test]
fn a_clock_that_steps_all_the_time_pauses_a_tenth_of_it_at_most() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    bench.seconds(10);
    let mut paused = 0;
    for look in 0..4_000 {
        // Set and set right every two seconds; the store is away.
        if look % 8 == 0 {
            bench.set_wall(-10_000 * MS);
        } else if look % 8 == 4 {
            bench.set_wall(10_000 * MS);
        }
        bench.pass(S / 4);
        paused += u32::from(bench.is_paused());
    }
    assert!((1..=400).contains(&paused), "{paused} of 4000");
    assert!(bench.discipline.counts().steps > 400);
}

#[test]
fn a_clock_of_double_rate_is_left_as_soon_as_the_reference_contradicts_it() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    for look in 0..4 * 120 {
        bench.set_wall(250 * MS);
        bench.pass(S / 4);
        if look % 80 == 79 {
            // True time goes on with the boot clock.
            let offset_ns = 1_704_067_200 * S.cast_signed() - 500 * S.cast_signed();
            let boot_ns = bench.sample.boot_ns;
            let heard = Reading { offset_ns, error_ns: 1_000_000, boot_ns };
            bench.discipline.hear(Some(heard));
        }
    }
    assert_eq!(bench.verdict(), Some(Verdict::Contradicted));
    let (ahead, _) = bench.discipline.reference_ahead_ns().unwrap();
    assert!(ahead.abs() < 20 * MS, "{ahead}");
}

#[test]
fn it_is_told_which_clock_moved() {
    let mut bench = Bench::new(UNSURE);
    bench.set_wall(-600_000 * MS);
    bench.pass(S / 4);
    assert_eq!(bench.discipline.step().map(|step| step.mover), Some(Mover::Wall));

    let mut bench = Bench::new(UNSURE);
    bench.sample.boot_ns += 600 * S;
    bench.pass(S / 4);
    let step = bench.discipline.step().unwrap();
    assert_eq!((step.mover, step.by_ns / MS), (Mover::Boot, -600_000));

    // A suspend that both have counted is no step.
    let mut bench = Bench::new(UNSURE);
    bench.sample.boot_ns += 600 * S;
    bench.set_wall(600_000 * MS);
    bench.pass(S / 4);
    assert_eq!((bench.verdict(), bench.discipline.counts().pauses), (None, 1));

    let mut bench = Bench::new(UNSURE);
    for _ in 0..20 {
        bench.set_wall(100 * MS);
        bench.pass(S / 4);
    }
    assert_eq!(bench.discipline.step().map(|step| step.mover), Some(Mover::Drift));
}

#[test]
fn leap_seconds_are_slewed_frozen_or_smeared_and_a_repeated_one_is_a_step() {
    // Smeared over a day: 11.6 ppm; over 2,000 s: 500 ppm.
    for (seconds, ppm) in [(86_400, 12_i64), (2_000, 500)] {
        let mut bench = Bench::new(SURE);
        for _ in 0..seconds {
            bench.set_wall(-ppm * 250);
            bench.pass(S / 4);
        }
        assert!(bench.away_ms().abs() <= 3, "{ppm}: {}", bench.away_ms());
        assert_eq!(bench.discipline.counts().steps, 0);
    }
    // Frozen for a second: drift until it is more than is slewed.
    let mut bench = Bench::new(SURE);
    bench.hear(0);
    for _ in 0..4 {
        bench.set_wall(-250 * MS);
        bench.pass(S / 4);
    }
    assert_eq!(bench.discipline.counts().steps, 1);
    let frozen_ms = bench.away_ms();
    assert!((-1_000..-990).contains(&frozen_ms), "{frozen_ms}");
    // Repeated at once.
    let mut bench = Bench::new(SURE);
    bench.hear(0);
    bench.set_wall(-1_000 * MS);
    bench.pass(S / 4);
    assert_eq!(bench.verdict(), Some(Verdict::Asking));
}

#[test]
fn the_bound_of_order_holds_while_the_kernel_is_sure_and_is_withdrawn_otherwise() {
    let mut bench = Bench::new(SURE);
    bench.pass(S / 4);
    assert_eq!(bench.status().bound, Ok(ClockTerms::DEFAULT.bound));
    bench.set_wall(30 * MS);
    bench.pass(S / 4);
    assert!(matches!(bench.status().bound, Err(Unbounded::Slewing(_))), "{:?}", bench.status());
    assert!(bench.status().lag_ns.cast_signed() > 28 * MS);
    bench.seconds(6);
    assert!(bench.status().bound.is_ok());
    bench.sample.kernel = Some(KernelTime { max_error_us: 3_000_000, ..SURE });
    bench.pass(S / 4);
    assert_eq!(bench.status().bound, Err(Unbounded::Error(Duration::from_secs(3))));
    bench.sample.kernel = Some(UNSURE);
    bench.pass(S / 4);
    assert_eq!(bench.status().bound, Err(Unbounded::Unsynchronised));
    bench.set_wall(-9_000 * MS);
    bench.pass(S / 4);
    assert_eq!(bench.status().bound, Err(Unbounded::Stepped));
    bench.sample.kernel = None;
    bench.set_wall(9_000 * MS);
    bench.pass(S / 4);
    assert_eq!(bench.status().bound, Err(Unbounded::Untold));
}

#[test]
fn lead_and_lag_are_against_the_reference_where_there_is_one() {
    let mut bench = Bench::new(SURE);
    bench.hear(-40 * MS);
    bench.pass(S / 4);
    let status = bench.status();
    assert_eq!((status.lead_ns.cast_signed() / MS, status.lag_ns), (40, 0));
    assert!(!status.skewed && status.alarm().is_none());
    bench.hear(-300 * MS);
    let status = bench.status();
    let alarm = status.alarm().unwrap();
    assert!(status.skewed && alarm.contains("300 ms ahead of the reference"), "{alarm}");
}

#[test]
fn each_verdict_has_its_words() {
    let mut bench = Bench::new(UNSURE);
    bench.hear(0);
    bench.seconds(10);
    bench.set_wall(-3_600_000 * MS);
    bench.pass(S / 4);
    let alarm = |bench: &Bench| bench.status().alarm().unwrap_or_default();
    let told = alarm(&bench);
    assert!(told.contains("was set: it is 3600000 ms behind") && told.contains("being asked"));
    bench.hear(0);
    assert!(alarm(&bench).contains("contradicts"), "{}", alarm(&bench));
    bench.hear(-3_600_000 * MS);
    assert!(alarm(&bench).contains("confirms"), "{}", alarm(&bench));
}

#[test]
fn a_reading_lies_between_the_sending_and_the_answer() {
    let read = Reading::of_call(1_704_067_200_000, 10 * S, 10 * S + 8_000_000);
    assert_eq!((read.boot_ns, read.error_ns), (10 * S + 4_000_000, 4_500_000));
    let unix_ns = i128::from(read.offset_ns) + i128::from(read.boot_ns);
    assert_eq!(unix_ns, 1_704_067_200_000_500_000);
}

#[test]
fn clocks_at_the_ends_of_time_do_no_harm() {
    for wall_ns in [i128::from(i64::MIN) * 2, -1, 0, i128::from(i64::MAX) * 2] {
        let mut bench = Bench::new(SURE);
        bench.sample.wall_ns = wall_ns;
        bench.pass(S / 4);
        bench.hear(0);
        bench.seconds(10);
        let by_ns = bench.discipline.step().map_or(0, |step| step.by_ns);
        bench.discipline.follow(by_ns);
        bench.pass(S / 4);
    }
}
