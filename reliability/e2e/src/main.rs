//! Real processes over real stores that are put back to an older state under them.
//!
//! `cargo xtask e2e` builds what is needed and starts this. Each scenario has a name, a folder of
//! its own, and a fleet of `snowlease serve` that issues ids without pause: every id there is, so
//! that two holders of one generator id cannot miss each other. At the end every id of everybody is
//! compared with every other one.
//!
//! # That it can fail
//!
//! `cargo xtask e2e etcd-3.4-same-token-cold --guard warn` runs a scenario whose services are told
//! not to quarantine a silent store. It has to end with duplicates: a holder that the backup has
//! forgotten, and that is cut off from the store, issues to the end of its window, and a new one is
//! granted its generator id meanwhile. `cargo xtask e2e etcd-3.7-same-token-told --untold` is the
//! same with all guards on: the backup is so young that it cannot be told from the truth, and the
//! operator says nothing. With either flag there are as many starters as generator ids.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that prints is what this is")]

mod etcd;
mod fleet;
mod format;
mod gate;
mod holder;
mod judge;
mod postgres;
mod process;
mod report;
mod rollback;
mod scenarios;
mod sqlite;
mod time;
mod tools;

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use fleet::{Fleet, Guard};
use process::Folder;
use report::{Outcome, stamp, table};
use scenarios::{How, Scenario, all};
use tools::Tools;

/// Enough to wait beside each other, and few enough for two cores.
const JOBS: usize = 6;

/// What was asked for.
struct Asked {
    scenarios: Vec<Scenario>,
    jobs: usize,
    how: How,
    list: bool,
    keep: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = match read(&arguments) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("e2e: {error:#}");
            return ExitCode::from(2);
        }
    };
    if asked.list {
        asked.scenarios.iter().for_each(|scenario| println!("{}", scenario.name));
        return ExitCode::SUCCESS;
    }
    match run(asked) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("e2e: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn read(arguments: &[String]) -> Result<Asked> {
    let how = How { guard: Guard::Enforce, told: true };
    let mut asked = Asked { scenarios: Vec::new(), jobs: JOBS, how, list: false, keep: false };
    let mut left = arguments.iter();
    while let Some(word) = left.next() {
        match word.as_str() {
            "--list" => asked.list = true,
            "--keep" => asked.keep = true,
            "--untold" => asked.how.told = false,
            "--jobs" => {
                let number = left.next().and_then(|number| number.parse().ok());
                asked.jobs = number.filter(|jobs| *jobs > 0).context("--jobs wants a number")?;
            }
            "--guard" => match left.next().map(String::as_str) {
                Some("enforce") => asked.how.guard = Guard::Enforce,
                Some("warn") => asked.how.guard = Guard::Warn,
                _ => bail!("--guard is enforce or warn"),
            },
            name if !name.starts_with('-') => {
                // The beginning of names takes all of them.
                let before = asked.scenarios.len();
                asked.scenarios.extend(all().into_iter().filter(|it| it.name.starts_with(name)));
                if asked.scenarios.len() == before {
                    bail!("no scenario begins with {name}: --list shows all");
                }
            }
            flag => bail!("{flag} is no flag: there are --list, --jobs N and --keep"),
        }
    }
    if asked.scenarios.is_empty() {
        asked.scenarios = all();
    }
    Ok(asked)
}

/// Runs them, and answers whether all went right.
fn run(asked: Asked) -> Result<bool> {
    // Whoever started this is gone: so are the servers and services then.
    process::end_with_parent(libc::SIGKILL).context("the system refuses a signal")?;
    let tools = Tools::find()?;
    let place = std::env::temp_dir().join(format!("snowlease-e2e-{}", stamp()));
    fs::create_dir_all(&place).with_context(|| format!("{}", place.display()))?;
    // PostgreSQL runs as another user, and has to get there.
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
    let count = asked.scenarios.len();
    let queue = Mutex::new(asked.scenarios.into_iter().enumerate().collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..asked.jobs.min(count) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some((number, scenario)) = next else { return };
                    let outcome = one(&tools, &place, &scenario, asked.how);
                    let words = if outcome.is_right() {
                        "ok".to_owned()
                    } else {
                        outcome.wrong().join("; ")
                    };
                    eprintln!("{:32} {words}", scenario.name);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    let outcomes: Vec<Outcome> = done.into_iter().map(|(_, outcome)| outcome).collect();
    println!("{}", table(&outcomes));
    let right = outcomes.len() == count && outcomes.iter().all(Outcome::is_right);
    if right && !asked.keep {
        fs::remove_dir_all(&place).with_context(|| format!("{}", place.display()))?;
    } else {
        println!("\nlogs: {}", place.display());
    }
    Ok(right)
}

fn one(tools: &Tools, place: &Path, scenario: &Scenario, how: How) -> Outcome {
    let path: PathBuf = place.join(&scenario.name);
    let result = Folder::make(path).and_then(|folder| {
        let mut fleet = Fleet::new(tools, &folder, &scenario.name, how);
        scenario.run(&mut fleet, how)
    });
    let result = result.map_err(|error| format!("{error:#}"));
    Outcome { scenario: scenario.name.clone(), result }
}
