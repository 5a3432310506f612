//! A thread's own handle: the fastest way to single ids.

use std::fmt;

use snowlease_core::{Id, Local, Refusal};

use crate::Ids;

/// Issues ids to one thread, from small blocks of the shared generator's. Made by [`Ids::local`].
///
/// # Promise
///
/// As [`Ids`], with a weaker order between handles: ids of one handle ascend strictly; a call that
/// begins after one of another handle returned gets an id of the same tick or of a later one, which
/// in the same tick may be smaller. Ids of [`Ids`] itself are above all that handles had returned.
///
/// # Cost
///
/// No atomic addition: with [`ticking`](crate::Connector::ticking) two loads and a comparison, else
/// little more than a reading of the processor's counter; `docs/compare.md` has figures. When a
/// tick ends, at most as many ids as were issued in it go unused, and never more than 63.
///
/// # Example
///
/// ```
/// let ids = snowlease::Connector::new("memory:orders").ticking().connect_blocking()?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         let mut local = ids.local();
///         scope.spawn(move || (0..1000).try_for_each(|_| local.next_id().map(drop)));
///     }
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a handle issues nothing by itself"]
pub struct LocalIds {
    local: Local,
    /// Keeps the lease.
    ids: Ids,
}

impl LocalIds {
    pub(crate) fn new(local: Local, ids: Ids) -> LocalIds {
        LocalIds { local, ids }
    }

    /// Issues one id; inside a full tick it waits as [`Ids::next_id`] does.
    ///
    /// # Errors
    ///
    /// As [`Ids::next_id`].
    #[inline(always)]
    pub fn next_id(&mut self) -> Result<Id, Refusal> {
        self.local.next_id()
    }

    /// Issues one id and never waits.
    ///
    /// # Errors
    ///
    /// As [`Ids::try_next_id`].
    #[inline(always)]
    pub fn try_next_id(&mut self) -> Result<Id, Refusal> {
        self.local.try_next_id()
    }

    /// The connection it is of.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }
}

impl fmt::Debug for LocalIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalIds").field("ids", &self.ids).finish_non_exhaustive()
    }
}
