//! Which store a URL names: the one place that knows concrete stores.

use std::env::VarError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use snowlease_core::Format;
use snowlease_lease::range::default_range;
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{Administer, ClockGate, Meta, Realm, RollbackGuard, Terms, os};
use snowlease_store_etcd::{self as etcd, EtcdStore};
use snowlease_store_postgres::{self as postgres, PostgresStore};
use snowlease_store_sqlite::{Open, OpenError, SqliteStore};

use crate::output::note;
use crate::settings::hide_secrets;
use crate::time::told;
use crate::usage::Usage;

/// What a URL names.
#[derive(Debug)]
enum Place<'a> {
    Sqlite(&'a Path),
    Etcd(etcd::Address),
    Postgres(postgres::Address),
    Memory,
}

/// Reads a URL; what is no store of this build is refused with what to use instead.
fn place(url: &str) -> Result<Place<'_>, Usage> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "sqlite" if !rest.is_empty() => Ok(Place::Sqlite(Path::new(rest))),
        "sqlite" => Err(Usage("sqlite: names no file: write sqlite:snowlease.db".to_owned())),
        "memory" => Ok(Place::Memory),
        "etcd" | "etcds" => url.parse().map(Place::Etcd).map_err(|error| misread(url, error)),
        "postgres" | "postgresql" => {
            url.parse().map(Place::Postgres).map_err(|error| misread(url, error))
        }
        "http" | "https" => Err(Usage(format!(
            "{} is a service, and here a store of its own is needed: {KINDS}",
            hide_secrets(url)
        ))),
        _ => Err(Usage(format!("{:?} names no store: {KINDS}", hide_secrets(url)))),
    }
}

/// Where the password of a store may be kept that is not to be part of its URL.
const PASSWORD: &str = "SNOWLEASE_STORE_PASSWORD";

const KINDS: &str = "use sqlite:PATH, etcd://HOST,HOST/PREFIX or postgres://USER@HOST/DATABASE";

fn misread(url: &str, error: impl fmt::Display) -> Usage {
    Usage(format!("{}: {error}", hide_secrets(url)))
}

/// Whether the URL names a store of this build, without touching it.
pub(crate) fn check(url: &str) -> Result<(), Usage> {
    place(url).map(drop)
}

/// What a process that leases from this store does about its clock unless it is said. Where
/// machines share a store that has no clock of its own, nothing but theirs bounds the order of
/// their ids.
pub(crate) fn clock_gate(url: &str) -> ClockGate {
    match place(url) {
        Ok(Place::Etcd(_)) => ClockGate::Enforce,
        _ => ClockGate::Warn,
    }
}

/// What a store has to be, and is made with; what is `None` or not stated is taken from a store
/// that is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) format: Option<Format>,
    pub(crate) range: Option<(u64, u64)>,
    pub(crate) realm: Realm,
    pub(crate) region: String,
    /// How long a call may take, and after which silence a store is suspected, follow from these.
    pub(crate) terms: Terms,
    pub(crate) rollback_guard: RollbackGuard,
}

/// Opens the store of a service. One in a file is made if it is not there, and that is said; one of
/// a fleet is not: a slip in its URL would make a second store of the same generator ids.
pub(crate) fn open_or_create(url: &str, wanted: &Wanted) -> Result<Arc<dyn Administer>> {
    let store: Arc<dyn Administer> = match place(url)? {
        Place::Memory => {
            let format = wanted.format.unwrap_or_default();
            check_time(format)?;
            note(
                "memory: is for trying out only: it forgets all leases with this process, and \
                 others may get the same ids",
            );
            let range = wanted.range.unwrap_or_else(|| default_range(format));
            let region = wanted.region.clone();
            let meta = Meta { region, realm: wanted.realm.clone(), ..Meta::new(format, range) };
            Arc::new(MemoryStore::of(meta)?)
        }
        Place::Sqlite(path) => {
            let (store, created) = make(path, wanted)?;
            if created {
                note(format_args!("created the store {url}"));
            }
            store
        }
        Place::Etcd(address) => etcd_store(address, wanted, false)?.0,
        Place::Postgres(address) => postgres_store(address, wanted)?,
    };
    check_realm(&store.status()?.meta, &wanted.realm)?;
    Ok(store)
}

/// Makes a store where there is none.
pub(crate) fn create(url: &str, wanted: &Wanted) -> Result<Arc<dyn Administer>> {
    let there_is_one = || {
        let url = hide_secrets(url);
        anyhow!("there is a store at {url} already: see `snowlease store status --store {url}`")
    };
    let format = wanted.format.unwrap_or_default();
    match place(url)? {
        Place::Memory => Err(forgets().into()),
        Place::Sqlite(path) => {
            let (store, created) = make(path, wanted)?;
            if created { Ok(store) } else { Err(there_is_one()) }
        }
        Place::Etcd(address) => {
            check_time(format)?;
            let (store, created) = etcd_store(address, wanted, true)?;
            if created { Ok(store) } else { Err(there_is_one()) }
        }
        Place::Postgres(address) => {
            check_time(format)?;
            let (range, region) = (wanted.range, wanted.region.clone());
            let init = postgres::Init { format, range, region, realm: wanted.realm.clone() };
            let address = address.or_password(password()?.map(postgres::Secret::new));
            match PostgresStore::init(&address, &init)? {
                postgres::Initialised::Made => postgres_store(address, wanted),
                postgres::Initialised::UpToDate => Err(there_is_one()),
            }
        }
    }
}

