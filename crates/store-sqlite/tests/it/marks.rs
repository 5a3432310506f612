//! What is remembered of a generator id that nobody holds.

use snowlease_core::Tick;
use snowlease_lease::{AcquireError, LeaseStore, Release, RequestKey};

use super::{Place, START, ask, lease};

/// Case: the next number was worked out from the rows that were in use, so that after a restart
/// numbers came again whose rows were gone.
#[test]
fn marks_outlive_the_lease_and_a_restart_of_the_store() {
    let place = Place::new();
    let (store, _) = place.open();
    for _ in 0..8 {
        let (key, grant) = lease(&store, START);
        let back = Release {
            generator_id: grant.generator_id,
            token: key.token(),
            next: None,
            seq: grant.seq,
            unused_from: Tick(START + 30_000),
        };
        store.release(&back).unwrap();
    }
    assert!(store.list().unwrap().iter().all(|lease| !lease.held), "nothing is in use");
    drop(store);
    let (store, _) = place.open();
    let used_before = store.acquire(&ask(&RequestKey::random(), START + 29_999));
    assert!(
        matches!(used_before, Err(AcquireError::Exhausted { total: 8, .. })),
        "{used_before:?}"
    );
    for _ in 0..8 {
        assert_eq!(lease(&store, START + 30_000).1.from, Tick(START + 30_000));
    }
}
