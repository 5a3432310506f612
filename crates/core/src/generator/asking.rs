//! A call on the cold path, under way: what it has drawn, what it waits for, how far it has come.
//!
//! A blocking call and a future go through the same steps; between two of them the one sleeps and
//! the other is not polled.

use std::time::Duration;

use super::cold::{Place, Turn, refusal_of};
use super::page::Fields;
use super::word::CLOSED;
use super::{Draw, Generator};
use crate::clock::nanos;
use crate::sync::Ordering;
use crate::{Id, Refusal, wait};

/// No batch needs longer than this for its own ticks: see [`Generator::batch_limit`].
pub(super) const LONGEST_OWN_WAIT: Duration = Duration::from_secs(1);

/// A call that is under way: how far it has come. Dropped before it is done, what it reserved
/// becomes a gap.
///
/// Made by [`Generator::ask`] and [`Generator::ask_one`], for callers that may not block.
#[derive(Debug)]
#[must_use = "a call is under way only if it is gone on with"]
pub struct Asking {
    /// What is drawn or reserved for it, and not yet issued: `value..end`.
    value: u64,
    end: u64,
    /// How many ids it has.
    done: usize,
    max_wait: Duration,
    /// When it gives up waiting: set by the first wait.
    give_up_ns: Option<u64>,
    /// The marker of restored machines at its first look.
    marker: Option<u64>,
    /// What the boot clock read when it last had to wait, and how often in a row it read that.
    waited_at_ns: u64,
    stalled: u32,
    /// The value it waits for, so that a wait is counted once however often it is asked for.
    awaited: Option<u64>,
}

/// After so many waits during which the clock did not move, it stands still.
const STALLED_WAITS: u32 = 100;

impl Asking {
    /// A call that waits for at most `max_wait`; `drawn` is a value already taken from the word.
    fn new(drawn: Option<u64>, max_wait: Duration) -> Asking {
        let (value, end) = drawn.map_or((0, 0), |value| (value, value + 1));
        Asking {
            value,
            end,
            done: 0,
            max_wait,
            give_up_ns: None,
            marker: None,
            waited_at_ns: 0,
            stalled: 0,
            awaited: None,
        }
    }
}

/// What a call that is under way has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All ids are there.
    Done,
    /// The rest is to be had from this reading of the boot clock on: ask again then.
    Again {
        /// The beginning of the tick that the next id lies in.
        at_boot_ns: u64,
    },
}

/// What a call that cannot go on waits for.
pub(super) struct Wait {
    /// When the tick of its next value begins.
    pub(super) until_boot_ns: u64,
    value: u64,
    marker: u64,
}

impl Generator {
    /// Serves one id off the hot path; `drawn` is a value already taken from the word.
    #[cold]
    pub(super) fn next_cold(&self, drawn: Option<u64>, max_wait: Duration) -> Result<Id, Refusal> {
        let mut id = [Id::MIN];
        self.fill(&mut Asking::new(drawn, max_wait), &mut id)?;
        self.wake_ticker();
        Ok(id[0])
    }

    /// Batches read the clock themselves and need no ticker.
    fn wake_ticker(&self) {
        if let Some(ticking) = &self.ticking {
            ticking.wake();
        }
    }

    /// Begins a call for `n` ids that never blocks: see [`answer`](Self::answer).
    ///
    /// # Errors
    ///
    /// [`Refusal::BatchSize`] as [`next_ids`](Self::next_ids).
    pub fn ask(&self, n: usize) -> Result<Asking, Refusal> {
        self.check_batch(n)?;
        Ok(self.asking(n))
    }

    /// One id if it is to be had at once, at the cost of [`next_id`](Self::next_id); else a call
    /// for one that never blocks: see [`answer`](Self::answer).
    ///
    /// # Errors
    ///
    /// [`Asking`] is no failure: go on with it.
    #[inline]
    pub fn ask_one(&self) -> Result<Id, Asking> {
        let page: &Fields = &self.page;
        match self.draw_under(page, page.mode()) {
            Draw::Id(id) => Ok(id),
            Draw::Cold(drawn) => Err(Asking::new(drawn, self.max_wait)),
            Draw::Guarded(_) => Err(Asking::new(None, self.max_wait)),
        }
    }

