//! The id clock: seeded by the wall clock, advanced by the boot clock, slewed and never stepped.
//!
//! `now = wall at seed + (boot now - boot at seed) + slew`. A wall clock that is set, by hand or by
//! a daemon, therefore never moves an id backwards, and suspend is counted. What the wall clock
//! does is looked at a few times a second, by whoever runs [`IdClock::discipline`]:
//!
//! | offset of the wall clock | action |
//! |---|---|
//! | up to 2 ms | none |
//! | up to 500 ms | slew, at most 5 ms per second |
//! | more | none: the clock was stepped; it is counted and shown |

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use snowlease_core::clock::read_counter;
use snowlease_core::{Clock, Gauge, Moment};

use crate::os;

/// Offsets up to here are noise of the comparison itself.
const IGNORED_NS: i64 = 2_000_000;

/// Offsets up to here are drift; beyond, somebody has set the wall clock.
const SLEWED_NS: i64 = 500_000_000;

/// How fast drift is made up for: 5 ms in a second.
const SLEW_PER_SECOND_NS: i64 = 5_000_000;

/// The two system clocks, so that tests can script each apart.
pub trait Time: fmt::Debug + Send + Sync {
    /// Nanoseconds since 1970 on the wall clock; may step.
    fn wall_ns(&self) -> i128;

    /// Nanoseconds since boot, counting suspend; never steps.
    fn boot_ns(&self) -> u64;
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
}

/// An id clock; see the module.
#[derive(Debug)]
pub struct IdClock {
    time: Box<dyn Time>,
    /// Unix time minus boot time, in ns: the seed and all slewing since.
    offset_ns: AtomicI64,
    /// What it read when it was slewed last: it holds there, instead of turning back.
    floor_ns: AtomicI64,
    gauge: Gauge,
    watch: Mutex<Watch>,
    steps: AtomicU64,
}

/// What [`IdClock::discipline`] remembers.
#[derive(Debug)]
struct Watch {
    looked_ns: u64,
    wall_offset_ns: i64,
    stepped: bool,
}

/// How the id clock stands against the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStatus {
    /// Wall clock minus id clock when last looked at, in ns.
    pub offset_ns: i64,
    /// The wall clock was set by more than is slewed, and the id clock has not followed.
    pub stepped: bool,
    /// How often that was seen.
    pub steps: u64,
}

impl IdClock {
    /// An id clock on this host's clocks. Takes about 10 ms, to measure the processor's counter.
    pub fn start() -> Arc<IdClock> {
        IdClock::with_time(Box::new(Host), measured_gauge())
    }

    /// An id clock on other clocks.
    pub fn with_time(time: Box<dyn Time>, gauge: Gauge) -> Arc<IdClock> {
        let (wall_ns, boot_ns) = sandwich(&*time);
        let offset_ns = narrow(wall_ns - i128::from(boot_ns));
        Arc::new(IdClock {
            time,
            offset_ns: AtomicI64::new(offset_ns),
            floor_ns: AtomicI64::new(i64::MIN),
            gauge,
            watch: Mutex::new(Watch { looked_ns: boot_ns, wall_offset_ns: 0, stepped: false }),
            steps: AtomicU64::new(0),
        })
    }

