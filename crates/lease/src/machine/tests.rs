//! The protocol by plain calls: no thread, no store, no clock but a number.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod clock;

use snowlease_core::Layout;

use super::*;
use crate::rules::{self, Decision};
use crate::{Acquire, Cell, Meta};

const EPOCH: i64 = Format::DEFAULT.epoch_ms();

fn at_ms(ms: u64) -> Moment {
    let unix_ms = EPOCH + i64::try_from(ms).unwrap();
    Moment { unix_ms, sub_ms_ns: 0, boot_ns: 1_000_000_000_000 + ms * 1_000_000 }
}

fn machine() -> Machine {
    let holder = Holder::new("web-1", "", "", "").unwrap();
    Machine::new(Terms::DEFAULT, Format::DEFAULT, holder)
}

/// One cell, changed by the same rules as every store.
struct OneCell(Cell, Meta);

impl OneCell {
    fn new() -> OneCell {
        let format = Format::DEFAULT;
        OneCell(Cell::vacant(format.fingerprint()), Meta::new(format, (4, 4)))
    }

    fn acquire(&mut self, ask: &Acquire) -> Result<Grant, AcquireError> {
        rules::admit(&self.1, ask)?;
        match rules::acquire(&self.1, 4, &self.0, ask) {
            Some(Decision::Put(cell, grant)) => {
                self.0 = cell;
                Ok(grant)
            }
            Some(Decision::Keep(grant)) => Ok(grant),
            None => Err(AcquireError::Exhausted { total: 1, earliest: Some(self.0.until) }),
        }
    }

    fn renew(&mut self, ask: &Renew) -> Result<Renewal, RenewError> {
        Ok(match rules::renew(&self.1, &self.0, ask)? {
            Decision::Put(cell, renewal) => {
                self.0 = cell;
                renewal
            }
            Decision::Keep(renewal) => renewal,
        })
    }

    fn release(&mut self, ask: &Release) -> Result<(), ReleaseError> {
        self.0 = rules::release(&self.0, ask)?;
        Ok(())
    }
}

fn asked_to_acquire(commands: &[Command]) -> Acquire {
    match commands {
        [.., Command::Acquire(ask)] => ask.clone(),
        other => panic!("{other:?}"),
    }
}

fn asked_to_renew(commands: &[Command]) -> Renew {
    match commands {
        [.., Command::Renew(ask)] => ask.clone(),
        other => panic!("{other:?}"),
    }
}

