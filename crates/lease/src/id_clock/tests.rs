//! The id clock on clocks that are scripted apart.

use super::*;
use crate::testing::ScriptedTime;

const SEED_MS: i64 = 1_704_067_200_000;

fn start() -> (ScriptedTime, Arc<IdClock>) {
    let time = ScriptedTime::at_ms(SEED_MS);
    let clock = IdClock::with_time(Box::new(time.clone()), ClockTerms::DEFAULT);
    (time, clock)
}

#[test]
fn the_boot_clock_advances_it_through_steps_and_suspend() {
    let (time, clock) = start();
    assert_eq!(clock.now().unix_ms, SEED_MS);
    time.set_wall_ms(-3_600_000);
    time.pass_ms(10);
    assert!(clock.look(), "somebody should look");
    assert!(!clock.look(), "nothing new");
    assert_eq!(clock.now().unix_ms, SEED_MS + 10);
    time.suspend_ms(600_000);
    assert_eq!(clock.now().unix_ms, SEED_MS + 600_010);
    assert!(clock.look());
    let status = clock.status();
    assert_eq!((status.counts.steps, status.counts.pauses), (1, 1));
}

#[test]
fn it_is_slewed_back_without_ever_turning_back() {
    let (time, clock) = start();
    time.set_wall_ms(-100);
    let mut last = clock.now();
    for _ in 0..100 {
        for _ in 0..250 {
            time.pass_ms(1);
            let now = clock.now();
            let (before, after) = ((last.unix_ms, last.sub_ms_ns), (now.unix_ms, now.sub_ms_ns));
            assert!(after >= before, "{before:?} {after:?}");
            last = now;
        }
        clock.look();
    }
    let status = clock.status();
    assert!(status.offset_ns.abs() <= 2_000_000, "{status:?}");
    assert_eq!(status.counts.steps, 0);
}

#[test]
fn a_pause_is_bounded_and_says_by_how_much_the_clock_was_set() {
    let (time, clock) = start();
    assert_eq!(clock.pause(), None);
    time.set_wall_ms(-7_000);
    time.pass_ms(250);
    clock.look();
    let pause = clock.pause().unwrap();
    assert_eq!((pause.by_ms, pause.until_boot_ns), (-7_000, time.boot_ns() + 3_000_000_000));
    time.pass_ms(3_000);
    clock.look();
    assert_eq!((clock.pause(), clock.step().unwrap().verdict), (None, Verdict::Unanswered));
}

#[test]
fn following_moves_it_at_once_in_either_direction() {
    for by_ms in [-3_600_000, 3_600_000] {
        let (time, clock) = start();
        // It was slewed back before, and holds where it was.
        time.set_wall_ms(-100);
        time.pass_ms(250);
        clock.look();
        time.set_wall_ms(by_ms + 100);
        time.pass_ms(250);
        clock.look();
        let before = clock.now();
        let by_ns = clock.step().unwrap().by_ns;
        clock.follow(by_ns);
        let moved_ms = clock.now().unix_ms - before.unix_ms;
        assert!((moved_ms - by_ms).abs() <= 2, "{moved_ms}");
        assert_eq!((clock.step(), clock.pause()), (None, None));
        assert_eq!(clock.status().counts.reseeds, 1);
    }
}

#[test]
fn a_wall_clock_before_1970_is_read_as_it_is() {
    let time = ScriptedTime::at_ms(-2);
    time.pass_ns(500_000);
    let clock = IdClock::with_time(Box::new(time), ClockTerms::DEFAULT);
    assert_eq!((clock.now().unix_ms, clock.now().sub_ms_ns), (-2, 500_000));
}

#[test]
fn this_hosts_clock_runs_with_its_boot_clock() {
    let clock = IdClock::start();
    let (before, wall_ms) = (clock.now(), os::wall_ms());
    assert!(before.unix_ms.abs_diff(wall_ms) < 100);
    clock.look();
    let status = clock.status();
    assert!(status.offset_ns.abs() < 100_000_000 && status.kernel.is_some(), "{status:?}");
    assert_eq!((status.step, status.alarm()), (None, None));
}
