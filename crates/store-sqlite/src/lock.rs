//! The lock file: one process has a store open, and says who it is.
//!
//! A file of its own, because closing any handle on the database would drop SQLite's locks on it.
//! It is never deleted. Only the process that took the lock gives it up: a forked child that drops
//! its copy changes nothing for its parent, and a child that is being started does not keep it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::OpenError;
use crate::error::from_system;
use crate::files::beside;

/// What keeps others out, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    process: u32,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: between its fork and its exec, a child that another thread starts
        // has the file open too, and with it the lock.
        if self.process == std::process::id() {
            // Nothing is to be done about an error: the system unlocks it when the process ends.
            drop(self.file.unlock());
        }
    }
}

impl Lock {
    /// Takes the lock of the store at `path`, and leaves our process number and label in it.
    pub(crate) fn take(path: &Path, label: &str) -> Result<Lock, OpenError> {
        let beside = beside(path, "-lock");
        let system = |error| from_system(path, &error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&beside)
            .map_err(system)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: path.to_owned(), holder: holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(system(error)),
        }
        let lock = Lock { file, process: std::process::id() };
        lock.sign(label).map_err(system)?;
        Ok(lock)
    }

    fn sign(&self, label: &str) -> io::Result<()> {
        let text = format!("process {} ({label})\n", self.process);
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    // Who holds it is a courtesy; that it is held is known already.
    let _ = file.take(512).read_to_string(&mut text);
    let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    if text.is_empty() { "another process".to_owned() } else { text }
}
