//! The store in etcd, used as another package would, on real clusters that are abused as networks,
//! disks and operators do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod conformance;
