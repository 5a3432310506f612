//! The id clock: seeded by the wall clock, advanced by the boot clock, slewed and never stepped.
//!
//! `now = wall at seed + (boot now - boot at seed) + slew`. A wall clock that is set, by hand or by
//! a daemon, therefore never moves an id backwards, and suspend is counted. What the other clocks
//! of the host do meanwhile is judged by [`discipline`], a few times a second. Where a wall clock
//! that was set turns out to be right, the holder has the id clock seeded anew
//! ([`IdClock::follow`]), at a moment when that can break no promise; each generator has an id
//! clock of its own for that.

pub mod discipline;
mod gauge;
mod status;
mod terms;
mod worst;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, mem};

use snowlease_core::{Clock, Gauge, Moment, Pause};

pub use self::discipline::{Counts, Mover, Reading, Step, Verdict};
use self::discipline::{Discipline, Sample};
use self::gauge::CounterWatch;
pub use self::gauge::Gauged;
pub use self::status::{ClockStatus, Unbounded, distrust};
pub use self::terms::{ClockTerms, ClockTermsError};
use crate::os::{self, KernelTime};
use crate::vm_clock;

/// The clocks of a host, so that tests can script each apart: a test clock without a part of its
/// own for suspend hides the faults of suspend.
pub trait Time: fmt::Debug + Send + Sync {
    /// Nanoseconds since 1970 on the wall clock; may step.
    fn wall_ns(&self) -> i128;

    /// Nanoseconds since boot, counting suspend; never steps.
    fn boot_ns(&self) -> u64;

    /// Nanoseconds since boot while the machine ran; never steps.
    fn running_ns(&self) -> u64;

    /// What the kernel says of the wall clock.
    fn kernel(&self) -> Option<KernelTime>;

    /// What calls may check their tick by.
    fn gauged(&self) -> Gauged {
        Gauged { gauge: Gauge::BOOTTIME, boot_read_ns: 1 }
    }

    /// Reads the gauge of [`Gauge::Clock`].
    fn read_gauge(&self) -> u64 {
        self.boot_ns()
    }

    /// The counter of [`Gauge::Counter`], for a comparison; `None` if there is none.
    fn counter(&self) -> Option<u64> {
        None
    }

    /// See [`Clock::marker`].
    fn marker(&self) -> Option<&'static AtomicU64> {
        None
    }
}

/// The clocks of this host.
#[derive(Debug)]
struct Host;

impl Time for Host {
    fn wall_ns(&self) -> i128 {
        os::wall_ns()
    }

    fn boot_ns(&self) -> u64 {
        os::boot_ns()
    }

    fn running_ns(&self) -> u64 {
        os::running_ns()
    }

    fn kernel(&self) -> Option<KernelTime> {
        os::kernel_time()
    }

    fn gauged(&self) -> Gauged {
        Gauged::of_host()
    }

    fn counter(&self) -> Option<u64> {
        snowlease_core::clock::read_counter()
    }

    fn marker(&self) -> Option<&'static AtomicU64> {
        vm_clock::marker()
    }
}

/// Whose clocks: those of this host are read without asking which, by every call that has no
/// counter to go by.
#[derive(Debug)]
enum Source {
    Host,
    Other(Box<dyn Time>),
}

impl Source {
    fn time(&self) -> &dyn Time {
        match self {
            Source::Host => &Host,
            Source::Other(time) => &**time,
        }
    }

    #[inline]
    fn boot_ns(&self) -> u64 {
        match self {
            Source::Host => os::boot_ns(),
            Source::Other(time) => time.boot_ns(),
        }
    }
}

/// An id clock; see the module.
#[derive(Debug)]
pub struct IdClock {
    source: Source,
    /// Unix time minus boot time, in ns: the seed and all slewing since.
    offset_ns: AtomicI64,
    /// What it read when it was slewed last: it holds there, instead of turning back.
    floor_ns: AtomicI64,
    /// Until when issuing pauses, on the boot clock, and why; 0: it does not.
    pause_until_ns: AtomicU64,
    pause_by_ms: AtomicI64,
    gauged: Gauged,
    counter_lost: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    discipline: Discipline,
    counter: CounterWatch,
    marker: Option<u64>,
}

