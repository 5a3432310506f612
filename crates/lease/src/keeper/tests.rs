//! The keeper against a store in memory, in real time, with short leases.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::Duration;

use snowlease_core::{Format, Generator, Id, Refusal, Tick};

use super::*;
use crate::testing::{Fault, FaultyStore, MemoryStore};
use crate::{AcquireError, Administer, LeaseStore, Outage, ReleaseError, RenewError, os};

fn terms() -> Terms {
    Terms::new(Duration::from_millis(1_000), Duration::from_millis(300)).unwrap()
}

fn keep(store: Arc<dyn LeaseStore>) -> Keeper {
    let clock = IdClock::start();
    let generator = Arc::new(Generator::new(Format::DEFAULT, Arc::clone(&clock) as Arc<_>));
    let holder = Holder::new("keeper-test", "", "", "").unwrap();
    Keeper::start(store, generator, clock, terms(), holder, Realm::default()).unwrap()
}

fn memory(last: u64) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Format::DEFAULT, (0, last)).unwrap())
}

/// Looks every few milliseconds, for at most ten seconds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if condition() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{what} did not come about");
}

#[test]
fn a_store_that_goes_away_and_comes_back_costs_no_restart() {
    let faulty = Arc::new(FaultyStore::scripted(memory(3), []));
    let keeper = keep(Arc::clone(&faulty) as Arc<_>);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    let before = keeper.generator().next_id().unwrap();

    faulty.set_down(true);
    eventually("the end of the window", || !keeper.is_ready());
    let refusal = keeper.generator().next_id().unwrap_err();
    assert!(matches!(refusal, Refusal::WindowEnd | Refusal::NoLease), "{refusal:?}");
    eventually("the loss", || keeper.status().state == State::Lost);
    assert!(keeper.status().trouble.is_some());

    faulty.set_down(false);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    let after = keeper.generator().next_id().unwrap();
    assert!(after > before);
    assert_eq!(keeper.status().trouble, None);
    assert_eq!((keeper.status().outcomes.granted, keeper.status().outcomes.lost), (2, 1));
    keeper.stop().unwrap();
}

#[test]
fn a_stop_that_cannot_give_the_lease_back_says_so() {
    let faulty = Arc::new(FaultyStore::scripted(memory(3), []));
    let keeper = keep(Arc::clone(&faulty) as Arc<_>);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    faulty.set_down(true);
    let not_released = keeper.stop().unwrap_err();
    assert!(not_released.to_string().contains("ends by itself"), "{not_released}");
    assert_eq!(keeper.generator().next_id(), Err(Refusal::ShutDown));
}

#[test]
fn ids_flow_while_single_calls_fail() {
    let script = [Fault::None, Fault::LoseAnswer, Fault::Refuse, Fault::None, Fault::Repeat];
    let faulty = Arc::new(FaultyStore::scripted(memory(3), script.repeat(3)));
    let keeper = keep(Arc::clone(&faulty) as Arc<_>);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    let generator_id = keeper.status().window.unwrap().generator_id();
    let mut last = None;
    while faulty.calls() < 12 {
        let id = keeper.generator().next_id().unwrap();
        assert!(Some(id) > last);
        last = Some(id);
        thread::park_timeout(Duration::from_millis(2));
    }
    let status = keeper.status();
    assert_eq!(status.window.unwrap().generator_id(), generator_id, "{status:?}");
    assert!(status.outcomes.not_renewed > 0 && status.outcomes.lost == 0, "{status:?}");
}

#[test]
fn a_drain_moves_the_holder_without_a_refusal() {
    let store = memory(3);
    let keeper = keep(Arc::clone(&store) as Arc<_>);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    let drained = keeper.status().window.unwrap().generator_id();
    store.drain(drained, true).unwrap();
    let mut last = None;
    let moved = || keeper.status().window.is_some_and(|window| window.generator_id() != drained);
    while !moved() {
        let id = keeper.generator().next_id().unwrap();
        assert!(Some(id) > last);
        last = Some(id);
    }
    assert!(keeper.generator().next_id().unwrap() > last.unwrap());
    eventually("the release", || {
        let drained = store.list().unwrap().into_iter().find(|lease| lease.generator_id == drained);
        drained.is_some_and(|lease| !lease.held && lease.draining)
    });
}

