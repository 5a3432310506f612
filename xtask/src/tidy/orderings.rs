//! Each atomic access of the core says why its ordering is enough, where it is made.
//!
//! The rule: outside tests, a line that names an atomic `Ordering` has a comment with `ORDERING:`
//! on it or at most a few lines above, in the same function. Variants are never imported, so each
//! use is seen.

use super::{Finding, Tree, texts};

const WHERE: &str = "crates/core/src/";
const NOTE: &str = "ORDERING:";
const LINES_ABOVE: usize = 12;

/// In `std::cmp` the same name has other variants, which need no note.
const VARIANTS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    texts(tree, &[".rs"])
        .filter(|(path, _)| path.starts_with(WHERE) && !is_test(path))
        .flat_map(|(path, text)| file_findings(path, text))
        .collect()
}

/// Models and tests choose orderings to try them, not to rely on them.
fn is_test(path: &str) -> bool {
    ["loom", "models", "/tests.rs", "/tests/"].iter().any(|part| path.contains(part))
}

fn file_findings(path: &str, text: &str) -> Vec<Finding> {
    let lines = outside_tests(text);
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if code.trim_start().starts_with("use ") && code.contains("Ordering::") {
            let what = "import `Ordering` itself and write `Ordering::…` at each access";
            found.push(Finding::new(path, index, what));
        } else if names_an_ordering(code) && !has_note(&lines[..=index]) {
            let what = format!("say why this ordering is enough: a `// {NOTE}` note above it");
            found.push(Finding::new(path, index, what));
        }
    }
    found
}

/// The lines of a file, with those of its test modules left empty.
fn outside_tests(text: &str) -> Vec<&str> {
    let (mut gated, mut inside) = (false, false);
    let keep = |line| {
        inside |= gated && str::starts_with(line, "mod ") && line.ends_with('{');
        gated =
            line.starts_with("#[cfg(") && line.contains("test") || gated && line.starts_with("#[");
        let kept = if inside { "" } else { line };
        // rustfmt puts nothing but the end of an item at the start of a line with a brace.
        inside &= line != "}";
        kept
    };
    text.lines().map(keep).collect()
}

fn names_an_ordering(code: &str) -> bool {
    code.match_indices("Ordering::").any(|(at, name)| {
        VARIANTS.iter().any(|variant| code[at + name.len()..].starts_with(variant))
    })
}

/// Whether the last of `lines` has a note, on it or above it in its function.
fn has_note(lines: &[&str]) -> bool {
    for (distance, line) in lines.iter().rev().enumerate().take(LINES_ABOVE + 1) {
        if line.contains(NOTE) {
            return true;
        }
        let opens_function = line.contains("fn ") && !line.trim_start().starts_with("//");
        if distance > 0 && opens_function {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::tree_of;
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let tree = tree_of(&[("crates/core/src/a.rs", text)]);
        findings(&tree).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_access_needs_a_note_in_its_own_function() {
        assert_eq!(lines("fn a() {\n    x.load(Ordering::Acquire);\n}\n"), [2]);
        assert!(lines("fn a() {\n// ORDERING: why\nx.load(Ordering::Acquire);\n}\n").is_empty());
        assert!(lines("fn a() {\nx.load(Ordering::Acquire); // ORDERING: why\n}\n").is_empty());
        let other = "fn a() {\n// ORDERING: why\n}\nfn b() {\nx.load(Ordering::Acquire);\n}\n";
        assert_eq!(lines(other), [5]);
    }

    #[test]
    fn a_note_far_above_does_not_count() {
        let far = |gap| format!("// ORDERING: why\n{}Ordering::SeqCst\n", "x\n".repeat(gap));
        assert!(lines(&far(LINES_ABOVE - 1)).is_empty());
        assert_eq!(lines(&far(LINES_ABOVE)), [LINES_ABOVE + 2]);
    }

    #[test]
    fn comparisons_comments_and_tests_need_none() {
        assert!(lines("fn a() {\n    Ordering::Less\n}\n").is_empty());
        assert!(lines("// As with Ordering::Relaxed\n").is_empty());
        let module = "#[cfg(test)]\nmod tests {\n    Ordering::Relaxed\n}\n";
        assert!(lines(module).is_empty());
        assert_eq!(lines(&format!("{module}Ordering::Relaxed\n")), [5]);
        let model = tree_of(&[("crates/core/src/loom_tests.rs", "Ordering::Relaxed\n")]);
        assert!(findings(&model).is_empty());
    }

    #[test]
    fn variants_are_not_imported() {
        assert_eq!(lines("use std::sync::atomic::Ordering::{Acquire, Release};\n"), [1]);
        assert!(lines("use std::sync::atomic::{AtomicU64, Ordering};\n").is_empty());
    }
}
