//! The binary `snowlease`: one file per verb, `serve` composes.

mod cli;
mod client;
mod clock;
mod decode;
mod layout;
mod lease;
mod logs;
mod next;
mod output;
mod plan;
mod range;
mod reading;
mod serve;
mod settings;
mod store;
mod stores;
mod target;
mod time;
mod usage;
mod watch;

fn main() -> std::process::ExitCode {
    cli::run()
}
