//! Every call of the contract, through the router and over a socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails as its test does")]

mod admin;
mod bounds;
mod decode;
mod faults;
mod ids;
mod leases;
mod probes;
mod secrets;
mod serving;
mod support;
