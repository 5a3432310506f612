//! What clocks have done to others, as small inputs with the right answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use snowlease_core::{Format, Refusal, Window};
use snowlease_lease::Administer;
use snowlease_lease::machine::{Event, State};
use snowlease_lease::testing::{Guard, Host, MemoryStore, Referenced, ScriptedTime};
use snowlease_lease::{
    Acquire, AcquireError, Grant, LeaseEntry, LeaseStore, Outage, Release, ReleaseError, Renew,
    RenewError, Renewal, StoreStatus, Terms,
};

use super::{Fleet, START_MS, generator_id, held, time, told_ms};

/// A process is restarted on a host whose clock was set back while it was down.
#[test]
fn restarted_with_an_older_clock_it_issues_nothing_below_what_was_issued() {
    for down_ms in [0, 1_000, 3_600_000] {
        let mut fleet = Fleet::new();
        let time = time();
        let mut host = fleet.alone(&time);
        let mut last = None;
        for _ in 0..100 {
            fleet.pass_ms(&mut host, 100);
            last = Some(fleet.take(&host).unwrap());
        }
        drop(host); // killed: nothing is given back
        time.set_wall_ms(-down_ms);
        let host = fleet.alone(&time);
        let id = fleet.take(&host).unwrap();
        assert_ne!(Some(generator_id(id)), last.map(generator_id));
    }
}

/// The only generator id there is: whoever comes back too early is told how long to wait.
#[test]
fn the_only_generator_id_is_not_had_again_below_its_mark() {
    let mut fleet = Fleet::new();
    (1..64).for_each(|id| fleet.memory.drain(id, true).unwrap());
    let time = time();
    let host = fleet.alone(&time);
    let before = fleet.take(&host).unwrap();
    drop(host);
    time.set_wall_ms(-30_000);
    let mut host = fleet.alone(&time);
    assert_eq!(fleet.take(&host), Err(Refusal::NoLease));
    fleet.pass_ms(&mut host, 89_000);
    assert_eq!(fleet.take(&host), Err(Refusal::NoLease));
    fleet.pass_ms(&mut host, 3_000);
    let after = fleet.take(&host).unwrap();
    assert!(told_ms(after) >= told_ms(before) + 60_000, "not below the mark");
}

/// A machine was asleep for ten minutes with a lease of a minute: the very first call is refused,
/// before anybody has looked at anything.
#[test]
fn after_a_suspend_the_first_call_finds_the_lease_over() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    time.suspend_ms(600_000);
    fleet.reference.pass_ms(600_000);
    // The counter stood still in the suspend, as some do; a tick has passed since.
    time.pass_ms(1);
    assert_eq!(fleet.take(&host), Err(Refusal::WindowEnd));
    host.look();
    assert_eq!(host.clock().counts.pauses, 1);
    let after = fleet.take(&host).unwrap();
    assert!(told_ms(after) >= told_ms(before) + 600_000);
    assert_eq!((host.clock().step, host.state()), (None, State::Held));
}

/// A virtual machine was stopped from outside: its own clocks do not know, until somebody sets the
/// wall clock. The lease may be over by real time; it is confirmed before ids go on.
#[test]
fn a_wall_clock_that_jumps_ahead_has_the_lease_confirmed_before_ids_go_on() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    fleet.reference.pass_ms(600_000);
    time.set_wall_ms(600_000);
    fleet.store.set_away(true);
    fleet.pass_ms(&mut host, 250);
    assert!(matches!(fleet.take(&host), Err(Refusal::ClockStepped { by_ms: 600_000, .. })));
    fleet.store.set_away(false);
    fleet.pass_ms(&mut host, 2_000);
    let after = fleet.take(&host).unwrap();
    assert!(told_ms(after) >= told_ms(before) + 602_000);
}

/// The boot clock counted ten minutes that the wall clock knows nothing of.
#[test]
fn a_boot_clock_that_jumps_alone_is_found_out() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    time.pass_apart_ns(0, 600_000_000_000, 0, 0);
    time.pass_ms(1);
    assert_eq!(fleet.take(&host), Err(Refusal::WindowEnd), "by the only clock that counts suspend");
    fleet.pass_ms(&mut host, 10_000);
    let after = fleet.take(&host).unwrap();
    let passed_ms = told_ms(after) - told_ms(before);
    assert!((passed_ms - 10_001).abs() <= 500, "{passed_ms}");
    assert_eq!(host.clock().counts.reseeds, 1);
}

