//! A store of which parts are missing, or are elsewhere: it is known for what it is.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::Connection;
use snowlease_core::Tick;
use snowlease_lease::{Administer, LeaseStore, RequestKey};
use snowlease_store_sqlite::{Open, OpenError, SqliteStore};

use super::kill::killed;
use super::{Place, START, WINDOW, ask, lease, refused, renew};

/// However it is opened.
fn ways(place: &Place) -> [Open; 3] {
    [
        place.how(),
        Open { create: false, ..place.how() },
        Open { create: false, adopt: true, ..place.how() },
    ]
}

/// It is found, and waits for every window that it may have forgotten.
fn quarantined(path: &Path, place: &Place, how: &Open) {
    place.set_now(START + WINDOW);
    let (store, opened) = SqliteStore::open(path, how).unwrap();
    assert!(!opened.created && !opened.alarms.is_empty(), "{opened:?}");
    assert!(store.status().unwrap().meta.floor >= Tick(START + 2 * WINDOW + 4_000));
    assert!(store.acquire(&ask(&RequestKey::random(), START + WINDOW)).is_err());
}

#[test]
fn the_file_alone_of_a_running_or_killed_store_is_a_copy_of_it() {
    let running = Place::new();
    let (_store, _) = running.open();
    for place in [running, killed()] {
        let copy = Place::new();
        fs::copy(place.path(), copy.path()).unwrap();
        let [create, find, adopt] = ways(&copy);
        for how in [create, find] {
            let error = copy.refused(&how);
            assert!(matches!(error, OpenError::Copied { .. }), "{error}");
        }
        quarantined(&copy.path(), &copy, &adopt);
    }
}

#[test]
fn a_killed_store_without_log_and_witness_is_quarantined() {
    for way in 0..3 {
        let place = killed();
        for ending in ["-wal", "-witness"] {
            fs::remove_file(place.beside(ending)).unwrap();
        }
        quarantined(&place.path(), &place, &ways(&place)[way]);
    }
}

#[test]
fn a_log_without_its_store_is_refused_and_kept() {
    let place = killed();
    let log = fs::read(place.beside("-wal")).unwrap();
    fs::remove_file(place.beside("-witness")).unwrap();
    fs::rename(place.path(), place.beside(".away")).unwrap();
    for empty in [false, true] {
        if empty {
            fs::write(place.path(), "").unwrap();
        }
        for how in ways(&place) {
            let error = place.refused(&how);
            let text = error.to_string();
            assert!(matches!(error, OpenError::OnlyLog { .. }), "{text}");
            assert!(text.contains("-wal: put the file back") && text.contains("store quarantine"));
        }
    }
    assert_eq!(fs::read(place.beside("-wal")).unwrap(), log);
    // Put back, it is the store that it was, but for the witness.
    fs::rename(place.beside(".away"), place.path()).unwrap();
    quarantined(&place.path(), &place, &place.how());
}

#[test]
fn a_store_with_two_names_is_refused_under_both() {
    let place = killed();
    let elsewhere = Place::new();
    fs::hard_link(place.path(), elsewhere.path()).unwrap();
    for path in [place.path(), elsewhere.path()] {
        for how in ways(&place) {
            let error = refused(&path, &how);
            assert!(matches!(error, OpenError::Linked { .. }), "{error}");
        }
    }
    fs::remove_file(place.path()).unwrap();
    quarantined(&elsewhere.path(), &elsewhere, &elsewhere.how());
}

#[test]
fn an_empty_database_is_refused_and_not_touched() {
    let place = Place::new();
    let other = Connection::open(place.path()).unwrap();
    other.query_row("PRAGMA journal_mode = wal", [], |_| Ok(())).unwrap();
    drop(other);
    let before = fs::read(place.path()).unwrap();
    assert!(!before.is_empty());
    for how in ways(&place) {
        let error = place.refused(&how);
        assert!(matches!(error, OpenError::Empty { .. }), "{error}");
        assert!(error.to_string().contains("-wal"), "{error}");
    }
    assert_eq!(fs::read(place.path()).unwrap(), before);
    assert!(!place.beside("-witness").exists());
}

#[test]
fn the_file_is_whole_from_the_start() {
    let place = Place::new();
    let (_store, _) = place.open();
    let bytes = fs::read(place.path()).unwrap();
    let copy = place.beside(".copy");
    fs::write(&copy, &bytes).unwrap();
    let copy = Connection::open(copy).unwrap();
    let count = |sql| copy.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM cells"), 8);
    assert_eq!(count("PRAGMA application_id"), 0x736e_776c);
    assert!(!place.beside("-new").exists() && !place.beside("-shm").exists());
}

