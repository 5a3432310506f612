//! Real processes, each under clocks of its own: libfaketime moves the wall clock, a small preload
//! library the boot clock, SIGSTOP the process itself. `cargo xtask test` builds what they need and
//! runs them beside each other, since a scenario is mostly waiting.
//!
//! What is judged is what callers were given, by a clock that nothing fakes: see `judge.rs`.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of a test fails as a test does")]

mod edges;
mod fakes;
mod holder;
mod idle;
mod judge;
mod process;
mod rates;
mod scene;
mod service;
mod starts;
mod steps;
mod suspend;
mod time;
mod zones;
