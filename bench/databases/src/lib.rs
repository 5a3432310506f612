//! What keys cost a database that is loaded, and what its counters give instead of a library.
//!
//! Two questions, each asked of real servers that the benchmark starts and stops. *What does a key
//! cost?* The same rows are loaded into PostgreSQL under four kinds of key ([`load`]), each then
//! finds the rows of a span of time ([`scan`]). *How many ids does a counter give?* A sequence of
//! PostgreSQL and a key of Redis, asked in every usual way, beside a generator ([`counters`]).
//!
//! Contenders take turns, in an order that changes from round to round. Distinct ids are shown by
//! the primary key of a loaded table, and by comparing all that a counter gave.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at a surprise")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]

mod chart;
mod counters;
mod database;
mod key;
mod load;
mod record;
mod redis;
mod scan;
mod spread;
mod svg;

use snowlease_bench::Stolen;

use crate::database::Database;
use crate::key::Key;
use crate::load::Load;

/// Rounds of loads, and what shortens them.
const ROUNDS: usize = 2;
const ROWS: &str = "SNOWLEASE_ROWS";
const USUAL_ROWS: usize = 5_000_000;
const LEAST_ROWS: usize = 100_000;

/// Loads, scans and counts, prints the tables, and writes them down where the environment asks for
/// it.
///
/// # Panics
///
/// If a server is missing or fails, or anybody repeats an id.
pub fn run() {
    let rows = rows();
    redis::demand();
    let stolen = Stolen::watch();
    let database = Database::start();
    println!("{}", database.settings());
    let mut loads: Vec<(Key, Vec<Load>)> = Key::ALL.map(|key| (key, Vec::new())).into();
    for round in 0..ROUNDS {
        for place in order(round) {
            let (key, done) = &mut loads[place];
            eprintln!("round {} of {ROUNDS}: {} rows under {}", round + 1, rows, key.name());
            done.push(load::run(&database, *key, rows));
        }
    }
    println!("\n{}", load::table(&loads));
    println!("\n{}", scan::table(&loads));
    eprintln!("counters");
    let counters = counters::run(&database);
    println!("\n{}", counters::table(&counters));
    println!("\n{}", stolen.line());
    record::write(&loads, &counters);
}

/// Who goes first, second and so on: every other round in reverse, so that over two of them nobody
/// has a better place than another.
fn order(round: usize) -> [usize; Key::ALL.len()] {
    let mut order = std::array::from_fn(|place| place);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn rows() -> usize {
    let Ok(text) = std::env::var(ROWS) else { return USUAL_ROWS };
    let rows = text.parse().unwrap_or(0);
    // In fewer, batches follow each other too closely for a span of time between two of them.
    assert!(rows >= LEAST_ROWS, "{ROWS}={text}: give a number of rows, {LEAST_ROWS} or more");
    rows
}

/// A number of bytes in MiB.
fn mib(bytes: i64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
