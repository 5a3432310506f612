//! The generator: issues ids inside a leased window, from any number of threads, without a lock.
//!
//! One atomic word names the next free value; one published value names the first of the running
//! tick. A caller adds one to the word and compares: if what it drew lies within one tick of the
//! published value, then tick, sequence, window, gate and lease are all right at once, and the id
//! is composed. Anything else goes to the cold path, whose `turn` is the only place that moves
//! time. What holds:
//!
//! 1. a value is handed to one caller only, since every write of the word is a read-modify-write
//!    and a word never falls within its generator id;
//! 2. a tick is published only if `from <= tick < until` of the open lease, and `until` is raised
//!    only after the store has confirmed it;
//! 3. closing replaces the word, so what was drawn before lies below the tick given back, and what
//!    is drawn after is refused.
//!
//! With 1, 2 and 3, equal ids need one window, one lease and one value: a contradiction (G1).

mod cold;
mod counters;
#[cfg(all(test, feature = "loom"))]
mod models;
mod page;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
mod word;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::counters::Counters;
pub use self::page::ForkGuard;
use self::page::Page;
use self::word::{CLOSED, SWITCHING, Shape};
use crate::clock::read_counter;
use crate::sync::{AtomicU64, Ordering};
use crate::wait::Watch;
use crate::{Clock, Format, Gauge, Id, Refusal, Tick, Window, WindowError};

/// Issues ids for one leased generator id at a time. Not `Clone`: a lease has one generator.
///
/// # Promise
///
/// No two calls return the same id (G1); a call that begins after another returned gets a larger
/// one (G2); no id carries a tick outside the window (G4); a refusal is typed (G7).
///
/// # Cost
///
/// A single id: one counter reading, two loads and one wait-free addition. The first id of a tick
/// also reads the clock. Sustained limit: [`Layout::ids_per_tick`](crate::Layout::ids_per_tick) a
/// tick.
///
/// # Example
///
/// ```
/// # use snowlease_core::{clock::ScriptedClock, Format, Generator, Tick, Window};
/// let format = Format::DEFAULT;
/// let clock = ScriptedClock::at_ms(format.epoch_ms() + 1_000);
/// let generator = Generator::new(format, clock.clone());
/// generator.open(Window::new(format.layout(), 7, Tick(1_000), Tick(1_010))?, u64::MAX)?;
///
/// let id = generator.next_id()?;
/// let parts = format.decode(id);
/// assert_eq!((parts.tick, parts.generator_id, parts.sequence), (Tick(1_000), 7, 0));
///
/// clock.advance_ms(10); // `until` is the first tick that may not be used
/// assert_eq!(generator.next_id().unwrap_err().code(), "window-end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// G1 to G4 and G7 in `docs/guarantees.md`. Held by `generator/tests.rs` (unit and property tests)
/// and `generator/models.rs` (loom).
#[derive(Debug)]
pub struct Generator {
    word: Apart,
    page: Page,
    shape: Shape,
    span: Span,
    lease: Lease,
    clock: Arc<dyn Clock>,
    format: Format,
    max_wait: Duration,
    gate: Mutex<Gate>,
    watch: Watch,
    retired: AtomicBool,
    counters: Counters,
}

/// The word, kept away from the fields that are only read.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// How long a published tick holds, in the unit of the gauge.
#[derive(Clone, Copy, Debug)]
struct Span {
    by_counter: bool,
    length: u64,
    tick_ns: u64,
    /// Gauge units in a nanosecond, as a fixed-point number with 32 bits of fraction.
    per_ns: u128,
}

/// The open lease. Written only while the word is closed; see `open`.
#[derive(Debug)]
struct Lease {
    from: AtomicU64,
    until: AtomicU64,
    /// Reading of the boot clock from which no call may return an id.
    deadline_ns: AtomicU64,
}

/// What opening and closing need to know; the lock also keeps them apart.
#[derive(Debug, Default)]
struct Gate {
    window: Option<Window>,
    /// First tick unused by the leases closed so far, so that ids ascend across leases.
    ascend_from: Tick,
    /// For each generator id, a value above every one ever drawn from it here.
    highest: HashMap<u64, u64>,
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
    /// The largest batch of any format, a million ids; see [`batch_limit`](Self::batch_limit).
    pub const MAX_BATCH: usize = 1 << 20;

