//! Logs: to stderr, quiet unless asked for, in colour only on a terminal.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::output;
/// Starts logging what `filter` lets through.
pub(crate) fn start(filter: EnvFilter) {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(output::in_colour(&io::stderr()))
        .finish();
    // Fails only where a subscriber is set already, and this is the one place that sets one.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// The filter that this text says.
pub(crate) fn parse(text: &str) -> Result<EnvFilter, String> {
    EnvFilter::builder()
        .parse(text)
        .map_err(|error| format!("{error}: write a level such as info, or target=level"))
}
