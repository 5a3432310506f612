//! The store put back to an older state, in the ways that happen to PostgreSQL: with holders that
//! go on, with holders that have stopped, and with none. Detected, in quarantine, no window granted
//! twice, and back in service by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use snowlease_lease::{AcquireError, Outage, RenewError, RollbackGuard, Terms};
use snowlease_store_postgres::Clock;
use snowlease_store_postgres::testing::{PASSWORD, wait};

use super::*;

/// A fleet that stops as a whole every night and says so is warned, and goes on.
#[test]
fn a_silent_store_is_only_warned_about_where_that_is_asked_for() {
    let clock = Ahead::default();
    let server = server(Kind::default(), 8);
    clock.lease(&clock.open(&server.url()).0);
    clock.add(7_200_000);
    let ahead = clock.clone();
    let how = Open {
        rollback_guard: RollbackGuard::Warn,
        clock: Some(Clock::new(move || ahead.now_ms())),
        ..Open::default()
    };
    let (store, opened) = open_as(&server.url(), &how);
    let warned = opened.alarms.iter().any(|alarm| alarm.contains("snowlease store quarantine"));
    assert!(warned, "{opened:?}");
    clock.lease(&store);
}

/// A clock that the test moves ahead of the real one, for the store and its holders alike.
#[derive(Clone, Default)]
struct Ahead(Arc<AtomicI64>);

impl Ahead {
    fn now_ms(&self) -> i64 {
        os::wall_ms() + self.0.load(Ordering::SeqCst)
    }

