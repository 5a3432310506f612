//! Programs of this tree, ended with the test that started them.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use std::os::unix::process::CommandExt;

/// The program of this crate.
pub(crate) fn holder() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_clock-holder"))
}

/// The command line of this tree, without the configuration of who runs the tests.
pub(crate) fn snowlease() -> Command {
    let program = holder().with_file_name("snowlease");
    assert!(
        program.is_file(),
        "{} is missing: `cargo build -p snowlease-cli`, or `cargo xtask test`",
        program.display()
    );
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SNOWLEASE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A program that is killed when this value is dropped, or its test ends.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Process {
        // SAFETY: the closure makes one system call, which may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Process { child: command.spawn().expect("the program starts") }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let process = libc::pid_t::try_from(self.child.id()).expect("it is one");
        // SAFETY: the call takes two numbers; the process was started here and is not waited for
        // yet, so the number is its own.
        let sent = unsafe { libc::kill(process, signal) };
        assert_eq!(sent, 0, "the process is gone");
    }

    /// Stands still from here on, all of its threads.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_none()
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What libfaketime leaves behind of a process that is killed.
        for name in ["faketime_shm_", "sem.faketime_sem_"] {
            let _ = fs::remove_file(format!("/dev/shm/{name}{}", self.child.id()));
        }
    }

    /// How often its threads have given up the processor by themselves, and the ns they had it.
    pub(crate) fn toil(&self) -> (u64, u64) {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let each = threads.flatten().map(|thread| {
            // A thread that has ended meanwhile toils no more.
            let text =
                |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            let number = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
            let status = text("status");
            let wakes = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
            let schedule = text("schedstat");
            let ran_ns = schedule.split_whitespace().next().map_or(0, number);
            (wakes.map_or(0, number), ran_ns)
        });
        each.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
