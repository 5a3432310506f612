//! The identity of a file: on which machine it is, and which file it is there.
//!
//! A copy differs in one or the other. A file moved within its file system, or overwritten in
//! place, does not: the second is what the witness is for.

use std::fs;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::files::inode;

const MACHINE_ID: &str = "/etc/machine-id";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// A hash of the machine's id; empty where it has none, as in many containers.
    pub(crate) machine: String,
    /// The number of the file in its file system.
    pub(crate) inode: u64,
}

impl Identity {
    /// The identity of the file at `path`, here and now.
    pub(crate) fn of(path: &Path) -> io::Result<Identity> {
        let text = fs::read_to_string(MACHINE_ID).unwrap_or_default();
        Ok(Identity { machine: machine(&text), inode: inode(path)? })
    }

    /// How this file differs from the one that the store was made in; `None` if it does not.
    pub(crate) fn difference(&self, stored: &Identity) -> Option<String> {
        if self.machine != stored.machine {
            Some("it was made on another machine".to_owned())
        } else if self.inode != stored.inode {
            Some("it is another file than the one that was written last".to_owned())
        } else {
            None
        }
    }
}

fn machine(text: &str) -> String {
    // What a system image holds before its first start names no machine.
    let text = text.trim();
    if text.is_empty() || text == "uninitialized" {
        return String::new();
    }
    // The machine's id itself is not to be shown to others, says its manual.
    let digest = Sha256::new().chain_update("snowlease store").chain_update(text).finalize();
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_by_a_hash_or_not_at_all() {
        assert_eq!(machine("\n"), "");
        assert_eq!(machine("uninitialized\n"), "");
        assert_eq!(machine("abc\n"), machine("abc"));
        assert_ne!(machine("abc"), machine("abd"));
        assert_eq!(machine("abc").len(), 16);
    }

    #[test]
    fn another_machine_and_another_file_are_told_apart() {
        let here = Identity { machine: "a".to_owned(), inode: 1 };
        assert_eq!(here.difference(&here.clone()), None);
        let copied = Identity { inode: 2, ..here.clone() };
        assert!(here.difference(&copied).is_some_and(|what| what.contains("another file")));
        let moved = Identity { machine: String::new(), inode: 1 };
        assert!(here.difference(&moved).is_some_and(|what| what.contains("another machine")));
    }
}