/// Each state that a creation can leave behind when it breaks off.
#[test]
fn a_creation_that_broke_off_goes_on_without_a_quarantine() {
    let goes_on = |place: &Place, created| {
        let (store, opened) = place.open();
        assert_eq!((opened.created, opened.alarms), (created, Vec::new()));
        assert_eq!(store.status().unwrap().meta.floor, Tick(0));
        assert!(!place.beside("-new").exists());
        let (key, mut grant) = lease(&store, START);
        renew(&store, &key, &mut grant, START + 20_000);
        assert_eq!(store.verify().unwrap().findings, []);
    };
    // What is left of the file under its own name: nothing, some of it, or all and a log.
    for rest in 0..3 {
        for witness in [false, true] {
            let place = Place::new();
            if witness {
                drop(place.open());
                fs::remove_file(place.path()).unwrap();
                forget_the_first_change(&place);
            }
            if rest > 0 {
                fs::write(place.beside("-new"), vec![7; 10_000]).unwrap();
            }
            if rest > 1 {
                fs::write(place.beside("-new-wal"), vec![7; 10_000]).unwrap();
                fs::write(place.beside("-witness-new"), vec![7; 10_000]).unwrap();
            }
            goes_on(&place, true);
        }
    }
    // The file has its name, the witness does not say so yet.
    let place = Place::new();
    drop(place.open());
    forget_the_first_change(&place);
    goes_on(&place, false);
}

/// The witness as it was before the store had its name: the second slot is written after that.
fn forget_the_first_change(place: &Place) {
    let mut witness = fs::read(place.beside("-witness")).unwrap();
    let half = witness.len() / 2;
    assert!(witness[..half].iter().any(|byte| *byte != 0));
    witness[half..].fill(0);
    fs::write(place.beside("-witness"), witness).unwrap();
}

#[test]
fn a_log_or_witness_that_is_removed_from_a_running_store_is_made_anew_with_an_alarm() {
    let place = Place::new();
    let (store, _) = place.open();
    let (key, mut grant) = lease(&store, START);
    assert!(store.status().unwrap().alarms.is_empty());
    for (ending, what) in [("-wal", "the log was removed"), ("-witness", "the witness file was")] {
        for replaced in [false, true] {
            fs::remove_file(place.beside(ending)).unwrap();
            if replaced {
                fs::write(place.beside(ending), "somebody else's").unwrap();
            }
            renew(&store, &key, &mut grant, START + 1_000);
            assert!(place.beside(ending).exists());
            let alarms = store.status().unwrap().alarms;
            let told = alarms.iter().filter(|alarm| alarm.contains(what)).count();
            assert_eq!(told, 1, "{alarms:?}");
        }
    }
    let files = || ["-wal", "-witness"].map(|end| fs::metadata(place.beside(end)).unwrap().ino());
    let after = files();
    for step in 2..9 {
        renew(&store, &key, &mut grant, START + step * 1_000);
        assert_eq!(files(), after, "made anew once");
    }
    assert_eq!(store.verify().unwrap().findings, []);
    let list = store.list().unwrap();
    drop(store);
    let (store, opened) = place.open();
    assert!(opened.alarms.is_empty(), "{:?}", opened.alarms);
    assert_eq!(store.list().unwrap(), list);
}

/// A store with some leases, closed, and then damaged on the disk.
#[test]
fn damage_anywhere_is_refused_at_the_start() {
    let place = Place::new();
    let how = Open { range: Some((0, 1023)), ..place.how() };
    let open = || SqliteStore::open(&place.path(), &how);
    let (store, _) = open().unwrap();
    for number in 0..50 {
        lease(&store, START + number);
    }
    let list = store.list().unwrap();
    drop(store);
    let whole = fs::read(place.path()).unwrap();
    let damage = |offset: usize| {
        let mut bytes = whole.clone();
        for (count, byte) in bytes[offset..].iter_mut().take(16).enumerate() {
            *byte ^= 0x5b_u8.wrapping_add(u8::try_from(count).unwrap());
        }
        fs::write(place.path(), bytes).unwrap();
    };
    for offset in (0..whole.len()).step_by(4096) {
        damage(offset);
        match open() {
            Err(OpenError::NotADatabase { .. }) if offset == 0 => {}
            Err(OpenError::Damaged { .. }) => {}
            other => panic!("{offset}: {other:?}"),
        }
    }
    // Inside of pages there is room that nothing is in. Where anything is, it is found.
    let mut refused = 0;
    for offset in (4096 + 24..whole.len() - 16).step_by(1021) {
        damage(offset);
        match open() {
            Err(_) => refused += 1,
            Ok((store, opened)) => {
                assert!(opened.alarms.is_empty(), "{offset}: {opened:?}");
                assert_eq!(store.list().unwrap(), list, "{offset}");
                assert_eq!(store.verify().unwrap().findings, []);
            }
        }
    }
    assert!(refused > 100, "only {refused} were refused");
    fs::write(place.path(), &whole).unwrap();
    assert_eq!(open().unwrap().0.list().unwrap(), list);
}
