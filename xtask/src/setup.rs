//! What the tests need from the machine: found, or installed where that is allowed, or named.

use std::fs;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::usage::only;
use crate::{counts, etcd, tool};

/// A program that tests need and a Debian package that brings it.
pub(crate) struct Need {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
    pub(crate) reason: &'static str,
}

/// Add a line here for each program a test starts.
const NEEDS: &[Need] = &[
    Need { program: "cc", package: "gcc", reason: "SQLite and ring are built from C source" },
    Need { program: "initdb", package: "postgresql", reason: "a real server for its store" },
    Need {
        program: "faketime",
        package: "faketime",
        reason: "wall clocks that are set and stopped",
    },
    counts::VALGRIND,
];

/// Where Debian keeps the programs of a PostgreSQL server, away from the search path.
const POSTGRESQL: &str = "/usr/lib/postgresql";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (flags, rest): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == "--all-etcd");
    only(&rest, [].into_iter())?;
    prepare()?;
    if flags.is_empty() { Ok(()) } else { etcd::prepare(etcd::ALL) }
}

/// Makes the machine ready; fails, with the command to type, if something is still missing.
pub(crate) fn prepare() -> Result<()> {
    have(NEEDS)?;
    etcd::prepare(etcd::NEEDED)?;
    println!("{}", if has_nextest() { "runner: cargo-nextest" } else { "runner: cargo test" });
    Ok(())
}

/// Makes sure of these programs.
pub(crate) fn have(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !is_there(need.program)).collect();
    for need in &missing {
        println!("missing: {} ({}); Debian: {}", need.program, need.reason, need.package);
    }
    if !missing.is_empty() {
        install(&missing.iter().map(|need| need.package).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Whether cargo-nextest is installed; asked once, since each stage must get the same answer.
pub(crate) fn has_nextest() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| tool::succeeds(tool::cargo(&["nextest", "--version"])))
}

/// A person's own machine is left alone: packages go in only as root or in CI.
fn install(packages: &[&str]) -> Result<()> {
    if !(is_root() || tool::in_ci()) {
        bail!("install what is missing: apt-get install {}", packages.join(" "));
    }
    tool::run({
        let mut update = tool::program("apt-get");
        update.args(["update", "--quiet"]);
        update
    })?;
    tool::run({
        let mut install = tool::program("apt-get");
        install.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        install
    })
}

fn is_root() -> bool {
    let mut id = tool::program("id");
    id.arg("-u");
    tool::output(id).is_ok_and(|user| user.trim() == "0")
}

/// Whether the search path has `program`, or Debian's PostgreSQL; it is not started, since not
/// every program takes a flag.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(POSTGRESQL).into_iter().flatten().flatten();
    let servers = versions.map(|version| version.path().join("bin"));
    std::env::split_paths(&path).chain(servers).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_is_searched() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-program"));
    }
}
