//! A store in a new file for each check of the conformance suite.

#![expect(clippy::unwrap_used, reason = "a helper of tests fails as a test does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::testing::suite::{Made, Setup};

use crate::{Clock, Open, SqliteStore};

/// Makes each store in a folder of its own, which goes with it.
#[derive(Clone, Copy, Debug)]
pub struct NewFile;

impl Setup for NewFile {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let now_ms = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&now_ms);
        let how = Open {
            format: Some(format),
            range: Some(range),
            create: true,
            attempt: Duration::from_secs(60),
            // ORDERING: SeqCst, here and below; a test clock needs no cleverness.
            now: Clock::new(move || read.load(Ordering::SeqCst)),
            ..Open::default()
        };
        let (store, opened) = SqliteStore::open(&folder.path().join("a.db"), &how).unwrap();
        assert!(opened.created && opened.alarms.is_empty(), "{opened:?}");
        let set_now = Box::new(move |ms| now_ms.store(ms, Ordering::SeqCst));
        Made { set_now, ..Made::new(store) }.keeping(folder)
    }

    fn histories(&self) -> u64 {
        25
    }
}
