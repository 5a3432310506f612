//! Every chore of this project: the one list of commands, for a desk and for CI.
//!
//! Read `VERBS` below for what there is; each verb is a file of its own name.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that prints is what this is")]

mod bench;
mod check;
mod counts;
mod deny;
mod e2e;
mod etcd;
mod generated;
mod setup;
mod stage;
mod test;
mod tidy;
mod tool;
mod usage;

use std::process::ExitCode;

use usage::{Usage, unknown};

/// One chore: its name, what it is for, how to call it.
struct Verb {
    name: &'static str,
    line: &'static str,
    example: &'static str,
    run: fn(&[String]) -> anyhow::Result<()>,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "test",
        line: "all set-up and all tests, timed, within a budget",
        example: "cargo xtask test --only loom",
        run: test::run,
    },
    Verb {
        name: "check",
        line: "format, lints, tidiness, docs, generated files, licences; never writes",
        example: "cargo xtask check --only clippy",
        run: check::run,
    },
    Verb {
        name: "tidy",
        line: "the rules no compiler holds: imports between rooms, files, promises, links",
        example: "cargo xtask tidy",
        run: tidy::run,
    },
    Verb {
        name: "codegen",
        line: "writes the generated files that `check` compares",
        example: "cargo xtask codegen",
        run: generated::write,
    },
    Verb {
        name: "bench",
        line: "own (the usual), lease, day, peers or databases; --record puts it into the docs; \
               what else follows goes to cargo bench",
        example: "cargo xtask bench peers --record",
        run: bench::run,
    },
    Verb {
        name: "counts",
        line: "instructions of the hot functions, against what they may take",
        example: "cargo xtask counts --record",
        run: counts::run,
    },
    Verb {
        name: "e2e",
        line: "real processes, real stores, put back to an older state under them; takes minutes",
        example: "cargo xtask e2e etcd-3.4-same-token --jobs 3",
        run: e2e::run,
    },
    Verb {
        name: "setup",
        line: "what tests need from the machine: checks it, installs it where that is allowed",
        example: "cargo xtask setup",
        run: setup::run,
    },
    Verb { name: "help", line: "this list", example: "cargo xtask help", run: help },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

fn dispatch(arguments: &[String]) -> anyhow::Result<()> {
    let Some((name, rest)) = arguments.split_first() else {
        return help(&[]);
    };
    let name = if matches!(name.as_str(), "-h" | "--help") { "help" } else { name };
    match VERBS.iter().find(|verb| verb.name == name) {
        Some(verb) => (verb.run)(rest),
        None => Err(unknown("verb", name, VERBS.iter().map(|verb| verb.name)).into()),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "has the type of every verb")]
fn help(_: &[String]) -> anyhow::Result<()> {
    println!("cargo xtask VERB\n");
    for verb in VERBS {
        println!("  {:8} {}\n           {}", verb.name, verb.line, verb.example);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_verb_is_a_usage_error_that_names_the_nearest() {
        let error = dispatch(&["tset".to_owned()]).unwrap_err();
        assert!(error.is::<Usage>());
        assert!(error.to_string().contains("did you mean `test`"), "{error}");
    }

    #[test]
    fn each_example_calls_its_own_verb() {
        for verb in VERBS {
            assert!(verb.example.starts_with(&format!("cargo xtask {}", verb.name)));
        }
    }
}
