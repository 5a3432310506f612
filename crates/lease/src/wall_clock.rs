//! The wall clock that a store goes by, as a value, so that a test can set it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A wall clock: Unix ms.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl WallClock {
    /// A clock that reads this.
    pub fn new(read: impl Fn() -> i64 + Send + Sync + 'static) -> WallClock {
        WallClock(Arc::new(read))
    }
}

impl Deref for WallClock {
    type Target = dyn Fn() -> i64 + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WallClock").field(&(self.0)()).finish()
    }
}
