//! The store in memory: the reference every other store is compared with.
//!
//! For tests, and for applications that want ids unique within one process only: its leases end
//! with it. One mutex makes each decision of [`rules`] one atomic step. Cells are kept as bytes, so
//! that what it does is what a store on disk does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use snowlease_core::{Format, Tick};

use crate::range::{RangeError, check_range};
use crate::rules::{self, Decision};
use crate::{
    Acquire, AcquireError, Administer, Cell, Finding, Grant, LeaseEntry, LeaseStore, Meta, Mode,
    Outage, PlanHash, Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus, Verified,
    cell, verify,
};

/// A [`LeaseStore`] that forgets everything when it is dropped.
///
/// # Promise
///
/// Nothing of the kind "survives loss of power", and all else that the trait asks for. No call
/// waits for anything but the mutex, and none ever reports an outage.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
}

/// All that a [`MemoryStore`] knew at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot(State);

#[derive(Clone, Debug)]
struct State {
    meta: Meta,
    /// One encoded cell per generator id, from the first of the range.
    cells: Vec<Vec<u8>>,
    pulse_ms: i64,
}

impl MemoryStore {
    /// A store of this format that grants the generator ids from `range.0` to `range.1`.
    ///
    /// # Errors
    ///
    /// [`RangeError`]: give a range that fits the layout and one store.
    pub fn new(format: Format, range: (u64, u64)) -> Result<MemoryStore, RangeError> {
        MemoryStore::of(Meta::new(format, range))
    }

    /// A store that is for this.
    ///
    /// # Errors
    ///
    /// [`RangeError`]: give a range that fits the layout and one store.
    pub fn of(meta: Meta) -> Result<MemoryStore, RangeError> {
        let ids = check_range(meta.format, meta.range)?;
        let vacant = Cell::vacant(meta.format.fingerprint()).encode();
        let cells = (0..ids).map(|_| vacant.clone()).collect();
        Ok(MemoryStore { state: Mutex::new(State { meta, cells, pulse_ms: 0 }) })
    }

    /// What the store knows now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().clone())
    }

    /// Puts an earlier state back, as restoring a backup does. Windows granted since are forgotten:
    /// only a quarantine keeps them from being granted twice.
    pub fn restore(&self, snapshot: &Snapshot) {
        *self.lock() = snapshot.0.clone();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is a single assignment after all that could fail, so no state is half
        // changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Where the cell of this generator id is; `None` if it is not of the range.
    fn index(&self, generator_id: u64) -> Option<usize> {
        let index = usize::try_from(generator_id.checked_sub(self.meta.range.0)?).ok()?;
        (index < self.cells.len()).then_some(index)
    }

    /// The cells with their generator ids, as bytes.
    fn numbered(&self) -> impl Iterator<Item = (u64, &Vec<u8>)> {
        (self.meta.range.0..).zip(&self.cells)
    }

    /// The cell to try: the one that carries the key's token, or else the one free for longest.
    fn candidate(&self, ask: &Acquire) -> Option<(u64, &Vec<u8>)> {
        let token = ask.request_key.token().hash();
        let mine = |bytes: &[u8]| bytes.get(cell::TOKEN_BYTES) == Some(token.as_bytes().as_slice());
        let bound = cell::free_bound(ask.from);
        self.numbered().find(|(_, bytes)| mine(bytes)).or_else(|| {
            let free = self.numbered().filter(|(_, bytes)| bytes.as_slice() < bound.as_slice());
            free.min_by_key(|(_, bytes)| *bytes)
        })
    }

    fn quarantine(&mut self, at_least: Tick) -> Result<Tick, Outage> {
        let mut largest = Tick(0);
        for bytes in &self.cells {
            let cell = Cell::decode(bytes)?;
            if !cell.draining {
                largest = largest.max(cell.until);
            }
        }
        self.meta.floor = rules::quarantine(&self.meta, at_least, largest);
        Ok(self.meta.floor)
    }

    fn exhausted(&self) -> Result<AcquireError, Outage> {
        let mut earliest: Option<Tick> = None;
        for bytes in &self.cells {
            let cell = Cell::decode(bytes)?;
            if !cell.draining {
                earliest = Some(earliest.map_or(cell.until, |tick| tick.min(cell.until)));
            }
        }
        let total = u64::try_from(self.cells.len()).unwrap_or(u64::MAX);
        Ok(AcquireError::Exhausted { total, earliest })
    }
}

