//! The thread that speaks to the network.
//!
//! The store is blocking and called from many threads; the driver is not. One thread of ours runs
//! the driver, and callers wait for their answers in the ordinary way. So the store may be called
//! and dropped anywhere, inside an asynchronous runtime too. A forked child has no such thread, so
//! there every call ends at once. All stores of a process share it: each has little to say.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A share of the thread; it ends with the last of them.
#[derive(Debug)]
pub(crate) struct Io(Arc<Running>);

#[derive(Debug)]
struct Running {
    handle: Handle,
    /// Which process has the thread.
    process: u32,
    /// Dropped with this value, which ends the thread.
    _stop: oneshot::Sender<()>,
}

/// Why nothing came of some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// This is a forked child of the process that has the thread: nothing was begun.
    Forked,
    /// It did not end in time.
    Late,
}

impl Io {
    /// The thread of this process, started if there is none.
    pub(crate) fn start() -> io::Result<Io> {
        static SHARED: Mutex<Weak<Running>> = Mutex::new(Weak::new());
        /// The process that used it first.
        static OWNER: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        // ORDERING: SeqCst, as all that is no hot path; which process came first is all it tells.
        let owner = OWNER.compare_exchange(0, process, Ordering::SeqCst, Ordering::SeqCst);
        // In a forked child it may be held for ever by a thread that is not there.
        if owner.is_err_and(|owner| owner != process) {
            return Running::start().map(Io);
        }
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let running = shared.upgrade();
        let running = match running {
            Some(running) => running,
            None => Running::start()?,
        };
        *shared = Arc::downgrade(&running);
        Ok(Io(running))
    }

    /// Does this on the thread, and answers what came of it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        // Asked first of all: what the parent's threads held at the fork is held for ever.
        if std::process::id() != self.0.process {
            return Err(NoAnswer::Forked);
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let task = self.0.handle.spawn(async move {
            // Whoever asked may have gone.
            drop(answer.try_send(work.await));
        });
        let answer = answered.recv_timeout(within).map_err(|_| NoAnswer::Late);
        task.abort();
        answer
    }
}

impl Running {
    fn start() -> io::Result<Arc<Running>> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("snowlease-etcd".to_owned()).spawn(move || {
            // An error is what says that the other end was dropped.
            drop(runtime.block_on(stopped));
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(Running { handle, process: std::process::id(), _stop: stop }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_and_what_takes_too_long_is_not_waited_for() {
        let io = Io::start().unwrap();
        assert_eq!(io.run(Duration::from_secs(60), async { 7 }), Ok(7));
        let never = std::future::pending::<()>();
        assert_eq!(io.run(Duration::from_millis(1), never), Err(NoAnswer::Late));
    }

    /// One that waits does not hold up the others.
    #[test]
    fn many_threads_are_served_at_once() {
        let io = Io::start().unwrap();
        let all = Arc::new(tokio::sync::Barrier::new(64));
        thread::scope(|scope| {
            for _ in 0..64 {
                let all = Arc::clone(&all);
                let work = async move { all.wait().await.is_leader() };
                scope.spawn(|| assert!(io.run(Duration::from_secs(60), work).is_ok()));
            }
        });
    }

    #[test]
    fn it_may_be_used_and_dropped_inside_a_runtime() {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let io = Io::start().unwrap();
            assert_eq!(io.run(Duration::from_secs(60), async { 7 }), Ok(7));
        });
    }
}
