//! The end of one operation of the store, on a clock that counts suspend.

use std::time::Duration;

use snowlease_core::clock::nanos;
use snowlease_lease::os;

/// When an operation has to be answered, whatever the network does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(u64);

impl Deadline {
    pub(crate) fn within(time: Duration) -> Deadline {
        Deadline(os::boot_ns().saturating_add(nanos(time)))
    }

    /// The time that is left.
    pub(crate) fn left(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(os::boot_ns()))
    }
}
