//! A real PostgreSQL server for tests: made in a folder of its own, on a free port of this machine,
//! gone with the test.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use tempfile::TempDir;

use super::certificates::Certificates;
use super::programs::{copy, hand_over, program, run, spawn};
use super::wait;

/// How long a server may take to start, to stop or to be promoted.
const PATIENCE: Duration = Duration::from_secs(60);

/// The owner of everything in a server of tests, and its password.
pub const USER: &str = "owner";
/// See [`USER`].
pub const PASSWORD: &str = "hunter2-hunter2";

/// How to make a server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    /// Whether commits are synced to the disk. Only for benchmarks and for tests of lost power.
    pub fsync: bool,
    /// Whether it accepts nothing but TLS.
    pub tls: bool,
    /// Whether it keeps its log, so that it can be restored to a point in time.
    pub archive: bool,
}

/// A PostgreSQL server with one database, `ids`. Stopped when dropped.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    port: u16,
    kind: Kind,
    certificates: Option<Certificates>,
    child: Option<Child>,
    paused: bool,
}

impl Server {
    /// Makes a server and starts it.
    pub fn start(kind: Kind) -> Server {
        let mut server = Server::new(kind);
        let password = server.folder.path().join("password");
        fs::write(&password, PASSWORD).unwrap();
        hand_over(&password);
        let mut initdb = program("initdb");
        initdb.arg("--no-sync").args(["--encoding", "UTF8", "--locale", "C"]);
        initdb.args(["--auth", "scram-sha-256", "--username", USER]);
        run(initdb.arg("--pwfile").arg(&password).arg("--pgdata").arg(server.data()));
        server.configure();
        server.run();
        server.sql("postgres", "CREATE DATABASE ids");
        server
    }

    fn new(kind: Kind) -> Server {
        let folder = tempfile::tempdir().unwrap();
        hand_over(folder.path());
        let certificates = kind.tls.then(|| Certificates::make(folder.path()));
        let port = free_port();
        Server { folder, port, kind, certificates, child: None, paused: false }
    }

    /// A server on a copy of this one's files, as they are now; that is the truth only of a server
    /// that is stopped. It is not started.
    pub fn copied(&self) -> Server {
        let mut other = Server::new(self.kind);
        copy(&self.data(), &other.data());
        other.configure();
        other
    }

    /// A standby of this server that streams from it, started.
    pub fn standby(&self) -> Server {
        let mut standby = Server::new(self.kind);
        self.base_backup(&standby.data(), true);
        standby.configure();
        standby.run();
        standby
    }

    /// Copies this server while it runs, to be restored to any later time by [`Server::restored`].
    pub fn back_up(&self) -> PathBuf {
        let backup = self.folder.path().join("backup");
        self.base_backup(&backup, false);
        backup
    }

    /// A server made of a backup of this one and of its archived log, as it was at this time of
    /// its own clock, started and promoted.
    pub fn restored(&self, backup: &Path, time: &str) -> Server {
        let mut other = Server::new(self.kind);
        copy(backup, &other.data());
        let archive = self.archive();
        other.configure();
        other.set(&format!(
            "restore_command = 'cp {}/%f %p'\nrecovery_target_time = '{time}'\n\
             recovery_target_action = 'promote'\n",
            archive.display()
        ));
        let signal = other.data().join("recovery.signal");
        fs::write(&signal, "").unwrap();
        hand_over(&signal);
        other.run();
        other.wait_for_primary();
        other
    }

    fn base_backup(&self, to: &Path, standby: bool) {
        let mut backup = program("pg_basebackup");
        backup.args(["--no-sync", "--checkpoint", "fast", "--wal-method", "stream"]);
        backup.args(["--dbname", &self.conninfo("postgres")]).arg("--pgdata").arg(to);
        if standby {
            backup.arg("--write-recovery-conf");
        }
        run(&mut backup);
    }

    /// Writes what differs from one server to the next; the last line of a setting counts.
    fn configure(&mut self) {
        let Kind { fsync, tls, archive } = self.kind;
        let on = |set: bool| if set { "on" } else { "off" };
        let mut text = format!(
            "port = {}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n\
             fsync = {}\nfull_page_writes = on\nshared_buffers = 32MB\nmax_connections = 80\n\
             ssl = {}\nautovacuum_naptime = 5s\nmax_wal_senders = 4\nwal_level = replica\n\
             logging_collector = off\n",
            self.port,
            on(fsync),
            on(tls)
        );
        if let Some(certificates) = &self.certificates {
            let (certificate, key) = (certificates.server(), certificates.server_key());
            hand_over(certificate);
            hand_over(key);
            let _ = write!(
                text,
                "ssl_cert_file = '{}'\nssl_key_file = '{}'\n",
                certificate.display(),
                key.display()
            );
        }
        if archive {
            fs::create_dir_all(self.archive()).unwrap();
            hand_over(&self.archive());
            let archive = self.archive();
            let _ = write!(
                text,
                "archive_mode = on\narchive_command = 'cp %p {}/%f'\n",
                archive.display()
            );
        }
        self.set(&text);
        let host = if tls { "hostssl" } else { "host" };
        let lines = format!(
            "{host} all all 127.0.0.1/32 scram-sha-256\n\
             {host} replication all 127.0.0.1/32 scram-sha-256\n"
        );
        fs::write(self.data().join("pg_hba.conf"), lines).unwrap();
    }

