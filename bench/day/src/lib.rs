//! The parts of a day of a fleet: generators under real leases, a check of every id, and figures
//! that are held to their bounds.

mod checker;
mod fleet;
mod histogram;
mod process;
mod report;

pub use checker::{Checker, Fault, Ticks};
pub use fleet::{Fleet, Leased};
pub use histogram::Histogram;
pub use process::{Memory, Stolen, processor_ns};
pub use report::Report;
