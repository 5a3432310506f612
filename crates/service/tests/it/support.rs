//! A service with a store in memory, clocks moved by hand, and requests in a few words.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snowlease_core::clock::ScriptedClock;
use snowlease_core::{Format, Generator, Tick, Window};
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{
    Acquire, AcquireError, Administer, Grant, LeaseEntry, LeaseStore, Mode, Outage, PlanHash,
    Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus, Terms, Verified,
};
use snowlease_service::{Limits, Parts, Service, Standing};
use snowlease_wire::{Code, Problem};
use tower::ServiceExt;

/// 30 days after the epoch: ids are past 2^53.
pub(crate) const START: u64 = 2_592_000_000;

/// The generator id the service itself issues under.
pub(crate) const OWN: u64 = 9;

pub(crate) struct World {
    pub(crate) service: Service,
    pub(crate) router: Router,
    pub(crate) store: Arc<Switch>,
    pub(crate) generator: Arc<Generator>,
    pub(crate) clock: Arc<ScriptedClock>,
    pub(crate) standing: Arc<Mutex<Standing>>,
    wall: Arc<AtomicI64>,
}

impl World {
    /// Generator ids 0 to 3, and a generator that may issue for a minute.
    pub(crate) fn new() -> World {
        World::with_limits(Limits::DEFAULT)
    }

    pub(crate) fn with_limits(limits: Limits) -> World {
        World::of(Format::DEFAULT, limits)
    }

    pub(crate) fn of(format: Format, limits: Limits) -> World {
        let store = Arc::new(Switch::new(MemoryStore::new(format, (0, 3)).unwrap()));
        let now_ms = format.unix_ms(Tick(START));
        let clock = ScriptedClock::at_ms(now_ms);
        let generator = Arc::new(Generator::new(format, clock.clone()));
        let window = Window::new(format.layout(), OWN, Tick(START), Tick(START + 60_000)).unwrap();
        generator.open(window, u64::MAX).unwrap();
        let ready = Standing {
            ready: true,
            generator_id: Some(OWN),
            remaining: Some(Duration::from_secs(60)),
            renewals: vec![("renewed", 3), ("lost", 1)],
            ..Standing::default()
        };
        let standing = Arc::new(Mutex::new(ready));
        let wall = Arc::new(AtomicI64::new(now_ms));
        let service = Service::new(Parts {
            store: Arc::clone(&store) as _,
            generator: Arc::clone(&generator),
            standing: {
                let standing = Arc::clone(&standing);
                Arc::new(move || standing.lock().unwrap().clone())
            },
            terms: Terms::DEFAULT,
            range: (0, 9),
            region: "eu".to_owned(),
            realm: snowlease_lease::Realm::default(),
            wall_ms: {
                let wall = Arc::clone(&wall);
                Arc::new(move || wall.load(Ordering::SeqCst))
            },
            limits,
        });
        let router = service.router();
        World { service, router, store, generator, clock, standing, wall }
    }

    /// The reference clock, in Unix ms.
    pub(crate) fn now_ms(&self) -> i64 {
        self.wall.load(Ordering::SeqCst)
    }

    /// Moves the reference clock.
    pub(crate) fn pass_ms(&self, ms: i64) {
        self.wall.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn accept(&self, path: &str, accept: &str) -> Answer {
        let request = Request::get(path).header("accept", accept);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn method(&self, method: &str, path: &str) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = Request::builder().method(method).uri(path);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    pub(crate) async fn post_text(&self, path: &str, body: &str) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// A lease for a holder that says nothing but its name.
    pub(crate) async fn lease(&self, holder: &str) -> Value {
        let answer = self.post("/generators/lease", json!({ "holder": holder })).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
        answer.json()
    }
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> T {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The ids of a JSON answer.
    pub(crate) fn ids(&self) -> Vec<u64> {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        let ids: snowlease_wire::Ids = self.json();
        ids.ids.iter().map(|id| id.parse().unwrap()).collect()
    }

    /// The problem this is, with all that every problem has.
    pub(crate) fn problem(&self, code: Code) -> Problem {
        let problem: Problem = self.json();
        assert_eq!(
            (problem.code.as_str(), problem.status),
            (code.name(), code.status()),
            "{self:?}"
        );
        assert_eq!(self.status.as_u16(), code.status());
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        assert_eq!(problem.kind, code.uri());
        assert_eq!(problem.title, code.title());
        assert!(!problem.detail.is_empty());
        let seconds = problem.retry_after_ms.map(|ms| ms.div_ceil(1000).max(1).to_string());
        assert_eq!(self.header("retry-after"), seconds.unwrap_or_default());
        // An id never appears where an error belongs.
        assert!(!self.text().contains("\"ids\""));
        problem
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// A store that is switched off, or made to hang, by hand.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) memory: MemoryStore,
    down: AtomicBool,
    unknown: AtomicBool,
    distrusted: AtomicBool,
    calls: AtomicUsize,
    hanging: Mutex<bool>,
    changed: Condvar,
}

impl Switch {
    fn new(memory: MemoryStore) -> Switch {
        Switch {
            memory,
            down: AtomicBool::new(false),
            unknown: AtomicBool::new(false),
            distrusted: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            hanging: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// From now on nothing is done, and it is not said (`unknown`) or said that nothing was.
    pub(crate) fn fail(&self, unknown: bool) {
        self.unknown.store(unknown, Ordering::SeqCst);
        self.down.store(true, Ordering::SeqCst);
    }

    /// From now on calls do not return, or they do again.
    pub(crate) fn hang(&self, hanging: bool) {
        *self.hanging.lock().unwrap() = hanging;
        self.changed.notify_all();
    }

    /// From now on it grants nothing, since the clock may be wrong.
    pub(crate) fn distrust_clock(&self) {
        self.distrusted.store(true, Ordering::SeqCst);
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn pass(&self) -> Result<&MemoryStore, Outage> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let hanging = self.hanging.lock().unwrap();
        drop(self.changed.wait_while(hanging, |hanging| *hanging).unwrap());
        if !self.down.load(Ordering::SeqCst) {
            return Ok(&self.memory);
        }
        let unknown = self.unknown.load(Ordering::SeqCst);
        Err(Outage { unknown, detail: "the disk is gone: look for it".to_owned() })
    }
}

impl LeaseStore for Switch {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.pass()?.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        if self.distrusted.load(Ordering::SeqCst) {
            let reason = "nothing synchronises it".to_owned();
            return Err(AcquireError::ClockUntrusted { reason });
        }
        self.pass()?.acquire(ask)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.pass()?.renew(ask)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.pass()?.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.pass()?.list()
    }
}

impl Administer for Switch {
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage> {
        self.pass()?.drain(generator_id, draining)
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Outage> {
        self.pass()?.set_mode(mode)
    }

    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage> {
        self.pass()?.quarantine(at_least)
    }

    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage> {
        self.pass()?.adopt_plan(plan)
    }

    fn verify(&self) -> Result<Verified, Outage> {
        self.pass()?.verify()
    }
}
