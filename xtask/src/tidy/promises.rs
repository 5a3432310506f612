//! Each promise is held by checks that exist.
//!
//! A section of `docs/guarantees.md` whose heading starts with the number of a promise names its
//! checks as `path/to/file.rs` or `path/to/file.rs::test_name`, in backticks from the root of the
//! tree or as a link. `docs/faults.md` names the checks of faults in the same way.

use super::links::{spans, targets};
use super::{Finding, Tree};

const FILE: &str = "docs/guarantees.md";
const FAULTS: &str = "docs/faults.md";
const PROMISES: [&str; 8] = ["G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8"];

/// Promises about parts that are yet to come may say so in this word instead.
const PLANNED: &str = "planned";
const MAY_BE_PLANNED: [&str; 2] = ["G6", "G8"];

/// A promise, the line of its heading, and the numbered lines below it.
struct Section<'a> {
    promise: &'static str,
    heading: usize,
    lines: Vec<(usize, &'a str)>,
}

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    guarantees(tree).into_iter().chain(faults(tree)).collect()
}

/// Each check that the page of faults names must be there, and there must be some.
fn faults(tree: &Tree) -> Vec<Finding> {
    let Some(Some(text)) = tree.get(FAULTS) else {
        return vec![Finding::new(
            FAULTS,
            0,
            "is missing: it says which faults seen elsewhere have a test here",
        )];
    };
    let named = text.lines().enumerate();
    let named: Vec<_> = named
        .flat_map(|(index, line)| checks_of(line).into_iter().map(move |c| (index, c)))
        .collect();
    if named.is_empty() {
        return vec![Finding::new(FAULTS, 0, "names no check")];
    }
    let wrong = |(index, check): (usize, String)| {
        problem(tree, &check).map(|what| Finding::new(FAULTS, index, what))
    };
    named.into_iter().filter_map(wrong).collect()
}

fn guarantees(tree: &Tree) -> Vec<Finding> {
    let Some(Some(text)) = tree.get(FILE) else {
        return vec![Finding::new(
            FILE,
            0,
            "is missing: it says what is promised and what holds it",
        )];
    };
    let sections = sections(text);
    let missing = PROMISES
        .iter()
        .filter(|promise| !sections.iter().any(|section| section.promise == **promise))
        .map(|promise| Finding::new(FILE, 0, format!("has no section for {promise}")));
    missing.chain(sections.iter().flat_map(|section| section_findings(tree, section))).collect()
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut level = None;
    for (index, line) in text.lines().enumerate() {
        let hashes = line.bytes().take_while(|byte| *byte == b'#').count();
        if hashes > 0 {
            if let Some(promise) = promise(line) {
                sections.push(Section { promise, heading: index, lines: Vec::new() });
                level = Some(hashes);
            } else if level.is_some_and(|level| hashes <= level) {
                level = None;
            }
        } else if let (Some(_), Some(section)) = (level, sections.last_mut()) {
            section.lines.push((index, line));
        }
    }
    sections
}

/// The promise that a heading starts with.
fn promise(heading: &str) -> Option<&'static str> {
    let title = heading.trim_start_matches(['#', ' ', '*', '`']);
    let word = title.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    PROMISES.into_iter().find(|promise| *promise == word)
}

fn section_findings(tree: &Tree, section: &Section<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut checks = 0;
    let mut planned = false;
    for &(index, line) in &section.lines {
        planned |= line.contains(PLANNED);
        for check in checks_of(line) {
            checks += 1;
            found.extend(problem(tree, &check).map(|what| Finding::new(FILE, index, what)));
        }
    }
    let may_wait = planned && MAY_BE_PLANNED.contains(&section.promise);
    if checks == 0 && !may_wait {
        let what = format!("{} names no check that holds it", section.promise);
        found.push(Finding::new(FILE, section.heading, what));
    }
    found
}