impl IdClock {
    /// An id clock on this host's clocks, by the default thresholds. The first one of a process
    /// takes about 10 ms, to measure the processor's counter.
    pub fn start() -> Arc<IdClock> {
        IdClock::start_on(ClockTerms::DEFAULT)
    }

    /// An id clock on this host's clocks.
    pub fn start_on(terms: ClockTerms) -> Arc<IdClock> {
        IdClock::on(Source::Host, terms)
    }

    /// An id clock on other clocks.
    pub fn with_time(time: Box<dyn Time>, terms: ClockTerms) -> Arc<IdClock> {
        IdClock::on(Source::Other(time), terms)
    }

    fn on(source: Source, terms: ClockTerms) -> Arc<IdClock> {
        let discipline = Discipline::seeded(terms, sample(source.time()));
        let marker = read_marker(source.time());
        Arc::new(IdClock {
            offset_ns: AtomicI64::new(discipline.offset_ns),
            floor_ns: AtomicI64::new(i64::MIN),
            pause_until_ns: AtomicU64::new(0),
            pause_by_ms: AtomicI64::new(0),
            gauged: source.time().gauged(),
            counter_lost: AtomicBool::new(false),
            state: Mutex::new(State { discipline, counter: CounterWatch::default(), marker }),
            source,
        })
    }

    /// Compares the host's clocks, and slews if that is due. To be called a few times a second.
    /// Answers whether somebody should look: another step, another verdict, a process that stood
    /// still, a machine that was restored, a gauge that is not to be trusted any more.
    pub fn look(&self) -> bool {
        let sample = sample(self.source.time());
        let mut state = self.state();
        let before = news(&state.discipline);
        state.discipline.look(sample);
        self.show(&state.discipline);
        let marker = self.read_marker();
        let restored = mem::replace(&mut state.marker, marker) != marker;
        let changed = restored || news(&state.discipline) != before;
        self.look_at_counter(&mut state.counter, sample.running_ns) || changed
    }

    fn look_at_counter(&self, watch: &mut CounterWatch, running_ns: u64) -> bool {
        let Gauge::Counter { hz } = self.gauge() else { return false };
        let Some(count) = self.source.time().counter() else { return false };
        // A kernel that does not say is no reason to distrust what it trusted.
        let is_trusted = || os::clock_source().is_empty() || os::counter_is_trusted();
        let trusted = watch.look(hz, count, running_ns, is_trusted);
        if !trusted {
            // ORDERING: Relaxed; a generator that learns of it late reads the old gauge as long.
            self.counter_lost.store(true, Ordering::Relaxed);
        }
        !trusted
    }

    /// The store has answered a call; with its own clock, if it has one. See
    /// [`Reading::of_call`].
    pub fn hear(&self, reading: Option<Reading>) {
        let mut state = self.state();
        state.discipline.hear(reading);
        self.show(&state.discipline);
    }

    /// Seeds it anew, by as much as the wall clock was found to stand apart: at once and in either
    /// direction. For whoever has no lease open on it at this moment, or one that allows it.
    pub fn follow(&self, by_ns: i64) {
        let mut state = self.state();
        state.discipline.follow(by_ns);
        // ORDERING: Release, the floor before the offset: a reader that sees the new offset is not
        // held at the old floor.
        self.floor_ns.store(i64::MIN, Ordering::Release);
        self.offset_ns.store(state.discipline.offset_ns, Ordering::Release);
        self.show(&state.discipline);
    }

    /// Makes what was decided take effect. Called with the lock held, so writes are in order.
    fn show(&self, discipline: &Discipline) {
        // ORDERING: Relaxed; written under this lock only.
        let before_ns = self.offset_ns.load(Ordering::Relaxed);
        let offset_ns = discipline.offset_ns;
        if offset_ns < before_ns {
            let read_ns = narrow(i128::from(self.source.boot_ns()) + i128::from(before_ns));
            // ORDERING: Release, the floor before the offset it holds for: a reader that sees the
            // new offset sees the floor too, and so reads no less than it did before (but for one
            // that reads both between here and the store; a generator's ticks never fall for it).
            self.floor_ns.fetch_max(read_ns, Ordering::Release);
        }
        // ORDERING: Release; see above, and `now`.
        self.offset_ns.store(offset_ns, Ordering::Release);
        let step = discipline.step();
        let until_ns = step.map_or(0, |step| step.pause_until_ns);
        let by_ms = step.map_or(0, |step| step.by_ns / 1_000_000);
        // ORDERING: Release, the reason before the pause it explains.
        self.pause_by_ms.store(by_ms, Ordering::Release);
        self.pause_until_ns.store(until_ns, Ordering::Release);
    }

