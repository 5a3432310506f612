//! Leases of a fleet on real stores: `cargo xtask bench lease`, or one part of it by its name.
//!
//! Clusters, services and holders share this machine, so every figure is that of all of them
//! together. That no generator id was granted twice is proved before a figure is printed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at a surprise")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are for people"
)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use snowlease_bench_lease::{Herd, Lease, ask, renewal, seconds};
use snowlease_core::{Format, Layout};
use snowlease_lease::{LeaseStore, Release, RequestKey, Terms, os};
use snowlease_store_etcd::testing::{Cluster, Options};
use snowlease_store_etcd::{EtcdStore, Open};
use snowlease_store_postgres::testing::{Kind, Server};
use snowlease_store_postgres::{Init, PostgresStore};
use snowlease_store_remote::RemoteStore;

/// 5,000 machines, and what a fleet of the stated size may grow to.
const MACHINES: usize = 5_000;
const MOST_HOLDERS: usize = 8_192;

fn format() -> Format {
    let layout: Layout = "t41g13s9".parse().unwrap();
    Format::new(layout, 1, Format::DEFAULT.epoch_ms()).unwrap()
}

fn main() {
    if let Ok(address) = std::env::var(PART) {
        return herd_part(&address);
    }
    let parts: &[(&str, fn())] = &[
        ("herd-direct", herd_direct),
        ("crowd", crowd),
        ("replicas", replicas),
        ("release", release),
        ("postgres", postgres),
        ("outage", outage),
    ];
    let named: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for name in &named {
        assert!(parts.iter().any(|(part, _)| part == name), "{name}: there is no such part");
    }
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|wanted| wanted == name) {
            part();
        }
    }
}

fn line(what: &str, value: f64, unit: &str, note: &str) {
    println!("{what:<58} {value:>12.2} {unit:<8} {note}");
}

fn three_members() -> Cluster {
    let more = &["--auto-compaction-mode=periodic", "--auto-compaction-retention=1h"];
    let version = "3.7";
    Cluster::start(&Options { version, members: 3, tls: None, more })
}

fn make(cluster: &Cluster, prefix: &str, last: u64, format: Format) {
    let open = Open {
        create: true,
        format: Some(format),
        range: Some((0, last)),
        attempt: Duration::from_secs(30),
        ..Open::default()
    };
    EtcdStore::open(&cluster.address(prefix), &open).unwrap();
}

/// As the library opens it.
fn open(cluster: &Cluster, prefix: &str) -> Option<EtcdStore> {
    let how = Open { inspect: false, ..Open::default() };
    EtcdStore::open(&cluster.address(prefix), &how).map(|(store, _)| store).ok()
}

