//! Which process this is, told apart from those it was forked from.
//!
//! The system's number for a process does not do by itself: in a namespace of its own a child may
//! have that of its parent, and later descendants may have that of an ancestor that has ended. So
//! there is a page that the kernel wipes in forked children. Whoever finds it empty gives this
//! process a number, and no two processes of one line of descent have the same.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::os;

/// A process, as it and its forked children tell it apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    number: u64,
    /// Before Linux 4.14 no page is wiped, and this alone has to do.
    id: u32,
}

/// Alone on its page, on kernels with pages of up to 64 KiB. 0 in a new process.
#[repr(C, align(65536))]
struct Number(AtomicU64);

impl Process {
    /// The one that runs. Takes no lock. Cost: a system call.
    pub fn current() -> Process {
        // Not on the page: a child counts on from here.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = std::process::id();
        let Number(number) = page();
        // ORDERING: Relaxed, in all of this; the numbers guard no other memory.
        let found = number.load(Ordering::Relaxed);
        if found != 0 {
            return Process { number: found, id };
        }
        let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        // Another thread may have been first.
        let set = number.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
        Process { number: set.err().unwrap_or(next), id }
    }

    /// Whether it is the one that runs, and not one that this was forked from.
    pub fn is_current(self) -> bool {
        self == Process::current()
    }
}

/// The page, made on first use and never freed: children find their copy where it was.
fn page() -> &'static Number {
    static PAGE: AtomicPtr<Number> = AtomicPtr::new(ptr::null_mut());
    // ORDERING: Acquire pairs with the Release of the exchange below, which shows the page.
    let found = PAGE.load(Ordering::Acquire);
    // SAFETY: null, or from `Box::into_raw` below and never freed.
    if let Some(page) = unsafe { found.as_ref() } {
        return page;
    }
    let guard = os::fork_guard();
    let made = Box::into_raw(Box::new(Number(AtomicU64::new(0))));
    // Refused by old kernels, where the system's number alone is gone by.
    (guard.protect)(made.cast(), size_of::<Number>());
    // ORDERING: Release shows `made` to the Acquire load above; Acquire on failure, since what was
    // found is used.
    match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: made above, and never freed from here on.
        Ok(_) => unsafe { &*made },
        Err(other) => {
            (guard.unprotect)(made.cast(), size_of::<Number>());
            // SAFETY: made above, and shown to nobody.
            drop(unsafe { Box::from_raw(made) });
            // SAFETY: another thread's, made as this one was.
            unsafe { &*other }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `work` says in a forked child.
    fn in_a_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls what takes no lock, and leaves without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = i32::from(!work());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `child` is the process made above, and `status` a valid place for its end.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status == 0
    }

    #[test]
    fn a_child_and_its_child_are_others_whatever_the_system_calls_them() {
        let here = Process::current();
        assert!(here.is_current());
        assert!(in_a_child(|| {
            let child = Process::current();
            child.is_current()
                && child.number != here.number
                && in_a_child(|| {
                    let number = Process::current().number;
                    number != child.number && number != here.number
                })
        }));
        // One that never asked is no gap in the line.
        assert!(in_a_child(|| in_a_child(|| Process::current().number != here.number)));
        assert!(here.is_current());
    }

    #[test]
    fn threads_agree_on_it() {
        let all: Vec<Process> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(Process::current)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|one| one.is_current()), "{all:?}");
    }
}
