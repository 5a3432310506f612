//! Checks of what an operator may do: nothing takes a lease away, and the floor only rises.

use snowlease_core::Tick;

use super::Setup;
use super::bench::{Bench, FIRST, START, WINDOW};
use crate::{
    Acquire, AcquireError, Carries, Mode, PlanHash, Realm, RealmMismatch, Renew, RenewError,
    RequestKey,
};

/// Holders go on, nobody new comes in.
pub fn a_frozen_store_renews_and_grants_nothing(setup: &dyn Setup) {
    let bench = Bench::new(setup, 3);
    let (mut lease, leaving) = (bench.lease(START), bench.lease(START));
    bench.made.admin.set_mode(Mode::Frozen).unwrap();
    assert_eq!(bench.made.admin.status().unwrap().meta.mode, Mode::Frozen);
    let refused = bench.try_acquire(&RequestKey::random(), START + 10);
    assert_eq!(refused, Err(AcquireError::Frozen));
    bench.renew(&mut lease, START + 20_000);
    bench.release(&Bench::giving_back(&leaving, START + 20_000));
    bench.made.admin.set_mode(Mode::Open).unwrap();
    bench.lease(START + 20_000);
}

/// The holder learns of it at its next renewal and moves; the id is not granted again.
pub fn a_draining_id_is_renewed_and_not_granted(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let mut lease = bench.lease(START);
    let draining = lease.generator_id;
    bench.made.admin.drain(draining, true).unwrap();
    let marked = bench.entry(draining);
    bench.made.admin.drain(draining, true).unwrap();
    assert_eq!(bench.entry(draining), marked, "a mark that is set is not set again");
    assert!(marked.draining && marked.held);
    assert_eq!(marked.until, Tick(lease.until), "a mark takes no time away");
    let answer = bench.try_renew(&lease, START + 20_000).unwrap();
    assert!(answer.draining);
    lease.adopt(&answer);
    let answer = bench.try_renew(&lease, START + 20_000).unwrap();
    assert_eq!((answer.draining, answer.until), (true, Tick(START + 20_000 + WINDOW)));
    lease.adopt(&answer);
    // Neither while it is held, nor after its window, nor when it was given back.
    assert_ne!(bench.lease(START + 20_000).generator_id, draining);
    assert_ne!(bench.lease(lease.until + WINDOW).generator_id, draining);
    bench.release(&Bench::giving_back(&lease, START + 30_000));
    assert!(bench.try_acquire(&RequestKey::random(), lease.until + WINDOW).is_err());
    bench.made.admin.drain(draining, false).unwrap();
    assert_eq!(bench.lease(lease.until + WINDOW).generator_id, draining);
}

/// A mark set or taken back between two renewals changes the cell; the lease goes on all the same.
pub fn draining_crosses_a_renewal_without_a_loss(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let mut lease = bench.lease(START);
    for (round, draining) in [(1, true), (2, false), (3, true), (4, false)] {
        let now = START + 10_000 * round;
        bench.made.admin.drain(FIRST, draining).unwrap();
        let answer = bench.try_renew(&lease, now).unwrap();
        assert_eq!((answer.until, answer.draining), (Tick(lease.until), draining));
        lease.adopt(&answer);
        let answer = bench.try_renew(&lease, now).unwrap();
        assert_eq!((answer.until, answer.token), (Tick(now + WINDOW), Carries::Next));
        lease.adopt(&answer);
    }
}

/// What to do differs: wait for the earliest end, or undrain.
pub fn all_draining_is_told_apart_from_all_held(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    bench.made.admin.drain(FIRST, true).unwrap();
    let lease = bench.lease(START);
    assert_eq!(lease.generator_id, FIRST + 1);
    let refused = || bench.try_acquire(&RequestKey::random(), START + 10).unwrap_err();
    let earliest = Some(Tick(lease.until));
    assert_eq!(refused(), AcquireError::Exhausted { total: 2, earliest });
    bench.made.admin.drain(FIRST + 1, true).unwrap();
    assert_eq!(refused(), AcquireError::Exhausted { total: 2, earliest: None });
    let marked: Vec<_> = bench.made.admin.list().unwrap();
    assert!(marked.iter().all(|entry| entry.draining) && marked.len() == 2);
}

