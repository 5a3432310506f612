//! etcd with one member, put back by restoring a snapshot: under the token it had, which keeps the
//! cluster's id, or under a new one.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::gate::free_port;
use crate::process::{Folder, Process};
use crate::rollback::Store;
use crate::time::{Since, pause};
use crate::tools::Tools;

const PREFIX: &str = "ids";

/// Which etcd, and how it is restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) version: &'static str,
    pub(crate) new_token: bool,
}

#[derive(Debug)]
pub(crate) struct Etcd {
    tools: Tools,
    folder: Folder,
    kind: Kind,
    ports: (u16, u16),
    data: &'static str,
    token: &'static str,
    process: Option<Process>,
}

impl Etcd {
    pub(crate) fn start(tools: &Tools, folder: &Folder, kind: Kind) -> Result<Etcd> {
        let mut etcd = Etcd {
            tools: tools.clone(),
            folder: folder.clone(),
            kind,
            ports: (free_port()?, free_port()?),
            data: "data",
            token: "snowlease",
            process: None,
        };
        etcd.launch()?;
        Ok(etcd)
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.ports.0)
    }

    fn peer(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.1)
    }

    fn snapshot(&self) -> PathBuf {
        self.folder.file("snapshot.db")
    }

    fn launch(&mut self) -> Result<()> {
        let (client, peer) = (format!("http://{}", self.host()), self.peer());
        let mut etcd = self.tools.etcd(self.kind.version);
        etcd.args(["--name", "m0", "--data-dir"]).arg(self.folder.file(self.data));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd.args(["--initial-cluster", &format!("m0={peer}")]);
        etcd.args(["--initial-cluster-token", self.token]);
        etcd.args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h"]);
        etcd.args(["--logger", "zap", "--log-level", "warn"]);
        let mut process = self.folder.start("etcd", etcd, libc::SIGKILL)?;
        let begun = Since::now();
        while self.get("any").is_err() {
            if process.has_ended() || begun.elapsed() > Duration::from_secs(30) {
                bail!("etcd does not serve: {}", self.folder.last_words("etcd"));
            }
            pause(Duration::from_millis(50));
        }
        self.process = Some(process);
        Ok(())
    }

    /// Debian's program is of 3.4; later versions have one of their own for it, which is not to be
    /// had for every machine.
    fn restorer(&self) -> Command {
        let etcdutl = self.tools.etcdutl().filter(|_| self.kind.version != "3.4");
        etcdutl.unwrap_or_else(Tools::etcdctl)
    }

    fn get(&self, key: &str) -> Result<String> {
        let mut get = Tools::etcdctl();
        get.args(["--endpoints", &self.host(), "--command-timeout", "1s"]);
        let out = get.args(["get", key, "--print-value-only"]).output();
        let out = out.context("etcdctl could not be started")?;
        if !out.status.success() {
            bail!("{}", String::from_utf8_lossy(&out.stderr).trim());
        }
        String::from_utf8(out.stdout).context("no text")
    }
}

impl Store for Etcd {
    fn url(&self) -> String {
        format!("etcd://{}/{PREFIX}", self.host())
    }

    fn port(&self) -> u16 {
        self.ports.0
    }

    fn url_through(&self, port: u16) -> String {
        format!("etcd://127.0.0.1:{port}/{PREFIX}")
    }

    fn back_up(&mut self) -> Result<()> {
        let mut save = Tools::etcdctl();
        save.args(["--endpoints", &self.host(), "snapshot", "save"]).arg(self.snapshot());
        self.folder.run(&mut save).map(drop)
    }

    fn put_back(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.stop(libc::SIGTERM)?;
        }
        self.data = "restored";
        if self.kind.new_token {
            self.token = "snowlease-2";
        }
        let mut restore = self.restorer();
        restore.args(["snapshot", "restore"]).arg(self.snapshot());
        restore.arg("--data-dir").arg(self.folder.file(self.data)).args(["--name", "m0"]);
        restore.args(["--initial-cluster", &format!("m0={}", self.peer())]);
        restore.args(["--initial-advertise-peer-urls", &self.peer()]);
        restore.args(["--initial-cluster-token", self.token]);
        self.folder.run(&mut restore)?;
        self.launch()
    }

    fn floor(&self) -> Result<u64> {
        let meta: serde_json::Value = serde_json::from_str(&self.get(&format!("{PREFIX}/meta"))?)?;
        meta["floor"].as_u64().context("the store's meta has no floor")
    }
}