/// Opens a store that is there, whatever it is for.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Administer>> {
    let any = Wanted::default();
    match place(url)? {
        Place::Memory => Err(forgets().into()),
        Place::Sqlite(path) => {
            let opened = sqlite(path, &Open::default());
            let (store, _) = opened.map_err(|error| match error {
                OpenError::Locked { .. } => {
                    anyhow!("{error}; what it knows it tells with --server http://HOST:PORT")
                }
                error => error.into(),
            })?;
            Ok(store)
        }
        // An operator looks at a store that may have been put back, and is not kept from it.
        Place::Etcd(address) => Ok(etcd_store(address, &any, false)?.0),
        Place::Postgres(address) => postgres_store(address, &any),
    }
}

/// Opens a store that is there, even if it is a copy.
pub(crate) fn adopt(url: &str) -> Result<Arc<dyn Administer>> {
    match place(url)? {
        Place::Sqlite(path) => Ok(sqlite(path, &Open { adopt: true, ..Open::default() })?.0),
        _ => open(url),
    }
}

/// The store, and whether it was made just now.
fn etcd_store(
    address: etcd::Address,
    wanted: &Wanted,
    create: bool,
) -> Result<(Arc<dyn Administer>, bool)> {
    let address = address.or_password(password()?.map(etcd::Secret::new));
    let how = etcd::Open {
        create,
        region: wanted.region.clone(),
        realm: wanted.realm.clone(),
        format: wanted.format,
        range: wanted.range,
        attempt: wanted.terms.attempt(),
        terms: wanted.terms,
        rollback_guard: wanted.rollback_guard,
        ..etcd::Open::default()
    };
    let (store, opened) = EtcdStore::open(&address, &how)?;
    warn(&opened.alarms);
    Ok((Arc::new(store), opened.created))
}

fn postgres_store(address: postgres::Address, wanted: &Wanted) -> Result<Arc<dyn Administer>> {
    let address = address.or_password(password()?.map(postgres::Secret::new));
    let how = postgres::Open {
        format: wanted.format,
        range: wanted.range,
        attempt: wanted.terms.attempt(),
        terms: wanted.terms,
        rollback_guard: wanted.rollback_guard,
        ..postgres::Open::default()
    };
    let (store, opened) = PostgresStore::open(&address, &how)?;
    warn(&opened.alarms);
    Ok(Arc::new(store))
}

/// The password of a store, if it is kept outside of the URL.
fn password() -> Result<Option<String>, Usage> {
    match std::env::var(PASSWORD) {
        Ok(empty) if empty.trim().is_empty() => {
            Err(Usage(format!("{PASSWORD} is empty: give it a value or unset it")))
        }
        Ok(password) => Ok(Some(password)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Usage(format!("{PASSWORD} is not UTF-8 text: set it anew")))
        }
    }
}

fn warn(alarms: &[String]) {
    for alarm in alarms {
        note(format_args!("warning: {alarm}"));
    }
}

fn forgets() -> Usage {
    Usage(
        "memory: holds nothing once its process ends: use sqlite:PATH, or a store of a fleet"
            .to_owned(),
    )
}

/// What is stated has to be the store's; and who serves a store of an environment has to state it,
/// so that a process without a word of configuration never joins production by accident.
fn check_realm(meta: &Meta, ours: &Realm) -> Result<()> {
    if let Some(mismatch) = meta.realm.mismatch(meta.previous_plan, ours) {
        bail!("{mismatch}");
    }
    let theirs = meta.realm.environment();
    if ours.environment().is_empty() && !theirs.is_empty() {
        return Err(Usage(format!(
            "this store is of the environment {theirs}: say --environment {theirs} if that is \
             where this process belongs"
        ))
        .into());
    }
    Ok(())
}

/// Opens a store, or makes it if ids can be issued by its format.
fn make(path: &Path, wanted: &Wanted) -> Result<(Arc<dyn Administer>, bool)> {
    let open = Open { create: true, ..open_as(wanted) };
    let Err(no_time) = check_time(wanted.format.unwrap_or_default()) else {
        return Ok(sqlite(path, &open)?);
    };
    // One that is there serves to decode its ids.
    match sqlite(path, &Open { create: false, ..open }) {
        Err(OpenError::Missing { .. }) => Err(no_time.into()),
        opened => Ok(opened?),
    }
}

/// A store is never made for a format by which no id can be issued now: the format stays with it.
fn check_time(format: Format) -> Result<(), Usage> {
    let (now_ms, end_ms) = (os::wall_ms(), format.end_ms());
    if now_ms < format.epoch_ms() {
        let epoch = told(format.epoch_ms());
        return Err(Usage(format!(
            "the epoch {epoch} is in the future: choose one that has begun, or set the clock"
        )));
    }
    if end_ms <= now_ms {
        return Err(Usage(format!(
            "the ids of the format {format} ended at {}: choose a later --epoch, or a --layout \
             with more bits of tick",
            told(end_ms)
        )));
    }
    Ok(())
}

fn open_as(wanted: &Wanted) -> Open {
    Open {
        format: wanted.format,
        range: wanted.range,
        realm: wanted.realm.clone(),
        region: wanted.region.clone(),
        attempt: wanted.terms.attempt(),
        ..Open::default()
    }
}

/// Opens a file, tells what was found, and says whether it was made.
fn sqlite(path: &Path, open: &Open) -> Result<(Arc<dyn Administer>, bool), OpenError> {
    let open = Open { label: "snowlease".to_owned(), ..open.clone() };
    let (store, opened) = SqliteStore::open(path, &open)?;
    warn(&opened.alarms);
    Ok((Arc::new(store), opened.created))
}
