//! A disk that refuses writes: the session ends, and what was confirmed is there when it is opened
//! anew.

use std::env;
use std::process::Command;

use snowlease_lease::{AcquireError, Administer, LeaseStore, RequestKey};
use snowlease_store_sqlite::SqliteStore;

use super::{Place, START, ask};

const CHILD: &str = "SNOWLEASE_TEST_DISK";

/// Not a test of its own: runs where files may not grow past a limit, and the signal for that is
/// ignored, so that writes fail in the middle of a transaction.
#[test]
fn child() {
    let Some(path) = env::var_os(CHILD) else { return };
    let place = Place::new();
    let (store, _) = SqliteStore::open(path.as_ref(), &place.how()).unwrap();
    let mut now = START;
    println!();
    let outage = loop {
        now += 10_000;
        match store.acquire(&ask(&RequestKey::random(), now)) {
            Ok(grant) => println!("confirmed {} {}", grant.generator_id, grant.until),
            Err(AcquireError::Outage(outage)) => break outage,
            Err(error) => panic!("{error}"),
        }
    };
    println!("outage {} {}", outage.unknown, outage.detail);
    let again = store.acquire(&ask(&RequestKey::random(), now)).unwrap_err();
    println!("again {again}");
    println!("status {}", store.status().unwrap_err());
}

#[test]
fn an_error_of_the_disk_ends_the_session_and_loses_nothing() {
    let place = Place::new();
    drop(place.open());
    // The limit is in blocks of 512 bytes: enough to open, and for some dozen commits.
    let output = Command::new("sh")
        .args(["-c", "trap '' 25; ulimit -f 400; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args(["disk::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, place.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let said = |word: &str| text.lines().find_map(|line| line.strip_prefix(word));
    let outage = said("outage ").unwrap_or_else(|| panic!("{text}"));
    // The log is written at the commit, so nobody knows whether it landed.
    assert!(outage.starts_with("true "), "{outage}");
    assert!(outage.contains("check the disk, then restart"), "{outage}");
    assert!(said("again ").is_some_and(|again| again.contains("an earlier error stopped")));
    assert!(said("status ").is_some_and(|status| status.contains("restart this program")));
    let (store, opened) = place.open();
    assert!(opened.alarms.is_empty(), "{:?}", opened.alarms);
    assert_eq!(store.verify().unwrap().findings, []);
    let entries = store.list().unwrap();
    let mut confirmed = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("confirmed ")) {
        let (id, until) = line.split_once(' ').unwrap();
        let id: u64 = id.parse().unwrap();
        let entry = entries.iter().find(|entry| entry.generator_id == id).unwrap();
        assert!(entry.until.0 >= until.parse().unwrap(), "{line}");
        confirmed += 1;
    }
    assert!(confirmed > 5, "only {confirmed} confirmed: {text}");
}
