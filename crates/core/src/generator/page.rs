//! The published tick, alone on a page that a forked child does not inherit.
//!
//! The hot path trusts `published`; the cold path keeps it right. The page also carries a magic
//! value: where the kernel wipes the page in a child (`MADV_WIPEONFORK`), `published` is 0 there,
//! which sends the child's first call to the cold path, and the missing magic then tells that it is
//! a child. So the check for a fork costs the parent's hot path nothing.

use crate::sync::{AtomicU64, Ordering};

const MAGIC: u64 = 0x534e_4f57_4c45_4153; // "SNOWLEAS"

/// How to have the kernel wipe a page in forked children. The calls are made by whoever has the
/// system interface; this crate has none.
#[derive(Clone, Copy, Debug)]
pub struct ForkGuard {
    /// Has the pages of this range wiped in forked children; whether the kernel does so.
    pub protect: fn(start: *mut u8, bytes: usize) -> bool,
    /// Undoes `protect`, before the memory is given back.
    pub unprotect: fn(start: *mut u8, bytes: usize),
}

impl ForkGuard {
    /// No guard: a forked child is not noticed. For tests, and for systems without fork.
    pub const NONE: ForkGuard = ForkGuard { protect: |_, _| false, unprotect: |_, _| {} };
}

/// Alone on its page, on kernels with pages of up to 64 KiB.
#[derive(Debug)]
#[repr(C, align(65536))]
struct Fields {
    /// First value of the running tick, or 0: go cold. (Tick 0 of generator id 0 starts at 0 as
    /// well; it is always served cold, which is right, only slower.)
    published: AtomicU64,
    /// Gauge reading from which the published tick holds, for one span.
    since: AtomicU64,
    magic: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Page {
    fields: Box<Fields>,
    guard: ForkGuard,
    guarded: bool,
}

impl Page {
    pub(super) fn new(guard: ForkGuard) -> Page {
        let mut fields = Box::new(Fields {
            published: AtomicU64::new(0),
            since: AtomicU64::new(0),
            magic: AtomicU64::new(MAGIC),
        });
        let guarded = (guard.protect)((&raw mut *fields).cast(), size_of::<Fields>());
        Page { fields, guard, guarded }
    }

    /// Whether a forked child would be noticed.
    pub(super) fn guarded(&self) -> bool {
        self.guarded
    }

    /// Whether this is a child that was forked after the page was made.
    pub(super) fn forked(&self) -> bool {
        // ORDERING: Relaxed; written before the page is shared, and never again by this process.
        self.fields.magic.load(Ordering::Relaxed) != MAGIC
    }

    /// The gauge reading since which the published tick holds; load it before [`Page::published`].
    #[inline]
    pub(super) fn since(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `publish`: whoever sees a reading also sees
        // the tick that was published before it, or a later one. Modelled by `loom_*` in
        // generator/models.rs.
        self.fields.since.load(Ordering::Acquire)
    }

    /// First value of the running tick, or 0.
    #[inline]
    pub(super) fn published(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `publish`. A stale value is harmless: a value
        // drawn from the word lies within one tick of it only if that tick is still running.
        self.fields.published.load(Ordering::Acquire)
    }

    pub(super) fn publish(&self, tick_start: u64, since: u64) {
        // ORDERING: Release, the tick before its reading; see `since`.
        self.fields.published.store(tick_start, Ordering::Release);
        self.fields.since.store(since, Ordering::Release);
    }

    /// Sends every caller to the cold path.
    pub(super) fn park(&self) {
        // ORDERING: Release for symmetry with `publish`; parking twice or late only costs a cold
        // call.
        self.fields.published.store(0, Ordering::Release);
    }

    /// Parks unless a newer tick has been published already.
    pub(super) fn park_if(&self, tick_start: u64) {
        // ORDERING: AcqRel as the store in `park`; on failure nothing was decided by the value
        // read.
        let _ = self.fields.published.compare_exchange(
            tick_start,
            0,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        (self.guard.unprotect)((&raw mut *self.fields).cast(), size_of::<Fields>());
    }
}
