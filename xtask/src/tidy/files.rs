//! What every file must be: short, finished, free of this or that machine, and opened by its idea.

use super::{Finding, Tree, texts};
use crate::generated::GENERATED;

const MOST_LINES: usize = 500;
const MOST_COLUMNS: usize = 100;

/// Words that mean unfinished work. (Put together here so that this file does not find itself.)
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("db", "g!")];

/// Folders that exist on one machine only.
const MACHINE: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Hosts of package registries: a tool is told the name of a package, and knows the host itself.
const HOSTS: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("deb.debian", ".org"),
];

/// Files whose text is not ours to shape: a lock file names its registry, a licence is quoted, a
/// snapshot holds what a program printed.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE-APACHE", ".snap"];

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    texts(tree, &[""])
        .filter(|(path, _)| !NOT_OURS.iter().any(|ending| path.ends_with(ending)))
        .filter(|(path, _)| !GENERATED.iter().any(|entry| entry.file == *path))
        .flat_map(|(path, text)| {
            let mut found = shape(path, text);
            let lines = text.lines().enumerate();
            found.extend(lines.flat_map(|(index, line)| {
                words(line).into_iter().map(move |what| Finding::new(path, index, what))
            }));
            if path.ends_with(".rs") {
                found.extend(rust(path, text));
            }
            if path.ends_with("Cargo.toml") {
                found.extend(manifest(path, text));
            }
            found
        })
        .collect()
}

/// White space, as every editor can be told to leave it.
fn shape(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, line) in text.split('\n').enumerate() {
        if line.ends_with([' ', '\t', '\r']) {
            found.push(Finding::new(path, index, "white space at the end of the line"));
        }
        if line.starts_with('\t') && !path.ends_with("Makefile") {
            found.push(Finding::new(path, index, "indent with spaces"));
        }
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        found.push(Finding::new(path, text.lines().count(), "end the file in one line break"));
    }
    found
}

/// Words that have no place in any file.
fn words(line: &str) -> Vec<String> {
    let unfinished = UNFINISHED
        .iter()
        .filter(|word| has_word(line, word))
        .map(|word| format!("`{word}`: finish it, or say what holds and why"));
    let machine = MACHINE.iter().filter(|path| has_start(line, path)).map(|path| {
        format!("`{path}` exists on one machine only: use a path from the root of the tree")
    });
    let hosts = HOSTS
        .iter()
        .filter(|host| line.contains(*host))
        .map(|host| format!("`{host}`: name the package, not the host it comes from"));
    unfinished.chain(machine).chain(hosts).collect()
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !(line[at + word.len()..].starts_with(part)))
}

/// Whether an absolute path begins with `start` somewhere; `tests/home/` is none.
fn has_start(line: &str, start: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || "_.-~}".contains(c);
    line.match_indices(start).any(|(at, _)| !line[..at].ends_with(part))
}

fn rust(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES {
        let what = format!("{lines} lines, at most {MOST_LINES}: split it by its nouns");
        found.push(Finding::new(path, MOST_LINES, what));
    }
    for (index, line) in text.lines().enumerate() {
        // rustfmt breaks code; comments, strings and tables are left to their writer.
        if line.chars().count() > MOST_COLUMNS && !line.contains("://") {
            found.push(Finding::new(path, index, format!("more than {MOST_COLUMNS} columns")));
        }
    }
    let in_a_room = path.starts_with("crates/") && path.split('/').nth(2) == Some("src");
    if in_a_room && !text.starts_with("//!") {
        found.push(Finding::new(path, 0, "open the file with its idea, as a `//!` comment"));
    }
    found
}

/// A package that is a workspace of its own has no table to take.
fn manifest(path: &str, text: &str) -> Option<Finding> {
    let member = text.contains("[package]") && !text.contains("[workspace]");
    let taken = text.contains("[lints]\nworkspace = true");
    (member && !taken)
        .then(|| Finding::new(path, 0, "take the lint table: `[lints]` with `workspace = true`"))
}

#[cfg(test)]
mod tests {
    use super::super::tree_of;
    use super::*;

    fn judged(path: &str, text: &str) -> Vec<String> {
        findings(&tree_of(&[(path, text)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_tidy_file_has_no_findings() {
        let found = judged("crates/core/src/a.rs", "//! An idea.\n\nfn a() {}\n");
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn white_space_is_judged_by_line() {
        let found = findings(&tree_of(&[("a.md", "a\n\tb\nc \n\n")]));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3, 5]);
        assert_eq!(judged("a.md", "no line break").len(), 1);
        assert!(judged("a.md", "").is_empty());
    }

    #[test]
    fn unfinished_work_is_found_by_whole_words() {
        for word in UNFINISHED {
            assert_eq!(judged("a.rs", &format!("// {word} later\n")).len(), 1, "{word}");
        }
        let inside = format!("a{}b\n", UNFINISHED[2]);
        assert!(judged("a.rs", &inside).is_empty());
    }

    #[test]
    fn paths_and_hosts_of_one_machine_are_found() {
        for start in MACHINE {
            assert_eq!(judged("a.md", &format!("see {start}x\n")).len(), 1, "{start}");
            assert!(judged("a.md", &format!("see tests{start}x\n")).is_empty());
        }
        for host in HOSTS {
            let line = format!("get https://{host}/x\n");
            assert_eq!(judged("a.toml", &line).len(), 1, "{host}");
            assert!(judged("Cargo.lock", &line).is_empty());
        }
    }

    #[test]
    fn rust_files_are_short_and_narrow() {
        assert_eq!(judged("a.rs", &"//\n".repeat(501)).len(), 1);
        assert!(judged("a.rs", &"//\n".repeat(500)).is_empty());
        assert_eq!(judged("a.rs", &format!("// {}\n", "é".repeat(98))).len(), 1);
        assert!(judged("a.rs", &format!("// {}\n", "é".repeat(97))).is_empty());
        assert!(judged("a.rs", &format!("// https://{}\n", "e".repeat(97))).is_empty());
    }

    #[test]
    fn files_of_a_room_open_with_their_idea() {
        assert_eq!(judged("crates/core/src/a.rs", "fn a() {}\n").len(), 1);
        assert!(judged("crates/core/tests/a.rs", "fn a() {}\n").is_empty());
    }

    #[test]
    fn packages_take_the_lint_table() {
        assert_eq!(judged("a/Cargo.toml", "[package]\n").len(), 1);
        assert!(judged("a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n").is_empty());
    }
}
