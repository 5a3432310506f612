//! The embedded lease store: one SQLite file, durable at commit, for one process on one machine.
//!
//! What makes it a correct store:
//!
//! * each decision of [`rules`](snowlease_lease::rules) is one `BEGIN IMMEDIATE` transaction: read
//!   the cell, decide, put the new cell by compare with the old bytes, commit;
//! * in WAL mode with `synchronous=FULL` the log is synced before a commit returns, so an answer
//!   that was given survives a crash of the process and of the machine;
//! * a lock file and SQLite's exclusive lock keep every other process out;
//! * a file that was copied is refused, and an older copy that was put back is found by the witness
//!   file beside it and quarantined; so is a store without its log or its witness. A whole folder
//!   put back, witness included, cannot be told from the truth.
//!
//! Read `open` (what is checked before anything is granted), `create` (how a store comes to be),
//! then `engine` (a transaction and what becomes of its errors), then `store` (the trait).

mod create;
mod engine;
mod error;
mod files;
mod identity;
mod lock;
mod mutexes;
mod open;
mod rollback;
mod schema;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod witness;

pub use error::OpenError;
pub use open::{Open, Opened};
/// The host's wall clock, or one that a test sets.
pub use snowlease_lease::WallClock as Clock;
pub use store::SqliteStore;
