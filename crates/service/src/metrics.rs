//! What the service itself counts and times.
//!
//! What the generator counts is read from it at each scrape; see `scrape`.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// A call to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Status,
    Acquire,
    Renew,
    Release,
    List,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabel {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    route: String,
    status: u32,
}

pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    issued: Counter,
    answers: Family<AnswerLabels, Counter>,
    latency: Family<OperationLabel, Histogram, fn() -> Histogram>,
    went_to_wait: AtomicU64,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("snowlease");
        let issued = Counter::default();
        registry.register("ids_issued", "Ids issued over HTTP", issued.clone());
        let answers = Family::default();
        registry.register("http_requests", "Answers by route and status", answers.clone());
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_5, 2.0, 13));
        let latency = Family::new_with_constructor(buckets);
        let help = "Time that calls to the lease store took";
        registry.register_with_unit("store_latency", help, Unit::Seconds, latency.clone());
        Metrics { registry, issued, answers, latency, went_to_wait: AtomicU64::new(0) }
    }

    pub(crate) fn issued(&self, ids: usize) {
        self.issued.inc_by(u64::try_from(ids).unwrap_or(u64::MAX));
    }

    pub(crate) fn answered(&self, route: String, status: u16) {
        self.answers.get_or_create(&AnswerLabels { route, status: status.into() }).inc();
    }

    pub(crate) fn latency(&self, operation: Operation) -> Histogram {
        let operation = match operation {
            Operation::Status => "status",
            Operation::Acquire => "acquire",
            Operation::Renew => "renew",
            Operation::Release => "release",
            Operation::List => "list",
        };
        self.latency.get_or_create(&OperationLabel { operation }).clone()
    }

    /// The generator has counted a refusal that no caller sees: its request goes to wait.
    pub(crate) fn went_to_wait(&self) {
        // ORDERING: Relaxed; a count that guards nothing.
        self.went_to_wait.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn waiting_refusals(&self) -> u64 {
        // ORDERING: Relaxed; see above.
        self.went_to_wait.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
