//! Why a store could not be opened, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use snowlease_core::{Format, TickError};
use snowlease_lease::{RangeError, RealmMismatch};

/// Why a store could not be opened. Nothing was granted, and nothing that was stored is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder of the file is missing. Make it, or give another path.
    #[error("the folder of {} does not exist: make it or give another path", path.display())]
    NoFolder {
        /// The path given.
        path: PathBuf,
    },
    /// The path is a folder, a device or a broken link. Give the path of a file.
    #[error("{} is no regular file: give the path of a file", path.display())]
    NotAFile {
        /// The path given.
        path: PathBuf,
    },
    /// There is no store, and none was to be made. Check the path, or create one.
    #[error("there is no store at {}: check the path, or create it with `snowlease store init`",
        path.display())]
    Missing {
        /// The path given.
        path: PathBuf,
    },
    /// Another process has the store open. Stop it, or use its lease service.
    #[error("{} is in use by {holder}: stop it, or lease from it over HTTP if it is a service",
        path.display())]
    Locked {
        /// The path given.
        path: PathBuf,
        /// Who holds it, as far as is known.
        holder: String,
    },
    /// The file or its folder cannot be written. Give this user the right to write both.
    #[error("{} cannot be written: let this user write the file and its folder", path.display())]
    ReadOnly {
        /// The path given.
        path: PathBuf,
    },
    /// The disk is full. Make room and open it again; nothing was lost.
    #[error("the disk of {} is full: make room and try again; nothing was lost", path.display())]
    DiskFull {
        /// The path given.
        path: PathBuf,
    },
    /// The file is no SQLite database. Give another path; it was not touched.
    #[error("{} is no database: give another path", path.display())]
    NotADatabase {
        /// The path given.
        path: PathBuf,
    },
    /// The file is the database of another program. Give another path; it was not touched.
    #[error("{} is a database of another program: give another path", path.display())]
    Foreign {
        /// The path given.
        path: PathBuf,
    },
    /// The file is a database without a table: a store without its log, or the start of a database
    /// of another program. Put its log back beside it, or remove it.
    #[error("{} is an empty database: if a store was there, put its -wal file back beside it, or \
        restore a backup; if none was, or it is gone for good, move the file away, make a store \
        with `snowlease store init`, and if one was there, before anything uses it: \
        `snowlease store quarantine --store sqlite:{}`", path.display(), path.display())]
    Empty {
        /// The path given.
        path: PathBuf,
    },
    /// The file of a store is gone, and its log is not. Put the file back beside it, or move the
    /// log away and quarantine the store that is made in its place.
    #[error("there is no store at {}, but the log of one, {}: put the file back beside it; if it \
        is gone for good, move the log away, make a store with `snowlease store init`, and before \
        anything uses it: `snowlease store quarantine --store sqlite:{}`",
        path.display(), log.display(), path.display())]
    OnlyLog {
        /// The path given.
        path: PathBuf,
        /// The log.
        log: PathBuf,
    },
    /// The file has a second name. Remove one: each would have its own log and witness.
    #[error("{} has a second name (a hard link), and could be opened under both: remove the other \
        one", path.display())]
    Linked {
        /// The path given.
        path: PathBuf,
    },
    /// A newer version made the store. Update this program.
    #[error("{} was made by a newer version (schema {version}): update this program",
        path.display())]
    Newer {
        /// The path given.
        path: PathBuf,
        /// The version of its schema.
        version: i64,
    },
    /// The file is damaged. Restore a backup: it is quarantined when it is opened.
    #[error("{} is damaged ({what}): restore a backup, which is then quarantined by itself",
        path.display())]
    Damaged {
        /// The path given.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The store is for another format. Use the stored one: ids of both would collide.
    #[error("{} is for the format {stored}, not {given}: ids of both would collide; use {stored}, \
        or make another store for another id space", path.display())]
    Format {
        /// The path given.
        path: PathBuf,
        /// The format of the store.
        stored: Format,
        /// The format asked for.
        given: Format,
    },
    /// The store is for another range. Use the stored one: a range never changes, since a part of
    /// it may have been given to another store.
    #[error("{} is for the generator ids {}-{}, not {}-{}: use the stored range; to use more ids, \
        make another store for them", path.display(), stored.0, stored.1, given.0, given.1)]
    Range {
        /// The path given.
        path: PathBuf,
        /// The range of the store.
        stored: (u64, u64),
        /// The range asked for.
        given: (u64, u64),
    },
    /// It belongs to another environment or plan. Use the store of that one.
    #[error("{}: {mismatch}", path.display())]
    Realm {
        /// The path given.
        path: PathBuf,
        /// What differs.
        mismatch: RealmMismatch,
    },
    /// The range asked for is none.
    #[error(transparent)]
    BadRange(#[from] RangeError),
    /// The file is a copy: the original may be in use. Quarantine it, or remove it.
    #[error("{} is a copy ({what}), and the original may still grant leases: if that one is gone \
        for good, take this one over with `snowlease store quarantine --store sqlite:{}`; if not, \
        remove the copy", path.display(), path.display())]
    Copied {
        /// The path given.
        path: PathBuf,
        /// How that was seen.
        what: String,
    },
    /// The store is gone, and the one to be made instead has another format than its witness file
    /// says. Put the store back, or make it with that format.
    #[error("the store at {} is gone, and its witness file says that it had the format \
        {witnessed}, not {given}: put it back, or make it with that format", path.display())]
    Lost {
        /// The path given.
        path: PathBuf,
        /// The format of the store that is gone.
        witnessed: String,
        /// The format asked for.
        given: String,
    },
    /// The store has to be quarantined, and for how long depends on a clock that cannot be right.
    #[error("{} has to be quarantined, but the clock is of no use: {clock}", path.display())]
    Clock {
        /// The path given.
        path: PathBuf,
        /// What is wrong with the clock.
        clock: TickError,
    },
    /// The system refused something else.
    #[error("{} cannot be opened: {what}", path.display())]
    System {
        /// The path given.
        path: PathBuf,
        /// What was refused.
        what: String,
    },
}

/// What SQLite says, as the error of opening this path.
pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    let what = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            // In a child SQLite goes on to count what its parent had open, and has closed since.
            let holder = "another program (or was, by the process that this one was forked from: \
                          then open it in a process that is started anew)";
            OpenError::Locked { path, holder: holder.to_owned() }
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly { path },
        Some(ErrorCode::DiskFull) => OpenError::DiskFull { path },
        Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { path },
        Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, what },
        _ => OpenError::System { path, what },
    }
}

