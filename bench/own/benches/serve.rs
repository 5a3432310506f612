//! The service, started as a user starts it: `cargo xtask bench own --bench serve`.
//!
//! How long until the first id, how much memory at rest and after work, and what a request costs.
//! The ids it is sent are proved distinct and ascending.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at a surprise")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use snowlease_bench::{Figure, Stolen, prove};
use snowlease_core::Id;
use snowlease_lease::os;

const STARTS: usize = 11;
const REQUESTS: usize = 2_000;

fn main() {
    let stolen = Stolen::watch();
    let mut ready = Figure::new("from start to the first id, a new store", "ms");
    let mut again = Figure::new("from start to the first id, after kill -9", "ms");
    let mut rest = Figure::new("resident memory at rest", "MiB");
    let mut worked = Figure::new("resident memory after a million ids", "MiB");
    let mut one = Figure::new("GET /ids, one id, one connection", "µs");
    let mut many = Figure::new("GET /ids?n=10000 as bytes, one connection", "µs");
    let folder = std::env::temp_dir().join(format!("snowlease-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut all = Vec::new();
    for start in 0..STARTS {
        let store = folder.join(format!("{start}.db"));
        let (first, took_ms) = Served::start(&store);
        ready.add(took_ms);
        rest.add(first.resident_mib());
        drop(first); // killed, not stopped
        let (served, took_ms) = Served::start(&store);
        again.add(took_ms);
        let mut peer = served.connect();
        for _ in 0..REQUESTS {
            let began_ns = os::boot_ns();
            let ids = peer.ids(1);
            one.add((os::boot_ns() - began_ns) as f64 / 1e3);
            all.extend(ids);
        }
        for _ in 0..100 {
            let began_ns = os::boot_ns();
            let ids = peer.ids(10_000);
            many.add((os::boot_ns() - began_ns) as f64 / 1e3);
            all.extend(ids);
        }
        worked.add(served.resident_mib());
        prove("ids over HTTP", &all);
        all.clear();
    }
    std::fs::remove_dir_all(&folder).unwrap();
    println!("{STARTS} starts; median, [middle half]; ids proved distinct and ascending");
    for figure in [&mut ready, &mut again, &mut rest, &mut worked, &mut one, &mut many] {
        println!("{}", figure.line());
    }
    println!("{}", stolen.line());
}

/// A running service; dropping it kills it.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    /// Starts a service, and tells after how many ms it had answered with an id.
    fn start(store: &std::path::Path) -> (Served, f64) {
        let began_ns = os::boot_ns();
        let mut child = Command::new(program())
            .args(["serve", "--listen", "127.0.0.1:0", "--store"])
            .arg(format!("sqlite:{}", store.display()))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.split_once("http://")?.1.split(' ').next()?.parse().ok())
            .expect("the service tells its address");
        let served = Served { child, address };
        prove("first ids", &served.connect().ids(2));
        (served, (os::boot_ns() - began_ns) as f64 / 1e6)
    }

    fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer(BufReader::new(stream))
    }

    fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// One kept connection.
struct Peer(BufReader<TcpStream>);

impl Peer {
    fn ids(&mut self, n: usize) -> Vec<Id> {
        let request = format!(
            "GET /ids?n={n} HTTP/1.1\r\nHost: x\r\nAccept: application/octet-stream\r\n\r\n"
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200"), "{line}");
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            self.0.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        let id = |bytes: &[u8]| Id::new(u64::from_be_bytes(bytes.try_into().unwrap())).unwrap();
        let ids: Vec<Id> = body.chunks_exact(8).map(id).collect();
        assert_eq!(ids.len(), n);
        ids
    }
}

/// The program, which `cargo xtask bench` has built beside this one.
fn program() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let program = deps.ancestors().nth(2).unwrap().join("snowlease");
    let remedy = "build it with `cargo build --release -p snowlease-cli`";
    assert!(program.is_file(), "there is no {}: {remedy}", program.display());
    program
}
