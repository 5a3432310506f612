//! What is made of the clocks of a host: a pure function from what they read to what the id clock
//! does.
//!
//! | offset of the wall clock from the id clock | what is done |
//! |---|---|
//! | up to 2 ms | nothing |
//! | up to 500 ms | slew, at most 5 ms per second |
//! | more: a step | issuing pauses, and the store is asked; then by the [`Verdict`] |
//!
//! A verdict is one of:
//!
//! * *asking*: the store has not answered since. No slewing; issuing pauses, for 3 s at most.
//! * *confirmed*: the reference clock is within 500 ms of the wall clock, and nearer to it than to
//!   the id clock; where there is none, the kernel says that the wall clock is synchronised. The
//!   holder follows: see [`machine`](crate::machine).
//! * *contradicted*: the reference clock disagrees with the wall clock; if it does not answer in
//!   time, by what it told before. Go on with the alarm, and slew towards the reference.
//! * *unanswered*: there is no reference, or only what one told before the boot clock moved. Go on
//!   with the alarm, and slew towards the wall clock; a holder without a lease follows at once.
//!
//! Offsets are Unix time minus boot time, in ns: what differs between clocks that all run on.

use std::time::Duration;

use snowlease_core::clock::nanos;

use super::ClockTerms;
use super::worst::Worst;
use crate::os::KernelTime;

/// A process that ran so much later than it wanted to has stood still.
const STOOD_STILL_NS: u64 = 1_000_000_000;

/// Issuing pauses for a tenth of the time at most, however often the wall clock is set.
const PAUSES_APART: u64 = 10;

/// How far a boot clock and a reference may drift apart: 200 ns in a millisecond.
const DRIFT_PER_MS_NS: u64 = 200;

/// All clocks of a host at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Since 1970 on the wall clock.
    pub wall_ns: i128,
    /// Since boot, counting suspend.
    pub boot_ns: u64,
    /// Since boot, not counting suspend.
    pub running_ns: u64,
    /// What the kernel says of the wall clock.
    pub kernel: Option<KernelTime>,
}

/// The reference clock, as one answer of the store told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its Unix time minus this host's boot time.
    pub offset_ns: i64,
    /// How far off that may be: half of what the call took, and what the answer rounds.
    pub error_ns: u64,
    /// When it was read, on the boot clock.
    pub boot_ns: u64,
}

impl Reading {
    /// What a call to the store tells that was sent and answered at these readings of the boot
    /// clock.
    pub fn of_call(reference_ms: i64, sent_ns: u64, answered_ns: u64) -> Reading {
        let took_ns = answered_ns.saturating_sub(sent_ns);
        let boot_ns = sent_ns.saturating_add(took_ns / 2);
        // A millisecond that is told as a whole has begun half a millisecond ago, on average.
        let unix_ns = i128::from(reference_ms) * 1_000_000 + 500_000;
        Reading {
            offset_ns: super::narrow(unix_ns - i128::from(boot_ns)),
            error_ns: took_ns / 2 + 500_000,
            boot_ns,
        }
    }
}

/// What moved when the wall clock and the boot clock stepped apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// The wall clock: it was set.
    Wall,
    /// The boot clock: it counted a suspend that the wall clock has not seen, or was set by
    /// whatever runs this machine.
    Boot,
    /// Neither: they ran apart.
    Drift,
}

/// What is known about a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet: the store is being asked.
    Asking,
    /// The wall clock is right.
    Confirmed,
    /// The wall clock is wrong.
    Contradicted,
    /// Nobody can say.
    Unanswered,
}

/// A wall clock that stands apart from the id clock by more than is slewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// By how much it is ahead; negative if behind.
    pub by_ns: i64,
    /// What moved.
    pub mover: Mover,
    /// What is known about it.
    pub verdict: Verdict,
    /// When it was first seen, on the boot clock.
    pub seen_ns: u64,
    /// Until when issuing pauses, on the boot clock.
    pub pause_until_ns: u64,
}

/// How often what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The wall clock stepped.
    pub steps: u64,
    /// The id clock followed it.
    pub reseeds: u64,
    /// The process, or the machine, stood still for a second or more.
    pub pauses: u64,
}

