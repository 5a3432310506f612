//! Which store a URL names: the one place that knows concrete stores.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use snowlease_core::Format;
use snowlease_lease::range::default_range;
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{Administer, Terms, os};
use snowlease_store_sqlite::{Open, OpenError, SqliteStore};

use crate::output::note;
use crate::settings::hide_secrets;
use crate::time::told;
use crate::usage::Usage;

/// What a URL names.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Sqlite(&'a Path),
    Memory,
}

/// Reads a URL; what is no store of this build is refused with what to use instead.
fn place(url: &str) -> Result<Place<'_>, Usage> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "sqlite" if !rest.is_empty() => Ok(Place::Sqlite(Path::new(rest))),
        "sqlite" => Err(Usage("sqlite: names no file: write sqlite:snowlease.db".to_owned())),
        "memory" => Ok(Place::Memory),
        "http" | "https" => Err(Usage(format!(
            "{} is a service, and here a store of its own is needed: use sqlite:PATH",
            hide_secrets(url)
        ))),
        "etcd" | "etcds" | "postgres" | "postgresql" => {
            Err(Usage(format!("this build has no driver for {scheme}: stores: use sqlite:PATH")))
        }
        _ => Err(Usage(format!(
            "{:?} names no store: use sqlite:PATH, such as sqlite:snowlease.db",
            hide_secrets(url)
        ))),
    }
}

/// Whether the URL names a store of this build, without touching it.
pub(crate) fn check(url: &str) -> Result<(), Usage> {
    place(url).map(drop)
}

/// What a store has to be, and is made with; what is `None` is taken from a store that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) format: Option<Format>,
    pub(crate) range: Option<(u64, u64)>,
    /// How long a call may take.
    pub(crate) attempt: Duration,
}

impl Wanted {
    /// Takes what is there, or the defaults.
    pub(crate) const ANY: Wanted =
        Wanted { format: None, range: None, attempt: Terms::DEFAULT.attempt() };
}

/// Opens the store, or makes it and says so.
pub(crate) fn open_or_create(url: &str, wanted: Wanted) -> Result<Arc<dyn Administer>> {
    match place(url)? {
        Place::Memory => {
            let format = wanted.format.unwrap_or_default();
            check_time(format)?;
            note(
                "memory: is for trying out only: it forgets all leases with this process, and \
                 others may get the same ids",
            );
            let range = wanted.range.unwrap_or_else(|| default_range(format));
            Ok(Arc::new(MemoryStore::new(format, range)?))
        }
        Place::Sqlite(path) => {
            let (store, created) = make(path, wanted)?;
            if created {
                note(format_args!("created the store {url}"));
            }
            Ok(store)
        }
    }
}

/// Makes a store where there is none.
pub(crate) fn create(url: &str, wanted: Wanted) -> Result<Arc<dyn Administer>> {
    let path = file(url)?;
    let (store, created) = make(path, wanted)?;
    if !created {
        bail!(
            "there is a store at {} already: see `snowlease store status --store {}`",
            path.display(),
            hide_secrets(url)
        );
    }
    Ok(store)
}

/// Opens a store that is there, whatever it is for.
pub(crate) fn open(url: &str) -> Result<Arc<dyn Administer>> {
    let opened = sqlite(file(url)?, &Open::default());
    let (store, _) = opened.map_err(|error| match error {
        OpenError::Locked { .. } => {
            anyhow!("{error}; what it knows it tells with --server http://HOST:PORT")
        }
        error => error.into(),
    })?;
    Ok(store)
}

/// Opens a store that is there, even if it is a copy.
pub(crate) fn adopt(url: &str) -> Result<Arc<dyn Administer>> {
    Ok(sqlite(file(url)?, &Open { adopt: true, ..Open::default() })?.0)
}

/// Opens a store, or makes it if ids can be issued by its format.
fn make(path: &Path, wanted: Wanted) -> Result<(Arc<dyn Administer>, bool)> {
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

fn open_as(wanted: Wanted) -> Open {
    let Wanted { format, range, attempt } = wanted;
    Open { format, range, attempt, ..Open::default() }
}

/// The file of a store that outlives its process.
fn file(url: &str) -> Result<&Path, Usage> {
    match place(url)? {
        Place::Sqlite(path) => Ok(path),
        Place::Memory => {
            Err(Usage("memory: holds nothing once its process ends: use sqlite:PATH".to_owned()))
        }
    }
}

/// Opens a file, tells what was found, and says whether it was made.
fn sqlite(path: &Path, open: &Open) -> Result<(Arc<dyn Administer>, bool), OpenError> {
    let open = Open { label: "snowlease".to_owned(), ..open.clone() };
    let (store, opened) = SqliteStore::open(path, &open)?;
    for alarm in &opened.alarms {
        note(format_args!("warning: {alarm}"));
    }
    Ok((Arc::new(store), opened.created))
}
