//! The keeper: runs a holder's machine on a thread of its own.
//!
//! A thread, so that nothing on an application's executor, and no caller waiting for a full tick,
//! can starve a renewal. It makes the calls to the store one at a time, each bounded by the store;
//! meanwhile the generator itself stops at the end of its window and at its deadline, without being
//! told.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, mem, thread};

use snowlease_core::clock::nanos;
use snowlease_core::{Clock, Generator, Refusal, Window};

use crate::id_clock::ClockStatus;
use crate::machine::{Command, Event, Machine};
use crate::{
    AcquireError, Holder, IdClock, LeaseStore, Outage, Realm, ReleaseError, RenewError, Terms, os,
};

pub use crate::machine::State;

/// How often the clock is compared and the time looked at; also bounds how late a wake is after
/// suspend.
const HOUSEKEEPING: Duration = Duration::from_millis(250);

/// Keeps a generator leased, for as long as it lives.
///
/// # Promise
///
/// It acquires, renews, and after a loss acquires anew by itself, under another generator id or in
/// a later window; no restart is ever needed. Dropping it closes the gate and gives the lease back,
/// best effort; [`stop`](Self::stop) waits for that.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How a holder stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// Where it may issue, if anywhere.
    pub window: Option<Window>,
    /// Time until issuing stops if no renewal succeeds; zero without a lease.
    pub remaining: Duration,
    /// Answers to acquires and renewals so far.
    pub outcomes: Outcomes,
    /// What went wrong last, in words with what to do; `None` once a call has succeeded again.
    pub trouble: Option<String>,
    /// When a lease can be had again, in Unix ms on the id clock, if the store has said so.
    pub retry_at_ms: Option<i64>,
    /// This host's clock minus the reference clock when it last answered, in ms, if it has one.
    pub skew_ms: Option<i64>,
    /// How the id clock stands.
    pub clock: ClockStatus,
}

/// How often the store gave which answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Leases granted.
    pub granted: u64,
    /// Acquires refused or failed.
    pub not_granted: u64,
    /// Renewals that succeeded.
    pub renewed: u64,
    /// Renewals that failed and are tried again.
    pub not_renewed: u64,
    /// Leases lost: not ours any more, or run out.
    pub lost: u64,
}

/// Why a holder was not ready in time.
#[derive(Clone, PartialEq, Eq)]
pub struct NotReady {
    /// The reason, in words with what to do.
    pub reason: String,
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// As `Display`: a program whose `main` returns this prints it so.
impl fmt::Debug for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotReady {}

/// Why a lease was not given back at the end. It ends by itself with its window.
#[derive(Clone, PartialEq, Eq)]
pub struct NotReleased {
    /// What the store answered last.
    pub reason: String,
}

impl fmt::Display for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease was not given back and ends by itself: {}", self.reason)
    }
}

/// As `Display`: a program whose `main` returns this prints it so.
impl fmt::Debug for NotReleased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotReleased {}

#[derive(Debug)]
struct Shared {
    generator: Arc<Generator>,
    clock: Arc<IdClock>,
    board: Mutex<Board>,
    changed: Condvar,
}

/// What the thread and its callers tell each other.
#[derive(Debug)]
struct Board {
    state: State,
    deadline_ns: u64,
    outcomes: Outcomes,
    trouble: Option<String>,
    retry_at_ms: Option<i64>,
    skew_ms: Option<i64>,
    /// Why the last lease could not be given back.
    not_released: Option<String>,
    stop: bool,
    ended: bool,
    wakers: Vec<Waker>,
}

