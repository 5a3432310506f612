//! The figures as JSON and as a chart, where the environment names a directory for them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::bars::Bar;
use crate::chart;
use crate::contender::Proof;
use crate::row::Table;

/// Set by `cargo xtask bench peers --record`.
const FIGURES: &str = "SNOWLEASE_FIGURES";

/// Writes `peers.json` and `peers.svg`, if it is asked to.
pub(crate) fn write(tables: &[Table], bars: &[Bar]) {
    let Ok(directory) = std::env::var(FIGURES) else { return };
    let directory = Path::new(&directory);
    fs::create_dir_all(directory).expect("a directory for figures");
    fs::write(directory.join("peers.json"), json(tables, bars)).expect("peers.json");
    fs::write(directory.join("peers.svg"), chart::draw(tables)).expect("peers.svg");
}

/// One object a line; names are ours and have nothing that needs an escape.
fn json(tables: &[Table], bars: &[Bar]) -> String {
    let mut out = String::from("{\n\"figures\": [\n");
    let mut lines = Vec::new();
    for table in tables {
        for row in &table.rows {
            let about = &row.about;
            let mut line = format!(
                "{{\"setting\": \"{}\", \"contender\": \"{}\", \"version\": \"{}\", \
                 \"unit\": \"{}\", \"median\": {:.3}, \"low\": {:.3}, \"high\": {:.3}, \
                 \"ratio\": {:.3}",
                table.setting,
                about.name().trim(),
                about.version().unwrap_or_default(),
                table.unit,
                row.median,
                row.low,
                row.high,
                table.ratio(row),
            );
            let proof = match row.proof {
                Proof::ReadBack => ", \"read_back\": true}".to_owned(),
                Proof::Ids { count, repeats, ahead_ms, .. } => format!(
                    ", \"ids\": {count}, \"distinct\": {}, \"repeats\": {repeats}, \
                     \"ahead_ms\": {ahead_ms}}}",
                    repeats == 0
                ),
            };
            line.push_str(&proof);
            lines.push(line);
        }
    }
    out.push_str(&lines.join(",\n"));
    out.push_str("\n],\n\"bars\": [\n");
    let lines: Vec<String> = bars
        .iter()
        .map(|bar| {
            format!(
                "{{\"what\": \"{}\", \"value\": {:.3}, \"bar\": {}, \"met\": {}}}",
                bar.what, bar.value, bar.bar, bar.met
            )
        })
        .collect();
    let _ = write!(out, "{}\n]\n}}\n", lines.join(",\n"));
    out
}
