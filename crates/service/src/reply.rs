//! Answers: JSON, or a problem. Nothing a service answers may be kept by a cache.

use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use snowlease_core::{Format, Refusal, Tick, TickError};
use snowlease_lease::{AcquireError, Outage, PlanHash, RealmMismatch, ReleaseError, RenewError};
use snowlease_wire::{Code, Problem, problem, time};

use crate::standing::Standing;

/// An error on its way out. Boxed, since every handler's result carries it.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Box<Problem>);

impl Failure {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Failure {
        Failure(Box::new(Problem::new(code, detail)))
    }

    /// Says when to try again.
    pub(crate) fn retry_after(mut self, after: Duration) -> Failure {
        self.0.retry_after_ms = Some(millis(after));
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Problem)) -> Failure {
        change(&mut self.0);
        self
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let problem = *self.0;
        let status =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json(status, &problem);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(problem::MEDIA_TYPE));
        if let Some(ms) = problem.retry_after_ms {
            // Whole seconds, and never 0, which some clients take for "at once, in a loop".
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000).max(1)));
        }
        response
    }
}

/// An answer in JSON.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => sent(status, "application/json", Body::from(bytes)),
        // No type of the contract can fail to be written.
        Err(_) => sent(StatusCode::INTERNAL_SERVER_ERROR, problem::MEDIA_TYPE, Body::empty()),
    }
}

/// An answer of any type.
pub(crate) fn sent(status: StatusCode, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Milliseconds, rounded up so that nobody comes back too early.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// "No id now", with what the holder of the lease says of the reason.
pub(crate) fn refused(refusal: Refusal, standing: &Standing) -> Failure {
    let code = Code::named(refusal.code()).unwrap_or(Code::Internal);
    let mut failure = Failure::new(code, refusal.to_string());
    failure.0.retry_after_ms = refusal.retry_after().map(millis);
    match refusal {
        Refusal::BatchSize { limit, .. } => failure.0.limit = u64::try_from(limit).ok(),
        Refusal::ClockBehind { deficit_ms, .. } => failure.0.deficit_ms = Some(deficit_ms),
        Refusal::ClockStepped { by_ms, .. } => failure.0.by_ms = Some(by_ms),
        _ => {}
    }
    if matches!(refusal, Refusal::NoLease | Refusal::WindowEnd) && !standing.reason.is_empty() {
        failure.0.reason = Some(standing.reason.clone());
        // The store may have said when: a quarantine is not over in a moment.
        if let Some(retry_after) = standing.retry_after {
            failure.0.retry_after_ms = Some(millis(retry_after));
        }
    }
    failure
}

/// The service's own clock shows no tick.
pub(crate) fn no_tick(error: TickError) -> Failure {
    let code = match error {
        TickError::BeforeEpoch { .. } => Code::BeforeEpoch,
        TickError::TimeEnd { .. } => Code::TimeEnd,
    };
    Failure::new(code, error.to_string())
}

/// What the mapping of a store's errors needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) format: Format,
    pub(crate) reference_ms: i64,
    /// When to try again if the error does not say.
    pub(crate) retry: Duration,
}

impl Context {
    /// The words of an error, in which each tick has its instant beside it.
    fn told(self, error: &impl fmt::Display) -> String {
        time::beside_ticks(&error.to_string(), self.format)
    }

    fn until(self, tick: Tick) -> Duration {
        let left_ms = self.format.unix_ms(tick).saturating_sub(self.reference_ms);
        Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))
    }

    pub(crate) fn outage(self, outage: &Outage) -> Failure {
        let code = if outage.unknown { Code::StoreUnknown } else { Code::StoreUnavailable };
        Failure::new(code, outage.detail.clone()).retry_after(Duration::from_secs(1))
    }

    fn quarantined(self, floor: Tick, detail: String) -> Failure {
        Failure::new(Code::Quarantined, detail)
            .retry_after(self.until(floor))
            .with(|problem| problem.floor = Some(floor.0))
    }

    pub(crate) fn not_granted(self, error: &AcquireError) -> Failure {
        let detail = self.told(error);
        match error {
            AcquireError::Exhausted { total, earliest } => Failure::new(Code::Exhausted, detail)
                .retry_after(earliest.map_or(self.retry, |tick| self.until(tick)))
                .with(|problem| {
                    problem.total = Some(*total);
                    problem.earliest = earliest.map(|tick| tick.0);
                    problem.earliest_expiry_ms = earliest.map(|tick| self.format.unix_ms(tick));
                }),
            AcquireError::Frozen => Failure::new(Code::Frozen, detail).retry_after(self.retry),
            AcquireError::Quarantined { floor } => self.quarantined(*floor, detail),
            AcquireError::Format { store, .. } => Failure::new(Code::FormatMismatch, detail)
                .with(|problem| problem.format = Some((*store).into())),
            AcquireError::Realm(mismatch) => {
                Failure::new(Code::RealmMismatch, detail).with(|problem| match mismatch {
                    RealmMismatch::Environment { store, .. } => {
                        problem.environment = Some(store.clone());
                    }
                    RealmMismatch::Plan { store, .. } => {
                        problem.plan = Some(store.map(PlanHash::to_text).unwrap_or_default());
                    }
                })
            }
            AcquireError::Skew { ahead_ms } => {
                Failure::new(Code::ClockSkew, detail).with(|problem| {
                    problem.ahead_ms = Some(*ahead_ms);
                    problem.reference_ms = Some(self.reference_ms);
                })
            }
            AcquireError::ClockUntrusted { reason } => Failure::new(Code::ClockUntrusted, detail)
                .retry_after(self.retry)
                .with(|problem| problem.reason = Some(reason.clone())),
            AcquireError::Window { from, until } => {
                Failure::new(Code::BadWindow, detail).with(|problem| {
                    problem.from = Some(from.0);
                    problem.until = Some(until.0);
                })
            }
            AcquireError::Outage(outage) => self.outage(outage),
        }
    }

    pub(crate) fn not_renewed(self, error: &RenewError) -> Failure {
        let detail = self.told(error);
        match error {
            RenewError::NotYours { reason } => not_yours(reason, detail),
            RenewError::RolledBack { floor } => Failure::new(Code::RolledBack, detail)
                .retry_after(self.until(*floor))
                .with(|problem| problem.floor = Some(floor.0)),
            RenewError::Quarantined { floor } => self.quarantined(*floor, detail),
            RenewError::OutOfRange => Failure::new(Code::NoGenerator, detail),
            RenewError::Outage(outage) => self.outage(outage),
        }
    }

    pub(crate) fn not_released(self, error: &ReleaseError) -> Failure {
        let detail = self.told(error);
        match error {
            ReleaseError::NotYours { reason } => not_yours(reason, detail),
            ReleaseError::OutsideWindow { from, until } => {
                Failure::new(Code::OutsideWindow, detail).with(|problem| {
                    problem.from = Some(from.0);
                    problem.until = Some(until.0);
                })
            }
            ReleaseError::OutOfRange => Failure::new(Code::NoGenerator, detail),
            ReleaseError::Outage(outage) => self.outage(outage),
        }
    }
}

fn not_yours(reason: &str, detail: String) -> Failure {
    Failure::new(Code::NotYours, detail).with(|problem| problem.reason = Some(reason.to_owned()))
}