fn herd_direct() {
    let cluster = three_members();
    make(&cluster, "herd", (MOST_HOLDERS - 1) as u64, format());
    // Each store has a few files of its own: in one process they would be more than it may have.
    let address = cluster.address("herd").to_string();
    let parts: Vec<Child> = (0..PARTS)
        .map(|_| {
            let mut part = Command::new(std::env::current_exe().unwrap());
            part.env(PART, &address).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut times = Vec::new();
    let mut repeated = 0;
    for part in parts {
        let told = String::from_utf8(part.wait_with_output().unwrap().stdout).unwrap();
        let mut numbers = told.split_whitespace().map(|number| number.parse::<f64>().unwrap());
        repeated += numbers.next().unwrap() as u64;
        times.extend(numbers);
    }
    let held = open(&cluster, "herd").unwrap().list().unwrap();
    let held = held.iter().filter(|entry| entry.held).count();
    assert_eq!((times.len(), held), (MACHINES, MACHINES), "an id was granted twice");
    times.sort_by(f64::total_cmp);
    let note =
        format!("half after {:.1} s; {repeated} asks repeated; at most 15", times[times.len() / 2]);
    line("etcd, three members: 5,000 starters hold a lease after", times[MACHINES - 1], "s", &note);
}

/// How many processes the direct holders are spread over, and how each is told its store.
const PARTS: usize = 4;
const PART: &str = "SNOWLEASE_BENCH_HERD";

/// Some of the holders of [`herd_direct`], in a process of their own.
fn herd_part(address: &str) {
    let address = address.parse().unwrap();
    let how = Open { inspect: false, ..Open::default() };
    let connect = |_| EtcdStore::open(&address, &how).map(|(store, _)| store).ok();
    let herd = Herd::start(MACHINES / PARTS, format(), connect);
    assert_eq!(herd.exhausted, 0);
    println!("{}", herd.repeated);
    herd.leases.iter().for_each(|(_, took)| println!("{took}"));
}

fn crowd() {
    let cluster = three_members();
    make(&cluster, "crowd", 1_023, Format::DEFAULT);
    let herd = Herd::start(1_300, Format::DEFAULT, |_| open(&cluster, "crowd"));
    let held = open(&cluster, "crowd").unwrap().list().unwrap();
    let held = held.iter().filter(|entry| entry.held).count();
    assert_eq!((herd.leases.len(), herd.exhausted, held), (1_024, 276, 1_024));
    let note = format!("{} asks repeated; 276 told that all are in use", herd.repeated);
    line("etcd: 1,300 starters on 1,024 ids, all settled after", herd.had(1.0), "s", &note);
}

fn replicas() {
    let cluster = three_members();
    let format = format();
    make(&cluster, "fleet", (MOST_HOLDERS + 1) as u64 - 2, format);
    let url = cluster.address("fleet").to_string();
    let services = [Served::start(&url), Served::start(&url)];
    let connect = |number: usize| {
        let url = &services[number % 2].url;
        RemoteStore::new(url, Terms::DEFAULT.attempt()).ok()
    };
    let herd = Herd::start(MACHINES, format, connect);
    assert_eq!((herd.leases.len(), herd.exhausted), (MACHINES, 0));
    let note =
        format!("half after {:.1} s; {} asks repeated; at most 10", herd.had(0.5), herd.repeated);
    line("two replicas on etcd: 5,000 starters hold a lease after", herd.had(1.0), "s", &note);
    // The services have one each.
    let more = Herd::start(MOST_HOLDERS - MACHINES - 2, format, connect);
    assert_eq!(more.exhausted, 0);
    let leases: Vec<Lease> =
        herd.leases.into_iter().chain(more.leases).map(|(lease, _)| lease).collect();
    sustained(format, leases, &services);
}

/// Every holder renews once in 20 s.
fn sustained(format: Format, leases: Vec<Lease>, services: &[Served; 2]) {
    let span = Terms::DEFAULT.renew();
    let pace_ns = u64::try_from(span.as_nanos()).unwrap() / leases.len() as u64;
    let (done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = 32;
    let leases = Mutex::new(leases.into_iter().enumerate().collect::<Vec<_>>().into_iter());
    let cpu_before: Vec<f64> = services.iter().map(Served::cpu_s).collect();
    let began_ns = os::boot_ns();
    let late_ns = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let stores = services.each_ref().map(|service| {
                    RemoteStore::new(&service.url, Terms::DEFAULT.attempt()).unwrap()
                });
                loop {
                    let Some((number, lease)) = leases.lock().unwrap().next() else { return };
                    let due_ns = began_ns + number as u64 * pace_ns;
                    thread::park_timeout(Duration::from_nanos(
                        due_ns.saturating_sub(os::boot_ns()),
                    ));
                    let sent_ns = os::boot_ns();
                    match stores[number % 2].renew(&renewal(format, &lease)) {
                        Ok(_) => done.fetch_add(1, Ordering::Relaxed),
                        Err(_) => failed.fetch_add(1, Ordering::Relaxed),
                    };
                    late_ns.lock().unwrap().push(os::boot_ns() - sent_ns);
                }
            });
        }
    });
    let took = seconds(os::boot_ns() - began_ns);
    let (done, failed) = (done.into_inner(), failed.into_inner());
    assert_eq!(failed, 0, "renewals failed");
    let mut times = late_ns.into_inner().unwrap();
    times.sort_unstable();
    let note = format!(
        "{done} in {took:.1} s (due in {:.0}); p99 {:.1} ms",
        span.as_secs_f64(),
        times[times.len() * 99 / 100] as f64 / 1e6
    );
    line("two replicas on etcd: renewals sustained", done as f64 / took, "/s", &note);
    for (place, (service, before)) in services.iter().zip(cpu_before).enumerate() {
        let share = (service.cpu_s() - before) / took * 100.0;
        line(&format!("  processor of replica {}", place + 1), share, "% of one", "at most 25");
    }
}

fn release() {
    let cluster = three_members();
    make(&cluster, "release", 1_023, Format::DEFAULT);
    let store = open(&cluster, "release").unwrap();
    let (mut granted, mut renewed, mut released) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..200 {
        let key = RequestKey::random();
        let (grant, ns) = timed(|| store.acquire(&ask(Format::DEFAULT, &key)).unwrap());
        granted.push(ns);
        let mut lease = Lease { grant, token: key.token() };
        let (renewal, ns) = timed(|| store.renew(&renewal(Format::DEFAULT, &lease)).unwrap());
        renewed.push(ns);
        lease.grant.seq = renewal.seq;
        let ask = Release {
            generator_id: lease.grant.generator_id,
            token: lease.token.clone(),
            next: None,
            seq: lease.grant.seq,
            unused_from: lease.grant.from,
        };
        let (_, ns) = timed(|| store.release(&ask).unwrap());
        released.push(ns);
    }
    for (what, times) in [("acquire", granted), ("renew", renewed), ("release", released)] {
        line(
            &format!("etcd: one {what}, nothing else going on"),
            median_ms(times),
            "ms",
            "one round trip",
        );
    }
}

