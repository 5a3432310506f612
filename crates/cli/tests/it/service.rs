//! A running `snowlease serve` of a test, in a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde::de::DeserializeOwned;
use snowlease_lease::os;

use crate::run::command;

/// How long anything may take before the test fails: CI machines are slow.
const PATIENCE: Duration = Duration::from_secs(30);

/// Short leases, so that no test waits long for one.
const TERMS: [&str; 4] = ["--lease", "3s", "--renew", "1s"];

/// A service; killed when the test is over, however it went.
#[derive(Debug)]
pub(crate) struct Service {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    pub(crate) url: String,
}

/// `serve` on a free port and short terms, in `folder`.
pub(crate) fn serve(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(TERMS).args(arguments).current_dir(folder);
    command
}

impl Service {
    /// Starts one and waits until it serves.
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Service {
        Service::of(&mut serve(folder, arguments))
    }

    /// As [`start`](Self::start), by a command of one's own.
    pub(crate) fn of(command: &mut Command) -> Service {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the executable starts");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut service = Service { child, lines, said: Vec::new(), url: String::new() };
        let line = service.line_with("serving ids on http://");
        let url = line.split("serving ids on ").nth(1).and_then(|rest| rest.split(' ').next());
        service.url = url.expect("the line names its URL").to_owned();
        service
    }

    /// The next line on stderr that has `words`.
    pub(crate) fn line_with(&mut self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                panic!("{error}: no line with {words:?} in {:?}", self.said)
            });
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    /// What was said on stderr until now.
    pub(crate) fn lines_so_far(&mut self) -> String {
        self.said.extend(self.lines.try_iter());
        self.said.join("\n")
    }

    /// Everything said on stderr, once it has ended.
    pub(crate) fn said(mut self) -> String {
        self.end();
        self.said.extend(self.lines.iter());
        self.said.join("\n")
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        let mut answer =
            ureq::get(format!("{}{path}", self.url)).call().expect("the service answers");
        let text = answer.body_mut().read_to_string().expect("the answer is whole");
        serde_json::from_str(&text).expect("the answer is JSON")
    }

    /// The generator id it issues under.
    pub(crate) fn generator_id(&self) -> u64 {
        let id = self.get::<snowlease_wire::Ids>("/ids").ids.remove(0);
        self.get::<snowlease_wire::Decoded>(&format!("/ids/{id}/decode"))
            .generator_id
            .expect("its ids have one")
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), pid.as_str()]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until_ns = os::boot_ns() + u64::try_from(PATIENCE.as_nanos()).expect("it is short");
        loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status;
            }
            assert!(os::boot_ns() < until_ns, "it does not end: {:?}", self.said);
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Its memory in RAM, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("Linux tells");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("it is a number")
    }

    /// How often its threads have gone to sleep so far.
    pub(crate) fn wakes(&self) -> u64 {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).expect("it runs").flatten();
        let of_thread = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or_default()
        };
        tasks.map(of_thread).sum()
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) {
    let until_ns = os::boot_ns() + u64::try_from(PATIENCE.as_nanos()).expect("it is short");
    while !holds() {
        assert!(os::boot_ns() < until_ns, "it does not come to that");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}
