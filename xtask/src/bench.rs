//! Benchmark suites by name; the arguments after the name go to `cargo bench` as they are.

use anyhow::Result;

use crate::tool;
use crate::usage::unknown;

/// Each suite and the package that holds it.
const SUITES: &[(&str, &str)] = &[("own", "snowlease-bench")];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (suite, rest) = match arguments.split_first() {
        Some((name, rest)) if !name.starts_with('-') => (name.as_str(), rest),
        _ => ("own", arguments),
    };
    let Some((_, package)) = SUITES.iter().find(|(name, _)| *name == suite) else {
        return Err(unknown("suite", suite, SUITES.iter().map(|(name, _)| *name)).into());
    };
    let mut command = tool::cargo(&["bench", "--package", package]);
    command.args(rest);
    tool::run(command)
}
