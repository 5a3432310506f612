//! The seam to time: what a generator asks of a clock, and clocks written by a script.
//!
//! A generator reads time in two ways. On its cold path it asks the *id clock* for a [`Moment`]. On
//! its hot path it only asks whether the tick it published is still running, by a cheap counter
//! that rises at a constant rate (the [`Gauge`]). Neither is ever read from the system here; the
//! one door to the system's clocks is in the lease crate.

mod scripted;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

pub use self::scripted::ScriptedClock;

/// One reading of the id clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Whole Unix milliseconds on the id clock; negative before 1970.
    pub unix_ms: i64,
    /// Nanoseconds into that millisecond, 0 to 999,999.
    pub sub_ms_ns: u32,
    /// The same instant on a clock that starts at boot, never steps and counts suspend, in ns.
    pub boot_ns: u64,
}

/// How a generator may check cheaply that its tick is still running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// The processor's own counter (TSC, virtual counter) at this rate. To be offered only where
    /// the kernel itself keeps time by it.
    Counter {
        /// Counts per second.
        hz: u64,
    },
    /// [`Clock::read_gauge`] on every call, at this rate.
    Clock {
        /// Counts per second.
        hz: u64,
    },
}

impl Gauge {
    /// The boot clock: right everywhere, and dearer than a counter.
    pub const BOOTTIME: Gauge = Gauge::Clock { hz: 1_000_000_000 };
}

/// Nothing is to be issued for a while: the wall clock was set, and that is being confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// By how much the wall clock was set, in ms; negative if back.
    pub by_ms: i64,
    /// The reading of the boot clock from which issuing goes on, whatever has come of it.
    pub until_boot_ns: u64,
}

/// An id clock: it advances with the boot clock and never falls.
///
/// # Correct only if
///
/// * [`boot_ns`](Clock::boot_ns) never falls and counts suspend;
/// * [`now`](Clock::now) reads both of its parts at one instant.
///
/// Uniqueness (G1) does not rest on any of this, only order and the stop before expiry (G2, G3,
/// G4).
pub trait Clock: fmt::Debug + Send + Sync {
    /// Reads the clock. Cost: one read of the boot clock.
    fn now(&self) -> Moment;

    /// Reads the boot clock alone, in nanoseconds.
    fn boot_ns(&self) -> u64 {
        self.now().boot_ns
    }

    /// The gauge to use; asked when a generator is made, and when it is told to look anew.
    fn gauge(&self) -> Gauge {
        Gauge::BOOTTIME
    }

    /// Reads the gauge of [`Gauge::Clock`]: the boot clock, unless a test scripts a counter.
    fn read_gauge(&self) -> u64 {
        self.boot_ns()
    }

    /// Whether issuing is to pause; looked at once a tick. Cost: a load or two.
    fn pause(&self) -> Option<Pause> {
        None
    }

    /// A number that changes when the machine was restored from a snapshot or moved, where
    /// something keeps one; looked at by every call.
    fn marker(&self) -> Option<&'static AtomicU64> {
        None
    }
}

/// A duration in whole nanoseconds, the unit of the boot clock; `u64::MAX` if it is longer.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the processor's counter; `None` where this build knows none.
#[inline]
pub fn read_counter() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no preconditions and touches no memory; a kernel that forbids it in
        // user mode does not offer the TSC as its clock source, and then no gauge names it.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: reads the virtual counter, which Linux lets user mode read; touches no memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        Some(count)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        None
    }
}
