//! The cold path: moves time, waits, and settles what callers have drawn.
//!
//! `turn` is the only place that moves a word to another tick. It reserves before anything is
//! waited for, so that callers are served in the order they came, and it reserves nothing it would
//! have to abandon: a caller that cannot be served within its wait is refused first.

use std::time::Duration;

use super::mode::{Kind, TICKING};
use super::page::Fields;
use super::word::{CLOSED, SWITCHING};
use super::{Draw, Generator};
use crate::clock::{Pause, nanos};
use crate::sync::{self, Ordering};
use crate::{Id, Moment, Refusal, Tick, TickError, wait};

/// No batch needs longer than this for its own ticks: see [`Generator::batch_limit`].
const LONGEST_OWN_WAIT: Duration = Duration::from_secs(1);

/// What a turn found and reserved.
pub(super) struct Turn {
    /// The word that was found.
    pub(super) found: u64,
    /// The first reserved value, and where the word was left if nothing was asked for.
    pub(super) at: u64,
    /// The first value of the tick that is running.
    pub(super) tick_start: u64,
    /// When it was looked at.
    pub(super) moment: Moment,
    /// What was left of the tick then, or until the deadline if that is sooner.
    pub(super) left_ns: u64,
    /// The marker of restored machines that the lease was had under.
    marker: u64,
    /// Whether values are left in the tick.
    publishable: bool,
    /// What the gauge read just before, where callers read one.
    gauge: Option<(Kind, u64)>,
}

/// Where a drawn value stands against the running tick.
enum Place {
    Now,
    /// Its tick begins in this many ticks.
    Ahead(u64),
    /// Its tick has passed, or it belongs to another lease: a gap.
    Gone,
}

/// A call that is under way: how far it has come. Dropped before it is done, what it reserved
/// becomes a gap.
///
/// Made by [`Generator::ask`] and [`Generator::ask_one`], for callers that may not block.
#[derive(Debug)]
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
}