    /// Compares with the wall clock and slews if that is due. To be called a few times a second.
    pub fn discipline(&self) {
        let (wall_ns, boot_ns) = sandwich(&*self.time);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed; the offset is one number, written under this lock only.
        let offset_ns = self.offset_ns.load(Ordering::Relaxed);
        let wall_offset_ns = narrow(wall_ns - i128::from(boot_ns) - i128::from(offset_ns));
        let elapsed_ns = boot_ns.saturating_sub(watch.looked_ns);
        let stepped = wall_offset_ns.abs() > SLEWED_NS;
        if stepped && !watch.stepped {
            // ORDERING: Relaxed; a count that guards nothing.
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
        let slew_ns = slew(wall_offset_ns, elapsed_ns);
        if slew_ns != 0 {
            let read_ns = narrow(i128::from(self.time.boot_ns()) + i128::from(offset_ns));
            // ORDERING: Release, the floor before the offset it holds for: a reader that sees the
            // new offset sees the floor too, and so reads no less than it did before.
            self.floor_ns.fetch_max(read_ns, Ordering::Release);
            self.offset_ns.store(offset_ns + slew_ns, Ordering::Release);
        }
        *watch = Watch { looked_ns: boot_ns, wall_offset_ns: wall_offset_ns - slew_ns, stepped };
    }

    /// How it stands, as of the last [`discipline`](Self::discipline).
    pub fn status(&self) -> ClockStatus {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        ClockStatus {
            offset_ns: watch.wall_offset_ns,
            stepped: watch.stepped,
            // ORDERING: Relaxed; a count that guards nothing.
            steps: self.steps.load(Ordering::Relaxed),
        }
    }
}

impl Clock for IdClock {
    fn now(&self) -> Moment {
        let boot_ns = self.time.boot_ns();
        // ORDERING: Acquire pairs with the Release of the offset in `discipline`; only loads, since
        // a write that every cold call made would be shared by all threads.
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
        self.time.boot_ns()
    }

