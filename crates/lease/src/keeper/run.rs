//! The keeper's thread: takes an event at a time, has the machine decide, and does what it says.

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use snowlease_core::{Clock, Closed, Gauge, Window};

use super::board::{Board, Shared, Wish};
use crate::id_clock::reading;
use crate::machine::{Command, Event, Machine, State, Stepped};
use crate::{Acquire, AcquireError, Grant, LeaseStore, Outage, ReleaseError, RenewError, Renewal};

/// However far the next thing to do is, the time is looked at this often.
const LONGEST_SLEEP: Duration = Duration::from_mins(10);

/// A wall clock that stands apart by so much more or less than the machine was told is told anew.
const RETELL_NS: u64 = 100_000_000;

/// The thread's own part.
pub(super) struct Run {
    store: Arc<dyn LeaseStore>,
    shared: Arc<Shared>,
    machine: Machine,
    /// What the machine knows of a step.
    told: Option<Stepped>,
    /// The id clock went back while no lease was open: order begins anew with the next one.
    turned_back: bool,
    gauge: Gauge,
    /// The machine's marker when it was last looked at.
    marker: Option<u64>,
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
        let gauge = shared.clock.gauge();
        let mut run =
            Run { store, shared, machine, told: None, turned_back: false, gauge, marker: None };
        run.marker = run.read_marker();
        run
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
        let shared = Arc::clone(&self.shared);
        let board = shared.board();
        if let Some(event) = self.news(&board) {
            return event;
        }
        if board.news {
            return self.look(board);
        }
        let board = shared.wait(board, left.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP));
        self.news(&board).unwrap_or_else(|| self.look(board))
    }

    /// What callers want that the machine does not know.
    fn news(&self, board: &Board) -> Option<Event> {
        let idle = self.machine.state() == State::Idle;
        match board.wish {
            Wish::Stop if !self.machine.is_stopping() => Some(Event::Stop),
            Wish::Rest if !idle => Some(Event::Suspend),
            Wish::Ids if idle => Some(Event::Start { seed: random() }),
            _ => None,
        }
    }

    /// What the clocks of the host and the machine it runs on show that the machine does not know.
    fn look(&mut self, mut board: std::sync::MutexGuard<'_, Board>) -> Event {
        board.news = false;
        drop(board);
        let gauge = self.shared.clock.gauge();
        if gauge != self.gauge {
            self.gauge = gauge;
            self.shared.generator.refresh_gauge();
        }
        let marker = self.read_marker();
        if mem::replace(&mut self.marker, marker) != marker {
            return Event::Restored { seed: random() };
        }
        let step = self.shared.clock.step();
        let stepped = step.map(|step| Stepped { by_ns: step.by_ns, verdict: step.verdict });
        if is_news(self.told, stepped) {
            self.told = stepped;
            return Event::Clock(stepped);
        }
        Event::Wake
    }

    fn read_marker(&self) -> Option<u64> {
        // ORDERING: Acquire; whatever the machine was restored with is looked at after it.
        self.shared.clock.marker().map(|marker| marker.load(Ordering::Acquire))
    }

    fn execute(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::Acquire(ask) => {
                let sent_ns = self.shared.clock.boot_ns();
                let answer = self.guarded(|store| store.acquire(&ask));
                self.hear(sent_ns, told_by_acquire(&ask, &answer));
                Some(Event::Acquired(answer))
            }
            Command::Renew(ask) => {
                let sent_ns = self.shared.clock.boot_ns();
                let answer = self.guarded(|store| store.renew(&ask));
                self.hear(sent_ns, told_by_renewal(&answer));
                Some(Event::Renewed(answer))
            }
            Command::Release(ask) => {
                Some(Event::Released(self.guarded(|store| store.release(&ask))))
            }
            Command::Open { window, deadline_ns, follow_ns } => {
                self.shared.board().deadline_ns = deadline_ns;
                self.open(window, deadline_ns, follow_ns).map(Event::Closed)
            }
            Command::Extend { until, deadline_ns } => {
                self.shared.generator.extend(until, deadline_ns);
                self.shared.board().deadline_ns = deadline_ns;
                None
            }
            Command::Follow { by_ns } => {
                self.shared.clock.follow(by_ns);
                self.turned_back |= by_ns < 0;
                Some(Event::Wake)
            }
            Command::Close => self.shared.generator.close().map(Event::Closed),
        }
    }

    fn open(&mut self, window: Window, deadline_ns: u64, follow_ns: i64) -> Option<Closed> {
        let Shared { generator, clock, .. } = &*self.shared;
        let turned_back = mem::take(&mut self.turned_back);
        // The machine made the window for this format, so it fits.
        let opened = if follow_ns != 0 {
            generator.open_reseeded(window, deadline_ns, || clock.follow(follow_ns))
        } else if turned_back {
            generator.open_reseeded(window, deadline_ns, || ())
        } else {
            generator.open(window, deadline_ns)
        };
        opened.ok().flatten()
    }

    /// A driver that panics costs a call, not the thread.
    fn guarded<T, E: From<Outage>>(
        &self,
        call: impl FnOnce(&dyn LeaseStore) -> Result<T, E>,
    ) -> Result<T, E> {
        let answer = catch_unwind(AssertUnwindSafe(|| call(&*self.store)));
        answer.unwrap_or_else(|_| {
            let crashed = "the store's driver panicked: this is a bug, please report it";
            Err(Outage::unknown(crashed).into())
        })
    }

    /// Has the clock take note of an answer; that may be what a verdict waits for.
    fn hear(&self, sent_ns: u64, told: Option<Option<i64>>) {
        let Some(reference_ms) = told else { return };
        let answered_ns = self.shared.clock.boot_ns();
        let reading = reference_ms.map(|ms| reading(ms, sent_ns, answered_ns));
        self.shared.clock.hear(reading);
        self.shared.board().news = true;
    }

    /// Writes what an answer says on the board, before the machine acts on it.
    fn note(&self, event: &Event) {
        let mut board = self.shared.board();
        match event {
            Event::Acquired(Ok(_)) => {
                board.outcomes.granted += 1;
                (board.trouble, board.retry_at_ms) = (None, None);
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

/// The reference clock in an answer, if the store answered at all, and if it has one.
fn told_by_acquire(ask: &Acquire, answer: &Result<Grant, AcquireError>) -> Option<Option<i64>> {
    match answer {
        Ok(grant) => Some(grant.reference_ms),
        Err(AcquireError::Skew { ahead_ms }) => Some(Some(ask.now_ms.saturating_sub(*ahead_ms))),
        Err(AcquireError::Outage(_)) => None,
        Err(_) => Some(None),
    }
}

fn told_by_renewal(answer: &Result<Renewal, RenewError>) -> Option<Option<i64>> {
    match answer {
        Ok(renewal) => Some(renewal.reference_ms),
        Err(RenewError::Outage(_)) => None,
        Err(_) => Some(None),
    }
}

fn is_news(told: Option<Stepped>, now: Option<Stepped>) -> bool {
    match (told, now) {
        (Some(told), Some(now)) => {
            told.verdict != now.verdict || told.by_ns.abs_diff(now.by_ns) > RETELL_NS
        }
        (told, now) => told != now,
    }
}

/// Fresh from the system, which has other randomness in each copy of a machine. Without it only the
/// spread of renewals is lost.
fn random() -> u64 {
    let mut seed = [0; 8];
    let _ = getrandom::fill(&mut seed);
    u64::from_le_bytes(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id_clock::Verdict;

    #[test]
    fn a_step_is_told_anew_when_it_or_its_verdict_has_changed() {
        let stepped = |by_ns, verdict| Some(Stepped { by_ns, verdict });
        let told = stepped(1_000_000_000, Verdict::Asking);
        assert!(is_news(None, told) && is_news(told, None) && !is_news(None, None));
        assert!(!is_news(told, stepped(1_090_000_000, Verdict::Asking)));
        assert!(is_news(told, stepped(1_110_000_000, Verdict::Asking)));
        assert!(is_news(told, stepped(1_000_000_000, Verdict::Confirmed)));
    }
}
