//! A cluster that was put back to an older state: the store waits until it cannot be wrong.

use snowlease_lease::testing::Windows;
use snowlease_lease::{Administer, LeaseStore, RequestKey, Terms};

use super::*;

/// One member, with a backup of its data as it was when the first lease was granted.
struct Restored {
    cluster: Cluster,
    backup: tempfile::TempDir,
    time: Time,
    address: Address,
}

impl Restored {
    fn new(version: &str) -> Restored {
        let cluster = Cluster::start(&Options::single(version));
        let address = cluster.address("ids");
        let backup = tempfile::tempdir().unwrap();
        Restored { cluster, backup, time: Time::at(START), address }
    }

    /// Short terms, so that what waits in real time does not wait for long.
    fn how(&self) -> Open {
        let second = Duration::from_secs(1);
        Open { terms: Terms::new(second * 3, second).unwrap(), ..self.time.how() }
    }

    fn open(&self) -> (EtcdStore, Vec<String>) {
        let (store, opened) = EtcdStore::open(&self.address, &self.how()).unwrap();
        (store, opened.alarms)
    }

    fn back_up(&mut self) {
        self.cluster.stop(0);
        self.cluster.back_up(&self.backup.path().join("data"));
        self.cluster.launch(0);
        self.cluster.wait();
    }

    fn put_back(&mut self) {
        self.cluster.stop(0);
        self.cluster.put_back(&self.backup.path().join("data"));
        self.cluster.launch(0);
        self.cluster.wait();
    }
}

/// It is in quarantine up to this tick, and in service by itself after it.
fn waits_and_resumes(restored: &Restored, store: &EtcdStore, floor: u64) {
    let status = store.status().unwrap();
    assert_eq!(status.meta.floor, Tick(floor));
    assert!(status.alarms.iter().any(|alarm| alarm.contains("in quarantine")), "{status:?}");
    let early = store.acquire(&ask(&RequestKey::random(), floor - 1));
    assert_eq!(early, Err(AcquireError::Quarantined { floor: Tick(floor) }));
    restored.time.set(floor);
    assert!(!store.status().unwrap().alarms.iter().any(|alarm| alarm.contains("in quarantine")));
    let (key, mut grant) = lease(store, floor);
    renew(store, &key, &mut grant, floor + 20_000);
}

/// Holders are running, and one of them asks first.
#[test]
fn a_warm_store_is_quarantined_and_duplicates_nothing() {
    for version in ["3.4", "3.7"] {
        let mut restored = Restored::new(version);
        let (store, _) = restored.open();
        let (key, mut grant) = lease(&store, START);
        restored.back_up();
        let mut windows = Windows::default();
        let mut confirm = |number, grant: &Grant| {
            windows.confirm(number, grant.generator_id, grant.from, grant.until).unwrap();
        };
        // The connection broke at the restart: what was asked before it may have to be repeated.
        renew(&store, &key, &mut grant, START + 30_000);
        confirm(0, &grant);
        for number in 1..8 {
            confirm(number, &lease(&store, START + 30_000).1);
        }
        restored.put_back();
        let now = START + 31_000;
        restored.time.set(now);
        // The first who asks is granted nothing: the pulse is silent, or the revision fell.
        let asked = store.acquire(&ask(&RequestKey::random(), now));
        assert!(asked.is_err(), "{asked:?}");
        // A read shows no more than what is there; whoever changes something is told.
        store.status().unwrap();
        let Err(RenewError::Outage(found)) = store.renew(&renewal(&key, &grant, now)) else {
            panic!("renewed")
        };
        assert!(found.unknown && found.detail.contains("older copy of itself"), "{found}");
        let alarms = store.status().unwrap().alarms;
        assert!(alarms.iter().any(|alarm| alarm.contains("went back from revision")), "{alarms:?}");
        let floor = now + WINDOW + 4_000;
        // A holder that the copy knows was confirmed more than it knows.
        let renewed = store.renew(&renewal(&key, &grant, now));
        assert_eq!(renewed, Err(RenewError::RolledBack { floor: Tick(floor) }));
        waits_and_resumes(&restored, &store, floor);
        for number in 8..14 {
            confirm(number, &lease(&store, floor + 1).1);
        }
    }
}

/// The one who asks first knows nothing of what was forgotten, but the holder does.
#[test]
fn a_holder_that_was_confirmed_more_tells_so() {
    let mut restored = Restored::new("3.4");
    let (store, _) = restored.open();
    let (key, mut grant) = lease(&store, START);
    restored.back_up();
    renew(&store, &key, &mut grant, START + 2_000);
    drop(store);
    restored.put_back();
    restored.time.set(START + 2_000);
    let (other, alarms) = restored.open();
    assert_eq!(alarms.len(), 1, "only that it has one member: {alarms:?}");
    let told = other.renew(&renewal(&key, &grant, START + 2_000));
    let floor = START + 2_000 + WINDOW + 4_000;
    assert_eq!(told, Err(RenewError::RolledBack { floor: Tick(floor) }));
    waits_and_resumes(&restored, &other, floor);
}

