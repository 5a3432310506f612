//! Checks of acquire: a generator id goes to one holder at a time, and to the same one when asked
//! again.

use std::collections::BTreeSet;

use snowlease_core::{Format, Layout, Tick};

use super::Setup;
use super::bench::{Bench, FIRST, START, WINDOW};
use crate::{AcquireError, Holder, Release, ReleaseError, Renew, RenewError, RequestKey, Token};

/// The answer lies inside what was asked for, and the cell says the same.
pub fn a_grant_is_what_was_asked_for(setup: &dyn Setup) {
    let bench = Bench::new(setup, 3);
    let ask = bench.ask(&RequestKey::random(), START);
    let grant = bench.made.store.acquire(&ask).unwrap();
    assert!((FIRST..FIRST + 3).contains(&grant.generator_id));
    assert!(ask.from <= grant.from && grant.from < grant.until && grant.until <= ask.until);
    assert!(grant.seq > 0 && !grant.draining);
    let entry = bench.entry(grant.generator_id);
    assert_eq!((entry.from, entry.until, entry.seq), (grant.from, grant.until, grant.seq));
    assert!(entry.held && !entry.draining);
    assert_eq!(entry.holder, ask.holder);
    assert_ne!(entry.granted_at_ms, 0);
}

/// I2 and the end of the pool: never an id that is live, and the caller is told when to come again.
pub fn grants_are_distinct_until_none_is_left(setup: &dyn Setup) {
    let bench = Bench::new(setup, 4);
    let leases: Vec<_> = (0..4).map(|n| bench.lease(START + 100 * n)).collect();
    let ids: BTreeSet<_> = leases.iter().map(|lease| lease.generator_id).collect();
    assert_eq!(ids, (FIRST..FIRST + 4).collect());
    let refused = AcquireError::Exhausted { total: 4, earliest: Some(Tick(leases[0].until)) };
    assert_eq!(bench.try_acquire(&RequestKey::random(), START + 400), Err(refused));
    // The earliest end counts, not the earliest grant.
    let mut first = leases[0].clone();
    bench.renew(&mut first, START + 500);
    let refused = AcquireError::Exhausted { total: 4, earliest: Some(Tick(leases[1].until)) };
    assert_eq!(bench.try_acquire(&RequestKey::random(), START + 500), Err(refused));
    // One is given back: exactly that one is granted.
    bench.release(&Bench::giving_back(&leases[2], START + 600));
    assert_eq!(bench.lease(START + 600).generator_id, leases[2].generator_id);
    assert!(bench.try_acquire(&RequestKey::random(), START + 600).is_err());
}

/// `until` is the first tick that is free, to the tick.
pub fn an_id_is_free_at_until_and_not_one_tick_before(setup: &dyn Setup) {
    let bench = Bench::new(setup, 1);
    let lease = bench.lease(START);
    let early = bench.try_acquire(&RequestKey::random(), lease.until - 1);
    assert!(matches!(early, Err(AcquireError::Exhausted { .. })), "{early:?}");
    let next = bench.lease(lease.until);
    assert_eq!(next.generator_id, lease.generator_id);
    assert!(next.from >= lease.until && next.seq > lease.seq);
    assert_ne!(next.token, lease.token);
}

/// So that an id rests as long as possible between two holders.
pub fn the_longest_free_is_taken_first(setup: &dyn Setup) {
    if !setup.longest_free_first() {
        return;
    }
    let bench = Bench::new(setup, 3);
    let leases: Vec<_> = (0..3).map(|n| bench.lease(START + n)).collect();
    // Given back in another order than granted; an id that was never granted comes before all.
    for (order, lease) in [(0, &leases[1]), (1, &leases[2]), (2, &leases[0])] {
        bench.release(&Bench::giving_back(lease, START + 100 + order));
    }
    for expected in [1, 2, 0] {
        assert_eq!(bench.lease(START + 200).generator_id, leases[expected].generator_id);
    }
}

/// An acquire whose answer was lost is asked again; it takes no second id, however small the pool.
pub fn asking_again_with_the_same_key_gives_the_same_lease(setup: &dyn Setup) {
    for ids in [1, 2, 8] {
        let bench = Bench::new(setup, ids);
        let key = RequestKey::random();
        let grant = bench.try_acquire(&key, START).unwrap();
        assert_eq!(bench.try_acquire(&key, START), Ok(grant.clone()));
        // A retry comes later, and with the time it comes at.
        assert_eq!(bench.try_acquire(&key, START + 3_000), Ok(grant.clone()));
        assert_eq!(bench.held(), 1);
        // It goes for the last id of the pool too.
        for _ in 1..ids {
            assert_ne!(bench.lease(START).generator_id, grant.generator_id);
        }
        assert_eq!(bench.try_acquire(&key, START + 3_000), Ok(grant));
        assert!(bench.try_acquire(&RequestKey::random(), START).is_err());
    }
}

