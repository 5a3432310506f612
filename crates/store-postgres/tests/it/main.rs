//! The store over real servers, used as another package would, and through what happens to servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod conformance;
