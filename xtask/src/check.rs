//! Everything that can be said of a change without running it. Nothing here writes outside
//! `target`.

use anyhow::Result;

use crate::stage::{Stage, run_all};
use crate::{deny, generated, tidy, tool, usage};

const STEPS: &[Stage] = &[
    Stage { name: "format", gate: false, run: format },
    Stage { name: "tidy", gate: false, run: tidy::all },
    Stage { name: "licences", gate: false, run: deny::all },
    Stage { name: "clippy", gate: false, run: clippy },
    Stage { name: "docs", gate: false, run: docs },
    Stage { name: "generated", gate: false, run: generated::check },
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only = usage::only(arguments, STEPS.iter().map(|step| step.name))?;
    run_all(STEPS, only, None)
}

pub(crate) fn all() -> Result<()> {
    run_all(STEPS, None, None)
}

fn format() -> Result<()> {
    tool::run(tool::cargo(&["fmt", "--all", "--check"]))
}

/// The lint table is in the root manifest; here its warnings become errors. The models are code
/// that only their feature builds, so they are a second call.
fn clippy() -> Result<()> {
    tool::run(tool::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let models = ["--package", "snowlease-core", "--features", "loom-rmw", "--all-targets"];
    let mut command = tool::cargo(&["clippy"]);
    command.args(models).args(["--", "-D", "warnings"]);
    tool::run(command)
}

/// `RUSTDOCFLAGS` reaches rustdoc only, so no build is repeated for it. Libraries only: the command
/// and the facade share a name, and their pages would overwrite each other.
fn docs() -> Result<()> {
    let mut command = tool::cargo(&["doc", "--workspace", "--no-deps", "--lib"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    tool::run(command)
}