/// A label is for people: two processes may carry the same one.
pub fn two_holders_with_one_label_get_two_ids(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let (mut a, mut b) = (bench.lease(START), bench.lease(START));
    assert_ne!(a.generator_id, b.generator_id);
    bench.renew(&mut a, START + 20_000);
    bench.renew(&mut b, START + 20_000);
}

/// A3: ids of two formats collide, so the grant itself checks.
pub fn another_format_is_refused(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let store = bench.format;
    let others = [
        Format::new(Layout::FLEET, store.tick_ms(), store.epoch_ms()),
        Format::new(store.layout(), 10, store.epoch_ms()),
        Format::new(store.layout(), store.tick_ms(), store.epoch_ms() + 1),
    ];
    for asked in others.map(Result::unwrap) {
        let mut ask = bench.ask(&RequestKey::random(), START);
        ask.format = asked;
        let refused = AcquireError::Format { store, asked };
        assert_eq!(bench.made.store.acquire(&ask), Err(refused));
    }
    assert_eq!(bench.held(), 0);
}

/// G7: a window that is empty or does not fit the time field is refused, never cut to something
/// else.
pub fn a_window_has_ticks_and_ends_in_the_time_field(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let end = bench.format.layout().max_tick() + 1;
    let windows = [(START, START), (START, START - 1), (end - 10, end + 1), (end, end + 1)];
    for (from, until) in windows {
        let mut ask = bench.ask(&RequestKey::random(), from);
        ask.until = Tick(until);
        let refused = AcquireError::Window { from: Tick(from), until: Tick(until) };
        assert_eq!(bench.made.store.acquire(&ask), Err(refused));
    }
    assert_eq!(bench.held(), 0);
    let last = bench.lease(end - WINDOW);
    assert_eq!(last.until, end);
}

/// Nothing outside the range is granted, renewed, released or drained.
pub fn ids_outside_the_range_are_refused(setup: &dyn Setup) {
    let bench = Bench::new(setup, 2);
    let token = Token::random();
    for generator_id in [0, FIRST - 1, FIRST + 2, 1024, u64::MAX >> 1] {
        let renew = Renew {
            generator_id,
            token: token.clone(),
            seq: 0,
            next: token.hash(),
            until: Tick(START),
            now_ms: bench.set_now(START),
        };
        assert_eq!(bench.made.store.renew(&renew), Err(RenewError::OutOfRange));
        let unused_from = Tick(START);
        let token = token.clone();
        let release = Release { generator_id, token, next: None, seq: 0, unused_from };
        assert_eq!(bench.made.store.release(&release), Err(ReleaseError::OutOfRange));
        let refused = bench.made.admin.drain(generator_id, true).unwrap_err();
        assert!(!refused.unknown && refused.detail.contains("range"), "{refused}");
    }
    assert_eq!(bench.made.admin.list().unwrap(), []);
}

/// A store of ten-second ticks counts in those, from its own epoch.
pub fn ticks_are_ticks_and_not_milliseconds(setup: &dyn Setup) {
    let layout = "t30g13s20".parse().unwrap();
    let format = Format::new(layout, 10_000, -1_000_000).unwrap();
    let made = setup.make(format, (8_000, 8_000));
    let bench = Bench { made, format, window: 6 };
    let start = 180_000_000;
    let mut lease = bench.lease(start);
    assert_eq!((lease.generator_id, lease.from, lease.until), (8_000, start, start + 6));
    bench.renew(&mut lease, start + 2);
    assert_eq!(lease.until, start + 8);
    assert!(bench.try_acquire(&RequestKey::random(), start + 7).is_err());
    assert_eq!(bench.lease(start + 8).generator_id, 8_000);
    let status = bench.made.admin.status().unwrap();
    assert_eq!(status.meta.format, format);
    assert_eq!(status.meta.longest_window, 6);
    assert_eq!(bench.entry(8_000).holder, Holder::new("web-0", "host-a", "1", "eu").unwrap());
}
