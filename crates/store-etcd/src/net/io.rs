//! The thread that speaks to the network.
//!
//! The store is blocking and called from many threads; the driver is not. One thread of ours runs
//! the driver, and callers wait for their answers in the ordinary way. So the store may be called
//! and dropped anywhere, inside an asynchronous runtime too. A forked child has no such thread, so
//! there every call ends at once.

use std::future::Future;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(crate) struct Io {
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
    pub(crate) fn start() -> io::Result<Io> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("snowlease-etcd".to_owned()).spawn(move || {
            // An error is what says that the other end was dropped.
            drop(runtime.block_on(stopped));
            runtime.shutdown_background();
        })?;
        Ok(Io { handle, process: std::process::id(), _stop: stop })
    }

    /// Does this on the thread, and answers what came of it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NoAnswer> {
        // Asked first of all: what the parent's threads held at the fork is held for ever.
        if std::process::id() != self.process {
            return Err(NoAnswer::Forked);
        }
        let (answer, answered) = mpsc::sync_channel(1);
        let task = self.handle.spawn(async move {
            // Whoever asked may have gone.
            drop(answer.try_send(work.await));
        });
        let answer = answered.recv_timeout(within).map_err(|_| NoAnswer::Late);
        task.abort();
        answer
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
        let all = std::sync::Arc::new(tokio::sync::Barrier::new(64));
        thread::scope(|scope| {
            for _ in 0..64 {
                let all = std::sync::Arc::clone(&all);
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
