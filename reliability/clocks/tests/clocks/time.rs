//! The true time, as this process knows it, and waiting.

use std::time::Duration;

use snowlease_clocks::true_ns;
use snowlease_lease::os;

/// What a healthy run never comes near; a test that waits longer fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The true wall clock at any true time. This process runs without fakes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrueTime {
    /// Unix time minus true time, in ns.
    offset_ns: i128,
}

impl TrueTime {
    pub(crate) fn look() -> TrueTime {
        // The tightest of some pairs: a pair torn by a lost core is not the tightest.
        let pair = || {
            let before = true_ns();
            let wall_ns = os::wall_ns();
            let apart = true_ns() - before;
            (apart, wall_ns - i128::from(before + apart / 2))
        };
        let (_, offset_ns) = (0..16).map(|_| pair()).min().expect("there are some");
        TrueTime { offset_ns }
    }

    pub(crate) fn unix_ms(self, true_ns: u64) -> i64 {
        let ms = (i128::from(true_ns) + self.offset_ns).div_euclid(1_000_000);
        i64::try_from(ms).expect("it is this century")
    }

    pub(crate) fn now_ms(self) -> i64 {
        self.unix_ms(true_ns())
    }
}

pub(crate) fn pause(time: Duration) {
    let until_ns = after(time);
    while true_ns() < until_ns {
        std::thread::park_timeout(Duration::from_nanos(until_ns - true_ns().min(until_ns)));
    }
}

/// The true time in a while.
pub(crate) fn after(time: Duration) -> u64 {
    true_ns() + ns(time)
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("it is short")
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Waits until something holds; `what` it is, for who reads of the failure.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until_ns = after(PATIENCE);
    while !holds() {
        assert!(true_ns() < until_ns, "it does not come to that: {what}");
        pause(ms(20));
    }
}
