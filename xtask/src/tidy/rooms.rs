//! The import table: which room of the tree may use which. Arrows only point down.

use serde_json::Value;

use super::Finding;

/// A room and the rooms its code may import.
struct Room {
    /// The folder of its package; a `*` at the end stands for any ending.
    folder: &'static str,
    imports: &'static [&'static str],
}

/// The table of `docs/architecture.md`. The first line whose folder fits is the one that counts.
const TABLE: &[Room] = &[
    Room { folder: "crates/core", imports: &[] },
    Room { folder: "crates/lease", imports: &["crates/core"] },
    Room {
        folder: "crates/store-remote",
        imports: &["crates/core", "crates/lease", "crates/wire"],
    },
    Room { folder: "crates/store-*", imports: &["crates/core", "crates/lease"] },
    Room { folder: "crates/wire", imports: &["crates/core"] },
    Room { folder: "crates/public-id", imports: &["crates/core"] },
    Room {
        folder: "crates/service",
        imports: &["crates/core", "crates/lease", "crates/wire", "crates/public-id"],
    },
    Room {
        folder: "crates/snowlease",
        imports: &["crates/core", "crates/lease", "crates/store-*"],
    },
    Room { folder: "crates/cli", imports: &["crates/*"] },
];

/// Rooms that may import anything and that nothing imports.
const TOOLS: &[&str] = &["bench/*", "examples/*", "fuzz*", "reliability/*", "xtask"];

/// The core may use only these from outside, and only behind a feature.
const CORE: &str = "crates/core";
const CORE_OUTSIDE: &[&str] = &["loom"];

/// Who composes everything else; no room imports it, not even for a test.
const COMPOSER: &str = "crates/cli";

/// Judges what `cargo metadata --no-deps` prints.
pub(super) fn findings(metadata: &Value) -> Vec<Finding> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let members = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    members.iter().flat_map(|member| member_findings(member, root)).collect()
}

fn member_findings(member: &Value, root: &str) -> Vec<Finding> {
    let manifest = inside(&member["manifest_path"], root).unwrap_or("Cargo.toml");
    let folder = manifest.trim_end_matches("/Cargo.toml");
    if !is_tool(folder) && room(folder).is_none() {
        let what = "this room is not in the import table of xtask/src/tidy/rooms.rs";
        return vec![Finding::new(manifest, 0, what)];
    }
    let dependencies = member["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
    dependencies
        .iter()
        .filter_map(|dependency| match inside(&dependency["path"], root) {
            Some(target) => imported(folder, target, dependency["kind"] == "dev"),
            None => from_outside(folder, dependency),
        })
        .map(|what| Finding::new(manifest, 0, what))
        .collect()
}

/// Why `from` may not import `to`. A test may use any room beside or below the composer, since the
/// other end of a wire is what it is tested against; other code keeps to the table.
fn imported(from: &str, to: &str, for_tests: bool) -> Option<String> {
    if is_tool(to) {
        return Some(format!("nothing imports {to}"));
    }
    let allowed = match room(from) {
        _ if is_tool(from) => true,
        _ if for_tests => to != COMPOSER,
        Some(room) => room.imports.iter().any(|pattern| fits(pattern, to)),
        None => false,
    };
    (!allowed).then(|| format!("{from} may not import {to}; arrows only point down"))
}

fn from_outside(folder: &str, dependency: &Value) -> Option<String> {
    let name = dependency["name"].as_str().unwrap_or_default();
    let fine = folder != CORE
        || dependency["kind"] == "dev"
        || (CORE_OUTSIDE.contains(&name) && dependency["optional"] == true);
    (!fine).then(|| format!("the core depends on std only, not on {name}"))
}

fn room(folder: &str) -> Option<&'static Room> {
    TABLE.iter().find(|room| fits(room.folder, folder))
}

fn is_tool(folder: &str) -> bool {
    TOOLS.iter().any(|pattern| fits(pattern, folder))
}

fn fits(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => folder.starts_with(start),
        None => folder == pattern,
    }
}

/// A path of the metadata as seen from the root, if it is below it.
fn inside<'a>(path: &'a Value, root: &str) -> Option<&'a str> {
    path.as_str()?.strip_prefix(root)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(folder: &str, dependency: &Value) -> Vec<String> {
        let metadata = json!({ "workspace_root": "/tree", "packages": [
            { "manifest_path": format!("/tree/{folder}/Cargo.toml"), "dependencies": [dependency] }
        ]});
        findings(&metadata).into_iter().map(|finding| finding.what).collect()
    }

    fn path(folder: &str, kind: Option<&str>) -> Value {
        json!({ "name": "any", "path": format!("/tree/{folder}"), "kind": kind })
    }

    #[test]
    fn arrows_point_down() {
        for (from, to, fine) in [
            ("crates/lease", "crates/core", true),
            ("crates/core", "crates/lease", false),
            ("crates/store-remote", "crates/wire", true),
            ("crates/store-sqlite", "crates/wire", false),
            ("crates/service", "crates/store-sqlite", false),
            ("crates/snowlease", "crates/store-postgres", true),
            ("crates/snowlease", "crates/service", false),
            ("crates/cli", "crates/service", true),
            ("xtask", "crates/cli", true),
            ("crates/cli", "bench/own", false),
        ] {
            assert_eq!(judged(from, &path(to, None)).is_empty(), fine, "{from} -> {to}");
            assert_eq!(judged(from, &path(to, Some("build"))).is_empty(), fine, "{from} -> {to}");
        }
    }

    #[test]
    fn tests_may_use_any_room_but_the_composer_and_the_tools() {
        let fine = |to| judged("crates/store-remote", &path(to, Some("dev"))).is_empty();
        assert!(fine("crates/service"));
        assert!(!fine("crates/cli"));
        assert!(!fine("examples/orders"));
    }

    #[test]
    fn the_core_depends_on_std_only() {
        let outside = |name, optional| {
            let dependency = json!({ "name": name, "kind": null, "optional": optional });
            judged("crates/core", &dependency).is_empty()
        };
        assert!(outside("loom", true));
        assert!(!outside("loom", false));
        assert!(!outside("serde", true));
        let test_only = json!({ "name": "proptest", "kind": "dev", "optional": false });
        assert!(judged("crates/core", &test_only).is_empty());
    }

    #[test]
    fn a_room_must_be_in_the_table() {
        let found = judged("crates/new", &path("crates/core", None));
        assert!(found[0].contains("not in the import table"), "{found:?}");
    }
}
