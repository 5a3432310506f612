//! `/metrics`: one scrape is one look at the generator, at the lease and, if it answers, at the
//! store.
//!
//! Everything that may end is encoded from that look and nothing is remembered, so the gauges of a
//! generator id that was lost are gone with it, and a store that does not answer has no stale
//! numbers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use snowlease_lease::Pool;
use snowlease_wire::Code;

use crate::metrics::Operation;
use crate::query::NoQuery;
use crate::reply::{self, Failure};
use crate::shared::Shared;
use crate::standing::{ClockStanding, Standing};
use crate::view::look;

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A scrape waits no longer for the store.
const STORE_PATIENCE: Duration = Duration::from_secs(1);

/// Tells what the service counts and how it stands.
///
/// In the OpenMetrics text format.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "probes",
    responses((status = 200, description = "Metrics", body = String,
        content_type = "application/openmetrics-text")),
)]
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    _: NoQuery,
) -> Result<Response, Failure> {
    let pool = pool(&shared).await;
    let mut fresh = Registry::with_prefix("snowlease");
    fresh.register_collector(Box::new(Look::of(&shared, pool)));
    let mut text = String::with_capacity(8 * 1024);
    encode_registry(&mut text, &shared.metrics.registry)
        .and_then(|()| encode_registry(&mut text, &fresh))
        .and_then(|()| encode_eof(&mut text))
        .map_err(|_| Failure::new(Code::Internal, "the metrics cannot be written"))?;
    Ok(reply::sent(StatusCode::OK, MEDIA_TYPE, Body::from(text)))
}

/// How full the store is, if it says so soon.
async fn pool(shared: &Arc<Shared>) -> Option<Pool> {
    let probe = Arc::clone(&shared.probes).try_acquire_owned().ok()?;
    let now = shared.now().ok()?;
    let look = shared.store(Operation::List, move |store| {
        let _probe = probe;
        look(store, now)
    });
    let (_, pool) = tokio::time::timeout(STORE_PATIENCE, look).await.ok()?.ok()?.ok()?;
    Some(pool)
}

/// All that is read at a scrape.
#[derive(Debug)]
struct Look {
    waits: u64,
    days_left: f64,
    stopping: bool,
    standing: Standing,
    pool: Option<Pool>,
}

impl Look {
    fn of(shared: &Shared, pool: Option<Pool>) -> Look {
        let left_ms = shared.format.end_ms().saturating_sub(shared.now_ms());
        Look {
            waits: shared.parts.generator.waits(),
            days_left: number(left_ms) / 86_400_000.0,
            stopping: shared.is_stopping(),
            standing: shared.standing(),
            pool,
        }
    }
}

/// Names, helps and values, one metric a call.
struct Sheet<'a>(DescriptorEncoder<'a>);

impl Sheet<'_> {
    fn counters<'v>(
        &mut self,
        (name, help): (&str, &str),
        label: &'static str,
        values: impl Iterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (value, count) in values {
            let labels = [(label, value)];
            ConstCounter::new(count).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, help: &str, count: Option<u64>) -> fmt::Result {
        let Some(count) = count else { return Ok(()) };
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(count).encode(encoder)
    }

    fn gauge(&mut self, name: &str, help: &str, value: Option<f64>) -> fmt::Result {
        let Some(value) = value else { return Ok(()) };
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }
}

impl Collector for Look {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        sheet.counter("waits", "Calls that waited for a tick", Some(self.waits))?;
        sheet.gauge("days_left", "Days until the time field ends", Some(self.days_left))?;
        self.encode_standing(&mut sheet)?;
        let up = f64::from(u8::from(self.pool.is_some()));
        sheet.gauge("store_up", "Whether the lease store answered this scrape", Some(up))?;
        let pool = self.pool;
        let used = pool.map(|pool| count(pool.used));
        sheet.gauge("pool_used", "Generator ids that cannot be granted now", used)?;
        let total = pool.map(|pool| count(pool.total));
        sheet.gauge("pool_total", "Generator ids of the store's range", total)
    }
}

impl Look {
    fn encode_standing(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let standing = &self.standing;
        let ready = f64::from(u8::from(standing.ready && !self.stopping));
        sheet.gauge("ready", "Whether ids can be had here now", Some(ready))?;
        if let (Some(generator_id), Some(remaining)) = (standing.generator_id, standing.remaining) {
            let help = "Time until issuing stops if no renewal succeeds";
            let name = "lease_remaining_seconds";
            let mut encoder = sheet.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
            let labels = [("generator_id", generator_id)];
            ConstGauge::new(remaining.as_secs_f64()).encode(encoder.encode_family(&labels)?)?;
        }
        let renewals = standing.renewals.iter().copied();
        let help = "Answers of the store to the service's own holder";
        sheet.counters(("renewals", help), "outcome", renewals)?;
        standing.clock.as_ref().map_or(Ok(()), |clock| clock.encode(sheet))
    }
}

impl ClockStanding {
    fn encode(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        let flag = |flag: bool| f64::from(u8::from(flag));
        for (name, help, value) in [
            ("offset_seconds", "Wall clock minus id clock", Some(self.offset_s)),
            (
                "max_error_seconds",
                "How far off the wall clock may be, by the kernel's estimate",
                self.max_error_s,
            ),
            (
                "synchronised",
                "Whether the wall clock is kept synchronised, as far as the kernel knows",
                self.synchronised.map(flag),
            ),
            (
                "lead_seconds",
                "How far ids were ahead at worst in the last minute or two",
                Some(self.lead_s),
            ),
            (
                "lag_seconds",
                "How far ids were behind at worst in the last minute or two",
                Some(self.lag_s),
            ),
            ("skew_seconds", "This host's id clock minus the reference clock", self.skew_s),
            (
                "alarm",
                "Whether somebody should look at the clock",
                Some(flag(self.alarm.is_some())),
            ),
            ("read_seconds", "What one reading of the boot clock costs", Some(self.read_s)),
        ] {
            sheet.gauge(&format!("clock_{name}"), help, value)?;
        }
        let help = "What calls check the time by";
        let mut encoder =
            sheet.0.encode_descriptor("clock_gauge", help, None, MetricType::Gauge)?;
        let labels = [("kind", self.gauge)];
        ConstGauge::new(1.0).encode(encoder.encode_family(&labels)?)?;
        for (name, help, count) in [
            ("clock_steps", "How often the wall clock came to stand apart", self.steps),
            ("clock_pauses", "How often the process stood still", self.pauses),
            ("clock_reseeds", "How often ids followed a clock that was set", self.reseeds),
        ] {
            sheet.counter(name, help, Some(count))?;
        }
        let help = "How far the tick of an id may be from the host's disciplined time";
        sheet.gauge("ordering_bound_seconds", help, self.ordering_bound_s)?;
        let help = "Whether the order of ids among hosts has a bound now";
        sheet.gauge("ordering_bounded", help, Some(flag(self.ordering_bound_s.is_some())))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 53 bits")]
fn count(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 53 bits")]
fn number(value: i64) -> f64 {
    value as f64
}
