//! A new store, in a schema of its own, for each check of the conformance suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::testing::suite::{Made, Setup};

use super::Server;
use crate::{Clock, Init, Initialised, Open, PostgresStore};

/// Makes each store in a schema of its own of this server.
#[derive(Debug)]
pub struct NewSchema<'a> {
    server: &'a Server,
    made: AtomicU64,
}

impl NewSchema<'_> {
    /// Stores on this server.
    pub fn on(server: &Server) -> NewSchema<'_> {
        NewSchema { server, made: AtomicU64::new(0) }
    }
}

impl Setup for NewSchema<'_> {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        // ORDERING: Relaxed: only that no number comes twice.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let url = format!("{}?schema=check_{number}", self.server.url());
        let address = url.parse().unwrap();
        let init = Init { format, range: Some(range), ..Init::default() };
        assert_eq!(PostgresStore::init(&address, &init), Ok(Initialised::Made));
        let now_ms = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&now_ms);
        let how = Open {
            format: Some(format),
            range: Some(range),
            attempt: Duration::from_secs(60),
            // ORDERING: SeqCst, here and below; a test clock needs no cleverness.
            clock: Some(Clock::new(move || read.load(Ordering::SeqCst))),
            ..Open::default()
        };
        let (store, _) = PostgresStore::open(&address, &how).unwrap();
        let set_now = Box::new(move |ms| now_ms.store(ms, Ordering::SeqCst));
        Made { set_now, ..Made::new(store) }
    }

    fn histories(&self) -> u64 {
        10
    }
}
