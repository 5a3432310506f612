//! What a machine makes of a wall clock that was set, and of a machine that was restored, by plain
//! calls.

use super::*;
use crate::id_clock::Verdict;

const HOUR_NS: i64 = 3_600_000_000_000;

/// Far enough into the format that an hour back is still within it.
fn later(ms: u64) -> Moment {
    at_ms(7_200_000 + ms)
}

fn stepped(by_ns: i64, verdict: Verdict) -> Event {
    Event::Clock(Some(Stepped { by_ns, verdict }))
}

/// A machine that holds a lease since two hours into the format, and its cell.
fn held_later() -> (Machine, OneCell) {
    let (mut machine, mut cell) = (machine(), OneCell::new());
    let ask = asked_to_acquire(&machine.step(&later(0), Event::Start { seed: 7 }));
    let answer = cell.acquire(&ask);
    let commands = machine.step(&later(10), Event::Acquired(answer));
    assert!(matches!(commands[..], [Command::Open { follow_ns: 0, .. }]));
    (machine, cell)
}

#[test]
fn set_back_it_acquires_by_the_new_time_and_opens_with_the_clock_seeded_anew() {
    let (mut machine, cell) = held_later();
    let ask = asked_to_acquire(&machine.step(&later(5_000), stepped(-HOUR_NS, Verdict::Confirmed)));
    assert_eq!((ask.from.0, ask.until.0), (3_605_000, 3_665_000));
    assert_eq!(ask.now_ms, EPOCH + 3_605_000);
    let mut other = OneCell(Cell::vacant(Format::DEFAULT.fingerprint()), cell.1);
    let answer = other.acquire(&ask);
    let commands = machine.step(&later(5_020), Event::Acquired(answer));
    let [Command::Open { window, deadline_ns, follow_ns }] = commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((window.from().0, follow_ns), (3_605_000, -HOUR_NS));
    assert_eq!(deadline_ns, later(64_000).boot_ns, "real time is counted as ever");
}

/// The wall clock was set right again while the store was asked.
#[test]
fn a_lease_for_a_time_that_is_no_longer_wanted_is_not_opened() {
    for then in [Event::Clock(None), stepped(-HOUR_NS, Verdict::Contradicted)] {
        let (mut machine, cell) = held_later();
        let commands = machine.step(&later(5_000), stepped(-HOUR_NS, Verdict::Confirmed));
        let ask = asked_to_acquire(&commands);
        assert!(machine.step(&later(5_010), then).is_empty());
        let mut other = OneCell(Cell::vacant(Format::DEFAULT.fingerprint()), cell.1);
        let answer = other.acquire(&ask);
        let commands = machine.step(&later(5_020), Event::Acquired(answer));
        assert!(!commands.iter().any(|command| matches!(command, Command::Open { .. })));
        assert!(matches!(commands[..], [Command::Release(_)]), "it goes back: {commands:?}");
        assert_eq!(machine.state(), State::Held);
    }
}

#[test]
fn set_ahead_it_renews_by_the_new_time_before_it_follows() {
    let (mut machine, mut cell) = held_later();
    let ask = asked_to_renew(&machine.step(&later(5_000), stepped(HOUR_NS, Verdict::Confirmed)));
    assert_eq!(ask.until.0, 7_205_000 + 3_600_000 + 60_000);
    let answer = cell.renew(&ask);
    let commands = machine.step(&later(5_020), Event::Renewed(answer));
    assert!(
        matches!(commands[..], [Command::Extend { .. }, Command::Follow { by_ns: HOUR_NS }]),
        "{commands:?}"
    );
}

/// A service that goes by another clock cuts the window short of where it would have to reach.
#[test]
fn set_ahead_beyond_what_the_window_reaches_it_leases_anew() {
    let (mut machine, mut cell) = held_later();
    let ask = asked_to_renew(&machine.step(&later(5_000), stepped(HOUR_NS, Verdict::Confirmed)));
    let answer = cell.renew(&Renew { until: Tick(7_265_000), ..ask });
    let commands = machine.step(&later(5_020), Event::Renewed(answer));
    assert!(
        matches!(commands[..], [Command::Close, Command::Follow { by_ns: HOUR_NS }]),
        "{commands:?}"
    );
}

/// The renewal that was under way is by the old time; the one after it is not.
#[test]
fn a_renewal_under_way_is_finished_before_one_by_the_new_time() {
    let (mut machine, mut cell) = held_later();
    let due = later(20_000);
    let first = asked_to_renew(&machine.step(&due, Event::Wake));
    assert!(machine.step(&later(20_010), stepped(HOUR_NS, Verdict::Confirmed)).is_empty());
    let answer = cell.renew(&first);
    let commands = machine.step(&later(20_020), Event::Renewed(answer));
    let second = asked_to_renew(&commands);
    assert_eq!(second.until.0, 7_220_020 + 3_600_000 + 60_000);
}

