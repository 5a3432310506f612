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
//! With 1, 2 and 3, equal ids need one window, one lease and one value: a contradiction (G1). Words
//! only rise, and so do ids (G2).
//!
//! None of this asks whether the published tick is still running. That is the guard's part, for the
//! tick of an id (G3) and the end of a lease by real time (G4): a *precise* call reads a gauge and
//! compares it with where the tick holds; under the *ticking* guard a thread publishes each tick
//! and clears it, and calls read no clock. A guard that fails, a counter that stops or a thread
//! that sleeps, costs one sequence of late ids for each tick that was published, and no duplicate.

mod asking;
mod cold;
mod counters;
mod gate;
mod local;
mod marker;
mod mode;
#[cfg(all(test, feature = "loom"))]
mod models;
mod page;
mod span;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
mod ticking;
mod word;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use self::asking::{Asked, Asking};
use self::counters::Counters;
pub use self::gate::Closed;
use self::gate::{Gate, Lease};
pub use self::local::Local;
use self::marker::Marker;
use self::mode::{GUARDED, Kind, MARKED, TICKING};
pub use self::page::ForkGuard;
use self::page::{Fields, Page};
use self::span::Span;
pub use self::ticking::Ticked;
use self::ticking::Ticking;
use self::word::{CLOSED, Shape};
use crate::clock::read_counter;
use crate::sync::{AtomicU64, Ordering};
use crate::wait::Watch;
use crate::{Clock, Format, Id, Refusal};

/// Issues ids for one leased generator id at a time. Not `Clone`: a lease has one generator.
///
/// # Promise
///
/// No two calls return the same id (G1); a call that begins after another returned gets a larger
/// one (G2); no id carries a tick outside the window, and no call that begins after the deadline
/// returns one (G4; under a ticker, but for [its latency](Generator::with_ticker)); a refusal is
/// typed (G7).
///
/// # Cost
///
/// A single id: one counter reading, or none under a ticker, one line of memory that is written
/// once a tick, and one wait-free addition. The first id of a tick also reads the clock. Sustained
/// limit: [`Layout::ids_per_tick`](crate::Layout::ids_per_tick) a tick.
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
#[repr(C)] // what the hot path reads comes first, after the word
pub struct Generator {
    word: Apart,
    page: Page,
    shape: Shape,
    max_wait: Duration,
    clock: Arc<dyn Clock>,
    marker: Marker,
    ticking: Option<Ticking>,
    span: Span,
    lease: Lease,
    format: Format,
    gate: Mutex<Gate>,
    watch: Watch,
    retired: AtomicBool,
    counters: Counters,
}

/// The word, kept away from the fields that are only read.
#[derive(Debug)]
#[repr(align(128))]
struct Apart(AtomicU64);

impl Generator {
    /// The largest batch of any format, a million ids; see [`batch_limit`](Self::batch_limit).
    pub const MAX_BATCH: usize = 1 << 20;

    /// How long a call waits for a free tick, unless [`with_max_wait`](Self::with_max_wait) says
    /// else.
    pub const DEFAULT_MAX_WAIT: Duration = Duration::from_millis(10);