    /// How long a call waits for a free tick, unless [`with_max_wait`](Self::with_max_wait) says
    /// else.
    pub const DEFAULT_MAX_WAIT: Duration = Duration::from_millis(10);

    /// Makes a closed generator; [`open`](Self::open) gives it a lease.
    pub fn new(format: Format, clock: Arc<dyn Clock>) -> Generator {
        let span = Span::new(format, clock.gauge());
        Generator {
            word: Apart(AtomicU64::new(CLOSED)),
            page: Page::new(ForkGuard::NONE),
            shape: Shape::new(format.layout()),
            span,
            lease: Lease {
                from: AtomicU64::new(0),
                until: AtomicU64::new(0),
                deadline_ns: AtomicU64::new(0),
            },
            clock,
            format,
            max_wait: Generator::DEFAULT_MAX_WAIT,
            gate: Mutex::new(Gate::default()),
            watch: Watch::default(),
            retired: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Sets how long a call may wait for a free tick behind others.
    #[must_use]
    pub fn with_max_wait(mut self, max_wait: Duration) -> Generator {
        self.max_wait = max_wait;
        self
    }

    /// Has the kernel tell forked children apart.
    #[must_use]
    pub fn with_fork_guard(mut self, guard: ForkGuard) -> Generator {
        self.page = Page::new(guard);
        self
    }

    /// Whether a forked child would be noticed: not without a guard, nor on a kernel before 4.14.
    pub fn notices_forks(&self) -> bool {
        self.page.guarded()
    }

    /// Whether this process is a child that was forked after the generator was made. Takes no lock:
    /// one that another thread held at the fork is held for ever in the child.
    pub fn is_forked(&self) -> bool {
        self.page.forked()
    }

    /// The format of the ids it issues.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Issues one id; waits at most [`max_wait`](Self::with_max_wait) inside a full tick.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that says what to do; nothing is consumed that anyone was promised.
    #[inline]
    pub fn next_id(&self) -> Result<Id, Refusal> {
        match self.draw() {
            Draw::Id(id) => Ok(id),
            Draw::Cold(drawn) => self.next_cold(drawn, self.max_wait),
        }
    }

    /// Issues one id without ever waiting.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id), and [`Refusal::TickFull`] wherever that would have waited.
    #[inline]
    pub fn try_next_id(&self) -> Result<Id, Refusal> {
        match self.draw() {
            Draw::Id(id) => Ok(id),
            Draw::Cold(drawn) => self.next_cold(drawn, Duration::ZERO),
        }
    }

    /// Issues `n` ids, strictly ascending: exactly `n`, or a refusal.
    ///
    /// Waits for the ticks that `n` ids need, and at most [`max_wait`](Self::with_max_wait) behind
    /// other callers.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id), and [`Refusal::BatchSize`] if `n` is 0 or above
    /// [`batch_limit`](Self::batch_limit).
    pub fn next_ids(&self, n: usize) -> Result<Vec<Id>, Refusal> {
        self.check_batch(n)?;
        let mut ids = vec![Id::MIN; n];
        self.next_ids_into(&mut ids)?;
        Ok(ids)
    }

    /// Fills `ids` as [`next_ids`](Self::next_ids) would, without allocating. After a refusal the
    /// contents of `ids` are no ids to use.
    ///
    /// # Errors
    ///
    /// As [`next_ids`](Self::next_ids).
    pub fn next_ids_into(&self, ids: &mut [Id]) -> Result<(), Refusal> {
        self.check_batch(ids.len())?;
        self.fill(ids)
    }

    /// The hot path.
    #[inline(always)]
    fn draw(&self) -> Draw {
        if self.gauge().wrapping_sub(self.page.since()) >= self.span.length {
            return Draw::Cold(None);
        }
        let tick_start = self.page.published();
        if tick_start == 0 {
            return Draw::Cold(None);
        }
        // ORDERING: Relaxed; the word's own modification order alone makes values unique (1) and
        // ascending for calls that happen one after the other. What the value may be used for is
        // decided by the comparison, against a tick that was acquired. Modelled by `loom_issue_*`.
        let value = self.word.0.fetch_add(1, Ordering::Relaxed);
        let offset = value.wrapping_sub(tick_start);
        if offset < self.shape.last {
            return Draw::Id(self.shape.compose(value));
        }
        // Whoever draws the last value of a tick sends the others away, so that they draw no gaps.
        self.page.park_if(tick_start);
        if offset == self.shape.last {
            return Draw::Id(self.shape.compose(value));
        }
        Draw::Cold((value & CLOSED == 0).then_some(value))
    }

    /// One reading of the gauge.
    #[inline(always)]
    fn gauge(&self) -> u64 {
        if self.span.by_counter
            && let Some(count) = read_counter()
        {
            return count;
        }
        self.clock.read_gauge()
    }

    /// Gives the generator a lease, closing the one it has. For the keeper alone.
    ///
    /// `deadline_boot_ns` is the reading of the boot clock from which nothing may be issued.
    /// Returns what the former lease, if one was open, leaves behind. Callers see no gap: they get
    /// ids of one lease or of the other, and never smaller ones of the new (G2).
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
        self.lease.from.store(window.from().0, Ordering::Release);
        self.lease.until.store(window.until().0, Ordering::Release);
        self.lease.deadline_ns.store(deadline_boot_ns, Ordering::Release);
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
        let unused_from = self.shape.first_unused_tick(word).clamp(window.from(), window.until());
        gate.ascend_from = gate.ascend_from.max(unused_from);
        let highest = gate.highest.entry(window.generator_id()).or_insert(0);
        *highest = word.saturating_add(1).max(*highest);
        Some(Closed { generator_id: window.generator_id(), unused_from })
    }

    /// The window of the open lease, as far as the store has confirmed it.
    pub fn window(&self) -> Option<Window> {
        self.gate().window
    }

    /// How often calls were refused, in the order of [`Refusal::CODES`].
    pub fn refusals(&self) -> [u64; Refusal::CODES.len()] {
        self.counters.refusals()
    }

    /// How often a call waited for a tick.
    pub fn waits(&self) -> u64 {
        self.counters.waits()
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        // A panic while the lock was held cannot leave the gate half written: see `open` and
        // `shut`.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the hot path found.
enum Draw {
    Id(Id),
    /// Not on this path; with the value that was drawn from an open word, if one was.
    Cold(Option<u64>),
}

impl Span {
    /// A span is no longer than this, so that an error of the counter's rate stays small.
    const LONGEST_NS: u64 = 1_000_000_000;

    fn new(format: Format, gauge: Gauge) -> Span {
        let tick_ns = u64::from(format.tick_ms()) * 1_000_000;
        let (by_counter, per_ns) = match gauge {
            Gauge::Counter { hz } if read_counter().is_some() => {
                (true, (u128::from(hz) << 32) / 1_000_000_000)
            }
            Gauge::Counter { .. } => (false, 1u128 << 32),
            Gauge::Clock { hz } => (false, (u128::from(hz) << 32) / 1_000_000_000),
        };
        let mut span = Span { by_counter, length: 0, tick_ns, per_ns };
        span.length = span.gauge_units(tick_ns.min(Span::LONGEST_NS));
        span
    }

    fn gauge_units(&self, ns: u64) -> u64 {
        u64::try_from((u128::from(ns) * self.per_ns) >> 32).unwrap_or(u64::MAX)
    }

    /// The reading since which a tick counts as published, so that it ends when the tick does, the
    /// deadline passes or the longest span is over, whichever is first. `gauge_now` was read before
    /// the clock said that `left_ns` are left of tick and deadline.
    fn since(&self, gauge_now: u64, left_ns: u64) -> u64 {
        let left = self.gauge_units(left_ns).min(self.length);
        gauge_now.wrapping_add(left).wrapping_sub(self.length)
    }
}