/// Nobody is running: the pulse is silent, and nobody vouches.
#[test]
fn a_cold_store_is_watched_and_quarantined() {
    let mut restored = Restored::new("3.7");
    let (store, _) = restored.open();
    lease(&store, START);
    restored.back_up();
    lease(&store, START + 1);
    drop(store);
    restored.put_back();
    let now = START + 10_000;
    restored.time.set(now);
    let (store, alarms) = restored.open();
    assert!(alarms.iter().any(|alarm| alarm.contains("it is watched")), "{alarms:?}");
    let key = RequestKey::random();
    let refused = loop {
        match store.acquire(&ask(&key, now)) {
            Err(AcquireError::Outage(outage)) => {
                assert!(!outage.unknown && outage.detail.contains("it is watched"), "{outage}");
            }
            other => break other,
        }
    };
    let floor = now + WINDOW + 4_000;
    assert_eq!(refused, Err(AcquireError::Quarantined { floor: Tick(floor) }));
    waits_and_resumes(&restored, &store, floor);
}

#[test]
fn a_renewal_vouches_for_a_store_that_was_silent() {
    let restored = Restored::new("3.4");
    let (holder, _) = restored.open();
    let (key, mut grant) = lease(&holder, START);
    let now = START + 10_000;
    restored.time.set(now);
    let (starter, alarms) = restored.open();
    assert!(alarms.iter().any(|alarm| alarm.contains("it is watched")), "{alarms:?}");
    let watched = outage(starter.acquire(&ask(&RequestKey::random(), now)));
    assert!(watched.detail.contains("it is watched"));
    renew(&holder, &key, &mut grant, now);
    lease(&starter, now);
    // Who only wants to be told goes on at once.
    restored.time.set(now + 90_000);
    let how = Open { rollback_guard: snowlease_lease::RollbackGuard::Warn, ..restored.how() };
    let (warned, opened) = EtcdStore::open(&restored.address, &how).unwrap();
    assert!(opened.alarms.iter().any(|alarm| alarm.contains("for 90 s")), "{:?}", opened.alarms);
    lease(&warned, now + 90_000);
}

/// A snapshot restored under a new token has a cluster id of its own, and a young raft.
#[test]
fn another_cluster_or_an_earlier_term_is_a_restored_one() {
    let restored = Restored::new("3.4");
    let (store, _) = restored.open();
    lease(&store, START);
    let meta = String::from_utf8(restored.cluster.get("ids/meta").unwrap()).unwrap();
    let (before, after) = meta.split_once("\"cluster\":\"").unwrap();
    let other = format!("{before}\"cluster\":\"0123456789abcdef{}", &after[16..]);
    restored.cluster.put("ids/meta", other.as_bytes());
    let (store, alarms) = restored.open();
    assert!(alarms.iter().any(|alarm| alarm.contains("0123456789abcdef")), "{alarms:?}");
    let floor = START + WINDOW + 4_000;
    waits_and_resumes(&restored, &store, floor);
    let (_, alarms) = restored.open();
    assert_eq!(alarms.len(), 1, "told twice: {alarms:?}");
    let pulse = format!("{{\"ms\":{},\"term\":999}}", Format::DEFAULT.unix_ms(Tick(floor)));
    restored.cluster.put("ids/pulse", pulse.as_bytes());
    restored.time.set(floor + 1_000);
    let (store, alarms) = restored.open();
    assert!(alarms.iter().any(|alarm| alarm.contains("from term 999")), "{alarms:?}");
    let floor = floor + 1_000 + WINDOW + 4_000;
    waits_and_resumes(&restored, &store, floor.max(store.status().unwrap().meta.floor.0));
}

/// A snapshot that is restored under the same token within seconds has the same cluster id, may
/// have the same term, and its pulse is alive: only the log is shorter than its revision tells.
#[test]
fn a_log_that_is_shorter_than_its_revision_tells_is_that_of_a_restored_snapshot() {
    let restored = Restored::new("3.7");
    let (store, _) = restored.open();
    lease(&store, START);
    let pulse = String::from_utf8(restored.cluster.get("ids/pulse").unwrap()).unwrap();
    let (before, lead) = pulse.split_once("\"lead\":").expect("it tells");
    let lead: i64 = lead.trim_end_matches('}').parse().unwrap();
    // Another member may lag a little.
    restored.cluster.put("ids/pulse", format!("{before}\"lead\":{}}}", lead + 900).as_bytes());
    let (store, alarms) = restored.open();
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    lease(&store, START);
    restored.cluster.put("ids/pulse", format!("{before}\"lead\":{}}}", lead + 5_000).as_bytes());
    let (store, alarms) = restored.open();
    assert!(alarms.iter().any(|alarm| alarm.contains("restored from a snapshot")), "{alarms:?}");
    waits_and_resumes(&restored, &store, START + WINDOW + 4_000);
    // Told once: the pulse has the lead of this history now.
    let (store, _) = restored.open();
    lease(&store, START + WINDOW + 5_000);
}

