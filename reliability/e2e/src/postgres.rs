//! PostgreSQL that goes back in three ways: a standby is promoted that had not got everything, a
//! backup is restored to a point in time, or the files are replaced by an older copy of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::gate::free_port;
use crate::process::{Folder, Process};
use crate::rollback::Store;
use crate::time::wait_for;
use crate::tools::Tools;

/// Who owns everything.
const USER: &str = "ids";

/// How it is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The stream to a standby is cut, and later the standby is promoted.
    Promoted,
    /// Of a base backup and the archived log.
    PointInTime,
    /// The same cluster on the same timeline: only its contents are older.
    FileCopy,
}

#[derive(Debug)]
pub(crate) struct Postgres {
    folder: Folder,
    kind: Kind,
    server: Server,
    standby: Option<Server>,
    /// Of the backup, by the server's clock.
    time: String,
}

/// One server: a folder of data and a port.
#[derive(Debug)]
struct Server {
    name: &'static str,
    data: PathBuf,
    port: u16,
    process: Option<Process>,
}

const PATIENCE: Duration = Duration::from_secs(40);

impl Postgres {
    pub(crate) fn start(folder: &Folder, kind: Kind) -> Result<Postgres> {
        Tools::hand_over(folder.path())?;
        let server = Server::new(folder, "primary")?;
        let mut initdb = Tools::postgres("initdb");
        initdb.args(["--auth", "trust", "--username", USER, "--encoding", "UTF8", "--locale", "C"]);
        folder.run(initdb.arg("--no-sync").arg("--pgdata").arg(&server.data))?;
        let mut postgres =
            Postgres { folder: folder.clone(), kind, server, standby: None, time: String::new() };
        if kind == Kind::PointInTime {
            let archive = folder.file("archive");
            fs::create_dir_all(&archive)?;
            Tools::hand_over(&archive)?;
            postgres.server.set(&format!(
                "archive_mode = on\narchive_command = 'cp %p {}/%f'\n",
                archive.display()
            ))?;
        }
        postgres.server.launch(folder)?;
        let mut create = Tools::postgres("createdb");
        folder.run(
            create.arg("--maintenance-db").arg(postgres.server.database("postgres")).arg("ids"),
        )?;
        if kind == Kind::Promoted {
            let mut standby = Server::new(folder, "standby")?;
            postgres.base_backup(&standby.data, &["--write-recovery-conf"])?;
            standby.launch(folder)?;
            postgres.standby = Some(standby);
        }
        Ok(postgres)
    }

    fn base_backup(&self, to: &std::path::Path, more: &[&str]) -> Result<()> {
        let mut backup = Tools::postgres("pg_basebackup");
        backup.args(["--checkpoint", "fast", "--wal-method", "stream"]).args(more);
        backup.args(["--dbname", &self.server.database("postgres")]).arg("--pgdata").arg(to);
        self.folder.run(&mut backup).map(drop)
    }

    /// Has the standby follow nobody, once it has all there is.
    fn cut_stream(&self) -> Result<()> {
        let standby = self.standby.as_ref().context("there is no standby")?;
        let known = "SELECT count(*) FROM snowlease.cells WHERE token IS NOT NULL";
        let there = self.server.ask(&self.folder, known)?;
        if !wait_for(PATIENCE, || standby.ask(&self.folder, known).is_ok_and(|it| it == there)) {
            bail!("the standby does not follow: {}", self.folder.last_words("standby"));
        }
        standby.ask(&self.folder, "ALTER SYSTEM SET primary_conninfo = ''")?;
        standby.ask(&self.folder, "SELECT pg_reload_conf()")?;
        let streams = "SELECT count(*) FROM pg_stat_replication";
        let cut = || self.server.ask(&self.folder, streams).is_ok_and(|count| count == "0");
        if wait_for(PATIENCE, cut) { Ok(()) } else { bail!("the stream goes on") }
    }

    fn promote(&mut self) -> Result<()> {
        self.server.stop()?;
        let standby = self.standby.take().context("there is no standby")?;
        let mut promote = Tools::postgres("pg_ctl");
        self.folder.run(promote.args(["promote", "-D"]).arg(&standby.data))?;
        // It goes on under an address of its own, which the store's URL names beside the other.
        self.server = standby;
        Ok(())
    }

