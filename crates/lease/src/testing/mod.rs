//! What tests of leases need: a store in memory.

mod memory;

pub use memory::{MemoryStore, Snapshot};
