//! Many at once: over one store, over many, and in one statement.

use std::collections::BTreeSet;
use std::thread;

use snowlease_lease::{AcquireError, Administer};

use super::*;

/// One store, one connection, and everybody gets on.
#[test]
fn many_threads_use_one_store_at_once() {
    let server = server(Kind::default(), 200);
    let store = open(&server.url());
    let store = &store;
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(move || {
                let mut lease = lease(store);
                for _ in 0..4 {
                    lease.adopt(&store.renew(&lease.renewal(0)).unwrap());
                }
            });
        }
    });
    assert_eq!(held(&server), 64);
    // One key at the same time is one lease, over one connection and over many.
    let stores: Vec<_> = (0..8).map(|_| open(&server.url())).collect();
    let key = &RequestKey::random();
    let ids: Vec<_> = thread::scope(|scope| {
        let ask = |store: &PostgresStore| store.acquire(&ask_now(key)).unwrap();
        let all = stores.iter().chain([store, store, store]);
        let asked: Vec<_> = all.map(|store| scope.spawn(move || ask(store))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap().generator_id).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(held(&server), 65);
    assert_eq!(store.verify().unwrap().findings, []);
}

/// 1,300 starters on 1,024 ids, through two services that ask for many at a time and beside them
/// holders that ask for themselves: 1,024 distinct winners, and the rest is told until when.
#[test]
fn a_herd_takes_every_id_once_and_the_rest_is_told_until_when() {
    let server = server(Kind::default(), 1_024);
    let stores: Vec<_> =
        (0..6).map(|_| open_as(&server.url(), &within(Duration::from_secs(30))).0).collect();
    let answers: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = stores
            .iter()
            .zip([600, 600, 25, 25, 25, 25])
            .map(|(store, count)| {
                scope.spawn(move || {
                    let asks = (0..count).map(|_| ask_now(&RequestKey::random()));
                    if count > 25 {
                        return store.acquire_each(&asks.collect::<Vec<_>>());
                    }
                    // One after the other, each by the clock of its time.
                    asks.map(|ask| store.acquire(&ask)).collect()
                })
            })
            .collect();
        started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.len(), 1_300);
    let granted: Vec<_> = answers.iter().flatten().map(|grant| grant.generator_id).collect();
    assert_eq!(granted.len(), 1_024);
    assert_eq!(granted.iter().copied().collect::<BTreeSet<_>>().len(), 1_024);
    let earliest = answers.iter().flatten().map(|grant| grant.until).min();
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        let expected = AcquireError::Exhausted { total: 1_024, earliest };
        assert_eq!(*refused, expected);
    }
    assert_eq!(stores[0].verify().unwrap().findings, []);
}

/// What one ask of many is about does not concern the others.
#[test]
fn each_of_many_asks_is_answered_for_itself() {
    let server = server(Kind::default(), 64);
    let store = open(&server.url());
    let known = RequestKey::random();
    let first = store.acquire(&ask_now(&known)).unwrap();
    let twice = RequestKey::random();
    let off = RequestKey::random();
    let asks = [
        ask_now(&RequestKey::random()),
        ask_now(&known),
        Acquire { until: Tick(5), ..ask_now(&RequestKey::random()) },
        ask_now(&twice),
        ask_now(&twice),
        ask_ahead(&store, &off, 9_000),
        Acquire { format: Format::DEFAULT, ..ask_now(&RequestKey::random()) },
        ask_now(&RequestKey::random()),
    ];
    let answers = store.acquire_each(&asks);
    let ids: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|g| g.generator_id)).collect();
    assert!(ids[0].is_ok() && ids[7].is_ok() && ids[0] != ids[7], "{answers:?}");
    assert_eq!(ids[1], Ok(first.generator_id));
    assert!(matches!(answers[2], Err(AcquireError::Window { .. })), "{answers:?}");
    assert_eq!((ids[3].is_ok(), &ids[3]), (true, &ids[4]));
    assert!(matches!(answers[5], Err(AcquireError::Skew { .. })), "{answers:?}");
    assert!(matches!(answers[6], Err(AcquireError::Format { .. })), "{answers:?}");
    assert_eq!(held(&server), 4);
    // Renewals too: one that was asked for twice took place once.
    let held = Lease { format: format(), key: known, grant: first };
    let renewal = held.renewal(0);
    let other = snowlease_lease::Token::random();
    let foreign = Renew { next: other.hash(), token: other, ..renewal.clone() };
    let outside = Renew { generator_id: 64, ..renewal.clone() };
    let answers = store.renew_each(&[renewal.clone(), foreign, outside, renewal]);
    let seqs: Vec<_> = answers.iter().map(|a| a.as_ref().map(|r| r.seq).ok()).collect();
    assert_eq!(seqs, [Some(2), None, None, Some(2)], "{answers:?}");
}

/// A service drops its store wherever it stops.
#[test]
fn a_store_may_be_used_and_dropped_inside_of_a_runtime() {
    let server = server(Kind::default(), 4);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = open(&server.url());
        lease(&store);
        drop(store);
    });
}
