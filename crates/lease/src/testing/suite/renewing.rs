//! Checks of renew: a window grows for whoever shows the token of this very cell, and never
//! shrinks.

use snowlease_core::Tick;

use super::Setup;
use super::bench::{Bench, FIRST, START, WINDOW};
use crate::{Carries, ReleaseError, Renew, RenewError, RequestKey, Token};

fn is_not_yours<T: std::fmt::Debug>(answer: &Result<T, RenewError>) {
    assert!(matches!(answer, Err(RenewError::NotYours { .. })), "{answer:?}");
}

/// `until` and `seq` move; the rest of the cell stays.
pub fn a_renewal_moves_until_and_nothing_else(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let mut lease = bench.lease(START);
    let before = bench.entry(lease.generator_id);
    for round in 1..=3 {
        let now = START + 20_000 * round;
        let renewal = bench.try_renew(&lease, now).unwrap();
        assert_eq!(renewal.until, Tick(now + WINDOW));
        assert_eq!(renewal.seq, lease.seq + 1);
        assert_eq!((renewal.token, renewal.draining), (Carries::Next, false));
        lease.adopt(&renewal);
    }
    let after = bench.entry(lease.generator_id);
    assert_eq!((after.until, after.seq), (Tick(lease.until), lease.seq));
    assert_eq!((after.from, after.granted_at_ms), (before.from, before.granted_at_ms));
    assert_eq!((after.held, after.holder), (true, before.holder));
}

/// The holder makes the next token; from then on the old one shows nothing.
pub fn a_renewal_may_change_the_token(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let old = bench.lease(START);
    let next = Token::random();
    let ask = Renew { next: next.hash(), ..bench.renewal(&old, START + 20_000) };
    let renewal = bench.made.store.renew(&ask).unwrap();
    assert_eq!(renewal.token, Carries::Next);
    let mut new = old.clone();
    new.token = next;
    new.adopt(&renewal);
    for seq in [old.seq, new.seq] {
        let mut stale = old.clone();
        stale.seq = seq;
        is_not_yours(&bench.try_renew(&stale, START + 40_000));
        let release = bench.try_release(&Bench::giving_back(&stale, START + 40_000));
        assert!(matches!(release, Err(ReleaseError::NotYours { .. })));
    }
    bench.renew(&mut new, START + 40_000);
}

/// Neither a made-up token nor one of another cell, nor the right one's successor.
pub fn a_foreign_token_renews_nothing(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let (mine, other) = (bench.lease(START), bench.lease(START));
    let before = bench.entry(mine.generator_id);
    for token in [Token::random(), other.token.clone()] {
        for next in [token.hash(), Token::random().hash(), other.token.hash()] {
            let token = token.clone();
            let ask = Renew { token, next, ..bench.renewal(&mine, START + 1_000) };
            is_not_yours(&bench.made.store.renew(&ask));
        }
    }
    assert_eq!(bench.entry(mine.generator_id), before);
}

/// A cell nobody holds has no token, not an empty one.
pub fn nothing_is_renewed_that_was_never_granted(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let token = Token::random();
    for next in [token.hash(), crate::TokenHash::NOBODY] {
        let ask = Renew {
            generator_id: FIRST,
            token: token.clone(),
            seq: 0,
            next,
            until: Tick(START + WINDOW),
            now_ms: bench.set_now(START),
        };
        is_not_yours(&bench.made.store.renew(&ask));
    }
    assert_eq!(bench.made.admin.list().unwrap(), []);
}

/// A clock that fell back asks for less than there is: nothing changes, and that is no error.
pub fn a_renewal_never_lowers_until(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    let before = bench.entry(lease.generator_id);
    for until in [0, START, lease.until - 1, lease.until] {
        let next = Token::random().hash();
        let ask = Renew { until: Tick(until), next, ..bench.renewal(&lease, START + 10) };
        let renewal = bench.made.store.renew(&ask).unwrap();
        assert_eq!((renewal.until, renewal.seq), (Tick(lease.until), lease.seq));
        assert_eq!(renewal.token, Carries::Token);
    }
    assert_eq!(bench.entry(lease.generator_id), before);
}

