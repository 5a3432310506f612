//! Faults at the end of a holder.

#![allow(clippy::unwrap_used, reason = "a helper fails as its test does")]

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use snowlease_core::Refusal;
use snowlease_lease::{LeaseStore, Terms};

use crate::support::{draw, keep, memory, pass, ready, tick};

/// Case: a lease was given back while callers still drew ids under it, and whoever had waited for
/// it drew the same ones.
#[test]
fn a_stop_under_load_hands_the_id_over_behind_its_last_use() {
    // Only a release frees the id in time: its window lasts for a minute.
    let store = memory(0);
    let first = keep(store.clone(), Terms::DEFAULT);
    ready(&first);
    let heir = keep(store.clone(), Terms::DEFAULT);
    let mut seen = HashSet::new();
    thread::scope(|scope| {
        let draw = || {
            let mut ids = Vec::new();
            loop {
                match first.generator().next_ids(100) {
                    Ok(batch) => ids.extend(batch),
                    // No lease: the gate is closed, and it is not said yet that it is so for good.
                    Err(Refusal::TickFull { .. } | Refusal::NoLease) => {}
                    Err(refusal) => break (ids, refusal),
                }
                thread::park_timeout(Duration::from_micros(200));
            }
        };
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        pass(50, || {});
        first.stop().unwrap();
        let mark = store.list().unwrap()[0].until;
        for caller in callers {
            let (ids, refusal) = caller.join().unwrap();
            assert_eq!(refusal, Refusal::ShutDown);
            for id in ids {
                assert!(tick(id) < mark && seen.insert(id), "{id} is free from {mark} on");
            }
        }
    });
    ready(&heir);
    assert!(seen.len() >= 100);
    let last = seen.iter().copied().max().unwrap();
    let window = heir.status().window.unwrap();
    assert!(tick(last) < window.from(), "{last} is in {window:?}");
    let after = draw(&heir, 10_000);
    assert!(after.iter().all(|id| seen.insert(*id)));
}