/// A running process judges the pulse anew when its connection broke while it was idle: what
/// answers now may be another state of the store.
#[test]
fn a_new_connection_is_judged_before_it_grants() {
    let mut restored = Restored::new("3.7");
    let (store, _) = restored.open();
    lease(&store, START);
    restored.cluster.stop(0);
    restored.cluster.launch(0);
    restored.cluster.wait();
    restored.time.set(START + 1_000);
    lease(&store, START + 1_000);
    restored.cluster.stop(0);
    restored.cluster.launch(0);
    restored.cluster.wait();
    let now = START + 10_000;
    restored.time.set(now);
    let watched = outage(store.acquire(&ask(&RequestKey::random(), now)));
    assert!(!watched.unknown && watched.detail.contains("it is watched"), "{watched}");
}

/// Case: a store that was quarantined never came back, since every process that was started
/// meanwhile found the pulse silent and quarantined it anew.
#[test]
fn a_quarantine_is_left_alone_by_those_who_come_while_it_lasts_and_after() {
    let mut restored = Restored::new("3.7");
    let (store, _) = restored.open();
    let (key, mut grant) = lease(&store, START);
    restored.back_up();
    renew(&store, &key, &mut grant, START + 10_000);
    restored.put_back();
    restored.time.set(START + 20_000);
    // A holder tells of it.
    let floor = loop {
        match store.renew(&renewal(&key, &grant, START + 20_000)) {
            Err(RenewError::RolledBack { floor }) => break floor,
            Err(RenewError::Outage(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    for later in [1_000, 30_000, 59_000] {
        restored.time.set(START + 20_000 + later);
        let (other, _) = restored.open();
        let refused = other.acquire(&ask(&RequestKey::random(), START + 20_000 + later));
        assert_eq!(refused, Err(AcquireError::Quarantined { floor }), "after {later} ms");
        assert_eq!(other.status().unwrap().meta.floor, floor);
    }
    // The first to come when it is over grants at once.
    restored.time.set(floor.0 + 100);
    let (other, _) = restored.open();
    lease(&other, floor.0 + 100);
    // And so does one that has been away all the time, and sees only now that the cluster went
    // back.
    assert_eq!(other.status().unwrap().meta.floor, floor);
    lease(&store, floor.0 + 200);
    assert_eq!(store.status().unwrap().meta.floor, floor);
}

/// A process that was away while another one saw to it does not begin it anew for the whole fleet.
#[test]
fn who_was_away_for_the_whole_quarantine_begins_no_other() {
    let mut restored = Restored::new("3.4");
    let (away, _) = restored.open();
    let (present, _) = restored.open();
    let (key, mut grant) = lease(&away, START);
    restored.back_up();
    for round in 1..=8 {
        renew(&away, &key, &mut grant, START + 1_000 * round);
    }
    restored.put_back();
    let now = START + 10_000;
    restored.time.set(now);
    let floor = present.quarantine(Tick(now + WINDOW + 20_000)).unwrap();
    restored.time.set(floor.0 + 10);
    lease(&present, floor.0 + 10);
    let taken = away.acquire(&ask(&RequestKey::random(), floor.0 + 20));
    assert!(taken.is_ok(), "{taken:?}");
    assert_eq!(away.status().unwrap().meta.floor, floor);
}

/// A clock that is behind would set a floor that keeps nobody out, and the next process would find
/// nothing wrong.
#[test]
fn a_clock_that_is_behind_those_who_used_the_store_quarantines_nothing() {
    let mut restored = Restored::new("3.7");
    let (store, _) = restored.open();
    let (key, mut grant) = lease(&store, START);
    restored.back_up();
    renew(&store, &key, &mut grant, START + 10_000);
    restored.put_back();
    restored.time.set(START + 20_000 - 10_800_000);
    let remembered = renewal(&key, &grant, START + 20_000);
    restored.time.set(START + 20_000 - 10_800_000);
    let behind = EtcdStore::open(&restored.address, &restored.how());
    let (behind, _) = behind.expect("it is there to be looked at");
    let refused = behind.renew(&remembered);
    assert!(matches!(refused, Err(RenewError::RolledBack { .. })), "{refused:?}");
    let held_up = behind.acquire(&ask(&RequestKey::random(), START + 20_000 - 10_800_000));
    restored.time.set(START + 20_000 - 10_800_000);
    assert!(held_up.is_err(), "{held_up:?}");
    assert_eq!(behind.status().map(|status| status.meta.floor).unwrap_or_default(), Tick(0));
    // The next one, with a right clock, finds the evidence where it was.
    restored.time.set(START + 20_000);
    let (right, _) = restored.open();
    let refused = right.renew(&renewal(&key, &grant, START + 20_000));
    let Err(RenewError::RolledBack { floor }) = refused else { panic!("{refused:?}") };
    assert_eq!(right.status().unwrap().meta.floor, floor);
    assert!(floor.0 >= START + 20_000 + WINDOW + 4_000, "{floor}");
}
