//! The remote store against services and against peers that misbehave.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails as its test does")]

mod conformance;
mod faults;
mod support;
