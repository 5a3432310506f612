//! Checks with many threads at once: the step that decides is one step.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use snowlease_core::Tick;

use super::Setup;
use super::bench::{Bench, FIRST, Lease, START};
use crate::testing::Windows;
use crate::{AcquireError, RequestKey};

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
