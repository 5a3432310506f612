//! Leases in etcd 3.4 to 3.7: every operation is one transaction, and nothing is decided from a
//! read.
//!
//! What makes it a correct store:
//!
//! * each decision of [`rules`](snowlease_lease::rules) is a transaction of etcd whose compares
//!   contain all that it was decided from: the whole cell and its number of changes, and the whole
//!   of what the store is for. etcd orders transactions that put something with all others, and
//!   makes each on a majority's disks before it is answered;
//! * no lease of etcd's own is attached to any key: an expiring key would take the high-water mark
//!   of its generator id with it. Cells are made once and never deleted;
//! * a transaction whose outcome is unknown is sent again byte by byte. If it was made, its
//!   compares fail, and what they find tells so;
//! * etcd orders what it has, not what a backup forgot. So a store that shows an older state than
//!   it confirmed, or that nobody has used for long, is put into quarantine.
//!
//! Read `keys` (what is stored), then `acquire` and `change` (the transactions), then `open`.

mod acquire;
mod address;
mod admin;
mod candidates;
mod change;
mod core;
mod create;
mod damaged;
mod error;
mod grant;
mod guard;
mod history;
mod inspect;
mod keys;
mod net;
mod open;
mod proto;
mod record;
mod scan;
mod store;
mod sweep;
#[cfg(feature = "testing")]
pub mod testing;
mod txn;

pub use address::{Address, AddressError, Secret};
pub use error::OpenError;
pub use open::{Open, Opened};
/// The host's wall clock, or one that a test sets.
pub use snowlease_lease::WallClock as Clock;
pub use store::EtcdStore;
