//! A store with a clock of its own, as a lease service or a database has: it refuses holders whose
//! clocks are too far off, cuts windows at its own time, and tells what that is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::id_clock::Time;
use crate::testing::ScriptedTime;
use crate::{
    Acquire, AcquireError, Grant, LeaseEntry, LeaseStore, Outage, Release, ReleaseError, Renew,
    RenewError, Renewal, StoreStatus, Terms, rules,
};

/// The store within, by the clock of another host.
#[derive(Debug)]
pub struct Referenced<S> {
    store: Arc<S>,
    host: ScriptedTime,
    terms: Terms,
    away: AtomicBool,
}

impl<S: LeaseStore> Referenced<S> {
    /// `store` on a host with these clocks, which grants windows by these terms.
    pub fn new(store: Arc<S>, host: ScriptedTime, terms: Terms) -> Referenced<S> {
        Referenced { store, host, terms, away: AtomicBool::new(false) }
    }

    /// Whether it cannot be reached.
    pub fn set_away(&self, away: bool) {
        // ORDERING: Relaxed; a switch of a test.
        self.away.store(away, Ordering::Relaxed);
    }

    fn now_ms(&self) -> Result<i64, Outage> {
        // ORDERING: Relaxed; as above.
        if self.away.load(Ordering::Relaxed) {
            return Err(Outage::unavailable("the store is away"));
        }
        let ms = self.host.wall_ns().div_euclid(1_000_000);
        Ok(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

impl<S: LeaseStore> LeaseStore for Referenced<S> {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.now_ms()?;
        self.store.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        let now_ms = self.now_ms()?;
        let ahead_ms = ask.now_ms.saturating_sub(now_ms);
        if u128::from(ahead_ms.unsigned_abs()) > Terms::SKEW_LIMIT.as_millis() {
            return Err(AcquireError::Skew { ahead_ms });
        }
        let mut grant = self.store.acquire(&Acquire { now_ms, ..ask.clone() })?;
        grant.reference_ms = Some(now_ms);
        Ok(grant)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        let now_ms = self.now_ms()?;
        let most = self.terms.bridge() + Terms::SKEW_LIMIT;
        let most_ms = i64::try_from(most.as_millis()).unwrap_or(i64::MAX);
        let format = self.store.status()?.meta.format;
        let end = format.first_tick_from_ms(now_ms.saturating_add(most_ms));
        let until = ask.until.min(end).min(rules::end(format));
        let mut renewal = self.store.renew(&Renew { until, now_ms, ..ask.clone() })?;
        renewal.reference_ms = Some(now_ms);
        Ok(renewal)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.now_ms()?;
        self.store.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.now_ms()?;
        self.store.list()
    }
}
