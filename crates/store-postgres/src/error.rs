//! Why a store was not opened or made, with what to do.

use snowlease_core::Format;
use snowlease_lease::{Outage, RangeError};

use crate::address::Address;
use crate::schema::{Kind, VERSION};

/// Why a store cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no store yet. Make it.
    #[error("there is no store at {address}: run `snowlease store init --store URL` to make it")]
    Missing {
        /// Where.
        address: String,
    },
    /// The schema has tables that are not ours. Choose another schema.
    #[error(
        "the schema at {address} has tables of another program: name one of its own, as \
         ?schema=NAME"
    )]
    Foreign {
        /// Where.
        address: String,
    },
    /// The tables are of an older version. Migrate them.
    #[error(
        "the store at {address} has schema version {version}, this program needs {VERSION}: run \
         `snowlease store init --store URL` to bring it up to date"
    )]
    Older {
        /// Where.
        address: String,
        /// The version found.
        version: i32,
    },
    /// The tables are of a newer version. Update this program.
    #[error(
        "the store at {address} has schema version {version}, this program knows {VERSION}: \
         update this program"
    )]
    Newer {
        /// Where.
        address: String,
        /// The version found.
        version: i32,
    },
    /// The row about the store is gone. Restore it.
    #[error(
        "the store at {address} has lost the row about itself: restore its table meta from a \
         backup, and then run `snowlease store quarantine`"
    )]
    NoMeta {
        /// Where.
        address: String,
    },
    /// The store was made for another format. Use the store's, or another store.
    #[error(
        "the store is for the format {stored}, not {given}: ids of both would collide; leave the \
         format out to use the store's, or name another store"
    )]
    Format {
        /// The store's.
        stored: Format,
        /// The one asked for.
        given: Format,
    },
    /// The store was made for another range. Use the store's, or another store.
    #[error(
        "the store grants the generator ids {}-{}, not {}-{}: leave the range out to use the \
         store's, or name another store",
        stored.0, stored.1, given.0, given.1
    )]
    Range {
        /// The store's, first and last.
        stored: (u64, u64),
        /// The one asked for.
        given: (u64, u64),
    },
    /// The range asked for is none.
    #[error(transparent)]
    NoRange(#[from] RangeError),
    /// PostgreSQL cannot be reached or refuses.
    #[error("{0}")]
    Outage(Outage),
    /// The system gives no thread. Raise its limits.
    #[error("no thread for the connection ({0}): raise the limits of this process")]
    Thread(String),
}

impl OpenError {
    /// What is wrong with what a schema holds; `None`: nothing.
    pub(crate) fn of_kind(kind: Kind, address: &Address) -> Option<OpenError> {
        let address = address.to_string();
        match kind {
            Kind::Missing => Some(OpenError::Missing { address }),
            Kind::Foreign => Some(OpenError::Foreign { address }),
            Kind::Ours(version) if version < VERSION => Some(OpenError::Older { address, version }),
            Kind::Ours(version) if version > VERSION => Some(OpenError::Newer { address, version }),
            Kind::Ours(_) => None,
        }
    }
}

impl From<Outage> for OpenError {
    fn from(outage: Outage) -> OpenError {
        OpenError::Outage(outage)
    }
}
