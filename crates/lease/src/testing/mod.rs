//! What tests of leases need: a store in memory, a store behind a bad network, an oracle, and the
//! conformance suite that every store runs.

mod faulty;
mod host;
mod insistent;
mod memory;
mod oracle;
mod random;
mod referenced;
pub mod suite;
#[cfg(test)]
mod tests;
mod time;

pub use faulty::{Fault, FaultyStore, Rates};
pub use host::{Guard, Host};
pub use insistent::InsistentStore;
pub use memory::{MemoryStore, Snapshot};
pub use oracle::{Breach, Windows};
pub use random::Random;
pub use referenced::Referenced;
pub use time::ScriptedTime;
