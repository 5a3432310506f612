//! Opening: everything is checked before anything is granted.
//!
//! In this order, each step before the next one touches more: the path, the lock, what sort of
//! database it is, whether it is whole, what it says of itself, whether it is this very file,
//! whether it is as new as its witness.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use snowlease_core::{Format, Tick};
use snowlease_lease::range::check_range;
use snowlease_lease::{Realm, Terms, os, rules};

use crate::create::no_log_at;
use crate::engine::{Engine, Failure, Step};
use crate::error::{from_reading, from_sqlite, from_system};
use crate::files::{beside, inode};
use crate::identity::Identity;
use crate::lock::Lock;
use crate::mutexes;
use crate::rollback;
use crate::schema::{self, Kind, Record};
use crate::witness::{Reading, Witness};
use crate::{Clock, OpenError, SqliteStore};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Open {
    /// The format it has to have, and is made with; `None` takes what is stored, or the default.
    pub format: Option<Format>,
    /// The generator ids it has to have, first and last, and is made with; `None` takes what is
    /// stored, or all of the layout up to [`DEFAULT_IDS`](snowlease_lease::range::DEFAULT_IDS).
    pub range: Option<(u64, u64)>,
    /// Where it has to belong as far as that is stated, and what it is made for.
    pub realm: Realm,
    /// The region it is made for.
    pub region: String,
    /// Make the store if there is none.
    pub create: bool,
    /// Take over a copied file, and quarantine it. Only if the original is gone for good.
    pub adopt: bool,
    /// How long a call may wait for its turn.
    pub attempt: Duration,
    /// Told to whoever finds the store in use; the number of the process is added.
    pub label: String,
    /// The host's wall clock.
    pub now: Clock,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The store was made just now.
    pub created: bool,
    /// What a person should know of; also in the store's status. If there are any, the store was
    /// quarantined: it grants again by itself once every window that may have been forgotten is
    /// over.
    pub alarms: Vec<String>,
}

impl Default for Open {
    /// Opens an existing store whatever it is for, by the host's clock.
    fn default() -> Open {
        Open {
            format: None,
            range: None,
            realm: Realm::default(),
            region: String::new(),
            create: false,
            adopt: false,
            attempt: Terms::DEFAULT.attempt(),
            label: String::new(),
            now: Clock::new(os::wall_ms),
        }
    }
}

impl SqliteStore {
    /// Opens the store in the file at `path`, and makes it if asked to.
    ///
    /// # Promise
    ///
    /// Either the store is open for this process alone and knows of every window that may be in
    /// use, or has a floor above them; or nothing that was stored is changed.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says for each what to do.
    ///
    /// # Cost
    ///
    /// Some syncs of the disk, and all of the file is read and checked: some 0.2 s with 65,536
    /// generator ids. With a million, some seconds, and as many more when it is made.
    ///
    /// # Example
    ///
    /// ```
    /// # use snowlease_store_sqlite::{Open, SqliteStore};
    /// use snowlease_lease::LeaseStore;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("snowlease.db");
    /// let (store, opened) = SqliteStore::open(&path, &Open { create: true, ..Open::default() })?;
    /// assert!(opened.created);
    /// assert_eq!(store.status()?.meta.range, (0, 1023));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path, open: &Open) -> Result<(SqliteStore, Opened), OpenError> {
        if let (Some(format), Some(range)) = (open.format, open.range) {
            check_range(format, range)?;
        }
        let path = resolve(path, open)?;
        let lock = Lock::take(&path, &open.label)?;
        mutexes::outlive_forks();
        let opening = Opening { path: &path, open };
        let created = opening.is_missing()?;
        let (connection, found) = if created { opening.create()? } else { opening.read()? };
        let mut engine = Engine {
            connection,
            record: found.record,
            witness: found.witness,
            path: path.clone(),
            inode: inode(&path).map_err(opening.system())?,
            log: inode(&beside(&path, "-wal"))
                .map_err(|error| opening.refused(format!("its log: {error}")))?,
            now: open.now.clone(),
            alarms: found.alarms,
            witness_alarm: None,
            latched: None,
            _lock: lock,
        };
        if let (Some(reading), false) = (found.reading, engine.alarms.is_empty()) {
            opening.quarantine(&mut engine, &reading)?;
        }
        engine.bear_witness();
        if let (true, Some(what)) = (found.unused, &engine.witness_alarm) {
            // A witness of no change says that nothing was ever granted, so it must not stay.
            return Err(opening.refused(what.clone()));
        }
        let opened = Opened { created, alarms: engine.alarms.clone() };
        Ok((SqliteStore::new(engine, open.attempt), opened))
    }
}

