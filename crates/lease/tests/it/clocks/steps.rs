//! The step table, from the wall clock to the ids that callers get.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use snowlease_core::Refusal;
use snowlease_lease::id_clock::Verdict;
use snowlease_lease::machine::{Event, State};
use snowlease_lease::os::KernelTime;

use super::{Fleet, generator_id, held, time, told_ms};

const SURE: KernelTime = KernelTime { max_error_us: 900, synchronised: true };

#[test]
fn small_offsets_are_not_seen_in_ids() {
    for by_ms in [2, -2, 5, -5, 400, -400] {
        let (mut fleet, time) = (Fleet::new(), time());
        let mut host = fleet.host(&time);
        let before = fleet.take(&host).unwrap();
        time.set_wall_ms(by_ms);
        fleet.pass_ms(&mut host, 250);
        let after = fleet.take(&host).unwrap();
        let moved_ms = told_ms(after) - told_ms(before) - 250;
        assert!(moved_ms.abs() <= 2, "{by_ms}: {moved_ms}");
        // What has stood apart is made up for at 5 ms a second.
        fleet.pass_ms(&mut host, 100_000);
        let status = host.clock();
        assert!(status.offset_ns.abs() <= 2_500_000, "{by_ms}: {status:?}");
        assert_eq!((status.counts.steps, status.step), (0, None));
    }
}

/// Set back by an hour, and the reference agrees: another generator id, by the new time, after a
/// pause that ends as soon as the store has answered.
#[test]
fn set_back_and_confirmed_it_moves_to_another_generator_id() {
    for by_ms in [-501, -2_000, -3_600_000, -86_400_000 * 365] {
        let (mut fleet, time) = (Fleet::new(), time());
        let mut host = fleet.host(&time);
        let before = fleet.take(&host).unwrap();
        fleet.set_all_ms(&time, by_ms);
        fleet.pass_ms(&mut host, 250);
        // The first call may already be served: the store answers at once here.
        let mut waited_ms = 0;
        let after = loop {
            match fleet.take(&host) {
                Ok(id) => break id,
                Err(Refusal::ClockStepped { by_ms: told, retry_after }) => {
                    assert_eq!(told, by_ms);
                    assert!(retry_after <= Duration::from_secs(3));
                }
                Err(other) => panic!("{other:?}"),
            }
            fleet.pass_ms(&mut host, 10);
            waited_ms += 10;
        };
        assert!(waited_ms <= 500, "{by_ms}: {waited_ms} ms");
        assert_ne!(generator_id(after), generator_id(before));
        let moved_ms = told_ms(after) - told_ms(before) - 250 - waited_ms;
        assert_eq!(moved_ms, by_ms, "it goes on by the new time");
        assert_eq!((host.clock().counts.reseeds, host.clock().step), (1, None));
        fleet.pass_ms(&mut host, 1_000);
        assert_eq!(
            (held(&fleet.memory), host.state()),
            (1, State::Held),
            "the old lease went back"
        );
        // And it goes on being leased.
        fleet.pass_ms(&mut host, 120_000);
        let later = fleet.take(&host).unwrap();
        assert!(generator_id(later) == generator_id(after) && later > after);
    }
}

#[test]
fn set_back_and_contradicted_it_goes_on_with_an_alarm() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    time.set_wall_ms(-3_600_000);
    fleet.pass_ms(&mut host, 1_000);
    let after = fleet.take(&host).unwrap();
    assert_eq!(generator_id(after), generator_id(before));
    assert_eq!(told_ms(after) - told_ms(before), 1_000);
    let status = host.clock();
    assert_eq!(status.step.map(|step| step.verdict), Some(Verdict::Contradicted));
    assert!(status.alarm().unwrap().contains("contradicts"));
    // For as long as that lasts, by the reference.
    fleet.pass_ms(&mut host, 600_000);
    let later = fleet.take(&host).unwrap();
    assert_eq!(told_ms(later) - told_ms(before), 601_000);
    time.set_wall_ms(3_600_000);
    fleet.pass_ms(&mut host, 1_000);
    assert_eq!((host.clock().step, host.clock().alarm()), (None, None));
}

