//! Unique, roughly time-ordered 64-bit ids from leased generator ids.
//!
//! An application connects once, and from then on an id is a function call: no request, no lock. In
//! the background the connection keeps a generator id leased, so that no other process has the same
//! one, and recovers by itself when the store was away.
//!
//! ```
//! let ids = snowlease::blocking::connect("memory:")?; // or http://ids.internal:8700, sqlite:PATH
//! let id: snowlease::Id = ids.next_id()?;
//! let many = ids.next_ids(1000)?;
//! assert!(many.iter().all(|later| *later > id));
//! ids.shutdown_blocking()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | URL | store | for |
//! |---|---|---|
//! | `http://HOST:PORT` | a lease service, `snowlease serve` | many processes and machines |
//! | `etcd://HOST,HOST/PREFIX` | etcd 3.4 to 3.7, with the feature `etcd` | many processes and machines |
//! | `postgres://USER@HOST/DATABASE` | PostgreSQL 15 or later, with the feature `postgres` | many processes and machines |
//! | `sqlite:PATH` | a file this process alone has open | one process on one machine |
//! | `memory:` or `memory:NAME` | memory of this process, forgotten with it | tests |
//!
//! What is promised, and what it leans on, is in `docs/guarantees.md`.

mod connect;
mod ids;
mod local;
mod offload;
mod own;
mod pool;
mod store;

pub use snowlease_core::{
    Format, FormatError, Id, IdError, IdParts, IdSpan, Layout, LayoutError, Refusal, SpanError,
    TextError, TextForm, Tick, TickError,
};
pub use snowlease_lease::keeper::Outcomes;
pub use snowlease_lease::{
    ClockGate, ClockStatus, ClockTerms, ClockTermsError, Holder, Meta, Mode, NotReady, NotReleased,
    Outage, PlanHash, Realm, RealmError, State, Status, StoreStatus, Terms, TermsError,
};

pub use connect::{ConnectError, Connector};
pub use ids::Ids;
pub use local::LocalIds;
pub use pool::Pool;

/// Connects to a store and waits until ids can be issued, without blocking the executor.
///
/// Works under any async runtime, or none. [`Connector`] has the settings.
///
/// # Errors
///
/// [`ConnectError`]: the URL is wrong, the store cannot be opened, or no lease was had in 10 s.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let ids = snowlease::connect("memory:").await?;
/// let id = ids.next_id()?;
/// # assert!(id.get() > 0);
/// ids.shutdown().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn connect(url: &str) -> Result<Ids, ConnectError> {
    Connector::new(url).connect().await
}

/// The same for programs without an async runtime.
pub mod blocking {
    use crate::{ConnectError, Connector, Ids};

    /// Connects to a store and blocks until ids can be issued.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect).
    pub fn connect(url: &str) -> Result<Ids, ConnectError> {
        Connector::new(url).connect_blocking()
    }
}
