//! Waiting for other processes, which nothing else could tell of.

use std::sync::mpsc::channel;
use std::time::Duration;

use snowlease_lease::os;

/// Waits for as long.
pub(crate) fn pause(time: Duration) {
    let (_keep, never) = channel::<()>();
    let _ = never.recv_timeout(time);
}

/// Waits until something has come true, and answers whether it has in time.
pub(crate) fn wait_for(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Since::now();
    while !done() {
        if begun.elapsed() > patience {
            return false;
        }
        pause(Duration::from_millis(50));
    }
    true
}

/// A moment, to measure from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since(u64);

impl Since {
    pub(crate) fn now() -> Since {
        Since(os::boot_ns())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(os::boot_ns().saturating_sub(self.0))
    }
}
