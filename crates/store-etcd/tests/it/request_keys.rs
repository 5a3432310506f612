//! A request key that is shown again gives the same lease, wherever that was granted.

use snowlease_lease::{LeaseStore, Release, RequestKey};

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
    let address = cluster.address("ids");
    let how = Open { range: Some((0, 99)), ..time.how() };
    let store = open(&address, &how);
    let mut leases = crowded(&store, 100, 1);
    let mut notes = 0;
    for round in 0..20 {
        let (key, grant) = lease(&store, START + 1);
        let noted = cluster.get(&format!("ids/moved/{}", key.token().hash().to_text()));
        notes += usize::from(noted.is_some());
        // Everything else becomes free, and another process is asked.
        if round == 0 {
            let all = std::mem::take(&mut leases);
            all.iter().for_each(|lease| give_back(&store, lease, START));
        }
        let other = open(&address, &how);
        assert_eq!(other.acquire(&ask(&key, START + 1)), Ok(grant.clone()));
        assert_eq!(other.acquire(&ask(&key, START + 9)), Ok(grant.clone()));
        if round == 0 {
            assert_eq!(store.list().unwrap().iter().filter(|entry| entry.held).count(), 1);
        }
        // Given back and asked for once more: it is granted anew, once.
        give_back(&store, &(key.clone(), grant), START + 10);
        let anew = other.acquire(&ask(&key, START + 20)).unwrap();
        assert_eq!(anew.from, Tick(START + 20));
        assert_eq!(store.acquire(&ask(&key, START + 20)), Ok(anew.clone()));
        give_back(&store, &(key, anew), START + 20);
        if round == 0 {
            leases = crowded(&store, 100, 0);
        }
        let last = leases.pop().unwrap();
        give_back(&store, &last, START);
        time.set(START);
        let refill = lease(&store, START + 30);
        assert_eq!(refill.1.generator_id, last.1.generator_id);
        give_back(&store, &refill, START);
    }
    assert!(notes > 0, "no grant was made elsewhere");
    assert_eq!(store.list().unwrap().len(), 100);
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
