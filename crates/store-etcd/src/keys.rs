//! What is stored, and under which keys.
//!
//! ```text
//! PREFIX/meta             what the store is for, as JSON
//! PREFIX/pulse            when a lease was last granted or renewed, as JSON
//! PREFIX/cells/ID         the cell of a generator id, with `seq` 0: its number of changes is
//!                         etcd's own version of the key, less the one of making it
//! PREFIX/requests/ID      the hash of the token that the last grant of it was asked with
//! PREFIX/moved/HASH       the ID of a grant that was not made where its request key leads
//! ```
//!
//! A generator id is written with 20 digits, so that keys sort as numbers do.

use snowlease_lease::TokenHash;

/// The keys of one store.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

/// What a key under the prefix is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Meta,
    Pulse,
    Cell(u64),
    Request(u64),
    Moved,
}

impl Keys {
    pub(crate) fn under(prefix: &str) -> Keys {
        Keys { prefix: prefix.to_owned() }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn meta(&self) -> Vec<u8> {
        self.key("meta")
    }

    pub(crate) fn pulse(&self) -> Vec<u8> {
        self.key("pulse")
    }

    pub(crate) fn cell(&self, generator_id: u64) -> Vec<u8> {
        self.key(&format!("cells/{generator_id:020}"))
    }

    pub(crate) fn request(&self, generator_id: u64) -> Vec<u8> {
        self.key(&format!("requests/{generator_id:020}"))
    }

    pub(crate) fn moved(&self, token: &TokenHash) -> Vec<u8> {
        self.key(&format!("moved/{}", token.to_text()))
    }

    /// The first and the first key after, of all cells.
    pub(crate) fn cells(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key("cells/"), self.key("cells0"))
    }

    pub(crate) fn requests(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key("requests/"), self.key("requests0"))
    }

    pub(crate) fn all_moved(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key("moved/"), self.key("moved0"))
    }

    /// Everything under the prefix.
    pub(crate) fn all(&self) -> (Vec<u8>, Vec<u8>) {
        (self.key(""), format!("{}0", self.prefix).into_bytes())
    }

    /// What a key is for; `None` if it is not of a store.
    pub(crate) fn family(&self, key: &[u8]) -> Option<Family> {
        let key = std::str::from_utf8(key).ok()?;
        let name = key.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let number = |text: &str| {
            let fits = text.len() == 20 && text.bytes().all(|digit| digit.is_ascii_digit());
            if fits { text.parse().ok() } else { None }
        };
        match name.split_once('/') {
            None if name == "meta" => Some(Family::Meta),
            None if name == "pulse" => Some(Family::Pulse),
            Some(("cells", id)) => number(id).map(Family::Cell),
            Some(("requests", id)) => number(id).map(Family::Request),
            Some(("moved", hash)) => TokenHash::from_text(hash).map(|_| Family::Moved),
            _ => None,
        }
    }

    fn key(&self, name: &str) -> Vec<u8> {
        format!("{}/{name}", self.prefix).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_tells_what_it_is_for_and_lies_in_its_range() {
        let keys = Keys::under("eu/ids");
        let hash = snowlease_lease::Token::random().hash();
        for (key, family, (first, end)) in [
            (keys.meta(), Family::Meta, keys.all()),
            (keys.pulse(), Family::Pulse, keys.all()),
            (keys.cell(0), Family::Cell(0), keys.cells()),
            (keys.cell(u64::MAX), Family::Cell(u64::MAX), keys.cells()),
            (keys.request(7), Family::Request(7), keys.requests()),
            (keys.moved(&hash), Family::Moved, keys.all_moved()),
        ] {
            assert_eq!(keys.family(&key), Some(family));
            assert!(first <= key && key < end);
            let (first, end) = keys.all();
            assert!(first <= key && key < end);
        }
        assert!(keys.cell(9) < keys.cell(10));
    }

    #[test]
    fn other_keys_are_not_ours() {
        let keys = Keys::under("a");
        for key in [
            "a",
            "a/",
            "a/meta/",
            "a/cells/7",
            "a/cells/-0000000000000000007",
            "ab/meta",
            "a/requests/",
            "a/moved/00",
            "a/x",
            "a/cells/99999999999999999999",
        ] {
            assert_eq!(keys.family(key.as_bytes()), None, "{key}");
        }
    }
}