#[test]
fn set_ahead_and_confirmed_it_follows_under_the_same_lease() {
    for by_ms in [501, 2_000, 3_600_000, 86_400_000 * 365] {
        let (mut fleet, time) = (Fleet::new(), time());
        let mut host = fleet.host(&time);
        let before = fleet.take(&host).unwrap();
        fleet.set_all_ms(&time, by_ms);
        fleet.pass_ms(&mut host, 1_000);
        let after = fleet.take(&host).unwrap();
        assert_eq!(generator_id(after), generator_id(before), "{by_ms}");
        assert_eq!(told_ms(after) - told_ms(before) - 1_000, by_ms);
        fleet.pass_ms(&mut host, 120_000);
        assert!(fleet.take(&host).unwrap() > after);
        assert_eq!(held(&fleet.memory), 1);
    }
}

#[test]
fn set_ahead_and_contradicted_it_poisons_nothing() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    time.set_wall_ms(86_400_000 * 365 * 30);
    fleet.pass_ms(&mut host, 100_000);
    let after = fleet.take(&host).unwrap();
    assert_eq!(told_ms(after) - told_ms(before), 100_000);
    let leases = snowlease_lease::LeaseStore::list(&*fleet.memory).unwrap();
    let most = snowlease_core::Format::DEFAULT.tick_at_ms(super::START_MS + 165_000).unwrap();
    assert!(leases.iter().all(|lease| lease.until <= most), "{leases:?}");
}

#[test]
fn with_the_store_away_a_pause_ends_and_ids_go_on_by_the_old_time() {
    for by_ms in [-3_600_000, 3_600_000] {
        let (mut fleet, time) = (Fleet::new(), time());
        let mut host = fleet.host(&time);
        let before = fleet.take(&host).unwrap();
        fleet.store.set_away(true);
        time.set_wall_ms(by_ms);
        fleet.pass_ms(&mut host, 250);
        let refusal = fleet.take(&host).unwrap_err();
        let Refusal::ClockStepped { by_ms: told, retry_after } = refusal else {
            panic!("{refusal:?}")
        };
        assert_eq!((told, retry_after), (by_ms, Duration::from_secs(3)));
        fleet.pass_ms(&mut host, 3_000);
        let after = fleet.take(&host).unwrap();
        let moved_ms = told_ms(after) - told_ms(before) - 3_250;
        assert!(moved_ms.abs() <= 2, "{moved_ms}");
        assert!(host.clock().alarm().unwrap().contains("contradicts"));
        // It comes back, and says that the wall clock was right.
        fleet.reference.set_wall_ms(by_ms);
        fleet.store.set_away(false);
        fleet.pass_ms(&mut host, 40_000);
        let later = fleet.take(&host).unwrap();
        let moved_ms = told_ms(later) - told_ms(before) - 43_250;
        assert!((moved_ms - by_ms).abs() <= 250, "{moved_ms}");
    }
}

/// With the pool used up there is no other generator id to move to: ids go on by the old time for
/// as long as the window lasts, and then a refusal says what is missing. What was used lies in an
/// hour that is to come, so nobody can have it before.
#[test]
fn set_back_with_no_other_generator_id_ids_go_on_to_the_end_of_the_window() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let mut others = Vec::new();
    while held(&fleet.memory) < 64 {
        others.push(fleet.host(&time.apart()));
    }
    fleet.take(&host).unwrap();
    fleet.set_all_ms(&time, -3_600_000);
    // One of the others ends, an hour's ticks before its window is over.
    fleet.pass_ms(&mut host, 10_000);
    assert!(fleet.take(&host).is_ok(), "it goes on by the old time after the pause");
    others.pop().unwrap().tell(Event::Stop);
    for other in &mut others {
        other.tell(Event::Stop);
    }
    fleet.pass_ms(&mut host, 40_000);
    assert!(fleet.take(&host).is_ok());
    fleet.pass_ms(&mut host, 60_000);
    assert_eq!(fleet.take(&host), Err(Refusal::NoLease));
    fleet.pass_ms(&mut host, 3_600_000);
    assert!(fleet.take(&host).is_ok());
}

#[test]
fn without_a_reference_the_kernels_word_counts() {
    for by_ms in [-3_600_000, 3_600_000] {
        for (kernel, follows) in [(SURE, true), (KernelTime { synchronised: false, ..SURE }, false)]
        {
            let (mut fleet, time) = (Fleet::new(), time());
            time.set_kernel(Some(kernel));
            let mut host = fleet.alone(&time);
            let before = fleet.take(&host).unwrap();
            time.set_wall_ms(by_ms);
            fleet.pass_ms(&mut host, 1_000);
            let after = fleet.take(&host).unwrap();
            let moved_ms = told_ms(after) - told_ms(before) - 1_000;
            if follows {
                assert_eq!(moved_ms, by_ms);
            } else {
                assert!(moved_ms.abs() <= 5, "{moved_ms}");
                assert!(host.clock().alarm().unwrap().contains("restart"));
            }
        }
    }
}

