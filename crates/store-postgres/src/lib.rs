//! Leases in PostgreSQL 15 or later, for whoever has it already.
//!
//! What makes it a correct store:
//!
//! * each operation is one statement, which locks its rows, reads the server's clock after that,
//!   judges by the conditions of [`rules`](snowlease_lease::rules) and writes: one transaction of
//!   its own, synced at commit whatever the server is set to;
//! * a commit that a synchronous standby may have missed counts as unknown, and the answer that was
//!   asked for again is committed again before it is given;
//! * what an operator changes in the store as a whole waits until no grant is under way, and keeps
//!   new ones waiting: freeze and quarantine lie between two grants, never inside one. That holds
//!   in READ COMMITTED: each statement that writes asks for it, and writes nothing in a session
//!   where a pooler has kept our settings from it;
//! * the identities of the cluster and of the table and the timeline are recorded and compared: a
//!   promoted standby, a restored backup and a restored dump quarantine the store by themselves; an
//!   older copy of the files, which keeps all three, shows in the pulse or to a holder that knows
//!   more;
//! * who has seen a later timeline never goes back to a server that is behind it;
//! * no session state is relied upon but prepared statements, no advisory lock is taken, no row is
//!   ever deleted.
//!
//! The store takes a schema (`snowlease`) and wants a user of its own: a pooler that shares
//! sessions between users would share the settings of its connection.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use snowlease_store_postgres::{Address, Init, Open, PostgresStore};
//!
//! let address: Address = "postgres://ids:secret@db-1,db-2/ids".parse()?;
//! PostgresStore::init(&address, &Init::default())?;
//! let (store, opened) = PostgresStore::open(&address, &Open::default())?;
//! # let _ = (store, opened);
//! # Ok(())
//! # }
//! ```
//!
//! Read `address` (the URL), `session` (one connection), `shared` (what is checked whenever one is
//! made), `link` (from a blocking call to the connection and back in time), then `sql` (the
//! statements), `grant` and `renew` (what is done when they change nothing).

mod address;
mod admin;
mod each;
mod error;
mod fault;
mod grant;
mod link;
mod open;
mod renew;
mod row;
mod schema;
mod session;
mod shared;
mod sql;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;

pub use address::{Address, AddressError, Secret};
pub use error::OpenError;
pub use open::{Init, Initialised, Open, Opened};
/// A clock in place of the server's, for tests.
pub use snowlease_lease::WallClock as Clock;
pub use store::PostgresStore;
