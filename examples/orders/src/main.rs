//! Four processes write orders with library ids while their lease service is killed and restarted.
//!
//! ```text
//! cargo build --release -p snowlease-cli && cargo run --release -p orders -- run
//! ```
//!
//! `write` is what an application looks like: connect once, then an id is a function call. `run` is
//! the experiment around it: it starts a lease service and the writers, kills the service with
//! SIGKILL twice (the second time for longer than a lease lasts), restarts it, and then checks
//! every order of every file.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]

mod check;
mod run;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Writes orders with leased ids, and checks them", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs the whole experiment.
    Run(run::Options),
    /// Writes orders into one file, with ids leased from a service.
    Write(write::Options),
    /// Checks that no order id is in the files twice.
    Check {
        /// Files that `write` has made.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Run(options) => run::run(&options),
        Verb::Write(options) => write::write(&options),
        Verb::Check { files } => check::check(&files).map(|report| println!("{report}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orders: {error:#}");
            ExitCode::FAILURE
        }
    }
}
