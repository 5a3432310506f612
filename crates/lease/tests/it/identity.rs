//! Faults in who gets which generator id.

#![allow(clippy::unwrap_used, reason = "a helper fails as its test does")]

use std::collections::{BTreeMap, HashSet};

use snowlease_core::{Format, Generator, Refusal};
use snowlease_lease::testing::Windows;
use snowlease_lease::testing::suite::{Made, Setup};
use snowlease_lease::{AcquireError, Holder, IdClock, LeaseStore};
use snowlease_store_sqlite::testing::NewFile;

use crate::support::{START, WINDOW, ask, keep, memory, ready, short};

/// Case: containers of one image derived their generator ids from address, host name or process
/// id, and all had the same one.
#[test]
fn replicas_of_one_image_hold_different_generator_ids() {
    let store = memory(7);
    let replicas: Vec<_> = (0..5).map(|_| keep(store.clone(), short())).collect();
    let held: HashSet<u64> = replicas.iter().map(ready).collect();
    assert_eq!(held.len(), 5);
    let mut ids = HashSet::new();
    for _ in 0..1_000 {
        for replica in &replicas {
            assert!(ids.insert(replica.generator().next_id().unwrap()));
        }
    }
    // Without a store there is no id to fall back to.
    let alone = Generator::new(Format::DEFAULT, IdClock::start());
    assert_eq!(alone.next_id(), Err(Refusal::NoLease));
}

/// Case: only the first or the last bytes of a host name counted, and machines of one network were
/// taken for one.
#[test]
fn names_that_are_alike_are_told_apart_in_full() {
    let store = memory(1023);
    let common = "ip-10-0-".repeat(15);
    let name = |n: u32| format!("{common}{n:04}");
    let mut holders = BTreeMap::new();
    for n in 0..2_000 {
        let holder = Holder::new(name(n), name(n), "1", "").unwrap();
        match store.acquire(&snowlease_lease::Acquire { holder, ..ask(START) }) {
            Ok(grant) => assert_eq!(holders.insert(grant.generator_id, name(n)), None),
            Err(AcquireError::Exhausted { total: 1024, .. }) => assert_eq!(holders.len(), 1024),
            Err(error) => panic!("{error}"),
        }
    }
    for lease in store.list().unwrap() {
        assert_eq!(Some(lease.holder.name()), holders.get(&lease.generator_id).map(String::as_str));
    }
    assert!(Holder::new("x".repeat(Holder::MAX_BYTES + 1), "", "", "").is_err(), "it was cut");
}

/// Case: the generator ids of containers that had been killed were never used again, and after some
/// thousand restarts there was none left.
#[test]
fn ids_of_holders_that_were_killed_come_back() {
    let range = (0, 15);
    let in_memory =
        Made::new(snowlease_lease::testing::MemoryStore::new(Format::DEFAULT, range).unwrap());
    for made in [in_memory, NewFile.make(Format::DEFAULT, range)] {
        let mut windows = Windows::default();
        let mut now = START;
        let mut lease = |number, now| {
            (made.set_now)(Format::DEFAULT.unix_ms(snowlease_core::Tick(now)));
            let grant = made.store.acquire(&ask(now))?;
            windows.confirm(number, grant.generator_id, grant.from, grant.until).unwrap();
            Ok::<_, AcquireError>(grant.generator_id)
        };
        // One is started and killed every five seconds: twelve that are dead hold an id.
        for number in 0..1_100 {
            now += 5_000;
            lease(number, now).unwrap();
        }
        now += WINDOW;
        let free: HashSet<u64> = (0..16).map(|n| lease(2_000 + n, now).unwrap()).collect();
        assert_eq!(free.len(), 16);
        assert!(matches!(lease(3_000, now), Err(AcquireError::Exhausted { total: 16, .. })));
    }
}

/// Case: a crash loop took one generator id after the other from everybody else.
#[test]
fn a_crash_loop_holds_what_fits_into_a_window_and_no_more() {
    let store = memory(1023);
    let mut now = START;
    // Ten crashes a second for five minutes.
    for _ in 0..3_000 {
        now += 100;
        store.acquire(&ask(now)).unwrap();
    }
    let held = store.list().unwrap().iter().filter(|lease| lease.until.0 > now).count();
    assert_eq!(held, 600);
    for _ in held..1024 {
        store.acquire(&ask(now)).unwrap();
    }
    assert!(store.acquire(&ask(now)).is_err());
}