    fn restore(&mut self) -> Result<()> {
        // What is archived is what can be restored.
        self.server.ask(&self.folder, "SELECT pg_switch_wal()")?;
        self.server.stop()?;
        self.server.data = self.folder.file("backup");
        self.server.set(&format!(
            "restore_command = 'cp {}/%f %p'\nrecovery_target_time = '{}'\n\
             recovery_target_action = 'promote'\narchive_mode = off\n",
            self.folder.file("archive").display(),
            self.time
        ))?;
        let signal = self.server.data.join("recovery.signal");
        Folder::touch(&signal)?;
        Tools::hand_over(&signal)?;
        self.server.launch(&self.folder)?;
        let primary = || {
            let asked = self.server.ask(&self.folder, "SELECT pg_is_in_recovery()");
            asked.is_ok_and(|standby| standby == "f")
        };
        if wait_for(PATIENCE, primary) {
            return Ok(());
        }
        bail!("it is not restored: {}", self.folder.last_words("primary"))
    }
}

impl Store for Postgres {
    fn url(&self) -> String {
        let others = self.standby.iter().map(|standby| standby.port);
        let ports: Vec<u16> = [self.server.port].into_iter().chain(others).collect();
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("postgres://{USER}@{}/ids", hosts.join(","))
    }

    fn port(&self) -> u16 {
        self.server.port
    }

    fn url_through(&self, port: u16) -> String {
        format!("postgres://{USER}@127.0.0.1:{port}/ids")
    }

    fn back_up(&mut self) -> Result<()> {
        match self.kind {
            Kind::Promoted => self.cut_stream(),
            Kind::PointInTime => {
                self.base_backup(&self.folder.file("backup"), &[])?;
                self.time = self.server.ask(&self.folder, "SELECT clock_timestamp()")?;
                Ok(())
            }
            Kind::FileCopy => {
                self.server.stop()?;
                let mut copy = Command::new("cp");
                copy.arg("-a").arg(&self.server.data).arg(self.folder.file("backup"));
                self.folder.run(&mut copy)?;
                self.server.launch(&self.folder)
            }
        }
    }

    fn put_back(&mut self) -> Result<()> {
        match self.kind {
            Kind::Promoted => self.promote(),
            Kind::PointInTime => self.restore(),
            Kind::FileCopy => {
                self.server.stop()?;
                self.server.data = self.folder.file("backup");
                self.server.launch(&self.folder)
            }
        }
    }

    fn floor(&self) -> Result<u64> {
        let mut psql = self.server.psql("SELECT floor_tick FROM snowlease.meta");
        let out = psql.output().context("psql could not be started")?;
        let text = String::from_utf8_lossy(&out.stdout);
        text.trim().parse().with_context(|| format!("psql shows {:?}", text.trim()))
    }
}

impl Server {
    fn new(folder: &Folder, name: &'static str) -> Result<Server> {
        Ok(Server { name, data: folder.file(name), port: free_port()?, process: None })
    }

    fn launch(&mut self, folder: &Folder) -> Result<()> {
        let mut postgres = Tools::postgres("postgres");
        postgres.arg("-D").arg(&self.data).args(["-p", &self.port.to_string()]);
        postgres.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
        postgres.args(["-c", "max_connections=40", "-c", "shared_buffers=16MB"]);
        // An immediate shutdown, which leaves no shared memory behind.
        self.process = Some(folder.start(self.name, postgres, libc::SIGQUIT)?);
        let mut ready = Tools::postgres("pg_isready");
        ready.args(["--quiet", "--dbname", &self.database("postgres")]);
        if wait_for(PATIENCE, || ready.status().is_ok_and(|status| status.success())) {
            return Ok(());
        }
        bail!("PostgreSQL does not start: {}", folder.last_words(self.name))
    }

    fn stop(&mut self) -> Result<()> {
        // Clients are cut off, what was committed is written.
        self.process.take().map_or(Ok(()), |mut process| process.stop(libc::SIGINT))
    }

    fn set(&self, lines: &str) -> Result<()> {
        let path = self.data.join("postgresql.conf");
        let text = fs::read_to_string(&path)?;
        fs::write(&path, format!("{text}\n{lines}")).context("the configuration")
    }

    fn database(&self, name: &str) -> String {
        format!("host=127.0.0.1 port={} user={USER} dbname={name}", self.port)
    }

    fn psql(&self, sql: &str) -> Command {
        let mut psql = Tools::postgres("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["--dbname", &self.database("ids"), "--command", sql]);
        psql
    }

    fn ask(&self, folder: &Folder, sql: &str) -> Result<String> {
        Ok(folder.run(&mut self.psql(sql))?.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Nothing in it is needed any more.
            drop(process.stop(libc::SIGQUIT));
        }
    }
}