/// The checks a line names, as `path/to/file.rs::test_name` from the root of the tree.
fn checks_of(line: &str) -> Vec<String> {
    let links = targets(line);
    let linked = links.iter().filter_map(|target| {
        let target = target.split('#').next()?;
        target.strip_prefix("../")
    });
    let names_a_file =
        |check: &&str| check.contains('/') && check.split("::").next().is_some_and(is_rust);
    spans(line).into_iter().chain(linked).filter(names_a_file).map(str::to_owned).collect()
}

fn is_rust(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| ending == "rs")
}

/// What is wrong with a check, if anything.
fn problem(tree: &Tree, check: &str) -> Option<String> {
    let (path, test) = check.split_once("::").map_or((check, None), |(path, test)| {
        // The last name is the function's; the others are the modules around it.
        (path, test.rsplit("::").next())
    });
    let Some(text) = tree.get(path) else {
        return Some(format!("there is no {path}"));
    };
    let test = test?;
    let text = text.as_deref().unwrap_or_default();
    let defined = ["(", "<"].iter().any(|next| text.contains(&format!("fn {test}{next}")));
    (!defined).then(|| format!("{path} has no function {test}"))
}

#[cfg(test)]
mod tests {
    use super::super::tree_of;
    use super::*;

    fn judged(page: &str) -> Vec<String> {
        let tree = tree_of(&[
            (FILE, page),
            ("crates/core/src/a.rs", "fn holds() {}\nfn held_in<T>() {}\n"),
        ]);
        let found = guarantees(&tree).into_iter().map(|finding| finding.what);
        found.filter(|what| !what.starts_with("has no section")).collect()
    }

    #[test]
    fn a_promise_needs_a_check_that_exists() {
        assert_eq!(judged("## G1 Unique\n\nAlways.\n"), ["G1 names no check that holds it"]);
        assert!(judged("## G1 Unique\n\nSee `crates/core/src/a.rs::tests::holds`.\n").is_empty());
        assert!(judged("## G1 Unique\n\n[a](../crates/core/src/a.rs::held_in)\n").is_empty());
        assert!(judged("## G1 Unique\n\n[a](../crates/core/src/a.rs#L1)\n").is_empty());
        assert_eq!(
            judged("## G1 Unique\n\n`crates/core/src/a.rs::hold` and `crates/b.rs`\n"),
            ["crates/core/src/a.rs has no function hold", "there is no crates/b.rs"]
        );
    }

    #[test]
    fn a_check_counts_for_its_own_section_only() {
        let two = "## G1 Unique\n### How\n`crates/core/src/a.rs`\n## Words\n`x/y.rs`\n## G2\n";
        assert_eq!(judged(two), ["G2 names no check that holds it"]);
    }

    #[test]
    fn only_some_promises_may_be_planned() {
        assert!(judged("## G6 Tickets\n\nplanned\n").is_empty());
        assert_eq!(judged("## G1 Unique\n\nplanned\n").len(), 1);
    }

    #[test]
    fn all_promises_must_be_there() {
        assert_eq!(guarantees(&tree_of(&[(FILE, "")])).len(), PROMISES.len());
        assert_eq!(guarantees(&tree_of(&[])).len(), 1);
    }

    #[test]
    fn the_tests_of_faults_must_exist() {
        let judged = |page: &str| {
            let tree = tree_of(&[(FAULTS, page), ("crates/core/src/a.rs", "fn holds() {}\n")]);
            faults(&tree).into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        assert!(judged("| 1 | a | b | `crates/core/src/a.rs::holds` |\n").is_empty());
        let wrong = "# Faults\n\n| 1 | `crates/core/src/a.rs::hold`, `crates/b.rs::holds` |\n";
        assert_eq!(
            judged(wrong),
            ["crates/core/src/a.rs has no function hold", "there is no crates/b.rs"]
        );
        assert_eq!(judged("# Faults\n").len(), 1);
        // Both pages are looked at.
        assert_eq!(findings(&tree_of(&[])).len(), 2);
    }
}