/// A whole leap second is repeated, under a thousand ids a second.
#[test]
fn a_repeated_leap_second_repeats_no_id() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let (mut issued, mut refused_ms) = (0, 0);
    for ms in 0..10_000 {
        if ms == 4_000 {
            fleet.set_all_ms(&time, -1_000);
        }
        fleet.reference.pass_ms(1);
        time.pass_ms(1);
        if ms % 250 == 0 {
            host.look();
        } else {
            host.settle();
        }
        match fleet.take(&host) {
            Ok(_) => issued += 1,
            Err(Refusal::ClockStepped { by_ms: -1_000, .. }) => refused_ms += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(issued >= 9_000 && refused_ms <= 1_000, "{issued} {refused_ms}");
    assert_eq!(host.clock().counts.steps, 1);
}

/// A wall clock that stands for a second takes nothing from the capacity of a tick, and one that
/// stands still for ever is drift, then a step.
#[test]
fn a_frozen_wall_clock_does_not_freeze_ids() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    for _ in 0..1_000 {
        time.pass_apart_ns(0, 1_000_000, 1_000_000, 1_000_000);
        fleet.reference.pass_ms(1);
        for _ in 0..5 {
            fleet.take(&host).unwrap();
        }
    }
    let after = fleet.take(&host).unwrap();
    assert_eq!(told_ms(after) - told_ms(before), 1_000);
    for _ in 0..400 {
        time.pass_apart_ns(0, 250_000_000, 250_000_000, 250_000_000);
        fleet.reference.pass_ms(250);
        host.look();
    }
    let id = fleet.take(&host).unwrap();
    let behind_ms = START_MS + 101_000 - told_ms(id);
    assert!(behind_ms.abs() < 500, "{behind_ms}");
}

#[test]
fn at_the_ends_of_the_time_field_errors_are_typed_and_the_last_tick_works() {
    let format = Format::new("t20g6s37".parse().unwrap(), 1, START_MS).unwrap();
    let last_ms = START_MS + (1 << 20) - 1;
    for (at_ms, right) in [
        (START_MS - 1, Err(Refusal::BeforeEpoch { missing_ms: 1 })),
        (START_MS, Ok(0)),
        (last_ms, Ok((1 << 20) - 1)),
        (last_ms + 1, Err(Refusal::TimeEnd)),
        (i64::MAX / 1_000_000, Err(Refusal::TimeEnd)),
    ] {
        let mut fleet = Fleet::of(format);
        let time = ScriptedTime::at_ms(at_ms);
        let host = fleet.alone(&time);
        let answer = fleet.take(&host).map(|id| format.decode(id).tick.0);
        assert_eq!(answer, right, "{at_ms}");
    }
    // Past the end of its own time it stops, with the same words.
    let mut fleet = Fleet::of(format);
    let time = ScriptedTime::at_ms(last_ms - 100);
    let mut host = fleet.alone(&time);
    fleet.take(&host).unwrap();
    fleet.pass_ms(&mut host, 1_000);
    assert_eq!(fleet.take(&host), Err(Refusal::TimeEnd));
}

/// A clock was decades ahead for a second, with renewals going on. Nothing is kept of that.
#[test]
fn a_clock_that_was_ahead_once_blocks_nobody_afterwards() {
    let mut fleet = Fleet::new();
    let time = time();
    let mut host = fleet.host(&time);
    fleet.take(&host).unwrap();
    time.set_wall_ms(86_400_000 * 365 * 30);
    fleet.pass_ms(&mut host, 1_000);
    time.set_wall_ms(-86_400_000 * 365 * 30);
    host.tell(Event::Stop);
    drop(host);
    for _ in 0..64 {
        let host = fleet.host(&time.apart());
        fleet.take(&host).unwrap();
        assert_eq!(host.state(), State::Held);
    }
}

