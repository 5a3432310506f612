//! The rows of a span of time, found by the key where it tells the time, and otherwise by a column.

use std::fmt::Write as _;

use postgres::Client;
use snowlease_bench::timed;

use crate::database::one;
use crate::key::Key;
use crate::load::Load;
use crate::spread::Spread;
use crate::{grouped, mib};

/// Scans of a kind, after one that warms what is read.
const SCANS: usize = 7;

/// The rows of some batches, which were made in a span of time.
#[derive(Debug)]
pub(crate) struct Span {
    from_ms: i64,
    to_ms: i64,
    rows: usize,
}

impl Span {
    /// The batches in the middle: a fiftieth of all, and one at least.
    pub(crate) fn middle(began_ms: &[i64], batch: usize) -> Span {
        let batches = (began_ms.len() / 50).max(1);
        let first = began_ms.len() / 2;
        let (from_ms, to_ms) = (began_ms[first], began_ms[first + batches]);
        Span { from_ms, to_ms, rows: batches * batch }
    }
}

/// One way to find the rows.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) way: &'static str,
    /// What the way takes beside the table and its primary key, in bytes.
    pub(crate) extra: i64,
    pub(crate) rows: usize,
    pub(crate) ms: Vec<f64>,
}

/// Finds the rows in each way that this key has.
pub(crate) fn run(client: &mut Client, key: Key, span: &Span) -> Vec<Scan> {
    // As autovacuum would, in its own time.
    client.batch_execute("VACUUM (ANALYZE) rows").expect("a vacuum");
    if let Some(condition) = key.within(span.from_ms, span.to_ms) {
        return vec![scan(client, "by key", 0, &condition, span)];
    }
    let at = |ms: i64| format!("to_timestamp({ms} / 1000.0)");
    let (from, to) = (at(span.from_ms), at(span.to_ms));
    let condition = format!("created_at >= {from} AND created_at < {to}");
    let without = scan(client, "by created_at, no index", 0, &condition, span);
    client.batch_execute("CREATE INDEX rows_created ON rows (created_at)").expect("an index");
    let extra = one(client, "SELECT pg_relation_size('rows_created')");
    vec![without, scan(client, "by created_at, an index on it", extra, &condition, span)]
}

fn scan(client: &mut Client, way: &'static str, extra: i64, condition: &str, span: &Span) -> Scan {
    let sql = format!("SELECT count(*) FROM rows WHERE {condition} AND length(body) = 64");
    let mut ms = Vec::new();
    for _ in 0..=SCANS {
        let mut found = 0_i64;
        ms.push(timed(|| found = one(client, &sql)) as f64 / 1e6);
        assert_eq!(usize::try_from(found), Ok(span.rows), "rows of the span: {sql}");
    }
    Scan { way, extra, rows: span.rows, ms: ms.split_off(1) }
}

/// Key, way, milliseconds, and MiB of what the way takes beside.
pub(crate) fn summary(loads: &[(Key, Vec<Load>)]) -> Vec<(Key, &'static str, Spread, f64)> {
    let mut lines = Vec::new();
    for (key, loads) in loads {
        for (at, scan) in loads[0].scans.iter().enumerate() {
            let all = loads.iter().flat_map(|load| load.scans[at].ms.iter().copied());
            lines.push((*key, scan.way, Spread::of(all), mib(scan.extra)));
        }
    }
    lines
}

/// The scans as a table.
pub(crate) fn table(loads: &[(Key, Vec<Load>)]) -> String {
    let first = &loads[0].1[0];
    let rows = first.scans[0].rows;
    let mut out = format!(
        "the {} rows of a span of time out of {}, warm, after VACUUM; median [middle half] of {}\n",
        grouped(rows as f64),
        grouped((first.batch * first.seconds.len()) as f64),
        SCANS * loads[0].1.len(),
    );
    for (key, way, ms, extra) in summary(loads) {
        let spread = format!("[{:.2} … {:.2}]", ms.low, ms.high);
        let _ = write!(out, "{:<10} {way:<30} {:>9.2} ms  {spread:<20}", key.name(), ms.median);
        if extra > 0.0 {
            let _ = write!(out, " {extra:.1} MiB more");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}
