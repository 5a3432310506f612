//! A wall clock as a value, so that a test can set it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A wall clock: Unix ms.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// A clock that reads this.
    pub fn new(read: impl Fn() -> i64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(read))
    }
}

impl Deref for Clock {
    type Target = dyn Fn() -> i64 + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&(self.0)()).finish()
    }
}
