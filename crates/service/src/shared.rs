//! What every handler works with: the parts, the bounds in force, and the way to the store.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::histogram::Histogram;
use snowlease_core::{Format, Tick};
use snowlease_lease::{
    Acquire, AcquireError, Administer, Grant, Outage, Renew, RenewError, Renewal, os,
};
use snowlease_wire::{Code, time};
use tokio::sync::Semaphore;

use crate::Parts;
use crate::coalesce::Coalescer;
use crate::metrics::{Metrics, Operation};
use crate::reply::{self, Context, Failure};
use crate::standing::Standing;

pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) format: Format,
    pub(crate) metrics: Metrics,
    pub(crate) requests: Semaphore,
    pub(crate) waiters: Semaphore,
    /// One at a time, so that scrapes of a store that hangs do not pile up.
    pub(crate) probes: Arc<Semaphore>,
    acquires: Coalescer<Acquire, Result<Grant, AcquireError>>,
    renewals: Coalescer<Renew, Result<Renewal, RenewError>>,
    store_calls: Arc<Semaphore>,
    /// Fewer, so that a flood of lists does not hold up renewals.
    store_reads: Arc<Semaphore>,
    stopping: AtomicBool,
    skews: Mutex<HashMap<u64, i64>>,
}

/// How many calls of one kind are made for many holders at once: one that is under way, and one
/// that is made up meanwhile.
const CALLS: usize = 2;

impl Shared {
    pub(crate) fn new(parts: Parts) -> Shared {
        let limits = parts.limits;
        Shared {
            format: parts.generator.format(),
            metrics: Metrics::new(),
            requests: Semaphore::new(limits.requests),
            waiters: Semaphore::new(limits.waiters),
            probes: Arc::new(Semaphore::new(1)),
            acquires: Coalescer::new(CALLS, |a, b| a.request_key == b.request_key),
            renewals: Coalescer::new(CALLS, |a, b| a.generator_id == b.generator_id),
            store_calls: Arc::new(Semaphore::new(limits.store_calls)),
            store_reads: Arc::new(Semaphore::new((limits.store_calls / 8).max(1))),
            stopping: AtomicBool::new(false),
            skews: Mutex::default(),
            parts,
        }
    }

    /// The reference clock, in Unix ms.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.parts.wall_ms)()
    }

    /// The tick of the reference clock.
    pub(crate) fn now(&self) -> Result<Tick, Failure> {
        self.format.tick_at_ms(self.now_ms()).map_err(reply::no_tick)
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            format: self.format,
            reference_ms: self.now_ms(),
            retry: self.parts.terms.renew(),
        }
    }

    /// How the service's own lease stands, its reason in words for people.
    pub(crate) fn standing(&self) -> Standing {
        let mut standing = (self.parts.standing)();
        standing.reason = time::beside_ticks(&standing.reason, self.format);
        standing
    }

    /// Acquires, together with whoever asks meanwhile.
    pub(crate) async fn acquire(&self, ask: Acquire) -> Result<Grant, AcquireError> {
        let (store, latency) =
            (Arc::clone(&self.parts.store), self.metrics.latency(Operation::Acquire));
        let wall_ms = Arc::clone(&self.parts.wall_ms);
        let call = move |asks: &[Acquire]| {
            // The clock of now: the time that an ask has waited is nobody's skew.
            let now_ms = wall_ms();
            let asks: Vec<_> = asks.iter().map(|ask| Acquire { now_ms, ..ask.clone() }).collect();
            timed(&latency, || store.acquire_each(&asks))
        };
        self.acquires.ask(ask, call).await.unwrap_or_else(|| Err(failed().into()))
    }

    /// Renews, together with whoever asks meanwhile.
    pub(crate) async fn renew(&self, ask: Renew) -> Result<Renewal, RenewError> {
        let (store, latency) =
            (Arc::clone(&self.parts.store), self.metrics.latency(Operation::Renew));
        let wall_ms = Arc::clone(&self.parts.wall_ms);
        let call = move |asks: &[Renew]| {
            let now_ms = wall_ms();
            let asks: Vec<_> = asks.iter().map(|ask| Renew { now_ms, ..ask.clone() }).collect();
            timed(&latency, || store.renew_each(&asks))
        };
        self.renewals.ask(ask, call).await.unwrap_or_else(|| Err(failed().into()))
    }

    /// Calls the store on a thread that may block.
    ///
    /// The call goes on if the caller goes away; its outcome is then unknown to the caller only.
    pub(crate) async fn store<T, F>(&self, operation: Operation, call: F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Administer) -> T + Send + 'static,
    {
        let unavailable = || {
            let outage = Outage::unavailable("the service is stopping: ask another, or later");
            self.context().outage(&outage)
        };
        let gate = match operation {
            Operation::Status | Operation::List | Operation::Verify => &self.store_reads,
            _ => &self.store_calls,
        };
        let permit = Arc::clone(gate).acquire_owned().await.map_err(|_| unavailable())?;
        let store = Arc::clone(&self.parts.store);
        let latency = self.metrics.latency(operation);
        let call = move || {
            let _permit = permit;
            timed(&latency, || call(&*store))
        };
        let called = tokio::task::spawn_blocking(call).await;
        called.map_err(|_| self.context().outage(&failed()))
    }

    /// Whether the service was told to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        // ORDERING: Relaxed; a hint for probes that guards nothing.
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        // ORDERING: Relaxed; see above.
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// How far each holder's clock was ahead when it was last heard, in ms. One entry for a
    /// generator id of the store at most.
    pub(crate) fn skews(&self) -> MutexGuard<'_, HashMap<u64, i64>> {
        self.skews.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn heard(&self, generator_id: u64, ahead_ms: Option<i64>) {
        if let Some(ahead_ms) = ahead_ms {
            self.skews().insert(generator_id, ahead_ms);
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("parts", &self.parts).finish_non_exhaustive()
    }
}

fn failed() -> Outage {
    Outage::unknown("the store's driver failed: look at the service's log")
}

fn timed<T>(latency: &Histogram, call: impl FnOnce() -> T) -> T {
    let started_ns = os::boot_ns();
    let answer = call();
    latency.observe(seconds(os::boot_ns().saturating_sub(started_ns)));
    answer
}

/// A generator id in a path: the one decimal text of it.
pub(crate) fn generator_id(text: &str) -> Result<u64, Failure> {
    let unknown = || {
        let detail = "a generator id is a number in decimal, as the lease's answer gives it";
        Failure::new(Code::NoGenerator, detail)
    };
    let id = text.parse::<u64>().map_err(|_| unknown())?;
    // Signs, leading zeros and the like are read by `parse`, and are other texts.
    if id.to_string() == text { Ok(id) } else { Err(unknown()) }
}

/// Nanoseconds in seconds, for a histogram.
pub(crate) fn seconds(ns: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a metric needs no more than 53 bits")]
    let ns = ns as f64;
    ns / 1e9
}
