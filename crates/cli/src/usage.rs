//! A wrong call, told apart from a failed one: its exit code is 2.

use std::fmt;

/// What was typed or configured is wrong; nothing was done. The text says what to type instead.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The name that `given` was probably meant to be.
pub(crate) fn nearest<'a>(
    given: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A text this long is no misspelling, and comparing takes its length squared.
    if given.len() > 64 {
        return None;
    }
    names
        .into_iter()
        .map(|name| (edits(given, name), name))
        .filter(|(edits, name)| edits * 3 <= name.len().max(4))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// Letters to insert, remove or replace to turn one word into the other.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_another_word_finds_none() {
        let names = ["listen", "lease", "tick", "max_ids_per_request"];
        assert_eq!(nearest("lisen", names), Some("listen"));
        assert_eq!(nearest("max-ids-per-request", names), Some("max_ids_per_request"));
        assert_eq!(nearest("tik", names), Some("tick"));
        assert_eq!(nearest("generators", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"x".repeat(1 << 20), names), None);
    }
}