/// After a rollback nothing is granted or renewed that a forgotten holder might still use.
pub fn quarantine_blocks_grants_and_renewals_below_the_floor(setup: &dyn Setup) {
    let bench = Bench::new(setup, 4);
    let (lease, leaving) = (bench.lease(START), bench.lease(START));
    let floor = bench.made.admin.quarantine(Tick(START + WINDOW + 4_000)).unwrap();
    assert_eq!(floor, Tick(START + WINDOW + 4_000));
    for from in [START + 10, START + WINDOW, floor.0 - 1] {
        let refused = bench.try_acquire(&RequestKey::random(), from);
        assert_eq!(refused, Err(AcquireError::Quarantined { floor }));
    }
    let before = bench.entry(lease.generator_id);
    for now in [START + 10_000, START + WINDOW - 10, floor.0] {
        assert_eq!(bench.try_renew(&lease, now), Err(RenewError::Quarantined { floor }));
    }
    assert_eq!(bench.entry(lease.generator_id), before);
    // Giving back is always safe.
    bench.release(&Bench::giving_back(&leaving, START + 10_000));
    // From the floor on everything is as before.
    let mut lease = bench.lease(floor.0);
    assert!(lease.from >= floor.0);
    bench.renew(&mut lease, floor.0 + 20_000);
}

/// I6, and the reason that one floor covers every window that the store knows of.
pub fn the_floor_never_falls_and_is_at_least_every_until(setup: &dyn Setup) {
    let bench = Bench::new(setup, 3);
    let mut far = bench.lease(START);
    bench.lease(START + 5);
    bench.renew(&mut far, START + 30_000);
    let floor = bench.made.admin.quarantine(Tick(0)).unwrap();
    assert_eq!(floor, Tick(far.until));
    assert_eq!(bench.made.admin.quarantine(Tick(far.until - 1)), Ok(floor));
    let higher = Tick(far.until + 7);
    assert_eq!(bench.made.admin.quarantine(higher), Ok(higher));
    assert_eq!(bench.made.admin.quarantine(floor), Ok(higher));
    assert_eq!(bench.made.admin.status().unwrap().meta.floor, higher);
}

/// Cells are never deleted: their `until` is the high-water mark. Tokens are not in the list by its
/// type.
pub fn the_list_shows_every_cell_that_was_granted(setup: &dyn Setup) {
    let bench = Bench::new(setup, 5);
    let leases: Vec<_> = (0..3).map(|_| bench.lease(START)).collect();
    bench.release(&Bench::giving_back(&leases[0], START + 10));
    // The second one crashes; the third goes on past the end of its window.
    let mut third = leases[2].clone();
    bench.renew(&mut third, START + WINDOW - 1);
    bench.set_now(START + WINDOW * 100);
    let entries = bench.made.store.list().unwrap();
    assert_eq!(entries, bench.made.admin.list().unwrap());
    assert!(entries.is_sorted_by_key(|entry| entry.generator_id));
    let of = |index: usize| {
        let id = leases[index].generator_id;
        let entry = entries.iter().find(|entry| entry.generator_id == id).expect("a known cell");
        (entry.held, entry.until.0)
    };
    assert_eq!(entries.len(), 3);
    assert_eq!(of(0), (false, START + 10));
    assert_eq!(of(1), (true, START + WINDOW));
    assert_eq!(of(2), (true, third.until));
}

/// Format, range, mode, floor, and the longest window: how long a forgotten holder may go on.
pub fn the_status_tells_what_the_store_is_for(setup: &dyn Setup) {
    let bench = Bench::new(setup, 3);
    let status = bench.made.store.status().unwrap();
    assert_eq!((status.meta.format, status.meta.range), (bench.format, (FIRST, FIRST + 2)));
    assert_eq!((status.meta.mode, status.meta.floor), (Mode::Open, Tick(0)));
    assert!(!status.kind.is_empty());
    assert_eq!(status.alarms, [""; 0]);
    let mut lease = bench.lease(START);
    let longest = || bench.made.admin.status().unwrap().meta.longest_window;
    assert_eq!(longest(), lease.until - lease.from);
    for round in 1..=5 {
        bench.renew(&mut lease, START + 20_000 * round);
    }
    // Counted from each renewal, not from the grant: what is left to a holder that is forgotten
    // now.
    assert_eq!(longest(), WINDOW);
}

