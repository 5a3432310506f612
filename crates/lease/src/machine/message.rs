//! What a machine is told and what it says: its states, events and commands.

use snowlease_core::{Closed, Tick, Window};

use crate::{Acquire, AcquireError, Grant, Release, ReleaseError, Renew, RenewError, Renewal};

/// Where a holder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started, or stopped and released.
    Idle,
    /// Wants a lease and never had one.
    Acquiring,
    /// Has a lease.
    Held,
    /// Has a lease that is being drained, and wants another.
    Draining,
    /// Had a lease, lost it, and wants another.
    Lost,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Ids are wanted from now on.
    Start,
    /// Time has passed; see [`Machine::wake_ns`](super::Machine::wake_ns).
    Wake,
    /// The store answered [`Command::Acquire`].
    Acquired(Result<Grant, AcquireError>),
    /// The store answered [`Command::Renew`].
    Renewed(Result<Renewal, RenewError>),
    /// The store answered [`Command::Release`].
    Released(Result<(), ReleaseError>),
    /// The generator closed a lease, on [`Command::Close`] or by [`Command::Open`] of another.
    Closed(Closed),
    /// No more ids are wanted.
    Stop,
}

/// What is to be done, in this order.
#[derive(Clone, Debug)]
pub enum Command {
    /// Ask the store; answer with [`Event::Acquired`].
    Acquire(Acquire),
    /// Ask the store; answer with [`Event::Renewed`].
    Renew(Renew),
    /// Ask the store; answer with [`Event::Released`].
    Release(Release),
    /// Open the generator for a window; if that closes another lease, answer with
    /// [`Event::Closed`].
    Open {
        /// Where it may issue.
        window: Window,
        /// Reading of the boot clock from which it may not.
        deadline_ns: u64,
    },
    /// Move the end of the open window.
    Extend {
        /// First tick that may not be used.
        until: Tick,
        /// Reading of the boot clock from which nothing may be issued.
        deadline_ns: u64,
    },
    /// Close the generator; answer with [`Event::Closed`].
    Close,
}
