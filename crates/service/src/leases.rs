//! `/generators`: asking for a lease, renewing it, giving it back, listing.
//!
//! The service's wall clock is the reference: a holder whose clock is too far from it gets no
//! lease, and no window reaches further past it than the terms and the tolerated skew allow. So a
//! holder whose clock runs fast runs dry instead of poisoning its generator id.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use snowlease_core::{Format, Tick};
use snowlease_lease::{
    Acquire, AcquireError, Carries, Grant, Holder, LeaseEntry, PlanHash, Realm, Release, Renew,
    RenewError, RequestKey, Terms, Token, TokenHash, rules,
};
use snowlease_wire as wire;
use snowlease_wire::{Code, Problem};

use crate::body::Json;
use crate::metrics::Operation;
use crate::query::NoQuery;
use crate::reply::{self, Context, Failure, millis};
use crate::shared::{Shared, generator_id};
use crate::view::lease_line;

/// Grants a generator id.
///
/// Asking again with the same request key gives the same lease.
#[utoipa::path(
    post,
    path = "/generators/lease",
    operation_id = "lease",
    tag = "leases",
    request_body = wire::LeaseAsk,
    responses(
        (status = 201, description = "A lease", body = wire::Lease),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "No lease now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn lease(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
    Json(ask): Json<wire::LeaseAsk>,
) -> Result<Response, Failure> {
    let ahead_ms = ask.now_ms.map(|now_ms| ahead(now_ms, shared.context()));
    let acquire = acquire(&shared, ask)?;
    let token = acquire.request_key.token().reveal();
    let granted = shared.acquire(acquire).await;
    let context = shared.context();
    let grant = granted.map_err(|error| context.not_granted(&error))?;
    shared.heard(grant.generator_id, ahead_ms);
    let window = Duration::from_millis(
        grant.until.since(grant.from).saturating_mul(shared.format.tick_ms().into()),
    );
    let Grant { generator_id, from, until, seq, draining, reference_ms: _ } = grant;
    let lease = wire::Lease {
        generator_id,
        token: wire::Secret::new(token),
        seq,
        from: from.0,
        until: until.0,
        window_ms: millis(window),
        renew_after_ms: renew_after_ms(shared.parts.terms, context, until),
        format: shared.format.into(),
        reference_ms: context.reference_ms,
        draining,
    };
    Ok(reply::json(StatusCode::CREATED, &lease))
}

/// What to ask the store for, given what was asked of the service.
fn acquire(shared: &Shared, ask: wire::LeaseAsk) -> Result<Acquire, Failure> {
    let (terms, format, context) = (shared.parts.terms, shared.format, shared.context());
    if let Some(asked) = &ask.format {
        let malformed = |error| Failure::new(Code::BadBody, format!("format: {error}"));
        asked.check().map_err(malformed)?;
    }
    if let Some(asked) = &ask.format
        && !asked.fits(format)
    {
        let detail = format!("the service's format is {format}: ids of another would collide");
        return Err(Failure::new(Code::FormatMismatch, detail)
            .with(|problem| problem.format = Some(format.into())));
    }
    let region = ask.region.unwrap_or_else(|| shared.parts.region.clone());
    let (machine, process) = (ask.machine.unwrap_or_default(), ask.process.unwrap_or_default());
    let holder = Holder::new(ask.holder, machine, process, region)
        .map_err(|error| Failure::new(Code::BadHolder, error.to_string()))?;
    let request_key = match &ask.request_key {
        Some(key) => RequestKey::from_text(key.reveal()).ok_or_else(|| {
            Failure::new(
                Code::BadToken,
                "a request key has 16 to 128 bytes: 128 random bits or more",
            )
        })?,
        None => RequestKey::random(),
    };
    let window = window(ask.window_ms, terms)?;
    let now_ms = ask.now_ms.unwrap_or(context.reference_ms);
    let ahead_ms = ahead(now_ms, context);
    if u128::from(ahead_ms.unsigned_abs()) > Terms::SKEW_LIMIT.as_millis() {
        return Err(context.not_granted(&AcquireError::Skew { ahead_ms }));
    }
    let from = format.tick_at_ms(now_ms).map_err(reply::no_tick)?;
    Ok(Acquire {
        request_key,
        realm: realm(ask.environment, ask.plan.as_deref(), &shared.parts.realm)?,
        from,
        until: window_end(format, now_ms, window),
        format,
        holder,
        patience: Duration::ZERO,
        // The reference, not the holder's clock: when a lease was granted is judged by one clock.
        now_ms: context.reference_ms,
    })
}