/// The clock was set again while the renewal was repeated.
#[test]
fn what_was_renewed_for_another_time_is_not_followed_to() {
    let (mut machine, mut cell) = held_later();
    let ask = asked_to_renew(&machine.step(&later(5_000), stepped(HOUR_NS, Verdict::Confirmed)));
    machine.step(&later(5_010), stepped(10_000_000_000, Verdict::Confirmed));
    let answer = cell.renew(&ask);
    let commands = machine.step(&later(5_020), Event::Renewed(answer));
    let [Command::Extend { .. }, Command::Renew(next)] = &commands[..] else {
        panic!("{commands:?}")
    };
    // The window reaches there already: there is nothing to extend.
    let answer = cell.renew(next);
    let commands = machine.step(&later(5_030), Event::Renewed(answer));
    assert!(
        matches!(commands[..], [Command::Extend { .. }, Command::Follow { by_ns: 10_000_000_000 }]),
        "{commands:?}"
    );
}

#[test]
fn a_step_that_is_asked_about_has_the_lease_renewed_soon_and_not_by_the_whole_fleet_at_once() {
    let mut whens = Vec::new();
    for seed in 0..20 {
        let (mut machine, _) = held_later();
        machine.pace.seed(seed);
        machine.step(&later(5_000), stepped(-HOUR_NS, Verdict::Asking));
        let wake_ns = machine.wake_ns().unwrap() - later(5_000).boot_ns;
        assert!(wake_ns <= 375_000_000, "{wake_ns}");
        whens.push(wake_ns);
    }
    whens.sort_unstable();
    assert!(whens[19] - whens[0] > 100_000_000, "{whens:?}");
}

#[test]
fn what_the_token_of_a_renewal_is_nobody_can_know_before_it_is_sent() {
    let (mut machine, mut cell) = held_later();
    let mut copy = machine.clone();
    let due = later(20_000);
    let asks = [&mut machine, &mut copy].map(|one| asked_to_renew(&one.step(&due, Event::Wake)));
    assert_ne!(asks[0].next, asks[1].next);
    let answers = asks.map(|ask| cell.renew(&ask));
    assert!(answers[0].is_ok());
    assert!(matches!(answers[1], Err(RenewError::NotYours { .. })), "{answers:?}");
}

#[test]
fn a_restored_machine_forgets_what_a_copy_may_have() {
    // While a renewal is under way, and while an acquire is.
    let (mut machine, mut cell) = held_later();
    let ask = asked_to_renew(&machine.step(&later(20_000), Event::Wake));
    let commands = machine.step(&later(20_010), Event::Restored { seed: 1 });
    assert!(matches!(commands[..], [Command::Close]), "{commands:?}");
    let answer = cell.renew(&ask);
    let commands = machine.step(&later(20_020), Event::Renewed(answer));
    let first = asked_to_acquire(&commands);
    assert!(!commands.iter().any(|command| matches!(command, Command::Extend { .. })));
    machine.step(&later(20_030), Event::Restored { seed: 2 });
    let mut other = OneCell::new();
    let answer = other.acquire(&first);
    let commands = machine.step(&later(20_040), Event::Acquired(answer));
    assert!(!commands.iter().any(|command| matches!(command, Command::Open { .. })));
    assert_ne!(
        asked_to_acquire(&commands).request_key.token().hash(),
        first.request_key.token().hash()
    );
}

#[test]
fn a_suspended_machine_asks_for_nothing_until_it_is_started_again() {
    let (mut machine, mut cell) = held_later();
    let commands = machine.step(&later(5_000), Event::Suspend);
    assert!(matches!(commands[..], [Command::Close]));
    let closed = Closed { generator_id: 4, unused_from: Tick(7_201_000) };
    let commands = machine.step(&later(5_001), Event::Closed(closed));
    let [Command::Release(ask)] = &commands[..] else { panic!("{commands:?}") };
    assert!(!machine.is_at_rest());
    let answer = cell.release(ask);
    assert!(machine.step(&later(5_010), Event::Released(answer)).is_empty());
    assert!(machine.is_at_rest() && !machine.is_stopping() && machine.wake_ns().is_none());
    assert!(machine.step(&later(900_000), Event::Wake).is_empty());
    let commands = machine.step(&later(900_010), Event::Start { seed: 8 });
    assert_eq!(asked_to_acquire(&commands).from, Tick(8_100_010));
}

#[test]
fn a_suspended_machine_asks_with_another_key_than_one_that_may_have_landed() {
    let mut machine = machine();
    let first = asked_to_acquire(&machine.step(&later(0), Event::Start { seed: 7 }));
    let lost = Event::Acquired(Err(Outage::unknown("no answer").into()));
    assert!(machine.step(&later(10), lost).is_empty());
    machine.step(&later(20), Event::Suspend);
    let again = asked_to_acquire(&machine.step(&later(30), Event::Start { seed: 8 }));
    assert_ne!(again.request_key.token().hash(), first.request_key.token().hash());
}
