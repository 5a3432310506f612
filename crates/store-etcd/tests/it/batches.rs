//! Many asks in one call: each is answered as if it were alone, in few transactions.

use std::collections::BTreeSet;

use snowlease_lease::{Administer, LeaseStore, Release, RequestKey};

use super::*;

#[test]
fn many_acquires_and_renewals_take_few_transactions() {
    for version in ["3.4", "3.7"] {
        let cluster = Cluster::start(&Options::single(version));
        let time = Time::at(START);
        let how = Open { range: Some((0, 399)), ..time.how() };
        let store = open(&cluster.address("ids"), &how);
        let keys: Vec<_> = (0..300).map(|_| RequestKey::random()).collect();
        let asks: Vec<_> = keys.iter().map(|key| ask(key, START)).collect();
        let before = cluster.revision();
        let mut grants: Vec<_> =
            store.acquire_each(&asks).into_iter().map(Result::unwrap).collect();
        let ids: BTreeSet<_> = grants.iter().map(|grant| grant.generator_id).collect();
        assert_eq!(ids.len(), 300);
        // 13 transactions at best; a second one for those whose ids were all taken.
        let took = cluster.revision() - before;
        assert!((13..=40).contains(&took), "{took} transactions");
        // Asked again, each gets its own, and nothing is written.
        let before = cluster.revision();
        let again: Vec<_> = store.acquire_each(&asks).into_iter().map(Result::unwrap).collect();
        assert_eq!(again, grants);
        assert_eq!(cluster.revision(), before);
        for round in 1..=3 {
            let now = START + 20_000 * round;
            time.set(now);
            let before = cluster.revision();
            let asks: Vec<_> =
                keys.iter().zip(&grants).map(|(key, grant)| renewal(key, grant, now)).collect();
            for (grant, renewed) in grants.iter_mut().zip(store.renew_each(&asks)) {
                let renewed = renewed.unwrap();
                assert_eq!((renewed.until, renewed.token), (Tick(now + WINDOW), Carries::Next));
                assert_eq!(renewed.seq, grant.seq + 1);
                (grant.seq, grant.until) = (renewed.seq, renewed.until);
            }
            assert_eq!(cluster.revision() - before, 5);
        }
        let pulse_ms = store.status().unwrap().pulse_ms;
        assert_eq!(pulse_ms, Some(Format::DEFAULT.unix_ms(Tick(START + 60_000))));
        assert_eq!(store.verify().unwrap().findings, []);
    }
}

#[test]
fn each_of_a_batch_is_answered_on_its_own() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let address = cluster.address("ids");
    let (store, other) = (open(&address, &time.how()), open(&address, &time.how()));
    // One key twice in a batch gets one lease; another realm and an empty window get none.
    let key = RequestKey::random();
    let stranger = Acquire {
        realm: Realm::new("staging", None).unwrap(),
        ..ask(&RequestKey::random(), START)
    };
    let empty = Acquire { until: Tick(START), ..ask(&RequestKey::random(), START) };
    let answers = store.acquire_each(&[ask(&key, START), stranger, empty, ask(&key, START)]);
    assert_eq!(answers[0], answers[3]);
    assert!(answers[0].is_ok());
    assert!(matches!(answers[1], Err(AcquireError::Realm(_))));
    assert!(matches!(answers[2], Err(AcquireError::Window { .. })));
    assert_eq!(store.acquire_each(&[]), []);

    let leases: Vec<_> = (0..4).map(|_| lease(&store, START)).collect();
    let now = START + 20_000;
    let mut asks: Vec<_> = leases.iter().map(|(key, grant)| renewal(key, grant, now)).collect();
    // The first is asked for twice, the second was given back beside us, the third drains, the
    // fourth shows another's token, and one is of no cell.
    let released = Release {
        generator_id: leases[1].1.generator_id,
        token: leases[1].0.token(),
        next: None,
        seq: leases[1].1.seq,
        unused_from: Tick(START + 1),
    };
    other.release(&released).unwrap();
    other.drain(leases[2].1.generator_id, true).unwrap();
    asks[3] = Renew { generator_id: asks[3].generator_id, ..asks[0].clone() };
    asks.push(asks[0].clone());
    asks.push(Renew { generator_id: 99, ..asks[0].clone() });
    let answers = store.renew_each(&asks);
    assert_eq!(answers[0], answers[4]);
    assert_eq!(answers[0].as_ref().unwrap().until, Tick(now + WINDOW));
    assert!(matches!(answers[1], Err(RenewError::NotYours { .. })));
    let drained = answers[2].as_ref().unwrap();
    assert_eq!((drained.draining, drained.until), (true, leases[2].1.until));
    assert!(matches!(answers[3], Err(RenewError::NotYours { .. })));
    assert_eq!(answers[5], Err(RenewError::OutOfRange));
}