/// Where the holder belongs: what it states itself, and the service's own where it states nothing.
fn realm(environment: Option<String>, plan: Option<&str>, own: &Realm) -> Result<Realm, Failure> {
    let plan = match plan {
        Some(text) => Some(PlanHash::from_text(text).ok_or_else(|| {
            Failure::new(Code::BadBody, "plan: the hash of a plan is 64 hex digits")
        })?),
        None => own.plan(),
    };
    let environment = environment.unwrap_or_else(|| own.environment().to_owned());
    Realm::new(environment, plan)
        .map_err(|error| Failure::new(Code::BadBody, format!("environment: {error}")))
}

/// The window to grant: what was asked for, but no more than the terms give.
fn window(asked_ms: Option<u64>, terms: Terms) -> Result<Duration, Failure> {
    let Some(asked_ms) = asked_ms else { return Ok(terms.window()) };
    let asked = Duration::from_millis(asked_ms);
    if asked < Terms::SHORTEST_WINDOW {
        let min_ms = millis(Terms::SHORTEST_WINDOW);
        let detail = format!("a window of {asked_ms} ms is too short: ask for {min_ms} or more");
        return Err(
            Failure::new(Code::BadWindow, detail).with(|problem| problem.min_ms = Some(min_ms))
        );
    }
    Ok(asked.min(terms.window()))
}

/// The end of a window that lasts for this long from now, in whole ticks: where ticks are long, the
/// next one is had before this one ends.
fn window_end(format: Format, now_ms: i64, length: Duration) -> Tick {
    let length_ms = i64::try_from(millis(length)).unwrap_or(i64::MAX);
    format.first_tick_from_ms(now_ms.saturating_add(length_ms)).min(rules::end(format))
}

/// How far a holder's clock is ahead of the reference, in ms: within what a number in JSON keeps,
/// since a clock that far off is nonsense anyway.
fn ahead(now_ms: i64, context: Context) -> i64 {
    const EXACT: i64 = 1 << 53;
    now_ms.saturating_sub(context.reference_ms).clamp(-EXACT, EXACT)
}

/// When to renew a window that ends at `until`: after the share of it that the terms set.
fn renew_after_ms(terms: Terms, context: Context, until: Tick) -> u64 {
    let left_ms = context.format.unix_ms(until).saturating_sub(context.reference_ms);
    let left_ms = u128::try_from(left_ms).unwrap_or(0);
    let share = left_ms * terms.renew().as_millis() / terms.window().as_millis();
    u64::try_from(share.min(terms.renew().as_millis())).unwrap_or(u64::MAX)
}

