//! Real etcd for the tests: taken out of packages that bring the program, into the target folder.
//!
//! Each version has a manifest with a lock file below `tools/etcd`, so that cargo alone fetches and
//! verifies what the tests start. Nothing is compiled.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::tool;

/// The oldest and the newest version there is support for: what the tests need.
pub(crate) const NEEDED: &[&str] = &["3.4", "3.7"];

/// Every version there is support for.
pub(crate) const ALL: &[&str] = &["3.4", "3.5", "3.6", "3.7"];

/// The packages with the program, by the targets they are for.
const TARGETS: &[(&str, &str)] =
    &[("x86_64", "x86_64-unknown-linux-gnu"), ("aarch64", "aarch64-unknown-linux-gnu")];

/// Puts the programs of these versions at `<target>/tools/etcd-VERSION/etcd`.
pub(crate) fn prepare(versions: &[&str]) -> Result<()> {
    let target = TARGETS.iter().find(|(arch, _)| *arch == std::env::consts::ARCH);
    let Some((_, target)) = target.filter(|_| cfg!(target_os = "linux")) else {
        // Not an error: all but the tests of one store run here.
        println!(
            "etcd: no program for this machine, so the tests of the etcd store fail here: run them \
             on Linux, x86_64 or aarch64"
        );
        return Ok(());
    };
    let tools = target_folder()?.join("tools");
    for version in versions {
        let folder = tools.join(format!("etcd-{version}"));
        let lock = fs::read(tool::root().join(format!("tools/etcd/{version}/Cargo.lock")))
            .with_context(|| format!("etcd {version} has no lock file below tools/etcd"))?;
        let is_there = folder.join("etcd").is_file()
            && fs::read(folder.join("Cargo.lock")).is_ok_and(|stamp| stamp == lock);
        if !is_there {
            let program = fetched(version, target)?;
            place(&program, &folder)?;
            // Written last: a set-up that was cut begins anew.
            fs::write(folder.join("Cargo.lock"), &lock)?;
        }
        println!("etcd {version}: {}", if is_there { "is there" } else { "was put in place" });
    }
    Ok(())
}

pub(crate) fn target_folder() -> Result<PathBuf> {
    let arguments = ["metadata", "--format-version", "1", "--no-deps"];
    let metadata: Value = serde_json::from_str(&tool::output(tool::cargo(&arguments))?)?;
    let folder = metadata["target_directory"].as_str().context("cargo names no target folder")?;
    Ok(PathBuf::from(folder))
}

/// Has cargo fetch the package with the program, and finds it there.
fn fetched(version: &str, target: &str) -> Result<PathBuf> {
    let manifest = format!("tools/etcd/{version}/Cargo.toml");
    let arguments = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let mut command = tool::cargo(&arguments);
    command.args(["--manifest-path", &manifest]);
    let metadata: Value = serde_json::from_str(&tool::output(command)?)?;
    program_in(&metadata).with_context(|| {
        format!("{manifest} names no package that brings etcd for {target}: add one for it")
    })
}

fn program_in(metadata: &Value) -> Option<PathBuf> {
    metadata["packages"].as_array()?.iter().find_map(|package| {
        let brings_it = package["name"].as_str()?.starts_with("etcd-bin-vendored");
        let manifest = Path::new(package["manifest_path"].as_str()?);
        brings_it.then(|| manifest.with_file_name("bin").join("etcd"))
    })
}

/// Copies the program, so that it can be started whatever the package's own mode is.
fn place(program: &Path, folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    if !program.is_file() {
        bail!("{} is not there: remove its package from cargo's cache", program.display());
    }
    fs::create_dir_all(folder)?;
    let (new, place) = (folder.join("etcd.new"), folder.join("etcd"));
    fs::copy(program, &new)
        .and_then(|_| fs::set_permissions(&new, fs::Permissions::from_mode(0o755)))
        // In one step: a program that runs is not overwritten.
        .and_then(|()| fs::rename(&new, &place))
        .with_context(|| format!("etcd could not be put into {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_program_lies_beside_the_manifest_of_the_package_that_brings_it() {
        let metadata = json!({ "packages": [
            { "name": "etcd-for-tests", "manifest_path": "/tree/tools/etcd/3.4/Cargo.toml" },
            { "name": "etcd-bin-vendored-linux-amd64", "manifest_path": "/cache/e/Cargo.toml" },
        ]});
        assert_eq!(program_in(&metadata), Some(PathBuf::from("/cache/e/bin/etcd")));
        assert_eq!(program_in(&json!({ "packages": [] })), None);
    }

    #[test]
    fn each_version_has_a_manifest_that_pins_it() {
        for version in ALL {
            let folder = tool::root().join("tools/etcd").join(version);
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            assert_eq!(manifest.matches(&format!("\"={version}.")).count(), TARGETS.len());
            assert!(folder.join("Cargo.lock").is_file());
        }
        assert!(NEEDED.iter().all(|version| ALL.contains(version)));
    }
}
