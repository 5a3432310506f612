//! Redis, as the benchmark starts it, and the little of its protocol that `INCR` takes.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use snowlease_store_postgres::testing::wait;
use tempfile::TempDir;

const MISSING: &str = "redis-server does not start: apt-get install redis-server util-linux";

/// Stops the run at once, rather than after its first half, if Redis is not installed.
pub(crate) fn demand() {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    assert!(version.is_ok_and(|status| status.success()), "{MISSING}");
}

/// A server of its own in a folder of its own, gone with this value.
#[derive(Debug)]
pub(crate) struct Redis {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    /// As it comes, or with each write synced to the disk before it is answered.
    pub(crate) fn start(synced: bool) -> Redis {
        let folder = tempfile::tempdir().expect("a folder");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = free.local_addr().expect("a port").port();
        drop(free);
        // By way of setpriv, which has the kernel end it with this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "redis-server", "--bind", "127.0.0.1", "--port"]);
        command.arg(port.to_string()).arg("--dir").arg(folder.path());
        if synced {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect(MISSING);
        let redis = Redis { child, port, _folder: folder };
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        assert!(wait(Duration::from_secs(10), listens), "{MISSING}");
        redis
    }

    pub(crate) fn version() -> String {
        let told = Command::new("redis-server").arg("--version").output().expect(MISSING);
        let told = String::from_utf8_lossy(&told.stdout);
        let version = told.split_whitespace().find_map(|word| word.strip_prefix("v="));
        version.unwrap_or("of unknown version").to_owned()
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let answers = BufReader::new(stream.try_clone().expect("a socket"));
        Connection { stream, answers, line: Vec::new() }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Nothing in it is needed any more.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The request, as a client library sends it.
pub(crate) const INCR: &[u8] = b"*2\r\n$4\r\nINCR\r\n$3\r\nids\r\n";

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Connection {
    /// Sends one request, or several at once.
    pub(crate) fn send(&mut self, requests: &[u8]) {
        self.stream.write_all(requests).expect("a request to be sent");
    }

    /// The number that the next answer is.
    pub(crate) fn number(&mut self) -> u64 {
        self.line.clear();
        self.answers.read_until(b'\n', &mut self.line).expect("an answer");
        let text = str::from_utf8(&self.line).unwrap_or_default().trim_end();
        let number = text.strip_prefix(':').and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("Redis answered {text:?}"))
    }
}
