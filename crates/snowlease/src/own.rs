//! What belongs to the process that made it, and is left as it is by that one's forked children.
//!
//! A child has a copy of all memory and no thread but its own: a lock that another thread had is
//! held for ever, a thread that is to be joined never ends (and the system may take one of the
//! child's own for it), files and connections are shared with the parent, and to close them
//! properly is to close them for the parent too.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use snowlease_lease::{
    Acquire, AcquireError, Grant, LeaseEntry, LeaseStore, Outage, Process, Release, ReleaseError,
    Renew, RenewError, Renewal, StoreStatus,
};

/// Dropped by the process that made it, and by no other: a forked child leaks it.
///
/// It can be used in a child all the same; what that does is for the value to say.
#[derive(Clone)]
pub(crate) struct Own<T> {
    value: ManuallyDrop<T>,
    process: Process,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Own<T> {
        Own { value: ManuallyDrop::new(value), process: Process::current() }
    }

    /// The value, unless this is a forked child of the process that made it. Cost: a system call.
    pub(crate) fn unless_forked(&self) -> Option<&T> {
        self.process.is_current().then_some(&*self.value)
    }
}

impl<T> std::ops::Deref for Own<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.process.is_current() {
            // SAFETY: dropped here and nowhere else, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unless_forked() {
            Some(value) => value.fmt(f),
            None => f.write_str("(of the process that this one was forked from)"),
        }
    }
}

/// A store that a forked child is refused: each call of it ends at once, without a lock, a file or
/// a connection of its parent's being touched.
#[derive(Debug)]
pub(crate) struct OwnStore(Own<Arc<dyn LeaseStore>>);

impl OwnStore {
    pub(crate) fn new(store: Arc<dyn LeaseStore>) -> OwnStore {
        OwnStore(Own::new(store))
    }

    fn here(&self) -> Result<&dyn LeaseStore, Outage> {
        let store = self.0.unless_forked().ok_or_else(|| {
            Outage::unavailable(
                "this process is a fork of the one that opened the store: connect anew in it",
            )
        })?;
        Ok(&**store)
    }
}

impl LeaseStore for OwnStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.here()?.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        self.here()?.acquire(ask)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.here()?.renew(ask)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.here()?.release(ask)
    }

    fn acquire_each(&self, asks: &[Acquire]) -> Vec<Result<Grant, AcquireError>> {
        match self.here() {
            Ok(store) => store.acquire_each(asks),
            Err(outage) => asks.iter().map(|_| Err(outage.clone().into())).collect(),
        }
    }

    fn renew_each(&self, asks: &[Renew]) -> Vec<Result<Renewal, RenewError>> {
        match self.here() {
            Ok(store) => store.renew_each(asks),
            Err(outage) => asks.iter().map(|_| Err(outage.clone().into())).collect(),
        }
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.here()?.list()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use snowlease_lease::testing::MemoryStore;

    use super::*;
    use crate::Format;

    /// What `work` says in a forked child.
    pub(crate) fn in_a_child(work: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child takes no lock of its parent's but in glibc's allocator, which is kept
        // usable in it, and leaves without running anything else.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: has no preconditions; one that waits for a lock of its parent's is ended.
            unsafe { libc::alarm(10) };
            let code = i32::from(!work());
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: `child` is the process made above, and `status` a valid place for its end.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status == 0
    }

    struct Counts<'a>(&'a AtomicU32);

    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            // ORDERING: SeqCst; a test.
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_child_leaks_what_its_parent_drops() {
        let drops = AtomicU32::new(0);
        // ORDERING: SeqCst; a test.
        let dropped = || drops.load(Ordering::SeqCst);
        let inherited = Own::new(Counts(&drops));
        assert!(in_a_child(|| {
            let none = inherited.unless_forked().is_none();
            // SAFETY: a copy of what the child has; its original is not used again.
            drop(unsafe { std::ptr::read(&raw const inherited) });
            drop(Own::new(Counts(&drops)));
            none && dropped() == 1
        }));
        assert!(inherited.unless_forked().is_some());
        drop(inherited);
        assert_eq!(dropped(), 1);
    }

    #[test]
    fn a_childs_calls_end_though_the_store_is_locked_for_ever() {
        #[derive(Debug)]
        struct Locked(Mutex<MemoryStore>);

        impl LeaseStore for Locked {
            fn status(&self) -> Result<StoreStatus, Outage> {
                self.0.lock().unwrap().status()
            }
            fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
                self.0.lock().unwrap().acquire(ask)
            }
            fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
                self.0.lock().unwrap().renew(ask)
            }
            fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
                self.0.lock().unwrap().release(ask)
            }
            fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
                self.0.lock().unwrap().list()
            }
        }

        let memory = MemoryStore::new(Format::DEFAULT, (0, 3)).unwrap();
        let locked = Arc::new(Locked(Mutex::new(memory)));
        let store = OwnStore::new(Arc::clone(&locked) as Arc<_>);
        assert!(store.status().is_ok() && store.list().is_ok());
        let held = locked.0.lock().unwrap();
        assert!(in_a_child(|| {
            let refused = |outage: Outage| !outage.unknown && outage.detail.contains("fork");
            let shown = format!("{store:?}").contains("forked");
            shown
                && store.status().is_err_and(refused)
                && store.list().is_err_and(refused)
                && store.acquire_each(&[]).is_empty()
                && store.renew_each(&[]).is_empty()
        }));
        drop(held);
        assert!(store.status().is_ok());
    }
}
