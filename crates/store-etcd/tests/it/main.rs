//! The store in etcd, used as another package would, on real clusters that are abused as networks,
//! disks and operators do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod batches;
mod conformance;
mod damaged;
mod keys;
mod members;
mod network;
mod request_keys;
mod rollback;
mod secure;
mod slow;
mod verify;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use snowlease_core::{Format, Tick};
use snowlease_lease::{
    Acquire, AcquireError, Carries, Grant, Holder, LeaseStore, Outage, Realm, Renew, RenewError,
    Renewal, RequestKey, os,
};
use snowlease_store_etcd::testing::{Cluster, Options};
use snowlease_store_etcd::{Address, Clock, EtcdStore, Open, OpenError};

const START: u64 = 1_000_000_000;
const WINDOW: u64 = 60_000;

/// A clock that stands still unless it is set.
#[derive(Clone)]
struct Time(Arc<AtomicI64>);

impl Time {
    fn at(tick: u64) -> Time {
        let time = Time(Arc::default());
        time.set(tick);
        time
    }

    fn set(&self, tick: u64) {
        self.0.store(Format::DEFAULT.unix_ms(Tick(tick)), Ordering::SeqCst);
    }

    /// How to open a store of eight generator ids by this clock.
    fn how(&self) -> Open {
        let now = Arc::clone(&self.0);
        Open {
            range: Some((0, 7)),
            create: true,
            now: Clock::new(move || now.load(Ordering::SeqCst)),
            ..Open::default()
        }
    }
}

fn open(address: &Address, how: &Open) -> EtcdStore {
    EtcdStore::open(address, how).unwrap().0
}

fn refused(address: &Address, how: &Open) -> OpenError {
    match EtcdStore::open(address, how) {
        Ok(_) => panic!("{address} was opened"),
        Err(error) => error,
    }
}

fn ask(key: &RequestKey, from: u64) -> Acquire {
    Acquire {
        request_key: key.clone(),
        from: Tick(from),
        until: Tick(from + WINDOW),
        format: Format::DEFAULT,
        realm: Realm::default(),
        holder: Holder::new("web-0", "host", "1", "eu").unwrap(),
        patience: Duration::ZERO,
        now_ms: Format::DEFAULT.unix_ms(Tick(from)),
    }
}

/// A lease on some generator id from this tick.
fn lease(store: &EtcdStore, from: u64) -> (RequestKey, Grant) {
    let key = RequestKey::random();
    let grant = store.acquire(&ask(&key, from)).unwrap();
    (key, grant)
}

fn renewal(key: &RequestKey, grant: &Grant, now: u64) -> Renew {
    Renew {
        generator_id: grant.generator_id,
        token: key.token(),
        seq: grant.seq,
        next: key.token().hash(),
        until: Tick(now + WINDOW),
        now_ms: Format::DEFAULT.unix_ms(Tick(now)),
    }
}

fn renew(store: &EtcdStore, key: &RequestKey, grant: &mut Grant, now: u64) -> Renewal {
    let renewal = store.renew(&renewal(key, grant, now)).unwrap();
    assert_eq!(renewal.token, Carries::Next);
    (grant.seq, grant.until) = (renewal.seq, renewal.until);
    renewal
}

fn outage(refused: Result<Grant, AcquireError>) -> Outage {
    match refused {
        Err(AcquireError::Outage(outage)) => outage,
        other => panic!("{other:?}"),
    }
}

/// Does this, and answers for how long that took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = os::boot_ns();
    let answer = work();
    (answer, Duration::from_nanos(os::boot_ns() - begun))
}