#[test]
fn a_stop_gives_the_lease_back_and_a_drop_does_too() {
    let store = memory(1);
    let held = || store.list().unwrap().iter().filter(|lease| lease.held).count();
    let first = keep(Arc::clone(&store) as Arc<_>);
    let second = keep(Arc::clone(&store) as Arc<_>);
    first.wait_ready(Duration::from_secs(5)).unwrap();
    second.wait_ready(Duration::from_secs(5)).unwrap();
    assert_eq!(held(), 2);
    first.stop().unwrap();
    assert_eq!(held(), 1);
    assert_eq!(first.generator().next_id(), Err(Refusal::ShutDown));
    assert!(first.wait_ready(Duration::from_secs(1)).is_err());
    first.stop().unwrap();
    drop(second);
    eventually("the release after the drop", || held() == 0);
}

#[test]
fn a_pool_that_is_used_up_says_so_and_serves_when_one_is_freed() {
    let store = memory(0);
    let first = keep(Arc::clone(&store) as Arc<_>);
    first.wait_ready(Duration::from_secs(5)).unwrap();
    let second = keep(Arc::clone(&store) as Arc<_>);
    let not_ready = second.wait_ready(Duration::from_millis(200)).unwrap_err();
    assert!(not_ready.reason.contains("all 1 generator ids are in use"), "{not_ready}");
    first.stop().unwrap();
    second.wait_ready(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_forked_child_neither_waits_nor_gives_its_parents_lease_back() {
    let store = memory(1);
    let clock = IdClock::start();
    let generator = Generator::new(Format::DEFAULT, Arc::clone(&clock) as Arc<_>)
        .with_fork_guard(os::fork_guard());
    let holder = Holder::new("keeper-test", "", "", "").unwrap();
    let keeper = Keeper::start(
        Arc::clone(&store) as Arc<_>,
        Arc::new(generator),
        clock,
        terms(),
        holder,
        Realm::default(),
    )
    .unwrap();
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    // SAFETY: the child makes calls that take no lock, drops nothing and leaves at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        keeper.ask_to_stop();
        let refused = keeper.stop().is_err() && keeper.wait_ready(Duration::from_secs(60)).is_err();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: `child` is the process made above, and `status` a valid place for its end.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert!(keeper.generator().next_id().is_ok(), "the parent goes on");
    assert_eq!(store.list().unwrap().iter().filter(|lease| lease.held).count(), 1);
}

/// A store whose driver has a bug.
#[derive(Debug)]
struct Panics(Arc<MemoryStore>, std::sync::atomic::AtomicBool);

impl LeaseStore for Panics {
    fn status(&self) -> Result<crate::StoreStatus, Outage> {
        self.0.status()
    }

    fn acquire(&self, ask: &crate::Acquire) -> Result<crate::Grant, AcquireError> {
        let first = !self.1.swap(true, std::sync::atomic::Ordering::SeqCst);
        assert!(!first, "injected");
        self.0.acquire(ask)
    }

    fn renew(&self, ask: &crate::Renew) -> Result<crate::Renewal, RenewError> {
        self.0.renew(ask)
    }

    fn release(&self, ask: &crate::Release) -> Result<(), ReleaseError> {
        self.0.release(ask)
    }

    fn list(&self) -> Result<Vec<crate::LeaseEntry>, Outage> {
        self.0.list()
    }
}

#[test]
fn a_driver_that_panics_does_not_end_the_keeper() {
    let keeper = keep(Arc::new(Panics(memory(1), std::sync::atomic::AtomicBool::new(false))));
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    assert!(keeper.generator().next_id().is_ok());
}

/// Make before break: the next lease is there before the old one is given back. No call is refused
/// meanwhile, ids go on ascending, and the switch itself takes no time that anybody would notice.
#[test]
fn a_drained_holder_moves_without_a_refusal_or_a_gap() {
    let store = memory(1);
    let keeper = keep(Arc::clone(&store) as Arc<_>);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    let generator = Arc::clone(keeper.generator());
    let under = |id: Id| (id.get() >> 12) & 1023;
    let mut last = generator.next_id().unwrap();
    let mut gaps_ns = Vec::new();
    for _ in 0..8 {
        let old = under(last);
        store.drain(old, true).unwrap();
        let mut before_ns = os::boot_ns();
        // Until the first id under the other generator id.
        while under(last) == old {
            // Not as fast as ids can be had: a tick that is full is a gap of its own.
            while os::boot_ns() < before_ns + 20_000 {
                std::hint::spin_loop();
            }
            before_ns = os::boot_ns();
            let id = generator.next_id().unwrap();
            assert!(id > last, "{id} came after {last}");
            last = id;
        }
        gaps_ns.push(os::boot_ns() - before_ns);
        store.drain(old, false).unwrap();
    }
    // A busy machine may take the processor away at any time, but not at every switch.
    let least_ns = gaps_ns.iter().min().unwrap();
    assert!(*least_ns < 1_000_000, "the gaps are {gaps_ns:?} ns");
    assert_eq!(keeper.status().outcomes.lost, 0);
    keeper.stop().unwrap();
    assert_eq!(store.list().unwrap().iter().filter(|entry| entry.held).count(), 0);
}

/// A lease that has lasted gets longer windows, up to the bridge, and outlives longer outages.
#[test]
fn windows_grow_with_the_age_of_the_lease() {
    let store = memory(1);
    let clock = IdClock::start();
    let generator = Arc::new(Generator::new(Format::DEFAULT, Arc::clone(&clock) as Arc<_>));
    let holder = Holder::new("keeper-test", "", "", "").unwrap();
    let terms = terms().with_bridge(Duration::from_secs(2)).unwrap();
    let keeper =
        Keeper::start(Arc::clone(&store) as _, generator, clock, terms, holder, Realm::default());
    let keeper = keeper.unwrap();
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    assert!(keeper.status().remaining < Duration::from_secs(1));
    eventually("a longer window", || keeper.status().remaining > Duration::from_millis(1_600));
    assert!(keeper.status().remaining < Duration::from_secs(2));
    // A rolled-back store waits for as long as the longest window.
    let longest = store.status().unwrap().meta.longest_window;
    assert!((1_600..=2_000).contains(&longest), "{longest}");
    keeper.stop().unwrap();
}

/// A store that was put back to an older state ends the lease, and what follows begins above every
/// window that was forgotten.
#[test]
fn a_store_that_was_put_back_is_left_and_used_again_after_its_quarantine() {
    let store = memory(3);
    let keeper = keep(Arc::clone(&store) as Arc<_>);
    keeper.wait_ready(Duration::from_secs(5)).unwrap();
    let renewed = || keeper.status().outcomes.renewed;
    eventually("a renewal", || renewed() > 0);
    let snapshot = store.snapshot();
    let more = renewed() + 2;
    eventually("two more renewals", || renewed() >= more);
    store.restore(&snapshot);
    eventually("the loss", || keeper.status().state == State::Lost);
    let floor = store.status().unwrap().meta.floor;
    assert!(floor > Tick(0), "the store is in quarantine");
    let refusal = keeper.generator().next_id().unwrap_err();
    assert!(matches!(refusal, Refusal::NoLease), "{refusal:?}");
    let trouble = keeper.status().trouble.unwrap();
    assert!(trouble.contains("quarantine") || trouble.contains("older state"), "{trouble}");
    eventually("the time of its end", || keeper.status().retry_after.is_some());
    let left_ms = keeper.status().retry_after.unwrap().as_millis();
    let floor_ms = Format::DEFAULT.unix_ms(floor);
    // The clocks of the holder and of this test are read apart.
    assert!(os::wall_ms() + i64::try_from(left_ms).unwrap() + 100 >= floor_ms);
}
