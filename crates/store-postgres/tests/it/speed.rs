//! How fast it is. Not run with the tests: a figure says something on a quiet machine only.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use super::*;

fn rate(what: &str, count: usize, begun_ns: u64) {
    let seconds = (os::boot_ns() - begun_ns) as f64 / 1e9;
    println!("{what}: {count} in {seconds:.2} s, {:.0}/s", count as f64 / seconds);
}

#[test]
#[ignore = "a benchmark: run it alone, with --no-capture"]
#[allow(clippy::print_stdout, reason = "figures are what it is for")]
fn acquires_and_renewals() {
    const CONNECTIONS: usize = 32;
    const EACH: usize = 500;
    let server = server(Kind { fsync: true, ..Kind::default() }, 1 << 16);
    let url = server.url();
    let stores: Vec<_> =
        (0..CONNECTIONS).map(|_| open_as(&url, &within(Duration::from_secs(60))).0).collect();
    let format = stores[0].status().unwrap().meta.format;
    let leases = Mutex::new(Vec::new());
    let begun = os::boot_ns();
    thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let key = RequestKey::random();
                    let grant = store.acquire(&ask_of(format, &key, os::wall_ms())).unwrap();
                    leases.lock().unwrap().push(Lease { format, key, grant });
                }
            });
        }
    });
    let leases = leases.into_inner().unwrap();
    rate("acquires, 32 connections", leases.len(), begun);
    let ids: BTreeSet<_> = leases.iter().map(|lease| lease.grant.generator_id).collect();
    assert_eq!(ids.len(), leases.len());

    let begun = os::boot_ns();
    thread::scope(|scope| {
        for (store, leases) in stores.iter().zip(leases.chunks(EACH)) {
            scope.spawn(move || {
                for lease in leases {
                    store.renew(&lease.renewal(0)).unwrap();
                }
            });
        }
    });
    rate("renewals, 32 connections", leases.len(), begun);

    let leases = Mutex::new(Vec::new());
    let begun = os::boot_ns();
    thread::scope(|scope| {
        for store in &stores[..2] {
            scope.spawn(|| {
                for _ in 0..80 {
                    let keys: Vec<_> = (0..128).map(|_| RequestKey::random()).collect();
                    let asks: Vec<_> =
                        keys.iter().map(|key| ask_of(format, key, os::wall_ms())).collect();
                    let grants = store.acquire_each(&asks).into_iter().map(Result::unwrap);
                    let new = keys.into_iter().zip(grants).map(|(key, grant)| Lease {
                        format,
                        key,
                        grant,
                    });
                    leases.lock().unwrap().extend(new);
                }
            });
        }
    });
    let leases = leases.into_inner().unwrap();
    rate("acquire_each of 128, 2 connections", leases.len(), begun);
    let ids: BTreeSet<_> = leases.iter().map(|lease| lease.grant.generator_id).collect();
    assert_eq!(ids.len(), leases.len());

    let begun = os::boot_ns();
    thread::scope(|scope| {
        for (store, leases) in stores.iter().zip(leases.chunks(leases.len() / 2)) {
            scope.spawn(move || {
                for chunk in leases.chunks(128) {
                    let asks: Vec<_> = chunk.iter().map(|lease| lease.renewal(0)).collect();
                    assert!(store.renew_each(&asks).iter().all(Result::is_ok));
                }
            });
        }
    });
    rate("renew_each of 128, 2 connections", leases.len(), begun);
    for (name, text) in [("cells", "SELECT count(*) FROM snowlease.cells WHERE seq > 0")] {
        println!("{name}: {}", server.ask("ids", text));
    }
}