/// A clock that moves in steps of 15 ms: order and uniqueness hold, and a full tick is a refusal
/// with a bound.
#[test]
fn a_coarse_clock_costs_capacity_and_nothing_else() {
    let mut fleet = Fleet::new();
    let time = time();
    let host = fleet.host(&time);
    let mut last = None;
    for _ in 0..3 {
        let mut issued = 0;
        let refusal = loop {
            match fleet.take(&host) {
                Ok(id) => {
                    assert!(Some(id) > last);
                    last = Some(id);
                    issued += 1;
                }
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(issued, 4_096);
        let Refusal::TickFull { retry_after } = refusal else { panic!("{refusal:?}") };
        assert!(retry_after <= Duration::from_millis(1));
        time.pass_ms(15);
        fleet.reference.pass_ms(15);
    }
}

/// Two copies of a running virtual machine, each with the lease, its secrets and a window that is
/// still open: at the next renewal one of them is told that the lease is not its own.
#[test]
fn of_two_copies_only_one_keeps_the_lease_beyond_the_next_renewal() {
    for first_renews in [true, false] {
        let fleet = Fleet::new();
        let time = time();
        let mut original = fleet.host(&time);
        fleet.pass_ms(&mut original, 10_000);
        let other_time = time.apart();
        let mut copy = original.copy(fleet.store.clone(), &other_time);
        let before = original.generator().window().map(Window::generator_id);
        let (first, second) =
            if first_renews { (&mut original, &mut copy) } else { (&mut copy, &mut original) };
        fleet.reference.pass_ms(15_000);
        for host in [&mut *first, &mut *second] {
            host.time().pass_ms(15_000);
            host.look();
        }
        let now = |host: &Host| host.generator().window().map(Window::generator_id);
        assert_eq!(now(first), before, "whoever renews first goes on");
        assert!(now(second).is_some() && now(second) != before, "the other one leases anew");
    }
}

/// Where the machine tells that it was restored, no copy issues another id under the old lease.
#[test]
fn a_restored_machine_issues_nothing_under_the_old_lease() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    time.restore();
    assert_eq!(fleet.take(&host), Err(Refusal::Restored), "the very first call");
    assert_eq!(host.generator().next_ids(10), Err(Refusal::Restored));
    host.pass_ms(1); // ids ascend across leases: the tick that was begun is left
    let after = fleet.take(&host).unwrap();
    assert_ne!(generator_id(after), generator_id(before));
    // The old lease is not given back: another copy may go on with it.
    assert_eq!(held(&fleet.memory), 2);
}

/// The answer to an acquire came into a copy: what it granted is not used, and what it was to
/// replace is not given back. With a lease that is drained, with a clock that was set back, and
/// without any lease before.
#[test]
fn a_machine_restored_while_the_store_was_asked_does_not_use_the_answer() {
    for case in ["first", "drained", "set back"] {
        let (mut fleet, time) = (Fleet::new(), time());
        let restores = Arc::new(Restores::new(fleet.store.clone(), time.clone()));
        restores.at_next_acquire(case == "first");
        let store = Arc::clone(&restores) as Arc<_>;
        let mut host = Host::start(store, &time, Format::DEFAULT, Terms::DEFAULT, Guard::Precise);
        let first = fleet.take(&host).unwrap();
        if case != "first" {
            restores.at_next_acquire(true);
        }
        match case {
            "drained" => {
                fleet.memory.drain(generator_id(first), true).unwrap();
                fleet.pass_ms(&mut host, 25_000);
            }
            "set back" => {
                fleet.set_all_ms(&time, -3_600_000);
                fleet.pass_ms(&mut host, 5_000);
            }
            _ => {}
        }
        let spoilt = restores.spoilt.lock().unwrap().take().unwrap();
        let id = generator_id(fleet.take(&host).unwrap());
        assert!(id != spoilt && (case == "first" || id != generator_id(first)), "{case}");
        let held = held(&fleet.memory);
        assert_eq!(held, if case == "first" { 2 } else { 3 }, "{case}: nothing was given back");
        host.tell(Event::Stop);
        host.settle();
        assert_eq!(host.state(), State::Idle, "{case}");
        assert_eq!(super::held(&fleet.memory), held - 1, "{case}: its own lease was");
    }
}

/// Whatever a copy is told to do next, it gives nothing back that the original goes on with.
#[test]
fn a_restored_copy_that_is_stopped_or_suspended_leaves_the_lease_to_the_original() {
    for end in [Event::Stop, Event::Suspend] {
        let (mut fleet, time) = (Fleet::new(), time());
        let original = fleet.host(&time);
        let other_time = time.apart();
        let mut copy = original.copy(fleet.store.clone(), &other_time);
        other_time.restore();
        copy.tell(end);
        copy.settle();
        assert_eq!((held(&fleet.memory), copy.state()), (1, State::Idle));
        fleet.take(&original).unwrap();
    }
}

#[test]
fn a_suspended_holder_has_nothing_to_copy_and_leases_anew() {
    let (mut fleet, time) = (Fleet::new(), time());
    let mut host = fleet.host(&time);
    let before = fleet.take(&host).unwrap();
    host.tell(Event::Suspend);
    host.settle();
    assert_eq!((held(&fleet.memory), host.state()), (0, State::Idle));
    assert_eq!(fleet.take(&host), Err(Refusal::NoLease));
    let other_time = time.apart();
    let mut copy = host.copy(fleet.store.clone(), &other_time);
    for (host, seed) in [(&mut host, 1), (&mut copy, 2)] {
        host.tell(Event::Start { seed });
        host.pass_ms(1);
        let id = fleet.take(host).unwrap();
        assert!(id > before);
    }
    let ids = [&host, &copy].map(|host| generator_id(fleet.take(host).unwrap()));
    assert_ne!(ids[0], ids[1]);
}

/// The counter that calls check their tick by goes back, stands still, or runs off.
#[test]
fn a_counter_that_goes_astray_repeats_no_id_and_a_tick_passes_all_the_same() {
    for count in [0, u64::MAX, 1 << 63] {
        let (mut fleet, time) = (Fleet::new(), time());
        let mut host = fleet.host(&time);
        fleet.take(&host).unwrap();
        time.set_counter(count);
        fleet.pass_ms(&mut host, 2);
        let id = fleet.take(&host).unwrap();
        assert_eq!(told_ms(id), START_MS + 2, "{count}");
    }
}

/// With the ticking guard a pause of the whole process may show in the first ids after it, for what
/// is left of a sequence; and never outside the window.
#[test]
fn the_ticking_guard_is_late_and_never_outside_its_window() {
    let mut fleet = Fleet::new();
    let time = time();
    let store = fleet.store.clone();
    let mut host = Host::start(store, &time, Format::DEFAULT, Terms::DEFAULT, Guard::Ticking);
    let until = host.generator().window().unwrap().until();
    fleet.take(&host).unwrap();
    host.tick();
    let before = fleet.take(&host).unwrap();
    // The process stands still; nobody ticks.
    time.pass_ms(600_000);
    fleet.reference.pass_ms(600_000);
    let mut late = 0;
    while let Ok(id) = fleet.take(&host) {
        assert_eq!(told_ms(id), told_ms(before));
        assert!(Format::DEFAULT.decode(id).tick < until);
        late += 1;
    }
    assert!(late < 4_096, "{late}");
    host.tick();
    assert_eq!(fleet.take(&host), Err(Refusal::WindowEnd));
    host.look();
    host.tick();
    assert!(told_ms(fleet.take(&host).unwrap()) >= START_MS + 600_000);
    assert!(fleet.store.status().is_ok());
}

/// A store during one of whose answers the machine of the asker is restored.
#[derive(Debug)]
struct Restores {
    store: Arc<Referenced<MemoryStore>>,
    time: ScriptedTime,
    armed: AtomicBool,
    /// What was granted then.
    spoilt: Mutex<Option<u64>>,
}

impl Restores {
    fn new(store: Arc<Referenced<MemoryStore>>, time: ScriptedTime) -> Restores {
        Restores { store, time, armed: AtomicBool::new(false), spoilt: Mutex::new(None) }
    }

    fn at_next_acquire(&self, armed: bool) {
        self.armed.store(armed, Ordering::SeqCst);
    }
}

impl LeaseStore for Restores {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.store.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        let grant = self.store.acquire(ask)?;
        if self.armed.swap(false, Ordering::SeqCst) {
            self.time.restore();
            *self.spoilt.lock().unwrap() = Some(grant.generator_id);
        }
        Ok(grant)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.store.renew(ask)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.store.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.store.list()
    }
}
