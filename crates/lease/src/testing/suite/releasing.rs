//! Checks of release: what was never used goes back, once, and only by its holder's hand.

use snowlease_core::Tick;

use super::Setup;
use super::bench::{Bench, FIRST, START, WINDOW};
use crate::{AcquireError, Carries, Release, ReleaseError, Renew, RenewError, RequestKey, Token};

fn is_not_yours(answer: &Result<(), ReleaseError>) {
    assert!(matches!(answer, Err(ReleaseError::NotYours { .. })), "{answer:?}");
}

/// The id is free at once from that tick, and not one tick before.
pub fn a_release_cuts_at_the_first_unused_tick(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let mut lease = bench.lease(START);
    bench.renew(&mut lease, START + 20_000);
    let cut = START + 25_000;
    bench.release(&Bench::giving_back(&lease, cut));
    let early = bench.try_acquire(&RequestKey::random(), cut - 1);
    let refused = AcquireError::Exhausted { total: 1, earliest: Some(Tick(cut)) };
    assert_eq!(early, Err(refused));
    let next = bench.lease(cut);
    assert!(next.from >= cut && next.seq > lease.seq + 1);
}

/// Both ends of the window are places to cut.
pub fn a_release_may_give_back_all_or_nothing(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let unused = bench.lease(START);
    bench.release(&Bench::giving_back(&unused, unused.from));
    let used = bench.lease(START);
    bench.release(&Bench::giving_back(&used, used.until));
    assert!(bench.try_acquire(&RequestKey::random(), used.until - 1).is_err());
    bench.lease(used.until);
}

/// Asked for twice, it is done once, and the next holder is not touched.
pub fn a_release_takes_place_once(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    let ask = Bench::giving_back(&lease, START + 10);
    bench.release(&ask);
    let before = bench.entry(FIRST);
    is_not_yours(&bench.try_release(&ask));
    assert_eq!(bench.entry(FIRST), before);
    let next = bench.lease(START + 10);
    let before = bench.entry(FIRST);
    is_not_yours(&bench.try_release(&ask));
    is_not_yours(&bench.try_release(&Release { unused_from: Tick(next.from), ..ask }));
    assert_eq!(bench.entry(FIRST), before);
}

/// A cut outside the window would move the high-water mark to where it never was.
pub fn a_release_outside_the_window_changes_nothing(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    let before = bench.entry(FIRST);
    for unused_from in [0, lease.from - 1, lease.until + 1, u64::MAX >> 1] {
        let answer = bench.try_release(&Bench::giving_back(&lease, unused_from));
        let (from, until) = (Tick(lease.from), Tick(lease.until));
        assert_eq!(answer, Err(ReleaseError::OutsideWindow { from, until }));
    }
    assert_eq!(bench.entry(FIRST), before);
    bench.release(&Bench::giving_back(&lease, START + 1));
}

/// Neither a made-up token nor one of another cell, nor a `seq` that is not reached yet.
pub fn a_release_needs_the_token(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let (mine, other) = (bench.lease(START), bench.lease(START));
    let before = bench.entry(mine.generator_id);
    let ask = Bench::giving_back(&mine, START + 10);
    for token in [Token::random(), other.token.clone()] {
        for next in [None, Some(Token::random()), Some(other.token.clone())] {
            is_not_yours(&bench.try_release(&Release {
                token: token.clone(),
                next,
                ..ask.clone()
            }));
        }
    }
    is_not_yours(&bench.try_release(&Release { seq: mine.seq + 1, ..ask }));
    assert_eq!(bench.entry(mine.generator_id), before);
}

/// The holder has closed its gate for good; what happened to the cell beside it does not matter.
pub fn a_release_needs_no_current_seq(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    bench.made.admin.drain(FIRST, true).unwrap();
    bench.release(&Bench::giving_back(&lease, START + 10));
    // The mark of an operator outlives the lease.
    let refused = bench.try_acquire(&RequestKey::random(), START + 20);
    assert_eq!(refused, Err(AcquireError::Exhausted { total: 1, earliest: None }));
    bench.made.admin.drain(FIRST, false).unwrap();
    let mut lease = bench.lease(START + 20);
    let before = lease.clone();
    bench.renew(&mut lease, START + 30);
    bench.release(&Bench::giving_back(&before, START + 40));
}

/// A renewal of unknown outcome: the release shows both tokens, and one of them is the cell's.
pub fn a_release_may_show_the_next_token(setup: &dyn Setup) {
    for landed in [true, false] {
        let bench = Bench::new(setup, 1);
        let lease = bench.lease(START);
        let next = Token::random();
        let renew = Renew { next: next.hash(), ..bench.renewal(&lease, START + 20_000) };
        if landed {
            assert_eq!(bench.made.store.renew(&renew).unwrap().token, Carries::Next);
            is_not_yours(&bench.try_release(&Bench::giving_back(&lease, START + 30_000)));
        }
        let ask = Release { next: Some(next), ..Bench::giving_back(&lease, START + 30_000) };
        bench.release(&ask);
        // The renewal that arrives now, or again, finds nothing to renew.
        let late = bench.made.store.renew(&renew);
        assert!(matches!(late, Err(RenewError::NotYours { .. })), "{late:?}");
        assert_eq!(bench.entry(FIRST).until, Tick(START + 30_000));
    }
}

/// The old holder's messages arrive late: the mark it left stays, and so does what came after.
pub fn nothing_late_revives_a_released_lease(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let key = RequestKey::random();
    let ask = bench.ask(&key, START);
    let grant = bench.made.store.acquire(&ask).unwrap();
    let mut lease = super::bench::Lease::new(&key, &grant);
    let renew = bench.renewal(&lease, START + 20_000);
    lease.adopt(&bench.made.store.renew(&renew).unwrap());
    let cut = START + 21_000;
    bench.release(&Bench::giving_back(&lease, cut));
    let released = bench.entry(FIRST);
    assert!(bench.made.store.renew(&renew).is_err());
    assert!(matches!(bench.made.store.acquire(&ask), Err(AcquireError::Exhausted { .. })));
    assert_eq!(bench.entry(FIRST), released);
    let next = bench.lease(cut + WINDOW);
    let before = bench.entry(FIRST);
    assert!(bench.made.store.renew(&renew).is_err());
    assert!(matches!(bench.made.store.acquire(&ask), Err(AcquireError::Exhausted { .. })));
    assert_eq!((bench.entry(FIRST), before.from), (before, Tick(next.from)));
}
