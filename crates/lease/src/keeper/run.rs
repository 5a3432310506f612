//! The keeper's thread: takes an event at a time, has the machine decide, and does what it says.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use snowlease_core::Clock;

use super::board::{Board, Shared, Wish};
use super::hands::{Hands, random};
use crate::machine::{Command, Event, Machine, State};
use crate::{AcquireError, LeaseStore, ReleaseError, RenewError};

/// However far the next thing to do is, the time is looked at this often.
const LONGEST_SLEEP: Duration = Duration::from_mins(10);

/// The thread's own part.
pub(super) struct Run {
    shared: Arc<Shared>,
    machine: Machine,
    hands: Hands,
}

impl Drop for Run {
    /// Whatever ended the thread, nothing is issued once nobody renews.
    fn drop(&mut self) {
        self.shared.generator.close();
        self.shared.generator.retire();
        self.shared.board().ended = true;
        self.shared.notify();
    }
}

impl Run {
    pub(super) fn new(store: Arc<dyn LeaseStore>, shared: Arc<Shared>, machine: Machine) -> Run {
        let (generator, clock) = (Arc::clone(&shared.generator), Arc::clone(&shared.clock));
        Run { shared, machine, hands: Hands::new(store, generator, clock) }
    }

    pub(super) fn run(mut self) {
        let mut events = VecDeque::from([Event::Start { seed: random() }]);
        loop {
            while let Some(event) = events.pop_front() {
                self.note(&event);
                let stops = matches!(event, Event::Stop);
                for command in self.machine.step(&self.shared.clock.now(), event) {
                    events.extend(self.execute(command));
                }
                if stops {
                    // Whoever is refused from here on need not wait for another lease.
                    self.shared.generator.retire();
                }
                self.publish();
            }
            if self.machine.is_stopping() && self.machine.is_at_rest() {
                break;
            }
            events.push_back(self.sleep());
        }
    }

    /// Sleeps until the machine wants to be woken, or there is something to tell it.
    fn sleep(&mut self) -> Event {
        let left = self.machine.wake_ns().map(|wake_ns| self.shared.time_until(wake_ns));
        let mut board = self.shared.board();
        if self.wanted(&board).is_none() && !board.news {
            let most = left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
            board = self.shared.wait(board, most);
        }
        let wanted = self.wanted(&board);
        if wanted.is_none() {
            board.news = false;
        }
        drop(board);
        // A copy of the machine has nothing to give back, whatever is wanted of it.
        let event = self.hands.restored().or(wanted).or_else(|| self.hands.look());
        event.unwrap_or(Event::Wake)
    }

    /// What callers want that the machine does not know.
    fn wanted(&self, board: &Board) -> Option<Event> {
        let idle = self.machine.state() == State::Idle;
        match board.wish {
            Wish::Stop if !self.machine.is_stopping() => Some(Event::Stop),
            Wish::Rest if !idle => Some(Event::Suspend),
            Wish::Ids if idle => Some(Event::Start { seed: random() }),
            _ => None,
        }
    }

    fn execute(&mut self, command: Command) -> Option<Event> {
        if let Command::Open { deadline_ns, .. } | Command::Extend { deadline_ns, .. } = command {
            self.shared.board().deadline_ns = deadline_ns;
        }
        let asks = matches!(command, Command::Acquire(_) | Command::Renew(_));
        let event = self.hands.execute(command);
        if asks {
            // What the store said of its clock may be what a verdict waits for.
            self.shared.board().news = true;
        }
        event
    }

    /// Writes what an answer says on the board, before the machine acts on it.
    fn note(&self, event: &Event) {
        let mut board = self.shared.board();
        match event {
            Event::Acquired(Ok(_)) => {
                board.outcomes.granted += 1;
                (board.trouble, board.retry_at_ms, board.not_released) = (None, None, None);
            }
            Event::Acquired(Err(error)) => {
                board.outcomes.not_granted += 1;
                board.trouble = Some(error.to_string());
                board.retry_at_ms = match error {
                    AcquireError::Exhausted { earliest: Some(tick), .. }
                    | AcquireError::Quarantined { floor: tick } => {
                        Some(self.shared.generator.format().unix_ms(*tick))
                    }
                    _ => None,
                };
            }
            Event::Renewed(Ok(_)) => {
                board.outcomes.renewed += 1;
                board.trouble = None;
            }
            Event::Renewed(Err(error)) => {
                let again = matches!(error, RenewError::Quarantined { .. } | RenewError::Outage(_));
                board.outcomes.not_renewed += u64::from(again);
                board.trouble = Some(error.to_string());
            }
            Event::Released(Err(error @ ReleaseError::Outage(_))) => {
                board.trouble = Some(error.to_string());
                board.not_released = Some(error.to_string());
            }
            // Given back, or not ours any more.
            Event::Released(_) => board.not_released = None,
            _ => {}
        }
    }

    fn publish(&self) {
        let format = self.shared.generator.format();
        let outside_time = format.tick_at(self.shared.clock.now()).err();
        let mut board = self.shared.board();
        if let Some(error) = outside_time {
            board.trouble = Some(error.to_string());
        }
        let lost = board.state != State::Lost && self.machine.state() == State::Lost;
        board.outcomes.lost += u64::from(lost);
        if lost && board.trouble.is_none() {
            board.trouble =
                Some("the lease was lost: its window ran out, or the store went back".to_owned());
        }
        board.state = self.machine.state();
        board.rests = board.wish == Wish::Rest && self.machine.is_at_rest();
        board.edition += 1;
        let wakers = mem::take(&mut board.wakers);
        drop(board);
        self.shared.notify();
        wakers.into_iter().for_each(Waker::wake);
    }
}
