//! Faults of a store that is away, slow or silent, under real holders.

#![allow(clippy::unwrap_used, reason = "a helper fails as its test does")]

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use snowlease_core::{Clock, Format, Id};
use snowlease_lease::testing::FaultyStore;
use snowlease_lease::{IdClock, State, os};

use crate::support::{draw, eventually, keep, memory, pass, ready, short, tick};

/// Case: a holder that the store had not heard of for longer than a window went on under its
/// generator id, which somebody else had by then.
#[test]
fn a_holder_that_was_cut_off_stops_by_itself_and_goes_on_under_another_id() {
    let store = memory(1);
    let wire = Arc::new(FaultyStore::scripted(store.clone(), []));
    let cut_off = keep(wire.clone(), short());
    let lost = ready(&cut_off);
    let other = keep(store.clone(), short());
    ready(&other);

    wire.set_down(true);
    let heir = keep(store, short());
    let mut seen = HashSet::new();
    let mut last = None;
    while let Ok(id) = cut_off.generator().next_id() {
        assert!(seen.insert(id));
        last = Some(id);
        thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(ready(&heir), lost);
    let window = heir.status().window.unwrap();
    assert!(tick(last.unwrap()) < window.from(), "{last:?} is in {window:?}");
    let mut take = |ids: Vec<Id>| ids.into_iter().for_each(|id| assert!(seen.insert(id), "{id}"));
    take(draw(&heir, 5_000));
    assert!(cut_off.generator().next_id().is_err(), "its lease is somebody else's");

    other.stop().unwrap();
    wire.set_down(false);
    assert_ne!(ready(&cut_off), lost);
    take(draw(&cut_off, 5_000));
    take(draw(&heir, 5_000));
    assert_eq!(cut_off.status().outcomes.granted, 2);
}

/// Case: the one who had waited for a lease was granted it when it was over already, and used it.
#[test]
fn a_grant_that_comes_after_its_window_is_not_used() {
    let slow = |call| {
        if call == 1 {
            pass(1_200, || {});
        }
    };
    let began = Format::DEFAULT.tick_at(IdClock::start().now()).unwrap();
    let slow = FaultyStore::scripted(memory(0), []).with_delay(slow);
    let keeper = keep(Arc::new(slow), short());
    ready(&keeper);
    let window = keeper.status().window.unwrap();
    assert!(window.from().since(began) >= 1_200, "{window:?} was asked for at {began}");
    assert!(tick(keeper.generator().next_id().unwrap()) >= window.from());
    assert_eq!(keeper.status().outcomes.granted, 2);
}

/// Case: after the store had been restarted a few times nobody renewed any more.
#[test]
fn restarts_of_the_store_in_a_row_end_no_lease_and_no_renewing() {
    let wire = Arc::new(FaultyStore::scripted(memory(1), []));
    let keeper = keep(wire.clone(), short());
    let generator_id = ready(&keeper);
    let issue = || assert!(keeper.generator().next_id().is_ok(), "{:?}", keeper.status());
    for _ in 0..5 {
        wire.set_down(true);
        // A renewal is due meanwhile, and half of the window is left.
        pass(450, issue);
        let before = keeper.status().outcomes.renewed;
        wire.set_down(false);
        eventually("a renewal", || {
            issue();
            keeper.status().outcomes.renewed > before
        });
    }
    let outcomes = keeper.status().outcomes;
    assert_eq!((outcomes.granted, outcomes.lost), (1, 0), "{outcomes:?}");
    assert!(outcomes.not_renewed >= 5, "{outcomes:?}");
    assert_eq!(ready(&keeper), generator_id);
    // Nor do outages that cost the lease.
    for lost in 1..=2 {
        wire.set_down(true);
        eventually("the loss", || keeper.status().state == State::Lost);
        wire.set_down(false);
        ready(&keeper);
        issue();
        assert_eq!(keeper.status().outcomes.lost, lost);
    }
}

/// Case: a renewal hung for longer than the lease lasted, and ids went on meanwhile.
#[test]
fn a_call_that_hangs_keeps_no_gate_open() {
    let hanging = Arc::new((Mutex::new(false), Condvar::new()));
    let hang = |hangs| {
        *hanging.0.lock().unwrap() = hangs;
        hanging.1.notify_all();
    };
    let wire = FaultyStore::scripted(memory(1), []).with_delay({
        let hanging = Arc::clone(&hanging);
        move |_| {
            let hangs = hanging.0.lock().unwrap();
            drop(hanging.1.wait_while(hangs, |hangs| *hangs).unwrap());
        }
    });
    let keeper = keep(Arc::new(wire), short());
    ready(&keeper);
    let began_ns = os::boot_ns();
    hang(true);
    let (mut last, mut last_ns) = (keeper.generator().next_id().unwrap(), began_ns);
    loop {
        // Counted from before the call: one that begins after the deadline is refused.
        let now_ns = os::boot_ns();
        match keeper.generator().next_id() {
            Ok(id) => (last, last_ns) = (id, now_ns),
            Err(_) => break,
        }
    }
    let lasted = Duration::from_nanos(last_ns - began_ns);
    assert!(lasted < Duration::from_millis(960), "{lasted:?} after the last answer");
    pass(300, || assert!(keeper.generator().next_id().is_err(), "while the call hangs"));
    hang(false);
    ready(&keeper);
    let after = keeper.generator().next_id().unwrap();
    assert!(after > last, "{after} came after {last}");
}
