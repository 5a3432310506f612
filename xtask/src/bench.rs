//! Benchmark suites by name; the arguments after the name go to `cargo bench` as they are.
//!
//! With `--record` what a suite prints goes into the page it belongs to, and what it draws beside
//! the other figures, so that none there was ever typed.

use std::{env, fs};

use anyhow::{Context, Result, bail};

use crate::tool;
use crate::usage::unknown;

/// A suite: what cargo is to run, and the page that shows the figures, if one does.
struct Suite {
    name: &'static str,
    cargo: &'static [&'static str],
    page: Option<&'static str>,
}

/// The peers and the databases are packages of their own, so that nobody builds other people's
/// clients to build this project.
const SUITES: &[Suite] = &[
    Suite { name: "own", cargo: &["--package", "snowlease-bench"], page: Some("README.md") },
    Suite { name: "lease", cargo: &["--package", "snowlease-bench-lease"], page: None },
    Suite { name: "day", cargo: &["--package", "snowlease-bench-day"], page: Some(COMPARE) },
    Suite {
        name: "peers",
        cargo: &["--manifest-path", "bench/peers/Cargo.toml", "--target-dir", "target/bench"],
        page: Some(COMPARE),
    },
    Suite {
        name: "databases",
        cargo: &["--manifest-path", "bench/databases/Cargo.toml", "--target-dir", "target/bench"],
        page: Some(COMPARE),
    },
];

const COMPARE: &str = "docs/compare.md";
const RECORD: &str = "--record";
const END: &str = "<!-- end of figures -->";

/// What makes a run shorter than the one that the pages speak of.
const SHORTENED: &[&str] = &["SNOWLEASE_DAY_IDS", "SNOWLEASE_ROWS"];

/// Where a suite is to write its drawings and its figures as JSON, if it is to.
const FIGURES: &str = "SNOWLEASE_FIGURES";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (flags, arguments): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == RECORD);
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) if !name.starts_with('-') => (name.as_str(), rest),
        _ => ("own", &arguments[..]),
    };
    let Some(suite) = SUITES.iter().find(|suite| suite.name == name) else {
        return Err(unknown("suite", name, SUITES.iter().map(|suite| suite.name)).into());
    };
    let record = !flags.is_empty();
    if record && (!rest.is_empty() || SHORTENED.iter().any(|name| env::var_os(name).is_some())) {
        bail!("only a whole run is recorded: give `{RECORD}` alone, and no {SHORTENED:?}");
    }
    let page = suite.page.unwrap_or_default();
    let read = || {
        let text = fs::read_to_string(tool::root().join(page));
        text.with_context(|| format!("{page} could not be read"))
    };
    if record {
        if suite.page.is_none() {
            bail!("`{name}` is in no page: run it without `{RECORD}`");
        }
        // Before a run of minutes, not after it.
        with_figures(&read()?, name, "", "")?;
    }
    if name == "own" {
        // One of its benches starts the program as a user would.
        tool::run(tool::cargo(&["build", "--release", "--package", "snowlease-cli"]))?;
    }
    let mut command = tool::cargo(&["bench"]);
    command.args(suite.cargo).args(rest);
    if !record {
        return tool::run(command);
    }
    command.env(FIGURES, tool::root().join("docs/figures"));
    let figures = tool::output_shown(command)?;
    fs::write(tool::root().join(page), with_figures(&read()?, name, &machine(), &figures)?)
        .with_context(|| format!("{page} could not be written"))
}

/// The page with the text between the marks of a suite replaced.
fn with_figures(page: &str, suite: &str, machine: &str, figures: &str) -> Result<String> {
    let begin = format!("<!-- figures: {suite} -->\n");
    let parts = page.split_once(&begin);
    let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
    let Some((before, (_, after))) =
        parts.filter(|(_, (figures, _))| !figures.contains("<!-- figures: "))
    else {
        bail!("the page has no marks for these figures: put `{}` and `{END}` back", begin.trim());
    };
    let figures = figures.trim_end();
    Ok(format!("{before}{begin}\n```text\n{machine}\n{figures}\n```\n\n{END}{after}"))
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
    fn figures_replace_what_is_between_their_own_marks_and_nothing_else() {
        let other = format!("<!-- figures: other -->\nkept\n{END}\n");
        let page = format!("{other}a\n<!-- figures: day -->\nold\n{END}\nb\n{other}");
        let once = with_figures(&page, "day", "a machine", "9.5 ns\n").unwrap();
        let text = "```text\na machine\n9.5 ns\n```";
        let wanted = format!("{other}a\n<!-- figures: day -->\n\n{text}\n\n{END}\nb\n{other}");
        assert_eq!(once, wanted);
        assert_eq!(with_figures(&once, "day", "a machine", "9.5 ns\n").unwrap(), once);
        assert!(with_figures("no marks", "day", "", "").is_err());
        assert!(with_figures("<!-- figures: day -->\n", "day", "", "").is_err());
        let unended = format!("<!-- figures: day -->\n{other}");
        assert!(with_figures(&unended, "day", "", "").is_err(), "another suite's part was taken");
    }
}
