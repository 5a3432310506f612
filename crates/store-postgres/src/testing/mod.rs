//! Real servers, the ways in which they fail, and a new store for each check of the conformance
//! suite.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a helper of tests fails as a test does: by panicking"
)]

mod certificates;
mod programs;
mod proxy;
mod server;
mod suite;

use std::sync::mpsc::channel;
use std::time::Duration;

use snowlease_lease::os;

pub use certificates::Certificates;
pub use proxy::{Passage, Proxy};
pub use server::{Kind, PASSWORD, Server, Session, USER};
pub use suite::NewSchema;

/// Waits until something has come true, and answers whether it has in time.
pub fn wait(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = os::boot_ns();
    while !done() {
        if Duration::from_nanos(os::boot_ns() - begun) > patience {
            return false;
        }
        pause(Duration::from_millis(20));
    }
    true
}

/// Waits for as long: between two looks at a process or the network, which have no event to wait
/// for.
pub fn pause(time: Duration) {
    let (_keep, never) = channel::<()>();
    let _ = never.recv_timeout(time);
}
