//! Benchmark suites by name; the arguments after the name go to `cargo bench` as they are.
//!
//! With `--record` the figures go into the README, so that none there was ever typed.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::tool;
use crate::usage::unknown;

/// Each suite and the package that holds it.
const SUITES: &[(&str, &str)] = &[("own", "snowlease-bench"), ("lease", "snowlease-bench-lease")];

const RECORD: &str = "--record";
const PAGE: &str = "README.md";
const BEGIN: &str = "<!-- figures: hot_path -->\n";
const END: &str = "<!-- end of figures -->";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (suite, rest) = match arguments.split_first() {
        Some((name, rest)) if !name.starts_with('-') => (name.as_str(), rest),
        _ => ("own", arguments),
    };
    let Some((_, package)) = SUITES.iter().find(|(name, _)| *name == suite) else {
        return Err(unknown("suite", suite, SUITES.iter().map(|(name, _)| *name)).into());
    };
    // One suite starts the program as a user would.
    tool::run(tool::cargo(&["build", "--release", "--package", "snowlease-cli"]))?;
    let mut command = tool::cargo(&["bench", "--package", package]);
    command.args(rest.iter().filter(|argument| *argument != RECORD));
    if !rest.iter().any(|argument| argument == RECORD) {
        return tool::run(command);
    }
    let figures = tool::output(command)?;
    print!("{figures}");
    let page = tool::root().join(PAGE);
    let text = fs::read_to_string(&page)?;
    fs::write(&page, with_figures(&text, &machine(), &figures)?)
        .with_context(|| format!("{PAGE} could not be written"))
}

/// The page with the text between its marks replaced.
fn with_figures(page: &str, machine: &str, figures: &str) -> Result<String> {
    let parts = page.split_once(BEGIN).zip(page.split_once(END));
    let Some(((before, _), (_, after))) = parts else {
        bail!("{PAGE} has no marks for figures: put `{}` and `{END}` back", BEGIN.trim());
    };
    let figures = figures.trim_end();
    Ok(format!("{before}{BEGIN}\n```text\n{machine}\n{figures}\n```\n\n{END}{after}"))
}

/// What the figures were measured on.
fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{model}, {cores} cores, Linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_replace_what_is_between_the_marks_and_nothing_else() {
        let page = format!("a\n{BEGIN}old\n{END}\nb\n");
        let once = with_figures(&page, "a machine", "9.5 ns\n").unwrap();
        let text = "```text\na machine\n9.5 ns\n```";
        assert_eq!(once, format!("a\n{BEGIN}\n{text}\n\n{END}\nb\n"));
        assert_eq!(with_figures(&once, "a machine", "9.5 ns\n").unwrap(), once);
        assert!(with_figures("no marks", "", "").is_err());
    }
}
