//! The contract on the wire: what is sent and answered over HTTP, as types. No behaviour.
//!
//! Ids and tokens are always strings, because numbers lose digits in other languages; ticks are
//! integers of the announced format; names that end in `_ms` are milliseconds, since 1970 if they
//! name an instant. A request refuses members that it does not know, an answer may gain some: a
//! client ignores what it does not know. Every error is a [`Problem`] with a stable [`Code`].

mod admin;
mod format;
mod ids;
mod leases;
pub mod problem;
mod store;
pub mod time;

pub use admin::{AdminAsk, Drained, Finding, ModeSet, Quarantined, Verified};
pub use format::{FormatAsk, FormatDoc, FormatDocError};
pub use ids::{Decoded, IdRange, Ids, Texts};
pub use leases::{
    Carries, Lease, LeaseAsk, LeaseLine, Leases, ReleaseAsk, Released, RenewAsk, Renewed, Secret,
    State,
};
pub use problem::{Code, Problem};
pub use store::{Mode, Ready, StoreDoc};
pub use time::TimeError;
