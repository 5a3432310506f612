//! `/openapi.json`: the description of every call, made from the code.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use utoipa::OpenApi;

use crate::query::NoQuery;
use crate::reply;
use crate::{admin, decode, health, ids, leases, scrape, view};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Snowlease",
        description = "Unique 64-bit ids from leased generator ids. Ids and tokens are strings; \
            names that end in `_ms` are milliseconds; ticks are those of the announced format. \
            Every error is a problem document with a stable `code`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "ids", description = "Issuing ids and reading them"),
        (name = "leases", description = "Who may use which generator id, until when"),
        (name = "admin", description = "What an operator may do; nothing takes a lease away"),
        (name = "probes", description = "For orchestrators and monitoring"),
    ),
    paths(
        ids::issue,
        ids::issue_by_post,
        decode::decode,
        decode::range,
        leases::lease,
        leases::renew,
        leases::release,
        leases::list,
        view::store,
        admin::drain,
        admin::undrain,
        admin::freeze,
        admin::unfreeze,
        admin::quarantine,
        admin::verify,
        health::livez,
        health::readyz,
        scrape::metrics,
        serve,
    ),
)]
struct Description;

/// Ids of eight bytes each, big-endian, one after the other.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "its schema alone is used")]
pub(crate) struct Bytes(Vec<u8>);

/// The OpenAPI 3.1 description of the service, as pretty JSON with a line break at its end.
///
/// Empty if it cannot be written, which no description made at compile time can come to.
pub fn openapi_json() -> String {
    let mut text = Description::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// This description.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "probes",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)),
)]
pub(crate) async fn serve(_: NoQuery) -> Response {
    reply::sent(StatusCode::OK, "application/json", Body::from(openapi_json()))
}
