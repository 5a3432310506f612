//! A forked child that can be told from: what it said, and how it ended.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails as its test does")]

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::panic::{AssertUnwindSafe, catch_unwind};

use snowlease::Id;

/// Which of the two processes goes on here.
pub(crate) enum Side {
    Child(Child),
    Parent(Forked),
}

/// The child, in itself.
pub(crate) struct Child(PipeWriter);

/// The child, as its parent sees it.
pub(crate) struct Forked {
    process: libc::pid_t,
    said: PipeReader,
}

/// Forks, without an exec. A child that hangs is ended by an alarm.
pub(crate) fn fork() -> Side {
    let (said, says) = pipe().unwrap();
    // SAFETY: the child allocates, makes threads and takes locks, which glibc keeps usable in it;
    // of the locks of the parent's threads it takes those only that a test is about.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: has no preconditions; nothing in a child handles the signal.
            unsafe { libc::alarm(20) };
            Side::Child(Child(says))
        }
        process => {
            assert!(process > 0, "the system gives no process");
            Side::Parent(Forked { process, said })
        }
    }
}

impl Child {
    /// Does the work, tells its parent what ids came of it, and ends as a program does, with all
    /// that is registered for its end.
    pub(crate) fn tell(mut self, work: impl FnOnce() -> Vec<Id>) -> ! {
        let (text, code) = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(ids) => (ids.iter().map(|id| format!("{id}\n")).collect(), 0),
            Err(panic) => (words(&*panic), 1),
        };
        // The parent notices if it hears less than all of it.
        let told = self.0.write_all(text.as_bytes());
        drop(self.0);
        // SAFETY: the threads of this process are its own, as when any program ends.
        unsafe { libc::exit(if told.is_ok() { code } else { 2 }) }
    }
}

fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words").to_owned()
}

impl Forked {
    /// Runs `work` in a child; what it captures is the parent's to drop.
    pub(crate) fn running(work: impl FnOnce() -> Vec<Id>) -> Forked {
        match fork() {
            Side::Child(child) => child.tell(work),
            Side::Parent(forked) => forked,
        }
    }

    /// Waits for its end, and answers what ids it told of.
    pub(crate) fn end(mut self) -> Vec<u64> {
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        let mut status = -1;
        // SAFETY: it is a child of this process, and `status` a valid place for its end.
        let waited = unsafe { libc::waitpid(self.process, &raw mut status, 0) };
        assert_eq!((waited, status), (self.process, 0), "the child says: {said}");
        said.lines().map(|id| id.parse().unwrap()).collect()
    }
}
