//! `snowlease decode`: what an id says.
//!
//! Ids given as arguments are all checked before the first answer, so that nothing is printed if
//! one is wrong. Lines from stdin are a stream of any length: good ones are answered as they come,
//! bad ones are told on stderr with their number, and the exit code is 1 if there was any.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use snowlease_core::TextForm;
use snowlease_lease::os;
use snowlease_wire::Decoded;

use crate::output::{self, Answer};
use crate::reading::{Fields, ReadAs, Reading};
use crate::time;
use crate::usage::Usage;

/// Longer than the text of any id, and short enough to be kept.
const LONGEST_LINE: usize = 1024;

const EXAMPLES: &str = "\
Examples:
  snowlease decode 20987903
  snowlease decode --preset twitter 1541815603606036480
  snowlease decode --preset discord --json 175928847299117063
  snowlease decode --layout t41g13s9 --epoch 2020-01-01T00:00:00Z 0000000001403fff
  snowlease next -n 3 | snowlease decode

One id is answered in a table, several in a line each. Without --form the text form is
detected; a few texts are ids in two forms, and then decimal counts. Ids that are given as
arguments are all checked first; of those on stdin the good ones are answered and the bad ones
told on stderr, with exit code 1.";

/// Take ids apart: time, generator id and sequence
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Decode {
    /// Ids in any text form; none, or a single -, reads them from stdin, one a line
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    ids: Vec<String>,
    #[command(flatten)]
    read_as: ReadAs,
    /// The text form of the ids: decimal, hex, crockford or base62
    #[arg(long, value_name = "FORM")]
    form: Option<TextForm>,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

impl Decode {
    pub(crate) fn run(self) -> Result<()> {
        let from_stdin = self.ids.is_empty() || self.ids == ["-"];
        if self.ids.is_empty() && io::stdin().is_terminal() {
            let example = "snowlease decode 20987903, or pipe ids in, one a line";
            bail!(Usage(format!("there is no id to decode: try {example}")));
        }
        if !from_stdin && self.ids.iter().any(|id| id == "-") {
            bail!(Usage("- reads ids from stdin and stands alone: give either it or ids".into()));
        }
        let reader = Reader { reading: self.read_as.reading()?, form: self.form };
        if from_stdin {
            return reader.stream(io::stdin().lock(), self.json);
        }
        let facts: Vec<Facts> = self
            .ids
            .iter()
            .map(|text| reader.read(text).with_context(|| format!("{text:?} is no id here")))
            .collect::<Result<_>>()?;
        let mut answer = Answer::new();
        match facts.as_slice() {
            [only] if !self.json => answer.line(only.table().trim_end())?,
            _ => facts.iter().try_for_each(|facts| facts.write(&mut answer, self.json))?,
        }
        answer.flush()
    }
}

/// From text to facts.
#[derive(Clone, Copy, Debug)]
struct Reader {
    reading: Reading,
    form: Option<TextForm>,
}

impl Reader {
    fn read(self, text: &str) -> Result<Facts> {
        let (form, id) = match self.form {
            Some(form) => (form, form.decode(text)?),
            None => TextForm::detect(text)?,
        };
        let (unix_ms, fields) = self.reading.fields_of(id)?;
        let field = |wanted| fields.iter().find(|(name, _)| *name == wanted).map(|field| field.1);
        let format = self.reading.format();
        let ours = format.map(|format| format.decode(id));
        let decoded = Decoded {
            id: id.to_string(),
            form: form.to_string(),
            texts: id.into(),
            tick: field("tick").unwrap_or_default(),
            time: time::text(unix_ms),
            unix_ms,
            generator_id: ours.map(|parts| parts.generator_id),
            sequence: ours.map(|parts| parts.sequence),
            region: None,
            format: format.map(Into::into),
            preset: self.reading.preset().map(|preset| preset.name().to_owned()),
            parts: self.reading.preset().map_or_else(BTreeMap::new, |_| {
                let parts = fields.iter().filter(|(name, _)| *name != "tick");
                parts.map(|(name, value)| ((*name).to_owned(), *value)).collect()
            }),
            in_future: unix_ms > os::wall_ms(),
        };
        let (tick_ms, epoch_ms) = (self.reading.tick_ms(), self.reading.epoch_ms());
        Ok(Facts { decoded, tick_ms, epoch: time::told(epoch_ms), fields, read_as: self.reading })
    }

    fn stream(self, mut input: impl BufRead, json: bool) -> Result<()> {
        let mut answer = Answer::new();
        let (mut lines, mut bad) = (0u64, 0u64);
        let mut line = Vec::new();
        while next_line(&mut input, &mut line).context("stdin cannot be read")? {
            lines += 1;
            match text(&line).and_then(|text| self.read(text)) {
                Ok(facts) => facts.write(&mut answer, json)?,
                Err(error) => {
                    bad += 1;
                    output::error(&format!("line {lines}: {error:#}"));
                }
            }
        }
        answer.flush()?;
        if bad > 0 {
            bail!("{bad} of {lines} lines are no ids: see above");
        }
        Ok(())
    }
}

/// Reads a line without its line break; of one that is too long, only the beginning.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let read = input.fill_buf()?;
        if read.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        let room = (LONGEST_LINE + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn text(line: &[u8]) -> Result<&str> {
    if line.len() > LONGEST_LINE {
        bail!("longer than any id: put one id a line");
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    std::str::from_utf8(line).map_err(|_| anyhow!("not UTF-8 text: put one id a line"))
}

/// What an id says, as the service says it, and by which tick and epoch.
#[derive(Debug, Serialize)]
struct Facts {
    #[serde(flatten)]
    decoded: Decoded,
    tick_ms: u32,
    epoch: String,
    #[serde(skip)]
    fields: Fields,
    #[serde(skip)]
    read_as: Reading,
}

impl Facts {
    /// For one id: a table with everything.
    fn table(&self) -> String {
        let (decoded, texts) = (&self.decoded, &self.decoded.texts);
        let mut table = String::new();
        let mut row = |name: &str, value: &dyn fmt::Display| {
            // Writing into a string cannot fail.
            let _ = writeln!(table, "{name:<13} {value}");
        };
        row("id", &decoded.id);
        row("time", &time::told(decoded.unix_ms));
        row("unix_ms", &decoded.unix_ms);
        for (name, value) in &self.fields {
            row(name, value);
        }
        row("decimal", &texts.decimal);
        row("hex", &texts.hex);
        row("crockford", &texts.crockford);
        row("base62", &texts.base62);
        row("in_future", &decoded.in_future);
        let (tick_ms, epoch) = (self.tick_ms, &self.epoch);
        row("read as", &format!("{}, tick {tick_ms} ms, epoch {epoch}", self.read_as));
        table
    }

    fn write(&self, answer: &mut Answer, json: bool) -> Result<()> {
        if json {
            return answer.line(serde_json::to_string(self)?);
        }
        answer.line(self)
    }
}

/// For one of many ids: a line of names and values.
impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (decoded, texts) = (&self.decoded, &self.decoded.texts);
        let time = decoded.time.as_deref().unwrap_or("-");
        write!(f, "id={} time={time} unix_ms={}", decoded.id, decoded.unix_ms)?;
        for (name, value) in &self.fields {
            write!(f, " {name}={value}")?;
        }
        write!(f, " hex={} crockford={} base62={}", texts.hex, texts.crockford, texts.base62)?;
        let read_as = self.read_as.to_string().replace(' ', "=");
        write!(f, " in_future={} {read_as} tick_ms={}", decoded.in_future, self.tick_ms)?;
        write!(f, " epoch={}", self.epoch.replace(' ', "-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Vec<u8>> {
        let mut input = io::BufReader::with_capacity(7, input);
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        while next_line(&mut input, &mut line).unwrap() {
            lines.push(line.clone());
        }
        lines
    }

    #[test]
    fn lines_end_with_a_break_or_the_input() {
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"1\n22"), [b"1".to_vec(), b"22".to_vec()]);
        assert_eq!(lines(b"\n1234567890\n"), [b"".to_vec(), b"1234567890".to_vec()]);
        assert_eq!(text(b"7\r").unwrap(), "7");
        assert!(text(b"\xff").is_err());
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut endless = vec![b'1'; 1 << 20];
        endless.extend_from_slice(b"\n2");
        let lines = lines(&endless);
        assert_eq!((lines[0].len(), lines[1].as_slice()), (LONGEST_LINE + 1, b"2".as_slice()));
        assert!(text(&lines[0]).is_err());
    }
}
