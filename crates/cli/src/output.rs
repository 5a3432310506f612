//! The one door to the terminal: answers go to stdout, all else to stderr.
//!
//! An answer is written when it is whole, so that stdout stays empty when a command fails; only
//! what streams is written piece by piece.
//!
//! What others said, such as a service or the holder of a lease, is made [`plain`] before it is
//! shown: it could move the cursor, clear the screen or look like something else.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Result;
use serde::Serialize;
use snowlease_lease::Holder;

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

/// Writes a value as JSON in a line. Hidden characters, which only texts can have, are escaped.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    Ok(escaped(&serde_json::to_string(value)?, |c, text| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }))
}

/// A text of somebody else's, in which what is hidden is seen: `\u{1b}`.
pub(crate) fn plain(text: &str) -> String {
    escaped(text, |c, text| text.extend(c.escape_unicode()))
}

fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> String {
    let mut told = String::with_capacity(text.len());
    for c in text.chars() {
        if Holder::is_hidden(c) { escape(c, &mut told) } else { told.push(c) }
    }
    told
}

/// Tells a person what is going on, in one line.
pub(crate) fn note(text: impl fmt::Display) {
    to_stderr(&plain(&text.to_string()));
}

fn to_stderr(line: &str) {
    // There is nowhere left to say that stderr is closed.
    let _ = writeln!(io::stderr(), "{line}");
}

/// Tells a person what went wrong, in one line.
pub(crate) fn error(text: &str) {
    let line = one_line(text);
    if in_colour(&io::stderr()) {
        to_stderr(&format!("\u{1b}[1;31merror:\u{1b}[0m {line}"));
    } else {
        to_stderr(&format!("error: {line}"));
    }
}

pub(crate) fn in_colour(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !refused
}

/// One line, and nothing hidden in it: what was typed may be quoted there.
fn one_line(text: &str) -> String {
    plain(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_control_characters() {
        assert_eq!(one_line("a\n  b\t c \u{1b}[31m"), "a b c \\u{1b}[31m");
    }

    #[test]
    fn what_is_hidden_is_seen() {
        let hidden = "\u{1b}]0;x\u{7}\u{9b}2J\r\n\u{202e}\u{2028}\u{feff}\u{e0041}é日";
        let seen = "\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{d}\\u{a}\\u{202e}\\u{2028}\\u{feff}\\u{e0041}é日";
        assert_eq!(plain(hidden), seen);
        let text = json(&hidden).unwrap();
        assert!(!text.chars().any(Holder::is_hidden), "{text}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hidden);
    }
}
