//! Probes. Alive is not ready: a probe of life that asked the store would restart everything with
//! it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use snowlease_wire::{Code, Problem, Ready};

use crate::query::NoQuery;
use crate::reply::{self, Failure, millis};
use crate::shared::Shared;

/// Tells whether the process answers.
///
/// Never touches the store.
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "livez",
    tag = "probes",
    responses((status = 200, description = "Alive", body = String, content_type = "text/plain")),
)]
pub(crate) async fn livez(_: NoQuery) -> Response {
    reply::sent(StatusCode::OK, "text/plain; charset=utf-8", Body::from("alive\n"))
}

/// Tells whether ids can be had here now.
///
/// Touches no store: the lease in force decides.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "probes",
    responses(
        (status = 200, description = "Ready", body = Ready),
        (status = 503, description = "Not ready, with the reason", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn readyz(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
) -> Result<Response, Failure> {
    let standing = shared.standing();
    let remaining_ms = standing.remaining.map(millis);
    let clock = standing.clock.and_then(|clock| clock.alarm);
    if shared.is_stopping() || !standing.ready {
        let reason = if shared.is_stopping() {
            "the service is stopping".to_owned()
        } else {
            standing.reason
        };
        let retry_after = standing.retry_after.unwrap_or(Duration::from_secs(1));
        let clock = clock.map(|alarm| format!("; {alarm}")).unwrap_or_default();
        let detail = format!("no ids can be issued now: {reason}{clock}");
        return Err(Failure::new(Code::NotReady, detail).retry_after(retry_after).with(
            |problem| {
                problem.reason = Some(reason);
                problem.remaining_ms = remaining_ms;
            },
        ));
    }
    let ready = Ready { ready: true, generator_id: standing.generator_id, remaining_ms, clock };
    Ok(reply::json(StatusCode::OK, &ready))
}
