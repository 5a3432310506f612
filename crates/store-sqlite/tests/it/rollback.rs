//! Copies, older copies put back, and lost witnesses: the store waits until it cannot be wrong.

use std::fs;

use rusqlite::Connection;
use snowlease_core::{Format, Layout, Tick};
use snowlease_lease::testing::Windows;
use snowlease_lease::{AcquireError, Grant, LeaseStore, RenewError, RequestKey};
use snowlease_store_sqlite::{Open, OpenError, Opened, SqliteStore};

use super::{Place, START, WINDOW, ask, lease, renew, renewal};

/// Overwrites a file in place, as restoring from a backup does: it stays the same file.
fn put_back(place: &Place, ending: &str, bytes: &[u8]) {
    fs::write(place.beside(ending), bytes).unwrap();
}

fn bytes(place: &Place, ending: &str) -> Vec<u8> {
    fs::read(place.beside(ending)).unwrap()
}

/// It was quarantined once, and everything is as usual from the floor on.
fn waits_and_resumes(place: &Place, store: SqliteStore, opened: &Opened, floor: u64) {
    assert!(!opened.alarms.is_empty());
    let status = store.status().unwrap();
    assert_eq!(status.meta.floor, Tick(floor));
    assert!(status.alarms.starts_with(&opened.alarms));
    assert!(status.alarms.iter().any(|alarm| alarm.contains("in quarantine")));
    let early = store.acquire(&ask(&RequestKey::random(), floor - 1));
    assert_eq!(early, Err(AcquireError::Quarantined { floor: Tick(floor) }));
    drop(store);
    let (store, opened) = place.open();
    assert!(opened.alarms.is_empty(), "found again: {:?}", opened.alarms);
    place.set_now(floor);
    assert!(store.status().unwrap().alarms.is_empty());
    let (key, mut grant) = lease(&store, floor);
    renew(&store, &key, &mut grant, floor + 20_000);
}

#[test]
fn an_older_copy_put_back_is_quarantined_and_duplicates_nothing() {
    let place = Place::new();
    let (store, _) = place.open();
    let (key, mut grant) = lease(&store, START);
    drop(store);
    let backup = bytes(&place, "");
    let (store, _) = place.open();
    let mut windows = Windows::default();
    renew(&store, &key, &mut grant, START + 30_000);
    let mut confirm = |number, grant: &Grant| {
        windows.confirm(number, grant.generator_id, grant.from, grant.until).unwrap();
    };
    confirm(0, &grant);
    for number in 1..8 {
        confirm(number, &lease(&store, START + 30_000 + number).1);
    }
    drop(store);
    put_back(&place, "", &backup);
    let now = START + 31_000;
    place.set_now(now);
    let (store, opened) = place.open();
    assert!(opened.alarms[0].contains("8 changes are missing"), "{:?}", opened.alarms);
    // A holder that remembers more than the copy is told so, and is not renewed: its id may have
    // been granted to another since.
    let floor = now + WINDOW + 4_000;
    let refused = store.renew(&renewal(&key, &grant, now));
    assert_eq!(refused, Err(RenewError::RolledBack { floor: Tick(floor) }));
    // Neither is one that remembers no more than the copy does.
    let adopted = Grant { seq: grant.seq - 1, ..grant };
    let refused = store.renew(&renewal(&key, &adopted, now));
    assert_eq!(refused, Err(RenewError::Quarantined { floor: Tick(floor) }));
    waits_and_resumes(&place, store, &opened, floor);
    let (store, _) = place.open();
    for number in 8..14 {
        confirm(number, &lease(&store, floor + 1).1);
    }
}

#[test]
fn the_quarantine_covers_the_longest_window_and_every_end_that_is_known() {
    let long = |extra: u64| {
        let place = Place::new();
        let (store, _) = place.open();
        let mut ask = ask(&RequestKey::random(), START);
        ask.until = Tick(START + 10 * WINDOW + extra);
        store.acquire(&ask).unwrap();
        (place, store)
    };
    // The store knows of the longest window.
    let (place, store) = long(0);
    drop(store);
    fs::remove_file(place.beside("-witness")).unwrap();
    place.set_now(START + 1_000);
    let (store, opened) = place.open();
    waits_and_resumes(&place, store, &opened, START + 1_000 + 10 * WINDOW + 4_000);
    // The store has forgotten it, the witness knows its end.
    let empty = Place::new();
    drop(empty.open());
    let backup = bytes(&empty, "");
    let (store, _) = empty.open();
    let mut far = ask(&RequestKey::random(), START);
    far.until = Tick(START + 20 * WINDOW);
    store.acquire(&far).unwrap();
    drop(store);
    put_back(&empty, "", &backup);
    let (store, opened) = empty.open();
    waits_and_resumes(&empty, store, &opened, START + 20 * WINDOW);
}