/// Moves the end of a window.
///
/// Where the cell has moved on and is still the asker's, the answer is the cell as it stands.
#[utoipa::path(
    post,
    path = "/generators/{id}/renew",
    operation_id = "renew",
    tag = "leases",
    params(("id" = u64, Path, description = "the generator id")),
    request_body = wire::RenewAsk,
    responses(
        (status = 200, description = "The lease as it stands", body = wire::Renewed),
        (status = 409, description = "Not yours, with the reason", body = Problem,
            content_type = "application/problem+json"),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not renewed now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn renew(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    _: NoQuery,
    Json(ask): Json<wire::RenewAsk>,
) -> Result<Response, Failure> {
    let generator_id = generator_id(&id)?;
    let token = token(&ask.token)?;
    let next = match ask.next.as_deref() {
        Some(text) => TokenHash::from_text(text).ok_or_else(|| {
            let detail = "next is the hash of the next token, 64 hex digits";
            Failure::new(Code::BadToken, detail)
        })?,
        None => token.hash(),
    };
    // A cell with it would look like one that nobody holds.
    if next == TokenHash::NOBODY {
        let reason = "no token has the hash that was given as the next one";
        return Err(shared.context().not_renewed(&RenewError::NotYours { reason }));
    }
    let until = longest(&shared)?;
    let until = match ask.until {
        Some(asked) => Tick(asked).min(until),
        None => window_end(shared.format, shared.now_ms(), shared.parts.terms.window()),
    };
    let arrived = shared.context();
    let ahead_ms = ask.now_ms.map(|now_ms| ahead(now_ms, arrived));
    let now_ms = arrived.reference_ms;
    let renew = Renew { generator_id, token, seq: ask.seq, next, until, now_ms };
    let renewed = shared.renew(renew).await;
    let context = shared.context();
    let renewal = renewed.map_err(|error| context.not_renewed(&error))?;
    shared.heard(generator_id, ahead_ms);
    let answer = wire::Renewed {
        until: renewal.until.0,
        seq: renewal.seq,
        carries: match renewal.token {
            Carries::Token => wire::Carries::Token,
            Carries::Next => wire::Carries::Next,
        },
        renew_after_ms: renew_after_ms(shared.parts.terms, context, renewal.until),
        reference_ms: context.reference_ms,
        draining: renewal.draining,
    };
    Ok(reply::json(StatusCode::OK, &answer))
}

/// First tick that no window may contain now, however old its lease and however far its holder may
/// be ahead.
fn longest(shared: &Shared) -> Result<Tick, Failure> {
    // A clock outside of the format is no reference.
    shared.now()?;
    let terms = shared.parts.terms;
    let length = terms.bridge() + Terms::SKEW_LIMIT;
    Ok(window_end(shared.format, shared.now_ms(), length))
}

fn token(secret: &wire::Secret) -> Result<Token, Failure> {
    let malformed = || {
        let detail = "a token is 64 hex digits, as the lease's answer gives it";
        Failure::new(Code::BadToken, detail)
    };
    Token::from_text(secret.reveal()).ok_or_else(malformed)
}

/// Gives a lease back.
///
/// The generator id is free from `until` on, at once.
#[utoipa::path(
    post,
    path = "/generators/{id}/release",
    operation_id = "release",
    tag = "leases",
    params(("id" = u64, Path, description = "the generator id")),
    request_body = wire::ReleaseAsk,
    responses(
        (status = 200, description = "The generator id is free", body = wire::Released),
        (status = 409, description = "Not yours, or outside the window", body = Problem,
            content_type = "application/problem+json"),
        (status = "4XX", description = "A mistake of the request", body = Problem,
            content_type = "application/problem+json"),
        (status = "5XX", description = "Not released now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn release(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    _: NoQuery,
    Json(ask): Json<wire::ReleaseAsk>,
) -> Result<Response, Failure> {
    let generator_id = generator_id(&id)?;
    let token = token(&ask.token)?;
    let release =
        Release { generator_id, token, next: None, seq: ask.seq, unused_from: Tick(ask.until) };
    let released = shared.store(Operation::Release, move |store| store.release(&release)).await?;
    released.map_err(|error| shared.context().not_released(&error))?;
    shared.skews().remove(&generator_id);
    Ok(reply::json(StatusCode::OK, &wire::Released { generator_id, until: ask.until }))
}

/// Lists every generator id that was ever granted.
///
/// Tokens are never shown.
#[utoipa::path(
    get,
    path = "/generators",
    operation_id = "leases",
    tag = "leases",
    responses(
        (status = 200, description = "By generator id", body = wire::Leases),
        (status = "5XX", description = "The store cannot be read now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
) -> Result<Response, Failure> {
    let now = shared.now()?;
    let listed = shared.store(Operation::List, |store| store.list()).await?;
    let context = shared.context();
    let entries = listed.map_err(|outage| context.outage(&outage))?;
    let skews = shared.skews().clone();
    let line = |entry: LeaseEntry| {
        let skew_ms = skews.get(&entry.generator_id).copied();
        lease_line(entry, now, context.format, context.reference_ms, skew_ms)
    };
    let leases = wire::Leases {
        leases: entries.into_iter().map(line).collect(),
        reference_ms: context.reference_ms,
    };
    Ok(reply::json(StatusCode::OK, &leases))
}