/// The size of a database of one page of the smallest size.
const SMALLEST: u64 = 512;

/// The one name of the file, so that two names of it have one lock.
fn resolve(path: &Path, open: &Open) -> Result<PathBuf, OpenError> {
    let given = || path.to_owned();
    if let Ok(real) = fs::canonicalize(path) {
        let metadata = fs::metadata(&real).map_err(|error| from_system(path, &error))?;
        return match metadata.len() {
            _ if !metadata.is_file() => Err(OpenError::NotAFile { path: given() }),
            // SQLite takes a file of one byte for an empty one, and would overwrite it.
            1..SMALLEST => Err(OpenError::NotADatabase { path: given() }),
            _ => Ok(real),
        };
    }
    // There is something that leads nowhere.
    if fs::symlink_metadata(path).is_ok() {
        return Err(OpenError::NotAFile { path: given() });
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(OpenError::NotAFile { path: given() });
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = fs::canonicalize(folder).map_err(|error| from_system(path, &error))?;
    let path = folder.join(name);
    if !open.create {
        no_log_at(&path)?;
        return Err(OpenError::Missing { path: given() });
    }
    Ok(path)
}

pub(crate) struct Opening<'a> {
    pub(crate) path: &'a Path,
    pub(crate) open: &'a Open,
}

/// A store that was read or made.
pub(crate) struct Found {
    pub(crate) record: Record,
    pub(crate) witness: Witness,
    /// What its witness said, if the record does not account for it yet.
    pub(crate) reading: Option<Reading>,
    /// It was made now, or just before a crash, and never handed out.
    pub(crate) unused: bool,
    pub(crate) alarms: Vec<String>,
}

