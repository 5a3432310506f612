//! What is written down of a holder whose clocks are faked, and the time that nobody fakes.

pub mod record;

/// Nanoseconds on `CLOCK_MONOTONIC`: the true time, in the tests and in the processes they start.
/// No fake moves it, and on a machine that is not suspended it runs as the boot clock does.
pub fn true_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusive place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(ns).unwrap_or(0)
}
