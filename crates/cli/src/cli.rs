//! The command tree: from what was typed to a verb, and from how it went to an exit code.
//!
//! Exit codes: 0 done, 1 failed, 2 the call or its configuration is wrong and nothing was done. An
//! error is one line on stderr that says what to do, and stdout stays empty.

use std::process::ExitCode;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::output::{self, ReaderGone};
use crate::usage::Usage;
use crate::{decode, layout, lease, next, plan, range, serve, store};

/// Shown where no verb is given: enough to get going, and an exit code of 0, since nothing went
/// wrong.
const START: &str = "\
Snowlease hands out unique, roughly time-ordered 64-bit ids from leased generator ids.

  snowlease serve          start an id service on http://127.0.0.1:8700
  snowlease next -n 10     get ten ids from it
  snowlease decode ID      take an id apart: its time, generator id and sequence

Every verb has examples: snowlease help, snowlease serve --help";

/// Unique, roughly time-ordered 64-bit ids from leased generator ids.
#[derive(Debug, Parser)]
#[command(name = "snowlease", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 the call or its configuration is wrong.")]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Serve(serve::Serve),
    Next(next::Next),
    Decode(decode::Decode),
    Range(range::Range),
    Layout(layout::Layout),
    Lease(lease::Lease),
    Store(store::Store),
    Plan(plan::Plan),
}

/// Does what the command line says.
pub(crate) fn run() -> ExitCode {
    let verb = match Cli::try_parse() {
        Ok(cli) => cli.verb,
        Err(error) => return not_parsed(&error),
    };
    let done = match verb {
        None => output::answer(START),
        Some(Verb::Serve(verb)) => verb.run(),
        Some(Verb::Next(verb)) => verb.run(),
        Some(Verb::Decode(verb)) => verb.run(),
        Some(Verb::Range(verb)) => verb.run(),
        Some(Verb::Layout(verb)) => verb.run(),
        Some(Verb::Lease(verb)) => verb.run(),
        Some(Verb::Store(verb)) => verb.run(),
        Some(Verb::Plan(verb)) => verb.run(),
    };
    exit_code(done)
}

fn exit_code(done: Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    if error.is::<ReaderGone>() {
        return ExitCode::SUCCESS;
    }
    output::error(&format!("{error:#}"));
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

/// Help and version are answers; anything else is told in one line.
fn not_parsed(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Written by clap, which knows whether the terminal takes colour.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    output::error(&in_one_line(&error.render().to_string()));
    ExitCode::from(2)
}

/// What clap says in paragraphs: the fault, its tips, and which help to read.
fn in_one_line(rendered: &str) -> String {
    let (said, usage) = rendered.split_once("\nUsage: ").unwrap_or((rendered, ""));
    let mut line = String::new();
    for part in said.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with("For more information") {
            continue;
        }
        if !line.is_empty() {
            line.push_str(if part.starts_with("tip:") { "; " } else { " " });
        }
        line.push_str(part.strip_prefix("tip: ").unwrap_or(part));
    }
    let command = usage
        .split_whitespace()
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        .collect::<Vec<_>>()
        .join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    // Where the fault is a value, clap names no usage: the line itself says what to write.
    if command.is_empty() { line.to_owned() } else { format!("{line} (see {command} --help)") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_shows_examples() {
        fn check(command: &clap::Command, path: &str) {
            for verb in command.get_subcommands() {
                let path = format!("{path} {}", verb.get_name());
                if verb.has_subcommands() {
                    check(verb, &path);
                }
                if verb.has_subcommands() && verb.is_subcommand_required_set() {
                    continue;
                }
                let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains(&format!("  {path}")), "{path} has no example of itself");
            }
        }
        check(&Cli::command(), "snowlease");
    }

    #[test]
    fn paragraphs_become_one_line() {
        let error = Cli::try_parse_from(["snowlease", "decode", "--lay", "1"]).unwrap_err();
        let line = in_one_line(&error.render().to_string());
        assert_eq!(
            line,
            "unexpected argument '--lay' found; a similar argument exists: '--layout' \
             (see snowlease decode --help)"
        );
        let error = Cli::try_parse_from(["snowlease", "range"]).unwrap_err();
        let line = in_one_line(&error.render().to_string());
        assert_eq!(
            line,
            "the following required arguments were not provided: --from <TIME> --to <TIME> \
             (see snowlease range --help)"
        );
    }
}