impl Opening<'_> {
    pub(crate) fn sqlite(&self) -> impl Fn(rusqlite::Error) -> OpenError {
        |error| from_sqlite(self.path, &error)
    }

    pub(crate) fn system(&self) -> impl Fn(io::Error) -> OpenError {
        |error| from_system(self.path, &error)
    }

    fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: self.path.to_owned(), what: what.into() }
    }

    pub(crate) fn refused(&self, what: impl Into<String>) -> OpenError {
        OpenError::System { path: self.path.to_owned(), what: what.into() }
    }

    /// Whether a store is to be made: there is nothing of one, and that is wanted.
    fn is_missing(&self) -> Result<bool, OpenError> {
        let path = || self.path.to_owned();
        match fs::metadata(self.path) {
            // Each of its names would have a log of its own, for one file.
            Ok(metadata) if metadata.nlink() > 1 => return Err(OpenError::Linked { path: path() }),
            Ok(metadata) if metadata.len() > 0 => return Ok(false),
            // A store comes to its path whole: this one was cut, or never was ours. With a witness
            // beside it, that tells what it was.
            Ok(_) if !beside(self.path, "-witness").exists() => {
                no_log_at(self.path)?;
                return Err(OpenError::Empty { path: path() });
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(self.system()(error));
            }
            _ => no_log_at(self.path)?,
        }
        if self.open.create { Ok(true) } else { Err(OpenError::Missing { path: path() }) }
    }

    /// Nothing is written to a database before it is known to be ours.
    pub(crate) fn connect(&self) -> Result<Connection, OpenError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.path, flags).map_err(self.sqlite())?;
        connection.busy_timeout(self.open.attempt).map_err(self.sqlite())?;
        // First of all: in this mode WAL needs no shared memory, and nobody else comes in.
        self.set(&connection, "locking_mode", "exclusive")?;
        connection.pragma_update(None, "trusted_schema", false).map_err(self.sqlite())?;
        let path = self.path.to_owned();
        match schema::recognise(&connection).map_err(self.sqlite())? {
            Kind::Ours => {}
            Kind::Empty => return Err(OpenError::Empty { path }),
            Kind::Newer(version) => return Err(OpenError::Newer { path, version }),
            Kind::Foreign => return Err(OpenError::Foreign { path }),
        }
        if connection.is_readonly("main").map_err(self.sqlite())? {
            return Err(OpenError::ReadOnly { path });
        }
        self.set(&connection, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full").map_err(self.sqlite())?;
        Ok(connection)
    }

    /// Sets a pragma that answers with what is in force, and checks the answer.
    pub(crate) fn set(
        &self,
        connection: &Connection,
        name: &str,
        value: &str,
    ) -> Result<(), OpenError> {
        let set = connection
            .pragma_update_and_check(None, name, value, |row| row.get::<_, String>(0))
            .map_err(self.sqlite())?;
        if set == value {
            return Ok(());
        }
        Err(self.refused(format!("SQLite does not set {name} to {value} there but to {set}")))
    }

    pub(crate) fn floor(&self, record: &Record, reading: &Reading) -> Result<Tick, OpenError> {
        rollback::at_least(record, reading, (self.open.now)())
            .map_err(|clock| OpenError::Clock { path: self.path.to_owned(), clock })
    }

    /// All of it is read: what is damaged is refused now, and not found when it is needed.
    fn read(&self) -> Result<(Connection, Found), OpenError> {
        let connection = self.connect()?;
        let unreadable = |error| from_reading(self.path, &error);
        let damaged = |what| self.damaged(what);
        schema::check(&connection).map_err(unreadable)?.map_err(damaged)?;
        let record = schema::read(&connection).map_err(unreadable)?.map_err(damaged)?;
        schema::check_cells(&connection, &record).map_err(unreadable)?.map_err(damaged)?;
        let (path, stored) = (self.path.to_owned(), record.meta.format);
        if let Some(given) = self.open.format.filter(|given| *given != stored) {
            return Err(OpenError::Format { path, stored, given });
        }
        let stored = record.meta.range;
        if let Some(given) = self.open.range.filter(|given| *given != stored) {
            return Err(OpenError::Range { path, stored, given });
        }
        let meta = &record.meta;
        if let Some(mismatch) = meta.realm.mismatch(meta.previous_plan, &self.open.realm) {
            let path = self.path.to_owned();
            return Err(OpenError::Realm { path, mismatch });
        }
        let identity = Identity::of(self.path).map_err(self.system())?;
        let copied = identity.difference(&record.identity);
        if let Some(what) = copied.clone().filter(|_| !self.open.adopt) {
            return Err(OpenError::Copied { path, what });
        }
        let (witness, reading) = Witness::open(self.path).map_err(self.system())?;
        let adopted = copied.map(|what| format!("a copied store was adopted: {what}"));
        let alarms = adopted.into_iter().chain(rollback::judge(&record, &reading)).collect();
        let unused = matches!(&reading, Reading::Slot(slot) if slot.changes == 0);
        Ok((connection, Found { record, witness, reading: Some(reading), unused, alarms }))
    }

    /// Raises the floor above every window that may have been forgotten, and makes this file the
    /// one that was written last.
    fn quarantine(&self, engine: &mut Engine, reading: &Reading) -> Result<(), OpenError> {
        let at_least = self.floor(&engine.record, reading)?;
        let identity = Identity::of(self.path).map_err(self.system())?;
        let changed = engine.change(|cells, record| {
            let mut next = record.clone();
            next.meta.floor = rules::quarantine(&record.meta, at_least, cells.largest()?);
            next.changes = rollback::next_changes(record, reading);
            next.identity = identity;
            Ok::<_, Failure<snowlease_lease::Outage>>(Step::Note { record: next, answer: () })
        });
        changed.map_err(|outage| self.damaged(outage.detail))
    }
}
