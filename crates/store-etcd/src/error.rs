//! Why a store could not be opened, and what to do about it.

use std::path::PathBuf;

use snowlease_core::Format;
use snowlease_lease::{Outage, RangeError};

/// Why a store could not be opened. Nothing was granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file for TLS cannot be read. Correct its path in the address.
    #[error("{} cannot be read ({what}): correct its path in the address", path.display())]
    TlsFile {
        /// The path given.
        path: PathBuf,
        /// What the system says.
        what: String,
    },
    /// The files for TLS are of no use. Give PEM files, the key that of the certificate.
    #[error(
        "TLS cannot be set up ({what}): ca, cert and key are PEM files, and key is that of cert"
    )]
    Tls {
        /// What is wrong with them.
        what: String,
    },
    /// There is a user and no password. Give one in the address, or beside it.
    #[error(
        "there is no password for the user {user}: write USER:PASSWORD@ in the address, or \
        give it beside it"
    )]
    NoPassword {
        /// The user.
        user: String,
    },
    /// There is no store under this prefix, and none was to be made. Check the address, or make
    /// one.
    #[error(
        "there is no store under {prefix}/: check the prefix of the address, or make one with \
        `snowlease store init`"
    )]
    Missing {
        /// The prefix.
        prefix: String,
    },
    /// The store was not made to its end. Try again, or finish it.
    #[error(
        "the store under {prefix}/ is being made, or was not finished: try again, or finish it \
        with `snowlease store init`"
    )]
    Unfinished {
        /// The prefix.
        prefix: String,
    },
    /// Others have keys under the prefix. Give another prefix.
    #[error(
        "there are keys under {prefix}/ that are not of a store, such as {key}: give a prefix \
        that nobody else uses"
    )]
    Foreign {
        /// The prefix.
        prefix: String,
        /// One of the keys.
        key: String,
    },
    /// There are cells, and what the store is for is gone. Restore a backup, and quarantine it.
    #[error(
        "the store under {prefix}/ has cells and no meta: restore a backup of etcd, and tell \
        the store with `snowlease store quarantine`"
    )]
    Headless {
        /// The prefix.
        prefix: String,
    },
    /// What is stored is no store, or only a part of one.
    #[error(
        "the store under {prefix}/ is damaged ({what}): restore a backup of etcd, and tell the \
        store with `snowlease store quarantine`"
    )]
    Damaged {
        /// The prefix.
        prefix: String,
        /// What is wrong.
        what: String,
    },
    /// A newer version of this program made the store. Update this one.
    #[error(
        "the store under {prefix}/ has schema {schema}, and this program knows {known}: update \
        this program"
    )]
    Newer {
        /// The prefix.
        prefix: String,
        /// The schema found.
        schema: u64,
        /// The newest schema known.
        known: u64,
    },
    /// The store is for another format. Use the stored one: ids of both would collide.
    #[error(
        "the store under {prefix}/ is for the format {stored}, not {given}: ids of both would \
        collide; use {stored}, or another prefix for another id space"
    )]
    Format {
        /// The prefix.
        prefix: String,
        /// The format of the store.
        stored: Format,
        /// The format asked for.
        given: Format,
    },
    /// The store is for another range. Use the stored one.
    #[error("the store under {prefix}/ is for the generator ids {}-{}, not {}-{}: use the stored \
        range; to use more ids, make another store for them", stored.0, stored.1, given.0, given.1)]
    Range {
        /// The prefix.
        prefix: String,
        /// The range of the store.
        stored: (u64, u64),
        /// The range asked for.
        given: (u64, u64),
    },
    /// The range asked for is none.
    #[error(transparent)]
    BadRange(#[from] RangeError),
    /// The cluster runs a version of etcd that cannot be used. Update it.
    #[error("etcd {version} is too old: 3.4 is the oldest that works")]
    Version {
        /// What etcd says that it is.
        version: String,
    },
    /// The cluster cannot be used now. Do what it says, and try again.
    #[error(transparent)]
    Cluster(#[from] Outage),
    /// The system refused something.
    #[error("the store cannot be opened: {what}")]
    System {
        /// What was refused.
        what: String,
    },
}
