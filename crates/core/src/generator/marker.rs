//! The marker of restored machines: another copy of a restored machine may issue the same ids.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// Where somebody keeps a number that changes when the machine was restored or moved, if anybody
/// does. The number never comes back to a former value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker(pub(super) Option<&'static AtomicU64>);

impl Marker {
    /// The number now; 0 if nobody keeps one.
    #[inline(always)]
    pub(super) fn read(self) -> u64 {
        // ORDERING: Relaxed, since the number may lie in memory that is read-only, where no other
        // load is sure to work; the fence makes an acquire of it: what follows is not done before.
        // See `differs`.
        self.0.map_or(0, |marker| {
            let number = marker.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            number
        })
    }

    /// Whether the number differs from this former reading; to be asked between the drawing of a
    /// value and its return. The reading was taken before the drawing.
    #[inline(always)]
    pub(super) fn differs(self, from: u64) -> bool {
        // ORDERING: SeqCst, for the compiler alone: the marker is read after the value was drawn. A
        // snapshot stops a processor between two instructions, as a signal does, so nothing else
        // can come between.
        compiler_fence(Ordering::SeqCst);
        self.read() != from
    }
}
