//! "No id now": the reason and what to do.

use std::fmt;
use std::time::Duration;

/// Why no id was issued. A refusal never consumes the caller's claim to an id, and never costs one
/// that was returned to somebody (G7).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Every id of this tick is taken, and waiting longer than allowed would be needed. Retry after
    /// `retry_after`, or lease another generator id if this is the steady load.
    TickFull {
        /// Time until the first free tick begins.
        retry_after: Duration,
    },
    /// The id clock reads below ticks already used, by more than a wait may bridge. Retry after
    /// `retry_after`; if it recurs, the host's clock was set back.
    ClockBehind {
        /// By how much, in milliseconds.
        deficit_ms: u64,
        /// Time until the clock has caught up.
        retry_after: Duration,
    },
    /// The wall clock was set, and the holder is asking its reference whether to follow. Retry
    /// after `retry_after`; the pause is bounded, whatever the answer.
    ClockStepped {
        /// By how much, in milliseconds; negative if it was set back.
        by_ms: i64,
        /// Time until the pause ends at the latest.
        retry_after: Duration,
    },
    /// The id clock did not advance during a whole wait. Do not retry in a loop: the host's clock,
    /// or the host, is standing still.
    ClockStalled {
        /// How long the wait was meant to last.
        waited: Duration,
    },
    /// The window begins in the future. Retry after `retry_after`.
    NotYet {
        /// Time until the window begins.
        retry_after: Duration,
    },
    /// The window is used up: the renewal is late. Ids flow again as soon as it succeeds, or under
    /// another generator id; retry, and look at the keeper's status.
    WindowEnd,
    /// There is no lease: not yet, or no longer because its store has been away for longer than the
    /// window. Wait for readiness.
    NoLease,
    /// The holder was shut down for good. Do not retry: connect anew.
    ShutDown,
    /// The host's clock is before the epoch of the format. Set the clock.
    BeforeEpoch {
        /// How far before, in milliseconds.
        missing_ms: u64,
    },
    /// The time field is exhausted: this format has no more ids. Migrate to another format.
    TimeEnd,
    /// This is a forked child. Its ids would be its parent's: lease anew in the child.
    Forked,
    /// The machine was restored from a snapshot, or moved, since the lease was had: another copy of
    /// it may issue the same ids. Retry: the holder leases anew by itself.
    Restored,
    /// The batch is empty or too large. Ask for 1 to `limit` ids a call.
    BatchSize {
        /// How many were asked for.
        asked: usize,
        /// The largest batch.
        limit: usize,
    },
}

impl Refusal {
    /// Every code, in the order of [`Refusal::index`].
    pub const CODES: [&'static str; 13] = [
        "tick-full",
        "clock-behind",
        "clock-stalled",
        "window-not-yet",
        "window-end",
        "no-lease",
        "before-epoch",
        "time-end",
        "forked",
        "batch-size",
        "shut-down",
        "clock-stepped",
        "restored",
    ];

    /// A small number for each kind, for counters.
    pub const fn index(self) -> usize {
        match self {
            Refusal::TickFull { .. } => 0,
            Refusal::ClockBehind { .. } => 1,
            Refusal::ClockStalled { .. } => 2,
            Refusal::NotYet { .. } => 3,
            Refusal::WindowEnd => 4,
            Refusal::NoLease => 5,
            Refusal::BeforeEpoch { .. } => 6,
            Refusal::TimeEnd => 7,
            Refusal::Forked => 8,
            Refusal::BatchSize { .. } => 9,
            Refusal::ShutDown => 10,
            Refusal::ClockStepped { .. } => 11,
            Refusal::Restored => 12,
        }
    }

    /// A stable name for each kind, for logs, metrics and the wire.
    pub const fn code(self) -> &'static str {
        Refusal::CODES[self.index()]
    }

    /// When to try again: `None` if waiting alone does not help.
    pub const fn retry_after(self) -> Option<Duration> {
        match self {
            Refusal::TickFull { retry_after }
            | Refusal::ClockBehind { retry_after, .. }
            | Refusal::ClockStepped { retry_after, .. }
            | Refusal::NotYet { retry_after } => Some(retry_after),
            Refusal::WindowEnd | Refusal::NoLease | Refusal::Restored => {
                Some(Duration::from_millis(100))
            }
            Refusal::BeforeEpoch { missing_ms } => Some(Duration::from_millis(missing_ms)),
            Refusal::ClockStalled { .. }
            | Refusal::TimeEnd
            | Refusal::Forked
            | Refusal::ShutDown
            | Refusal::BatchSize { .. } => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TickFull { retry_after } => {
                write!(f, "every id of this tick is taken: retry in {retry_after:?}")
            }
            Refusal::ClockBehind { deficit_ms, retry_after } => write!(
                f,
                "the clock is {deficit_ms} ms behind ids already issued: retry in {retry_after:?}"
            ),
            Refusal::ClockStepped { by_ms, retry_after } => {
                let (ms, way) = (by_ms.unsigned_abs(), if *by_ms < 0 { "back" } else { "ahead" });
                write!(
                    f,
                    "the clock was set {way} by {ms} ms, and that is being confirmed: retry in \
                     {retry_after:?} at the latest"
                )
            }
            Refusal::ClockStalled { waited } => {
                write!(f, "the clock did not advance during {waited:?}: check the host's clock")
            }
            Refusal::NotYet { retry_after } => {
                write!(f, "the leased window begins in {retry_after:?}: retry then")
            }
            Refusal::WindowEnd => f.write_str(
                "the leased window is used up and its renewal is late: retry, and check the \
                 lease store",
            ),
            Refusal::ShutDown => f.write_str("this holder was shut down: connect anew"),
            Refusal::NoLease => f.write_str(
                "there is no lease on a generator id, or its store was away for too long: wait \
                 until the holder is ready",
            ),
            Refusal::BeforeEpoch { missing_ms } => {
                write!(f, "the clock is {missing_ms} ms before the epoch: set the clock")
            }
            Refusal::TimeEnd => f.write_str(
                "the time field is exhausted: migrate to a format with a later epoch or a \
                 wider tick",
            ),
            Refusal::Forked => {
                f.write_str("this process is a fork of the holder: lease anew in it")
            }
            Refusal::Restored => f.write_str(
                "this machine was restored from a snapshot, or moved: another lease is on its way",
            ),
            Refusal::BatchSize { asked, limit } => {
                write!(f, "a batch of {asked} ids is not possible: ask for 1 to {limit}")
            }
        }
    }
}

/// As `Display`, in words, after the code: a program whose `main` returns this prints it so.
impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.code())
    }
}

impl std::error::Error for Refusal {}
