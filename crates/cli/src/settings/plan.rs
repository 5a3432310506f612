//! The plan file: the ranges of all regions of one environment, and where their stores are.
//!
//! ```toml
//! environment = "production"
//! layout = "t41g13s9"
//!
//! [range.eu]
//! generators = "0-4095"
//! store = "etcd://etcd-1:2379,etcd-2:2379,etcd-3:2379/ids"
//!
//! [range.us]
//! generators = "4096-8191"
//! region = "us-east"
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use snowlease_core::{Format, Layout};
use snowlease_lease::{Plan, PlannedRange};

use super::keys::{self, Key};
use super::read;
use crate::stores;
use crate::usage::{Usage, nearest};

/// A plan as it was read, with what concerns single stores.
#[derive(Clone, Debug)]
pub(crate) struct PlanFile {
    pub(crate) plan: Plan,
    ranges: BTreeMap<String, Range>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    environment: String,
    layout: Option<String>,
    tick: Option<String>,
    epoch: Option<Epoch>,
    #[serde(default)]
    range: BTreeMap<String, Range>,
}

/// A time of TOML, or text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Epoch {
    Text(String),
    Time(toml::value::Datetime),
}

/// What the file says of one range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    generators: String,
    region: Option<String>,
    store: Option<String>,
}

impl PlanFile {
    /// Reads a plan and checks all of it.
    pub(crate) fn read(path: &Path) -> Result<PlanFile, Usage> {
        let text = fs::read_to_string(path).map_err(|error| {
            Usage(format!("the plan {} cannot be read: {error}", path.display()))
        })?;
        PlanFile::parse(&text).map_err(|fault| Usage(format!("{}: {fault}", path.display())))
    }

    fn parse(text: &str) -> Result<PlanFile, String> {
        let text: Text = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            format!("line {line}: {}", without_values(&error.message().replace('\n', " ")))
        })?;
        let format = format(&text)?;
        let planned = |(name, range): (&String, &Range)| {
            let ids = read::generators(&range.generators, format)
                .map_err(|fault| format!("range {name}: {fault}"))?;
            if let Some(url) = &range.store {
                stores::check(url).map_err(|fault| format!("range {name}: {fault}"))?;
            }
            Ok(PlannedRange { name: name.clone(), ids })
        };
        let ranges = text.range.iter().map(planned).collect::<Result<_, String>>()?;
        let plan =
            Plan::new(text.environment, format, ranges).map_err(|error| error.to_string())?;
        Ok(PlanFile { plan, ranges: text.range })
    }

    /// The range of this name.
    pub(crate) fn range(&self, name: &str) -> Result<&PlannedRange, String> {
        self.plan.range(name).ok_or_else(|| {
            let names: Vec<&str> = self.ranges.keys().map(String::as_str).collect();
            match nearest(name, names.iter().copied()) {
                Some(meant) => format!("the plan has no such range: did you mean {meant}?"),
                None => format!("the plan has no such range, only {}", names.join(", ")),
            }
        })
    }

    /// The region of a range: its own name unless the file says otherwise.
    pub(crate) fn region<'a>(&'a self, range: &'a PlannedRange) -> &'a str {
        let said = self.ranges.get(&range.name).and_then(|said| said.region.as_deref());
        said.unwrap_or(&range.name)
    }

    /// Where the store of a range is, if the file says.
    pub(crate) fn store(&self, range: &PlannedRange) -> Option<&str> {
        self.ranges.get(&range.name)?.store.as_deref()
    }
}

/// What the reader says, without the value that it quotes: it may be the URL of a store.
fn without_values(message: &str) -> String {
    match (message.find("string \""), message.rfind('"')) {
        (Some(begin), Some(end)) => format!("{}text{}", &message[..begin], &message[end + 1..]),
        _ => message.to_owned(),
    }
}

/// The format, each part of it as the flag of that name takes it.
fn format(text: &Text) -> Result<Format, String> {
    let named = |key: &Key, fault: String| format!("{}: {fault}", key.name());
    let given =
        |text: &Option<String>, key: &Key| text.as_deref().unwrap_or(key.default).to_owned();
    let layout = given(&text.layout, &keys::LAYOUT)
        .parse::<Layout>()
        .map_err(|error| named(&keys::LAYOUT, error.to_string()))?;
    let tick = given(&text.tick, &keys::TICK);
    let tick_ms = read::tick_ms(&tick).map_err(|fault| named(&keys::TICK, fault))?;
    let epoch = match &text.epoch {
        None => keys::EPOCH.default.to_owned(),
        Some(Epoch::Text(text)) => text.clone(),
        Some(Epoch::Time(time)) => time.to_string(),
    };
    let epoch_ms = read::epoch_ms(&epoch).map_err(|fault| named(&keys::EPOCH, fault))?;
    Format::new(layout, tick_ms, epoch_ms).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "environment = \"production\"\nlayout = \"t41g13s9\"\n\
        epoch = 2024-01-01T00:00:00Z\n\
        [range.eu]\ngenerators = \"0-4095\"\nstore = \"sqlite:eu.db\"\n\
        [range.us]\ngenerators = \"4096-8191\"\nregion = \"us-east\"\n";

    #[test]
    fn a_plan_brings_all_that_a_store_needs() {
        let file = PlanFile::parse(PLAN).unwrap();
        assert_eq!(file.plan.environment(), "production");
        assert_eq!(file.plan.format().layout().to_string(), "t41g13s9");
        let (eu, us) = (file.range("eu").unwrap(), file.range("us").unwrap());
        assert_eq!((eu.ids, us.ids), ((0, 4095), (4096, 8191)));
        assert_eq!((file.region(eu), file.region(us)), ("eu", "us-east"));
        assert_eq!((file.store(eu), file.store(us)), (Some("sqlite:eu.db"), None));
        assert!(file.range("us2").unwrap_err().contains("did you mean us"));
        assert!(file.range("mars").unwrap_err().contains("only eu, us"));
    }

    #[test]
    fn the_hash_is_that_of_the_plan_and_not_of_the_places() {
        let moved = PLAN.replace("sqlite:eu.db", "sqlite:elsewhere.db").replace("us-east", "us");
        let hash = |text: &str| PlanFile::parse(text).unwrap().plan.hash();
        assert_eq!(hash(PLAN), hash(&moved));
        assert_ne!(hash(PLAN), hash(&PLAN.replace("4095", "4094")));
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        let fault = |text: &str| PlanFile::parse(text).unwrap_err();
        assert!(fault("").contains("no range"), "{}", fault(""));
        assert!(fault("[range.eu]\ngenerators = \"4-3\"").starts_with("range eu: "));
        assert!(fault("[range.eu]\n").starts_with("line 1: "), "{}", fault("[range.eu]\n"));
        let misplaced = fault("[range]\neu = \"postgres://me:secret@db/ids\"\n");
        assert!(!misplaced.contains("secret") && misplaced.contains("text"), "{misplaced}");
        assert!(fault("layuot = \"x\"\n").contains("unknown field"));
        assert!(fault("layout = \"x\"\n[range.a]\ngenerators = \"0\"").starts_with("layout: "));
        assert!(fault("tick = \"1\"\n[range.a]\ngenerators = \"0\"").starts_with("tick: "));
        let both = "[range.a]\ngenerators = \"0-9\"\n[range.b]\ngenerators = \"9-12\"\n";
        assert!(fault(both).contains("in common"), "{}", fault(both));
        let place = "[range.a]\ngenerators = \"0-9\"\nstore = \"ftp://x\"\n";
        assert!(fault(place).starts_with("range a: "), "{}", fault(place));
    }
}
