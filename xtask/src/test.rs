//! All set-up and all tests, in stages: what a change must pass, the same at a desk and in CI.
//!
//! Everything is built with one profile, one set of flags and one target directory: each further
//! combination would build the dependencies once more.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::stage::{Stage, run_all};
use crate::{check, counts, setup, tool, usage};

/// What a change may cost on two cores, from a clean checkout.
const BUDGET: Duration = Duration::from_secs(25 * 60);

const STAGES: &[Stage] = &[
    Stage { name: "setup", gate: true, run: setup::prepare },
    Stage { name: "check", gate: false, run: check::all },
    Stage { name: "build", gate: true, run: build },
    Stage { name: "tests", gate: false, run: tests },
    Stage { name: "clocks", gate: false, run: clocks },
    Stage { name: "doctests", gate: false, run: doctests },
    Stage { name: "loom", gate: false, run: loom },
    Stage { name: "counts", gate: false, run: counts::check },
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only = usage::only(arguments, STAGES.iter().map(|stage| stage.name))?;
    run_all(STAGES, only, Some(BUDGET))
}

/// The test runner: nextest where it is installed (a process for each test, and a run of no tests
/// fails), else cargo's own. Neither builds benches.
fn runner(arguments: &[&str]) -> Command {
    let mut command = if setup::has_nextest() {
        tool::cargo(&["nextest", "run", "--profile", if tool::in_ci() { "ci" } else { "default" }])
    } else {
        tool::cargo(&["test"])
    };
    command.args(arguments);
    command
}

fn build() -> Result<()> {
    tool::run(runner(&["--workspace", "--no-run"]))?;
    // No test is linked with it: processes of tests are started with it.
    tool::run(tool::cargo(&["build", "--package", "snowlease-bootshift"]))
}

fn tests() -> Result<()> {
    // Without nextest, `--tests` keeps doc tests for their own stage.
    tool::run(runner(if setup::has_nextest() {
        &["--workspace", "--filterset", "not package(snowlease-clocks)"]
    } else {
        &["--workspace", "--exclude", "snowlease-clocks", "--tests"]
    }))
}

/// Real processes under faked clocks. A scenario is seconds of waiting for them, so many more run
/// at once than there are cores.
fn clocks() -> Result<()> {
    tool::run(runner(if setup::has_nextest() {
        // The whole workspace is chosen from, so that nothing is built with other features.
        &["--workspace", "--filterset", "package(snowlease-clocks)", "--test-threads", "8"]
    } else {
        &["--package", "snowlease-clocks", "--tests", "--", "--test-threads", "8"]
    }))
}

fn doctests() -> Result<()> {
    tool::run(tool::cargo(&["test", "--workspace", "--doc"]))
}

/// The models of the generator, in calls of their own: the feature swaps the atomics of the crate,
/// so it must not be unified into any other build.
fn loom() -> Result<()> {
    for feature in ["loom", "loom-rmw"] {
        let mut command =
            runner(&["--package", "snowlease-core", "--features", feature, "--lib", "loom"]);
        if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
            // Two preemptions reach nearly all known races; a third costs minutes for each model.
            command.env("LOOM_MAX_PREEMPTIONS", "3");
        }
        tool::run(command)?;
    }
    Ok(())
}
