//! `kill -9` at any moment: nothing that was confirmed is lost, and nothing is suspected.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use snowlease_core::Tick;
use snowlease_lease::testing::Random;
use snowlease_lease::{Administer, LeaseStore, Release, RequestKey, os};
use snowlease_store_sqlite::{Open, SqliteStore};

use super::{Place, START, ask, renew};

/// Tells the child where its store is, and from which tick it works.
const CHILD: &str = "SNOWLEASE_TEST_CHILD";
const FROM: &str = "SNOWLEASE_TEST_FROM";

/// Not a test of its own: what the child process runs until it is killed.
#[test]
fn child() {
    let Some(path) = env::var_os(CHILD) else { return };
    let mut now: u64 = env::var(FROM).unwrap().parse().unwrap();
    println!("\nopening");
    let place = Place::new();
    place.set_now(now);
    let (store, _) = SqliteStore::open(path.as_ref(), &place.how()).unwrap();
    println!("opened");
    loop {
        now += 9_000;
        let key = RequestKey::random();
        let Ok(mut grant) = store.acquire(&ask(&key, now)) else { continue };
        println!("confirmed {} {} {} 1", grant.generator_id, grant.seq, grant.until);
        for _ in 0..2 {
            now += 1_000;
            renew(&store, &key, &mut grant, now);
            println!("confirmed {} {} {} 1", grant.generator_id, grant.seq, grant.until);
        }
        if now.is_multiple_of(3) {
            let release = Release {
                generator_id: grant.generator_id,
                token: key.token(),
                next: None,
                seq: grant.seq,
                unused_from: Tick(now),
            };
            store.release(&release).unwrap();
            println!("confirmed {} {} {now} 0", grant.generator_id, grant.seq + 1);
        }
    }
}

fn start(place: &Place, from: u64) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["kill::child", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, place.path())
        .env(FROM, from.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Id → (seq, until, held), as the child printed it.
type Confirmed = BTreeMap<u64, (u64, u64, bool)>;

/// Reads lines until `most` leases were confirmed or the child is gone.
fn note(output: &mut BufReader<ChildStdout>, most: usize, confirmed: &mut Confirmed) -> usize {
    let mut count = 0;
    let mut line = String::new();
    while count < most && output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        if let (Some(numbers), true) = (line.strip_prefix("confirmed "), line.ends_with('\n')) {
            let numbers: Vec<u64> =
                numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
            confirmed.insert(numbers[0], (numbers[1], numbers[2], numbers[3] == 1));
            count += 1;
        }
        line.clear();
    }
    count
}

/// The files of a store that was killed while it was young: all of its leases are in the log.
pub(super) fn killed() -> Place {
    let place = Place::new();
    let (mut child, mut output) = start(&place, START);
    note(&mut output, 10, &mut Confirmed::new());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(fs::metadata(place.beside("-wal")).unwrap().len() > 0);
    place
}

#[test]
fn nothing_confirmed_is_lost_to_a_kill() {
    let place = Place::new();
    drop(place.open());
    let mut random = Random::new(os::boot_ns());
    let mut confirmed = Confirmed::new();
    let mut from = START;
    let mut total = 0;
    for round in 0..20 {
        let (mut child, mut output) = start(&place, from);
        let most = usize::try_from(random.between(1, 40)).unwrap();
        total += note(&mut output, most, &mut confirmed);
        child.kill().unwrap();
        child.wait().unwrap();
        total += note(&mut output, usize::MAX, &mut confirmed);
        place.set_now(from);
        let before = os::boot_ns();
        let (store, opened) = place.open();
        let took_ms = (os::boot_ns() - before) / 1_000_000;
        assert!(took_ms < 1_000, "opening took {took_ms} ms");
        assert_eq!((opened.created, opened.alarms), (false, Vec::new()), "round {round}");
        assert_eq!(store.verify().unwrap().findings, []);
        let entries = store.list().unwrap();
        for (id, (seq, until, held)) in &confirmed {
            let entry = entries.iter().find(|entry| entry.generator_id == *id).unwrap();
            // One more change may have been under way, or confirmed and not printed.
            if entry.seq == *seq {
                assert_eq!((entry.until.0, entry.held), (*until, *held), "round {round}");
            } else {
                assert_eq!(entry.seq, seq + 1, "round {round}: {entry:?}");
            }
        }
        // What was under way is known from here on.
        let known = entries.iter().map(|e| (e.generator_id, (e.seq, e.until.0, e.held)));
        confirmed = known.collect();
        from = entries.iter().map(|entry| entry.until.0).max().unwrap() + 1;
    }
    assert!(total >= 100, "only {total} confirmed");
}

#[test]
fn a_kill_while_the_store_is_made_leaves_a_store_or_none() {
    let mut random = Random::new(os::boot_ns());
    for round in 0..12 {
        let place = Place::new();
        let (mut child, mut output) = start(&place, START);
        let mut line = String::new();
        while !line.contains("opening") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0);
        }
        // Some moments later each time; what this waits for is only to differ.
        let end = os::boot_ns() + random.below(12_000_000);
        while os::boot_ns() < end {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut confirmed = Confirmed::new();
        note(&mut output, usize::MAX, &mut confirmed);
        let (store, opened) = place.open();
        assert!(opened.alarms.is_empty(), "round {round}: {:?}", opened.alarms);
        assert!(!opened.created || confirmed.is_empty());
        assert_eq!(store.status().unwrap().meta.range, (0, 7));
        assert_eq!(store.verify().unwrap().findings, []);
    }
}

#[test]
fn a_store_without_its_log_is_an_older_copy() {
    let place = Place::new();
    drop(place.open());
    let (mut child, mut output) = start(&place, START);
    let mut confirmed = Confirmed::new();
    note(&mut output, 10, &mut confirmed);
    child.kill().unwrap();
    child.wait().unwrap();
    note(&mut output, usize::MAX, &mut confirmed);
    assert!(fs::metadata(place.beside("-wal")).unwrap().len() > 0);
    fs::remove_file(place.beside("-wal")).unwrap();
    let how = Open { create: false, ..place.how() };
    let (store, opened) = SqliteStore::open(&place.path(), &how).unwrap();
    assert!(opened.alarms[0].contains("older state"), "{:?}", opened.alarms);
    let floor = store.status().unwrap().meta.floor.0;
    for (id, (_, until, _)) in confirmed {
        assert!(until <= floor, "{id} may be in use until {until}, the floor is {floor}");
    }
}