#[test]
fn a_copied_file_is_refused_until_it_is_adopted() {
    let place = Place::new();
    let (store, _) = place.open();
    lease(&store, START);
    drop(store);
    let copy = Place::new();
    for ending in ["", "-witness"] {
        fs::copy(place.beside(ending), copy.beside(ending)).unwrap();
    }
    let error = copy.refused(&copy.how());
    assert!(matches!(error, OpenError::Copied { .. }));
    let command = format!("snowlease store quarantine --store sqlite:{}", copy.path().display());
    assert!(error.to_string().contains(&command), "{error}");
    copy.refused(&copy.how());
    let adopt = Open { adopt: true, ..copy.how() };
    let (store, opened) = SqliteStore::open(&copy.path(), &adopt).unwrap();
    assert!(opened.alarms[0].contains("adopted"), "{:?}", opened.alarms);
    waits_and_resumes(&copy, store, &opened, START + WINDOW + 4_000);
    // The original goes on by itself; adopting what is no copy changes nothing.
    let adopt = Open { adopt: true, ..place.how() };
    let (store, opened) = SqliteStore::open(&place.path(), &adopt).unwrap();
    assert!(opened.alarms.is_empty());
    assert_eq!(store.status().unwrap().meta.floor, Tick(0));
}

#[test]
fn a_file_from_another_machine_is_refused() {
    let place = Place::new();
    drop(place.open());
    let other = "UPDATE meta SET value = '0123456789abcdef' WHERE key = 'machine'";
    Connection::open(place.path()).unwrap().execute_batch(other).unwrap();
    let error = place.refused(&place.how());
    assert!(error.to_string().contains("another machine"), "{error}");
}

#[test]
fn a_missing_or_damaged_or_foreign_witness_is_an_alarm() {
    let other = Place::new();
    drop(other.open());
    for (what, found) in [
        (None, "missing"),
        (Some(Vec::new()), "damaged"),
        (Some(vec![0; 1000]), "damaged"),
        (Some(bytes(&other, "-witness")), "another store"),
    ] {
        let place = Place::new();
        drop(place.open());
        match what {
            None => fs::remove_file(place.beside("-witness")).unwrap(),
            Some(bytes) => put_back(&place, "-witness", &bytes),
        }
        let (store, opened) = place.open();
        assert!(opened.alarms[0].contains(found), "{found}: {:?}", opened.alarms);
        waits_and_resumes(&place, store, &opened, START + WINDOW + 4_000);
    }
}

#[test]
fn a_witness_that_is_behind_or_half_torn_is_normal() {
    let place = Place::new();
    let (store, _) = place.open();
    lease(&store, START);
    drop(store);
    let behind = bytes(&place, "-witness");
    let (store, _) = place.open();
    for _ in 0..5 {
        lease(&store, START);
    }
    drop(store);
    let level = bytes(&place, "-witness");
    put_back(&place, "-witness", &behind);
    assert!(place.open().1.alarms.is_empty());
    for torn in [0, level.len() / 2] {
        let mut witness = level.clone();
        witness[torn + 30] ^= 1;
        put_back(&place, "-witness", &witness);
        assert!(place.open().1.alarms.is_empty());
    }
}

#[test]
fn a_store_that_is_gone_is_made_anew_above_its_witness() {
    let place = Place::new();
    let (store, _) = place.open();
    let mut far = ask(&RequestKey::random(), START);
    far.until = Tick(START + 30 * WINDOW);
    store.acquire(&far).unwrap();
    drop(store);
    fs::remove_file(place.path()).unwrap();
    let only = Open { create: false, ..place.how() };
    assert!(matches!(place.refused(&only), OpenError::Missing { .. }));
    let given = Format::new(Layout::DEFAULT, 10, 0).unwrap();
    let error = place.refused(&Open { format: Some(given), ..place.how() });
    assert!(matches!(error, OpenError::Lost { .. }), "{error}");
    let (store, opened) = place.open();
    assert!(opened.created);
    waits_and_resumes(&place, store, &opened, START + 30 * WINDOW);
    // An empty file in its place is no different.
    fs::write(place.path(), "").unwrap();
    let (_, opened) = place.open();
    assert!(opened.created && !opened.alarms.is_empty());
}

#[test]
fn no_quarantine_is_counted_on_a_clock_that_cannot_be_right() {
    let place = Place::new();
    let (store, _) = place.open();
    lease(&store, START);
    drop(store);
    let (before, witness) = (bytes(&place, ""), bytes(&place, "-witness"));
    fs::remove_file(place.beside("-witness")).unwrap();
    place.now_ms.store(0, std::sync::atomic::Ordering::SeqCst);
    let error = place.refused(&place.how());
    assert!(matches!(error, OpenError::Clock { .. }), "{error}");
    assert_eq!(bytes(&place, ""), before);
    // That it was refused is not forgotten.
    place.set_now(START);
    assert!(!place.open().1.alarms.is_empty());
    // Without anything to wait for, the clock is not asked.
    let other = Place::new();
    drop(other.open());
    other.now_ms.store(0, std::sync::atomic::Ordering::SeqCst);
    assert!(other.open().1.alarms.is_empty());
    assert_eq!(witness.len(), bytes(&place, "-witness").len());
}
