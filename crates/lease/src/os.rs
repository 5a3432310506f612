//! The one door to the system: its clocks, its counter, its word on forks.
//!
//! Everything else takes a clock as a value. `clippy.toml` holds this door shut elsewhere.

use std::fs;
use std::time::Duration;

use snowlease_core::ForkGuard;

/// The wall clock in nanoseconds since 1970; negative before. Steps when it is set.
pub fn wall_ns() -> i128 {
    read(libc::CLOCK_REALTIME)
}

/// The wall clock in whole milliseconds since 1970.
pub fn wall_ms() -> i64 {
    i64::try_from(wall_ns().div_euclid(1_000_000)).unwrap_or(i64::MAX)
}

/// Nanoseconds since boot; never steps, counts suspend.
pub fn boot_ns() -> u64 {
    let time = timespec(libc::CLOCK_BOOTTIME);
    // Neither part is ever negative, and 64 bits hold 584 years: calls without a counter end here,
    // so it is kept to one multiplication.
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000) + time.tv_nsec.cast_unsigned()
}

/// Nanoseconds since boot while the machine ran: never steps, does not count suspend.
pub fn running_ns() -> u64 {
    u64::try_from(read(libc::CLOCK_MONOTONIC)).unwrap_or(0)
}

fn read(clock: libc::clockid_t) -> i128 {
    let time = timespec(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

fn timespec(clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusive place for the answer. The call cannot fail for the two
    // clocks above, which every Linux since 2.6.39 has; if it did, `time` would stay 0 and no
    // id be issued.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

/// Whether the kernel itself keeps time by the processor's counter, so that it is fit to be a
/// gauge.
pub fn counter_is_trusted() -> bool {
    matches!(clock_source().as_str(), "tsc" | "arch_sys_counter")
}

/// What the kernel itself keeps time by, as it calls it; empty where it does not say.
pub fn clock_source() -> String {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The kernel's own view of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// How far off the wall clock may be, in µs, by the kernel's estimate.
    pub max_error_us: i64,
    /// Whether some daemon keeps it synchronised, as far as the kernel knows.
    pub synchronised: bool,
}

impl KernelTime {
    /// Whether the wall clock is as good as it gets: synchronised, with an error below this.
    pub fn is_sure(self, max_error: Duration) -> bool {
        let error_us = u128::try_from(self.max_error_us).unwrap_or(u128::MAX);
        self.synchronised && error_us < max_error.as_micros()
    }
}

/// Asks the kernel how good the wall clock is. `None` where it does not say.
pub fn kernel_time() -> Option<KernelTime> {
    // SAFETY: all-zero is a valid `timex`; with `modes` 0 the call only reads.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a valid, exclusive place for the answer.
    let status = unsafe { libc::adjtimex(&raw mut state) };
    (status >= 0).then_some(KernelTime {
        max_error_us: state.maxerror,
        synchronised: state.status & libc::STA_UNSYNC == 0,
    })
}

/// Has the kernel wipe a generator's page in forked children.
pub fn fork_guard() -> ForkGuard {
    fn advise(start: *mut u8, bytes: usize, advice: libc::c_int) -> bool {
        // SAFETY: the range is memory that the caller owns, whole pages of it (they are 64 KiB at
        // most), private and anonymous as all heap memory is.
        let answer = unsafe { libc::madvise(start.cast(), bytes, advice) };
        answer == 0
    }
    ForkGuard {
        protect: |start, bytes| advise(start, bytes, libc::MADV_WIPEONFORK),
        unprotect: |start, bytes| {
            // Refused only where the other advice was refused too.
            advise(start, bytes, libc::MADV_KEEPONFORK);
        },
    }
}

/// The host's name, for labels; empty if it has none.
pub fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use snowlease_core::{Format, Generator, Refusal, Tick, Window};

    use super::*;
    use crate::IdClock;

    #[test]
    fn clocks_run_and_the_kernel_has_a_view() {
        let (boot, wall) = (boot_ns(), wall_ns());
        assert!(boot > 0 && wall > 1_700_000_000_000_000_000);
        assert!(boot_ns() >= boot);
        assert!(kernel_time().is_some_and(|time| time.max_error_us >= 0));
        assert!(!host_name().is_empty());
    }

    #[test]
    fn a_forked_child_is_refused_and_its_parent_goes_on() {
        let generator = Generator::new(Format::DEFAULT, IdClock::start() as Arc<_>)
            .with_fork_guard(fork_guard());
        let window = Window::new(Format::DEFAULT.layout(), 5, Tick(0), Tick(1 << 41)).unwrap();
        generator.open(window, u64::MAX).unwrap();
        assert!(generator.notices_forks());
        let before = generator.next_id().unwrap();
        // SAFETY: the child calls nothing but the generator, which takes no lock that another
        // thread of the parent could have held at the fork, and leaves without running
        // anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = generator.next_id() == Err(Refusal::Forked)
                && generator.try_next_id() == Err(Refusal::Forked)
                && generator.next_ids_into(&mut [before; 3]) == Err(Refusal::Forked);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: `child` is the process made above, and `status` a valid place for its end.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0), "the child was given an id");
        assert!(generator.next_id().unwrap() > before);
    }
}
