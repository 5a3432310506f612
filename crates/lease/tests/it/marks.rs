//! Faults in what a store remembers of a generator id.

#![allow(clippy::unwrap_used, reason = "a helper fails as its test does")]

use snowlease_core::{Format, Tick};
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::testing::suite::{Made, Setup};
use snowlease_lease::{AcquireError, LeaseStore, State};
use snowlease_store_sqlite::testing::NewFile;

use crate::support::{START, WINDOW, ask, eventually, keep, memory, ready, short};

/// Case: what a store kept to tell ids apart was kept for a time only, and was gone before a host
/// whose clock was behind asked again.
#[test]
fn a_mark_is_kept_for_ever_and_judged_by_no_clock_of_the_store() {
    let range = (0, 0);
    let in_memory = Made::new(MemoryStore::new(Format::DEFAULT, range).unwrap());
    for made in [in_memory, NewFile.make(Format::DEFAULT, range)] {
        (made.set_now)(Format::DEFAULT.unix_ms(Tick(START)));
        let abandoned = made.store.acquire(&ask(START)).unwrap();
        // Ten years pass for the store, and none of it for who asks.
        (made.set_now)(Format::DEFAULT.unix_ms(Tick(START + 315_360_000_000)));
        for behind in [1, 30_000, WINDOW] {
            let answer = made.store.acquire(&ask(abandoned.until.0 - behind));
            assert!(matches!(answer, Err(AcquireError::Exhausted { total: 1, .. })), "{answer:?}");
        }
        let heir = made.store.acquire(&ask(abandoned.until.0)).unwrap();
        assert_eq!(heir.from, abandoned.until);
    }
}

/// Case: the volume of a store came back empty, and it granted anew what its holders still used.
#[test]
fn a_store_that_came_back_empty_is_quarantined_by_the_holders_it_forgot() {
    let store = memory(3);
    let empty = store.snapshot();
    let holders = [keep(store.clone(), short()), keep(store.clone(), short())];
    for holder in &holders {
        ready(holder);
    }
    let renewed = || holders.iter().all(|holder| holder.status().outcomes.renewed > 0);
    eventually("renewals", renewed);
    store.restore(&empty);
    let ends: Vec<Tick> =
        holders.iter().map(|holder| holder.status().window.unwrap().until()).collect();
    eventually("the end of both leases", || {
        holders.iter().all(|holder| holder.status().state == State::Lost)
    });
    let floor = store.status().unwrap().meta.floor;
    assert!(ends.iter().all(|end| *end <= floor), "{ends:?} are past {floor}");
    for holder in &holders {
        assert!(holder.generator().next_id().is_err());
    }
    let now = ends.iter().max().unwrap().0;
    let answer = store.acquire(&ask(now));
    assert_eq!(answer, Err(AcquireError::Quarantined { floor }));
    assert!(store.acquire(&ask(floor.0)).is_ok(), "it is used again after its quarantine");
}
