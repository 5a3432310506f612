//! Why a store did not do what it was asked, and what whoever asked does next.

use std::fmt;

use snowlease_core::{Format, Tick};

use crate::CellError;
use crate::realm::RealmMismatch;

/// The store could not do what it was asked, for a reason that has nothing to do with the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Whether the call may have taken effect all the same. If so, ask again with the same
    /// secrets.
    pub unknown: bool,
    /// What happened, in words, and what to do.
    pub detail: String,
}

impl Outage {
    /// Nothing was changed.
    pub fn unavailable(detail: impl Into<String>) -> Outage {
        Outage { unknown: false, detail: detail.into() }
    }

    /// It may or may not have taken effect.
    pub fn unknown(detail: impl Into<String>) -> Outage {
        Outage { unknown: true, detail: detail.into() }
    }
}

impl From<CellError> for Outage {
    fn from(error: CellError) -> Outage {
        Outage::unavailable(error.to_string())
    }
}

/// Why no lease was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// Every generator id is held or draining. Wait until the earliest window ends, or
    /// lease from a store with a range of its own.
    Exhausted {
        /// How many generator ids there are.
        total: u64,
        /// The end of the window that ends first; `None` if all are draining.
        earliest: Option<Tick>,
    },
    /// An operator has stopped granting. Wait, or unfreeze the store.
    Frozen,
    /// The store was rolled back and waits until every forgotten window is over. Wait until
    /// `floor`.
    Quarantined {
        /// The first tick that will be granted.
        floor: Tick,
    },
    /// The holder's format is not the store's. Use the store's format.
    Format {
        /// The store's.
        store: Format,
        /// The holder's.
        asked: Format,
    },
    /// The holder belongs to another environment or plan. Point it at its own store.
    Realm(RealmMismatch),
    /// The holder's clock is off by more than [`Terms::SKEW_LIMIT`](crate::Terms::SKEW_LIMIT). Set
    /// it.
    Skew {
        /// How far ahead of the reference it is, in ms; negative if behind.
        ahead_ms: i64,
    },
    /// The clock that the lease would go by is not known to be right; see
    /// [`ClockGate`](crate::ClockGate). Have it synchronised, and ask again.
    ClockUntrusted {
        /// What its kernel says of it, in words.
        reason: String,
    },
    /// The window asked for is empty or past the time field. A mistake of the caller.
    Window {
        /// First tick asked for.
        from: Tick,
        /// First tick after.
        until: Tick,
    },
    /// Try again; see [`Outage::unknown`].
    Outage(Outage),
}

/// Why a lease was not renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenewError {
    /// The cell carries neither token: it was released, or granted to somebody else, or another
    /// copy of this holder has renewed. Stop issuing at once and acquire anew.
    NotYours {
        /// Why, in words.
        reason: &'static str,
    },
    /// The store knows less of the cell than it once confirmed: it was put back to an older state,
    /// and may have granted this generator id from an earlier tick on. It is in quarantine from
    /// now on. Stop issuing at once and acquire anew.
    RolledBack {
        /// The first tick that will be granted.
        floor: Tick,
    },
    /// The store waits after a rollback. Go on to the end of the window, then acquire anew.
    Quarantined {
        /// The first tick that will be granted.
        floor: Tick,
    },
    /// The generator id is not of this store's range. A mistake of the caller.
    OutOfRange,
    /// Try again; see [`Outage::unknown`].
    Outage(Outage),
}

/// Why a lease was not given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseError {
    /// The cell carries neither token. Nothing to do: the lease is gone.
    NotYours {
        /// Why, in words.
        reason: &'static str,
    },
    /// `unused_from` is not inside the window. A mistake of the caller; the window runs out by
    /// itself.
    OutsideWindow {
        /// First tick of the window.
        from: Tick,
        /// First tick after it.
        until: Tick,
    },
    /// The generator id is not of this store's range. A mistake of the caller.
    OutOfRange,
    /// Try again; see [`Outage::unknown`].
    Outage(Outage),
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Exhausted { total, earliest: Some(tick) } => write!(
                f,
                "all {total} generator ids are in use: the first becomes free at tick {tick}; \
                 if this recurs, start a service with a store and range of its own"
            ),
            AcquireError::Exhausted { total, earliest: None } => {
                write!(
                    f,
                    "all {total} generator ids are draining: start a service with a store and \
                     range of its own"
                )
            }
            AcquireError::Frozen => f.write_str(
                "the store is frozen by its operator: it grants no leases until that is undone",
            ),
            AcquireError::Quarantined { floor } => write!(
                f,
                "the store is in quarantine after a rollback: it grants again from tick {floor}"
            ),
            AcquireError::Format { store, asked } => write!(
                f,
                "the store's format is {store}, not {asked}: ids of both would collide; use \
                 the store's"
            ),
            AcquireError::Realm(mismatch) => mismatch.fmt(f),
            AcquireError::Skew { ahead_ms } => write!(
                f,
                "this host's clock is {} ms {} the reference clock: set it before leasing",
                ahead_ms.unsigned_abs(),
                if *ahead_ms < 0 { "behind" } else { "ahead of" }
            ),
            AcquireError::ClockUntrusted { reason } => {
                write!(f, "no lease is granted by a clock that is not known to be right: {reason}")
            }
            AcquireError::Window { from, until } => {
                write!(
                    f,
                    "no window [{from}, {until}) can be granted: it is empty or past the time field"
                )
            }
            AcquireError::Outage(outage) => outage.fmt(f),
        }
    }
}

impl fmt::Display for RenewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RenewError::NotYours { reason } => write!(f, "the lease is lost: {reason}"),
            RenewError::RolledBack { floor } => write!(
                f,
                "the lease is lost: the store was put back to an older state and is in \
                 quarantine; it grants again from tick {floor}"
            ),
            RenewError::Quarantined { floor } => write!(
                f,
                "the store is in quarantine after a rollback: it renews nothing that ends \
                 before tick {floor}"
            ),
            RenewError::OutOfRange => f.write_str("this generator id is not of the store's range"),
            RenewError::Outage(outage) => outage.fmt(f),
        }
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleaseError::NotYours { reason } => write!(f, "nothing to release: {reason}"),
            ReleaseError::OutsideWindow { from, until } => {
                write!(f, "the first unused tick must lie in the window [{from}, {until}]")
            }
            ReleaseError::OutOfRange => {
                f.write_str("this generator id is not of the store's range")
            }
            ReleaseError::Outage(outage) => outage.fmt(f),
        }
    }
}

impl std::error::Error for Outage {}
impl std::error::Error for AcquireError {}
impl std::error::Error for RenewError {}
impl std::error::Error for ReleaseError {}

impl From<Outage> for AcquireError {
    fn from(outage: Outage) -> AcquireError {
        AcquireError::Outage(outage)
    }
}

impl From<Outage> for RenewError {
    fn from(outage: Outage) -> RenewError {
        RenewError::Outage(outage)
    }
}

impl From<Outage> for ReleaseError {
    fn from(outage: Outage) -> ReleaseError {
        ReleaseError::Outage(outage)
    }
}
