//! The embedded store, used as another package would, and abused as disks and operators do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod conformance;
mod disk;
mod files;
mod kill;
mod marks;
mod parts;
mod rollback;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use snowlease_core::{Format, Tick};
use snowlease_lease::{Acquire, Grant, Holder, LeaseStore, Realm, Renew, Renewal, RequestKey};
use snowlease_store_sqlite::{Clock, Open, OpenError, Opened, SqliteStore};

const START: u64 = 1_000_000_000;
const WINDOW: u64 = 60_000;

/// A folder with a store in it, and a clock that stands still unless it is set.
struct Place {
    folder: tempfile::TempDir,
    now_ms: Arc<AtomicI64>,
}

impl Place {
    fn new() -> Place {
        let now_ms = Arc::new(AtomicI64::new(Format::DEFAULT.unix_ms(Tick(START))));
        Place { folder: tempfile::tempdir().unwrap(), now_ms }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("snowlease.db")
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.folder.path().join(format!("snowlease.db{ending}"))
    }

    fn set_now(&self, tick: u64) {
        self.now_ms.store(Format::DEFAULT.unix_ms(Tick(tick)), Ordering::SeqCst);
    }

    /// How to open it: eight generator ids, made if missing, by our clock.
    fn how(&self) -> Open {
        let now_ms = Arc::clone(&self.now_ms);
        Open {
            range: Some((0, 7)),
            create: true,
            attempt: Duration::from_secs(60),
            label: "tests".to_owned(),
            now: Clock::new(move || now_ms.load(Ordering::SeqCst)),
            ..Open::default()
        }
    }

    fn open(&self) -> (SqliteStore, Opened) {
        SqliteStore::open(&self.path(), &self.how()).unwrap()
    }

    fn refused(&self, how: &Open) -> OpenError {
        refused(&self.path(), how)
    }
}

fn refused(path: &Path, how: &Open) -> OpenError {
    match SqliteStore::open(path, how) {
        Ok(_) => panic!("{} was opened", path.display()),
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
fn lease(store: &SqliteStore, from: u64) -> (RequestKey, Grant) {
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

fn renew(store: &SqliteStore, key: &RequestKey, grant: &mut Grant, now: u64) -> Renewal {
    let renewal = store.renew(&renewal(key, grant, now)).unwrap();
    (grant.seq, grant.until) = (renewal.seq, renewal.until);
    renewal
}
