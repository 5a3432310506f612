//! Style as a test: the rules no compiler holds. Each rule is a pure function of the files' text.

mod files;
mod links;
mod orderings;
mod promises;
mod rooms;

use std::collections::BTreeMap;
use std::{fmt, fs};

use anyhow::{Result, bail};

use crate::{tool, usage};

/// Text files of the tree by their path from its root. Files that are not text have `None`.
type Tree = BTreeMap<String, Option<String>>;

/// Something to put right.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// `index` counts lines from 0, as iterators do.
    fn new(path: &str, index: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: index + 1, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

const RULES: &[fn(&Tree) -> Vec<Finding>] =
    &[files::findings, orderings::findings, promises::findings, links::findings];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    usage::only(arguments, [].into_iter())?;
    all()
}

/// Applies every rule to the tree; fails if there is anything to put right.
pub(crate) fn all() -> Result<()> {
    let tree = tree()?;
    let mut findings = rooms::findings(&metadata()?);
    findings.extend(RULES.iter().flat_map(|rule| rule(&tree)));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} things to put right", findings.len());
    }
    println!("{} files are tidy", tree.len());
    Ok(())
}

/// What git tracks or would track, so that a new file is judged before it is committed.
fn tree() -> Result<Tree> {
    let mut git = tool::program("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut tree = Tree::new();
    for path in tool::output(git)?.split_terminator('\0') {
        // A file that was deleted but not yet committed as such is still listed.
        if let Ok(bytes) = fs::read(tool::root().join(path)) {
            let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
            tree.insert(path.to_owned(), text);
        }
    }
    Ok(tree)
}

fn metadata() -> Result<serde_json::Value> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    Ok(serde_json::from_str(&tool::output(tool::cargo(&arguments))?)?)
}

/// The text files of `tree` whose path ends in one of `endings`.
fn texts<'a>(
    tree: &'a Tree,
    endings: &'static [&'static str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    tree.iter()
        .filter(|(path, _)| endings.iter().any(|ending| path.ends_with(ending)))
        .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
}

#[cfg(test)]
fn tree_of(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|&(path, text)| (path.to_owned(), Some(text.to_owned()))).collect()
}