/// The state of it all.
#[derive(Clone, Debug)]
pub struct Discipline {
    terms: ClockTerms,
    /// The id clock: Unix time minus boot time.
    pub(super) offset_ns: i64,
    last: Sample,
    step: Option<Step>,
    reading: Option<Reading>,
    /// The store has answered, whether or not it has a clock of its own.
    contacted: bool,
    /// Before this no other pause begins.
    next_pause_ns: u64,
    counts: Counts,
    worst: Worst,
}

impl Discipline {
    /// An id clock that is seeded by this sample.
    pub fn seeded(terms: ClockTerms, sample: Sample) -> Discipline {
        Discipline {
            terms,
            offset_ns: wall_offset_ns(&sample),
            last: sample,
            step: None,
            reading: None,
            contacted: false,
            next_pause_ns: 0,
            counts: Counts::default(),
            worst: Worst::default(),
        }
    }

    /// The clocks read this now. To be called a few times a second.
    pub fn look(&mut self, sample: Sample) {
        let elapsed_ns = sample.boot_ns.saturating_sub(self.last.boot_ns);
        if elapsed_ns > nanos(self.terms.sample).saturating_add(STOOD_STILL_NS) {
            self.counts.pauses += 1;
        }
        let mover = mover(&self.last, &sample, self.terms.step);
        self.last = sample;
        self.judge(mover);
        self.slew(elapsed_ns);
        self.weigh();
    }

    /// The store has answered; with its own clock, if it has one.
    pub fn hear(&mut self, reading: Option<Reading>) {
        self.contacted = true;
        // An answer that took so long tells nothing of a step.
        let most_ns = nanos(self.terms.step) / 2;
        self.reading = reading.filter(|reading| reading.error_ns <= most_ns).or(self.reading);
        self.judge(Mover::Drift);
        self.weigh();
    }

    /// The id clock is seeded anew, by as much.
    pub fn follow(&mut self, by_ns: i64) {
        self.offset_ns = self.offset_ns.saturating_add(by_ns);
        self.counts.reseeds += 1;
        self.worst = Worst::default();
        self.step = None;
        self.judge(Mover::Drift);
        self.weigh();
    }

    /// Compares, and says what the deviation is.
    fn judge(&mut self, mover: Mover) {
        let by_ns = self.wall_ahead_ns();
        if by_ns.unsigned_abs() <= nanos(self.terms.step) {
            self.step = None;
            return;
        }
        let now_ns = self.last.boot_ns;
        let mut step = self.step.unwrap_or(Step {
            by_ns,
            mover,
            verdict: Verdict::Asking,
            seen_ns: now_ns,
            pause_until_ns: 0,
        });
        step.by_ns = by_ns;
        step.verdict = self.verdict(&step);
        if self.step.is_none() {
            self.counts.steps += 1;
            if step.verdict == Verdict::Asking && now_ns >= self.next_pause_ns {
                let pause_ns = nanos(self.terms.pause);
                step.pause_until_ns = now_ns.saturating_add(pause_ns);
                self.next_pause_ns = now_ns.saturating_add(pause_ns.saturating_mul(PAUSES_APART));
            }
        }
        if !matches!(step.verdict, Verdict::Asking | Verdict::Confirmed) {
            step.pause_until_ns = 0;
        }
        self.step = Some(step);
    }

    fn verdict(&self, step: &Step) -> Verdict {
        let waited_ns = self.last.boot_ns.saturating_sub(step.seen_ns);
        let asking = waited_ns < nanos(self.terms.pause);
        match &self.reading {
            Some(reading) if reading.boot_ns >= step.seen_ns => self.judged_by(reading),
            // A reference is there and can be asked.
            Some(_) if asking => Verdict::Asking,
            // It does not answer. What it told last still holds on a clock that has not moved.
            Some(reading) if step.mover != Mover::Boot => self.judged_by(reading),
            None if !self.contacted && asking => Verdict::Asking,
            // Whoever sets a clock by hand has the kernel call it unsynchronised.
            None if self.contacted && self.is_kernel_sure() => Verdict::Confirmed,
            _ => Verdict::Unanswered,
        }
    }