    /// Goes on with a call as far as is possible now, and never blocks: fills `ids`, which are to
    /// be the same at each call and as many as were asked for. What it has is strictly ascending,
    /// and is to be used once all are there.
    ///
    /// # Errors
    ///
    /// As [`next_ids`](Self::next_ids): a call waits as long as that would, and places in the order
    /// of callers are kept meanwhile. After a refusal, ask anew.
    ///
    /// # Cost
    ///
    /// A reading of the clock, and the filling of what there is.
    pub fn answer(&self, asking: &mut Asking, ids: &mut [Id]) -> Result<Asked, Refusal> {
        let Some(wait) = self.step(asking, ids)? else {
            if ids.len() == 1 {
                self.wake_ticker();
            }
            return Ok(Asked::Done);
        };
        if asking.stalled >= STALLED_WAITS {
            let refusal = Refusal::ClockStalled { waited: asking.max_wait };
            self.counters.refused(refusal);
            return Err(refusal);
        }
        if asking.awaited != Some(wait.value) {
            asking.awaited = Some(wait.value);
            self.counters.waited();
        }
        Ok(Asked::Again { at_boot_ns: wait.until_boot_ns })
    }

    /// A call for `n` ids. It waits for its own further ticks as well as behind others.
    pub(super) fn asking(&self, n: usize) -> Asking {
        let own_ticks = (n as u64).saturating_sub(1) / self.shape.cap;
        let own = Duration::from_nanos(own_ticks.saturating_mul(self.span.tick_ns));
        Asking::new(None, self.max_wait.saturating_add(own))
    }

    /// Fills `ids`, waiting wherever a step says so.
    pub(super) fn fill(&self, asking: &mut Asking, ids: &mut [Id]) -> Result<(), Refusal> {
        while let Some(wait) = self.step(asking, ids)? {
            self.counters.waited();
            wait::until_boot_ns(&*self.clock, &self.watch, wait.until_boot_ns, |now_ns| {
                self.is_void(wait.value, wait.marker, now_ns)
            })
            .inspect_err(|refusal| self.counters.refused(*refusal))?;
        }
        Ok(())
    }

    /// Fills `ids` for as long as nothing is to be waited for, in runs, each tick's run settled by
    /// the same comparison as a single id on the hot path. `None` once all are there.
    pub(super) fn step(
        &self,
        asking: &mut Asking,
        ids: &mut [Id],
    ) -> Result<Option<Wait>, Refusal> {
        self.advance(asking, ids).inspect_err(|refusal| self.counters.refused(*refusal))
    }

    fn advance(&self, asking: &mut Asking, ids: &mut [Id]) -> Result<Option<Wait>, Refusal> {
        while asking.done < ids.len() {
            let turn = if asking.value < asking.end {
                self.turn(0, Duration::ZERO)?
            } else {
                let n = (ids.len() - asking.done) as u64;
                let turn = self.turn(n, asking.max_wait)?;
                (asking.value, asking.end) = (turn.at, turn.at + n);
                turn
            };
            asking.marker.get_or_insert(turn.marker);
            match self.place(asking.value, turn.tick_start) {
                Place::Now => self.take_run(asking, ids),
                Place::Ahead(ticks) => return self.wait_for(asking, ticks, &turn).map(Some),
                // What was missed becomes a gap, and as much is reserved anew once the rest is
                // issued.
                Place::Gone => self.miss(asking, turn.tick_start),
            }
        }
        // Of all the values, not of the last ones only: a marker never comes back.
        if asking.marker.is_some_and(|marker| self.marker.differs(marker)) {
            return Err(Refusal::Restored);
        }
        Ok(None)
    }