impl Keeper {
    /// Starts to keep `generator` leased from `store`, for this holder of this realm.
    ///
    /// # Errors
    ///
    /// The system's, if it gives no thread.
    pub fn start(
        store: Arc<dyn LeaseStore>,
        generator: Arc<Generator>,
        clock: Arc<IdClock>,
        terms: Terms,
        holder: Holder,
        realm: Realm,
    ) -> std::io::Result<Keeper> {
        let shared = Arc::new(Shared {
            generator,
            clock,
            board: Mutex::new(Board {
                state: State::Acquiring,
                deadline_ns: 0,
                outcomes: Outcomes::default(),
                trouble: None,
                retry_at_ms: None,
                skew_ms: None,
                not_released: None,
                stop: false,
                ended: false,
                wakers: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let mut seed = [0; 8];
        // Without randomness only the spread of renewals is lost.
        let _ = getrandom::fill(&mut seed);
        let machine =
            Machine::new(terms, shared.generator.format(), holder, u64::from_le_bytes(seed))
                .of_realm(realm);
        let run = Run { store, shared: Arc::clone(&shared), machine };
        let thread = thread::Builder::new()
            .name("snowlease-keeper".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || run.run())?;
        Ok(Keeper { shared, thread: Mutex::new(Some(thread)) })
    }

    /// The generator that is kept leased.
    pub fn generator(&self) -> &Arc<Generator> {
        &self.shared.generator
    }

    /// How the holder stands now.
    pub fn status(&self) -> Status {
        let window = self.shared.generator.window();
        let clock = self.shared.clock.status();
        let board = self.shared.board();
        let remaining = match window {
            Some(_) => Duration::from_nanos(board.deadline_ns.saturating_sub(os::boot_ns())),
            None => Duration::ZERO,
        };
        Status {
            state: board.state,
            window,
            remaining,
            outcomes: board.outcomes,
            trouble: board.trouble.clone(),
            retry_at_ms: board.retry_at_ms,
            skew_ms: board.skew_ms,
            clock,
        }
    }

    /// Whether ids can be issued now: there is a lease and time left of it.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready(&self.shared.board())
    }

    /// Waits until ids can be issued.
    ///
    /// # Errors
    ///
    /// [`NotReady`] after `timeout`, or at once if the keeper was stopped; it goes on trying all
    /// the same.
    pub fn wait_ready(&self, timeout: Duration) -> Result<(), NotReady> {
        if self.shared.generator.is_forked() {
            return Err(NotReady { reason: Refusal::Forked.to_string() });
        }
        let until_ns = os::boot_ns().saturating_add(nanos(timeout));
        let mut board = self.shared.board();
        loop {
            if self.shared.is_ready(&board) {
                return Ok(());
            }
            let left_ns = until_ns.saturating_sub(os::boot_ns());
            if left_ns == 0 || board.ended || board.stop {
                return Err(self.shared.not_ready(&board));
            }
            board = self.shared.wait(board, Duration::from_nanos(left_ns));
        }
    }

    /// As [`wait_ready`](Self::wait_ready) for a future: `Some` if that is settled, otherwise
    /// `waker` is woken at the next change.
    pub fn poll_ready(&self, waker: &Waker) -> Option<Result<(), NotReady>> {
        if self.shared.generator.is_forked() {
            return Some(Err(NotReady { reason: Refusal::Forked.to_string() }));
        }
        let mut board = self.shared.board();
        if self.shared.is_ready(&board) {
            return Some(Ok(()));
        }
        if board.ended || board.stop {
            return Some(Err(self.shared.not_ready(&board)));
        }
        board.wakers.push(waker.clone());
        None
    }

    /// Closes the gate, gives the lease back and waits until that is done: at most three attempts
    /// at the store. Calling it again, or from several threads, does no harm.
    ///
    /// # Errors
    ///
    /// [`NotReleased`]: nothing is issued any more, but the store did not take the lease back; it
    /// ends by itself with its window.
    pub fn stop(&self) -> Result<(), NotReleased> {
        if self.shared.generator.is_forked() {
            // The lease is the parent's, and so is the thread to wait for.
            return Err(NotReleased { reason: Refusal::Forked.to_string() });
        }
        self.ask_to_stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // What the thread calls is caught if it panics; there is nothing to add if it does.
            drop(thread.join());
        }
        let mut board = self.shared.board();
        while !board.ended {
            board = self.shared.wait(board, HOUSEKEEPING);
        }
        match &board.not_released {
            Some(reason) => Err(NotReleased { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Has the keeper stop as [`stop`](Self::stop) does, without waiting.
    pub fn ask_to_stop(&self) {
        if self.shared.generator.is_forked() {
            return;
        }
        self.shared.board().stop = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Keeper {
    /// The thread closes the gate and gives the lease back, if the process lives long enough.
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, board: MutexGuard<'a, Board>, most: Duration) -> MutexGuard<'a, Board> {
        let (board, _) =
            self.changed.wait_timeout(board, most).unwrap_or_else(PoisonError::into_inner);
        board
    }

    fn is_ready(&self, board: &Board) -> bool {
        // The window is gone as soon as the gate closes, whatever the board still says.
        self.generator.window().is_some()
            && matches!(board.state, State::Held | State::Draining)
            && !board.stop
            && os::boot_ns() < board.deadline_ns
    }

    fn not_ready(&self, board: &Board) -> NotReady {
        let reason = if board.stop || board.ended {
            "the holder was shut down: connect anew".to_owned()
        } else {
            board.trouble.clone().unwrap_or_else(|| "no answer from the lease store yet".to_owned())
        };
        NotReady { reason }
    }
}

impl Drop for Run {
    /// Whatever ended the thread, nothing is issued once nobody renews.
    fn drop(&mut self) {
        self.shared.generator.close();
        self.shared.generator.retire();
        self.shared.board().ended = true;
        self.shared.changed.notify_all();
    }
}

/// The thread's own part.
struct Run {
    store: Arc<dyn LeaseStore>,
    shared: Arc<Shared>,
    machine: Machine,
}

impl Run {
    fn run(mut self) {
        let mut events = VecDeque::from([Event::Start]);
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
            if self.machine.is_done() {
                break;
            }
            events.push_back(self.sleep());
            self.shared.clock.discipline();
        }
        self.publish();
    }

    /// Sleeps until the machine wants to be woken, or somebody wants it to stop.
    fn sleep(&self) -> Event {
        let wake_ns = self.machine.wake_ns().unwrap_or(0);
        let board = self.shared.board();
        if board.stop && !self.machine.is_stopping() {
            return Event::Stop;
        }
        let left = Duration::from_nanos(wake_ns.saturating_sub(os::boot_ns()));
        let board = self.shared.wait(board, left.min(HOUSEKEEPING));
        if board.stop && !self.machine.is_stopping() { Event::Stop } else { Event::Wake }
    }

    fn execute(&self, command: Command) -> Option<Event> {
        let store = &self.store;
        let crashed =
            || Outage::unknown("the store's driver panicked: this is a bug, please report it");
        match command {
            Command::Acquire(ask) => {
                let answer = catch_unwind(AssertUnwindSafe(|| store.acquire(&ask)));
                Some(Event::Acquired(answer.unwrap_or_else(|_| Err(crashed().into()))))
            }
            Command::Renew(ask) => {
                let answer = catch_unwind(AssertUnwindSafe(|| store.renew(&ask)));
                Some(Event::Renewed(answer.unwrap_or_else(|_| Err(crashed().into()))))
            }
            Command::Release(ask) => {
                let answer = catch_unwind(AssertUnwindSafe(|| store.release(&ask)));
                Some(Event::Released(answer.unwrap_or_else(|_| Err(crashed().into()))))
            }
            Command::Open { window, deadline_ns } => {
                self.shared.board().deadline_ns = deadline_ns;
                // The machine made the window for this format, so it fits.
                self.shared.generator.open(window, deadline_ns).ok().flatten().map(Event::Closed)
            }
            Command::Extend { until, deadline_ns } => {
                self.shared.generator.extend(until, deadline_ns);
                self.shared.board().deadline_ns = deadline_ns;
                None
            }
            Command::Close => self.shared.generator.close().map(Event::Closed),
        }
    }

    /// Writes what an answer says on the board, before the machine acts on it.
    fn note(&self, event: &Event) {
        let now_ms = self.shared.clock.now().unix_ms;
        let mut board = self.shared.board();
        let skew = |reference_ms: Option<i64>| reference_ms.map(|ms| now_ms.saturating_sub(ms));
        match event {
            Event::Acquired(Ok(grant)) => {
                board.outcomes.granted += 1;
                (board.trouble, board.retry_at_ms) = (None, None);
                board.skew_ms = skew(grant.reference_ms).or(board.skew_ms);
            }
            Event::Acquired(Err(error)) => {
                board.outcomes.not_granted += 1;
                board.trouble = Some(error.to_string());
                board.retry_at_ms = None;
                match error {
                    AcquireError::Skew { ahead_ms } => board.skew_ms = Some(*ahead_ms),
                    AcquireError::Exhausted { earliest: Some(tick), .. }
                    | AcquireError::Quarantined { floor: tick } => {
                        board.retry_at_ms = Some(self.shared.generator.format().unix_ms(*tick));
                    }
                    _ => {}
                }
            }
            Event::Renewed(Ok(renewal)) => {
                board.outcomes.renewed += 1;
                board.trouble = None;
                board.skew_ms = skew(renewal.reference_ms).or(board.skew_ms);
            }
            Event::Renewed(Err(error)) => {
                let again = matches!(error, RenewError::Quarantined { .. } | RenewError::Outage(_));
                if again {
                    board.outcomes.not_renewed += 1;
                }
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
        let wakers = mem::take(&mut board.wakers);
        drop(board);
        self.shared.changed.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
