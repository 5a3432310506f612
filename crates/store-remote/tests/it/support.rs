//! A service on a port of this machine, with a store in memory behind it and a clock that is set.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use snowlease_core::clock::ScriptedClock;
use snowlease_core::{Format, Generator};
use snowlease_lease::Terms;
use snowlease_lease::testing::MemoryStore;
use snowlease_service::{Limits, Parts, Service, Standing};
use tokio::runtime::Runtime;

/// A service; it ends with this value.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) store: Arc<MemoryStore>,
    clock: Arc<AtomicI64>,
    _runtime: Runtime,
}

impl Served {
    pub(crate) fn new(format: Format, range: (u64, u64)) -> Served {
        let store = Arc::new(MemoryStore::new(format, range).unwrap());
        let clock = Arc::new(AtomicI64::new(format.epoch_ms()));
        let wall = Arc::clone(&clock);
        let service = Service::new(Parts {
            store: Arc::clone(&store) as _,
            generator: Arc::new(Generator::new(format, ScriptedClock::at_ms(0))),
            standing: Arc::new(Standing::default),
            terms: Terms::DEFAULT,
            range,
            region: String::new(),
            realm: snowlease_lease::Realm::default(),
            wall_ms: Arc::new(move || wall.load(Ordering::SeqCst)),
            limits: Limits { drain: Duration::ZERO, ..Limits::DEFAULT },
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(service.serve(listener, pending()));
        Served { url, store, clock, _runtime: runtime }
    }

    /// Sets the service's clock, in Unix ms.
    pub(crate) fn set_now(&self, now_ms: i64) {
        self.clock.store(now_ms, Ordering::SeqCst);
    }
}
