//! What a store promises: the seam between leases and whatever serialises them.
//!
//! The trait is blocking: a holder calls it from a thread of its own, so that nothing on an
//! application's executor can starve a renewal, and a service calls it from its blocking threads.
//! Every method returns within the time of one attempt that the store was made with (an acquire
//! within the asker's patience, if that is longer), whatever the network does; a disk that hangs in
//! a sync is the one thing that a store in a file cannot bound.
//!
//! The decisions themselves are the same everywhere and live in [`rules`](crate::rules); a store
//! makes each of them one atomic step. [`testing::suite`](crate::testing) checks all of this on any
//! store.

mod failure;

use std::fmt;
use std::time::Duration;

use snowlease_core::{Format, Tick};

use crate::realm::{PlanHash, Realm};
use crate::verify::Verified;
use crate::{Holder, RequestKey, Token, TokenHash};

pub use self::failure::{AcquireError, Outage, ReleaseError, RenewError};

/// Grants, renews and takes back leases.
pub trait LeaseStore: fmt::Debug + Send + Sync {
    /// What this store is for, and how it stands.
    ///
    /// # Correct only if
    ///
    /// the format and range are those every grant is checked against. Nothing is decided from the
    /// rest.
    ///
    /// # Errors
    ///
    /// [`Outage`]: try again.
    fn status(&self) -> Result<StoreStatus, Outage>;

    /// Grants a free generator id, the one that has been free longest if the store can tell.
    ///
    /// # Correct only if
    ///
    /// * the checks of [`rules::acquire`](crate::rules::acquire) and the write are one atomic step
    ///   against every other call on the same cell;
    /// * before any free cell is taken, it was looked for one that carries the key's token already,
    ///   and that one is answered instead: asking again never takes a second generator id;
    /// * the grant survives loss of power of the store before this returns `Ok`.
    ///
    /// # Shape and units
    ///
    /// `from` and `until` are ticks of the store's format. The window granted may begin later or
    /// end earlier than asked; only what is answered may be used.
    ///
    /// # Errors
    ///
    /// See [`AcquireError`]. After [`Outage::unknown`] ask again with the same key.
    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError>;

    /// Moves `until` of a held cell up.
    ///
    /// # Correct only if
    ///
    /// * the checks of [`rules::renew`](crate::rules::renew) and the write are one atomic step: a
    ///   compare of the whole cell and a put, never "the token matches, set `until`";
    /// * the new cell survives loss of power of the store before this returns `Ok`.
    ///
    /// # Shape and units
    ///
    /// The answer is the cell as it stands: extended as asked, extended less (a service clamps
    /// windows to its own clock), or unchanged (nothing to extend, or the cell was changed
    /// beside the holder and is still its own). The holder adopts it.
    ///
    /// # Errors
    ///
    /// See [`RenewError`]. After [`Outage::unknown`] ask again with the same `next`.
    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError>;

    /// Cuts a window at the first tick that was not used, and frees the generator id.
    ///
    /// # Correct only if
    ///
    /// the checks of [`rules::release`](crate::rules::release) and the write are one atomic step.
    /// The caller has closed its gate before: it never uses a tick from `unused_from` on.
    ///
    /// # Errors
    ///
    /// See [`ReleaseError`]. After [`Outage::unknown`] ask again; "not yours" then means that it is
    /// done.
    fn release(&self, ask: &Release) -> Result<(), ReleaseError>;

    /// Many asks at once, in as few transactions of the store as it can. The answers are those that
    /// [`acquire`](Self::acquire) would give, in the order of the asks, each of which has a request
    /// key of its own.
    fn acquire_each(&self, asks: &[Acquire]) -> Vec<Result<Grant, AcquireError>> {
        asks.iter().map(|ask| self.acquire(ask)).collect()
    }

    /// As [`acquire_each`](Self::acquire_each), for renewals, each of a generator id of its own.
    fn renew_each(&self, asks: &[Renew]) -> Vec<Result<Renewal, RenewError>> {
        asks.iter().map(|ask| self.renew(ask)).collect()
    }

    /// Every cell that is held or draining or was ever granted, by generator id. Tokens never leave
    /// a store.
    ///
    /// # Errors
    ///
    /// [`Outage`]: try again.
    fn list(&self) -> Result<Vec<LeaseEntry>, Outage>;
}

/// What an operator may do to a store. Nothing here deletes a cell or forces a reclaim: waiting for
/// a window to end is always safe.
pub trait Administer: LeaseStore {
    /// Marks a generator id as draining, or takes the mark back: it is not granted again, and its
    /// holder moves to another one at its next renewal.
    ///
    /// # Errors
    ///
    /// [`Outage`]; an unknown generator id is one with `detail` saying so.
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage>;

    /// Stops or resumes granting. Holders go on renewing.
    ///
    /// # Errors
    ///
    /// [`Outage`]: try again.
    fn set_mode(&self, mode: Mode) -> Result<(), Outage>;

    /// Raises the floor to `max(floor, at_least, every stored until)`, and returns it. While the
    /// floor is above a cell's `until`, that cell is neither granted nor renewed.
    ///
    /// Cells that are draining do not count: one whose mark lies far ahead, since its holder's
    /// clock once did, is drained so that it does not hold up all others. It keeps its mark.
    ///
    /// # Correct only if
    ///
    /// it is one atomic step with respect to grants and renewals, and the floor never falls (I6).
    ///
    /// # Errors
    ///
    /// [`Outage`]: try again; a floor raised twice does no harm.
    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage>;

