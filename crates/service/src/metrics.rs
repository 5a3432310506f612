//! What the service itself counts and times.
//!
//! Each of these only rises. What others count is read from them at each scrape; see `scrape`.

use std::fmt;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use snowlease_core::Refusal;

/// A call to the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Status,
    Acquire,
    Renew,
    Release,
    List,
    Admin,
    Verify,
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

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    reason: &'static str,
}

pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    issued: Counter,
    refusals: Family<RefusalLabel, Counter>,
    answers: Family<AnswerLabels, Counter>,
    latency: Family<OperationLabel, Histogram, fn() -> Histogram>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("snowlease");
        let issued = Counter::default();
        registry.register("ids_issued", "Ids issued over HTTP", issued.clone());
        let refusals = Family::<RefusalLabel, Counter>::default();
        for reason in Refusal::CODES {
            // So that the first refusal is seen as a rise.
            drop(refusals.get_or_create(&RefusalLabel { reason }));
        }
        let help = "Calls over HTTP that got no id, by reason";
        registry.register("refusals", help, refusals.clone());
        let answers = Family::default();
        registry.register("http_requests", "Answers by route and status", answers.clone());
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_5, 2.0, 13));
        let latency = Family::new_with_constructor(buckets);
        let help = "Time that calls to the lease store took";
        registry.register_with_unit("store_latency", help, Unit::Seconds, latency.clone());
        Metrics { registry, issued, refusals, answers, latency }
    }

    pub(crate) fn issued(&self, ids: usize) {
        self.issued.inc_by(u64::try_from(ids).unwrap_or(u64::MAX));
    }

    /// A caller is told that there is no id. What the generator counts is more: it refuses to wait
    /// for what then goes to a thread that may.
    pub(crate) fn refused(&self, refusal: Refusal) {
        self.refusals.get_or_create(&RefusalLabel { reason: refusal.code() }).inc();
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
            Operation::Admin => "admin",
            Operation::Verify => "verify",
        };
        self.latency.get_or_create(&OperationLabel { operation }).clone()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
