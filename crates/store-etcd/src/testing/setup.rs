//! A store under a prefix of its own for each check of the conformance suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::testing::suite::{Made, Setup};

use super::Cluster;
use crate::{Clock, EtcdStore, Open};

/// Makes stores in a cluster that runs already.
#[derive(Debug)]
pub struct NewPrefix<'a> {
    cluster: &'a Cluster,
    made: AtomicU64,
}

impl<'a> NewPrefix<'a> {
    /// Makes stores in this cluster.
    pub fn of(cluster: &'a Cluster) -> NewPrefix<'a> {
        NewPrefix { cluster, made: AtomicU64::new(0) }
    }
}

impl Setup for NewPrefix<'_> {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        // ORDERING: SeqCst, here and below; a test needs no cleverness.
        let number = self.made.fetch_add(1, Ordering::SeqCst);
        let now_ms = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&now_ms);
        let how = Open {
            format: Some(format),
            range: Some(range),
            create: true,
            attempt: Duration::from_secs(60),
            // That there is one member only is an alarm elsewhere.
            inspect: false,
            now: Clock::new(move || read.load(Ordering::SeqCst)),
            ..Open::default()
        };
        let address = self.cluster.address(&format!("check/{number}"));
        let (store, opened) = EtcdStore::open(&address, &how).unwrap();
        assert!(opened.created, "{opened:?}");
        let set_now = Box::new(move |ms| now_ms.store(ms, Ordering::SeqCst));
        Made { set_now, ..Made::new(store) }
    }

    fn longest_free_first(&self) -> bool {
        false
    }

    fn histories(&self) -> u64 {
        6
    }
}