/// A machine that holds a lease since 1 s, and its cell.
fn held() -> (Machine, OneCell) {
    let (mut machine, mut cell) = (machine(), OneCell::new());
    let ask = asked_to_acquire(&machine.step(&at_ms(1_000), Event::Start { seed: 7 }));
    let answer = cell.acquire(&ask);
    let commands = machine.step(&at_ms(1_010), Event::Acquired(answer));
    let [Command::Open { window, deadline_ns, .. }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!((window.from(), window.until()), (Tick(1_000), Tick(61_000)));
    // 60 s from the sending, not from the answer, less the margin.
    assert_eq!(deadline_ns, at_ms(60_000).boot_ns);
    assert_eq!(machine.state(), State::Held);
    (machine, cell)
}

fn renewal_time(machine: &Machine) -> Moment {
    let wake_ns = machine.wake_ns().unwrap();
    at_ms((wake_ns - at_ms(0).boot_ns).div_ceil(1_000_000))
}

#[test]
fn it_renews_after_eighteen_to_twenty_seconds_and_extends_only_what_was_confirmed() {
    let (mut machine, mut cell) = held();
    let due = renewal_time(&machine);
    assert!((at_ms(19_000).boot_ns..=at_ms(21_000).boot_ns).contains(&due.boot_ns));
    assert!(machine.step(&at_ms(18_000), Event::Wake).is_empty());
    let ask = asked_to_renew(&machine.step(&due, Event::Wake));
    assert_eq!(ask.until.0, due.unix_ms.abs_diff(EPOCH) + 60_000);
    let answer = cell.renew(&ask);
    let late = at_ms(25_000);
    let commands = machine.step(&late, Event::Renewed(answer));
    let [Command::Extend { until, deadline_ns }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(until, cell.0.until);
    assert_eq!(deadline_ns, due.boot_ns + 59_000_000_000);
}

#[test]
fn a_renewal_without_an_answer_is_sent_again_byte_for_byte_and_counts_from_its_first_sending() {
    let (mut machine, mut cell) = held();
    let due = renewal_time(&machine);
    let first = asked_to_renew(&machine.step(&due, Event::Wake));
    cell.renew(&first).unwrap(); // it landed, and the answer is lost
    let lost = Event::Renewed(Err(RenewError::Outage(Outage::unknown("no answer"))));
    assert!(machine.step(&at_ms(24_000), lost).is_empty());
    let again = asked_to_renew(&machine.step(&at_ms(27_000), Event::Wake));
    assert_eq!((again.until, again.seq, again.next), (first.until, first.seq, first.next));
    let answer = cell.renew(&again);
    let commands = machine.step(&at_ms(27_010), Event::Renewed(answer));
    let [Command::Extend { until, deadline_ns }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!((until, deadline_ns), (first.until, due.boot_ns + 59_000_000_000));
    // The next renewal starts from the rotated token.
    let ask = asked_to_renew(&machine.step(&at_ms(50_000), Event::Wake));
    assert_eq!(ask.token.hash(), first.next);
    assert!(cell.renew(&ask).is_ok());
}

#[test]
fn one_failed_renewal_is_not_a_lost_lease() {
    let (mut machine, _cell) = held();
    machine.step(&at_ms(21_000), Event::Wake);
    let mut now = 21_000;
    while now < 59_000 {
        let failed = Event::Renewed(Err(RenewError::Outage(Outage::unavailable("down"))));
        let commands = machine.step(&at_ms(now), failed);
        assert!(commands.is_empty(), "{commands:?}");
        assert_eq!(machine.state(), State::Held);
        now += 2_100;
        machine.step(&at_ms(now), Event::Wake);
    }
}

#[test]
fn the_gate_closes_when_the_window_runs_out_and_another_lease_is_asked_for() {
    let (mut machine, _cell) = held();
    machine.step(&at_ms(21_000), Event::Wake);
    let failed = Event::Renewed(Err(RenewError::Outage(Outage::unknown("down"))));
    let commands = machine.step(&at_ms(60_000), failed);
    assert!(matches!(commands[..], [Command::Close]), "{commands:?}");
    assert_eq!(machine.state(), State::Lost);
    let ask = asked_to_acquire(&machine.step(&at_ms(63_000), Event::Wake));
    assert_eq!(ask.from, Tick(63_000));
}

#[test]
fn not_yours_closes_the_gate_at_once_and_service_resumes_with_another_lease() {
    let (mut machine, mut cell) = held();
    machine.step(&at_ms(21_000), Event::Wake);
    let not_yours = Event::Renewed(Err(RenewError::NotYours { reason: "released" }));
    let commands = machine.step(&at_ms(21_010), not_yours);
    assert!(matches!(commands[..], [Command::Close, Command::Acquire(_)]), "{commands:?}");
    let ask = asked_to_acquire(&commands);
    cell.0 = Cell::vacant(Format::DEFAULT.fingerprint());
    let answer = cell.acquire(&ask);
    let commands = machine.step(&at_ms(21_020), Event::Acquired(answer));
    assert!(matches!(commands[..], [Command::Open { .. }]));
}

#[test]
fn long_ticks_end_no_lease_and_leave_no_gap() {
    // Ticks of an hour, windows of a minute; half a minute before the hour, and on.
    let format = Format::new(Layout::DEFAULT, 3_600_000, EPOCH).unwrap();
    let holder = Holder::new("web-1", "", "", "").unwrap();
    let mut machine = Machine::new(Terms::DEFAULT, format, holder);
    let mut cell = OneCell::new();
    cell.1.format = format;
    let start_ms = 3_570_000;
    let mut now_ms = start_ms;
    let mut commands = machine.step(&at_ms(now_ms), Event::Start { seed: 7 });
    let (mut until, mut deadline_ns) = (Tick(0), 0);
    while now_ms < start_ms + 400_000 {
        let moment = at_ms(now_ms);
        let event = match commands.pop() {
            Some(Command::Acquire(ask)) => Event::Acquired(cell.acquire(&ask)),
            Some(Command::Renew(ask)) => Event::Renewed(cell.renew(&ask)),
            Some(Command::Open { window, deadline_ns: deadline, .. }) => {
                (until, deadline_ns) = (window.until(), deadline);
                Event::Wake
            }
            Some(Command::Extend { until: longer, deadline_ns: later }) => {
                (until, deadline_ns) = (longer, later);
                Event::Wake
            }
            Some(other) => panic!("{other:?} after {} s", (now_ms - start_ms) / 1_000),
            None => {
                now_ms += 1_000;
                let tick = format.tick_at(moment).unwrap();
                assert!(tick < until && moment.boot_ns < deadline_ns, "{now_ms}: {until}");
                Event::Wake
            }
        };
        commands = machine.step(&at_ms(now_ms), event);
    }
    assert_eq!(machine.state(), State::Held);
}

#[test]
fn a_store_that_went_back_ends_the_lease() {
    let (mut machine, mut cell) = held();
    let due = renewal_time(&machine);
    let first = asked_to_renew(&machine.step(&due, Event::Wake));
    let older = cell.0.clone();
    let answer = cell.renew(&first);
    machine.step(&due, Event::Renewed(answer));
    cell.0 = older; // restored from a backup, token and all
    cell.0.token = first.next;
    let ask = asked_to_renew(&machine.step(&at_ms(45_000), Event::Wake));
    let answer = cell.renew(&ask);
    assert!(matches!(answer, Err(RenewError::RolledBack { .. })), "{answer:?}");
    let commands = machine.step(&at_ms(45_010), Event::Renewed(answer));
    assert!(matches!(commands[..], [Command::Close, ..]), "{commands:?}");
}

#[test]
fn a_lost_answer_to_an_acquire_takes_no_second_generator_id() {
    let (mut machine, mut cell) = (machine(), OneCell::new());
    let ask = asked_to_acquire(&machine.step(&at_ms(1_000), Event::Start { seed: 7 }));
    cell.acquire(&ask).unwrap();
    let lost = Event::Acquired(Err(AcquireError::Outage(Outage::unknown("no answer"))));
    machine.step(&at_ms(4_000), lost);
    let again = asked_to_acquire(&machine.step(&at_ms(7_000), Event::Wake));
    let answer = cell.acquire(&again);
    let commands = machine.step(&at_ms(7_010), Event::Acquired(answer));
    let [Command::Open { window, deadline_ns, .. }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(window.until(), Tick(61_000));
    assert_eq!(deadline_ns, at_ms(60_000).boot_ns);
}

#[test]
fn a_grant_that_comes_too_late_is_given_back_unused() {
    let (mut machine, mut cell) = (machine(), OneCell::new());
    let ask = asked_to_acquire(&machine.step(&at_ms(1_000), Event::Start { seed: 7 }));
    let answer = cell.acquire(&ask);
    let commands = machine.step(&at_ms(60_500), Event::Acquired(answer));
    // It goes back before another one is asked for: it may be the only one there is.
    let [Command::Release(ask)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(ask.unused_from, Tick(1_000));
    let answer = cell.release(ask);
    let commands = machine.step(&at_ms(60_510), Event::Released(answer));
    assert_eq!(asked_to_acquire(&commands).from, Tick(60_510));
    assert_eq!(machine.state(), State::Acquiring);
}

#[test]
fn a_key_is_not_asked_with_again_once_its_window_would_be_over() {
    let mut machine = machine();
    let first =
        asked_to_acquire(&machine.step(&at_ms(1_000), Event::Start { seed: 7 })).request_key;
    let unknown = || Event::Acquired(Err(AcquireError::Outage(Outage::unknown("no answer"))));
    machine.step(&at_ms(4_000), unknown());
    let again = asked_to_acquire(&machine.step(&at_ms(30_000), Event::Wake)).request_key;
    assert_eq!(again, first);
    machine.step(&at_ms(33_000), unknown());
    let later = asked_to_acquire(&machine.step(&at_ms(90_000), Event::Wake)).request_key;
    assert_ne!(later, first);
}

#[test]
fn at_the_end_of_time_the_lease_is_lost_and_a_stop_ends() {
    let end_ms = u64::try_from(Format::DEFAULT.end_ms() - EPOCH).unwrap();
    let (mut machine, _cell) = held();
    let commands = machine.step(&at_ms(end_ms), Event::Wake);
    assert!(matches!(commands[..], [Command::Close]), "{commands:?}");
    assert!(machine.wake_ns().unwrap() > at_ms(end_ms).boot_ns, "it would be woken at once");
    machine.step(&at_ms(end_ms + 10), Event::Stop);
    assert!(machine.is_at_rest());

    let (mut machine, _cell) = held();
    machine.step(&at_ms(end_ms), Event::Stop);
    let closed = Closed { generator_id: 4, unused_from: Tick(5_001) };
    machine.step(&at_ms(end_ms), Event::Closed(closed));
    assert!(machine.is_at_rest());
}

#[test]
fn a_clock_before_the_epoch_is_waited_for_and_not_asked_about_in_a_tight_loop() {
    let mut machine = machine();
    let before = Moment { unix_ms: 0, ..at_ms(1_000) };
    assert!(machine.step(&before, Event::Start { seed: 7 }).is_empty());
    assert!(machine.wake_ns().unwrap() > before.boot_ns);
    asked_to_acquire(&machine.step(&at_ms(10_000), Event::Wake));
}

#[test]
fn a_clean_stop_closes_the_gate_before_it_releases() {
    let (mut machine, mut cell) = held();
    let commands = machine.step(&at_ms(5_000), Event::Stop);
    assert!(matches!(commands[..], [Command::Close]), "{commands:?}");
    assert!(!machine.is_at_rest());
    let closed = Closed { generator_id: 4, unused_from: Tick(5_001) };
    let commands = machine.step(&at_ms(5_000), Event::Closed(closed));
    let [Command::Release(ask)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(ask.unused_from, Tick(5_001));
    let answer = cell.release(ask);
    assert_eq!(answer, Ok(()));
    machine.step(&at_ms(5_010), Event::Released(answer));
    assert!(machine.is_at_rest());
    assert_eq!(cell.0.until, Tick(5_001));
}

#[test]
fn a_stop_while_a_renewal_is_in_doubt_still_releases() {
    let (mut machine, mut cell) = held();
    let ask = asked_to_renew(&machine.step(&at_ms(21_000), Event::Wake));
    cell.renew(&ask).unwrap();
    let lost = Event::Renewed(Err(RenewError::Outage(Outage::unknown("no answer"))));
    machine.step(&at_ms(24_000), lost);
    machine.step(&at_ms(24_001), Event::Stop);
    let closed = Closed { generator_id: 4, unused_from: Tick(24_002) };
    let commands = machine.step(&at_ms(24_001), Event::Closed(closed));
    let [Command::Release(ask)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(cell.release(ask), Ok(()));
}

#[test]
fn a_stop_gives_up_on_a_store_that_is_gone() {
    let (mut machine, _cell) = held();
    machine.step(&at_ms(5_000), Event::Stop);
    let closed = Closed { generator_id: 4, unused_from: Tick(5_001) };
    let mut commands = machine.step(&at_ms(5_000), Event::Closed(closed));
    let mut now = 5_000;
    let mut attempts = 0;
    while !machine.is_at_rest() {
        if let [Command::Release(_)] = commands[..] {
            attempts += 1;
            let gone = Event::Released(Err(ReleaseError::Outage(Outage::unavailable("gone"))));
            commands = machine.step(&at_ms(now), gone);
        } else {
            now += 100;
            commands = machine.step(&at_ms(now), Event::Wake);
        }
        assert!(now < 20_000);
    }
    assert_eq!(attempts, RELEASE_ATTEMPTS);
}

#[test]
fn a_drain_makes_before_it_breaks() {
    let (mut machine, mut cell) = held();
    let ask = asked_to_renew(&machine.step(&at_ms(21_000), Event::Wake));
    // The drain crosses the renewal: the cell has moved on, and is still ours.
    cell.0 = rules::drain(&cell.0, true).unwrap();
    let answer = cell.renew(&ask);
    assert_eq!(answer.clone().unwrap().token, Carries::Token);
    let commands = machine.step(&at_ms(21_010), Event::Renewed(answer));
    let ask = asked_to_renew(&commands);
    let answer = cell.renew(&ask);
    let commands = machine.step(&at_ms(21_020), Event::Renewed(answer));
    assert_eq!(machine.state(), State::Draining);
    let ask = asked_to_acquire(&commands);

    let mut other = OneCell::new();
    let granted = other.acquire(&ask).map(|grant| Grant { generator_id: 9, ..grant });
    let commands = machine.step(&at_ms(21_030), Event::Acquired(granted));
    let [Command::Open { window, .. }] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(window.generator_id(), 9);
    let closed = Closed { generator_id: 4, unused_from: Tick(21_031) };
    let commands = machine.step(&at_ms(21_030), Event::Closed(closed));
    let [Command::Release(ask)] = &commands[..] else { panic!("{commands:?}") };
    assert_eq!(cell.release(ask), Ok(()));
    assert!(cell.0.draining, "a released id that is being drained is not granted again");
    assert_eq!(machine.state(), State::Held);
}

#[test]
fn a_shorter_window_is_renewed_earlier() {
    let (mut machine, mut cell) = (machine(), OneCell::new());
    let mut ask = asked_to_acquire(&machine.step(&at_ms(1_000), Event::Start { seed: 7 }));
    ask.until = Tick(10_000); // a service with shorter terms
    let answer = cell.acquire(&ask);
    machine.step(&at_ms(1_000), Event::Acquired(answer));
    assert!(renewal_time(&machine).boot_ns <= at_ms(4_000).boot_ns);
}

#[test]
fn a_pool_that_is_used_up_is_asked_again_and_not_in_a_tight_loop() {
    let mut machine = machine();
    machine.step(&at_ms(0), Event::Start { seed: 7 });
    let mut asked = 0;
    let mut waiting = true;
    for ms in (0..60_000).step_by(10) {
        let event = if waiting {
            let earliest = Some(Tick(90_000));
            Event::Acquired(Err(AcquireError::Exhausted { total: 1, earliest }))
        } else {
            Event::Wake
        };
        let commands = machine.step(&at_ms(ms), event);
        waiting = matches!(commands[..], [Command::Acquire(_)]);
        asked += u32::from(waiting);
    }
    assert!((30..200).contains(&asked), "{asked}");
}
