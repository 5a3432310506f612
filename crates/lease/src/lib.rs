//! Who may use which generator id, until when.
//!
//! A lease is a window of id ticks. The store serialises grants and never lets two windows of one
//! generator id overlap; the holder's generator never composes an id outside its window. So
//! uniqueness is a property of the data, and clocks decide only how soon ids flow.
//!
//! Read [`machine`] (what a holder decides, a pure function), then [`store`] (what a store
//! promises), then one store. [`rules`] are the decisions every store makes alike; [`keeper`] is
//! the shell that runs the machine on a thread of its own. The invariants I1 to I6 cited here are
//! listed in `docs/guarantees.md`.

mod alarm;
pub mod asking;
pub mod cell;
pub mod gate;
pub mod guard;
pub mod holder;
mod housekeeper;
pub mod id_clock;
pub mod keeper;
pub mod machine;
pub mod os;
pub mod per_process;
pub mod plan;
pub mod pool;
pub mod process;
pub mod range;
pub mod realm;
pub mod rules;
pub mod store;
pub mod terms;
#[cfg(feature = "testing")]
pub mod testing;
mod ticker;
pub mod token;
pub mod verify;
pub mod vm_clock;
pub mod wall_clock;

pub use cell::{Cell, CellError};
pub use gate::{ClockGate, Gated};
pub use guard::{PulseGuard, RollbackGuard};
pub use holder::{Holder, HolderError};
pub use id_clock::{ClockStatus, ClockTerms, ClockTermsError, IdClock};
pub use keeper::{Keeper, NotReady, NotReleased, State, Status};
pub use per_process::PerProcess;
pub use plan::{Plan, PlanError, PlannedRange};
pub use pool::{CellState, Pool};
pub use process::Process;
pub use range::RangeError;
pub use realm::{PlanHash, Realm, RealmError, RealmMismatch};
pub use store::{
    Acquire, AcquireError, Administer, Carries, Grant, LeaseEntry, LeaseStore, Meta, Mode, Outage,
    Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus,
};
pub use terms::{Terms, TermsError};
pub use ticker::ticking;
pub use token::{RequestKey, Token, TokenHash};
pub use verify::{Finding, Verified};
pub use wall_clock::WallClock;
