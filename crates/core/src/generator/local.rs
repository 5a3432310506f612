//! A thread's own handle: ids without an atomic write for each, from small blocks of the shared
//! generator's values.
//!
//! A block is drawn from the word as single values are, by one addition, and so is nobody else's
//! (1); closing the gate gives back what lies above it, as above any value that was drawn (3). What
//! is taken from it passes the comparison with the published tick id by id, under the guard of
//! every call (2).
//!
//! A single call shows by its addition that the word is still in that tick, and open. A block was
//! drawn earlier, so each of its ids looks at the word instead: a tick that a slow thread publishes
//! after the gate was closed, or after a later tick was used, is no tick to issue from. So a block
//! obeys the window, the gate, a switch of the lease and a fork without being told of them. What
//! does not pass is settled on the cold path, as a drawn value is.
//!
//! Blocks begin with one value in each tick and double: a handle that issues little wastes little,
//! and its ids use the low bits evenly.

use std::sync::Arc;
use std::time::Duration;

use super::Generator;
use super::mode::{GUARDED, MARKED, TICKING};
use super::page::Fields;
use super::word::CLOSED;
use crate::sync::Ordering;
use crate::{Id, Refusal};

/// The largest block. Each thread adds at most this much to a word beyond a tick's end: see
/// `RESERVE` in [`word`](super::word).
const LARGEST: u64 = if cfg!(feature = "loom") { 2 } else { 64 };

/// Issues ids of a shared [`Generator`] to one thread.
///
/// # Promise
///
/// As the generator, with a weaker G2: ids of one handle ascend strictly; a call that begins after
/// a call elsewhere returned gets an id of the same tick or of a later one, and in the same tick it
/// may be smaller. Where that matters, call the generator itself: its ids are above all that any
/// handle had returned.
///
/// # Cost
///
/// A call of the generator without its atomic addition. When a tick ends, at most as many values as
/// it issued in that tick go unused, and never more than 63.
///
/// # Example
///
/// ```
/// # use std::sync::Arc;
/// # use snowlease_core::{clock::ScriptedClock, Format, Generator, Tick, Window};
/// # let format = Format::DEFAULT;
/// # let clock = ScriptedClock::at_ms(format.epoch_ms() + 1_000);
/// let generator = Arc::new(Generator::new(format, clock));
/// generator.open(Window::new(format.layout(), 7, Tick(1_000), Tick(1_010))?, u64::MAX)?;
///
/// let mut local = generator.local();
/// let (first, second) = (local.next_id()?, local.next_id()?);
/// assert!(first < second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// G1 to G4 in `docs/guarantees.md`; held by `generator/tests/local.rs` and
/// `generator/models/local.rs`.
#[derive(Debug)]
#[must_use = "a handle issues nothing by itself"]
pub struct Local {
    /// What is left of the block in the tick that it was looked at in: `next..limit`.
    next: u64,
    limit: u64,
    /// The first value of that tick, and what turns its values into ids.
    tick_start: u64,
    to_id: u64,
    /// The end of the block, which may lie in a later tick; its size, and the tick it was drawn in.
    end: u64,
    size: u64,
    drawn_in: u64,
    /// The marker of the lease that the block was drawn under.
    marker: u64,
    generator: Arc<Generator>,
}

impl Generator {
    /// A handle for one thread: see [`Local`]. Costs nothing until it is used.
    pub fn local(self: &Arc<Generator>) -> Local {
        let generator = Arc::clone(self);
        let (next, limit, end, size, drawn_in) = (0, 0, 0, 0, 0);
        Local { next, limit, tick_start: 0, to_id: 0, end, size, drawn_in, marker: 0, generator }
    }
}

/// Another handle on the same generator, with blocks of its own.
impl Clone for Local {
    fn clone(&self) -> Local {
        self.generator.local()
    }
}

impl Local {
    /// The generator it takes from.
    pub fn generator(&self) -> &Arc<Generator> {
        &self.generator
    }

    /// Issues one id; waits as [`Generator::next_id`] does.
    ///
    /// # Errors
    ///
    /// As [`Generator::next_id`].
    #[inline(always)]
    pub fn next_id(&mut self) -> Result<Id, Refusal> {
        match self.draw() {
            Some(id) => Ok(id),
            None => self.next_waiting(),
        }
    }