    fn gauge(&self) -> Gauge {
        self.gauge
    }
}

/// How far to move the id clock towards the wall clock.
fn slew(wall_offset_ns: i64, elapsed_ns: u64) -> i64 {
    if (IGNORED_NS + 1..=SLEWED_NS).contains(&wall_offset_ns.abs()) {
        let elapsed_ns = i64::try_from(elapsed_ns.min(1_000_000_000)).unwrap_or(0);
        let most_ns = elapsed_ns / (1_000_000_000 / SLEW_PER_SECOND_NS);
        wall_offset_ns.clamp(-most_ns, most_ns)
    } else {
        0
    }
}

/// Both clocks at one instant, as nearly as three tries get it.
fn sandwich(time: &dyn Time) -> (i128, u64) {
    let reading = || {
        let before_ns = time.boot_ns();
        let wall_ns = time.wall_ns();
        let after_ns = time.boot_ns();
        let apart_ns = after_ns.saturating_sub(before_ns);
        (apart_ns, wall_ns, before_ns + apart_ns / 2)
    };
    let (_, wall_ns, boot_ns) =
        [reading(), reading(), reading()].into_iter().min().unwrap_or_else(reading);
    (wall_ns, boot_ns)
}

/// The processor's counter with its measured rate, if the kernel trusts it; the boot clock
/// otherwise.
fn measured_gauge() -> Gauge {
    const MEASURE_NS: u64 = 10_000_000;
    let both = || {
        // The tightest of several pairs; a pair torn by a lost core is not the tightest.
        (0..8)
            .filter_map(|_| {
                let before = read_counter()?;
                let boot_ns = os::boot_ns();
                let apart = read_counter()?.wrapping_sub(before);
                Some((apart, before.wrapping_add(apart / 2), boot_ns))
            })
            .min()
    };
    if !os::counter_is_trusted() {
        return Gauge::BOOTTIME;
    }
    let Some((_, first, first_ns)) = both() else { return Gauge::BOOTTIME };
    while os::boot_ns() < first_ns + MEASURE_NS {
        std::hint::spin_loop();
    }
    let Some((_, last, last_ns)) = both() else { return Gauge::BOOTTIME };
    let counts = u128::from(last.wrapping_sub(first));
    let hz = counts * 1_000_000_000 / u128::from(last_ns - first_ns);
    // A rate that no processor has means that the measurement failed.
    match u64::try_from(hz) {
        Ok(hz) if (1_000_000..100_000_000_000).contains(&hz) => Gauge::Counter { hz },
        _ => Gauge::BOOTTIME,
    }
}

/// Nanoseconds since 1970 in 64 bits: until the year 2262, beyond which the clock stands still.
fn narrow(ns: i128) -> i64 {
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Scripted(Arc<Mutex<(i128, u64)>>);

    impl Scripted {
        fn start() -> (Scripted, Arc<IdClock>) {
            let time = Scripted(Arc::new(Mutex::new((1_704_067_200_000_000_000, 5_000_000_000))));
            let clock = IdClock::with_time(Box::new(time.clone()), Gauge::BOOTTIME);
            (time, clock)
        }

        fn pass_ms(&self, wall: i64, boot: u64) {
            let mut both = self.0.lock().unwrap();
            both.0 += i128::from(wall) * 1_000_000;
            both.1 += boot * 1_000_000;
        }
    }

    impl Time for Scripted {
        fn wall_ns(&self) -> i128 {
            self.0.lock().unwrap().0
        }

        fn boot_ns(&self) -> u64 {
            self.0.lock().unwrap().1
        }
    }

    const SEED_MS: i64 = 1_704_067_200_000;

    #[test]
    fn the_boot_clock_advances_it_through_steps_and_suspend() {
        let (time, clock) = Scripted::start();
        assert_eq!(clock.now().unix_ms, SEED_MS);
        time.pass_ms(-3_600_000, 10); // the wall clock is set back an hour
        clock.discipline();
        assert_eq!(clock.now().unix_ms, SEED_MS + 10);
        assert!(clock.status().stepped);
        time.pass_ms(600_000, 600_000); // ten minutes asleep
        assert_eq!(clock.now().unix_ms, SEED_MS + 600_010);
        clock.discipline();
        assert_eq!(clock.status().steps, 1);
    }

    #[test]
    fn drift_is_slewed_slowly_and_never_backwards() {
        for drift_ms in [100, -100] {
            let (time, clock) = Scripted::start();
            time.pass_ms(drift_ms, 0);
            let mut last = clock.now();
            let mut seconds = 0;
            while clock.status().offset_ns.abs() > IGNORED_NS || seconds == 0 {
                for _ in 0..4 {
                    time.pass_ms(250, 250);
                    clock.discipline();
                    let now = clock.now();
                    assert!(now.unix_ms >= last.unix_ms);
                    last = now;
                }
                seconds += 1;
                assert!(seconds < 30, "{:?}", clock.status());
            }
            // 98 ms at 5 ms a second.
            assert!((19..=21).contains(&seconds), "{seconds}");
            assert!(!clock.status().stepped);
        }
    }

    #[test]
    fn small_offsets_are_left_alone() {
        assert_eq!(slew(IGNORED_NS, 1_000_000_000), 0);
        assert_eq!(slew(SLEWED_NS + 1, 1_000_000_000), 0);
        assert_eq!(slew(SLEWED_NS, 1_000_000_000), SLEW_PER_SECOND_NS);
        assert_eq!(slew(-SLEWED_NS, 250_000_000), -SLEW_PER_SECOND_NS / 4);
        // A process that slept for an hour does not make up for it in one go.
        assert_eq!(slew(SLEWED_NS, 3_600_000_000_000), SLEW_PER_SECOND_NS);
    }

    #[test]
    fn a_wall_clock_before_1970_is_read_as_it_is() {
        let time = Scripted(Arc::new(Mutex::new((-1_500_000, 7_000_000_000))));
        let clock = IdClock::with_time(Box::new(time), Gauge::BOOTTIME);
        assert_eq!((clock.now().unix_ms, clock.now().sub_ms_ns), (-2, 500_000));
    }

    #[test]
    fn this_hosts_clock_runs_with_its_boot_clock() {
        let clock = IdClock::start();
        let (before, wall_ms) = (clock.now(), os::wall_ms());
        assert!(before.unix_ms.abs_diff(wall_ms) < 100);
        if let Gauge::Counter { hz } = clock.gauge() {
            let (count, boot_ns) = (read_counter().unwrap(), os::boot_ns());
            while os::boot_ns() < boot_ns + 20_000_000 {}
            let (count, ns) = (read_counter().unwrap() - count, os::boot_ns() - boot_ns);
            let by_counter_ns = u128::from(count) * 1_000_000_000 / u128::from(hz);
            let off = by_counter_ns.abs_diff(u128::from(ns));
            assert!(off * 200 < u128::from(ns), "the counter's rate is off: {off} of {ns} ns");
        }
    }
}
