//! Runs the executable to its end, away from the environment and the folder of whoever runs the
//! tests.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// The executable, with nothing configured.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snowlease"));
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SNOWLEASE_") {
            command.env_remove(name);
        }
    }
    command
}

/// How a run went.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            code: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).expect("stdout is text"),
            err: String::from_utf8(output.stderr).expect("stderr is text"),
        }
    }
}

pub(crate) fn run(arguments: &[&str]) -> Run {
    finish(&mut command(arguments))
}

pub(crate) fn finish(command: &mut Command) -> Run {
    command.output().expect("the executable starts").into()
}

pub(crate) fn run_with_input(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input = input.to_vec();
    // On a thread, so that neither side waits for the other with full pipes.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let run = child.wait_with_output().expect("it ends").into();
    // A run that refuses its arguments reads nothing.
    let _ = writer.join().expect("no panic");
    run
}

impl Run {
    /// It worked and had nothing to say beside its answer.
    #[track_caller]
    pub(crate) fn answer(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// It answered in JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.answer()).expect("one JSON object")
    }

    /// It failed with one line on stderr that has all of `words`, and nothing on stdout.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, words: &[&str]) {
        assert_eq!(self.out, "", "stdout stays empty on failure: {}", self.err);
        assert_eq!(self.code, code, "{}", self.err);
        assert_eq!(self.err.trim_end().lines().count(), 1, "one line: {}", self.err);
        assert!(self.err.starts_with("error: "), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not said: {}", self.err);
        }
    }
}
