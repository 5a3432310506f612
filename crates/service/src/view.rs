//! `/store`: what the store was made for, and how it stands.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use snowlease_core::Tick;
use snowlease_lease::{LeaseStore, Mode, Outage, StoreStatus};
use snowlease_wire::{self as wire, Problem, StoreDoc};

use crate::metrics::Operation;
use crate::query;
use crate::reply::{self, Failure, millis};
use crate::shared::Shared;

/// How full the range of a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Generator ids that cannot be granted now.
    pub(crate) used: u64,
    /// All of them.
    pub(crate) total: u64,
    /// The end of the window in use that ends first.
    pub(crate) earliest: Option<Tick>,
}

impl Pool {
    /// Reads it from a store, with the store's status; blocks.
    pub(crate) fn of(store: &dyn LeaseStore, now: Tick) -> Result<(StoreStatus, Pool), Outage> {
        let status = store.status()?;
        let (first, last) = status.meta.range;
        let mut pool =
            Pool { used: 0, total: last.saturating_sub(first).saturating_add(1), earliest: None };
        for entry in store.list()? {
            if entry.draining || entry.until > now {
                pool.used += 1;
            }
            if !entry.draining && entry.until > now {
                pool.earliest = Some(pool.earliest.map_or(entry.until, |at| at.min(entry.until)));
            }
        }
        Ok((status, pool))
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
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    query::read(query.as_deref(), [])?;
    let now = shared.now()?;
    let read = shared.store(Operation::Status, move |store| Pool::of(store, now)).await?;
    let context = shared.context();
    let (StoreStatus { kind, meta, alarms }, pool) =
        read.map_err(|outage| context.outage(&outage))?;
    let doc = StoreDoc {
        kind,
        format: meta.format.into(),
        generators: format!("{}-{}", meta.range.0, meta.range.1),
        mode: match meta.mode {
            Mode::Open => wire::Mode::Open,
            Mode::Frozen => wire::Mode::Frozen,
        },
        floor: meta.floor.0,
        longest_window: meta.longest_window,
        used: pool.used,
        total: pool.total,
        earliest_expiry_ms: pool.earliest.map(|tick| meta.format.unix_ms(tick)),
        alarms,
        window_ms: millis(shared.parts.terms.window()),
        reference_ms: context.reference_ms,
    };
    Ok(reply::json(StatusCode::OK, &doc))
}