    fn judged_by(&self, reading: &Reading) -> Verdict {
        let apart_ns = wall_offset_ns(&self.last).abs_diff(reading.offset_ns);
        let agrees = apart_ns <= nanos(self.terms.step).saturating_add(self.error_ns(reading));
        // Ids are not moved to where they are no better.
        if agrees && apart_ns < self.offset_ns.abs_diff(reading.offset_ns) {
            Verdict::Confirmed
        } else {
            Verdict::Contradicted
        }
    }

    /// Moves the id clock a little towards the clock that counts.
    fn slew(&mut self, elapsed_ns: u64) {
        let (away_ns, noise_ns) = match (self.step.map(|step| step.verdict), self.reading) {
            (Some(Verdict::Asking | Verdict::Confirmed), _) => return,
            (Some(Verdict::Contradicted), Some(reading)) => {
                (reading.offset_ns.saturating_sub(self.offset_ns), self.error_ns(&reading))
            }
            _ => (self.wall_ahead_ns(), 0),
        };
        if away_ns.unsigned_abs() <= nanos(self.terms.ignore).saturating_add(noise_ns) {
            return;
        }
        // A process that stood still for an hour does not make up for it in one go.
        let elapsed_ms = elapsed_ns.min(1_000_000_000) / 1_000_000;
        let most_ns = elapsed_ms.saturating_mul(nanos(self.terms.slew)) / 1_000;
        let most_ns = i64::try_from(most_ns).unwrap_or(i64::MAX);
        self.offset_ns = self.offset_ns.saturating_add(away_ns.clamp(-most_ns, most_ns));
    }

    /// Takes down how far the id clock is from the clock that counts.
    fn weigh(&mut self) {
        let right_ns = self.reading.map_or(wall_offset_ns(&self.last), |reading| reading.offset_ns);
        self.worst.take(self.last.boot_ns, self.offset_ns.saturating_sub(right_ns));
    }

    fn error_ns(&self, reading: &Reading) -> u64 {
        let age_ms = self.last.boot_ns.saturating_sub(reading.boot_ns) / 1_000_000;
        reading.error_ns.saturating_add(age_ms.saturating_mul(DRIFT_PER_MS_NS))
    }

    /// Wall clock minus id clock.
    pub fn wall_ahead_ns(&self) -> i64 {
        wall_offset_ns(&self.last).saturating_sub(self.offset_ns)
    }

    /// Reference clock minus id clock, and how far off that may be.
    pub fn reference_ahead_ns(&self) -> Option<(i64, u64)> {
        let ahead = |reading: Reading| {
            (reading.offset_ns.saturating_sub(self.offset_ns), self.error_ns(&reading))
        };
        self.reading.map(ahead)
    }

    /// Whether the kernel calls the wall clock synchronised, and its error small.
    pub fn is_kernel_sure(&self) -> bool {
        self.kernel().is_some_and(|time| time.is_sure(self.terms.max_error))
    }

    /// What the kernel said last.
    pub fn kernel(&self) -> Option<KernelTime> {
        self.last.kernel
    }

    /// The step that stands.
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// How often what was seen.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How far the id clock was ahead and behind at worst, in the last minute or two.
    pub fn worst_ns(&self) -> (u64, u64) {
        self.worst.ns()
    }

    /// What it goes by.
    pub fn terms(&self) -> &ClockTerms {
        &self.terms
    }
}

fn wall_offset_ns(sample: &Sample) -> i64 {
    super::narrow(sample.wall_ns - i128::from(sample.boot_ns))
}

/// Which of two clocks left the third, the one that only counts while the machine runs.
fn mover(last: &Sample, now: &Sample, step: Duration) -> Mover {
    let ran_ns = i128::from(now.running_ns) - i128::from(last.running_ns);
    let wall_ns = now.wall_ns - last.wall_ns - ran_ns;
    let boot_ns = i128::from(now.boot_ns) - i128::from(last.boot_ns) - ran_ns;
    let step_ns = i128::from(nanos(step));
    if (wall_ns - boot_ns).abs() <= step_ns {
        Mover::Drift
    } else if wall_ns.abs() >= boot_ns.abs() {
        Mover::Wall
    } else {
        Mover::Boot
    }
}

#[cfg(test)]
mod tests;
