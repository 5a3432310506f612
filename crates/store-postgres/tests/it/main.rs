//! The store over real servers, used as another package would, and through what happens to servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod conformance;
mod crowds;
mod encryption;
mod faults;
mod isolation;
mod locks;
mod quarantine;
mod rollback;
mod speed;
mod standby;
mod tables;

use std::time::Duration;

use snowlease_core::{Format, Tick};
use snowlease_lease::{Acquire, Grant, Holder, LeaseStore, Realm, Renew, Renewal, RequestKey, os};
use snowlease_store_postgres::testing::{Kind, Server};
use snowlease_store_postgres::{Address, Init, Initialised, Open, Opened, PostgresStore};

const WINDOW_MS: i64 = 60_000;

/// A server with a store of these many generator ids.
fn server(kind: Kind, ids: u64) -> Server {
    let server = Server::start(kind);
    init(&server.url(), ids);
    server
}

fn init(url: &str, ids: u64) {
    let init = Init { format: format(), range: Some((0, ids - 1)), ..Init::default() };
    assert_eq!(PostgresStore::init(&address(url), &init), Ok(Initialised::Made));
}

/// One with room for many generator ids.
fn format() -> Format {
    Format::new("t41g18s4".parse().unwrap(), 1, Format::DEFAULT.epoch_ms()).unwrap()
}

/// How many generator ids somebody has.
fn held(server: &Server) -> u64 {
    let count = server.ask("ids", "SELECT count(*) FROM snowlease.cells WHERE token IS NOT NULL");
    count.parse().unwrap()
}

fn address(url: &str) -> Address {
    url.parse().unwrap()
}

fn open(url: &str) -> PostgresStore {
    open_as(url, &Open::default()).0
}

fn open_as(url: &str, how: &Open) -> (PostgresStore, Opened) {
    PostgresStore::open(&address(url), how).unwrap()
}

/// A store whose calls may take as long.
fn within(attempt: Duration) -> Open {
    Open { attempt, ..Open::default() }
}

/// What a holder asks whose clock is ahead by so much.
fn ask_ahead(store: &PostgresStore, key: &RequestKey, ahead_ms: i64) -> Acquire {
    let format = store.status().unwrap().meta.format;
    ask_of(format, key, os::wall_ms() + ahead_ms)
}

/// What a holder asks now of a store made by [`init`].
fn ask_now(key: &RequestKey) -> Acquire {
    ask_of(format(), key, os::wall_ms())
}

fn ask_of(format: Format, key: &RequestKey, now_ms: i64) -> Acquire {
    Acquire {
        request_key: key.clone(),
        from: format.tick_at_ms(now_ms).unwrap(),
        until: format.first_tick_from_ms(now_ms + WINDOW_MS),
        format,
        realm: Realm::default(),
        holder: Holder::new("web-0", "host", "1", "eu").unwrap(),
        patience: Duration::ZERO,
        now_ms,
    }
}

/// What a holder remembers of its lease.
#[derive(Clone, Debug)]
struct Lease {
    format: Format,
    key: RequestKey,
    grant: Grant,
}

fn lease(store: &PostgresStore) -> Lease {
    let key = RequestKey::random();
    let ask = ask_ahead(store, &key, 0);
    Lease { format: ask.format, grant: store.acquire(&ask).unwrap(), key }
}

impl Lease {
    /// What is asked to renew it by a clock that is ahead by so much.
    fn renewal(&self, ahead_ms: i64) -> Renew {
        let now_ms = os::wall_ms() + ahead_ms;
        Renew {
            generator_id: self.grant.generator_id,
            token: self.key.token(),
            seq: self.grant.seq,
            next: self.key.token().hash(),
            until: self.format.first_tick_from_ms(now_ms + WINDOW_MS),
            now_ms,
        }
    }

    fn adopt(&mut self, renewal: &Renewal) {
        (self.grant.seq, self.grant.until) = (renewal.seq, renewal.until);
    }
}
