//! What is at the path: each kind of file, and each way to be in use, has its own answer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use snowlease_core::{Format, Layout, Tick};
use snowlease_lease::range::MOST_IDS;
use snowlease_lease::{Administer, LeaseStore, RangeError};
use snowlease_store_sqlite::{Open, OpenError, SqliteStore};

use super::{Place, START, ask, lease, refused, renew};

#[test]
fn a_store_is_made_once_and_found_again() {
    let place = Place::new();
    let (store, opened) = place.open();
    assert!(opened.created);
    let (key, mut grant) = lease(&store, START);
    renew(&store, &key, &mut grant, START + 20_000);
    let (list, meta) = (store.list().unwrap(), store.status().unwrap().meta);
    drop(store);
    let (store, opened) = place.open();
    assert!(!opened.created && opened.alarms.is_empty());
    assert_eq!((store.list().unwrap(), store.status().unwrap().meta), (list, meta));
    renew(&store, &key, &mut grant, START + 40_000);
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
fn what_is_not_asked_for_is_taken_from_the_store_or_from_the_defaults() {
    let place = Place::new();
    let how = Open { range: None, ..place.how() };
    let (store, _) = SqliteStore::open(&place.path(), &how).unwrap();
    let meta = store.status().unwrap().meta;
    assert_eq!((meta.format, meta.range), (Format::DEFAULT, (0, 1023)));
    drop(store);
    let other = Place::new();
    let format = Format::new(Layout::FLEET, 10, 1_000_000).unwrap();
    let how = Open { format: Some(format), range: Some((100, 199)), ..other.how() };
    drop(SqliteStore::open(&other.path(), &how).unwrap());
    let (store, _) = SqliteStore::open(&other.path(), &Open::default()).unwrap();
    let meta = store.status().unwrap().meta;
    assert_eq!((meta.format, meta.range), (format, (100, 199)));
}

#[test]
fn another_format_or_range_is_refused_and_both_are_named() {
    let place = Place::new();
    drop(place.open());
    let given = Format::new(Layout::DEFAULT, 1, 0).unwrap();
    let error = place.refused(&Open { format: Some(given), ..place.how() });
    let text = error.to_string();
    assert!(matches!(error, OpenError::Format { stored: Format::DEFAULT, .. }), "{text}");
    assert!(text.contains(&given.to_string()) && text.contains(&Format::DEFAULT.to_string()));
    for given in [(0, 15), (0, 3), (1, 8)] {
        let error = place.refused(&Open { range: Some(given), ..place.how() });
        assert!(matches!(error, OpenError::Range { stored: (0, 7), .. }), "{error}");
        assert!(error.to_string().contains("0-7"));
    }
    drop(place.open());
}

#[test]
fn ranges_that_are_none_are_refused() {
    let place = Place::new();
    let wide = Format::new("t1g62s0".parse().unwrap(), 1, 0).unwrap();
    let refusal = |format, range| {
        let how = Open { format, range: Some(range), ..place.how() };
        match place.refused(&how) {
            OpenError::BadRange(error) => error,
            error => panic!("{error}"),
        }
    };
    assert_eq!(refusal(Some(wide), (1, MOST_IDS + 1)), RangeError::TooLong { ids: MOST_IDS + 1 });
    assert_eq!(refusal(None, (0, 1024)), RangeError::Layout { last: 1024, max: 1023 });
    assert_eq!(refusal(None, (5, 4)), RangeError::Empty { first: 5, last: 4 });
    drop(place.open());
}

#[test]
fn a_path_that_leads_nowhere_is_told_apart_from_one_without_a_store() {
    let place = Place::new();
    let how = place.how();
    let only = Open { create: false, ..place.how() };
    assert!(matches!(place.refused(&only), OpenError::Missing { .. }));
    assert!(fs::read_dir(place.folder.path()).unwrap().next().is_none(), "nothing was made");
    let nowhere = place.folder.path().join("no/such/folder/a.db");
    assert!(matches!(refused(&nowhere, &how), OpenError::NoFolder { .. }));
    assert!(matches!(refused(place.folder.path(), &how), OpenError::NotAFile { .. }));
    assert!(matches!(refused(Path::new("/dev/null"), &how), OpenError::NotAFile { .. }));
    for path in ["", "/", ".."] {
        assert!(matches!(refused(Path::new(path), &how), OpenError::NotAFile { .. }), "{path:?}");
    }
    let link = place.folder.path().join("link.db");
    symlink(place.folder.path().join("gone.db"), &link).unwrap();
    assert!(matches!(refused(&link, &how), OpenError::NotAFile { .. }));
    fs::write(place.path(), "").unwrap();
    assert!(matches!(place.refused(&only), OpenError::Empty { .. }));
    assert!(
        matches!(place.refused(&how), OpenError::Empty { .. }),
        "a store that was cut to nothing"
    );
    assert!(matches!(refused(&place.path().join("a.db"), &how), OpenError::NoFolder { .. }));
    fs::remove_file(place.path()).unwrap();
    assert!(place.open().1.created);
}

#[test]
fn a_store_in_use_says_by_whom_under_any_of_its_names() {
    let place = Place::new();
    let (store, _) = place.open();
    let link = place.folder.path().join("link.db");
    symlink(place.path(), &link).unwrap();
    for path in [place.path(), link] {
        let error = refused(&path, &place.how());
        assert!(matches!(error, OpenError::Locked { .. }));
        let who = format!("process {} (tests)", std::process::id());
        assert!(error.to_string().contains(&who), "{error}");
    }
    // SQLite's own lock holds against programs that do not know ours.
    let stranger = Connection::open(place.path()).unwrap();
    stranger.busy_timeout(Duration::ZERO).unwrap();
    let read = stranger.query_row("SELECT count(*) FROM cells", [], |row| row.get::<_, i64>(0));
    assert_eq!(read.unwrap_err().sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    drop(stranger);
    lease(&store, START);
    drop(store);
    // And a stranger's lock holds against us, for as long as an attempt takes.
    let stranger = Connection::open(place.path()).unwrap();
    stranger.execute_batch("BEGIN; SELECT count(*) FROM cells").unwrap();
    let how = Open { attempt: Duration::from_millis(10), ..place.how() };
    assert!(matches!(place.refused(&how), OpenError::Locked { .. }));
    drop(stranger);
    assert_eq!(place.open().0.list().unwrap().len(), 1);
}

#[test]
fn files_of_others_are_refused_and_not_touched() {
    let place = Place::new();
    for text in
        ["not a database, but longer than a header of one hundred bytes. ".repeat(20), "x".into()]
    {
        fs::write(place.path(), &text).unwrap();
        assert!(matches!(place.refused(&place.how()), OpenError::NotADatabase { .. }));
        assert_eq!(fs::read_to_string(place.path()).unwrap(), text);
    }
    fs::remove_file(place.path()).unwrap();
    let other = Connection::open(place.path()).unwrap();
    other.execute_batch("CREATE TABLE cells (generator_id INTEGER)").unwrap();
    drop(other);
    let before = fs::read(place.path()).unwrap();
    assert!(matches!(place.refused(&place.how()), OpenError::Foreign { .. }));
    assert_eq!(fs::read(place.path()).unwrap(), before);
    assert!(!place.beside("-witness").exists());
}

/// A store that was changed with other tools.
fn tampered(sql: &str) -> Place {
    let place = Place::new();
    let (store, _) = place.open();
    lease(&store, START);
    drop(store);
    Connection::open(place.path()).unwrap().execute_batch(sql).unwrap();
    place
}

#[test]
fn a_newer_store_asks_for_an_update() {
    let place = tampered("PRAGMA user_version = 2");
    let error = place.refused(&place.how());
    assert!(matches!(error, OpenError::Newer { version: 2, .. }), "{error}");
}

#[test]
fn a_damaged_store_is_refused() {
    for sql in [
        "DELETE FROM meta WHERE key = 'floor'",
        "UPDATE meta SET value = '-1' WHERE key = 'floor'",
        "UPDATE meta SET value = 't41g10s13' WHERE key = 'layout'",
        "UPDATE meta SET value = 'closed' WHERE key = 'mode'",
        "UPDATE meta SET value = 'x' WHERE key = 'store_id'",
        "DELETE FROM cells WHERE generator_id = 3",
        "UPDATE cells SET generator_id = 8 WHERE generator_id = 3",
        "UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE key = 'machine'",
        "UPDATE meta SET value = '1' WHERE key = 'epoch_ms'",
        "UPDATE meta SET value = '1' WHERE key = 'until'",
        "UPDATE cells SET cell = substr(cell, 1, 50) WHERE generator_id = 3",
        "UPDATE cells SET cell = 'text' WHERE generator_id = 3",
        "INSERT INTO cells SELECT 8, cell FROM cells WHERE generator_id = 3",
        "DROP TABLE meta",
        "DROP TABLE cells",
    ] {
        let place = tampered(sql);
        let error = place.refused(&place.how());
        assert!(matches!(error, OpenError::Damaged { .. }), "{sql}: {error}");
    }
}

#[test]
fn a_truncated_store_is_refused() {
    let place = Place::new();
    drop(place.open());
    let bytes = fs::read(place.path()).unwrap();
    for length in [100, 4096, bytes.len() / 2] {
        fs::write(place.path(), &bytes[..length]).unwrap();
        let error = place.refused(&place.how());
        let expected = matches!(
            error,
            OpenError::Damaged { .. } | OpenError::NotADatabase { .. } | OpenError::System { .. }
        );
        assert!(expected, "{length}: {error}");
    }
}

#[test]
fn a_file_that_is_moved_away_while_it_is_open_stops_the_store() {
    let place = Place::new();
    let (store, _) = place.open();
    let (key, grant) = lease(&store, START);
    fs::rename(place.path(), place.beside(".moved")).unwrap();
    let stopped = store.renew(&super::renewal(&key, &grant, START + 1_000)).unwrap_err();
    assert!(stopped.to_string().contains("moved"), "{stopped}");
    // It stays stopped, and says what to do.
    fs::rename(place.beside(".moved"), place.path()).unwrap();
    for outage in [store.status().unwrap_err(), store.list().unwrap_err()] {
        assert!(!outage.unknown && outage.detail.contains("restart"), "{outage}");
    }
    drop(store);
    let (store, opened) = place.open();
    assert!(opened.alarms.is_empty());
    assert_eq!(store.acquire(&ask(&key, START)), Ok(grant));
}

#[test]
fn a_store_that_cannot_be_written_says_so() {
    let place = Place::new();
    drop(place.open());
    let set = |path: &Path, readonly| {
        let mut permissions = fs::metadata(path).unwrap().permissions();
        permissions.set_readonly(readonly);
        fs::set_permissions(path, permissions).unwrap();
    };
    set(&place.path(), true);
    if fs::OpenOptions::new().write(true).open(place.path()).is_ok() {
        // The superuser is not bound by permissions; the mapping of errors has its own test.
        return;
    }
    assert!(matches!(place.refused(&place.how()), OpenError::ReadOnly { .. }));
    set(&place.path(), false);
    set(place.folder.path(), true);
    let new = place.folder.path().join("new.db");
    let error = refused(&new, &place.how());
    set(place.folder.path(), false);
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
}

#[test]
fn any_name_is_a_name() {
    let place = Place::new();
    for name in [":memory:", "file:a.db?mode=memory", "naïve name.db"] {
        let path = place.folder.path().join(name);
        let (store, opened) = SqliteStore::open(&path, &place.how()).unwrap();
        assert!(opened.created && path.is_file());
        assert_eq!(lease(&store, START).1.from, Tick(START));
    }
}
