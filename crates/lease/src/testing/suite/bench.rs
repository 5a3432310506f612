//! A store on the bench: asks in a few words, and what a holder remembers between them.

use snowlease_core::{Format, Tick};

use super::{Made, Setup};
use crate::{
    Acquire, AcquireError, Carries, Grant, Holder, LeaseEntry, Realm, Release, ReleaseError, Renew,
    RenewError, Renewal, RequestKey, Token,
};

/// Length of a window in ticks of [`Format::DEFAULT`]: that of the default terms.
pub(super) const WINDOW: u64 = 60_000;

/// A tick to begin with: eleven days after the epoch.
pub(super) const START: u64 = 1_000_000_000;

/// The first generator id of most checks; not 0, so that an offset that was forgotten shows.
pub(super) const FIRST: u64 = 5;

pub(super) struct Bench {
    pub(super) made: Made,
    pub(super) format: Format,
    pub(super) window: u64,
}

/// What a holder remembers of its lease.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) generator_id: u64,
    pub(super) token: Token,
    pub(super) seq: u64,
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Bench {
    /// A store with this many generator ids, from [`FIRST`].
    pub(super) fn new(setup: &dyn Setup, ids: u64) -> Bench {
        let format = Format::DEFAULT;
        let made = setup.make(format, (FIRST, FIRST + ids - 1));
        Bench { made, format, window: WINDOW }
    }

    /// Sets the store's clock, and answers what a holder's clock reads at that tick.
    pub(super) fn set_now(&self, tick: u64) -> i64 {
        let now_ms = self.format.unix_ms(Tick(tick));
        (self.made.set_now)(now_ms);
        now_ms
    }

    /// An ask for a window of the usual length.
    pub(super) fn ask(&self, key: &RequestKey, from: u64) -> Acquire {
        Acquire {
            request_key: key.clone(),
            from: Tick(from),
            until: Tick(from + self.window),
            format: self.format,
            realm: Realm::default(),
            holder: Holder::new("web-0", "host-a", "1", "eu").unwrap(),
            patience: std::time::Duration::ZERO,
            now_ms: self.set_now(from),
        }
    }

    pub(super) fn try_acquire(&self, key: &RequestKey, from: u64) -> Result<Grant, AcquireError> {
        self.made.store.acquire(&self.ask(key, from))
    }

    /// A lease from this tick, which has to be granted.
    pub(super) fn lease(&self, from: u64) -> Lease {
        let key = RequestKey::random();
        let grant = self.try_acquire(&key, from).expect("a generator id is free");
        Lease::new(&key, &grant)
    }

    /// What is asked to renew a lease and keep its token.
    pub(super) fn renewal(&self, lease: &Lease, now: u64) -> Renew {
        Renew {
            generator_id: lease.generator_id,
            token: lease.token.clone(),
            seq: lease.seq,
            next: lease.token.hash(),
            until: Tick(now + self.window),
            now_ms: self.set_now(now),
        }
    }

    /// Renews and keeps the token.
    pub(super) fn try_renew(&self, lease: &Lease, now: u64) -> Result<Renewal, RenewError> {
        self.made.store.renew(&self.renewal(lease, now))
    }

    /// Renews, which has to succeed.
    pub(super) fn renew(&self, lease: &mut Lease, now: u64) {
        let renewal = self.try_renew(lease, now).expect("the lease is renewed");
        assert_eq!(renewal.token, Carries::Next);
        lease.adopt(&renewal);
    }

    pub(super) fn giving_back(lease: &Lease, unused_from: u64) -> Release {
        Release {
            generator_id: lease.generator_id,
            token: lease.token.clone(),
            next: None,
            seq: lease.seq,
            unused_from: Tick(unused_from),
        }
    }

    pub(super) fn try_release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.made.store.release(ask)
    }

    /// Releases, which has to succeed: judged by its effect, since the answer to a release that was
    /// asked for twice is that there is nothing to release.
    pub(super) fn release(&self, ask: &Release) {
        let before = self.entry(ask.generator_id);
        match self.try_release(ask) {
            Ok(()) | Err(ReleaseError::NotYours { .. }) => {}
            Err(error) => panic!("not released: {error}"),
        }
        let after = self.entry(ask.generator_id);
        assert_eq!((after.until, after.held), (ask.unused_from, false));
        assert!(after.seq > before.seq, "a release is a change of the cell");
        assert_eq!(after.holder, Holder::nobody());
    }

    /// The cell of a generator id that was granted.
    pub(super) fn entry(&self, generator_id: u64) -> LeaseEntry {
        let entries = self.made.admin.list().unwrap();
        entries.into_iter().find(|entry| entry.generator_id == generator_id).expect("a known cell")
    }

    /// How many cells carry somebody's token.
    pub(super) fn held(&self) -> usize {
        self.made.admin.list().unwrap().iter().filter(|entry| entry.held).count()
    }
}

impl Lease {
    pub(super) fn new(key: &RequestKey, grant: &Grant) -> Lease {
        Lease {
            generator_id: grant.generator_id,
            token: key.token(),
            seq: grant.seq,
            from: grant.from.0,
            until: grant.until.0,
        }
    }

    /// Takes over what a renewal that kept the token has answered.
    pub(super) fn adopt(&mut self, renewal: &Renewal) {
        self.seq = renewal.seq;
        self.until = renewal.until.0;
    }
}
