//! Which store a URL names, and one store for each of them in this process.
//!
//! Two connections of one process to one file, or to one name in memory, must share a store: the
//! file is locked against a second one, and two stores in memory would each grant the same
//! generator ids.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use snowlease_core::Format;
use snowlease_lease::range::default_range;
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{LeaseStore, PerProcess, Terms};

use crate::own::OwnStore;

/// A store that several connections may use.
pub(crate) type Shared = Arc<dyn LeaseStore>;

/// Why a store cannot be had.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The URL has no scheme that this library knows.
    #[error(
        "`{url}` names no store: use http://HOST:PORT (a lease service), etcd://HOST,HOST/PREFIX, \
         postgres://USER@HOST/DATABASE, sqlite:PATH (a file of this machine) or memory: (tests)"
    )]
    Scheme {
        /// The URL, without any secret it may carry.
        url: String,
    },
    /// The scheme is known, and not part of this build.
    #[error("this build cannot open `{scheme}` stores: {remedy}")]
    NotBuilt {
        /// The scheme.
        scheme: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The store cannot be opened.
    #[error("{0}")]
    Open(String),
    /// The store does not answer. Connecting tries again until its time is over.
    #[error("{0}")]
    Away(String),
}

/// As `Display`: a program whose `main` returns this prints what to do.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The store at `url`, shared with the other connections of this process to it.
pub(crate) fn open(
    url: &str,
    name: &str,
    format: Option<Format>,
    terms: Terms,
) -> Result<Shared, StoreError> {
    match url.split_once(':') {
        Some(("memory", _)) => shared(url.to_owned(), || memory(format)),
        Some(("sqlite", path)) => sqlite(path, name, format, terms),
        Some(("http" | "https", _)) => remote(url, terms),
        Some(("etcd" | "etcds", _)) => etcd(url, format, terms),
        Some(("postgres" | "postgresql", _)) => postgres(url, format, terms),
        _ => Err(StoreError::Scheme { url: without_secrets(url) }),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(
    path: &str,
    holder: &str,
    format: Option<Format>,
    terms: Terms,
) -> Result<Shared, StoreError> {
    use snowlease_store_sqlite::{Open, SqliteStore};

    if path.is_empty() {
        return Err(StoreError::Open("sqlite: names no file: write sqlite:ids.db".to_owned()));
    }
    // Two spellings of one path are one store, whether the file is there yet or not.
    let path = std::path::Path::new(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(std::path::Path::new(".")).canonicalize();
    let name = match (folder, path.file_name()) {
        (Ok(folder), Some(file)) => folder.join(file),
        _ => path.to_owned(),
    };
    shared(format!("sqlite:{}", name.display()), || {
        let attempt = terms.attempt();
        let label = holder.to_owned();
        let open = Open { format, create: true, attempt, label, ..Open::default() };
        let opened = SqliteStore::open(path, &open);
        let (store, _) = opened.map_err(|error| StoreError::Open(error.to_string()))?;
        Ok(Arc::new(store) as Shared)
    })
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &str, _: &str, _: Option<Format>, _: Terms) -> Result<Shared, StoreError> {
    Err(StoreError::NotBuilt { scheme: "sqlite", remedy: "enable the feature `sqlite`" })
}

#[cfg(feature = "http")]
fn remote(url: &str, terms: Terms) -> Result<Shared, StoreError> {
    use snowlease_store_remote::{RemoteStore, StatusError};

    let store = RemoteStore::new(url, terms.attempt());
    let store = store.map_err(|error| StoreError::Open(error.to_string()))?;
    // A service that is away may come back; a URL at which there is none stays wrong.
    if let Err(StatusError::NoService(detail)) = store.inquire() {
        return Err(StoreError::Open(detail));
    }
    Ok(own(Arc::new(store)))
}

#[cfg(not(feature = "http"))]
fn remote(_: &str, _: Terms) -> Result<Shared, StoreError> {
    Err(StoreError::NotBuilt { scheme: "http", remedy: "enable the feature `http`" })
}

/// A store of a fleet is there or is not: one made by a slip in its URL would grant the same
/// generator ids a second time.
#[cfg(feature = "etcd")]
fn etcd(url: &str, format: Option<Format>, terms: Terms) -> Result<Shared, StoreError> {
    use snowlease_store_etcd::{Address, EtcdStore, Open, OpenError, Secret};

    let address: Address = url.parse().map_err(|error| StoreError::Open(format!("{error}")))?;
    let address = address.or_password(std::env::var(PASSWORD).ok().map(Secret::new));
    shared(format!("etcd:{address}"), || {
        // A fleet that starts at once leaves it to its operators to look at the whole cluster.
        let open =
            Open { format, attempt: terms.attempt(), terms, inspect: false, ..Open::default() };
        let opened = EtcdStore::open(&address, &open);
        let (store, _) = opened.map_err(|error| match error {
            OpenError::Cluster(outage) => StoreError::Away(outage.detail),
            error => StoreError::Open(error.to_string()),
        })?;
        Ok(Arc::new(store) as Shared)
    })
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &str, _: Option<Format>, _: Terms) -> Result<Shared, StoreError> {
    Err(StoreError::NotBuilt { scheme: "etcd", remedy: "enable the feature `etcd`" })
}

#[cfg(feature = "postgres")]
fn postgres(url: &str, format: Option<Format>, terms: Terms) -> Result<Shared, StoreError> {
    use snowlease_store_postgres::{Address, Open, OpenError, PostgresStore, Secret};

    let address: Address = url.parse().map_err(|error| StoreError::Open(format!("{error}")))?;
    let address = address.or_password(std::env::var(PASSWORD).ok().map(Secret::new));
    shared(format!("postgres:{address}"), || {
        let open = Open { format, attempt: terms.attempt(), terms, ..Open::default() };
        let opened = PostgresStore::open(&address, &open);
        let (store, _) = opened.map_err(|error| match error {
            OpenError::Outage(outage) => StoreError::Away(outage.detail),
            error => StoreError::Open(error.to_string()),
        })?;
        Ok(Arc::new(store) as Shared)
    })
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: Option<Format>, _: Terms) -> Result<Shared, StoreError> {
    Err(StoreError::NotBuilt { scheme: "postgres", remedy: "enable the feature `postgres`" })
}

/// Where the password of a store may be kept that is not to be part of its URL.
#[cfg(any(feature = "etcd", feature = "postgres"))]
const PASSWORD: &str = "SNOWLEASE_STORE_PASSWORD";

fn memory(format: Option<Format>) -> Result<Shared, StoreError> {
    let format = format.unwrap_or_default();
    let store = MemoryStore::new(format, default_range(format));
    store.map(|store| Arc::new(store) as _).map_err(|error| StoreError::Open(error.to_string()))
}

/// The stores of this process, by name, for as long as somebody uses them.
type Stores = Mutex<HashMap<String, Weak<dyn LeaseStore>>>;

/// A forked child has none of its parent's, whose files and connections it must not use, and does
/// not wait for a thread of its parent's that was opening one.
static STORES: PerProcess<Stores> = PerProcess::new();

/// One store for each name in this process.
fn shared(
    name: String,
    make: impl FnOnce() -> Result<Shared, StoreError>,
) -> Result<Shared, StoreError> {
    let mut stores = STORES.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(store) = stores.get(&name).and_then(Weak::upgrade) {
        return Ok(store);
    }
    let store = own(make()?);
    stores.retain(|_, store| store.strong_count() > 0);
    stores.insert(name, Arc::downgrade(&store));
    Ok(store)
}

/// The same store, refused to forked children.
fn own(store: Shared) -> Shared {
    Arc::new(OwnStore::new(store))
}

fn without_secrets(url: &str) -> String {
    // Options may be secrets too.
    let shown = url.rsplit_once('@').map_or(url, |(_, host)| host);
    let shown = shown.split_once('?').map_or(shown, |(shown, _)| shown);
    if shown == url { url.to_owned() } else { format!("…@{shown}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::tests::in_a_child;

    #[test]
    fn a_child_opens_a_store_of_its_own_while_a_thread_of_its_parent_opens_one() {
        let open = || open("memory:forks", "test", None, Terms::DEFAULT).unwrap();
        let parents = open();
        assert!(Arc::ptr_eq(&parents, &open()));
        let held = STORES.get().lock().unwrap();
        assert!(in_a_child(|| {
            let own = open();
            !Arc::ptr_eq(&parents, &own) && own.status().is_ok() && Arc::ptr_eq(&own, &open())
        }));
        drop(held);
        assert!(Arc::ptr_eq(&parents, &open()));
    }
}
