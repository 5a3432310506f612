//! The witness: a file beside the store that remembers how far the store had come.
//!
//! ```text
//! slot 0: magic | store id | changes | largest until | format | checksum
//! slot 1: the same, one change older or newer
//! ```
//!
//! It is written and synced after each commit, so that it is behind the store or level with it,
//! never ahead. Found ahead, it says that the store was put back to an older state. A slot that a
//! crash tore has a wrong checksum, and the other one counts: two slots are written in turn. A new
//! one is put in place whole, so that a file without a whole slot is a damaged one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use snowlease_core::Tick;

use crate::files::{beside, inode, put_in_place};

const MAGIC: &[u8; 8] = b"snowwit1";
const FORMAT_BYTES: usize = 96;
const BODY: usize = 8 + 16 + 8 + 8 + FORMAT_BYTES;
const SLOT: usize = BODY + 32;

/// What the store had come to at a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Which store.
    pub(crate) store_id: [u8; 16],
    /// Its change counter; 0 while it is being made.
    pub(crate) changes: u64,
    /// The largest `until` it had ever stored.
    pub(crate) until: Tick,
    /// The text of its format.
    pub(crate) format: String,
}

/// What was found where the witness should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// No file.
    Missing,
    /// A file without a whole slot.
    Unreadable,
    /// The newer of the whole slots.
    Slot(Slot),
}

#[derive(Debug)]
pub(crate) struct Witness {
    path: PathBuf,
    /// `None` until it is made.
    file: Option<File>,
    /// The number of the file.
    inode: u64,
}

impl Witness {
    /// Reads the witness of the store at `path`, and opens it for writing. If there is none, the
    /// first write makes it.
    pub(crate) fn open(path: &Path) -> io::Result<(Witness, Reading)> {
        let path = beside(path, "-witness");
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((Witness { path, file: None, inode: 0 }, Reading::Missing));
            }
            file => file?,
        };
        let reading = read(&file)?;
        let metadata = file.metadata()?;
        if metadata.len() < length() {
            // So that later writes change no metadata, which syncing the data alone would leave
            // out.
            file.set_len(length())?;
            file.sync_all()?;
        }
        Ok((Witness { path, file: Some(file), inode: metadata.ino() }, reading))
    }

    /// Writes the slot whose turn it is, and syncs it.
    pub(crate) fn write(&mut self, slot: &Slot) -> io::Result<()> {
        match &self.file {
            Some(file) => {
                write(file, slot)?;
                file.sync_data()
            }
            None => self.make(slot),
        }
    }

    /// Puts a new file with this slot in the place of whatever is there.
    pub(crate) fn make(&mut self, slot: &Slot) -> io::Result<()> {
        let new = beside(&self.path, "-new");
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&new)?;
        file.set_len(length())?;
        write(&file, slot)?;
        file.sync_all()?;
        put_in_place(&new, &self.path)?;
        self.inode = file.metadata()?.ino();
        self.file = Some(file);
        Ok(())
    }

    /// Whether the file that is written is no longer the one that would be read.
    pub(crate) fn is_lost(&self) -> bool {
        self.file.is_some() && inode(&self.path).ok() != Some(self.inode)
    }

    /// Has the next write make it anew.
    pub(crate) fn forget(&mut self) {
        self.file = None;
    }
}

fn write(file: &File, slot: &Slot) -> io::Result<()> {
    let offset = if slot.changes.is_multiple_of(2) { 0 } else { length() / 2 };
    file.write_all_at(&encode(slot)?, offset)
}

fn length() -> u64 {
    2 * SLOT as u64
}

fn read(file: &File) -> io::Result<Reading> {
    let mut found: Option<Slot> = None;
    for offset in [0, length() / 2] {
        let mut bytes = [0; SLOT];
        match file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(error),
        }
        let slot = decode(&bytes);
        if slot.as_ref().map(|slot| slot.changes) > found.as_ref().map(|slot| slot.changes) {
            found = slot;
        }
    }
    Ok(found.map_or(Reading::Unreadable, Reading::Slot))
}

fn encode(slot: &Slot) -> io::Result<Vec<u8>> {
    let format = slot.format.as_bytes();
    if format.len() > FORMAT_BYTES {
        return Err(io::Error::other("the text of the format is too long for the witness"));
    }
    let mut bytes = Vec::with_capacity(SLOT);
    bytes.extend(MAGIC);
    bytes.extend(slot.store_id);
    bytes.extend(slot.changes.to_be_bytes());
    bytes.extend(slot.until.0.to_be_bytes());
    bytes.extend(format);
    bytes.resize(BODY, 0);
    let checksum = Sha256::digest(&bytes);
    bytes.extend(checksum);
    Ok(bytes)
}

fn decode(bytes: &[u8; SLOT]) -> Option<Slot> {
    let (body, checksum) = bytes.split_at(BODY);
    if Sha256::digest(body).as_slice() != checksum {
        return None;
    }
    let (magic, rest) = body.split_first_chunk::<8>()?;
    let (store_id, rest) = rest.split_first_chunk::<16>()?;
    let (changes, rest) = rest.split_first_chunk::<8>()?;
    let (until, format) = rest.split_first_chunk::<8>()?;
    let format = std::str::from_utf8(format).ok()?.trim_end_matches('\0').to_owned();
    (magic == MAGIC).then(|| Slot {
        store_id: *store_id,
        changes: u64::from_be_bytes(*changes),
        until: Tick(u64::from_be_bytes(*until)),
        format,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn slot(changes: u64) -> Slot {
        let format = snowlease_core::Format::DEFAULT.to_string();
        Slot { store_id: [7; 16], changes, until: Tick(changes * 10), format }
    }

    #[test]
    fn a_torn_slot_leaves_the_other_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let reading = || Witness::open(&path).unwrap().1;
        assert_eq!(reading(), Reading::Missing);
        assert_eq!(reading(), Reading::Missing);
        let (mut witness, _) = Witness::open(&path).unwrap();
        for changes in 0..=5 {
            witness.write(&slot(changes)).unwrap();
            assert_eq!(reading(), Reading::Slot(slot(changes)));
        }
        let beside = folder.path().join("a.db-witness");
        let whole = fs::read(&beside).unwrap();
        assert_eq!(whole.len(), 2 * SLOT);
        for torn in 0..SLOT {
            let mut bytes = whole.clone();
            // Slot 1 has change 5, slot 0 has change 4.
            bytes[SLOT + torn] ^= 1;
            fs::write(&beside, &bytes).unwrap();
            assert_eq!(reading(), Reading::Slot(slot(4)), "byte {torn}");
            bytes[torn] ^= 1;
            fs::write(&beside, &bytes).unwrap();
            assert_eq!(reading(), Reading::Unreadable);
        }
        fs::write(&beside, &whole[..SLOT + 3]).unwrap();
        assert_eq!(reading(), Reading::Slot(slot(4)));
    }

    #[test]
    fn the_longest_format_fits() {
        let layout = "t21g21s21".parse().unwrap();
        let format = snowlease_core::Format::new(layout, 86_400_000, -3_155_760_000_000_000);
        assert!(format.unwrap().to_string().len() <= FORMAT_BYTES);
    }
}