    /// Takes over a new version of the plan. Holders that were started with the one before are
    /// granted leases still, so that a fleet can be restarted in turn; those of an older one are
    /// not.
    ///
    /// # Errors
    ///
    /// [`Outage`]: try again; the same plan given twice does no harm.
    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage>;

    /// Checks everything that the store holds, and its history where it is kept, against I1, I2
    /// and I6. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Outage`]: the store cannot be read now; try again. What is wrong with it is a finding.
    fn verify(&self) -> Result<Verified, Outage>;
}

/// What a store was made for. Written once; the floor and mode change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The one format of every id issued under this store.
    pub format: Format,
    /// The first and the last generator id it grants.
    pub range: (u64, u64),
    /// Whether it grants.
    pub mode: Mode,
    /// No window begins below this tick, and none that ends below it is renewed.
    pub floor: Tick,
    /// The longest window ever granted, in ticks: how long a forgotten holder may go on.
    pub longest_window: u64,
    /// The region its generator ids are for, for people; may be empty.
    pub region: String,
    /// Where it belongs: checked inside every grant.
    pub realm: Realm,
    /// The plan before this one, which holders may state still.
    pub previous_plan: Option<PlanHash>,
}

impl Meta {
    /// What a new store of no realm is made for.
    pub fn new(format: Format, range: (u64, u64)) -> Meta {
        Meta {
            format,
            range,
            mode: Mode::Open,
            floor: Tick(0),
            longest_window: 0,
            region: String::new(),
            realm: Realm::default(),
            previous_plan: None,
        }
    }
}

/// Whether a store grants leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Open,
    /// An operator has stopped it; renewals go on.
    Frozen,
}

/// How a store stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// What sort of store: `sqlite`, `memory`, …
    pub kind: String,
    /// What it was made for.
    pub meta: Meta,
    /// When a lease was last granted or renewed, in Unix ms, if the store tells.
    pub pulse_ms: Option<i64>,
    /// Findings a person should know of, in words; empty if all is well.
    pub alarms: Vec<String>,
}

/// Asks for a lease.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Made by the holder for this acquire; the token of the grant follows from it.
    pub request_key: RequestKey,
    /// First tick wanted: the holder's now.
    pub from: Tick,
    /// First tick not wanted.
    pub until: Tick,
    /// The format the holder issues by; checked inside the grant.
    pub format: Format,
    /// Where the holder belongs, as far as it knows; checked inside the grant.
    pub realm: Realm,
    /// Who asks, for people.
    pub holder: Holder,
    /// How long the asker can wait, if that is longer than an attempt: one that has no lease to
    /// renew loses nothing by waiting, and a herd that asks again and again while it is being
    /// answered only keeps the store from answering.
    pub patience: Duration,
    /// The asker's wall clock, in Unix ms: a service compares it with its own.
    pub now_ms: i64,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The generator id that was granted.
    pub generator_id: u64,
    /// First tick that may be used.
    pub from: Tick,
    /// First tick that may not be used.
    pub until: Tick,
    /// The cell's number of changes, to be shown at the renewal.
    pub seq: u64,
    /// The generator id is being drained: move to another one.
    pub draining: bool,
    /// The store's or service's clock when it answered, in Unix ms, if it has one of its own.
    pub reference_ms: Option<i64>,
}

/// Asks for a longer window.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The generator id held.
    pub generator_id: u64,
    /// The token of the grant or of the last renewal.
    pub token: Token,
    /// The `seq` of the last answer.
    pub seq: u64,
    /// Hash of the token from now on, which only the holder knows; the same in every attempt from
    /// one base. The hash of `token` keeps it.
    pub next: TokenHash,
    /// First tick not wanted.
    pub until: Tick,
    /// The asker's wall clock, in Unix ms, when this attempt was sent.
    pub now_ms: i64,
}

/// The cell as it stands after a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// First tick that may not be used.
    pub until: Tick,
    /// To be shown at the next renewal.
    pub seq: u64,
    /// Which token the cell carries now.
    pub token: Carries,
    /// The generator id is being drained: move to another one.
    pub draining: bool,
    /// As in [`Grant`].
    pub reference_ms: Option<i64>,
}

/// Which of the two tokens of a renewal the cell carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// [`Renew::token`]: this renewal did not take place (yet); ask again from the answered `seq`.
    Token,
    /// [`Renew::next`]: it did, now or at an earlier attempt.
    Next,
}

/// Gives a lease back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The generator id held.
    pub generator_id: u64,
    /// The token that was valid last, as far as the holder knows.
    pub token: Token,
    /// The `next` of a renewal whose outcome is unknown.
    pub next: Option<Token>,
    /// The `seq` of the last answer.
    pub seq: u64,
    /// The first tick that was not used; nothing from here on ever will be.
    pub unused_from: Tick,
}

/// A cell as it may be shown: everything but the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseEntry {
    /// The generator id.
    pub generator_id: u64,
    /// First tick of the window.
    pub from: Tick,
    /// First tick after the window.
    pub until: Tick,
    /// Number of changes.
    pub seq: u64,
    /// Whether somebody's token is in the cell.
    pub held: bool,
    /// Whether it is being drained.
    pub draining: bool,
    /// When it was granted, Unix ms.
    pub granted_at_ms: i64,
    /// Who holds it.
    pub holder: Holder,
}
