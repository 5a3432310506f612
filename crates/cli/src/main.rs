//! The binary `snowlease`: one file per verb, `serve` composes.

mod cli;
mod decode;
mod layout;
mod output;
mod range;
mod reading;
mod settings;
mod time;
mod usage;

fn main() -> std::process::ExitCode {
    cli::run()
}