/// A holder that has no lease is held by nothing.
#[test]
fn before_the_first_lease_the_wall_clock_is_followed_at_once() {
    for seed_ms in [-1, 0, 1_704_067_199_999, super::START_MS + 86_400_000] {
        let mut fleet = Fleet::new();
        let time = snowlease_lease::testing::ScriptedTime::at_ms(seed_ms);
        let mut host = fleet.host(&time);
        let refusal = fleet.take(&host).unwrap_err();
        let right = match seed_ms {
            ..1_704_067_200_000 => {
                let missing_ms = seed_ms.abs_diff(1_704_067_200_000);
                refusal == Refusal::BeforeEpoch { missing_ms }
            }
            _ => refusal == Refusal::NoLease,
        };
        assert!(right, "{seed_ms}: {refusal:?}");
        time.set_wall_ms(super::START_MS - seed_ms);
        fleet.pass_ms(&mut host, 1_000);
        let id = fleet.take(&host).unwrap();
        assert_eq!(told_ms(id), super::START_MS + 1_000);
    }
}

#[test]
fn a_holder_that_lost_its_lease_follows_what_the_store_confirms() {
    for by_ms in [-7_200_000, 7_200_000] {
        let (mut fleet, time) = (Fleet::new(), time());
        let (mut host, before) = fleet.lost_host(&time);
        fleet.set_all_ms(&time, by_ms);
        fleet.store.set_away(false);
        fleet.pass_ms(&mut host, 10_000);
        let after = fleet.take(&host).unwrap();
        let moved_ms = told_ms(after) - told_ms(before) - 110_000;
        assert!((moved_ms - by_ms).abs() <= 250, "{moved_ms}");
    }
}

/// A clock that was set wrong while the store was away is not believed just because nobody answers.
#[test]
fn a_holder_that_lost_its_lease_does_not_follow_a_clock_that_is_wrong() {
    for by_ms in [-3_600_000, 3_600_000] {
        let (mut fleet, time) = (Fleet::new(), time());
        let (mut host, before) = fleet.lost_host(&time);
        time.set_wall_ms(by_ms);
        fleet.pass_ms(&mut host, 10_000);
        fleet.store.set_away(false);
        fleet.pass_ms(&mut host, 10_000);
        let after = fleet.take(&host).unwrap();
        let moved_ms = told_ms(after) - told_ms(before) - 120_000;
        assert!(moved_ms.abs() <= 5, "{moved_ms}");
    }
}

/// The reference itself says that it is before the epoch, or past the last tick: there is no tick
/// to follow to, and no loop about it.
#[test]
fn a_time_outside_of_the_format_is_not_followed_in_a_loop() {
    let format = snowlease_core::Format::new("t40g6s17".parse().unwrap(), 1, super::START_MS);
    for by_ms in [-86_400_000, 1 << 41] {
        let mut fleet = Fleet::of(format.unwrap());
        let time = time();
        fleet.reference.pass_ms(1_000);
        time.pass_ms(1_000);
        let mut host = fleet.host(&time);
        fleet.take(&host).unwrap();
        fleet.set_all_ms(&time, by_ms);
        // Every look would find a loop without a pause.
        fleet.pass_ms(&mut host, 200_000);
        fleet.set_all_ms(&time, -by_ms);
        fleet.pass_ms(&mut host, 10_000);
        fleet.take(&host).unwrap();
    }
}

#[test]
fn a_drain_and_a_step_at_once_end_well() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    snowlease_lease::Administer::drain(&*fleet.memory, generator_id(before), true).unwrap();
    fleet.set_all_ms(&time, -3_600_000);
    fleet.pass_ms(&mut host, 60_000);
    let after = fleet.take(&host).unwrap();
    assert_ne!(generator_id(after), generator_id(before));
    assert_eq!(held(&fleet.memory), 1);
}

#[test]
fn a_stop_while_a_step_is_asked_about_gives_the_lease_back() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    fleet.take(&host).unwrap();
    fleet.set_all_ms(&time, -3_600_000);
    host.time().pass_ms(250);
    host.tell(Event::Stop);
    host.settle();
    assert_eq!((held(&fleet.memory), host.state()), (0, State::Idle));
    assert!(Arc::strong_count(&fleet.store) > 0);
}
