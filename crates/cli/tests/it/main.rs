//! The built executable, called as a person or a script calls it.

#![expect(clippy::expect_used, clippy::panic, reason = "a helper of a test fails as a test does")]

mod run;
mod service;

mod config;
mod crashes;
mod decode;
mod fleet;
mod layout;
mod next;
mod range;
mod serve;
mod start;
mod store;
