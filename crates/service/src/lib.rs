//! The lease and id service over HTTP, in front of any store.
//!
//! [`Service`] is made of [`Parts`] and gives a router, or serves a listener until told to stop. A
//! request passes `guard` (bounds, deadline, log), then one handler. Handlers decide in pure
//! functions and act through `shared`: the store is called on blocking threads only, and the
//! generator is called directly only where it does not wait, so no request holds up the executor.
//!
//! Every error is a problem document ([`snowlease_wire::problem`]). A secret is never logged,
//! repeated in an answer or part of an error.

mod accept;
mod admin;
mod body;
mod coalesce;
mod decode;
mod guard;
mod health;
mod ids;
mod leases;
mod metrics;
mod openapi;
mod patience;
mod query;
mod reply;
mod scrape;
mod serve;
mod shared;
mod standing;
mod view;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use snowlease_core::Generator;
use snowlease_lease::{Administer, Realm, Terms};

pub use admin::verified_doc;
pub use openapi::openapi_json;
pub use serve::Drained;
pub use standing::{ClockStanding, Standing};
pub use view::{lease_line, look, store_doc};

use shared::Shared;

/// What a service is made of.
///
/// The format of the service is the generator's; the store refuses to grant under another.
#[derive(Clone)]
pub struct Parts {
    /// Where leases are kept.
    pub store: Arc<dyn Administer>,
    /// Issues the ids of `GET /ids`; somebody else keeps it leased.
    pub generator: Arc<Generator>,
    /// How that lease stands, asked at each probe and scrape; must not block.
    pub standing: Arc<dyn Fn() -> Standing + Send + Sync>,
    /// The terms of the leases given.
    pub terms: Terms,
    /// The generator ids of the store, first and last.
    pub range: (u64, u64),
    /// The region of these generator ids, for people; may be empty.
    pub region: String,
    /// Where the service belongs: stated for each holder that does not state it itself.
    pub realm: Realm,
    /// The reference clock, in Unix ms: [`snowlease_lease::os::wall_ms`], but in tests.
    pub wall_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Bounds on what is taken on at once.
    pub limits: Limits,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("store", &self.store)
            .field("terms", &self.terms)
            .field("range", &self.range)
            .field("region", &self.region)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Bounds that keep the service quick and its memory small, however much is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest batch; no more than [`Generator::batch_limit`] counts.
    pub batch: usize,
    /// The largest body, in bytes.
    pub body: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long an answer may take; longer than an attempt at the store.
    pub request_timeout: Duration,
    /// How many requests are worked on at once; more are refused at once.
    pub requests: usize,
    /// How many requests wait for ids at once; more are refused at once.
    pub waiters: usize,
    /// How many other calls that change the store are made at once; more wait. Grants and renewals
    /// of many holders go together in calls of their own. Calls that only read it
    /// have an eighth of that number to themselves (one at least), so that they never crowd out a
    /// renewal.
    pub store_calls: usize,
    /// How many connections are open at once; more wait to be accepted.
    pub connections: usize,
    /// How long a connection may be open before the head of its first request is whole.
    pub first_head_timeout: Duration,
    /// How long a peer may take nothing of its answers before its connection is closed.
    pub write_timeout: Duration,
    /// How long requests may go on after the service was told to stop.
    pub drain: Duration,
}

impl Limits {
    /// Bounds for a small machine.
    pub const DEFAULT: Limits = Limits {
        batch: 10_000,
        body: 16 * 1024,
        body_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(10),
        requests: 4096,
        waiters: 64,
        store_calls: 64,
        connections: 16_384,
        first_head_timeout: Duration::from_secs(5),
        write_timeout: Duration::from_secs(30),
        drain: Duration::from_secs(10),
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}

/// The service. Cloning gives another handle to the same one.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

impl Service {
    /// Makes a service; nothing is called yet.
    pub fn new(parts: Parts) -> Service {
        Service { shared: Arc::new(Shared::new(parts)) }
    }

    /// Every route, for a server of your own or for tests.
    pub fn router(&self) -> Router {
        let limited = Router::new()
            .route("/generators", get(leases::list))
            .route("/generators/lease", post(leases::lease))
            .route("/generators/{id}/renew", post(leases::renew))
            .route("/generators/{id}/release", post(leases::release))
            .route("/generators/{id}/drain", post(admin::drain))
            .route("/generators/{id}/undrain", post(admin::undrain))
            .route("/ids", ids::route())
            .route("/ids/range", get(decode::range))
            .route("/ids/{id}/decode", get(decode::decode))
            // An empty id is a malformed one, not another path.
            .route("/ids//decode", get(decode::decode_nothing))
            .route("/store", get(view::store))
            .route("/store/freeze", post(admin::freeze))
            .route("/store/unfreeze", post(admin::unfreeze))
            .route("/store/quarantine", post(admin::quarantine))
            .route("/store/verify", get(admin::verify))
            .route("/openapi.json", get(openapi::serve))
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&self.shared), guard::bound));
        limited
            // Outside the bounds: a busy service is alive, ready and worth watching.
            .route("/livez", get(health::livez))
            .route("/readyz", get(health::readyz))
            .route("/metrics", get(scrape::metrics))
            .fallback(guard::not_found)
            .method_not_allowed_fallback(guard::method_not_allowed)
            .layer(axum::middleware::from_fn_with_state(Arc::clone(&self.shared), guard::note))
            .with_state(Arc::clone(&self.shared))
    }
}
