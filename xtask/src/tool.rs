//! Other programs: started from the root of the tree, shown before they run, judged by their exit.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the tree.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A program at the root of the tree.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// The cargo that started this process, so that one toolchain builds everything.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = program(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    // Set by `cargo run` for this process alone; handed on, they would look like changed inputs to
    // build scripts.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(name);
        }
    }
    command.args(arguments);
    command
}

/// The target directory, wherever it is: this program was built into `debug` there.
pub(crate) fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().context("the path of this program could not be read")?;
    let folder = own.ancestors().nth(2).context("this program lies in no target directory")?;
    Ok(folder.to_owned())
}

/// The built example `name`.
pub(crate) fn example(name: &str) -> Result<Command> {
    Ok(program(&target()?.join("debug/examples").join(name).to_string_lossy()))
}

/// Whether this is a run for others to rely on, with no one at the keyboard.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// Whether `command` can be started and succeeds; its output is dropped.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|exit| exit.success())
}

/// Runs `command` with its output passed through.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let shown = shown(&command);
    println!("$ {shown}");
    let exit = command.status().with_context(|| format!("`{shown}` could not be started"))?;
    if !exit.success() {
        bail!("`{shown}` failed: {exit}");
    }
    Ok(())
}

/// Runs `command` for what it prints on standard output.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let shown = shown(&command);
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("`{shown}` could not be started"))?;
    if !done.status.success() {
        bail!("`{shown}` failed: {}", done.status);
    }
    String::from_utf8(done.stdout).with_context(|| format!("`{shown}` printed no UTF-8"))
}

/// As [`output`], and shows each line as it comes, so that nothing is lost if the program fails in
/// the end.
pub(crate) fn output_shown(mut command: Command) -> Result<String> {
    let shown = shown(&command);
    println!("$ {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{shown}` could not be started"))?;
    let mut text = String::new();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.with_context(|| format!("`{shown}` printed no UTF-8"))?;
        println!("{line}");
        text += &line;
        text.push('\n');
    }
    let exit = child.wait()?;
    if !exit.success() {
        bail!("`{shown}` failed: {exit}");
    }
    Ok(text)
}

/// What a person would type for `command`.
fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let arguments = command.get_args().map(|argument| quoted(&argument.to_string_lossy()));
    let words = variables.chain([name.to_string_lossy().into_owned()]).chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.contains(' ') { format!("'{word}'") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = program("/usr/bin/env");
        command.args(["a", "b c"]).env("FLAGS", "-D warnings").env_remove("GONE");
        assert_eq!(shown(&command), "FLAGS='-D warnings' env a 'b c'");
    }

    #[test]
    fn a_failed_program_is_an_error_that_names_it() {
        assert!(!succeeds(program("false")));
        assert!(run(program("false")).unwrap_err().to_string().contains("`false` failed"));
        assert!(output_shown(program("false")).is_err());
        let missing = run(program("no-such-program")).unwrap_err().to_string();
        assert!(missing.contains("could not be started"));
    }
}
