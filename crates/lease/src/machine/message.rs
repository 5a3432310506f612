//! What a machine is told and what it says: its states, events and commands.

use snowlease_core::{Closed, Tick, Window};

use crate::id_clock::Verdict;
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
    Start {
        /// Decides the jitter, so that holders started together spread out.
        seed: u64,
    },
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
    /// The wall clock stands apart from the id clock, or no longer does.
    Clock(Option<Stepped>),
    /// No ids are wanted until the next [`Event::Start`]: a snapshot of this machine is about to be
    /// taken.
    Suspend,
    /// The machine was restored from a snapshot, or moved: another copy of it may have the same
    /// lease, and the same secrets. `seed` is fresh.
    Restored {
        /// Decides the jitter from now on.
        seed: u64,
    },
    /// No more ids are wanted.
    Stop,
}

/// A wall clock that stands apart from the id clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// By how much it is ahead, in ns; negative if behind.
    pub by_ns: i64,
    /// What is known about it.
    pub verdict: Verdict,
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
        /// Seed the id clock anew by so much, between the former lease and this one; 0: do not.
        follow_ns: i64,
    },
    /// Move the end of the open window.
    Extend {
        /// First tick that may not be used.
        until: Tick,
        /// Reading of the boot clock from which nothing may be issued.
        deadline_ns: u64,
    },
    /// Seed the id clock anew, by so much; answer with [`Event::Wake`], by the new time.
    Follow {
        /// Ahead; negative if back. Back only while no lease is open.
        by_ns: i64,
    },
    /// Close the generator; answer with [`Event::Closed`].
    Close,
}

impl Command {
    /// Whether the id clock reads another time once this is done.
    pub(super) fn moves_clock(&self) -> bool {
        match self {
            Command::Open { follow_ns, .. } => *follow_ns != 0,
            Command::Follow { .. } => true,
            _ => false,
        }
    }
}