/// What SQLite says of a store that is ours, when it reads all of it.
pub(crate) fn from_reading(path: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        // Values that are none, and tables that are missing.
        None | Some(ErrorCode::Unknown) => {
            OpenError::Damaged { path: path.to_owned(), what: error.to_string() }
        }
        Some(_) => from_sqlite(path, error),
    }
}

/// What the system says, as the error of opening this path.
pub(crate) fn from_system(path: &Path, error: &io::Error) -> OpenError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenError::NoFolder { path },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { path }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::DiskFull { path },
        _ => OpenError::System { path, what: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn each_refusal_of_the_system_has_its_own_remedy() {
        let told = |code| {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            from_sqlite(Path::new("a.db"), &error).to_string()
        };
        for (code, remedy) in [
            (ffi::SQLITE_BUSY, "stop it"),
            (ffi::SQLITE_READONLY, "let this user write"),
            (ffi::SQLITE_READONLY_DIRECTORY, "let this user write"),
            (ffi::SQLITE_FULL, "make room"),
            (ffi::SQLITE_NOTADB, "give another path"),
            (ffi::SQLITE_CORRUPT, "restore a backup"),
            (ffi::SQLITE_IOERR_READ, "cannot be opened"),
        ] {
            assert!(told(code).contains(remedy), "{code}: {}", told(code));
        }
        let told = |kind: io::ErrorKind| from_system(Path::new("a.db"), &kind.into()).to_string();
        assert!(told(io::ErrorKind::NotFound).contains("make it"));
        assert!(told(io::ErrorKind::ReadOnlyFilesystem).contains("let this user write"));
        assert!(told(io::ErrorKind::StorageFull).contains("make room"));
    }
}