    /// Gives up what the call had reserved in ticks that have passed, and all of it if the lease is
    /// another one. It may wait for as many ticks more as that fills.
    fn miss(&self, asking: &mut Asking, tick_start: u64) {
        let same_lease =
            self.shape.generator_id(asking.value) == self.shape.generator_id(tick_start);
        let next = if same_lease { tick_start.min(asking.end) } else { asking.end };
        let ticks = (next - asking.value) / self.shape.cap;
        asking.value = next;
        if let Some(give_up_ns) = &mut asking.give_up_ns {
            *give_up_ns = give_up_ns.saturating_add(ticks.saturating_mul(self.span.tick_ns));
        }
    }

    /// Issues what is reserved in the running tick.
    fn take_run(&self, asking: &mut Asking, ids: &mut [Id]) {
        let tick_end = self.shape.next_tick_start(asking.value);
        let run = asking.end.min(tick_end) - asking.value;
        let later = ids.get_mut(asking.done..).unwrap_or_default();
        let now = usize::try_from(run).unwrap_or(0).min(later.len());
        self.write_run(asking.value, &mut later[..now]);
        asking.done += now;
        asking.value += now as u64;
    }

    /// Writes the ids of values of one tick, which are neighbours.
    pub(super) fn write_run(&self, value: u64, ids: &mut [Id]) {
        let first = self.shape.compose(value).get();
        for (n, id) in (0..).zip(ids) {
            *id = Id::new_unchecked(first + n);
        }
    }

    /// What to wait for until the tick begins that the call's next value lies in, `ticks` ahead, if
    /// that is within its bound.
    fn wait_for(&self, asking: &mut Asking, ticks: u64, turn: &Turn) -> Result<Wait, Refusal> {
        let seen = &turn.moment;
        let tick = self.format.tick_at(*seen).map_err(refusal_of)?;
        let wait = self.time_until(ticks, self.left_of(tick, seen));
        let until_boot_ns = seen.boot_ns.saturating_add(nanos(wait));
        let max_wait_ns = nanos(asking.max_wait);
        let give_up_ns = *asking.give_up_ns.get_or_insert(seen.boot_ns.saturating_add(max_wait_ns));
        if until_boot_ns > give_up_ns {
            return Err(Refusal::TickFull { retry_after: wait });
        }
        let stalled = asking.waited_at_ns == seen.boot_ns;
        asking.stalled = if stalled { asking.stalled + 1 } else { 0 };
        asking.waited_at_ns = seen.boot_ns;
        Ok(Wait { until_boot_ns, value: asking.value, marker: turn.marker })
    }

    /// Whether waiting for the tick of `value` is in vain: its lease is closed, issuing pauses, or
    /// the machine was restored.
    fn is_void(&self, value: u64, marker: u64, now_ns: u64) -> bool {
        // ORDERING: Relaxed; it only ends a wait, and the turn that follows decides.
        let word = self.word.0.load(Ordering::Relaxed);
        word & CLOSED != 0
            || self.shape.generator_id(word) != self.shape.generator_id(value)
            || self.marker.differs(marker)
            || self.pause(now_ns).is_some()
    }

    /// The largest batch that can ever be served: at most [`MAX_BATCH`](Self::MAX_BATCH), and no
    /// more than the ticks that begin within a second hold.
    pub fn batch_limit(&self) -> usize {
        let seconds_ns = u64::try_from(LONGEST_OWN_WAIT.as_nanos()).unwrap_or(u64::MAX);
        let ticks = 1 + seconds_ns / self.span.tick_ns;
        let ids = usize::try_from(ticks.saturating_mul(self.shape.cap)).unwrap_or(usize::MAX);
        ids.min(Generator::MAX_BATCH)
    }

    pub(super) fn check_batch(&self, n: usize) -> Result<(), Refusal> {
        let limit = self.batch_limit();
        if n == 0 || n > limit {
            let refusal = Refusal::BatchSize { asked: n, limit };
            self.counters.refused(refusal);
            return Err(refusal);
        }
        Ok(())
    }
}
