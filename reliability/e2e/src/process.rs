//! Programs: run to their end, or started so that they end with the runner, however that ends.
//!
//! Every command is written into `commands.log` of its scenario as a person would type it, with
//! what it said: the runbook is made of these lines.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::time::{pause, wait_for};

/// The folder of a scenario: what its programs write, and the log of its commands.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn make(path: PathBuf) -> Result<Folder> {
        fs::create_dir_all(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Folder { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Adds to the log of the scenario.
    pub(crate) fn note(&self, text: &str) {
        let log = OpenOptions::new().create(true).append(true).open(self.file("commands.log"));
        if let Ok(mut log) = log {
            // A log that cannot be written changes no verdict.
            let _ = writeln!(log, "{text}");
        }
    }

    /// Runs a program to its end, and answers what it printed.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String> {
        let (success, out, err) = self.try_run(command)?;
        if !success {
            bail!("`{}` failed: {}", shown(command), err.trim());
        }
        Ok(out)
    }

    /// Runs a program to its end, and answers whether it succeeded and what it printed.
    pub(crate) fn try_run(&self, command: &mut Command) -> Result<(bool, String, String)> {
        self.note(&format!("$ {}", shown(command)));
        let done = command
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("`{}` could not be started", shown(command)))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&done.stdout), text(&done.stderr));
        self.note(&format!("{out}{err}[{}]", done.status));
        Ok((done.status.success(), out, err))
    }

    /// Starts a program whose output goes into `NAME.log`.
    pub(crate) fn start(
        &self,
        name: &str,
        mut command: Command,
        last_signal: i32,
    ) -> Result<Process> {
        self.note(&format!("$ {} &", shown(&command)));
        let log =
            OpenOptions::new().create(true).append(true).open(self.file(&format!("{name}.log")))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let shown = shown(&command);
        let child = spawn(command, last_signal)
            .with_context(|| format!("`{shown}` could not be started"))?;
        Ok(Process { child: Some(child), name: name.to_owned() })
    }

    /// The end of `NAME.log`, for an error.
    pub(crate) fn last_words(&self, name: &str) -> String {
        let text = fs::read_to_string(self.file(&format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// An empty file there.
    pub(crate) fn touch(path: &Path) -> Result<()> {
        File::create(path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(())
    }
}

/// A program that runs until it is stopped, or this value is dropped, or the runner ends.
#[derive(Debug)]
pub(crate) struct Process {
    child: Option<Child>,
    name: String,
}

/// How long a program may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(20);

impl Process {
    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        match &mut self.child {
            Some(child) => child.try_wait().map_or(true, |status| status.is_some()),
            None => true,
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(&mut self, signal: i32) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        send(child.id(), signal);
        if wait_for(PATIENCE, || child.try_wait().is_ok_and(|status| status.is_some())) {
            return Ok(());
        }
        drop(child.kill());
        drop(child.wait());
        bail!("{} did not end within {} s of signal {signal}", self.name, PATIENCE.as_secs())
    }

    /// Ends it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        send(child.id(), libc::SIGTERM);
        for _ in 0..20 {
            if child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            pause(Duration::from_millis(50));
        }
        drop(child.kill());
        drop(child.wait());
    }
}

fn send(process: u32, signal: i32) {
    let Ok(process) = libc::pid_t::try_from(process) else { return };
    // SAFETY: the call takes two numbers; the process was started here and is not waited for yet,
    // so the number is its own.
    unsafe { libc::kill(process, signal) };
}

/// Has the kernel send this process a signal when the thread that started it ends.
pub(crate) fn end_with_parent(signal: i32) -> io::Result<()> {
    // SAFETY: the call takes numbers, takes no lock and allocates nothing: it may be made between
    // fork and exec.
    let set = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Starts a program that gets `last_signal` when the runner ends.
///
/// The kernel tells a child of the end of the *thread* that started it, so one thread that never
/// ends starts them all.
fn spawn(mut command: Command, last_signal: i32) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static STARTER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    // SAFETY: the closure makes one system call, which is safe after a fork.
    unsafe {
        command.pre_exec(move || end_with_parent(last_signal));
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
    let gone = || io::Error::other("the thread that starts programs is gone");
    let order = starter.lock().unwrap_or_else(PoisonError::into_inner);
    order.send((command, answer)).map_err(|_| gone())?;
    drop(order);
    answered.recv().map_err(|_| gone())?
}

/// What a person would type for this command.
fn shown(command: &Command) -> String {
    let quoted = |word: &OsStr| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+?&".contains(c);
        if word.chars().all(plain) { word.into_owned() } else { format!("'{word}'") }
    };
    let name = Path::new(command.get_program());
    let name = name.file_name().unwrap_or(command.get_program());
    let words = [name].into_iter().chain(command.get_args()).map(quoted);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_is_in_the_log_as_it_would_be_typed() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(place.path().join("a")).unwrap();
        assert_eq!(folder.run(Command::new("/bin/echo").arg("a b")).unwrap(), "a b\n");
        let error = folder.run(&mut Command::new("false")).unwrap_err().to_string();
        assert!(error.contains("`false` failed"), "{error}");
        let log = fs::read_to_string(folder.file("commands.log")).unwrap();
        assert!(log.starts_with("$ echo 'a b'\na b\n[exit status: 0]\n$ false\n"), "{log}");
    }

    #[test]
    fn a_program_that_was_started_is_ended() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::make(place.path().to_owned()).unwrap();
        let mut sleep = Command::new("sleep");
        sleep.arg("60");
        let mut process = folder.start("sleep", sleep, libc::SIGKILL).unwrap();
        assert!(!process.has_ended());
        process.stop(libc::SIGTERM).unwrap();
        assert!(process.has_ended());
    }
}
