//! What a keeper's thread and its callers tell each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use std::sync::Arc;

use snowlease_core::clock::nanos;
use snowlease_core::{Clock, Generator};

use super::{NotReady, Outcomes};
use crate::IdClock;
use crate::housekeeper::Chore;
use crate::machine::State;

/// What a keeper's thread and its callers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) generator: Arc<Generator>,
    pub(super) clock: Arc<IdClock>,
    board: Mutex<Board>,
    changed: Condvar,
}

/// What stands on the board.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) state: State,
    pub(super) deadline_ns: u64,
    pub(super) outcomes: Outcomes,
    pub(super) trouble: Option<String>,
    pub(super) retry_at_ms: Option<i64>,
    /// Why the last lease could not be given back.
    pub(super) not_released: Option<String>,
    pub(super) wish: Wish,
    /// The clocks of the host should be looked at.
    pub(super) news: bool,
    /// No ids are wanted, nothing is held and nothing is left to be given back.
    pub(super) rests: bool,
    pub(super) ended: bool,
    /// Grows with each change that callers may wait for.
    pub(super) edition: u64,
    pub(super) wakers: Vec<Waker>,
}

/// What the callers want of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Ids,
    Rest,
    Stop,
}

impl Shared {
    pub(super) fn new(generator: Arc<Generator>, clock: Arc<IdClock>) -> Shared {
        let board = Board {
            state: State::Acquiring,
            deadline_ns: 0,
            outcomes: Outcomes::default(),
            trouble: None,
            retry_at_ms: None,
            not_released: None,
            wish: Wish::Ids,
            news: false,
            rests: false,
            ended: false,
            edition: 0,
            wakers: Vec::new(),
        };
        Shared { generator, clock, board: Mutex::new(board), changed: Condvar::new() }
    }

    /// Never to be called in a forked child, where another thread may hold it for ever.
    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, for so long at most.
    pub(super) fn wait<'a>(
        &self,
        board: MutexGuard<'a, Board>,
        most: Duration,
    ) -> MutexGuard<'a, Board> {
        let (board, _) =
            self.changed.wait_timeout(board, most).unwrap_or_else(PoisonError::into_inner);
        board
    }

    /// Wakes the thread and whoever waits.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    pub(super) fn wish(&self, wish: Wish) {
        let mut board = self.board();
        // A stop is for good.
        if board.wish != Wish::Stop {
            board.wish = wish;
            board.rests = false;
            // A thread that is about to sleep, with nothing to do about this wish, says so first.
            board.news = true;
        }
        drop(board);
        self.notify();
    }

    pub(super) fn is_ready(&self, board: &Board) -> bool {
        // The window is gone as soon as the gate closes, whatever the board still says.
        self.generator.window().is_some()
            && matches!(board.state, State::Held | State::Draining)
            && board.wish == Wish::Ids
            && self.clock.boot_ns() < board.deadline_ns
    }

    pub(super) fn not_ready(&self, board: &Board) -> NotReady {
        let reason = match board.wish {
            _ if board.ended => SHUT_DOWN.to_owned(),
            Wish::Stop => SHUT_DOWN.to_owned(),
            Wish::Rest => "the holder is suspended: resume it".to_owned(),
            Wish::Ids => {
                let trouble = board.trouble.clone();
                trouble.unwrap_or_else(|| "no answer from the lease store yet".to_owned())
            }
        };
        NotReady { reason }
    }

    /// Time that is left to a reading of the boot clock.
    pub(super) fn time_until(&self, boot_ns: u64) -> Duration {
        Duration::from_nanos(boot_ns.saturating_sub(self.clock.boot_ns()))
    }

    pub(super) fn boot_ns_in(&self, time: Duration) -> u64 {
        self.clock.boot_ns().saturating_add(nanos(time))
    }
}

const SHUT_DOWN: &str = "the holder was shut down: connect anew";

impl Chore for Shared {
    fn look(&self) {
        if self.clock.look() {
            self.board().news = true;
            self.notify();
        }
    }

    fn period(&self) -> Duration {
        self.clock.terms().sample
    }
}
