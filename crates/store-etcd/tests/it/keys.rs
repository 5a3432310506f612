//! What may lie under a prefix besides a whole store.

use snowlease_core::{Format, Layout, Tick};
use snowlease_lease::{Administer, Cell, LeaseStore, RequestKey};

use super::*;

/// 3.4 has the oldest rules for transactions.
fn cluster() -> Cluster {
    Cluster::start(&Options::single("3.4"))
}

#[test]
fn a_store_is_made_once_and_opened_ever_after() {
    let cluster = cluster();
    let address = cluster.address("a/b");
    let time = Time::at(START);
    let only = Open { create: false, ..time.how() };
    let error = refused(&address, &only);
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("store init"));
    let (store, opened) = EtcdStore::open(&address, &time.how()).unwrap();
    assert!(opened.created);
    // One member is worth a word, and nothing else is wrong.
    assert_eq!(opened.alarms.len(), 1, "{:?}", opened.alarms);
    assert!(opened.alarms[0].contains("one member"), "{:?}", opened.alarms);
    assert_eq!(store.status().unwrap().alarms, opened.alarms);
    assert_eq!(store.status().unwrap().pulse_ms, Some(0));
    let (key, grant) = lease(&store, START);
    let (again, opened) = EtcdStore::open(&address, &only).unwrap();
    assert!(!opened.created);
    assert_eq!(again.acquire(&ask(&key, START)), Ok(grant));
    let pulse_ms = again.status().unwrap().pulse_ms;
    assert_eq!(pulse_ms, Some(Format::DEFAULT.unix_ms(Tick(START))));
    // Another format or range is told apart, and so is a range that is none.
    let format = Format::new(Layout::FLEET, 1, 0).unwrap();
    let other = |how: Open| refused(&address, &how);
    let error = other(Open { format: Some(format), range: None, ..only.clone() });
    assert!(matches!(error, OpenError::Format { .. }), "{error}");
    let error = other(Open { range: Some((0, 8)), ..only.clone() });
    assert!(matches!(error, OpenError::Range { .. }), "{error}");
    let format = Some(Format::DEFAULT);
    let error = other(Open { format, range: Some((8, 0)), ..only });
    assert!(matches!(error, OpenError::BadRange(_)), "{error}");
    // Stores under other prefixes have nothing to do with it.
    let beside = open(&cluster.address("a/bb"), &time.how());
    assert_eq!(beside.list().unwrap(), []);
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn many_who_make_it_at_once_make_one_store() {
    let cluster = cluster();
    let address = cluster.address("ids");
    let time = Time::at(START);
    let how = Open { range: Some((0, 499)), ..time.how() };
    let stores: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&address, &how))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut ids: Vec<_> = stores.iter().map(|store| lease(store, START).1.generator_id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(stores[0].verify().unwrap().findings, []);
    assert_eq!(stores[0].verify().unwrap().cells, 500);
}

/// The one that was interrupted has put its meta and some cells.
#[test]
fn one_that_was_interrupted_is_finished() {
    let cluster = cluster();
    let time = Time::at(START);
    let whole = open(&cluster.address("a"), &time.how());
    let meta = cluster.get("a/meta").unwrap();
    let creating = String::from_utf8(meta).unwrap().replace("\"ready\"", "\"creating\"");
    let vacant = Cell::vacant(Format::DEFAULT.fingerprint()).encode();
    cluster.put("b/meta", creating.as_bytes());
    for id in 0..3 {
        cluster.put(&format!("b/cells/{id:020}"), &vacant);
        cluster.put(&format!("b/requests/{id:020}"), &[0; 32]);
    }
    let error = refused(&cluster.address("b"), &Open { create: false, ..time.how() });
    assert!(matches!(error, OpenError::Unfinished { .. }), "{error}");
    // Nothing is made for anything else than what was begun.
    let error = refused(&cluster.address("b"), &Open { range: Some((0, 9)), ..time.how() });
    assert!(matches!(error, OpenError::Range { .. }), "{error}");
    let (store, opened) = EtcdStore::open(&cluster.address("b"), &time.how()).unwrap();
    assert!(opened.created);
    assert_eq!(store.verify().unwrap().cells, 8);
    for _ in 0..8 {
        lease(&store, START);
    }
    // One that is in use notices when it is begun anew.
    cluster.put("a/meta", creating.as_bytes());
    let error = outage(whole.acquire(&ask(&RequestKey::random(), START)));
    assert!(error.detail.contains("being made"), "{error}");
}

