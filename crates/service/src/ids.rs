//! `/ids`: exactly as many ids as were asked for, strictly ascending, or an error.
//!
//! A small batch is drawn on the spot, one id at a time and without ever waiting. What the running
//! tick cannot serve, and every large batch, goes to a thread that may wait; how many wait is
//! bounded, so that a flood is refused quickly instead of served late.

use std::fmt::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use snowlease_core::{Id, Refusal, TextForm};
use snowlease_lease::asking;
use snowlease_wire::{Code, Ids, Problem};

use crate::accept::{Wanted, negotiate};
use crate::guard::overloaded;
use crate::openapi::Bytes;
use crate::query;
use crate::reply::{self, Failure};
use crate::shared::Shared;

/// The largest batch that is drawn on the spot: some microseconds of work.
const ON_THE_SPOT: usize = 1000;

/// The route, which never issues to `HEAD`: the ids would be lost.
pub(crate) fn route() -> MethodRouter<Arc<Shared>> {
    get(issue).post(issue_by_post).head(neither).fallback(neither)
}

async fn neither(method: Method) -> Response {
    let detail = format!("{method} issues no ids: use GET or POST");
    let mut response = Failure::new(Code::MethodNotAllowed, detail).into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, POST"));
    response
}

/// Issues ids.
///
/// Each is unique, so the answer is never to be cached; use POST where something in between might.
#[utoipa::path(
    get,
    path = "/ids",
    operation_id = "nextIds",
    tag = "ids",
    params(("n" = Option<u64>, Query, description = "how many; 1 if absent", minimum = 1)),
    responses(
        (status = 200, description = "Exactly `n` ids, strictly ascending", content(
            (Ids = "application/json"),
            (String = "text/plain"),
            (Bytes = "application/octet-stream"),
        )),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "No ids now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn issue(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let [n] = query::read(query.as_deref(), ["n"])?;
    let n = batch(n.as_deref(), limit(&shared))?;
    let wanted = negotiate(&headers)?;
    let ids = draw(&shared, n).await?;
    shared.metrics.issued(ids.len());
    Ok(reply::sent(StatusCode::OK, wanted.media_type(), written(&ids, wanted)))
}

/// Issues ids, where a GET might be cached or repeated.
#[utoipa::path(
    post,
    path = "/ids",
    operation_id = "nextIdsByPost",
    tag = "ids",
    params(("n" = Option<u64>, Query, description = "how many; 1 if absent", minimum = 1)),
    responses(
        (status = 200, description = "Exactly `n` ids, strictly ascending", content(
            (Ids = "application/json"),
            (String = "text/plain"),
            (Bytes = "application/octet-stream"),
        )),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "No ids now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn issue_by_post(
    state: State<Arc<Shared>>,
    query: RawQuery,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    issue(state, query, headers).await
}

fn limit(shared: &Shared) -> usize {
    shared.parts.limits.batch.min(shared.parts.generator.batch_limit())
}

/// How many ids are wanted: `[1-9][0-9]*`, at most `limit`.
fn batch(n: Option<&str>, limit: usize) -> Result<usize, Failure> {
    let Some(text) = n else { return Ok(1) };
    let refuse = |code, detail: String| {
        Failure::new(code, detail).with(|problem| problem.limit = u64::try_from(limit).ok())
    };
    let range = format!("ask for 1 to {limit}");
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(refuse(Code::BadQuery, format!("n is no number in decimal: {range}")));
    }
    if text == "0" {
        return Err(refuse(Code::BatchSize, format!("a batch of 0 is not possible: {range}")));
    }
    if text.starts_with('0') {
        return Err(refuse(Code::BadQuery, format!("n has a leading zero: {range}")));
    }
    // Digits that overflow are too many as well.
    match text.parse::<usize>() {
        Ok(n) if n <= limit => Ok(n),
        _ => Err(refuse(Code::BatchSize, format!("the batch is too large: {range} at once"))),
    }
}

/// Draws `n` ids without holding up the executor.
async fn draw(shared: &Arc<Shared>, n: usize) -> Result<Vec<Id>, Failure> {
    let refused = |refusal| {
        shared.metrics.refused(refusal);
        reply::refused(refusal, &shared.standing())
    };
    let mut ids = Vec::with_capacity(n);
    if n <= ON_THE_SPOT {
        while ids.len() < n {
            match shared.parts.generator.try_next_id() {
                Ok(id) => ids.push(id),
                Err(Refusal::TickFull { .. }) => break,
                Err(refusal) => return Err(refused(refusal)),
            }
        }
    }
    let drawn = ids.len();
    if drawn == n {
        return Ok(ids);
    }
    let _permit = shared
        .waiters
        .try_acquire()
        .map_err(|_| overloaded("as many requests wait for ids as may"))?;
    ids.resize(n, Id::MIN);
    // The rest is drawn from the same generator after what is here, so it is larger (G2).
    asking::next_ids_into(&shared.parts.generator, &mut ids[drawn..]).await.map_err(refused)?;
    Ok(ids)
}

/// The ids as the request wants them.
fn written(ids: &[Id], wanted: Wanted) -> Body {
    let decimal = |id: &Id| TextForm::Decimal.encode(*id);
    match wanted {
        Wanted::Json => {
            let mut text = String::with_capacity(ids.len() * 22 + 16);
            text.push_str("{\"ids\":[");
            for (place, id) in ids.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                // Writing to a string cannot fail.
                let _ = write!(text, "{comma}\"{}\"", decimal(id));
            }
            text.push_str("]}");
            Body::from(text)
        }
        Wanted::Lines => {
            let mut text = String::with_capacity(ids.len() * 20);
            for id in ids {
                text.push_str(&decimal(id));
                text.push('\n');
            }
            Body::from(text)
        }
        Wanted::Bytes => {
            Body::from(ids.iter().flat_map(|id| id.get().to_be_bytes()).collect::<Vec<u8>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_text_of_a_number_in_bounds_is_a_batch() {
        let code = |n| batch(Some(n), 10_000).map_err(|failure| failure.0.code);
        assert_eq!(batch(None, 10_000).ok(), Some(1));
        assert_eq!(code("1"), Ok(1));
        assert_eq!(code("10000"), Ok(10_000));
        for text in ["", " ", "-1", "+5", "1e3", "0x10", "1.0", "1_000", "01", "00", "１", "1 "] {
            assert_eq!(code(text), Err("bad-query".to_owned()), "{text:?}");
        }
        for text in ["0", "10001", "4294967296", "18446744073709551616", "2305843009213693952"] {
            assert_eq!(code(text), Err("batch-size".to_owned()), "{text:?}");
        }
    }
}
