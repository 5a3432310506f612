//! The facade as an application uses it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod faults;
mod forked;
mod forks;
mod http;
mod memory;
mod processes;
mod served;
mod sqlite;
mod unblocked;
