//! `/ids/{id}/decode` and `/ids/range`: from ids to times and back. Neither touches the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use snowlease_core::{Id, IdSpan, Preset, TextForm};
use snowlease_wire::{Code, Decoded, IdRange, Problem, time};

use crate::query;
use crate::reply::{self, Failure};
use crate::shared::Shared;

/// Takes an id apart.
///
/// It may be in any text form; a decimal text is always read as decimal, so name the form where it
/// is known.
#[utoipa::path(
    get,
    path = "/ids/{id}/decode",
    operation_id = "decodeId",
    tag = "ids",
    params(
        ("id" = String, Path, description = "the id, in any text form"),
        ("form" = Option<String>, Query,
            description = "decimal, hex, crockford or base62; recognised if absent"),
        ("preset" = Option<String>, Query,
            description = "the system the id is of, such as twitter; this service if absent"),
    ),
    responses(
        (status = 200, description = "What the id says", body = Decoded),
        (status = "4XX", description = "No id, or none of the preset", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn decode(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let Path(text) = path.map_err(|_| Failure::new(Code::BadId, "the id is not well encoded"))?;
    let [form, preset] = query::read(query.as_deref(), ["form", "preset"])?;
    let (form, id) = read(&text, form.as_deref())?;
    let mut decoded = match preset {
        None => by_format(&shared, id)?,
        Some(name) => by_preset(id, &name)?,
    };
    decoded.form = form.name().to_owned();
    decoded.in_future = decoded.unix_ms > shared.now_ms();
    Ok(reply::json(StatusCode::OK, &decoded))
}

/// The path with an empty id.
pub(crate) async fn decode_nothing() -> Failure {
    Failure::new(Code::BadId, snowlease_core::TextError::Empty.to_string())
}

fn read(text: &str, form: Option<&str>) -> Result<(TextForm, Id), Failure> {
    let Some(form) = form else {
        return TextForm::detect(text)
            .map_err(|error| Failure::new(Code::BadId, error.to_string()));
    };
    let form: TextForm =
        form.parse().map_err(|error| Failure::new(Code::BadQuery, format!("form: {error}")))?;
    let id = form.decode(text).map_err(|error| Failure::new(Code::BadId, error.to_string()))?;
    Ok((form, id))
}

/// As an id of this service.
fn by_format(shared: &Shared, id: Id) -> Result<Decoded, Failure> {
    let parts = shared.format.decode(id);
    let unix_ms = time::of_tick(shared.format, parts.tick)
        .map_err(|error| Failure::new(Code::BadId, error.to_string()))?;
    let region = &shared.parts.region;
    // Other ids of the format may come from other stores, in other regions.
    let (first, last) = shared.parts.range;
    let ours = (first..=last).contains(&parts.generator_id) && !region.is_empty();
    Ok(Decoded {
        tick: parts.tick.0,
        generator_id: Some(parts.generator_id),
        sequence: Some(parts.sequence),
        region: ours.then(|| region.clone()),
        format: Some(shared.format.into()),
        ..plain(id, unix_ms)
    })
}

/// As an id of another system.
fn by_preset(id: Id, name: &str) -> Result<Decoded, Failure> {
    let preset =
        Preset::named(name).map_err(|error| Failure::new(Code::BadQuery, error.to_string()))?;
    let decoded =
        preset.decode(id).map_err(|error| Failure::new(Code::BadId, error.to_string()))?;
    let ours = preset.format().map(|format| format.decode(id));
    Ok(Decoded {
        tick: decoded.tick.0,
        generator_id: ours.map(|parts| parts.generator_id),
        sequence: ours.map(|parts| parts.sequence),
        format: preset.format().map(Into::into),
        preset: Some(preset.name().to_owned()),
        parts: decoded.parts().map(|(name, value)| (name.to_owned(), value)).collect(),
        ..plain(id, decoded.unix_ms)
    })
}

/// What does not depend on how the id is read.
fn plain(id: Id, unix_ms: i64) -> Decoded {
    Decoded {
        id: id.to_string(),
        form: String::new(),
        texts: id.into(),
        tick: 0,
        time: time::text(unix_ms),
        unix_ms,
        generator_id: None,
        sequence: None,
        region: None,
        format: None,
        preset: None,
        parts: BTreeMap::new(),
        in_future: false,
    }
}

/// Gives the ids of a span of time.
///
/// It is half-open, `first <= id < end`, ready for a query by id.
#[utoipa::path(
    get,
    path = "/ids/range",
    operation_id = "idRange",
    tag = "ids",
    params(
        ("from" = String, Query,
            description = "RFC 3339 with a zone, or Unix ms; ids of this instant are in"),
        ("to" = String, Query,
            description = "RFC 3339 with a zone, or Unix ms; ids of this instant are out"),
    ),
    responses(
        (status = 200, description = "The ids of the span", body = IdRange),
        (status = "4XX", description = "No times, or none that ids can carry", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn range(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let [from, to] = query::read(query.as_deref(), ["from", "to"])?;
    let span = IdSpan::of_ms(shared.format, bound("from", from)?, bound("to", to)?)
        .map_err(|error| Failure::new(Code::BadSpan, error.to_string()))?;
    let range = IdRange { first: span.first.to_string(), end: span.end.to_string() };
    Ok(reply::json(StatusCode::OK, &range))
}

fn bound(name: &str, text: Option<String>) -> Result<i64, Failure> {
    let text = text.ok_or_else(|| {
        Failure::new(Code::BadQuery, format!("{name} is missing: give from and to"))
    })?;
    time::parse(&text).map_err(|error| Failure::new(Code::BadTime, format!("{name}: {error}")))
}
