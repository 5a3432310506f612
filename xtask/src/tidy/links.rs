//! Links between our own Markdown files lead somewhere. Links to other hosts are not followed.

use std::path::{Component, Path};

use super::{Finding, Tree, texts};

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    texts(tree, &[".md"])
        .flat_map(|(path, text)| {
            prose(text).flat_map(move |(index, line)| {
                targets(line)
                    .into_iter()
                    .filter_map(|target| problem(tree, path, target))
                    .map(move |what| Finding::new(path, index, what))
            })
        })
        .collect()
}

/// What is wrong with a link from the file at `from`, if anything.
fn problem(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    // A check is named as `file.rs::test`; that the test exists is the promises' rule.
    let file = file.split("::").next().unwrap_or_default();
    let path = if file.is_empty() { Some(from.to_owned()) } else { resolved(from, file) };
    let Some(path) = path else {
        return Some(format!("`{target}` leads out of the tree"));
    };
    let folder = format!("{path}/");
    if !tree.contains_key(&path) && !tree.keys().any(|other| other.starts_with(&folder)) {
        return Some(format!("`{target}` leads to {path}, which does not exist"));
    }
    let anchor = anchor.filter(|_| path.ends_with(".md"))?;
    let text = tree.get(&path)?.as_deref()?;
    (!anchors(text).iter().any(|known| known == anchor))
        .then(|| format!("`{target}`: {path} has no heading `{anchor}`"))
}

/// `target` as seen from the folder of `from`, from the root of the tree; none if it is outside.
fn resolved(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// Numbered lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of the links of one line: `[text](target "title")` and `[name]: target`.
pub(super) fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        let in_code = rest[..at].matches('`').count() % 2 == 1;
        rest = &rest[at + 2..];
        if !in_code && let Some(end) = rest.find(')') {
            found.extend(rest[..end].split_whitespace().next());
            rest = &rest[end..];
        } else if in_code {
            // What is left of the span must not be counted as the start of another one.
            rest = rest.split_once('`').map_or("", |(_, after)| after);
        }
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.extend(target.split_whitespace().next());
    }
    found.into_iter().map(|target| target.trim_matches(['<', '>'])).collect()
}

/// What stands in backticks on one line.
pub(super) fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// The anchors of the headings of a file, as forges make them: lower case, spaces to hyphens, other
/// marks dropped, the second of the same name with `-1`.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let name: String = kept.collect();
        let same = anchors.iter().filter(|anchor| **anchor == name).count();
        anchors.push(if same == 0 { name } else { format!("{name}-{same}") });
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::super::tree_of;
    use super::*;

    #[test]
    fn targets_are_read_from_prose_only() {
        assert_eq!(targets("[a](b.md) and [`c`](d.md#e \"title\")"), ["b.md", "d.md#e"]);
        assert_eq!(targets("[a]: <b.md>"), ["b.md"]);
        assert!(targets("`[a](b.md)` is a link").is_empty());
        assert_eq!(targets("`x[a](y)` [c](d.md)"), ["d.md"]);
        assert_eq!(spans("a `b` c `d`"), ["b", "d"]);
    }

    #[test]
    fn links_are_resolved_from_their_own_file() {
        let tree = tree_of(&[
            (
                "docs/a.md",
                "[b](b.md) [r](../README.md) [d](../docs) [h](#one) [o](https://x)\n# One\n",
            ),
            ("docs/b.md", "```\n[x](nowhere.md)\n```\n"),
            ("README.md", "[gone](docs/gone.md)\n[out](../out)\n[h](docs/a.md#two)\n"),
        ]);
        let found: Vec<_> =
            findings(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        let readme = |line| ("README.md".to_owned(), line);
        assert_eq!(found, [readme(1), readme(2), readme(3)]);
    }

    #[test]
    fn anchors_are_made_as_forges_do() {
        let text = "# The `Id`, and more\n## Same\n## Same\n";
        assert_eq!(anchors(text), ["the-id-and-more", "same", "same-1"]);
    }
}