impl LeaseStore for MemoryStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        let state = self.lock();
        let meta = state.meta.clone();
        let pulse_ms = Some(state.pulse_ms);
        Ok(StoreStatus { kind: "memory".to_owned(), meta, pulse_ms, alarms: Vec::new() })
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        let mut state = self.lock();
        rules::admit(&state.meta, ask)?;
        let Some((generator_id, bytes)) = state.candidate(ask) else {
            return Err(state.exhausted()?);
        };
        let cell = Cell::decode(bytes).map_err(Outage::from)?;
        match rules::acquire(&state.meta, generator_id, &cell, ask) {
            Some(Decision::Keep(grant)) => Ok(grant),
            Some(Decision::Put(cell, grant)) => {
                state.meta.longest_window =
                    rules::longest_window(&state.meta, grant.from, grant.until);
                state.pulse_ms = ask.now_ms;
                if let Some(index) = state.index(generator_id) {
                    state.cells[index] = cell.encode();
                }
                Ok(grant)
            }
            None => Err(state.exhausted()?),
        }
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        let mut state = self.lock();
        let index = state.index(ask.generator_id).ok_or(RenewError::OutOfRange)?;
        let cell = Cell::decode(&state.cells[index]).map_err(Outage::from)?;
        match rules::renew(&state.meta, &cell, ask) {
            Err(RenewError::RolledBack { floor }) => {
                let floor = state.quarantine(floor)?;
                Err(RenewError::RolledBack { floor })
            }
            Err(error) => Err(error),
            Ok(Decision::Keep(renewal)) => Ok(renewal),
            Ok(Decision::Put(renewed, renewal)) => {
                state.pulse_ms = ask.now_ms;
                let now = rules::renewed_at(&state.meta, &cell, ask.now_ms);
                state.meta.longest_window = rules::longest_window(&state.meta, now, renewed.until);
                state.cells[index] = renewed.encode();
                Ok(renewal)
            }
        }
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        let mut state = self.lock();
        let index = state.index(ask.generator_id).ok_or(ReleaseError::OutOfRange)?;
        let cell = Cell::decode(&state.cells[index]).map_err(Outage::from)?;
        state.cells[index] = rules::release(&cell, ask)?.encode();
        Ok(())
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        let state = self.lock();
        let mut entries = Vec::new();
        for (generator_id, bytes) in state.numbered() {
            let cell = Cell::decode(bytes)?;
            if cell.seq > 0 {
                entries.push(rules::entry(generator_id, cell));
            }
        }
        Ok(entries)
    }
}

impl Administer for MemoryStore {
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage> {
        let mut state = self.lock();
        let index = state
            .index(generator_id)
            .ok_or_else(|| rules::out_of_range(&state.meta, generator_id))?;
        if let Some(cell) = rules::drain(&Cell::decode(&state.cells[index])?, draining) {
            state.cells[index] = cell.encode();
        }
        Ok(())
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Outage> {
        self.lock().meta.mode = mode;
        Ok(())
    }

    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage> {
        self.lock().quarantine(at_least)
    }

    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage> {
        let mut state = self.lock();
        state.meta = rules::adopt_plan(&state.meta, plan);
        Ok(())
    }

    fn verify(&self) -> Result<Verified, Outage> {
        let state = self.lock();
        let history = "a store in memory keeps no history".to_owned();
        let mut verified = Verified { history, ..Verified::default() };
        for (generator_id, bytes) in state.numbered() {
            verified.cells += 1;
            match Cell::decode(bytes) {
                Ok(cell) => {
                    let wrong = verify::cell(&state.meta, &cell);
                    let finding = |what| Finding::of_cell(generator_id, what);
                    verified.findings.extend(wrong.into_iter().map(finding));
                }
                Err(error) => {
                    verified.findings.push(Finding::of_cell(generator_id, error.to_string()));
                }
            }
        }
        Ok(verified)
    }
}
