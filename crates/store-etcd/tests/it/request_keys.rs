//! A request key that is shown again gives the same lease, wherever that was granted.

use snowlease_lease::{Administer, LeaseStore, Release, RequestKey};

use super::*;

/// A store of many ids, all taken but for a few.
fn crowded(store: &EtcdStore, ids: u64, free: u64) -> Vec<(RequestKey, Grant)> {
    let mut leases = Vec::new();
    let keys: Vec<_> = (0..ids - free).map(|_| RequestKey::random()).collect();
    for part in keys.chunks(24) {
        let asks: Vec<_> = part.iter().map(|key| ask(key, START)).collect();
        for (key, grant) in part.iter().zip(store.acquire_each(&asks)) {
            leases.push((key.clone(), grant.unwrap()));
        }
    }
    leases
}

fn give_back(store: &EtcdStore, (key, grant): &(RequestKey, Grant), unused_from: u64) {
    let release = Release {
        generator_id: grant.generator_id,
        token: key.token(),
        next: None,
        seq: grant.seq,
        unused_from: Tick(unused_from),
    };
    store.release(&release).unwrap();
}

/// With one id free of a hundred, a key seldom leads to it: the grant is made elsewhere, and a
/// note of it tells whoever shows the key again, also when what it leads to has become free.
#[test]
fn a_grant_that_was_made_elsewhere_is_found_again() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let how = Open { range: Some((0, 99)), ..time.how() };
    let mut notes = 0;
    for round in 0..4 {
        let prefix = format!("ids{round}");
        let address = cluster.address(&prefix);
        let store = open(&address, &how);
        let others = crowded(&store, 100, 1);
        let (key, grant) = lease(&store, START + 1);
        let note = format!("{prefix}/moved/{}", key.token().hash().to_text());
        notes += usize::from(cluster.get(&note).is_some());
        others.iter().for_each(|lease| give_back(&store, lease, START + 1));
        // Everything else is free now, and another process is asked.
        let other = open(&address, &how);
        assert_eq!(other.acquire(&ask(&key, START + 1)), Ok(grant.clone()));
        assert_eq!(other.acquire(&ask(&key, START + 9)), Ok(grant.clone()));
        assert_eq!(store.list().unwrap().iter().filter(|entry| entry.held).count(), 1);
        assert_eq!(store.verify().unwrap().findings, []);
        // Given back and asked for once more, which no holder does: it is granted anew, once.
        give_back(&store, &(key.clone(), grant), START + 10);
        let anew = other.acquire(&ask(&key, START + 20)).unwrap();
        assert_eq!(anew.from, Tick(START + 20));
        assert_eq!(store.acquire(&ask(&key, START + 20)), Ok(anew));
        assert_eq!(store.list().unwrap().iter().filter(|entry| entry.held).count(), 1);
    }
    assert!(notes > 0, "no grant was made elsewhere");
}

/// Each grant elsewhere leaves a note, and notes that lead nowhere are removed.
#[test]
fn notes_do_not_pile_up() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    let how = Open { range: Some((0, 99)), ..time.how() };
    let store = open(&cluster.address("ids"), &how);
    crowded(&store, 100, 1);
    for round in 0..400 {
        let lease = lease(&store, START + round);
        give_back(&store, &lease, START + round);
    }
    let notes = cluster.count("ids/moved/");
    assert!(notes < 250, "{notes} notes");
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
fn a_pool_that_is_used_up_tells_the_earliest_end() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    let how = Open { range: Some((10, 59)), ..time.how() };
    let store = open(&cluster.address("ids"), &how);
    let leases = crowded(&store, 50, 0);
    let later = store.acquire(&ask(&RequestKey::random(), START + 5));
    let earliest = Some(Tick(START + WINDOW));
    assert_eq!(later, Err(AcquireError::Exhausted { total: 50, earliest }));
    // In a batch each is answered on its own: one comes again, one finds the one that is free.
    give_back(&store, &leases[7], START + 1);
    let keys = [RequestKey::random(), leases[3].0.clone(), RequestKey::random()];
    let answers = store.acquire_each(&keys.each_ref().map(|key| ask(key, START + 5)));
    assert_eq!(answers[1].as_ref().unwrap(), &leases[3].1);
    let granted: Vec<_> = [0, 2].iter().filter_map(|place| answers[*place].as_ref().ok()).collect();
    assert_eq!(granted.len(), 1);
    assert_eq!(granted[0].generator_id, leases[7].1.generator_id);
    let refused = [0, 2].iter().filter_map(|place| answers[*place].as_ref().err());
    for error in refused {
        assert!(matches!(error, AcquireError::Exhausted { total: 50, .. }), "{error}");
    }
}
