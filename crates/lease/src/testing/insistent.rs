//! A caller that asks until it knows: what a holder does about outages, without its patience for
//! time.

use std::sync::Arc;

use crate::{
    Acquire, AcquireError, Grant, LeaseEntry, LeaseStore, Outage, Release, ReleaseError, Renew,
    RenewError, Renewal, StoreStatus,
};

/// Repeats each call with the same bytes until its answer is no outage.
///
/// A release whose first answer was lost ends as [`ReleaseError::NotYours`], as the trait says.
#[derive(Debug)]
pub struct InsistentStore {
    inner: Arc<dyn LeaseStore>,
}

/// So many outages in a row are no bad luck.
const ATTEMPTS: u32 = 1000;

impl InsistentStore {
    /// Asks this store.
    pub fn new(inner: Arc<dyn LeaseStore>) -> InsistentStore {
        InsistentStore { inner }
    }
}

fn insist<T, E>(call: impl Fn() -> Result<T, E>, is_outage: impl Fn(&E) -> bool) -> Result<T, E> {
    let mut answer = call();
    for _ in 1..ATTEMPTS {
        if !answer.as_ref().is_err_and(&is_outage) {
            break;
        }
        answer = call();
    }
    answer
}

impl LeaseStore for InsistentStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        insist(|| self.inner.status(), |_| true)
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        insist(|| self.inner.acquire(ask), |error| matches!(error, AcquireError::Outage(_)))
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        insist(|| self.inner.renew(ask), |error| matches!(error, RenewError::Outage(_)))
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        insist(|| self.inner.release(ask), |error| matches!(error, ReleaseError::Outage(_)))
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        insist(|| self.inner.list(), |_| true)
    }
}
