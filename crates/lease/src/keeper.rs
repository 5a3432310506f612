//! The keeper: runs a holder's machine on a thread of its own.
//!
//! A thread, so that nothing on an application's executor, and no caller waiting for a full tick,
//! can starve a renewal. It makes the calls to the store one at a time, each bounded by the store;
//! meanwhile the generator itself stops at the end of its window and at its deadline, without being
//! told. It sleeps until there is something to do; the clocks are looked after by the process's
//! housekeeper, which wakes it.

mod board;
pub(crate) mod hands;
mod run;

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, mem};

use snowlease_core::{Clock, Generator, Refusal, Window};

use self::board::{Shared, Wish};
use self::run::Run;
use crate::id_clock::ClockStatus;
use crate::machine::Machine;
use crate::{Holder, IdClock, LeaseStore, Realm, Terms, housekeeper};

pub use crate::machine::State;

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
    /// When a lease can be had again, if the store has said so.
    pub retry_after: Option<Duration>,
    /// How the clocks of the host stand.
    pub clock: ClockStatus,
    /// Grows with each change; see [`Keeper::wait_changed`].
    pub edition: u64,
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

impl Keeper {
    /// Starts to keep `generator` leased from `store`, for this holder of this realm.
    ///
    /// `clock` is the one that `generator` was made with, and nobody else's: it may be seeded anew
    /// when the lease changes.
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
        let shared = Arc::new(Shared::new(generator, clock));
        housekeeper::look_after(&shared)?;
        let machine = Machine::new(terms, shared.generator.format(), holder).of_realm(realm);
        let run = Run::new(store, Arc::clone(&shared), machine);
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
        if self.is_forked() {
            return Status::of_a_fork();
        }
        let window = self.shared.generator.window();
        let clock = self.shared.clock.status();
        let board = self.shared.board();
        let remaining = window.map(|_| self.shared.time_until(board.deadline_ns));
        Status {
            state: board.state,
            window,
            remaining: remaining.unwrap_or_default(),
            outcomes: board.outcomes,
            trouble: board.trouble.clone(),
            retry_after: board.retry_at_ms.map(|at_ms| {
                let left_ms = at_ms.saturating_sub(self.shared.clock.now().unix_ms);
                Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
            }),
            clock,
            edition: board.edition,
        }
    }

    /// Whether ids can be issued now: there is a lease and time left of it.
    pub fn is_ready(&self) -> bool {
        !self.is_forked() && self.shared.is_ready(&self.shared.board())
    }

    /// Waits until ids can be issued.
    ///
    /// # Errors
    ///
    /// [`NotReady`] after `timeout`, or at once if the keeper was stopped or suspended; it goes on
    /// trying all the same.
    pub fn wait_ready(&self, timeout: Duration) -> Result<(), NotReady> {
        if self.is_forked() {
            return Err(NotReady { reason: Refusal::Forked.to_string() });
        }
        let until_ns = self.shared.boot_ns_in(timeout);
        let mut board = self.shared.board();
        loop {
            if self.shared.is_ready(&board) {
                return Ok(());
            }
            let left = self.shared.time_until(until_ns);
            if left.is_zero() || board.ended || board.wish != Wish::Ids {
                return Err(self.shared.not_ready(&board));
            }
            board = self.shared.wait(board, left);
        }
    }

    /// As [`wait_ready`](Self::wait_ready) for a future: `Some` if that is settled, otherwise
    /// `waker` is woken at the next change.
    pub fn poll_ready(&self, waker: &Waker) -> Option<Result<(), NotReady>> {
        if self.is_forked() {
            return Some(Err(NotReady { reason: Refusal::Forked.to_string() }));
        }
        let mut board = self.shared.board();
        if self.shared.is_ready(&board) {
            return Some(Ok(()));
        }
        if board.ended || board.wish != Wish::Ids {
            return Some(Err(self.shared.not_ready(&board)));
        }
        board.wakers.push(waker.clone());
        None
    }

    /// Waits until something has changed since the status of this edition, or the clock should be
    /// looked at, or `timeout` has passed.
    pub fn wait_changed(&self, edition: u64, timeout: Duration) {
        if self.is_forked() {
            return;
        }
        let board = self.shared.board();
        if board.edition == edition && !board.ended {
            drop(self.shared.wait(board, timeout));
        }
    }

    /// Before a snapshot of this process or its machine is taken: closes the gate and gives the
    /// lease back, and forgets what a copy could use. Nothing is issued until
    /// [`resume`](Self::resume). Waits until that is done: at most three attempts at the store.
    ///
    /// # Errors
    ///
    /// [`NotReleased`]: nothing is issued any more, but the store did not take the lease back; it
    /// ends by itself with its window, and a snapshot may be taken all the same. Or somebody has
    /// resumed it meanwhile, and it may not.
    pub fn suspend(&self) -> Result<(), NotReleased> {
        self.wait_for_rest(Wish::Rest)
    }

    /// After [`suspend`](Self::suspend), in the original and in each copy: has a lease acquired
    /// anew, with fresh secrets.
    pub fn resume(&self) {
        if !self.is_forked() {
            self.shared.wish(Wish::Ids);
        }
    }

    /// Closes the gate, gives the lease back and waits until that is done: at most three attempts
    /// at the store. Calling it again, or from several threads, does no harm.
    ///
    /// # Errors
    ///
    /// [`NotReleased`]: nothing is issued any more, but the store did not take the lease back; it
    /// ends by itself with its window.
    pub fn stop(&self) -> Result<(), NotReleased> {
        let released = self.wait_for_rest(Wish::Stop);
        if !self.is_forked() {
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            // What the thread calls is caught if it panics; there is nothing to add if it does.
            thread.into_iter().for_each(|thread| drop(thread.join()));
        }
        released
    }

    fn wait_for_rest(&self, wish: Wish) -> Result<(), NotReleased> {
        if self.is_forked() {
            // The lease is the parent's, and so is the thread to wait for.
            return Err(NotReleased { reason: Refusal::Forked.to_string() });
        }
        self.shared.wish(wish);
        let mut board = self.shared.board();
        while !(board.ended || board.rests || board.wish == Wish::Ids) {
            board = self.shared.wait(board, Duration::from_secs(1));
        }
        if board.wish == Wish::Ids {
            return Err(NotReleased { reason: "it was resumed meanwhile".to_owned() });
        }
        match &board.not_released {
            Some(reason) => Err(NotReleased { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Has the keeper stop as [`stop`](Self::stop) does, without waiting.
    pub fn ask_to_stop(&self) {
        if !self.is_forked() {
            self.shared.wish(Wish::Stop);
        }
    }

    /// Whether this is a forked child, in which nothing here may be locked.
    fn is_forked(&self) -> bool {
        self.shared.generator.is_forked()
    }
}

impl Status {
    /// What is known without asking a lock that may be held for ever.
    fn of_a_fork() -> Status {
        Status {
            state: State::Idle,
            window: None,
            remaining: Duration::ZERO,
            outcomes: Outcomes::default(),
            trouble: Some(Refusal::Forked.to_string()),
            retry_after: None,
            clock: ClockStatus::untold(),
            edition: 0,
        }
    }
}

impl Drop for Keeper {
    /// The thread closes the gate and gives the lease back, if the process lives long enough.
    fn drop(&mut self) {
        if self.is_forked() {
            // The handle names a thread of the parent's, or by now another one of this process.
            if let Ok(thread) = self.thread.get_mut() {
                mem::forget(thread.take());
            }
        }
        self.ask_to_stop();
    }
}

#[cfg(test)]
mod tests;
