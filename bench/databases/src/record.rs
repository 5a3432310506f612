//! The figures as JSON and as a chart, where the environment names a directory for them.

use std::fs;
use std::path::Path;

use crate::counters::Counter;
use crate::key::Key;
use crate::load::{self, Load};
use crate::spread::Spread;
use crate::{chart, scan};

/// Set by `cargo xtask bench databases --record`.
const FIGURES: &str = "SNOWLEASE_FIGURES";

/// Writes `databases.json` and `databases.svg`, if it is asked to.
pub(crate) fn write(loads: &[(Key, Vec<Load>)], counters: &[Counter]) {
    let Ok(directory) = std::env::var(FIGURES) else { return };
    let directory = Path::new(&directory);
    fs::create_dir_all(directory).expect("a directory for figures");
    fs::write(directory.join("databases.json"), json(loads, counters)).expect("databases.json");
    fs::write(directory.join("databases.svg"), chart::draw(loads)).expect("databases.svg");
}

/// One object a line; names are ours and have nothing that needs an escape.
fn json(loads: &[(Key, Vec<Load>)], counters: &[Counter]) -> String {
    let mut keys = Vec::new();
    for (key, loads) in loads {
        let total = Spread::of(loads.iter().map(Load::total));
        let [index, table, wal] = load::sizes(loads);
        let rates: Vec<String> =
            load::rates(loads).iter().map(|rate| format!("{rate:.0}")).collect();
        keys.push(format!(
            "{{\"key\": \"{}\", \"seconds\": {:.3}, \"low\": {:.3}, \"high\": {:.3}, \
             \"index_mib\": {index:.1}, \"table_mib\": {table:.1}, \"wal_mib\": {wal:.1}, \
             \"rows_in_a_batch\": {}, \"rows_a_second\": [{}]}}",
            key.name(),
            total.median,
            total.low,
            total.high,
            loads[0].batch,
            rates.join(",")
        ));
    }
    let scans = scan::summary(loads).into_iter().map(|(key, way, ms, extra)| {
        format!(
            "{{\"key\": \"{}\", \"way\": \"{way}\", \"ms\": {:.3}, \"low\": {:.3}, \
             \"high\": {:.3}, \"extra_mib\": {extra:.1}}}",
            key.name(),
            ms.median,
            ms.low,
            ms.high
        )
    });
    let ways = counters.iter().map(|counter| {
        let rate = counter.rate();
        format!(
            "{{\"way\": \"{}\", \"ids_a_second\": {:.0}, \"low\": {:.0}, \"high\": {:.0}}}",
            counter.name, rate.median, rate.low, rate.high
        )
    });
    format!(
        "{{\n\"loads\": [\n{}\n],\n\"scans\": [\n{}\n],\n\"counters\": [\n{}\n]\n}}\n",
        keys.join(",\n"),
        scans.collect::<Vec<_>>().join(",\n"),
        ways.collect::<Vec<_>>().join(",\n")
    )
}
