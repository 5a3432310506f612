//! Stores, holders and waiting, in a few words.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails as its test does")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use snowlease_core::{Format, Generator, Id, Refusal, Tick};
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{Acquire, Holder, IdClock, Keeper, LeaseStore, Realm, RequestKey, Terms, os};

/// The window of asks that are made by hand, in ticks.
pub(crate) const WINDOW: u64 = 60_000;

/// A tick to begin at.
pub(crate) const START: u64 = 90_000_000_000;

/// Windows of a second, so that no test waits long for one to end.
pub(crate) fn short() -> Terms {
    Terms::new(Duration::from_millis(1_000), Duration::from_millis(300)).unwrap()
}

/// A store of the generator ids from 0 to `last`.
pub(crate) fn memory(last: u64) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Format::DEFAULT, (0, last)).unwrap())
}

/// A holder on these terms, by the clocks of this host.
pub(crate) fn keep(store: Arc<dyn LeaseStore>, terms: Terms) -> Keeper {
    let clock = IdClock::start();
    let generator = Arc::new(Generator::new(Format::DEFAULT, Arc::clone(&clock) as Arc<_>));
    Keeper::start(store, generator, clock, terms, holder(), Realm::default()).unwrap()
}

/// The label of every container of one image: one name, one host name, one process id.
pub(crate) fn holder() -> Holder {
    Holder::new("web", "localhost", "1", "").unwrap()
}

/// Asks for one window from this tick.
pub(crate) fn ask(from: u64) -> Acquire {
    Acquire {
        request_key: RequestKey::random(),
        from: Tick(from),
        until: Tick(from + WINDOW),
        format: Format::DEFAULT,
        realm: Realm::default(),
        holder: holder(),
        patience: Duration::ZERO,
        now_ms: Format::DEFAULT.unix_ms(Tick(from)),
    }
}

/// Waits until ids can be issued, and tells under which generator id.
pub(crate) fn ready(keeper: &Keeper) -> u64 {
    keeper.wait_ready(Duration::from_secs(10)).unwrap();
    keeper.status().window.unwrap().generator_id()
}

/// Exactly `n` ids, however long a busy machine takes for a tick.
pub(crate) fn draw(keeper: &Keeper, n: usize) -> Vec<Id> {
    loop {
        match keeper.generator().next_ids(n) {
            Err(Refusal::TickFull { .. }) => {}
            answer => break answer.unwrap(),
        }
    }
}

pub(crate) fn tick(id: Id) -> Tick {
    Format::DEFAULT.decode(id).tick
}

/// Calls `work` about once a millisecond for this long.
pub(crate) fn pass(ms: u64, mut work: impl FnMut()) {
    let until_ns = os::boot_ns() + ms * 1_000_000;
    while os::boot_ns() < until_ns {
        work();
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Looks every few milliseconds, for at most ten seconds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if condition() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{what} did not come about");
}
