//! What every request passes: bounds, a deadline, a note in log and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use snowlease_lease::os;
use snowlease_wire::Code;
use tracing::debug;

use crate::body::too_large;
use crate::reply::Failure;
use crate::shared::Shared;

/// Refuses at once what is too much, and answers in time whatever the handler does.
pub(crate) async fn bound(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let limits = shared.parts.limits;
    let Ok(_permit) = shared.requests.try_acquire() else {
        return overloaded("the service works on as many requests as it may").into_response();
    };
    if announced(&request) > limits.body {
        return too_large(limits.body).into_response();
    }
    let answer = tokio::time::timeout(limits.request_timeout, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        let detail = "the answer took too long: retry with the same secrets";
        Failure::new(Code::Timeout, detail).retry_after(Duration::from_secs(1)).into_response()
    })
}

/// The length of the body as its header has it.
fn announced(request: &Request) -> usize {
    let length = request.headers().get(header::CONTENT_LENGTH);
    length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0)
}

/// Nothing was done: too much is going on.
pub(crate) fn overloaded(detail: &str) -> Failure {
    Failure::new(Code::Overloaded, detail).retry_after(Duration::from_secs(1))
}

/// Logs and counts a request by its route: paths and queries may hold what is nobody's business.
pub(crate) async fn note(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let started_ns = os::boot_ns();
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let status = response.status().as_u16();
    let took_us = os::boot_ns().saturating_sub(started_ns) / 1000;
    debug!(%method, route, status, took_us, "answered");
    shared.metrics.answered(route, status);
    response
}

pub(crate) async fn not_found() -> Failure {
    let detail = "no call has this path: see /openapi.json for those there are";
    Failure::new(Code::NotFound, detail)
}

/// The router adds the `Allow` header.
pub(crate) async fn method_not_allowed(method: Method) -> Failure {
    Failure::new(Code::MethodNotAllowed, format!("{method} is not for this path: see Allow"))
}
