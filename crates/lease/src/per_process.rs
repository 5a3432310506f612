//! A value of which each process has its own, forked children too.
//!
//! A static is copied into a forked child as it stands: a lock in it that another thread held at
//! the fork is held for ever, and what it lists are the parent's threads, files and connections.
//! This one is made anew in the child, without asking any lock of the parent's.

use std::sync::atomic::{AtomicPtr, Ordering};

use crate::Process;

/// Made on first use, and once more in each forked child that uses it. To be kept in a static.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<Own<T>>);

#[derive(Debug)]
struct Own<T> {
    process: Process,
    value: T,
}

impl<T: Default + Sync> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// This process's value. Cost: a system call, for the process id.
    ///
    /// A parent's value is never dropped in its child: what it holds is not the child's to close.
    pub fn get(&'static self) -> &'static T {
        let process = Process::current();
        // ORDERING: Acquire pairs with the Release of the exchange below, which shows the value.
        let mut found = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: null, or from `Box::into_raw` below and never freed.
            if let Some(own) = unsafe { found.as_ref() }
                && own.process == process
            {
                return &own.value;
            }
            let made = Box::into_raw(Box::new(Own { process, value: T::default() }));
            // ORDERING: Release shows `made` to the Acquire load above; Acquire on failure, since
            // what was found is looked into.
            let exchanged =
                self.0.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
            match exchanged {
                // SAFETY: made above, and never freed from here on.
                Ok(_) => return unsafe { &(*made).value },
                Err(other) => {
                    // SAFETY: made above, and shown to nobody.
                    drop(unsafe { Box::from_raw(made) });
                    found = other;
                }
            }
        }
    }
}

impl<T: Default + Sync> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    #[test]
    fn a_child_has_its_own_though_its_parents_is_locked() {
        static COUNT: PerProcess<Mutex<u32>> = PerProcess::new();
        let count = || COUNT.get().lock().unwrap_or_else(PoisonError::into_inner);
        *count() += 1;
        let held = count();
        // SAFETY: the child takes no lock but the one that it makes itself, allocates once (glibc
        // keeps its allocator usable in a child), and leaves without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = COUNT.get().try_lock().is_ok_and(|count| *count == 0);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!own)) };
        }
        let mut status = -1;
        // SAFETY: `child` is the process made above, and `status` a valid place for its end.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((status, *held), (0, 1));
    }
}
