//! Instructions of the hot functions, counted by valgrind: a figure that a busy machine cannot
//! spoil, and so one that a change can be held to.
//!
//! `bench/counts/expected.toml` says how many a call may take. More than that, or so much less that
//! the bound has lost its teeth, fails; `cargo xtask counts --record` writes what is.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::setup::{self, Need};
use crate::tool;
use crate::usage::only;

const EXPECTED: &str = "bench/counts/expected.toml";

const HEAD: &str = "# Instructions for a thousand ids; `cargo xtask counts --record` writes it.\n";

pub(crate) const VALGRIND: Need = Need {
    program: "valgrind",
    package: "valgrind",
    reason: "counts the instructions of the hot path",
};

type Counts = BTreeMap<String, u64>;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (flags, rest): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == "--record");
    only(&rest, [].into_iter())?;
    if flags.is_empty() {
        return check();
    }
    let counts = measured()?;
    let text = toml::to_string(&counts).context("counts are plain numbers")?;
    fs::write(tool::root().join(EXPECTED), format!("{HEAD}{text}"))
        .with_context(|| format!("{EXPECTED} could not be written"))
}

/// Fails if a function takes more instructions than it may.
pub(crate) fn check() -> Result<()> {
    let text = fs::read_to_string(tool::root().join(EXPECTED))
        .with_context(|| format!("{EXPECTED} could not be read"))?;
    let expected: Counts = toml::from_str(&text).with_context(|| EXPECTED.to_owned())?;
    let faults = compared(&expected, &measured()?);
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "for a thousand ids, {}; if that is meant, or the compiler is another one: cargo xtask \
         counts --record",
        faults.join("; ")
    );
}

/// What differs by more than a compiler's whim.
fn compared(expected: &Counts, measured: &Counts) -> Vec<String> {
    let mut faults: Vec<String> = expected
        .keys()
        .filter(|name| !measured.contains_key(*name))
        .map(|name| format!("{name} is expected and was not counted"))
        .collect();
    for (name, count) in measured {
        match expected.get(name) {
            None => faults.push(format!("{name} is not in {EXPECTED}")),
            Some(bound) if *count > bound + bound / 50 => {
                faults.push(format!("{name} takes {count} instructions instead of {bound}"));
            }
            Some(bound) if *count < bound - bound / 10 => {
                faults.push(format!("{name} takes only {count} instructions of {bound}"));
            }
            Some(_) => {}
        }
    }
    faults
}

/// Counts each function in a run of its own.
fn measured() -> Result<Counts> {
    setup::have(&[VALGRIND])?;
    tool::run(tool::cargo(&["build", "--release", "--package", "snowlease-bench-counts"]))?;
    let program = tool::target()?.join("release/counts");
    let program = program.to_string_lossy();
    let names = tool::output(tool::program(&program))?;
    let mut counts = Counts::new();
    for name in names.lines() {
        let count = count(&program, name)?;
        println!("{name:24} {count:>8} instructions");
        counts.insert(name.to_owned(), count);
    }
    Ok(counts)
}

fn count(program: &str, name: &str) -> Result<u64> {
    let mut valgrind = tool::program("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=*counted*",
        program,
        name,
    ]);
    let done = valgrind.output().context("valgrind could not be started")?;
    let told = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() {
        bail!("{name} failed under valgrind: {told}");
    }
    collected(&told).with_context(|| format!("valgrind counted nothing for {name}: {told}"))
}

/// The number that callgrind says it collected.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.split_once("Collected : "))?;
    line.1.trim().parse().ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn more_instructions_fail_and_so_does_a_bound_without_teeth() {
        let expected = counts(&[("next", 10_000)]);
        let faults = |measured| compared(&expected, &counts(&[("next", measured)])).len();
        assert_eq!([9_000, 10_000, 10_200].map(faults), [0, 0, 0]);
        assert_eq!([8_999, 10_201].map(faults), [1, 1]);
    }

    #[test]
    fn a_function_on_one_side_only_fails() {
        assert_eq!(compared(&counts(&[("gone", 1)]), &counts(&[])).len(), 1);
        assert_eq!(compared(&counts(&[]), &counts(&[("new", 1)])).len(), 1);
    }

    #[test]
    fn the_count_is_read_from_what_callgrind_says() {
        assert_eq!(collected("==7== Collected : 31003\n==7== \n"), Some(31_003));
        assert_eq!(collected("==7== Collected : 0\n"), None);
        assert_eq!(collected("valgrind: failed"), None);
    }
}
