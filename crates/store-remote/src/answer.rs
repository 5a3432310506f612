//! From problems on the wire back to the errors of a store.

use snowlease_core::{Format, Tick};
use snowlease_lease::{
    Acquire, AcquireError, Outage, PlanHash, RealmMismatch, ReleaseError, RenewError, rules,
};
use snowlease_wire::{Code, Problem};

use crate::StatusError;
use crate::call::Failure;

/// The reason if the service gives none that the rules of every store give.
const OTHER_REASON: &str = "the service says that the lease is not this holder's";

/// What is left when no answer says more: whether the call may have taken effect.
pub(crate) fn outage(failure: &Failure) -> Outage {
    match failure {
        Failure::Unsent(detail) => Outage::unavailable(detail.clone()),
        Failure::Lost(detail) | Failure::Senseless(detail) => Outage::unknown(detail.clone()),
        Failure::Refused(problem) => refused(problem),
        Failure::Foreign(status) => {
            let detail = format!(
                "the answer has status {status} and is not of a lease service: check the URL and \
                 what is in between"
            );
            // A proxy that gave up waiting answers 5xx, and the request may have got through.
            Outage { unknown: *status >= 500, detail }
        }
    }
}

/// Why a store does not say what it is for: trying again helps only where a lease service may be.
pub(crate) fn no_status(failure: &Failure) -> StatusError {
    let outage = outage(failure);
    let elsewhere = match failure {
        Failure::Unsent(_) | Failure::Lost(_) => false,
        Failure::Senseless(_) => true,
        // The path leads past the service, as through a proxy that adds or drops a part of it.
        Failure::Refused(problem) => {
            matches!(problem.known_code(), Some(Code::NotFound | Code::MethodNotAllowed))
        }
        // What is busy, or a proxy whose service is not there yet, may say something else later.
        Failure::Foreign(status) => *status < 500 && !matches!(status, 408 | 425 | 429),
    };
    if elsewhere { StatusError::NoService(outage.detail) } else { StatusError::Outage(outage) }
}

fn refused(problem: &Problem) -> Outage {
    let unknown = match problem.known_code() {
        Some(Code::StoreUnknown | Code::Timeout | Code::Internal) => true,
        Some(_) => false,
        None => problem.status >= 500,
    };
    Outage { unknown, detail: problem.detail.clone() }
}

pub(crate) fn not_granted(failure: &Failure, ask: &Acquire) -> AcquireError {
    let Failure::Refused(problem) = failure else { return outage(failure).into() };
    let told = match problem.known_code() {
        Some(Code::Exhausted) => problem
            .total
            .map(|total| AcquireError::Exhausted { total, earliest: problem.earliest.map(Tick) }),
        Some(Code::Frozen) => Some(AcquireError::Frozen),
        Some(Code::Quarantined) => {
            problem.floor.map(|floor| AcquireError::Quarantined { floor: Tick(floor) })
        }
        Some(Code::FormatMismatch) => problem
            .format
            .as_ref()
            .and_then(|doc| Format::try_from(doc).ok())
            .map(|store| AcquireError::Format { store, asked: ask.format }),
        Some(Code::RealmMismatch) => realm_mismatch(problem, ask).map(AcquireError::Realm),
        Some(Code::ClockSkew) => problem.ahead_ms.map(|ahead_ms| AcquireError::Skew { ahead_ms }),
        Some(Code::ClockUntrusted) => {
            problem.reason.clone().map(|reason| AcquireError::ClockUntrusted { reason })
        }
        Some(Code::BadWindow) => Some(AcquireError::Window { from: ask.from, until: ask.until }),
        _ => None,
    };
    told.unwrap_or_else(|| refused(problem).into())
}

/// Which part of what the holder stated is not the service's.
fn realm_mismatch(problem: &Problem, ask: &Acquire) -> Option<RealmMismatch> {
    if let Some(store) = &problem.environment {
        let asked = ask.realm.environment().to_owned();
        return Some(RealmMismatch::Environment { store: store.clone(), asked });
    }
    let store = problem.plan.as_deref().and_then(PlanHash::from_text);
    Some(RealmMismatch::Plan { store, asked: ask.realm.plan()? })
}

pub(crate) fn not_renewed(failure: &Failure) -> RenewError {
    let Failure::Refused(problem) = failure else { return outage(failure).into() };
    let told = match problem.known_code() {
        Some(Code::NotYours) => Some(RenewError::NotYours { reason: reason(problem) }),
        Some(Code::RolledBack) => {
            problem.floor.map(|floor| RenewError::RolledBack { floor: Tick(floor) })
        }
        Some(Code::Quarantined) => {
            problem.floor.map(|floor| RenewError::Quarantined { floor: Tick(floor) })
        }
        Some(Code::NoGenerator) => Some(RenewError::OutOfRange),
        _ => None,
    };
    told.unwrap_or_else(|| refused(problem).into())
}

pub(crate) fn not_released(failure: &Failure) -> ReleaseError {
    let Failure::Refused(problem) = failure else { return outage(failure).into() };
    let told = match problem.known_code() {
        Some(Code::NotYours) => Some(ReleaseError::NotYours { reason: reason(problem) }),
        Some(Code::OutsideWindow) => problem.from.zip(problem.until).map(|(from, until)| {
            ReleaseError::OutsideWindow { from: Tick(from), until: Tick(until) }
        }),
        Some(Code::NoGenerator) => Some(ReleaseError::OutOfRange),
        _ => None,
    };
    told.unwrap_or_else(|| refused(problem).into())
}

fn reason(problem: &Problem) -> &'static str {
    let told = problem.reason.as_deref();
    [rules::TAKEN, rules::GIVEN_BACK]
        .into_iter()
        .find(|reason| Some(*reason) == told)
        .unwrap_or(OTHER_REASON)
}
