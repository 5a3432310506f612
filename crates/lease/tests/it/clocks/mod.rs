//! Clocks that are set, frozen, fast, asleep or restored, under real machines, generators and id
//! clocks. Every id goes into one set.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod field;
mod scripts;
mod steps;

use std::collections::HashSet;
use std::sync::Arc;

use snowlease_core::{Format, Id, Refusal};
use snowlease_lease::machine::State;
use snowlease_lease::testing::{Guard, Host, MemoryStore, Referenced, ScriptedTime};
use snowlease_lease::{LeaseStore, Terms};

/// 2026-01-01T00:00:00Z.
pub(crate) const START_MS: i64 = 1_767_225_600_000;

/// A fleet's store, its clock, and all ids that were ever issued from it.
pub(crate) struct Fleet {
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) reference: ScriptedTime,
    pub(crate) store: Arc<Referenced<MemoryStore>>,
    seen: HashSet<Id>,
}

impl Fleet {
    pub(crate) fn new() -> Fleet {
        Fleet::of(Format::DEFAULT)
    }

    pub(crate) fn of(format: Format) -> Fleet {
        let memory = Arc::new(MemoryStore::new(format, (0, 63)).unwrap());
        let reference = ScriptedTime::at_ms(START_MS);
        let terms = Terms::DEFAULT;
        let store = Arc::new(Referenced::new(Arc::clone(&memory), reference.clone(), terms));
        Fleet { memory, reference, store, seen: HashSet::new() }
    }

    /// A holder whose store has a clock of its own.
    pub(crate) fn host(&self, time: &ScriptedTime) -> Host {
        let format = self.memory.status().unwrap().meta.format;
        Host::start(Arc::clone(&self.store) as Arc<_>, time, format, Terms::DEFAULT, Guard::Precise)
    }

    /// A holder whose store has none.
    pub(crate) fn alone(&self, time: &ScriptedTime) -> Host {
        let store = Arc::clone(&self.memory) as Arc<_>;
        let format = self.memory.status().unwrap().meta.format;
        Host::start(store, time, format, Terms::DEFAULT, Guard::Precise)
    }

    /// The wall clock of a holder and that of the store are set alike.
    pub(crate) fn set_all_ms(&self, time: &ScriptedTime, by_ms: i64) {
        time.set_wall_ms(by_ms);
        self.reference.set_wall_ms(by_ms);
    }

    /// A holder that has issued an id, and whose lease is lost since the store is away.
    pub(crate) fn lost_host(&mut self, time: &ScriptedTime) -> (Host, Id) {
        let mut host = self.host(time);
        let before = self.take(&host).unwrap();
        self.store.set_away(true);
        self.pass_ms(&mut host, 100_000);
        assert_eq!(host.state(), State::Lost);
        (host, before)
    }

    /// An id that nobody had before.
    #[track_caller]
    pub(crate) fn take(&mut self, host: &Host) -> Result<Id, Refusal> {
        let id = host.next_id()?;
        assert!(self.seen.insert(id), "{id:?} was issued twice");
        Ok(id)
    }

    /// Time passes for everybody, as it should.
    pub(crate) fn pass_ms(&self, host: &mut Host, ms: u64) {
        let mut left_ms = ms;
        while left_ms > 0 {
            let step_ms = left_ms.min(250);
            self.reference.pass_ms(step_ms);
            host.pass_ms(step_ms);
            left_ms -= step_ms;
        }
    }
}

pub(crate) fn time() -> ScriptedTime {
    ScriptedTime::at_ms(START_MS)
}

/// The wall time that an id tells, in Unix ms.
pub(crate) fn told_ms(id: Id) -> i64 {
    Format::DEFAULT.unix_ms(Format::DEFAULT.decode(id).tick)
}

pub(crate) fn generator_id(id: Id) -> u64 {
    Format::DEFAULT.decode(id).generator_id
}

/// How many cells carry somebody's token.
pub(crate) fn held(store: &MemoryStore) -> usize {
    store.list().unwrap().iter().filter(|lease| lease.held).count()
}
