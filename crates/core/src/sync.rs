//! The atomics of the generator: the standard ones, or loom's in the models.
//!
//! loom 0.7 misses some races in which one thread loads a location and writes it later. The models
//! therefore run twice: as is, and with every load made a read-modify-write that changes nothing
//! (feature `loom-rmw`), which makes each load a point where loom tries every order. Stores are
//! swaps then: loom takes a plain store and such a load for unordered, where the language orders
//! them.

#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "loom")]
pub(crate) use self::modelled::AtomicU64;
#[cfg(feature = "loom")]
pub(crate) use loom::sync::atomic::Ordering;

/// Lets another thread run: a hint to the processor, or a scheduling point of the model.
pub(crate) fn relax() {
    #[cfg(not(feature = "loom"))]
    std::hint::spin_loop();
    #[cfg(feature = "loom")]
    loom::thread::yield_now();
}

#[cfg(feature = "loom")]
mod modelled {
    use loom::sync::atomic::Ordering;

    #[derive(Debug)]
    pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

    /// The order of a read-modify-write in place of a load or a store.
    fn both(order: Ordering) -> Ordering {
        // ORDERING: no access of its own; what the caller asked for, on both sides.
        match order {
            Ordering::Acquire | Ordering::Release => Ordering::AcqRel,
            other => other,
        }
    }

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> AtomicU64 {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            if cfg!(feature = "loom-rmw") {
                self.0.fetch_add(0, both(order))
            } else {
                self.0.load(order)
            }
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            if cfg!(feature = "loom-rmw") {
                let _ = self.0.swap(value, both(order));
            } else {
                self.0.store(value, order);
            }
        }

        pub(crate) fn swap(&self, value: u64, order: Ordering) -> u64 {
            self.0.swap(value, order)
        }

        pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_add(value, order)
        }

        pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_max(value, order)
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            self.0.compare_exchange(current, new, success, failure)
        }
    }
}
