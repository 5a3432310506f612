//! Making a store: a file at its path is a whole store, at any moment.
//!
//! In this order, each step durable before the next one:
//!
//! 1. a witness of no change, put in place whole;
//! 2. the store in a file of another name, written, closed and synced, with no log beside it;
//! 3. that file gets its final name, and the folder is synced;
//! 4. the witness of the first change. Only then is the store handed out.
//!
//! So a creation that breaks off leaves no store, or one that is whole; and it leaves no witness,
//! or one of no change, which says that nothing was ever granted. Either way the next one goes on
//! without a quarantine. What step 2 leaves has a name of its own and is thrown away. Everything
//! else that lies around without a store is what remains of one that was in use: its log is
//! refused, its witness quarantines what is made in its place.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use snowlease_core::Tick;
use snowlease_lease::Meta;
use snowlease_lease::range::{check_range, default_range};

use crate::engine::slot;
use crate::files::{beside, put_in_place, remove};
use crate::identity::Identity;
use crate::open::{Found, Opening};
use crate::schema::{self, Record};
use crate::witness::{Reading, Slot, Witness};
use crate::{OpenError, rollback};

/// What SQLite keeps beside a database, and needs to read it.
const LOGS: [&str; 2] = ["-wal", "-journal"];

/// A log without its database is the rest of a store; SQLite would also apply it to a new one.
pub(crate) fn no_log_at(path: &Path) -> Result<(), OpenError> {
    match LOGS.map(|ending| beside(path, ending)).into_iter().find(|log| log.exists()) {
        Some(log) => Err(OpenError::OnlyLog { path: path.to_owned(), log }),
        None => Ok(()),
    }
}

impl Opening<'_> {
    /// Makes the store, and opens it.
    pub(crate) fn create(&self) -> Result<(Connection, Found), OpenError> {
        let (mut witness, reading) = Witness::open(self.path).map_err(self.system())?;
        let mut record = self.record()?;
        let mut alarms = Vec::new();
        let fresh = match &reading {
            Reading::Missing => true,
            Reading::Slot(slot) => slot.changes == 0,
            Reading::Unreadable => false,
        };
        if fresh {
            witness.make(&Slot { changes: 0, ..slot(&record) }).map_err(self.system())?;
        } else {
            self.succeed(&mut record, &reading)?;
            alarms.push("the store was gone, its witness file was not: made anew".to_owned());
        }
        let new = beside(self.path, "-new");
        let built = self.build(&new, &mut record);
        if built.is_err() {
            // It may have filled the disk. An error is one more leftover, and that does no harm.
            drop(fs::remove_file(&new));
        }
        built?;
        put_in_place(&new, self.path).map_err(self.system())?;
        let found = Found { record, witness, reading: None, unused: true, alarms };
        Ok((self.connect()?, found))
    }

    /// What a store that is made now knows of itself, apart from its file.
    fn record(&self) -> Result<Record, OpenError> {
        let format = self.open.format.unwrap_or_default();
        let range = self.open.range.unwrap_or_else(|| default_range(format));
        check_range(format, range)?;
        let mut store_id = [0; 16];
        getrandom::fill(&mut store_id).map_err(|error| self.refused(error.to_string()))?;
        let realm = self.open.realm.clone();
        let meta = Meta { region: self.open.region.clone(), realm, ..Meta::new(format, range) };
        let identity = Identity { machine: String::new(), inode: 0 };
        Ok(Record { meta, store_id, changes: 1, until: Tick(0), pulse_ms: 0, identity })
    }

    /// Makes a new store take the place of one that is gone: from above all that the witness saw.
    fn succeed(&self, record: &mut Record, reading: &Reading) -> Result<(), OpenError> {
        if let Reading::Slot(slot) = reading {
            let given = record.meta.format.to_string();
            if slot.format != given {
                let (path, witnessed) = (self.path.to_owned(), slot.format.clone());
                return Err(OpenError::Lost { path, witnessed, given });
            }
            record.until = slot.until;
        }
        record.meta.floor = self.floor(record, reading)?;
        record.changes = rollback::next_changes(record, reading);
        Ok(())
    }

    /// Writes a whole store to a file of its own, synced and without a log.
    fn build(&self, new: &Path, record: &mut Record) -> Result<(), OpenError> {
        remove(new).map_err(self.system())?;
        for ending in LOGS {
            remove(&beside(new, ending)).map_err(self.system())?;
        }
        let mut options = OpenOptions::new();
        // As SQLite makes its files.
        options.write(true).create_new(true).mode(0o644);
        let file = options.open(new).map_err(self.system())?;
        // The number of the file is that of the store: it keeps it with its final name.
        record.identity = Identity::of(new).map_err(self.system())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(new, flags).map_err(self.sqlite())?;
        self.set(&connection, "locking_mode", "exclusive")?;
        // Nobody needs this file before it is whole, so nothing is logged, and it is synced once.
        self.set(&connection, "journal_mode", "off")?;
        connection.pragma_update(None, "synchronous", "off").map_err(self.sqlite())?;
        // KiB: the indexes of a usual range are sorted in memory.
        connection.pragma_update(None, "cache_size", -65_536).map_err(self.sqlite())?;
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(self.sqlite())?;
        schema::create(&transaction, record).map_err(self.sqlite())?;
        transaction.commit().map_err(self.sqlite())?;
        self.set(&connection, "journal_mode", "wal")?;
        connection.close().map_err(|(_, error)| self.sqlite()(error))?;
        if LOGS.iter().any(|ending| beside(new, ending).exists()) {
            return Err(self.refused("SQLite left a log of the new store"));
        }
        file.sync_all().map_err(self.system())
    }
}
