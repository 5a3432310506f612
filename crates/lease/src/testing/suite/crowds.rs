//! Checks with many threads at once: the step that decides is one step.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use snowlease_core::{Format, Tick};

use super::Setup;
use super::bench::{Bench, FIRST, Lease, START, WINDOW};
use crate::testing::Windows;
use crate::{AcquireError, RenewError, RequestKey, Token};

/// Two hundred starters on a pool of forty-eight: every id is granted once, and the rest is told.
pub fn two_hundred_at_once_get_distinct_ids(setup: &dyn Setup) {
    const STARTERS: usize = 200;
    const POOL: u64 = 48;
    let bench = Bench::new(setup, POOL);
    bench.set_now(START);
    let answers: Vec<_> = thread::scope(|scope| {
        let ask = |_| bench.ask(&RequestKey::random(), START);
        let asks: Vec<_> = (0..STARTERS).map(ask).collect();
        let store = &bench.made.store;
        let started: Vec<_> =
            asks.into_iter().map(|ask| scope.spawn(move || store.acquire(&ask))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let granted: Vec<_> = answers.iter().flatten().map(|grant| grant.generator_id).collect();
    let distinct: BTreeSet<_> = granted.iter().copied().collect();
    assert_eq!(granted.len(), distinct.len());
    assert_eq!(distinct, (FIRST..FIRST + POOL).collect());
    for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        assert!(matches!(refused, AcquireError::Exhausted { total: POOL, .. }), "{refused}");
    }
}

/// Holders come, renew and go all at once, on fewer ids than holders; no two windows ever meet
/// (I2).
pub fn holders_at_once_keep_their_windows_apart(setup: &dyn Setup) {
    let bench = Bench::new(setup, 5);
    let clock = AtomicU64::new(START);
    let windows = Mutex::new(Windows::default());
    let grants = AtomicU64::new(0);
    bench.set_now(START);
    let hold = || {
        for _ in 0..6 {
            let now = clock.fetch_add(900, Ordering::Relaxed);
            let key = RequestKey::random();
            let Ok(grant) = bench.try_acquire(&key, now) else { continue };
            let number = grants.fetch_add(1, Ordering::Relaxed);
            let mut lease = Lease::new(&key, &grant);
            let confirm = |lease: &Lease| {
                let (from, until) = (Tick(lease.from), Tick(lease.until));
                let id = lease.generator_id;
                windows.lock().unwrap().confirm(number, id, from, until).unwrap();
            };
            confirm(&lease);
            let now = clock.fetch_add(900, Ordering::Relaxed);
            let Ok(renewal) = bench.try_renew(&lease, now) else { continue };
            lease.adopt(&renewal);
            confirm(&lease);
            let cut = now.clamp(lease.from, lease.until);
            windows.lock().unwrap().give_back(number, lease.generator_id, Tick(cut));
            // Asked for once or twice, it is done.
            drop(bench.try_release(&Bench::giving_back(&lease, cut)));
        }
    };
    thread::scope(|scope| (0..12).for_each(|_| drop(scope.spawn(hold))));
    let windows = windows.into_inner().unwrap();
    // How many there are is for the scheduler to say; every id was free at first.
    assert!(windows.len() >= 5, "only {} grants", windows.len());
    for entry in bench.made.admin.list().unwrap() {
        assert!(Some(entry.until) >= windows.end(entry.generator_id), "{entry:?}");
    }
}

/// As if they had been asked one by one, but for the order in which ids are taken.
pub fn asks_of_one_call_are_answered_each(setup: &dyn Setup) {
    let bench = Bench::new(setup, 40);
    let keys: Vec<_> = (0..45).map(|_| RequestKey::random()).collect();
    let mut asks: Vec<_> = keys.iter().map(|key| bench.ask(key, START)).collect();
    asks[7].format = Format::new("t41g9s13".parse().unwrap(), 1, 0).unwrap();
    let first = bench.try_acquire(&keys[3], START).unwrap();
    let answers = bench.made.store.acquire_each(&asks);
    assert_eq!(answers.len(), asks.len());
    assert_eq!(answers[3].as_ref(), Ok(&first));
    assert!(matches!(answers[7], Err(AcquireError::Format { .. })), "{:?}", answers[7]);
    let mut leases = Vec::new();
    for (key, answer) in keys.iter().zip(&answers) {
        match answer {
            Ok(grant) => leases.push(Lease::new(key, grant)),
            Err(AcquireError::Format { .. } | AcquireError::Exhausted { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let distinct: HashSet<_> = leases.iter().map(|lease| lease.generator_id).collect();
    assert_eq!((leases.len(), distinct.len(), bench.held()), (40, 40, 40));

    let mut renewals: Vec<_> =
        leases.iter().map(|lease| bench.renewal(lease, START + 10)).collect();
    renewals[1].token = Token::random();
    renewals[1].next = renewals[1].token.hash();
    renewals[2].generator_id = FIRST + 40;
    let answers = bench.made.store.renew_each(&renewals);
    assert_eq!(answers.len(), 40);
    for (index, answer) in answers.iter().enumerate() {
        match index {
            1 => assert!(matches!(answer, Err(RenewError::NotYours { .. })), "{answer:?}"),
            2 => assert_eq!(*answer, Err(RenewError::OutOfRange)),
            _ => assert_eq!(answer.as_ref().unwrap().until, Tick(START + 10 + WINDOW)),
        }
    }
    // Again, as after a lost answer.
    let again = bench.made.store.renew_each(&renewals);
    for index in (0..40).filter(|index| ![1, 2].contains(index)) {
        assert_eq!(again[index].as_ref().unwrap(), answers[index].as_ref().unwrap());
    }
    assert!(bench.made.store.acquire_each(&[]).is_empty());
    assert!(bench.made.store.renew_each(&[]).is_empty());
}