/// The new plan and the one before are good, so that a fleet can be restarted in turn; no other is.
pub fn a_holder_of_another_plan_is_refused(setup: &dyn Setup) {
    let bench = Bench::new(setup, 9);
    let plans = ["first", "second", "third"].map(PlanHash::of);
    let ask = |plan| {
        let realm = Realm::default().with_plan(plan);
        bench.made.store.acquire(&Acquire { realm, ..bench.ask(&RequestKey::random(), START) })
    };
    let refused = |plan| match ask(Some(plan)) {
        Err(AcquireError::Realm(RealmMismatch::Plan { store, asked })) => (store, asked),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(plans[0]), (None, plans[0]));
    let mut lease = bench.lease(START);
    for (index, plan) in plans.into_iter().enumerate() {
        for _ in 0..2 {
            bench.made.admin.adopt_plan(Some(plan)).unwrap();
        }
        let meta = bench.made.admin.status().unwrap().meta;
        assert_eq!(meta.realm.plan(), Some(plan));
        assert_eq!(meta.previous_plan, index.checked_sub(1).map(|index| plans[index]));
        ask(Some(plan)).unwrap();
        ask(None).unwrap();
        // Who has a lease keeps it, whatever it was started with.
        bench.renew(&mut lease, START + 1_000 * (index as u64 + 1));
    }
    ask(Some(plans[1])).unwrap();
    assert_eq!(refused(plans[0]), (Some(plans[2]), plans[0]));
}

/// A store that was put back shows cells that changed less often than their holders remember: it
/// stops by itself, before anything is granted that a forgotten holder may use.
pub fn a_cell_older_than_its_holder_remembers_quarantines_the_store(setup: &dyn Setup) {
    let bench = Bench::new(setup, 4);
    let (mut mine, other) = (bench.lease(START), bench.lease(START));
    bench.renew(&mut mine, START + 10);
    let remembered = Renew { seq: mine.seq + 1, ..bench.renewal(&mine, START + 1_000) };
    let refused = bench.made.store.renew(&remembered);
    let Err(RenewError::RolledBack { floor }) = refused else { panic!("{refused:?}") };
    assert!(floor.0 >= START + 1_000 + WINDOW + 4_000, "{floor}");
    assert_eq!(bench.made.admin.status().unwrap().meta.floor, floor);
    let refused = bench.try_acquire(&RequestKey::random(), floor.0 - 1);
    assert_eq!(refused, Err(AcquireError::Quarantined { floor }));
    assert_eq!(bench.try_renew(&other, START + 2_000), Err(RenewError::Quarantined { floor }));
    // By itself it is back in service.
    bench.lease(floor.0);
}

/// A clock that once was far ahead has left a mark there. Drained, it costs one generator id, and
/// not the store.
pub fn a_draining_mark_far_ahead_does_not_raise_the_floor(setup: &dyn Setup) {
    let bench = Bench::new(setup, 3);
    let years = 30 * 365 * 86_400_000;
    let far = bench.lease(START + years);
    let near = bench.lease(START);
    bench.made.admin.drain(far.generator_id, true).unwrap();
    let floor = bench.made.admin.quarantine(Tick(START + 10)).unwrap();
    assert_eq!(floor, Tick(near.until));
    // It keeps its mark all the same.
    bench.made.admin.drain(far.generator_id, false).unwrap();
    for _ in 0..2 {
        assert_ne!(bench.lease(near.until).generator_id, far.generator_id);
    }
    assert!(bench.try_acquire(&RequestKey::random(), near.until).is_err());
}

/// Whatever was done to it by its own rules.
pub fn a_sound_store_is_found_sound(setup: &dyn Setup) {
    let bench = Bench::new(setup, 4);
    let mut leases: Vec<_> = (0..3).map(|_| bench.lease(START)).collect();
    for (round, lease) in (1..).zip(&mut leases) {
        bench.renew(lease, START + 10 * round);
    }
    bench.release(&Bench::giving_back(&leases[0], START + 50));
    bench.made.admin.drain(leases[1].generator_id, true).unwrap();
    bench.made.admin.drain(leases[1].generator_id, false).unwrap();
    bench.lease(START + 100);
    bench.made.admin.quarantine(Tick(START + 200)).unwrap();
    let verified = bench.made.admin.verify().unwrap();
    assert_eq!(verified.findings, []);
    assert_eq!(verified.cells, 4);
    assert!(!verified.history.is_empty());
}