    fn add(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// By this clock, with windows of three seconds where the pulse is judged.
    fn open(&self, url: &str) -> (PostgresStore, Opened) {
        let ahead = self.clone();
        let second = Duration::from_secs(1);
        let how = Open {
            attempt: Duration::from_secs(5),
            terms: Terms::new(second * 3, second).unwrap(),
            clock: Some(Clock::new(move || ahead.now_ms())),
            ..Open::default()
        };
        open_as(url, &how)
    }

    fn ask(&self, key: &RequestKey) -> Acquire {
        ask_of(format(), key, self.now_ms())
    }

    fn lease(&self, store: &PostgresStore) -> Lease {
        let key = RequestKey::random();
        let grant = store.acquire(&self.ask(&key)).unwrap();
        Lease { format: format(), key, grant }
    }

    fn renewal(&self, lease: &Lease) -> Renew {
        lease.renewal(self.0.load(Ordering::SeqCst))
    }

    fn try_acquire(&self, store: &PostgresStore) -> Result<Grant, AcquireError> {
        store.acquire(&self.ask(&RequestKey::random()))
    }

    /// The store is in quarantine past all these windows, whoever asks; and when it is over, it
    /// grants again by itself, nothing that anybody may still use.
    fn is_quarantined(&self, url: &str, store: &PostgresStore, forgotten: &[&Lease]) {
        let (other, _) = self.open(url);
        let mut floor = Tick(0);
        for store in [store, &other] {
            let refused = self.try_acquire(store).unwrap_err();
            let AcquireError::Quarantined { floor: until } = refused else { panic!("{refused}") };
            floor = floor.max(until);
        }
        for lease in forgotten {
            assert!(floor >= lease.grant.until, "{lease:?} is forgotten at {floor}");
        }
        // Whoever was the first to notice says so.
        let alarms = |store: &PostgresStore| store.status().unwrap().alarms;
        let said = [alarms(store), alarms(&other)].concat();
        assert!(said.iter().any(|alarm| alarm.contains("quarantine")), "{said:?}");
        let wait_ms = format().unix_ms(floor) - self.now_ms();
        assert!((0..=90_000).contains(&wait_ms), "{wait_ms} ms of quarantine");
        self.add(wait_ms + 1);
        let new = self.lease(store);
        assert!(new.grant.from >= floor);
        self.lease(&self.open(url).0);
        assert_eq!(snowlease_lease::Administer::verify(store).unwrap().findings, []);
    }
}

fn rolled_back(answer: Result<Renewal, RenewError>) {
    assert!(
        matches!(answer, Err(RenewError::RolledBack { .. } | RenewError::Quarantined { .. })),
        "{answer:?}"
    );
}

/// Whose stream was cut before the promotion: what was granted meanwhile is lost.
fn promoted(warm: bool, cold_leases: usize) {
    let clock = Ahead::default();
    let mut primary = server(Kind::default(), 8);
    let standby = primary.standby();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let both = format!("postgres://owner:{PASSWORD}@{hosts}/ids?sslmode=disable");
    let (store, opened) = clock.open(&both);
    assert!(opened.alarms.iter().all(|alarm| alarm.contains("fsync")), "{opened:?}");
    let mut known = clock.lease(&store);
    let rows = "SELECT count(*) FROM snowlease.cells WHERE token IS NOT NULL";
    assert!(wait(Duration::from_secs(20), || standby.ask("ids", rows) == "1"));
    standby.sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''");
    standby.reload();
    let streams = "SELECT count(*) FROM pg_stat_replication";
    assert!(wait(Duration::from_secs(20), || primary.ask("ids", streams) == "0"));
    let mut lost: Vec<_> = (0..cold_leases).map(|_| clock.lease(&store)).collect();
    known.adopt(&store.renew(&clock.renewal(&known)).unwrap());
    lost.push(known.clone());
    primary.stop();
    standby.promote();
    let store = if warm {
        rolled_back(store.renew(&clock.renewal(&known)));
        store
    } else {
        drop(store);
        let (store, opened) = clock.open(&both);
        assert!(opened.alarms.iter().any(|alarm| alarm.contains("timeline")), "{opened:?}");
        store
    };
    let forgotten: Vec<_> = lost.iter().collect();
    clock.is_quarantined(&standby.url(), &store, &forgotten);
}

#[test]
fn a_promoted_standby_whose_stream_was_cut_is_quarantined_under_warm_holders() {
    promoted(true, 2);
}

#[test]
fn a_promoted_standby_whose_stream_was_cut_is_quarantined_for_cold_starters() {
    promoted(false, 1);
}

#[test]
fn a_store_restored_to_a_point_in_time_is_quarantined() {
    let clock = Ahead::default();
    let mut server = Server::start(Kind { archive: true, ..Kind::default() });
    init(&server.url(), 8);
    let (store, _) = clock.open(&server.url());
    let known = clock.lease(&store);
    let backup = server.back_up();
    let time = server.ask("ids", "SELECT clock_timestamp()");
    let lost = clock.lease(&store);
    server.sql("ids", "SELECT pg_switch_wal()");
    server.sql("ids", "CHECKPOINT");
    drop(store);
    server.stop();
    let restored = server.restored(&backup, &time);
    let (store, opened) = clock.open(&restored.url());
    assert!(opened.alarms.iter().any(|alarm| alarm.contains("timeline")), "{opened:?}");
    assert_eq!(store.list().unwrap().len(), 1);
    rolled_back(store.renew(&clock.renewal(&known)));
    clock.is_quarantined(&restored.url(), &store, &[&known, &lost]);
}

/// A server with a lease on it, stopped and copied, started again and used further, and stopped for
/// good: what the copy does not know are a renewal and a lease.
struct Copied {
    clock: Ahead,
    copy: Server,
    known: Lease,
    lost: Lease,
}

impl Copied {
    fn new() -> Copied {
        let clock = Ahead::default();
        let mut server = server(Kind::default(), 8);
        let (store, _) = clock.open(&server.url());
        let mut known = clock.lease(&store);
        server.stop();
        let mut copy = server.copied();
        server.run();
        known.adopt(&store.renew(&clock.renewal(&known)).unwrap());
        let lost = clock.lease(&store);
        server.stop();
        copy.run();
        Copied { clock, copy, known, lost }
    }
}

#[test]
fn an_older_copy_of_the_files_is_quarantined_by_the_holder_that_knows_more() {
    let Copied { clock, copy, known, lost } = Copied::new();
    for lease in [&known, &lost] {
        let (store, opened) = clock.open(&copy.url());
        // Neither the cluster nor its timeline is another one, and the pulse is not silent yet.
        assert!(opened.alarms.iter().all(|alarm| alarm.contains("fsync")), "{opened:?}");
        rolled_back(store.renew(&clock.renewal(lease)));
    }
    let (store, _) = clock.open(&copy.url());
    rolled_back(store.renew(&clock.renewal(&known)));
    clock.is_quarantined(&copy.url(), &store, &[&known, &lost]);
}

#[test]
fn an_older_copy_of_the_files_that_nobody_vouches_for_is_quarantined() {
    let Copied { clock, copy, known, lost } = Copied::new();
    clock.add(7_200_000);
    let (store, _) = clock.open(&copy.url());
    let refused = clock.try_acquire(&store).unwrap_err();
    let AcquireError::Outage(Outage { unknown: false, detail }) = refused else {
        panic!("{refused}")
    };
    assert!(detail.contains("watched"), "{detail}");
    let watched = || !matches!(clock.try_acquire(&store), Err(AcquireError::Outage(_)));
    assert!(wait(Duration::from_secs(10), watched));
    clock.is_quarantined(&copy.url(), &store, &[&known, &lost]);
}

/// A store that was silent for long and is the truth: a holder that renews vouches for it.
#[test]
fn a_silent_store_is_trusted_again_as_soon_as_a_holder_vouches() {
    let clock = Ahead::default();
    let server = server(Kind::default(), 8);
    // Nothing was ever granted: nothing can be forgotten.
    clock.add(7_200_000);
    let (store, _) = clock.open(&server.url());
    let lease = clock.lease(&store);
    clock.add(30_000);
    let (starter, _) = clock.open(&server.url());
    assert!(matches!(clock.try_acquire(&starter), Err(AcquireError::Outage(_))));
    store.renew(&clock.renewal(&lease)).unwrap();
    clock.lease(&starter);
    assert!(starter.status().unwrap().alarms.iter().all(|alarm| alarm.contains("fsync")));
}

/// Behind a pooler another server may be at the other end from one statement to the next: each
/// looks at the timeline itself.
#[test]
fn another_timeline_is_noticed_inside_of_a_session() {
    let clock = Ahead::default();
    let server = server(Kind::default(), 8);
    let (store, _) = clock.open(&server.url());
    let known = clock.lease(&store);
    let switch = "UPDATE snowlease.meta SET timeline = timeline + 1";
    server.sql("ids", switch);
    rolled_back(store.renew(&clock.renewal(&known)));
    clock.is_quarantined(&server.url(), &store, &[&known]);
    server.sql("ids", switch);
    let refused = clock.try_acquire(&store);
    assert!(matches!(refused, Err(AcquireError::Quarantined { .. })), "{refused:?}");
    // Of each kind the last one is told, however often it happens.
    let alarms = store.status().unwrap().alarms;
    assert_eq!(alarms.iter().filter(|alarm| alarm.contains("timeline")).count(), 1, "{alarms:?}");
}

/// The cluster and its timeline stay the same then; a store that is open and one that is opened
/// later notice it both.
#[test]
fn a_dump_restored_into_the_same_cluster_is_quarantined() {
    for warm in [true, false] {
        let clock = Ahead::default();
        let server = server(Kind::default(), 8);
        let (store, _) = clock.open(&server.url());
        let known = clock.lease(&store);
        let dump = server.dump("ids");
        let lost = clock.lease(&store);
        server.sql("ids", "DROP SCHEMA snowlease CASCADE");
        server.load("ids", &dump);
        assert_eq!(held(&server), 1);
        let store = if warm {
            rolled_back(store.renew(&clock.renewal(&known)));
            store
        } else {
            drop(store);
            let (store, opened) = clock.open(&server.url());
            let told = opened.alarms.iter().any(|alarm| alarm.contains("restored from a dump"));
            assert!(told, "{opened:?}");
            store
        };
        clock.is_quarantined(&server.url(), &store, &[&known, &lost]);
    }
}

/// A primary that was left behind is passed over while there is the one that took its place, and
/// not used when there is none.
#[test]
fn a_primary_that_was_left_behind_is_not_gone_back_to() {
    let clock = Ahead::default();
    let mut old = server(Kind::default(), 8);
    let mut new = old.standby();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", old.port(), new.port());
    let both = format!("postgres://owner:{PASSWORD}@{hosts}/ids?sslmode=disable");
    let (store, _) = clock.open(&both);
    let known = clock.lease(&store);
    let rows = "SELECT count(*) FROM snowlease.cells WHERE token IS NOT NULL";
    assert!(wait(Duration::from_secs(20), || new.ask("ids", rows) == "1"));
    old.stop();
    new.promote();
    clock.is_quarantined(&new.url(), &store, &[&known]);
    // It comes back, and the connection to its successor breaks for a moment.
    old.run();
    new.stop();
    new.run();
    let before = new.ask("ids", rows);
    let lease = clock.lease(&store);
    assert_ne!(new.ask("ids", rows), before);
    assert_eq!(old.ask("ids", rows), "1");
    new.stop();
    // Who has seen its successor uses it no more, however often it is asked.
    let told = |outage: &Outage| {
        assert!(!outage.unknown && outage.detail.contains("stop this server"), "{outage}");
        assert!(outage.detail.contains("timeline 2 of this cluster was seen"), "{outage}");
    };
    for _ in 0..2 {
        match clock.try_acquire(&store) {
            Err(AcquireError::Outage(outage)) => told(&outage),
            other => panic!("{other:?}"),
        }
        match store.renew(&clock.renewal(&known)) {
            Err(RenewError::Outage(outage)) => told(&outage),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(old.ask("ids", rows), "1");
    // Nor when a session is handed from one to the other.
    new.run();
    store.renew(&clock.renewal(&lease)).unwrap();
    clock.lease(&store);
    assert_eq!(old.ask("ids", rows), "1");
    new.stop();
    // It was meant to be so: the store is told, and the process begins anew.
    drop(store);
    let (store, _) = clock.open(&old.url());
    let at_least = format().tick_at_ms(clock.now_ms() + 64_000).unwrap();
    let floor = snowlease_lease::Administer::quarantine(&store, at_least).unwrap();
    let (store, _) = clock.open(&old.url());
    let refused = clock.try_acquire(&store);
    assert_eq!(refused, Err(AcquireError::Quarantined { floor }));
    clock.add(65_000);
    assert!(clock.lease(&store).grant.from >= floor);
}
