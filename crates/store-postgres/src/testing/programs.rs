//! The programs of PostgreSQL, run so that they end with the tests that started them.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

/// The oldest major version that the store works with.
const OLDEST: u32 = 15;

/// Where Debian and others put each major version.
const ROOT: &str = "/usr/lib/postgresql";

/// The user that runs the server: it refuses to run as root.
#[derive(Clone, Copy, Debug)]
struct User {
    uid: u32,
    gid: u32,
}

/// The folder of the newest version that is installed; `None`: the programs are on the path.
fn newest() -> Option<PathBuf> {
    let versions = fs::read_dir(ROOT).ok()?.flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path().join("bin");
        (version >= OLDEST && folder.join("initdb").exists()).then_some((version, folder))
    });
    versions.max_by_key(|(version, _)| *version).map(|(_, folder)| folder)
}

/// A program of PostgreSQL, with nothing to read and nothing of it shown.
pub(super) fn program(name: &str) -> Command {
    let mut command = Command::new(newest().map_or(name.into(), |folder| folder.join(name)));
    command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(user) = unprivileged() {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// Runs a program to its end.
pub(super) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; install PostgreSQL {OLDEST} or later (Debian: postgresql)")
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
}

/// Starts a program that ends with this process, however that ends.
///
/// The kernel tells a child of the end of the *thread* that started it, so one thread that never
/// ends starts them all.
pub(super) fn spawn(mut command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static STARTER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    // SAFETY: the closure calls nothing but one system call, which is safe after a fork.
    unsafe {
        command.pre_exec(|| {
            // An immediate shutdown, which leaves no shared memory behind.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGQUIT);
            Ok(())
        });
    }
    let starter = STARTER.get_or_init(|| {
        let (order, orders) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                drop(answer.send(command.spawn()));
            }
        });
        Mutex::new(order)
    });
    let (answer, answered) = channel();
    let order = starter.lock().unwrap_or_else(PoisonError::into_inner);
    order.send((command, answer)).unwrap();
    drop(order);
    answered.recv().unwrap()
}

/// Gives a file to the user that runs the server.
pub(super) fn hand_over(path: &Path) {
    if let Some(user) = unprivileged() {
        chown(path, Some(user.uid), Some(user.gid)).unwrap();
    }
}

/// Copies a folder with all that is in it, for the user that runs the server.
pub(super) fn copy(from: &Path, to: &Path) {
    let mut command = Command::new("cp");
    run(command.arg("-a").arg(from).arg(to));
}

/// Whom to run the server as; `None`: as ourselves.
fn unprivileged() -> Option<User> {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(User { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user to run PostgreSQL as"))
}
