//! The conformance suite, plain and while calls are lost, late and repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::testing::suite::{Made, Setup};
use snowlease_store_sqlite::{Clock, Open, SqliteStore};

struct Sqlite;

impl Setup for Sqlite {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let now_ms = Arc::new(AtomicI64::new(0));
        let read = Arc::clone(&now_ms);
        let how = Open {
            format: Some(format),
            range: Some(range),
            create: true,
            attempt: Duration::from_secs(60),
            now: Clock::new(move || read.load(Ordering::SeqCst)),
            ..Open::default()
        };
        let (store, opened) = SqliteStore::open(&folder.path().join("a.db"), &how).unwrap();
        assert!(opened.created && opened.alarms.is_empty());
        let set_now = Box::new(move |ms| now_ms.store(ms, Ordering::SeqCst));
        Made { set_now, ..Made::new(store) }.keeping(folder)
    }

    fn histories(&self) -> u64 {
        25
    }
}

mod plain {
    snowlease_lease::conformance!(super::Sqlite);
}

mod under_faults {
    use snowlease_lease::testing::suite::UnderFaults;

    snowlease_lease::conformance!(UnderFaults { setup: super::Sqlite, seed: 11 });
}
