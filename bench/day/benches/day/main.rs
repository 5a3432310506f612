//! A day of a fleet: `cargo xtask bench day`, or one part of it by its name.
//!
//! The day itself issues 10,000,000,000 ids under 1,024 and then under 8,192 generator ids, and
//! checks every one. `SNOWLEASE_DAY_IDS` makes it shorter, and the other parts with it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at a surprise")]
#![allow(clippy::panic, reason = "a benchmark stops at a surprise")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]

mod burst;
mod day;
mod fairness;

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, thread};

use snowlease_bench_day::{Memory, Report, Stolen};

/// What a fleet of the stated load issues in a day.
const DAY_IDS: u64 = 10_000_000_000;

/// A run may have this many bytes of memory.
const MOST_MEMORY: u64 = 1 << 30;

/// How much of everything is done.
#[derive(Clone, Copy, Debug)]
struct Extent {
    ids: u64,
    burst_s: u64,
    fairness_s: u64,
    threads: usize,
}

type Part = fn(&mut Report, Extent);

fn main() -> ExitCode {
    let shorter = env::var("SNOWLEASE_DAY_IDS").ok();
    let ids = shorter.as_ref().map(|text| text.parse::<u64>().expect("a number of ids"));
    let (burst_s, fairness_s) = if ids.is_some() { (1, 1) } else { (10, 5) };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let extent = Extent { ids: ids.unwrap_or(DAY_IDS), burst_s, fairness_s, threads };

    let parts: [(&str, Part); 3] =
        [("day", day::both), ("burst", burst::run), ("fairness", fairness::run)];
    let named: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for name in &named {
        assert!(parts.iter().any(|(part, _)| name == part), "{name}: there is no such part");
    }
    let stolen = Stolen::watch();
    let mut report = Report::new();
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|wanted| *wanted == name) {
            part(&mut report, extent);
        }
    }
    let most = Memory::now().most;
    report.line("most memory of the whole run", mib(most), "MiB", "at most 1,024");
    report.hold(most < MOST_MEMORY, "a run has less than 1 GiB of memory");
    let stolen = stolen.percent();
    report.line("processor time taken by other guests of the host", stolen, "%", "");
    for bound in report.broken() {
        eprintln!("broken: {bound}");
    }
    if !report.broken().is_empty() {
        return ExitCode::FAILURE;
    }
    if let Ok(directory) = env::var("SNOWLEASE_FIGURES") {
        fs::create_dir_all(&directory).expect("a directory for figures");
        fs::write(Path::new(&directory).join("day.json"), report.json()).expect("day.json");
    }
    ExitCode::SUCCESS
}

/// Bytes as MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
