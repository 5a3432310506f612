//! Where the programs are that the scenarios start: `cargo xtask e2e` puts them in place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of everything that was built.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    snowlease: PathBuf,
    tools: PathBuf,
}

impl Tools {
    /// Beside this program and below its folder.
    pub(crate) fn find() -> Result<Tools> {
        let this = std::env::current_exe().context("this program has no path")?;
        let built = this.parent().context("this program is in no folder")?;
        let tools = built.parent().context("this program is in no target folder")?.join("tools");
        let snowlease = built.join("snowlease");
        if !snowlease.is_file() {
            bail!("{} is not built: start with `cargo xtask e2e`", snowlease.display());
        }
        Ok(Tools { snowlease, tools })
    }

    /// The program as a user starts it, without the configuration of who runs the scenarios.
    pub(crate) fn snowlease(&self) -> Command {
        let mut command = Command::new(&self.snowlease);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SNOWLEASE_") {
                command.env_remove(name);
            }
        }
        // A machine that runs scenarios need not have a synchronised clock; they have one clock.
        command.env("SNOWLEASE_CLOCK_GATE", "warn");
        command
    }

    /// The server of this version.
    pub(crate) fn etcd(&self, version: &str) -> Command {
        let mut etcd = Command::new(self.tools.join(format!("etcd-{version}/etcd")));
        etcd.env_clear();
        etcd
    }

    /// Its client, of 3.4.
    pub(crate) fn etcdctl() -> Command {
        let mut etcdctl = Command::new("etcdctl");
        etcdctl.env("ETCDCTL_API", "3");
        etcdctl
    }

    /// What restores snapshots since 3.5.
    pub(crate) fn etcdutl(&self) -> Option<Command> {
        let etcdutl = self.tools.join("etcdutl");
        etcdutl.is_file().then(|| Command::new(etcdutl))
    }

    /// A program of PostgreSQL, run as a user that it accepts.
    pub(crate) fn postgres(name: &str) -> Command {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(newest().map_or(name.into(), |bin| bin.join(name)));
        command.env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        if let Some((user, group)) = unprivileged() {
            command.uid(user).gid(group);
        }
        command
    }

    /// Gives a folder to the user that runs PostgreSQL.
    pub(crate) fn hand_over(path: &Path) -> Result<()> {
        if let Some((user, group)) = unprivileged() {
            std::os::unix::fs::chown(path, Some(user), Some(group))
                .with_context(|| format!("{} cannot be given away", path.display()))?;
        }
        Ok(())
    }
}

/// Where Debian puts the newest version from 15 on; `None`: the programs are on the path.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin = entry.path().join("bin");
        (version >= 15 && bin.join("initdb").is_file()).then_some((version, bin))
    });
    versions.max_by_key(|(version, _)| *version).map(|(_, bin)| bin)
}

/// Whom to run PostgreSQL as, which refuses to run as root; `None`: as ourselves.
fn unprivileged() -> Option<(u32, u32)> {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody"))
}
