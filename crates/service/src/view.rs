//! What is shown of a store: `/store`, and the line of each lease.
//!
//! Pure but for the reading itself, so that a program that opens a store without a service shows
//! the same.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use snowlease_core::{Format, Tick};
use snowlease_lease::{
    CellState, LeaseEntry, LeaseStore, Mode, Outage, PlanHash, Pool, StoreStatus,
};
use snowlease_wire::{self as wire, Problem, StoreDoc, time};

use crate::metrics::Operation;
use crate::query::NoQuery;
use crate::reply::{self, Failure, millis};
use crate::shared::Shared;

/// Reads how a store and its range stand; blocks.
///
/// # Errors
///
/// [`Outage`]: the store cannot be read now; try again.
pub fn look(store: &dyn LeaseStore, now: Tick) -> Result<(StoreStatus, Pool), Outage> {
    let mut status = store.status()?;
    let entries = store.list()?;
    let pool = Pool::of(&status.meta, &entries, now);
    status.alarms.extend(pool.alarms(&status.meta, &entries, now));
    Ok((status, pool))
}

/// What `GET /store` says of a store that gives windows of this length.
pub fn store_doc(status: StoreStatus, pool: Pool, window: Duration, reference_ms: i64) -> StoreDoc {
    let StoreStatus { kind, meta, pulse_ms, alarms } = status;
    StoreDoc {
        kind,
        format: meta.format.into(),
        generators: format!("{}-{}", meta.range.0, meta.range.1),
        region: meta.region,
        environment: meta.realm.environment().to_owned(),
        plan: meta.realm.plan().map(PlanHash::to_text),
        previous_plan: meta.previous_plan.map(PlanHash::to_text),
        mode: match meta.mode {
            Mode::Open => wire::Mode::Open,
            Mode::Frozen => wire::Mode::Frozen,
        },
        floor: meta.floor.0,
        longest_window: meta.longest_window,
        used: pool.used,
        total: pool.total,
        earliest_expiry_ms: pool.earliest.map(|tick| meta.format.unix_ms(tick)),
        pulse_ms,
        alarms,
        window_ms: millis(window),
        reference_ms,
    }
}

/// What `GET /generators` says of a cell at the tick `now`, which `reference_ms` is in.
pub fn lease_line(
    entry: LeaseEntry,
    now: Tick,
    format: Format,
    reference_ms: i64,
    skew_ms: Option<i64>,
) -> wire::LeaseLine {
    let age_ms = reference_ms.saturating_sub(entry.granted_at_ms);
    wire::LeaseLine {
        generator_id: entry.generator_id,
        holder: entry.holder.name().to_owned(),
        machine: entry.holder.machine().to_owned(),
        process: entry.holder.process().to_owned(),
        region: entry.holder.region().to_owned(),
        seq: entry.seq,
        from: entry.from.0,
        until: entry.until.0,
        from_time: time::text(format.unix_ms(entry.from)),
        until_time: time::text(format.unix_ms(entry.until)),
        granted_at_ms: entry.granted_at_ms,
        age_ms: u64::try_from(age_ms).unwrap_or(0),
        skew_ms: skew_ms.filter(|_| entry.held),
        state: match CellState::of(&entry, now) {
            CellState::Held => wire::State::Held,
            CellState::Expired => wire::State::Expired,
            CellState::Draining => wire::State::Draining,
            CellState::Free => wire::State::Free,
        },
    }
}

/// Tells what the store was made for and how it stands.
#[utoipa::path(
    get,
    path = "/store",
    operation_id = "store",
    tag = "leases",
    responses(
        (status = 200, description = "The store", body = StoreDoc),
        (status = "5XX", description = "The store cannot be read now", body = Problem,
            content_type = "application/problem+json"),
    ),
)]
pub(crate) async fn store(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
) -> Result<Response, Failure> {
    let now = shared.now()?;
    let read = shared.store(Operation::Status, move |store| look(store, now)).await?;
    let context = shared.context();
    let (status, pool) = read.map_err(|outage| context.outage(&outage))?;
    let doc = store_doc(status, pool, shared.parts.terms.window(), context.reference_ms);
    Ok(reply::json(StatusCode::OK, &doc))
}
