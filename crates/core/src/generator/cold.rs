//! The cold path: moves time, and says where a value stands.
//!
//! `turn` is the only place that moves a word to another tick. It reserves before anything is
//! waited for, so that callers are served in the order they came, and it reserves nothing it would
//! have to abandon: a caller that cannot be served within its wait is refused first.

use std::time::Duration;

use super::Generator;
use super::asking::LONGEST_OWN_WAIT;
use super::mode::{Kind, TICKING};
use super::word::{CLOSED, SWITCHING};
use crate::clock::Pause;
use crate::sync::{self, Ordering};
use crate::{Moment, Refusal, Tick, TickError, wait};

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
    pub(super) marker: u64,
    /// Whether values are left in the tick.
    publishable: bool,
    /// What the gauge read just before, where callers read one.
    gauge: Option<(Kind, u64)>,
}

/// Where a drawn value stands against the running tick.
pub(super) enum Place {
    Now,
    /// Its tick begins in this many ticks.
    Ahead(u64),
    /// Its tick has passed, or it belongs to another lease: a gap.
    Gone,
}

impl Generator {
    /// Looks at the clock and moves the word to the running tick, reserving `n` values if the last
    /// of them can be served within `max_wait`. Publishes the tick, unless a ticker does that.
    pub(super) fn turn(&self, n: u64, max_wait: Duration) -> Result<Turn, Refusal> {
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
            let generator_id = self.lease.generator_id.load(Ordering::Acquire);
            let from = Tick(self.lease.from.load(Ordering::Acquire));
            let until = Tick(self.lease.until.load(Ordering::Acquire));
            let deadline_ns = self.lease.deadline_ns.load(Ordering::Acquire);
            if self.shape.generator_id(word) != generator_id {
                // ORDERING: Acquire, as above. The lease is another one, unless the word stands as
                // it was: then callers at the end of time carried it past its generator id.
                if self.word.0.load(Ordering::Acquire) == word {
                    return Err(Refusal::TimeEnd);
                }
                self.look_again(&mut rounds);
                continue;
            }

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
            let at = self.first_of(n, word, tick_start);
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

    /// The first of `n` values in the running tick, or where the word already is ahead of it.
    fn first_of(&self, n: u64, word: u64, tick_start: u64) -> u64 {
        if word >= tick_start {
            return word;
        }
        // A batch that fits a tick is not made to wait for the next one.
        let carried = self.shape.carried(word);
        tick_start + if carried + n <= self.shape.cap { carried } else { 0 }
    }

    /// The pause that is on at this reading of the boot clock.
    pub(super) fn pause(&self, boot_ns: u64) -> Option<Pause> {
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
    pub(super) fn place(&self, value: u64, tick_start: u64) -> Place {
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

    /// Nanoseconds that are left of the tick at this moment.
    pub(super) fn left_of(&self, tick: Tick, moment: &Moment) -> u64 {
        let into_ms = moment.unix_ms.abs_diff(self.format.unix_ms(tick));
        let into_ns = into_ms * 1_000_000 + u64::from(moment.sub_ms_ns);
        self.span.tick_ns.saturating_sub(into_ns)
    }

    /// Time until the tick begins that is `ticks` after the running one, of which `left_ns` are
    /// left.
    pub(super) fn time_until(&self, ticks: u64, left_ns: u64) -> Duration {
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
}

pub(super) fn refusal_of(error: TickError) -> Refusal {
    match error {
        TickError::BeforeEpoch { missing_ms } => Refusal::BeforeEpoch { missing_ms },
        TickError::TimeEnd { .. } => Refusal::TimeEnd,
    }
}
