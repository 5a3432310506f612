//! The gate: opening, extending and closing the lease of a generator, for its keeper.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use super::Generator;
use super::word::{CLOSED, SWITCHING};
use crate::sync::{AtomicU64, Ordering};
use crate::{Tick, Window, WindowError};

/// The open lease. Written only while the word is closed; see `open`.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) generator_id: AtomicU64,
    pub(super) from: AtomicU64,
    pub(super) until: AtomicU64,
    /// Reading of the boot clock from which no call may return an id.
    pub(super) deadline_ns: AtomicU64,
}

impl Lease {
    pub(super) fn none() -> Lease {
        Lease {
            generator_id: AtomicU64::new(0),
            from: AtomicU64::new(0),
            until: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(0),
        }
    }
}

/// What opening and closing need to know; the lock also keeps them apart.
#[derive(Debug, Default)]
pub(super) struct Gate {
    window: Option<Window>,
    /// First tick unused by the leases closed so far, so that ids ascend across leases.
    ascend_from: Tick,
    /// For each generator id, a value above every one ever drawn from it here.
    highest: HashMap<u64, u64>,
    /// What the marker read before the lease was asked for.
    noted_marker: Option<u64>,
}

/// What a closed lease leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The generator id that was closed.
    pub generator_id: u64,
    /// The first tick of the window of which nothing was used: may be given back to the store.
    pub unused_from: Tick,
}

impl Generator {
    /// Gives the generator a lease, closing the one it has. For the keeper alone.
    ///
    /// `deadline_boot_ns` is the reading of the boot clock from which nothing may be issued.
    /// Returns what the former lease, if one was open, leaves behind. Callers see no gap: they get
    /// ids of one lease or of the other, and never smaller ones of the new (G2).
    ///
    /// The lease is good for as long as the [marker](crate::Clock::marker) reads what was
    /// [noted](Self::note_marker) before it was asked for, or, if nothing was, what it reads now.
    ///
    /// # Errors
    ///
    /// [`WindowError`]: the window does not fit the format; nothing has changed.
    pub fn open(
        &self,
        window: Window,
        deadline_boot_ns: u64,
    ) -> Result<Option<Closed>, WindowError> {
        window.check(self.format.layout())?;
        let mut gate = self.gate();
        let closed = self.shut(&mut gate, SWITCHING);
        self.reopen(&mut gate, window, deadline_boot_ns);
        Ok(closed)
    }

    /// Notes the [marker](crate::Clock::marker), before a lease is asked for: a machine that is
    /// restored from here on may have a copy that is given the same answer, and then no call is
    /// served under it.
    pub fn note_marker(&self) {
        let mut gate = self.gate();
        gate.noted_marker = Some(self.marker.read());
    }

    /// As [`open`](Self::open), for a clock that is seeded anew: `reseed` runs between the two
    /// leases, and ids ascend under the new one only. To be called with a generator id that is not
    /// the open one's, since a word never falls within its generator id.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); the clock was not touched then.
    pub fn open_reseeded(
        &self,
        window: Window,
        deadline_boot_ns: u64,
        reseed: impl FnOnce(),
    ) -> Result<Option<Closed>, WindowError> {
        window.check(self.format.layout())?;
        let mut gate = self.gate();
        let closed = self.shut(&mut gate, SWITCHING);
        // Callers look again until the word is open, so none sees the one clock with the other
        // lease.
        reseed();
        gate.ascend_from = Tick(0);
        self.reopen(&mut gate, window, deadline_boot_ns);
        Ok(closed)
    }

    fn reopen(&self, gate: &mut Gate, window: Window, deadline_boot_ns: u64) {
        // ORDERING: Release; a turn that reads one of these happens after the swap to SWITCHING
        // above, so its compare-exchange from a word of the former lease fails: it never
        // mixes two leases. Modelled by `loom_switch_*`.
        self.lease.generator_id.store(window.generator_id(), Ordering::Release);
        self.lease.from.store(window.from().0, Ordering::Release);
        self.lease.until.store(window.until().0, Ordering::Release);
        self.lease.deadline_ns.store(deadline_boot_ns, Ordering::Release);
        let marker = gate.noted_marker.take().unwrap_or_else(|| self.marker.read());
        self.page.set_marker(marker);
        let start = self.shape.window_start(window);
        let ascending = self.shape.start_from(start, gate.ascend_from);
        let unused = gate.highest.get(&window.generator_id()).copied().unwrap_or(0);
        gate.window = Some(window);
        // ORDERING: AcqRel; the Release half shows the lease to the Acquire load in `turn`.
        self.word.0.swap(start.max(ascending).max(unused), Ordering::AcqRel);
    }

    /// Moves the end of the open window to `until` and the deadline with it; neither ever falls.
    ///
    /// For the keeper alone, and only once the store has confirmed `until`.
    pub fn extend(&self, until: Tick, deadline_boot_ns: u64) {
        let mut gate = self.gate();
        let Some(open) = gate.window else { return };
        let until = until.min(Tick(self.format.layout().max_tick() + 1));
        let layout = self.format.layout();
        if until > open.until()
            && let Ok(longer) = Window::new(layout, open.generator_id(), open.from(), until)
        {
            gate.window = Some(longer);
        }
        // ORDERING: Release, to the Acquire loads in `turn`; a late reader only stops too early.
        self.lease.until.fetch_max(until.0, Ordering::Release);
        self.lease.deadline_ns.fetch_max(deadline_boot_ns, Ordering::Release);
    }

    /// Closes the gate: no call returns an id of the lease that it had not drawn before. `None` if
    /// no lease was open.
    pub fn close(&self) -> Option<Closed> {
        let mut gate = self.gate();
        self.shut(&mut gate, CLOSED)
    }

    /// Says that no lease will follow: callers are told to connect anew. For the keeper alone, once
    /// it has closed the gate for good.
    pub fn retire(&self) {
        // ORDERING: Relaxed; see `why_closed`.
        self.retired.store(true, Ordering::Relaxed);
    }

    fn shut(&self, gate: &mut Gate, to: u64) -> Option<Closed> {
        // ORDERING: AcqRel; every value drawn before is below `word`, every draw after sees CLOSED.
        // Modelled by `loom_close_*`.
        let word = self.word.0.swap(to, Ordering::AcqRel);
        self.page.park();
        let window = gate.window.take()?;
        // The word that was swapped out names the next free value: all reservations lie below it.
        let unused_from = if self.shape.generator_id(word) == window.generator_id() {
            self.shape.first_unused_tick(word).clamp(window.from(), window.until())
        } else {
            window.until() // carried past the last value of its generator id: see `look`
        };
        gate.ascend_from = gate.ascend_from.max(unused_from);
        let highest = gate.highest.entry(window.generator_id()).or_insert(0);
        *highest = word.saturating_add(1).max(*highest);
        Some(Closed { generator_id: window.generator_id(), unused_from })
    }

    /// The window of the open lease, as far as the store has confirmed it.
    pub fn window(&self) -> Option<Window> {
        self.gate().window
    }

    pub(super) fn gate(&self) -> MutexGuard<'_, Gate> {
        // A panic while the lock was held cannot leave the gate half written: see `open` and
        // `shut`.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
