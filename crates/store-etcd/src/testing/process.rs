//! One etcd process: it ends when the value does, or the process that started it.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

/// A process of etcd.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    _alive: mpsc::Sender<()>,
}

/// Where `cargo xtask setup` puts the program of this version.
pub(super) fn program(version: &str) -> PathBuf {
    let file = format!("tools/etcd-{version}/etcd");
    // A test runs from its package, and its own program lies in the target folder.
    let test = std::env::current_exe().unwrap();
    let found = test.ancestors().map(|folder| folder.join(&file)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("etcd {version} is not in place: run `cargo xtask setup --all-etcd`")
    })
}

impl Process {
    pub(super) fn start(program: &Path, arguments: &[String], log: &Path) -> Process {
        let (program, arguments, log) = (program.to_owned(), arguments.to_vec(), log.to_owned());
        let (started, child) = mpsc::channel();
        let (alive, ended) = mpsc::channel::<()>();
        // The system kills the child when the thread that started it ends: this one lives as long
        // as the value, and no longer than the process, however that ends.
        thread::spawn(move || {
            started.send(spawn(&program, &arguments, &log)).unwrap();
            let _ = ended.recv();
        });
        Process { child: child.recv().unwrap(), _alive: alive }
    }

    pub(super) fn signal(&self, signal: i32) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: the process was started here and is not waited for yet, so the number is its own.
        let sent = unsafe { libc::kill(id, signal) };
        assert_eq!(sent, 0, "the process is there");
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(mut self) {
        self.signal(libc::SIGCONT);
        self.signal(libc::SIGTERM);
        self.child.wait().unwrap();
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn spawn(program: &Path, arguments: &[String], log: &Path) -> Child {
    let out = File::options().create(true).append(true).open(log).unwrap();
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        // Neither proxies nor settings of the machine have a say.
        .env_clear();
    if cfg!(target_arch = "aarch64") {
        // The oldest version wants to be told.
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    // SAFETY: `prctl` is the only call between fork and exec; it takes no lock and allocates
    // nothing.
    unsafe {
        command.pre_exec(|| {
            let set = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if set == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    command.spawn().unwrap()
}
