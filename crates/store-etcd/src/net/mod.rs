//! Speaking to etcd: calls with a deadline, over whichever endpoint answers.
//!
//! Read `client` (one call, over all endpoints), then `slot` (one endpoint), then `trouble` (what
//! each failure means for what was asked).

mod call;
mod client;
mod deadline;
mod io;
mod once;
mod seen;
mod slot;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod trouble;

pub(crate) use client::{Client, Written};
pub(crate) use deadline::Deadline;
pub(crate) use trouble::{Kind, Trouble};
