//! How fast it is. Not run with the tests: a figure says something on a quiet machine only.

#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use super::*;

/// How many asks go together.
const BATCH: usize = 128;

/// Runs this on each store in a thread of its own, and prints how many leases it handled.
fn timed(
    what: &str,
    stores: &[PostgresStore],
    run: impl Fn(usize, &PostgresStore) -> Vec<Lease> + Sync,
) -> Vec<Lease> {
    let leases = Mutex::new(Vec::new());
    let begun = os::boot_ns();
    thread::scope(|scope| {
        for (index, store) in stores.iter().enumerate() {
            let (run, leases) = (&run, &leases);
            scope.spawn(move || {
                let done = run(index, store);
                leases.lock().unwrap().extend(done);
            });
        }
    });
    let ms = (os::boot_ns() - begun) / 1_000_000;
    let leases = leases.into_inner().unwrap();
    let ids: BTreeSet<_> = leases.iter().map(|lease| lease.grant.generator_id).collect();
    assert_eq!(ids.len(), leases.len());
    let rate = leases.len() as u64 * 1_000 / ms.max(1);
    println!("{what}: {} in {ms} ms, {rate}/s", leases.len());
    leases
}

fn acquire(store: &PostgresStore) -> Lease {
    let key = RequestKey::random();
    let grant = store.acquire(&ask_now(&key)).unwrap();
    Lease { format: format(), key, grant }
}

fn acquire_batch(store: &PostgresStore) -> Vec<Lease> {
    let keys: Vec<_> = (0..BATCH).map(|_| RequestKey::random()).collect();
    let asks: Vec<_> = keys.iter().map(ask_now).collect();
    let grants = store.acquire_each(&asks).into_iter().map(Result::unwrap);
    keys.into_iter()
        .zip(grants)
        .map(|(key, grant)| Lease { format: format(), key, grant })
        .collect()
}

#[test]
#[ignore = "a benchmark: run it alone, with --no-capture"]
fn acquires_and_renewals() {
    const EACH: usize = 500;
    let server = server(Kind { fsync: true, ..Kind::default() }, 1 << 16);
    let long = within(Duration::from_secs(60));
    let stores: Vec<_> = (0..32).map(|_| open_as(&server.url(), &long).0).collect();
    let leases = timed("acquires, 32 connections", &stores, |_, store| {
        (0..EACH).map(|_| acquire(store)).collect()
    });
    timed("renewals, 32 connections", &stores, |index, store| {
        let mine = &leases[index * EACH..][..EACH];
        assert!(mine.iter().all(|lease| store.renew(&lease.renewal(0)).is_ok()));
        mine.to_vec()
    });
    let leases = timed("acquires in batches of 128, 2 connections", &stores[..2], |_, store| {
        (0..80).flat_map(|_| acquire_batch(store)).collect()
    });
    timed("renewals in batches of 128, 2 connections", &stores[..2], |index, store| {
        let mine = &leases[index * BATCH * 80..][..BATCH * 80];
        for chunk in mine.chunks(BATCH) {
            let asks: Vec<_> = chunk.iter().map(|lease| lease.renewal(0)).collect();
            assert!(store.renew_each(&asks).iter().all(Result::is_ok));
        }
        mine.to_vec()
    });
    timed("acquires, 64 threads over 1 connection", &stores[..1], |_, store| {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..64)
                .map(|_| scope.spawn(|| (0..40).map(|_| acquire(store)).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    });
}