/// After so many waits during which the clock did not move, it stands still.
const STALLED_WAITS: u32 = 16;

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
        self.counters.waited();
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

    /// Looks at the clock and moves the word to the running tick, reserving `n` values if the last
    /// of them can be served within `max_wait`. Publishes the tick, unless a ticker does that.
    fn turn(&self, n: u64, max_wait: Duration) -> Result<Turn, Refusal> {
        let turn = self.look(n, max_wait)?;
        if self.ticking.is_none() {
            self.publish(&turn);
        }
        Ok(turn)
    }

    /// Publishes the tick of a turn, or parks if the tick is used up.
    pub(super) fn publish(&self, turn: &Turn) {
        // The last value of the tick is never published away: callers would only draw gaps.
        match turn.gauge {
            _ if !turn.publishable => self.page.park(),
            None => self.page.publish(turn.tick_start),
            Some((kind, reading)) => {
                let end = reading.wrapping_add(self.span.gauge_units(kind, turn.left_ns));
                self.page.publish_until(turn.tick_start, kind, end);
            }
        }
    }

    /// A turn that publishes nothing.
    pub(super) fn look(&self, n: u64, max_wait: Duration) -> Result<Turn, Refusal> {
        let mut rounds = 0u32;
        loop {
            if self.page.forked() {
                return Err(Refusal::Forked);
            }
            let marker = self.page.marker();
            // ORDERING: Acquire pairs with the Release half of the swap in `open`: the lease read
            // below is that of this word or a later one, and a later one fails the
            // exchange at the end.
            let word = self.word.0.load(Ordering::Acquire);
            if word & CLOSED != 0 {
                if word & SWITCHING != SWITCHING {
                    return Err(self.why_closed());
                }
                self.look_again(&mut rounds);
                continue;
            }
            if self.marker.differs(marker) {
                return Err(Refusal::Restored);
            }
            // ORDERING: Acquire, after the word and before the exchange; see `open`.
            let from = Tick(self.lease.from.load(Ordering::Acquire));
            let until = Tick(self.lease.until.load(Ordering::Acquire));
            let deadline_ns = self.lease.deadline_ns.load(Ordering::Acquire);

            let mode = self.page.mode();
            let gauge =
                (mode & TICKING == 0).then(|| Kind::of(mode)).map(|kind| (kind, self.gauge(kind)));
            let moment = self.clock.now();
            let tick = self.format.tick_at(moment).map_err(refusal_of)?;
            let left_ns = self.left_of(tick, &moment);
            if tick >= until || moment.boot_ns >= deadline_ns {
                return Err(Refusal::WindowEnd);
            }
            if let Some(Pause { by_ms, until_boot_ns }) = self.pause(moment.boot_ns) {
                let retry_after = Duration::from_nanos(until_boot_ns - moment.boot_ns);
                return Err(Refusal::ClockStepped { by_ms, retry_after });
            }
            if tick < from {
                return Err(Refusal::NotYet {
                    retry_after: self.time_until(from.0 - tick.0, left_ns),
                });
            }
            let tick_start = self.shape.tick_start(word, tick);
            let at = if word < tick_start { tick_start + self.shape.carried(word) } else { word };
            if n > 0 {
                self.admit(at, n, tick, until, left_ns, max_wait)?;
            }
            // ORDERING: AcqRel; the reservation is one with the word the lease was read for.
            // Relaxed on failure: nothing read is used, the loop begins anew.
            let moved =
                self.word.0.compare_exchange(word, at + n, Ordering::AcqRel, Ordering::Relaxed);
            if moved.is_err() {
                self.look_again(&mut rounds);
                continue;
            }
            return Ok(Turn {
                found: word,
                at,
                tick_start,
                moment,
                left_ns: left_ns.min(deadline_ns - moment.boot_ns),
                marker,
                publishable: at + n < tick_start + self.shape.cap
                    && self.shape.publishable(tick_start),
                gauge,
            });
        }
    }

    /// The pause that is on at this reading of the boot clock.
    fn pause(&self, boot_ns: u64) -> Option<Pause> {
        self.clock.pause().filter(|pause| pause.until_boot_ns > boot_ns)
    }

    /// Refuses `n` values from `at` if the last lies past the window, or further ahead than
    /// `max_wait`.
    fn admit(
        &self,
        at: u64,
        n: u64,
        tick: Tick,
        until: Tick,
        left_ns: u64,
        max_wait: Duration,
    ) -> Result<(), Refusal> {
        if at + n > self.shape.end(at) {
            return Err(Refusal::TimeEnd);
        }
        let last_tick = self.shape.tick(at + n - 1);
        if last_tick >= until {
            return Err(Refusal::WindowEnd);
        }
        let ticks_ahead = last_tick.since(tick);
        if ticks_ahead == 0 {
            return Ok(());
        }
        let needed = self.time_until(ticks_ahead, left_ns);
        if needed <= max_wait {
            return Ok(());
        }
        // What others have reserved lies at most the longest wait ahead; more means that the clock
        // fell back.
        let first_ahead = self.time_until(self.shape.tick(at).since(tick), left_ns);
        let tick_length = Duration::from_nanos(self.span.tick_ns);
        let longest = self.max_wait.max(max_wait).saturating_add(LONGEST_OWN_WAIT);
        if first_ahead > longest.saturating_add(tick_length * 2) {
            let deficit_ms = u64::try_from(first_ahead.as_millis()).unwrap_or(u64::MAX);
            return Err(Refusal::ClockBehind { deficit_ms, retry_after: first_ahead });
        }
        Err(Refusal::TickFull {
            retry_after: needed.saturating_sub(max_wait).max(Duration::from_nanos(left_ns)),
        })
    }

    /// The comparison of the hot path, with the reason when it fails.
    fn place(&self, value: u64, tick_start: u64) -> Place {
        if value.wrapping_sub(tick_start) < self.shape.cap {
            Place::Now
        } else if value > tick_start
            && self.shape.generator_id(value) == self.shape.generator_id(tick_start)
        {
            Place::Ahead(self.shape.tick(value).since(self.shape.tick(tick_start)))
        } else {
            Place::Gone
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

    /// Nanoseconds that are left of the tick at this moment.
    fn left_of(&self, tick: Tick, moment: &Moment) -> u64 {
        let into_ms = moment.unix_ms.abs_diff(self.format.unix_ms(tick));
        let into_ns = into_ms * 1_000_000 + u64::from(moment.sub_ms_ns);
        self.span.tick_ns.saturating_sub(into_ns)
    }

    /// Time until the tick begins that is `ticks` after the running one, of which `left_ns` are
    /// left.
    fn time_until(&self, ticks: u64, left_ns: u64) -> Duration {
        match ticks {
            0 => Duration::ZERO,
            more => Duration::from_nanos(
                (more - 1).saturating_mul(self.span.tick_ns).saturating_add(left_ns),
            ),
        }
    }

    fn why_closed(&self) -> Refusal {
        // ORDERING: Relaxed; a word that explains a refusal, and guards nothing.
        if self.retired.load(Ordering::Relaxed) {
            return Refusal::ShutDown;
        }
        // Outside of what the format can say, no lease would help.
        self.format.tick_at(self.clock.now()).err().map_or(Refusal::NoLease, refusal_of)
    }

    fn look_again(&self, rounds: &mut u32) {
        *rounds = rounds.saturating_add(1);
        // The other side may have lost its core between two instructions.
        if rounds.is_multiple_of(64) { wait::give_way() } else { sync::relax() }
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

fn refusal_of(error: TickError) -> Refusal {
    match error {
        TickError::BeforeEpoch { missing_ms } => Refusal::BeforeEpoch { missing_ms },
        TickError::TimeEnd { .. } => Refusal::TimeEnd,
    }
}
