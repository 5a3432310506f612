//! `snowlease plan`: whether the ranges of all regions are apart, and their stores agree.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use snowlease_lease::{Meta, PlannedRange};

use crate::output;
use crate::settings::{PlanFile, hide_secrets};
use crate::stores;

const EXAMPLES: &str = "\
Examples:
  snowlease plan check plan.toml
  snowlease plan check production.toml staging.toml --offline

A plan has a table for each range:

  environment = \"production\"
  layout = \"t41g13s9\"

  [range.eu]
  generators = \"0-4095\"
  store = \"etcd://etcd-1:2379,etcd-2:2379,etcd-3:2379/ids\"

  [range.us]
  generators = \"4096-8191\"

Ranges must be disjoint. Plans of one environment must have one format, and no generator id twice.
Stores that are named must have been made for their range under this plan; --offline leaves them
out.";

/// Check the plan of all ranges
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Plan {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(Check),
}

/// Check plans, and the stores they name
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Check {
    /// The plans
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Ask no store
    #[arg(long)]
    offline: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// What was found of one plan.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    environment: String,
    format: String,
    plan: String,
    ranges: Vec<CheckedRange>,
}

#[derive(Debug, Serialize)]
struct CheckedRange {
    name: String,
    generators: String,
    /// How its store stands, in words; absent if none is named or it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    #[serde(skip)]
    agrees: bool,
}

impl Plan {
    pub(crate) fn run(self) -> Result<()> {
        let Verb::Check(check) = self.verb;
        check.run()
    }
}

impl Check {
    fn run(self) -> Result<()> {
        let plans = self.files.iter().map(|path| PlanFile::read(path));
        let plans = plans.collect::<Result<Vec<_>, _>>()?;
        let named: Vec<_> = self.files.iter().zip(&plans).collect();
        for (place, (path, one)) in named.iter().enumerate() {
            for (other_path, other) in &named[place + 1..] {
                apart(one, other).or_else(|fault| {
                    bail!("{} and {}: {fault}", path.display(), other_path.display())
                })?;
            }
        }
        let checked: Vec<_> = named.iter().map(|(path, file)| self.look(path, file)).collect();
        let ranges = checked.iter().flat_map(|plan| &plan.ranges);
        let disagree: Vec<_> = ranges
            .filter(|range| !range.agrees)
            .map(|range| {
                let store = range.store.as_deref().map(output::plain).unwrap_or_default();
                format!("range {}: {store}", range.name)
            })
            .collect();
        if self.json {
            output::answer(&output::json(&checked)?)?;
        } else if disagree.is_empty() {
            output::answer(&checked.iter().map(told).collect::<String>())?;
        }
        if !disagree.is_empty() {
            bail!(
                "{}; correct the plan, or make a store with `snowlease store init --plan FILE \
                 --range NAME`",
                disagree.join("; ")
            );
        }
        Ok(())
    }

    fn look(&self, path: &std::path::Path, file: &PlanFile) -> Checked {
        let plan = &file.plan;
        let range = |range: &PlannedRange| {
            let url = file.store(range).filter(|_| !self.offline);
            let (store, agrees) = match url.map(|url| (url, agreement(url, file, range))) {
                None => (None, true),
                Some((url, Ok(()))) => (Some(format!("{} agrees", hide_secrets(url))), true),
                Some((url, Err(fault))) => (Some(format!("{}: {fault}", hide_secrets(url))), false),
            };
            let generators = format!("{}-{}", range.ids.0, range.ids.1);
            CheckedRange { name: range.name.clone(), generators, store, agrees }
        };
        Checked {
            file: path.display().to_string(),
            environment: plan.environment().to_owned(),
            format: plan.format().to_string(),
            plan: plan.hash().to_text(),
            ranges: plan.ranges().iter().map(range).collect(),
        }
    }
}

/// Whether two plans may be in force at once: in one environment, ids of both must not collide.
fn apart(one: &PlanFile, other: &PlanFile) -> Result<(), String> {
    let (one, other) = (&one.plan, &other.plan);
    if one.environment() != other.environment() || one == other {
        return Ok(());
    }
    if one.format() != other.format() {
        return Err(format!(
            "one environment has one format, and these have {} and {}",
            one.format(),
            other.format()
        ));
    }
    match one.overlap(other) {
        Some((mine, theirs)) => Err(format!(
            "the ranges {} ({}-{}) and {} ({}-{}) have generator ids in common, and would \
             issue the same ids: move one of them",
            mine.name, mine.ids.0, mine.ids.1, theirs.name, theirs.ids.0, theirs.ids.1
        )),
        None => Ok(()),
    }
}

/// Whether the store of a range is the one that the plan means.
fn agreement(url: &str, file: &PlanFile, range: &PlannedRange) -> Result<(), String> {
    let store = stores::open(url).map_err(|error| format!("{error:#}"))?;
    let meta = store.status().map_err(|outage| outage.to_string())?.meta;
    let Meta { format, range: ids, realm, previous_plan, .. } = meta;
    if format != file.plan.format() {
        return Err(format!("it has the format {format}"));
    }
    if ids != range.ids {
        return Err(format!("it grants the generator ids {}-{}", ids.0, ids.1));
    }
    if realm.environment() != file.plan.environment() {
        return Err(format!("it is of the environment {:?}", realm.environment()));
    }
    let hash = file.plan.hash();
    if realm.plan() == Some(hash) {
        return Ok(());
    }
    if previous_plan == Some(hash) {
        return Err("it goes by a newer plan already".to_owned());
    }
    Err("it goes by another plan: give it this one with `snowlease store adopt`".to_owned())
}

fn told(plan: &Checked) -> String {
    let mut text = format!("{}\n", plan.file);
    if !plan.environment.is_empty() {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  environment {}", plan.environment);
    }
    let _ = writeln!(text, "  format {}", plan.format);
    let _ = writeln!(text, "  plan {}", plan.plan);
    let width = plan.ranges.iter().map(|range| range.name.len()).max().unwrap_or_default();
    for range in &plan.ranges {
        let store = range.store.as_deref().map(output::plain).unwrap_or_default();
        let line = format!("  {:<width$}  {}  {store}", range.name, range.generators);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