    /// The marker of a restored machine, if anybody keeps one.
    pub(crate) fn read_marker(&self) -> Option<u64> {
        read_marker(self.source.time())
    }

    /// The step that stands, if any.
    pub fn step(&self) -> Option<Step> {
        self.state().discipline.step()
    }

    /// How it stands, as of the last [`look`](Self::look).
    pub fn status(&self) -> ClockStatus {
        let gauged = Gauged { gauge: self.gauge(), ..self.gauged };
        ClockStatus::of(&self.state().discipline, gauged)
    }

    /// What it goes by.
    pub fn terms(&self) -> ClockTerms {
        *self.state().discipline.terms()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody should look at when it changes.
fn news(discipline: &Discipline) -> (Option<(Verdict, u64, bool)>, u64) {
    let step = discipline.step().map(|step| (step.verdict, step.seen_ns, step.by_ns > 0));
    (step, discipline.counts().pauses)
}

impl Clock for IdClock {
    fn now(&self) -> Moment {
        let boot_ns = self.source.boot_ns();
        // ORDERING: Acquire pairs with the Release of the offset in `show`; only loads, since a
        // write that every cold call made would be shared by all threads.
        let offset_ns = self.offset_ns.load(Ordering::Acquire);
        let read_ns = narrow(i128::from(boot_ns) + i128::from(offset_ns));
        let unix_ns = read_ns.max(self.floor_ns.load(Ordering::Acquire));
        Moment {
            unix_ms: unix_ns.div_euclid(1_000_000),
            sub_ms_ns: u32::try_from(unix_ns.rem_euclid(1_000_000)).unwrap_or(0),
            boot_ns,
        }
    }

    fn boot_ns(&self) -> u64 {
        self.source.boot_ns()
    }

    fn gauge(&self) -> Gauge {
        // ORDERING: Relaxed; see `look_at_counter`.
        if self.counter_lost.load(Ordering::Relaxed) { Gauge::BOOTTIME } else { self.gauged.gauge }
    }

    fn read_gauge(&self) -> u64 {
        match &self.source {
            Source::Host => os::boot_ns(),
            Source::Other(time) => time.read_gauge(),
        }
    }

    fn pause(&self) -> Option<Pause> {
        // ORDERING: Acquire pairs with the Release in `show`: the reason belongs to this pause, or
        // to a later one.
        let until_boot_ns = self.pause_until_ns.load(Ordering::Acquire);
        (until_boot_ns != 0)
            .then(|| Pause { by_ms: self.pause_by_ms.load(Ordering::Acquire), until_boot_ns })
    }

    fn marker(&self) -> Option<&'static AtomicU64> {
        self.source.time().marker()
    }
}

fn read_marker(time: &dyn Time) -> Option<u64> {
    // ORDERING: Relaxed; no other memory is read by it, and it may lie in memory that is read-only.
    time.marker().map(|marker| marker.load(Ordering::Relaxed))
}

/// All clocks at one instant, as nearly as three tries get it.
fn sample(time: &dyn Time) -> Sample {
    let both = || {
        let before_ns = time.boot_ns();
        let wall_ns = time.wall_ns();
        let after_ns = time.boot_ns();
        let apart_ns = after_ns.saturating_sub(before_ns);
        (apart_ns, wall_ns, before_ns + apart_ns / 2)
    };
    let (_, wall_ns, boot_ns) = [both(), both(), both()].into_iter().min().unwrap_or_else(both);
    Sample { wall_ns, boot_ns, running_ns: time.running_ns(), kernel: time.kernel() }
}

/// Nanoseconds since 1970 in 64 bits: until the year 2262, beyond which the clock stands still.
fn narrow(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
