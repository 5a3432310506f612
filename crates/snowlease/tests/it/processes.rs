//! Faults that take a process of its own: one that is stopped, one that forks.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails as its test does")]

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use snowlease::{ConnectError, Connector, Id, Ids, Refusal};
use snowlease_lease::LeaseStore;
use snowlease_store_sqlite::{Open, SqliteStore};

use crate::served::{Served, draw, short};

const URL: &str = "SNOWLEASE_TEST_URL";
const FOLDER: &str = "SNOWLEASE_TEST_FOLDER";

fn connect(url: &str) -> Ids {
    try_to_connect(url).unwrap()
}

fn try_to_connect(url: &str) -> Result<Ids, ConnectError> {
    let ids = Connector::new(url).name("process").terms(short());
    ids.ready_within(Duration::from_secs(10)).connect_blocking()
}

/// Runs one test of this file as a process of its own; it does its work only then.
fn process(test: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// A holder in a process of its own; killed when the test is over, however it went.
struct Holder {
    child: Child,
    asks: ChildStdin,
    lines: Receiver<String>,
}

impl Holder {
    fn start(url: &str) -> Holder {
        let mut child = process("processes::holder")
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let asks = child.stdin.take().unwrap();
        Holder { child, asks, lines }
    }

    /// Has it draw one id, as soon as it runs.
    fn ask(&mut self) {
        self.asks.write_all(b"next\n").unwrap();
    }

    /// What comes after `word` in its next line that begins so, or in one with `or`.
    fn said(&self, words: [&str; 2]) -> (usize, String) {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(20)).unwrap();
            for (place, word) in words.iter().enumerate() {
                if let Some(rest) = line.strip_prefix(word) {
                    return (place, rest.to_owned());
                }
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), pid.as_str()]).status();
        assert!(sent.unwrap().success());
    }

    /// Stops it, and waits until each of its threads stands still.
    fn stop(&self) {
        self.signal("STOP");
        let stands_still = |task: fs::DirEntry| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        };
        let tasks = format!("/proc/{}/task", self.child.id());
        while !fs::read_dir(&tasks).unwrap().all(|task| stands_still(task.unwrap())) {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: holds a lease and draws an id for each line that it reads.
#[test]
fn holder() {
    let Ok(url) = env::var(URL) else { return };
    if env::var_os(FOLDER).is_some() {
        return;
    }
    let ids = connect(&url);
    println!("\nholds {}", ids.status().window.unwrap().generator_id());
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        match ids.next_id() {
            Ok(id) => println!("id {id}"),
            Err(refusal) => println!("refused {}", refusal.code()),
        }
    }
}

/// Case: a process that had stood still for longer than its lease gave one more id before it
/// noticed, and somebody else had its generator id by then.
#[test]
fn the_first_call_after_a_stop_beyond_the_window_is_refused() {
    let served = Served::start(0, short());
    let mut holder = Holder::start(&served.url());
    assert_eq!(holder.said(["holds ", "holds "]).1, "0");
    let answer = ["id ", "refused "];
    holder.ask();
    let (_, before) = holder.said(answer);
    holder.stop();
    // Read before anything else when it goes on.
    holder.ask();
    // There is one generator id: whoever gets it has that of the process that stands still.
    let heir = connect(&served.url());
    let theirs = draw(&heir, 5_000);
    holder.signal("CONT");
    let (refused, why) = holder.said(answer);
    assert_eq!(refused, 1, "id {why} was given out after the lease");
    assert!(["window-end", "no-lease"].contains(&why.as_str()), "{why}");
    // It goes on by itself once there is a generator id again.
    heir.shutdown_blocking().unwrap();
    let after = (0..1_000).find_map(|_| {
        crate::served::pass(10);
        holder.ask();
        let (refused, id) = holder.said(answer);
        (refused == 0).then_some(id)
    });
    let [before, after] = [before, after.unwrap()].map(|id| id.parse::<u64>().unwrap());
    let last = theirs.iter().map(|id| id.get()).max().unwrap();
    assert!(before < theirs[0].get() && last < after, "{before}, {last}, {after}");
}

