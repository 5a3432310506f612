//! Snowlease beside other libraries that make ids, in one process and one run.
//!
//! Each setting is a table. Its contenders take turns, round by round, so that a slow moment of the
//! machine falls on all of them alike; each is called from a function of its own, with nothing
//! dynamic for each id, and writes its ids where they are checked afterwards. So the ids that were
//! timed are the ids that are compared. A contender that repeats ids, or takes its time from the
//! future, is timed all the same and the table says so; Snowlease may not, and ends the run.
//!
//! Read [`contender`] for what is timed, [`peers`] for how each library is used, and the settings
//! [`single`], [`batches`], [`threads`] and [`text`]. [`bars`] holds the figures to what this
//! project asks of itself.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at a surprise")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]

mod bars;
mod batches;
mod busy;
mod chart;
mod contender;
mod floor;
mod peers;
mod record;
mod row;
mod single;
mod text;
mod threads;

use snowlease_bench::{Stolen, counter_is_used};

use crate::busy::Busy;
use crate::row::Table;

/// Rounds of each contender in each setting.
const ROUNDS: usize = 21;

/// Runs every setting, prints the tables and the bars, and writes both down where the environment
/// asks for it.
///
/// # Panics
///
/// If Snowlease repeats an id, or issues one out of order.
pub fn run() {
    let (stolen, busy) = (Stolen::watch(), Busy::watch());
    println!("{ROUNDS} interleaved rounds; median [middle half] of the nanoseconds an id takes");
    println!("ratio: how many times the first line of the table");
    println!("clock: a reading in each call, a thread's (it publishes the time), or none");
    if !counter_is_used() {
        println!("the counter is not trusted on this machine: \"counter\" is the vDSO too");
    }
    let settings: [fn() -> Table; 9] = [
        single::paced,
        single::never_exhausted,
        single::at_the_cap,
        || batches::of(100),
        || batches::of(1_000),
        || batches::of(100_000),
        || threads::shared(),
        || threads::each_its_own(),
        text::forms,
    ];
    let tables: Vec<Table> = settings
        .into_iter()
        .map(|setting| {
            let table = setting();
            println!("\n{table}");
            table
        })
        .collect();
    let bars = bars::judge(&tables);
    println!();
    floor::lines().iter().for_each(|line| println!("{line}"));
    println!();
    bars.iter().for_each(|bar| println!("{bar}"));
    println!("{}", stolen.line());
    println!("{}", busy.line());
    record::write(&tables, &bars);
}
