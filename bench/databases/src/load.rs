//! Rows loaded into a table under one kind of key: how fast, and what they take.

use std::fmt::Write as _;
use std::io::Write as _;

use postgres::Client;
use snowlease_bench::timed;
use snowlease_lease::os;

use crate::database::{Database, one};
use crate::key::{Key, Rows};
use crate::scan::{self, Scan};
use crate::spread::Spread;
use crate::{grouped, mib};

/// Rows of one COPY, which is one transaction.
const BATCH: usize = 50_000;

/// Bounds of a span of time lie this long before a batch is made, since the clock of ids and the
/// wall clock may differ by a little; the batch before it was made longer ago.
const MARGIN_MS: i64 = 5;

/// One load.
#[derive(Debug)]
pub(crate) struct Load {
    /// Rows of each batch.
    pub(crate) batch: usize,
    /// Seconds that each batch took.
    pub(crate) seconds: Vec<f64>,
    /// Bytes of the primary key's index, of the table, and of the log that was written.
    pub(crate) index: i64,
    pub(crate) table: i64,
    pub(crate) wal: i64,
    /// Whole pages in the log: each is the first change of a page after a checkpoint.
    pub(crate) images: i64,
    pub(crate) scans: Vec<Scan>,
}

impl Load {
    pub(crate) fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    fn rows(&self) -> f64 {
        (self.batch * self.seconds.len()) as f64
    }
}

/// Loads a new table from a checkpoint on, has it scanned, and drops it.
pub(crate) fn run(database: &Database, key: Key, rows: usize) -> Load {
    let batch = BATCH.min(rows / 20);
    let mut client = database.connect();
    let column = key.column();
    client
        .batch_execute(&format!(
            "DROP TABLE IF EXISTS rows;
             CREATE TABLE rows (id {column} PRIMARY KEY,
                created_at timestamptz NOT NULL, body text NOT NULL)"
        ))
        .expect("a table");
    client.batch_execute("CHECKPOINT").expect("a checkpoint");
    let images = images(&mut client);
    let before: String = one(&mut client, "SELECT pg_current_wal_lsn()::text");
    let copy = format!("COPY rows ({}) FROM STDIN BINARY", key.loaded());
    let mut source = Rows::under(key);
    let (mut seconds, mut began_ms) = (Vec::new(), Vec::new());
    for _ in 0..rows / batch {
        began_ms.push(os::wall_ms() - MARGIN_MS);
        // What makes the rows is no work of the database, so it is not timed.
        let bytes = source.make(batch);
        let ns = timed(|| {
            let mut stream = client.copy_in(&copy).expect("a COPY");
            stream.write_all(bytes).expect("rows to be sent");
            assert_eq!(stream.finish().expect("distinct keys"), batch as u64);
        });
        seconds.push(ns as f64 / 1e9);
    }
    let wal = one(
        &mut client,
        &format!("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{before}')::bigint"),
    );
    let images = self::images(&mut client) - images;
    let index = one(&mut client, "SELECT pg_relation_size('rows_pkey')");
    let table = one(&mut client, "SELECT pg_relation_size('rows')");
    let span = scan::Span::middle(&began_ms, batch);
    let scans = scan::run(&mut client, key, &span);
    client.batch_execute("DROP TABLE rows").expect("no table");
    Load { batch, seconds, index, table, wal, images, scans }
}

/// How many whole pages the server has written to its log so far.
fn images(client: &mut Client) -> i64 {
    client.batch_execute("SELECT pg_stat_force_next_flush()").expect("counters");
    one(client, "SELECT wal_fpi FROM pg_stat_wal")
}

/// The loads as a table.
pub(crate) fn table(loads: &[(Key, Vec<Load>)]) -> String {
    let first = &loads[0].1[0];
    let mut out = format!(
        "{} rows (key, time, 64 bytes of text) by binary COPY, {} in a transaction;\n\
         {} rounds, the second in reverse order; each load from a CHECKPOINT on; median [all]\n\
         {:<10} {:>8} {:<17} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        grouped(first.rows()),
        grouped(first.batch as f64),
        loads[0].1.len(),
        "key",
        "seconds",
        "",
        "rows/s",
        "index MiB",
        "table MiB",
        "WAL MiB",
        "its pages"
    );
    for (key, loads) in loads {
        let total = Spread::of(loads.iter().map(Load::total));
        let [index, table, wal] = sizes(loads);
        let images = Spread::of(loads.iter().map(|load| load.images as f64)).median;
        let spread = format!("[{:.2} … {:.2}]", total.low, total.high);
        let rate = grouped(loads[0].rows() / total.median);
        let _ = writeln!(
            out,
            "{:<10} {:>8.2} {spread:<17} {rate:>9} {index:>9.1} {table:>9.1} {wal:>9.1} {:>9}",
            key.name(),
            total.median,
            grouped(images),
        );
    }
    out.push_str("its pages: whole pages in the WAL, the first change of each after a checkpoint");
    out
}

/// Index, table and log in MiB: the medians over the rounds.
pub(crate) fn sizes(loads: &[Load]) -> [f64; 3] {
    [|load: &Load| load.index, |load: &Load| load.table, |load: &Load| load.wal]
        .map(|size| Spread::of(loads.iter().map(|load| mib(size(load)))).median)
}

/// Rows a second in each batch: the medians over the rounds.
pub(crate) fn rates(loads: &[Load]) -> Vec<f64> {
    let rate = |load: &Load, at: usize| load.batch as f64 / load.seconds[at];
    let batches = 0..loads[0].seconds.len();
    batches.map(|at| Spread::of(loads.iter().map(|load| rate(load, at))).median).collect()
}