#[test]
fn keys_of_others_are_refused_before_and_after() {
    let cluster = cluster();
    let time = Time::at(START);
    cluster.put("app/config", b"x");
    let error = refused(&cluster.address("app"), &time.how());
    assert!(matches!(&error, OpenError::Foreign { key, .. } if key == "app/config"), "{error}");
    let store = open(&cluster.address("ids"), &time.how());
    for key in ["ids/zzz", "ids/cells/00000000000000000008", "ids/cells/1"] {
        cluster.put(key, b"x");
        let error = refused(&cluster.address("ids"), &time.how());
        assert!(error.to_string().contains(key), "{error}");
        let found = store.verify().unwrap().findings;
        assert!(found.iter().any(|finding| finding.what.contains(key)), "{found:?}");
        cluster.delete(key);
    }
    open(&cluster.address("ids"), &time.how());
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
fn a_store_without_its_meta_or_a_cell_is_damaged() {
    let cluster = cluster();
    let time = Time::at(START);
    let address = cluster.address("ids");
    let store = open(&address, &time.how());
    let (key, grant) = lease(&store, START);
    let cell = format!("ids/cells/{:020}", grant.generator_id);
    let (kept, meta) = (cluster.get(&cell).unwrap(), cluster.get("ids/meta").unwrap());
    cluster.delete(&cell);
    let error = refused(&address, &time.how());
    assert!(error.to_string().contains("1 of its 8 cells are missing"), "{error}");
    let found = store.verify().unwrap().findings;
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().contains("is missing"), "{found:?}");
    let Err(RenewError::Outage(error)) = store.renew(&renewal(&key, &grant, START)) else {
        panic!("renewed")
    };
    assert!(!error.unknown && error.detail.contains("is missing"), "{error}");
    assert!(store.list().unwrap_err().detail.contains("is missing"));
    assert!(store.drain(grant.generator_id, true).unwrap_err().detail.contains("is missing"));
    // Made anew by somebody, it has lost its history: it is an older copy of itself.
    cluster.put(&cell, &kept);
    let found = store.renew(&Renew { seq: 1, ..renewal(&key, &grant, START) });
    assert!(matches!(found, Err(RenewError::RolledBack { .. })), "{found:?}");
    cluster.delete("ids/meta");
    let error = refused(&address, &time.how());
    assert!(matches!(error, OpenError::Headless { .. }), "{error}");
    let error = outage(store.acquire(&ask(&RequestKey::random(), START)));
    assert!(error.detail.contains("meta is gone"), "{error}");
    cluster.put("ids/meta", &meta);
    open(&address, &time.how());
}

#[test]
fn newer_schemas_are_told_apart_from_damage() {
    let cluster = cluster();
    let time = Time::at(START);
    let address = cluster.address("ids");
    let how = Open { range: Some((0, 0)), ..time.how() };
    let store = open(&address, &how);
    let (key, grant) = lease(&store, START);
    let (cell, place) = (cluster.get("ids/cells/00000000000000000000").unwrap(), 8);
    let mut newer = cell.clone();
    newer[place] = 2;
    cluster.put("ids/cells/00000000000000000000", &newer);
    let told = |what: &str| assert!(what.contains("schema version 2"), "{what}");
    told(&store.renew(&renewal(&key, &grant, START)).unwrap_err().to_string());
    told(&store.list().unwrap_err().detail);
    told(&store.verify().unwrap().findings[0].what);
    told(&outage(store.acquire(&ask(&RequestKey::random(), START + 10))).detail);
    // A grant over one is not answered: what it was is not known.
    told(&outage(store.acquire(&ask(&RequestKey::random(), START + WINDOW))).detail);
    let meta = String::from_utf8(cluster.get("ids/meta").unwrap()).unwrap();
    cluster.put("ids/meta", meta.replace("\"schema\":1", "\"schema\":2").as_bytes());
    let error = refused(&address, &how);
    assert!(matches!(error, OpenError::Newer { schema: 2, .. }), "{error}");
    let error = outage(store.acquire(&ask(&RequestKey::random(), START + 2 * WINDOW)));
    assert!(error.detail.contains("update this program"), "{error}");
    for meta in ["", "{}", "[1]", &meta.replace("\"frozen\"", "\"x\"")] {
        cluster.put("ids/meta", meta.as_bytes());
        let error = refused(&address, &how);
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    }
}

/// etcd has no way to say that it is told to compact, but what it still has says so.
#[test]
fn history_that_is_never_let_go_is_an_alarm() {
    let cluster = cluster();
    let time = Time::at(START);
    let address = cluster.address("ids");
    open(&address, &time.how());
    let alarms = || EtcdStore::open(&address, &time.how()).unwrap().1.alarms;
    let told = |alarms: &[String]| alarms.iter().any(|what| what.contains("auto-compaction-mode"));
    assert!(!told(&alarms()), "it is young");
    time.set(START + 90_000_000);
    assert!(told(&alarms()));
    cluster.compact();
    assert!(!told(&alarms()));
}

#[test]
fn a_longer_window_is_noted_before_it_is_granted() {
    let cluster = cluster();
    let time = Time::at(START);
    let address = cluster.address("ids");
    let (a, b) = (open(&address, &time.how()), open(&address, &time.how()));
    let longest = || a.status().unwrap().meta.longest_window;
    lease(&a, START);
    assert_eq!(longest(), WINDOW);
    // The other one knows nothing of it yet.
    let (key, grant) = lease(&b, START);
    let mut longer = renewal(&key, &grant, START + 1_000);
    longer.until = Tick(START + 1_000 + WINDOW + 1);
    let renewed = b.renew(&longer).unwrap();
    assert_eq!(renewed.until, longer.until);
    // By more than it has to be, so that growing windows raise it seldom.
    assert_eq!(longest(), WINDOW + WINDOW / 8);
    let floor = a.quarantine(Tick(0)).unwrap();
    assert_eq!(floor, renewed.until);
}
