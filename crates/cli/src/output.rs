//! The one door to the terminal: answers go to stdout, all else to stderr.
//!
//! An answer is written when it is whole, so that stdout stays empty when a command fails; only
//! what streams is written piece by piece.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Result;

/// Whoever read our output has closed it, as `head` does: there is nothing left to do.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the output was closed by its reader")
    }
}

impl std::error::Error for ReaderGone {}

/// Stdout, for answers.
#[derive(Debug)]
pub(crate) struct Answer {
    out: BufWriter<io::Stdout>,
}

impl Answer {
    /// Nothing is written before the first line.
    pub(crate) fn new() -> Answer {
        Answer { out: BufWriter::with_capacity(1 << 16, io::stdout()) }
    }

    /// Writes a line, at the latest at the next [`flush`](Self::flush).
    pub(crate) fn line(&mut self, line: impl fmt::Display) -> Result<()> {
        checked(writeln!(self.out, "{line}"))
    }

    /// Hands all lines over.
    pub(crate) fn flush(&mut self) -> Result<()> {
        checked(self.out.flush())
    }
}

fn checked(written: io::Result<()>) -> Result<()> {
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => ReaderGone.into(),
        _ => anyhow::Error::new(error).context("the output cannot be written"),
    })
}

/// Writes a whole answer; it ends in a line break already, or gets one.
pub(crate) fn answer(text: &str) -> Result<()> {
    let mut answer = Answer::new();
    answer.line(text.trim_end_matches('\n'))?;
    answer.flush()
}

/// Tells a person what is going on.
pub(crate) fn note(text: impl fmt::Display) {
    // There is nowhere left to say that stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Tells a person what went wrong, in one line.
pub(crate) fn error(text: &str) {
    let line = one_line(text);
    if in_colour(&io::stderr()) {
        note(format_args!("\u{1b}[1;31merror:\u{1b}[0m {line}"));
    } else {
        note(format_args!("error: {line}"));
    }
}

pub(crate) fn in_colour(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}

/// One line, and no control characters: what was typed may be quoted in it.
fn one_line(text: &str) -> String {
    let words = text.split_whitespace();
    let mut line = String::with_capacity(text.len());
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_control_characters() {
        assert_eq!(one_line("a\n  b\t c \u{1b}[31m"), "a b c \u{fffd}[31m");
    }
}
