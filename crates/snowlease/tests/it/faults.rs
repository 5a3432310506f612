//! Faults seen in libraries of this kind, as an application would meet them.

use std::collections::HashSet;
use std::time::Duration;

use snowlease::{Connector, Id, Ids, Terms};
use snowlease_lease::os;

use crate::served::{Served, Swallows, draw, pass, short};

fn generator_id(ids: &Ids) -> u64 {
    ids.status().window.unwrap().generator_id()
}

/// Case: a program made a generator for each id, and every one of them began at the same sequence
/// of the same millisecond.
#[test]
fn a_connection_made_anew_for_each_id_repeats_none() {
    let connect = || Connector::new("memory:anew").connect_blocking().unwrap();
    let _keeps_the_store = connect();
    let mut seen = HashSet::new();
    for n in 0..600 {
        let ids = connect();
        assert!(seen.insert(ids.next_id().unwrap()), "{n}");
        // A handle is no second generator: it goes on where the first one is.
        assert!(seen.insert(ids.clone().next_id().unwrap()), "{n}");
        if n % 2 == 0 {
            ids.shutdown_blocking().unwrap();
        }
    }
}

/// Case: tasks that waited for the next millisecond kept the executor busy, so that nobody renewed
/// the lease.
#[test]
fn tasks_that_hog_the_executor_do_not_starve_the_renewal() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let terms = Terms::new(Duration::from_secs(1), Duration::from_millis(300)).unwrap();
    let status = runtime.block_on(async {
        let ids = Connector::new("memory:hogged").terms(terms).connect().await.unwrap();
        let until_ns = os::boot_ns() + 3_000_000_000;
        let hog = |ids: Ids| async move {
            let mut last: Option<Id> = None;
            while os::boot_ns() < until_ns {
                // A batch may be refused behind the other tasks; the lease is what must stay.
                if let Ok(batch) = ids.next_ids(4_096) {
                    assert!(last < batch.first().copied());
                    last = batch.last().copied();
                }
                tokio::task::yield_now().await;
            }
        };
        let tasks: Vec<_> = (0..200).map(|_| tokio::spawn(hog(ids.clone()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(ids.next_id().is_ok());
        ids.status()
    });
    assert_eq!((status.outcomes.granted, status.outcomes.lost), (1, 0), "{status:?}");
    assert!(status.outcomes.renewed >= 8, "{status:?}");
}

/// Case: a program that took its time between the grant and its first id found the lease gone,
/// since renewals began with the first id.
#[test]
fn work_between_the_grant_and_the_first_id_costs_no_lease() {
    let terms = Terms::new(Duration::from_secs(1), Duration::from_millis(300)).unwrap();
    let ids = Connector::new("memory:slow-start").terms(terms).connect_blocking().unwrap();
    let first = ids.status().window.unwrap();
    pass(2_000);
    let id = ids.next_id().unwrap();
    let status = ids.status();
    assert!(ids.format().decode(id).tick >= first.until(), "it is past the first window");
    assert_eq!((status.outcomes.granted, status.outcomes.lost), (1, 0), "{status:?}");
    assert!(status.outcomes.renewed >= 4, "{status:?}");
}

/// Case: a roll-out ended when the leases of the processes that had been stopped filled the pool.
#[test]
fn twenty_holders_are_replaced_again_and_again_over_twenty_four_ids() {
    // No window of a minute ends during this test: only what is given back is free.
    let served = Served::start(23, Terms::DEFAULT);
    let connect = || Connector::new(served.url()).name("web").connect_blocking().unwrap();
    let mut fleet: Vec<Ids> = (0..20).map(|_| connect()).collect();
    let mut seen = HashSet::new();
    for round in 0..3 {
        for place in &mut fleet {
            // Stopped before its successor is there, or after.
            if round == 1 {
                place.clone().shutdown_blocking().unwrap();
            }
            let old = std::mem::replace(place, connect());
            if round != 1 {
                old.clone().shutdown_blocking().unwrap();
            }
            assert!(old.next_id().is_err());
            for id in draw(place, 50) {
                assert!(seen.insert(id), "{id}");
            }
            assert_eq!(served.held(), 20);
        }
    }
    let held: HashSet<u64> = fleet.iter().map(generator_id).collect();
    assert_eq!((held.len(), seen.len()), (20, 3_000));
}

/// Case: a client that had asked for a minute and was given less took it for a minute.
#[test]
fn a_client_goes_by_the_window_it_was_given() {
    let served = Served::start(3, short());
    let ids = Connector::new(served.url()).terms(Terms::DEFAULT).connect_blocking().unwrap();
    let window = ids.status().window.unwrap();
    assert!(window.until().since(window.from()) <= 1_500, "{window:?}");
    assert!(ids.status().remaining < Duration::from_millis(1_500), "{:?}", ids.status());
    let until_ns = os::boot_ns() + 4_000_000_000;
    while os::boot_ns() < until_ns {
        assert!(ids.next_id().is_ok(), "{:?}", ids.status());
        // A renewal reaches past the clock of the service by what clocks may differ, and no
        // further.
        assert!(ids.status().remaining < Duration::from_millis(3_500), "{:?}", ids.status());
        pass(5);
    }
    let status = ids.status();
    assert_eq!((status.outcomes.granted, status.outcomes.lost), (1, 0), "{status:?}");
    assert!(status.outcomes.renewed >= 3, "{status:?}");
}

/// Case: a peer that was gone without a word kept the renewal waiting for minutes, and ids went on.
#[test]
fn a_service_that_falls_silent_is_asked_again_within_the_window_and_then_left() {
    let served = Served::start(3, short());
    let between = Swallows::before(served.address);
    let ids = Connector::new(format!("http://{}", between.address)).terms(short());
    let ids = ids.connect_blocking().unwrap();
    between.be_silent(true);
    let began_ns = os::boot_ns();
    let mut last_ns = began_ns;
    loop {
        let now_ns = os::boot_ns();
        if ids.next_id().is_err() {
            break;
        }
        last_ns = now_ns;
        pass(1);
    }
    // The window less its margin, from the last answer at the latest.
    assert!(last_ns - began_ns < 1_430_000_000, "{} ns", last_ns - began_ns);
    assert!(between.swallowed() >= 2, "it was asked {} times", between.swallowed());
    assert!(ids.next_id().is_err());
    between.be_silent(false);
    ids.ready_blocking(Duration::from_secs(10)).unwrap();
    assert!(ids.next_id().is_ok());
}