/// I1 under late and repeated messages: whatever was asked earlier answers what is true now.
pub fn late_and_repeated_renewals_change_nothing(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let mut lease = bench.lease(START);
    let mut asks = Vec::new();
    for round in 1..=4 {
        let ask = bench.renewal(&lease, START + 10_000 * round);
        lease.adopt(&bench.made.store.renew(&ask).unwrap());
        asks.push(ask);
    }
    let before = bench.entry(lease.generator_id);
    // One that asks for more than there is is late all the same: its `seq` is of another cell.
    let more = Renew { until: Tick(lease.until + 100), ..asks[0].clone() };
    for ask in asks.iter().chain(asks.iter().rev()).chain([&more]) {
        let renewal = bench.made.store.renew(ask).unwrap();
        assert_eq!((renewal.until, renewal.seq), (Tick(lease.until), lease.seq));
    }
    assert_eq!(bench.entry(lease.generator_id), before);
    bench.renew(&mut lease, START + 50_000);
}

/// The same bytes again find their own work, with a changed token too.
pub fn a_renewal_whose_answer_was_lost_is_answered_again(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    let next = Token::random();
    let ask = Renew { next: next.hash(), ..bench.renewal(&lease, START + 20_000) };
    let first = bench.made.store.renew(&ask).unwrap();
    // The second attempt is sent later and asks for more, from the same base with the same `next`.
    let later = START + 23_000;
    let again = Renew { until: Tick(later + WINDOW), now_ms: bench.set_now(later), ..ask.clone() };
    for ask in [&ask, &again] {
        let answer = bench.made.store.renew(ask).unwrap();
        assert_eq!((answer.until, answer.seq), (first.until, first.seq));
        assert_eq!(answer.token, Carries::Next);
    }
    // From here it goes on with the new token and the answered `seq`.
    let mut lease = lease;
    lease.token = next;
    lease.adopt(&first);
    bench.renew(&mut lease, START + 40_000);
}

/// A compare that fails on a cell that bears my token is no loss: it answers the cell, and I go on.
pub fn a_changed_cell_that_is_still_mine_is_adopted(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    bench.made.admin.drain(lease.generator_id, true).unwrap();
    bench.made.admin.drain(lease.generator_id, false).unwrap();
    let next = Token::random();
    let ask = Renew { next: next.hash(), ..bench.renewal(&lease, START + 20_000) };
    let answer = bench.made.store.renew(&ask).unwrap();
    assert_eq!((answer.until, answer.token), (Tick(lease.until), Carries::Token));
    assert_eq!(answer.seq, lease.seq + 2);
    let ask = Renew { seq: answer.seq, ..ask };
    let answer = bench.made.store.renew(&ask).unwrap();
    assert_eq!((answer.until, answer.token), (ask.until, Carries::Next));
}

/// A renewal past the time field gets what is left of it (a window that begins there is refused).
pub fn a_renewal_ends_with_the_time_field(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let end = bench.format.layout().max_tick() + 1;
    let mut lease = bench.lease(end - WINDOW - 100);
    let renewal = bench.try_renew(&lease, end - 1_000).unwrap();
    assert_eq!((renewal.until, renewal.token), (Tick(end), Carries::Next));
    lease.adopt(&renewal);
    // Nothing is left to extend; the lease is unchanged and still held.
    let renewal = bench.try_renew(&lease, end - 10).unwrap();
    assert_eq!((renewal.until, renewal.seq), (Tick(end), lease.seq));
}

/// An owner that slept past its window finds the id in other hands, and cannot touch it.
pub fn a_stale_owner_does_not_touch_its_successor(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let mut stale = bench.lease(START);
    bench.renew(&mut stale, START + 10_000);
    let key = RequestKey::random();
    let grant = bench.try_acquire(&key, stale.until).unwrap();
    assert_eq!(grant.generator_id, stale.generator_id);
    let before = bench.entry(stale.generator_id);
    for seq in [stale.seq, grant.seq] {
        stale.seq = seq;
        is_not_yours(&bench.try_renew(&stale, stale.until + 10));
        for unused_from in [stale.from, stale.until, grant.until.0] {
            let release = bench.try_release(&Bench::giving_back(&stale, unused_from));
            assert!(matches!(release, Err(ReleaseError::NotYours { .. })), "{release:?}");
        }
    }
    assert_eq!(bench.entry(stale.generator_id), before);
    assert_eq!(bench.try_acquire(&key, grant.from.0 + 100), Ok(grant));
}
