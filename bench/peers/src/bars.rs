//! What this project asks of itself, as ratios within one run.

use std::fmt;

use crate::contender::Time;
use crate::row::Table;

/// One bar: a figure that must be at most, or at least, so much.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) bar: f64,
    pub(crate) met: bool,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = if self.met { "met" } else { "NOT met" };
        write!(f, "bar: {}: {:.3} (bar {}) {met}", self.what, self.value, self.bar)
    }
}

/// Every bar.
pub(crate) fn judge(tables: &[Table]) -> Vec<Bar> {
    let paced = table(tables, "paced");
    let per_call = paced
        .rows
        .iter()
        .filter(|row| !row.about.is_ours() && row.about.time == Time::EachCall)
        .min_by(|a, b| a.median.total_cmp(&b.median))
        .map_or_else(String::new, |row| row.about.name());
    let cap = table(tables, "at the cap").rows[0].median;
    let at_most = |setting: &str, ours: &str, theirs: &str, bar: f64| {
        let table = table(tables, setting);
        let value = table.row(&format!("snowlease {ours}")).median / table.row(theirs).median;
        let what = format!("{setting}: {ours} / {theirs}");
        Bar { what, value, bar, met: value <= bar }
    };
    vec![
        at_most("paced", "counter", &per_call, 0.40),
        at_most("paced", "ticking", "ferroid atomic", 0.75),
        at_most("two threads, shared", "ticking", "ferroid atomic", 0.75),
        at_most("paced", "own handle, ticking", "ferroid basic", 0.75),
        at_most("two threads, each its own", "own handle, ticking", "ferroid basic", 0.75),
        at_most("batches of 1000", "batch, counter", "snowflake_me batch", 0.35),
        Bar {
            what: "at the cap: counter, % of the cap".into(),
            value: cap,
            bar: 99.5,
            met: cap >= 99.5,
        },
        at_most("text", "encode", "ferroid encode", 1.0),
        at_most("text", "decode", "ferroid decode", 1.0),
    ]
}

fn table<'a>(tables: &'a [Table], setting: &str) -> &'a Table {
    let table = tables.iter().find(|table| table.setting == setting);
    table.unwrap_or_else(|| panic!("no setting {setting}"))
}
