//! The experiment: a lease service that is killed twice under four writers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::check;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many processes write.
    #[arg(long, default_value_t = 4)]
    processes: u64,
    /// How many orders each of them writes.
    #[arg(long, default_value_t = 1_000_000)]
    orders: u64,
    /// How many orders come in a second, for each process.
    #[arg(long, default_value_t = 50_000)]
    rate: u64,
    /// Where to put the files; a new directory under the system's temporary one otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The `snowlease` program; the one beside this program otherwise.
    #[arg(long)]
    snowlease: Option<PathBuf>,
    /// The address the lease service listens on.
    #[arg(long, default_value = "127.0.0.1:8701")]
    listen: String,
    /// Seconds a lease lasts. The second outage is longer than that.
    #[arg(long, default_value_t = 4)]
    lease: u64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("snowlease-orders-{}", std::process::id())),
    };
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let service = Service { program: program(options)?, dir: dir.clone(), options };
    let mut serving = service.start()?;
    let files: Vec<PathBuf> =
        (1..=options.processes).map(|n| dir.join(format!("orders-{n}.db"))).collect();
    let writers =
        files.iter().map(|file| writer(options, file)).collect::<Result<Vec<Running>>>()?;

    let all = options.orders * options.processes;
    for (share, outage) in
        [(10, Duration::from_secs(1)), (40, Duration::from_secs(options.lease + 2))]
    {
        wait_for(&writers, all * share / 100)?;
        serving.0.kill()?;
        serving.0.wait()?;
        println!("{} of {all} orders written: service killed for {outage:?}", written(&writers));
        thread::park_timeout(outage);
        serving = service.start()?;
        let done = written(&writers);
        ensure!(
            done < all,
            "every order was written before the outage was over: slow down by --rate"
        );
        println!("{done} of {all} orders written: service back");
    }
    for writer in writers {
        writer.finish()?;
    }
    let report = check::check(&files)?;
    ensure!(report.orders == all, "{} orders were written, {all} were asked for", report.orders);
    println!("{report}; no writer was restarted");
    println!("the files are in {}", dir.display());
    Ok(())
}

/// A child that does not outlive this program.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // Ended already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Service<'a> {
    program: PathBuf,
    dir: PathBuf,
    options: &'a Options,
}

impl Service<'_> {
    fn start(&self) -> Result<Guard> {
        let listen = &self.options.listen;
        ensure!(
            TcpStream::connect(listen).is_err(),
            "something listens on {listen} already: give another address with --listen"
        );
        let lease = self.options.lease;
        let child = Command::new(&self.program)
            .arg("serve")
            .args(["--listen", &self.options.listen])
            .args(["--store", &format!("sqlite:{}", self.dir.join("leases.db").display())])
            .args(["--lease", &format!("{lease}s"), "--renew", &format!("{}ms", lease * 333)])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let mut service = Guard(child);
        while TcpStream::connect(listen).is_err() {
            if let Some(status) = service.0.try_wait()? {
                bail!("the service ended with {status}");
            }
            thread::park_timeout(Duration::from_millis(5));
        }
        Ok(service)
    }
}

struct Running {
    child: Guard,
    written: &'static AtomicU64,
    reader: thread::JoinHandle<String>,
}

impl Running {
    fn finish(mut self) -> Result<()> {
        let status = self.child.0.wait()?;
        let last = self.reader.join().unwrap_or_default();
        ensure!(status.success(), "a writer ended with {status} after `{last}`");
        println!("writer {last}");
        Ok(())
    }
}

fn writer(options: &Options, file: &Path) -> Result<Running> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("write")
        .args(["--server", &format!("http://{}", options.listen)])
        .arg("--file")
        .arg(file)
        .args(["--orders", &options.orders.to_string(), "--lease", &options.lease.to_string()])
        .args(["--rate", &options.rate.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a writer")?;
    let stdout = child.stdout.take().context("a writer without output")?;
    // Lives as long as the program, which is what the reading thread needs.
    let written: &'static AtomicU64 = Box::leak(Box::default());
    let reader = thread::spawn(move || {
        let mut last = String::new();
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if let Some(count) = line.strip_prefix("written ").and_then(|n| n.parse().ok()) {
                written.store(count, Ordering::Relaxed);
            }
            last = line;
        }
        last
    });
    Ok(Running { child: Guard(child), written, reader })
}

fn written(writers: &[Running]) -> u64 {
    writers.iter().map(|writer| writer.written.load(Ordering::Relaxed)).sum()
}

/// Waits until the writers have written so many orders together.
fn wait_for(writers: &[Running], orders: u64) -> Result<()> {
    while written(writers) < orders {
        if writers.iter().all(|writer| writer.reader.is_finished()) {
            bail!("the writers ended after {} orders", written(writers));
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    Ok(())
}

/// The `snowlease` program, which cargo puts beside this one.
fn program(options: &Options) -> Result<PathBuf> {
    let program = match &options.snowlease {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("snowlease"),
    };
    ensure!(
        program.is_file(),
        "there is no {}: build it with `cargo build -p snowlease-cli` (and --release, as this one)",
        program.display()
    );
    Ok(program)
}