fn postgres() {
    let server = Server::start(Kind { fsync: true, ..Kind::default() });
    let address = server.url().parse().unwrap();
    let format = Format::new("t41g16s6".parse().unwrap(), 1, Format::DEFAULT.epoch_ms()).unwrap();
    let init = Init { format, range: Some((0, 65_535)), ..Init::default() };
    PostgresStore::init(&address, &init).unwrap();
    let how = snowlease_store_postgres::Open::default();
    let open = || PostgresStore::open(&address, &how).unwrap().0;
    let (connections, each) = (32_u32, 400_u32);
    let stores: Vec<PostgresStore> = (0..connections).map(|_| open()).collect();
    let (_, ns) = timed(|| {
        thread::scope(|scope| {
            for store in &stores {
                scope.spawn(move || {
                    for _ in 0..each {
                        store.acquire(&ask(format, &RequestKey::random())).unwrap();
                    }
                });
            }
        });
    });
    let rate = f64::from(connections * each) / seconds(ns);
    line("PostgreSQL: acquires, 32 connections, one each", rate, "/s", "synced; at least 3,000");
    let asks = 64_u32;
    let (_, ns) = timed(|| {
        for _ in 0..100 {
            let asks: Vec<_> = (0..asks).map(|_| ask(format, &RequestKey::random())).collect();
            for answer in stores[0].acquire_each(&asks) {
                answer.unwrap();
            }
        }
    });
    line(
        "PostgreSQL: acquires, one connection, 64 together",
        f64::from(asks * 100) / seconds(ns),
        "/s",
        "synced",
    );
    let ids: std::collections::BTreeSet<u64> = stores[0]
        .list()
        .unwrap()
        .iter()
        .filter(|entry| entry.held)
        .map(|entry| entry.generator_id)
        .collect();
    assert_eq!(ids.len(), (connections * each + asks * 100) as usize, "an id was granted twice");
}

/// Windows of 60 s that are renewed every 20 s: the store vanishes at the worst moment, right
/// before a renewal.
fn outage() {
    let mut cluster = Cluster::start(&Options::single("3.7"));
    make(&cluster, "outage", 7, Format::DEFAULT);
    let ids = snowlease::blocking::connect(&cluster.address("outage").to_string()).unwrap();
    thread::park_timeout(Duration::from_millis(17_500));
    assert_eq!(ids.status().outcomes.renewed, 0);
    cluster.kill(0);
    let began_ns = os::boot_ns();
    let mut last = ids.next_id().unwrap();
    while let Ok(id) = ids.next_id() {
        assert!(id > last);
        last = id;
        thread::park_timeout(Duration::from_millis(10));
    }
    let went_on = seconds(os::boot_ns() - began_ns);
    line("etcd gone right before a renewal: ids go on for", went_on, "s", "at least 37");
    cluster.launch(0);
    cluster.wait();
    let began_ns = os::boot_ns();
    while ids.next_id().is_err() {
        thread::park_timeout(Duration::from_millis(10));
    }
    line("  and again after its return", seconds(os::boot_ns() - began_ns), "s", "by themselves");
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let began_ns = os::boot_ns();
    let result = work();
    (result, os::boot_ns() - began_ns)
}

fn median_ms(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e6
}

/// A running service; dropping it kills it.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(store: &str) -> Served {
        let mut child = Command::new(program())
            .args(["serve", "--listen", "127.0.0.1:0", "--store", store])
            // All of them go by the one clock of this machine, whatever keeps it.
            .args(["--clock-gate", "warn"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                Some(format!("http://{}", line.split_once("http://")?.1.split(' ').next()?))
            })
            .expect("the service tells its address");
        // What it says from now on is for whoever watches.
        thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Served { child, url }
    }

    /// The processor time it has used, in seconds.
    fn cpu_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        // The kernel tells it in hundredths of a second.
        ticks / 100.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The program, of the same profile as this benchmark.
fn program() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let program = deps.ancestors().nth(2).unwrap().join("snowlease");
    let remedy = "build it with `cargo build --release -p snowlease-cli`";
    assert!(program.is_file(), "there is no {}: {remedy}", program.display());
    program
}
