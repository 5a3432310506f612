//! A clock moved by hand or by a script, for tests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Clock, Gauge, Moment, Pause};

/// A clock moved by hand or by a script, for tests.
///
/// Its parts move apart on request, the id clock, the boot clock and the counter: a test clock that
/// cannot do that hides the faults of suspend and of bad counters.
///
/// # Example
///
/// ```
/// # use snowlease_core::{Clock, clock::ScriptedClock};
/// let clock = ScriptedClock::at_ms(1_704_067_200_100);
/// clock.advance_ms(5);
/// assert_eq!(clock.now().unix_ms, 1_704_067_200_105);
/// clock.suspend_ms(600_000); // the id clock goes on with the boot clock
/// assert_eq!(clock.now().unix_ms, 1_704_067_800_105);
/// ```
#[derive(Debug)]
pub struct ScriptedClock {
    state: Mutex<Script>,
}

#[derive(Debug)]
struct Script {
    unix_ns: i128,
    boot_ns: u64,
    /// Added to both parts after each reading.
    step_ns: u64,
    counter: Option<Counter>,
    pause: Option<Pause>,
    marker: Option<&'static AtomicU64>,
}

/// A counter apart from the boot clock.
#[derive(Clone, Copy, Debug)]
struct Counter {
    /// The rate that the gauge names.
    named_hz: u64,
    /// The rate it has.
    hz: u64,
    value: u64,
    /// Reading of the boot clock at which it had this value.
    at_boot_ns: u64,
    trusted: bool,
}

impl Counter {
    fn read(&self, boot_ns: u64) -> u64 {
        let ran_ns = u128::from(boot_ns.saturating_sub(self.at_boot_ns));
        let counts = ran_ns * u128::from(self.hz) / 1_000_000_000;
        self.value.wrapping_add(u64::try_from(counts).unwrap_or(0))
    }
}

impl ScriptedClock {
    /// A clock that stands at this Unix millisecond, an hour after boot.
    pub fn at_ms(unix_ms: i64) -> Arc<ScriptedClock> {
        let state = Mutex::new(Script {
            unix_ns: i128::from(unix_ms) * 1_000_000,
            boot_ns: 3_600_000_000_000,
            step_ns: 0,
            counter: None,
            pause: None,
            marker: None,
        });
        Arc::new(ScriptedClock { state })
    }

    /// Moves both parts forward, and the counter with them.
    pub fn advance_ms(&self, ms: u64) {
        self.advance_ns(ms * 1_000_000);
    }

    /// Moves both parts forward, and the counter with them.
    pub fn advance_ns(&self, ns: u64) {
        let mut state = self.state();
        state.unix_ns += i128::from(ns);
        state.boot_ns += ns;
    }

    /// As [`advance_ms`](Self::advance_ms): the boot clock counts suspend.
    pub fn suspend_ms(&self, ms: u64) {
        self.advance_ms(ms);
    }

    /// Steps the id clock alone, in either direction, as no real one may.
    pub fn step_id_clock_ms(&self, ms: i64) {
        self.state().unix_ns += i128::from(ms) * 1_000_000;
    }

    /// From now on each reading moves both parts forward by this much.
    pub fn advance_at_each_reading_ns(&self, ns: u64) {
        self.state().step_ns = ns;
    }

    /// Sets the id clock to this Unix millisecond, backwards too; the boot clock moves by the same
    /// difference, as no real one may, so that the hot path sees it.
    pub fn set_ms(&self, unix_ms: i64) {
        let mut state = self.state();
        let unix_ns = i128::from(unix_ms) * 1_000_000;
        let moved = unix_ns - state.unix_ns;
        state.unix_ns = unix_ns;
        state.boot_ns = u64::try_from(i128::from(state.boot_ns) + moved).unwrap_or(0);
    }

    /// From now on the gauge is a counter at this rate, apart from the boot clock.
    pub fn count_at(&self, hz: u64) {
        let mut state = self.state();
        let at_boot_ns = state.boot_ns;
        state.counter =
            Some(Counter { named_hz: hz, hz, value: 1 << 40, at_boot_ns, trusted: true });
    }

    /// Makes the counter run at another rate than the gauge says; 0 stops it.
    pub fn run_counter_at(&self, hz: u64) {
        self.change_counter(|counter| counter.hz = hz);
    }

    /// Sets the counter, as a resume or a move to another processor may.
    pub fn set_counter(&self, value: u64) {
        self.change_counter(|counter| counter.value = value);
    }

    /// Whether the gauge names the counter, or the boot clock instead; readings that are under way
    /// still get the counter.
    pub fn trust_counter(&self, trusted: bool) {
        self.change_counter(|counter| counter.trusted = trusted);
    }

    fn change_counter(&self, change: impl FnOnce(&mut Counter)) {
        let mut state = self.state();
        let boot_ns = state.boot_ns;
        if let Some(counter) = &mut state.counter {
            (counter.value, counter.at_boot_ns) = (counter.read(boot_ns), boot_ns);
            change(counter);
        }
    }

    /// Has issuing pause, as after a step of the wall clock by `by_ms`, for `ms` at the most.
    pub fn pause(&self, by_ms: i64, ms: u64) {
        let mut state = self.state();
        state.pause = Some(Pause { by_ms, until_boot_ns: state.boot_ns + ms * 1_000_000 });
    }

    /// Ends a pause.
    pub fn go_on(&self) {
        self.state().pause = None;
    }

    /// Has the clock keep a marker of restored machines; to be called before a generator is made.
    pub fn keep_marker(&self) {
        self.state().marker.get_or_insert_with(|| Box::leak(Box::new(AtomicU64::new(1))));
    }

    /// Changes the marker, as when the machine was restored from a snapshot.
    pub fn restore_machine(&self) {
        if let Some(marker) = self.state().marker {
            // ORDERING: Release; what is done after this sees the change.
            marker.fetch_add(1, Ordering::Release);
        }
    }

    fn state(&self) -> MutexGuard<'_, Script> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ScriptedClock {
    fn now(&self) -> Moment {
        let mut state = self.state();
        let moment = Moment {
            unix_ms: i64::try_from(state.unix_ns.div_euclid(1_000_000)).unwrap_or(i64::MAX),
            sub_ms_ns: u32::try_from(state.unix_ns.rem_euclid(1_000_000)).unwrap_or(0),
            boot_ns: state.boot_ns,
        };
        state.unix_ns += i128::from(state.step_ns);
        state.boot_ns += state.step_ns;
        moment
    }

    fn gauge(&self) -> Gauge {
        match self.state().counter {
            Some(counter) if counter.trusted => Gauge::Clock { hz: counter.named_hz },
            _ => Gauge::BOOTTIME,
        }
    }

    fn read_gauge(&self) -> u64 {
        {
            let state = self.state();
            if let Some(counter) = state.counter.filter(|counter| counter.trusted) {
                return counter.read(state.boot_ns);
            }
        }
        self.boot_ns()
    }

    fn pause(&self) -> Option<Pause> {
        self.state().pause
    }

    fn marker(&self) -> Option<&'static AtomicU64> {
        self.state().marker
    }
}
