//! What the hot path reads: the published tick and how long it holds, alone on a page that a forked
//! child does not inherit.
//!
//! The hot path trusts `published`; the cold path keeps it right. The page also carries a magic
//! value: where the kernel wipes the page in a child (`MADV_WIPEONFORK`), every length and
//! `published` are 0 there, which sends the child's first call to the cold path, and the missing
//! magic then tells that it is a child. So the check for a fork costs the parent's hot path
//! nothing.
//!
//! The fields fill one line of the processor's cache. It is written once a tick.

use std::ops::Deref;

use super::mode::Kind;
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
pub(super) struct Fields {
    /// First value of the running tick, or 0: go cold. (Tick 0 of generator id 0 starts at 0 as
    /// well; it is always served cold, which is right, only slower.)
    published: AtomicU64,
    mode: AtomicU64,
    /// One for each kind of gauge, so that no reading is ever compared in another's unit.
    held: [Held; Kind::COUNT],
    /// The marker of restored machines, as of the opening of the lease.
    marker: AtomicU64,
    magic: AtomicU64,
}

/// Where on one gauge the published tick holds: for `length`, from `since` on.
#[derive(Debug)]
struct Held {
    since: AtomicU64,
    length: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Page {
    fields: Box<Fields>,
    guard: ForkGuard,
    guarded: bool,
}

impl Page {
    pub(super) fn new(marker: u64) -> Page {
        let held = || Held { since: AtomicU64::new(0), length: AtomicU64::new(0) };
        let fields = Box::new(Fields {
            published: AtomicU64::new(0),
            mode: AtomicU64::new(0),
            held: [held(), held()],
            marker: AtomicU64::new(marker),
            magic: AtomicU64::new(MAGIC),
        });
        Page { fields, guard: ForkGuard::NONE, guarded: false }
    }

    /// Has the page wiped in forked children.
    pub(super) fn protect(&mut self, guard: ForkGuard) {
        (self.guard.unprotect)((&raw mut *self.fields).cast(), size_of::<Fields>());
        self.guarded = (guard.protect)((&raw mut *self.fields).cast(), size_of::<Fields>());
        self.guard = guard;
    }

    /// Whether a forked child would be noticed.
    pub(super) fn guarded(&self) -> bool {
        self.guarded
    }
}

/// The hot path takes the fields once, and then needs no other way to them.
impl Deref for Page {
    type Target = Fields;

    #[inline(always)]
    fn deref(&self) -> &Fields {
        &self.fields
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        (self.guard.unprotect)((&raw mut *self.fields).cast(), size_of::<Fields>());
    }
}

impl Fields {
    /// Whether this is a child that was forked after the page was made.
    pub(super) fn forked(&self) -> bool {
        // ORDERING: Relaxed; written before the page is shared, and never again by this process.
        self.magic.load(Ordering::Relaxed) != MAGIC
    }

    /// What guards a call: see [`mode`](super::mode).
    #[inline(always)]
    pub(super) fn mode(&self) -> u64 {
        // ORDERING: Relaxed; a caller that has an old mode reads a gauge in that gauge's own unit,
        // and one that has the new mode before the length that belongs to it goes cold.
        self.mode.load(Ordering::Relaxed)
    }

    /// Sets what guards a call, and for how long a tick holds at most.
    pub(super) fn set_mode(&self, mode: u64, kind: Kind, length: u64) {
        // ORDERING: Release, the length before the mode that reads it. A turn that is under way
        // publishes from the former length: that tick ends one span too late at worst, once.
        self.held[kind.index()].length.store(length, Ordering::Release);
        self.mode.store(mode, Ordering::Release);
    }

    /// Whether this reading of the gauge lies where the published tick holds; to be asked before
    /// [`Page::published`].
    #[inline(always)]
    pub(super) fn holds(&self, kind: Kind, reading: u64) -> bool {
        let held = &self.held[kind.index()];
        // ORDERING: Acquire pairs with the Release in `publish_until`: whoever sees a reading also
        // sees the tick that was published before it, or a later one, and the length it was
        // reckoned with. Modelled by `loom_*` in generator/models.rs.
        let since = held.since.load(Ordering::Acquire);
        // ORDERING: Relaxed; shown by the load above.
        reading.wrapping_sub(since) < held.length.load(Ordering::Relaxed)
    }

    /// First value of the running tick, or 0.
    #[inline(always)]
    pub(super) fn published(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `publish`. A stale value is harmless: a value
        // drawn from the word lies within one tick of it only if that tick is still running.
        self.published.load(Ordering::Acquire)
    }

    /// Publishes a tick, until it is parked.
    pub(super) fn publish(&self, tick_start: u64) {
        // ORDERING: Release, after the exchange that the tick was looked at for.
        self.published.store(tick_start, Ordering::Release);
    }

    /// Publishes a tick that ends at this reading of the gauge.
    pub(super) fn publish_until(&self, tick_start: u64, kind: Kind, end: u64) {
        let held = &self.held[kind.index()];
        // ORDERING: Relaxed; if it changes meanwhile, see `set_mode`.
        let since = end.wrapping_sub(held.length.load(Ordering::Relaxed));
        self.publish(tick_start);
        // ORDERING: Release, the tick before its reading; see `holds`.
        held.since.store(since, Ordering::Release);
    }

    /// Sends every caller to the cold path.
    pub(super) fn park(&self) {
        // ORDERING: Release for symmetry with `publish`; parking twice or late only costs a cold
        // call.
        self.published.store(0, Ordering::Release);
    }

    /// Parks unless a newer tick has been published already.
    pub(super) fn park_if(&self, tick_start: u64) {
        // ORDERING: AcqRel as the store in `park`; on failure nothing was decided by the value
        // read.
        let _ = self.published.compare_exchange(tick_start, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The marker that the open lease was had under; to be asked before a value is drawn.
    #[inline(always)]
    pub(super) fn marker(&self) -> u64 {
        // ORDERING: Acquire, before the value is drawn, pairs with the Release in `set_marker`: who
        // reads the marker of a later lease draws after the former one was closed, and so no
        // value of that one. An older marker than the lease's own is only unequal.
        self.marker.load(Ordering::Acquire)
    }

    /// Remembers the marker for the lease about to be opened.
    pub(super) fn set_marker(&self, marker: u64) {
        // ORDERING: Release, between the closing of the former lease and the opening of the next.
        self.marker.store(marker, Ordering::Release);
    }
}