/// Case: two processes that were started at the same instant under one name were both given the
/// slot of that name.
#[test]
fn processes_of_one_name_that_start_together_share_no_id() {
    let served = Served::start(7, short());
    let mut together: Vec<Holder> = (0..6).map(|_| Holder::start(&served.url())).collect();
    let held: HashSet<String> = together.iter().map(|one| one.said(["holds "; 2]).1).collect();
    assert_eq!(held.len(), 6);
    let mut seen = HashSet::new();
    for _ in 0..50 {
        together.iter_mut().for_each(Holder::ask);
        for one in &together {
            let (refused, id) = one.said(["id ", "refused "]);
            assert_eq!(refused, 0, "{id}");
            assert!(seen.insert(id.clone()), "{id} was drawn twice");
        }
    }
    let leases = served.store.list().unwrap();
    assert!(leases.iter().all(|lease| lease.holder.name() == "process"));
    // Renewing as well, each for itself.
    crate::served::pass(1_600);
    assert_eq!(served.held(), 6);
    together.iter_mut().for_each(Holder::ask);
    assert!(together.iter().all(|one| one.said(["id ", "refused "]).0 == 0));
}

/// Not a test of its own: a server that connects, then forks its workers.
#[test]
fn prefork() {
    let (Ok(url), Some(folder)) = (env::var(URL), env::var_os(FOLDER)) else { return };
    let ids = connect(&url);
    let mut mine = draw(&ids, 100);
    let mut workers = Vec::new();
    for n in 0..2 {
        // SAFETY: the threads of this process hold no lock that the child takes: the keeper and the
        // harness stand still. The child leaves without running anything of its parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let path = Path::new(&folder).join(n.to_string());
            // The harness of the parent is not the one to unwind to.
            let told = catch_unwind(AssertUnwindSafe(|| work(&ids, &url, &path)));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(told.is_err())) };
        }
        workers.push(child);
    }
    mine.extend(draw(&ids, 1_000));
    write(&Path::new(&folder).join("parent"), &mine);
    for worker in workers {
        let mut status = -1;
        // SAFETY: `worker` is a process made above, and `status` a valid place for its end.
        unsafe { libc::waitpid(worker, &raw mut status, 0) };
        assert_eq!(status, 0, "a worker failed");
    }
    assert!(ids.next_id().is_ok(), "the parent goes on");
}

/// What a worker does: nothing with what its parent had, all with a connection of its own.
fn work(inherited: &Ids, url: &str, path: &Path) {
    for _ in 0..3 {
        assert_eq!(inherited.next_id(), Err(Refusal::Forked));
        assert_eq!(inherited.next_ids(10).unwrap_err(), Refusal::Forked);
    }
    match try_to_connect(url) {
        Ok(ids) => write(path, &draw(&ids, 1_000)),
        Err(error) => fs::write(path.with_extension("refused"), error.to_string()).unwrap(),
    }
    assert_eq!(inherited.next_id(), Err(Refusal::Forked));
}

fn write(path: &Path, ids: &[Id]) {
    let lines: Vec<String> = ids.iter().map(ToString::to_string).collect();
    fs::write(path, lines.join("\n")).unwrap();
}

/// What the processes of a server drew, each id another one than all others, and why some drew
/// none.
fn drawn_by_a_prefork_server(url: &str) -> (usize, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let run = process("processes::prefork").env(URL, url).env(FOLDER, folder.path()).output();
    let run = run.unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let (mut seen, mut refused) = (HashSet::new(), Vec::new());
    for file in fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if path.extension().is_some() {
            refused.push(text);
            continue;
        }
        for id in text.lines() {
            assert!(seen.insert(id.to_owned()), "{} drew {id} too", path.display());
        }
    }
    (seen.len(), refused)
}

/// Case: a server connected and then forked its workers, and each drew the ids of the others.
#[test]
fn workers_of_a_prefork_server_are_refused_until_they_connect_themselves() {
    let served = Served::start(7, short());
    assert_eq!(drawn_by_a_prefork_server(&served.url()), (3_100, vec![]));
    // The workers gave no lease back, neither their own nor that of their parent.
    assert_eq!(served.store.list().unwrap().len(), 3);
}

/// Case: a worker that connected to the same file was given its parent's open store, and drew the
/// ids of its parent and of the other workers.
#[test]
fn workers_of_a_prefork_server_do_not_share_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ids.db");
    // One id for each of them.
    let open = Open { create: true, range: Some((0, 2)), ..Open::default() };
    drop(SqliteStore::open(&file, &open).unwrap());
    let (drawn, refused) = drawn_by_a_prefork_server(&format!("sqlite:{}", file.display()));
    assert_eq!((drawn, refused.len()), (1_100, 2), "{refused:?}");
    assert!(refused.iter().all(|why| why.contains("in use")), "{refused:?}");
}
