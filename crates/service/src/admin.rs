//! What an operator may do to a running service's store: drain, freeze, quarantine, verify.
//!
//! Nothing here takes a lease away or deletes a cell: waiting for a window to end is always safe.
//! Each call wants a JSON body, if an empty one, so that no page in a browser can make it.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use snowlease_lease::{Finding, Mode, rules};
use snowlease_wire::{self as wire, Problem, time};

use crate::body::Json;
use crate::metrics::Operation;
use crate::query::NoQuery;
use crate::reply::{self, Failure};
use crate::shared::{Shared, generator_id};

/// Has the holder of a generator id move to another one.
///
/// It is not granted again until that is undone. The holder learns of it at its next renewal and
/// switches without a gap.
#[utoipa::path(
    post,
    path = "/generators/{id}/drain",
    operation_id = "drain",
    tag = "admin",
    params(("id" = u64, Path, description = "the generator id")),
    request_body = wire::AdminAsk,
    responses(
        (status = 200, description = "It is draining", body = wire::Drained),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not done now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn drain(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    _: NoQuery,
    Json(wire::AdminAsk {}): Json<wire::AdminAsk>,
) -> Result<Response, Failure> {
    set_draining(&shared, &id, true).await
}

/// Has a generator id granted again.
#[utoipa::path(
    post,
    path = "/generators/{id}/undrain",
    operation_id = "undrain",
    tag = "admin",
    params(("id" = u64, Path, description = "the generator id")),
    request_body = wire::AdminAsk,
    responses(
        (status = 200, description = "It is not draining any more", body = wire::Drained),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not done now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn undrain(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    _: NoQuery,
    Json(wire::AdminAsk {}): Json<wire::AdminAsk>,
) -> Result<Response, Failure> {
    set_draining(&shared, &id, false).await
}

async fn set_draining(shared: &Shared, id: &str, draining: bool) -> Result<Response, Failure> {
    let generator_id = generator_id(id)?;
    let (first, last) = shared.parts.range;
    if generator_id < first || generator_id > last {
        return Err(shared.context().not_renewed(&snowlease_lease::RenewError::OutOfRange));
    }
    let drained =
        shared.store(Operation::Admin, move |store| store.drain(generator_id, draining)).await?;
    drained.map_err(|outage| shared.context().outage(&outage))?;
    Ok(reply::json(StatusCode::OK, &wire::Drained { generator_id, draining }))
}

/// Stops granting; holders go on renewing.
#[utoipa::path(
    post,
    path = "/store/freeze",
    operation_id = "freeze",
    tag = "admin",
    request_body = wire::AdminAsk,
    responses(
        (status = 200, description = "It is frozen", body = wire::ModeSet),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not done now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn freeze(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
    Json(wire::AdminAsk {}): Json<wire::AdminAsk>,
) -> Result<Response, Failure> {
    set_mode(&shared, Mode::Frozen).await
}

/// Grants again.
#[utoipa::path(
    post,
    path = "/store/unfreeze",
    operation_id = "unfreeze",
    tag = "admin",
    request_body = wire::AdminAsk,
    responses(
        (status = 200, description = "It is open", body = wire::ModeSet),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not done now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn unfreeze(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
    Json(wire::AdminAsk {}): Json<wire::AdminAsk>,
) -> Result<Response, Failure> {
    set_mode(&shared, Mode::Open).await
}

async fn set_mode(shared: &Shared, mode: Mode) -> Result<Response, Failure> {
    let set = shared.store(Operation::Admin, move |store| store.set_mode(mode)).await?;
    set.map_err(|outage| shared.context().outage(&outage))?;
    let mode = match mode {
        Mode::Open => wire::Mode::Open,
        Mode::Frozen => wire::Mode::Frozen,
    };
    Ok(reply::json(StatusCode::OK, &wire::ModeSet { mode }))
}

/// Grants and renews nothing until every window that the store may have forgotten is over.
///
/// To be called after a backup was restored. It ends by itself.
#[utoipa::path(
    post,
    path = "/store/quarantine",
    operation_id = "quarantine",
    tag = "admin",
    request_body = wire::AdminAsk,
    responses(
        (status = 200, description = "It is in quarantine", body = wire::Quarantined),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not done now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn quarantine(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
    Json(wire::AdminAsk {}): Json<wire::AdminAsk>,
) -> Result<Response, Failure> {
    let now = shared.now()?;
    let raise = move |store: &dyn snowlease_lease::Administer| {
        let meta = store.status()?.meta;
        store.quarantine(rules::past_every_window(&meta, now))
    };
    let raised = shared.store(Operation::Admin, raise).await?;
    let floor = raised.map_err(|outage| shared.context().outage(&outage))?;
    let floor_time = time::text(shared.format.unix_ms(floor));
    Ok(reply::json(StatusCode::OK, &wire::Quarantined { floor: floor.0, floor_time }))
}

/// Checks everything that the store holds against the invariants that every grant rests on.
///
/// Changes nothing; what is wrong is a finding of the answer.
#[utoipa::path(
    get,
    path = "/store/verify",
    operation_id = "verify",
    tag = "admin",
    responses(
        (status = 200, description = "What was found", body = wire::Verified),
        (status = "5XX", description = "The store cannot be read now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn verify(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
) -> Result<Response, Failure> {
    let checked = shared.store(Operation::Verify, |store| store.verify()).await?;
    let verified = checked.map_err(|outage| shared.context().outage(&outage))?;
    Ok(reply::json(StatusCode::OK, &verified_doc(verified)))
}

/// What `GET /store/verify` says of a check.
pub fn verified_doc(verified: snowlease_lease::Verified) -> wire::Verified {
    let finding = |Finding { generator_id, what }| wire::Finding { generator_id, what };
    wire::Verified {
        sound: verified.findings.is_empty(),
        cells: verified.cells,
        steps: verified.steps,
        history: verified.history,
        findings: verified.findings.into_iter().map(finding).collect(),
    }
}