    /// Issues one id without ever waiting.
    ///
    /// # Errors
    ///
    /// As [`Generator::try_next_id`].
    #[inline(always)]
    pub fn try_next_id(&mut self) -> Result<Id, Refusal> {
        match self.draw() {
            Some(id) => Ok(id),
            None => self.next_at_once(),
        }
    }

    /// The hot path: a value of a block that was looked at in the tick that is running.
    #[inline(always)]
    fn draw(&mut self) -> Option<Id> {
        let page: &Fields = &self.generator.page;
        let mode = page.mode();
        if mode & GUARDED != 0 {
            return None;
        }
        let tick_start = self.generator.running(page, mode & TICKING)?;
        if tick_start != self.tick_start || self.next == self.limit || !self.is_in(tick_start) {
            return None;
        }
        Some(self.take())
    }

    /// Whether the word is in this tick: the gate is open, and no later tick was used.
    #[inline(always)]
    fn is_in(&self, tick_start: u64) -> bool {
        // ORDERING: Relaxed; who calls after a close, or after somebody's id of a later tick, sees
        // that word or a later one, since both came by a change of the word. Modelled by
        // `loom_local_*` and `loom_late_publication_*`.
        let word = self.generator.word.0.load(Ordering::Relaxed);
        word.wrapping_sub(tick_start) <= self.generator.shape.cap
    }

    #[inline(always)]
    fn take(&mut self) -> Id {
        let value = self.next;
        self.next = value + 1;
        // Values of one tick compose to neighbouring ids.
        Id::new_unchecked(value.wrapping_add(self.to_id))
    }

    #[inline(never)]
    fn next_waiting(&mut self) -> Result<Id, Refusal> {
        let max_wait = self.generator.max_wait;
        self.draw_block().map_or_else(|| self.next_cold(max_wait), Ok)
    }

    #[inline(never)]
    fn next_at_once(&mut self) -> Result<Id, Refusal> {
        self.draw_block().map_or_else(|| self.next_cold(Duration::ZERO), Ok)
    }

    /// As `draw`, under any guard, with another block if there is none left, and for a block that
    /// reaches into the running tick.
    fn draw_block(&mut self) -> Option<Id> {
        let generator = &*self.generator;
        let mode = generator.page.mode();
        let tick_start = generator.running(&generator.page, mode)?;
        if self.next == self.end {
            self.refill(tick_start);
        }
        self.look(tick_start);
        if self.next == self.limit
            || !self.is_in(tick_start)
            || (mode & MARKED != 0 && self.generator.marker.differs(self.marker))
        {
            return None;
        }
        Some(self.take())
    }

    /// Takes up what the block has in this tick.
    fn look(&mut self, tick_start: u64) {
        let shape = &self.generator.shape;
        self.tick_start = tick_start;
        self.to_id = shape.compose(tick_start).get().wrapping_sub(tick_start);
        self.limit = if self.next.wrapping_sub(tick_start) <= shape.last {
            self.end.min(shape.next_tick_start(tick_start))
        } else {
            self.next
        };
    }

    /// Draws a block, larger than the last one if that was of this tick too. Nothing is drawn from
    /// a closed word.
    fn refill(&mut self, tick_start: u64) {
        let generator = &*self.generator;
        let again = self.drawn_in == tick_start;
        let size = if again { (self.size * 2).clamp(1, LARGEST) } else { 1 };
        let marker = generator.page.marker();
        // ORDERING: Relaxed, as in `Generator::draw`; modelled by `loom_local_*`.
        let value = generator.word.0.fetch_add(size, Ordering::Relaxed);
        if value.wrapping_sub(tick_start) > generator.shape.last {
            // All of it lies past the tick: the others are sent away before they draw so too.
            generator.page.park_if(tick_start);
        }
        if value & CLOSED == 0 {
            (self.next, self.end) = (value, value + size);
            (self.size, self.drawn_in, self.marker) = (size, tick_start, marker);
        }
    }

    /// Serves one id off the hot path, the next of the block if that is still good.
    #[cold]
    fn next_cold(&mut self, max_wait: Duration) -> Result<Id, Refusal> {
        let generator = &*self.generator;
        let good = self.next < self.end && self.marker == generator.page.marker();
        let drawn = good.then_some(self.next);
        let id = generator.next_cold(drawn, max_wait)?;
        if drawn.is_some_and(|value| generator.shape.compose(value) == id) {
            self.next += 1;
            self.limit = self.limit.max(self.next);
        } else {
            // What the block holds is below what was drawn since.
            (self.next, self.limit) = (self.end, self.end);
        }
        Ok(id)
    }
}