    /// Makes a closed generator; [`open`](Self::open) gives it a lease.
    ///
    /// Its guard is *precise*: every call reads the clock's gauge, so that the first id after a
    /// pause is already right. [`with_ticker`](Self::with_ticker) makes it a *ticking* one.
    pub fn new(format: Format, clock: Arc<dyn Clock>) -> Generator {
        let marker = Marker(clock.marker());
        let generator = Generator {
            word: Apart(AtomicU64::new(CLOSED)),
            page: Page::new(marker.read()),
            shape: Shape::new(format.layout()),
            max_wait: Generator::DEFAULT_MAX_WAIT,
            clock,
            marker,
            ticking: None,
            span: Span::new(format),
            lease: Lease::none(),
            format,
            gate: Mutex::new(Gate::default()),
            watch: Watch::default(),
            retired: AtomicBool::new(false),
            counters: Counters::default(),
        };
        generator.take_gauge();
        generator
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
        self.page.protect(guard);
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
    #[inline(always)]
    pub fn next_id(&self) -> Result<Id, Refusal> {
        match self.draw() {
            Draw::Id(id) => Ok(id),
            Draw::Cold(drawn) => self.next_cold(drawn, self.max_wait),
            Draw::Guarded(mode) => self.next_guarded(mode, self.max_wait),
        }
    }

    /// Issues one id without ever waiting.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Self::next_id), and [`Refusal::TickFull`] wherever that would have waited.
    #[inline(always)]
    pub fn try_next_id(&self) -> Result<Id, Refusal> {
        match self.draw() {
            Draw::Id(id) => Ok(id),
            Draw::Cold(drawn) => self.next_cold(drawn, Duration::ZERO),
            Draw::Guarded(mode) => self.next_guarded(mode, Duration::ZERO),
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
        if let Some(value) = self.draw_run(ids.len() as u64) {
            self.write_run(value, ids);
            return Ok(());
        }
        self.fill(&mut self.asking(ids.len()), ids)
    }

    /// Asks the clock anew for its gauge, and sends every call to the cold path once. For the
    /// keeper, when the kernel may have begun or ceased to trust the counter. A ticking generator
    /// reads no gauge, and only takes note.
    pub fn refresh_gauge(&self) {
        // Two at once would leave the mode of one with the length of the other.
        let _gate = self.gate();
        self.take_gauge();
        self.page.park();
    }

    fn take_gauge(&self) {
        let (kind, hz) = mode::kind_and_hz(self.clock.gauge());
        let ticking = if self.ticking.is_some() { TICKING } else { 0 };
        let marked = if self.marker.0.is_some() { MARKED } else { 0 };
        let length = self.span.set_rate(kind, hz);
        self.page.set_mode(kind.bit() | ticking | marked, kind, length);
    }

    /// Whether the machine was restored from a snapshot, or moved, since the lease was opened;
    /// never where nothing keeps a marker. Calls are refused with [`Refusal::Restored`] then,
    /// until the keeper opens another lease. Cost: two loads.
    pub fn is_restored(&self) -> bool {
        self.marker.differs(self.page.marker())
    }

    /// The hot path.
    #[inline(always)]
    fn draw(&self) -> Draw {
        let page: &Fields = &self.page;
        let mode = page.mode();
        if mode & GUARDED != 0 {
            return Draw::Guarded(mode);
        }
        self.draw_under(page, mode & TICKING)
    }

    /// The hot path under the guards that call something or look twice, apart from the others, so
    /// that those save no registers for it.
    #[inline(never)]
    fn next_guarded(&self, mode: u64, max_wait: Duration) -> Result<Id, Refusal> {
        match self.draw_under(&self.page, mode) {
            Draw::Id(id) => Ok(id),
            Draw::Cold(drawn) => self.next_cold(drawn, max_wait),
            Draw::Guarded(_) => self.next_cold(None, max_wait),
        }
    }

    #[inline(always)]
    fn draw_under(&self, page: &Fields, mode: u64) -> Draw {
        let marker = if mode & MARKED == 0 { 0 } else { page.marker() };
        let Some(tick_start) = self.running(page, mode) else { return Draw::Cold(None) };
        // ORDERING: Relaxed; the word's own modification order alone makes values unique (1) and
        // ascending for calls that happen one after the other. What the value may be used for is
        // decided by the comparison, against a tick that was acquired. Modelled by `loom_issue_*`.
        let value = self.word.0.fetch_add(1, Ordering::Relaxed);
        let offset = value.wrapping_sub(tick_start);
        if offset >= self.shape.last {
            // Whoever draws the last value of a tick sends the others away, so that they draw no
            // gaps.
            page.park_if(tick_start);
            if offset > self.shape.last {
                return Draw::Cold((value & CLOSED == 0).then_some(value));
            }
        }
        if mode & MARKED != 0 && self.marker.differs(marker) {
            return Draw::Cold(None);
        }
        Draw::Id(self.shape.compose(value))
    }

    /// The hot path of a batch: `n` values, all of the running tick, or nothing. Drawn by an
    /// exchange, so that no more is taken than the tick has; if another call comes between, the
    /// cold path serves it.
    #[inline]
    fn draw_run(&self, n: u64) -> Option<u64> {
        let page: &Fields = &self.page;
        let mode = page.mode();
        let marker = if mode & MARKED == 0 { 0 } else { page.marker() };
        let tick_start = self.running(page, mode)?;
        // ORDERING: Relaxed, here and in the exchange, as in `draw_under`: all of the values lie
        // in the tick that was acquired, as the exchange shows.
        let value = self.word.0.load(Ordering::Relaxed);
        let offset = value.wrapping_sub(tick_start);
        if offset > self.shape.last || self.shape.cap - offset < n {
            return None;
        }
        let exchanged =
            self.word.0.compare_exchange(value, value + n, Ordering::Relaxed, Ordering::Relaxed);
        exchanged.ok()?;
        if offset + n == self.shape.cap {
            page.park_if(tick_start);
        }
        (mode & MARKED == 0 || !self.marker.differs(marker)).then_some(value)
    }

    /// The first value of the published tick, if there is one and the guard says that it still
    /// runs.
    #[inline(always)]
    fn running(&self, page: &Fields, mode: u64) -> Option<u64> {
        if mode & TICKING == 0 {
            // Kind by kind, so that each is a comparison without arithmetic on addresses.
            let holds = match Kind::of(mode) {
                Kind::Counter => page.holds(Kind::Counter, self.gauge(Kind::Counter)),
                Kind::Clock => page.holds(Kind::Clock, self.gauge(Kind::Clock)),
            };
            if !holds {
                return None;
            }
        }
        match page.published() {
            0 => None,
            tick_start => Some(tick_start),
        }
    }

    /// One reading of a gauge.
    #[inline(always)]
    fn gauge(&self, kind: Kind) -> u64 {
        if kind == Kind::Counter
            && let Some(count) = read_counter()
        {
            return count;
        }
        self.clock.read_gauge()
    }

    /// How often calls were refused, in the order of [`Refusal::CODES`].
    pub fn refusals(&self) -> [u64; Refusal::CODES.len()] {
        self.counters.refusals()
    }

    /// How often a call waited for a tick.
    pub fn waits(&self) -> u64 {
        self.counters.waits()
    }
}

/// What the hot path found.
enum Draw {
    Id(Id),
    /// Not on this path; with the value that was drawn from an open word, if one was.
    Cold(Option<u64>),
    /// Nothing was looked at yet: this mode has a path of its own.
    Guarded(u64),
}