    /// Adds lines to the configuration, for the next start or [`reload`](Self::reload).
    pub fn set(&self, lines: &str) {
        let path = self.data().join("postgresql.conf");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push('\n');
        text.push_str(lines);
        fs::write(path, text).unwrap();
    }

    /// Has the running server read its configuration anew.
    pub fn reload(&self) {
        self.signal(libc::SIGHUP);
    }

    /// Starts the server and waits until it answers.
    pub fn run(&mut self) {
        assert!(self.child.is_none(), "the server runs already");
        let log = fs::File::create(self.folder.path().join("log")).unwrap();
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(self.data()).stderr(log);
        self.child = Some(spawn(postgres).unwrap());
        let ready = || {
            let mut ready = program("pg_isready");
            ready.args(["--dbname", &self.conninfo("postgres")]);
            ready.status().is_ok_and(|status| status.success())
        };
        assert!(wait(PATIENCE, ready), "the server does not start: {}", self.log());
    }

    /// Stops it as an operator does: clients are cut off, what was committed is written.
    pub fn stop(&mut self) {
        self.end(libc::SIGINT);
    }

    /// Ends it at once, as a loss of power does.
    pub fn kill(&mut self) {
        // Its children end with it, and would go on otherwise for a moment.
        let children = children(self.pid());
        self.end(libc::SIGKILL);
        let gone = || children.iter().all(|child| !Path::new(&format!("/proc/{child}")).exists());
        assert!(wait(PATIENCE, gone), "children of the server go on");
    }

    /// Stops or resumes all its processes where they stand.
    pub fn pause(&mut self, paused: bool) {
        let signal = if paused { libc::SIGSTOP } else { libc::SIGCONT };
        self.paused = paused;
        // The parent first when it stops, so that it starts nobody new.
        self.signal(signal);
        for child in children(self.pid()) {
            kill(child, signal);
        }
    }

    /// Makes a standby the primary of a history of its own.
    pub fn promote(&self) {
        run(program("pg_ctl").args(["promote", "--no-wait", "-D"]).arg(self.data()));
        self.wait_for_primary();
    }

    fn wait_for_primary(&self) {
        let primary = || self.ask("postgres", "SELECT pg_is_in_recovery()") == "f";
        assert!(wait(PATIENCE, primary), "the standby is not promoted: {}", self.log());
    }

    /// The URL of its database, for the user that owns everything.
    pub fn url(&self) -> String {
        self.url_as(USER, PASSWORD)
    }

    /// The URL of its database, for this user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/ids", self.port)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificates of a server that speaks TLS.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("a server of TLS")
    }

    /// Runs SQL in a database by `psql`, each statement for itself.
    pub fn sql(&self, database: &str, sql: &str) {
        run(&mut self.psql(database, sql));
    }

    /// Runs SQL and answers what it shows, without headings.
    pub fn ask(&self, database: &str, sql: &str) -> String {
        let mut psql = self.psql(database, sql);
        let output = psql.stdout(std::process::Stdio::piped()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Writes everything in a database into a file.
    pub fn dump(&self, database: &str) -> PathBuf {
        let file = self.folder.path().join(format!("{database}.sql"));
        let mut dump = program("pg_dump");
        run(dump.args(["--dbname", &self.conninfo(database), "--file"]).arg(&file));
        file
    }

    /// Runs what such a file says.
    pub fn load(&self, database: &str, file: &Path) {
        let mut psql = program("psql");
        psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
        run(psql.args(["--dbname", &self.conninfo(database), "--file"]).arg(file));
    }

    /// Begins to run SQL in a session of its own, which ends with what is answered.
    pub fn begin(&self, database: &str, sql: &str) -> Session {
        Session(spawn(self.psql(database, sql)).unwrap())
    }

    fn psql(&self, database: &str, sql: &str) -> Command {
        let mut psql = program("psql");
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["--set", "ON_ERROR_STOP=1", "--dbname", &self.conninfo(database)]);
        psql.args(["--command", sql]);
        psql
    }

    fn conninfo(&self, database: &str) -> String {
        let mode = if self.kind.tls { "require" } else { "disable" };
        format!(
            "host=127.0.0.1 port={} user={USER} password={PASSWORD} dbname={database} \
             sslmode={mode}",
            self.port
        )
    }

    fn end(&mut self, signal: i32) {
        if self.paused {
            self.pause(false);
        }
        let Some(mut child) = self.child.take() else { return };
        kill(child.id(), signal);
        let ended = wait(PATIENCE, || child.try_wait().is_ok_and(|status| status.is_some()));
        if !ended {
            drop(child.kill());
            drop(child.wait());
        }
    }

    fn signal(&self, signal: i32) {
        kill(self.pid(), signal);
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("archive")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing in it is needed any more.
        self.end(libc::SIGQUIT);
    }
}

/// A session of `psql` beside the test.
#[derive(Debug)]
pub struct Session(Child);

impl Session {
    /// Waits until it has ended.
    pub fn finish(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A port of this machine that nobody listens on.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn kill(pid: u32, signal: i32) {
    // SAFETY: the call takes two numbers; `pid` is that of a child that was not waited for, or of
    // a child of it.
    unsafe { libc::kill(libc::pid_t::try_from(pid).unwrap(), signal) };
}

/// The children of a process, by number.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    tasks.unwrap_or_default().split_whitespace().filter_map(|child| child.parse().ok()).collect()
}
