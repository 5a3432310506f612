//! A table of one setting, and its rows.

use std::fmt;

use crate::contender::{About, Proof, Time};

/// One contender in one setting.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) about: About,
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) proof: Proof,
}

impl Row {
    /// A row of the values of all rounds.
    pub(crate) fn new(about: About, mut rounds: Vec<f64>, proof: Proof) -> Row {
        rounds.sort_by(f64::total_cmp);
        let quarter = rounds.len() / 4;
        let (low, high) = (rounds[quarter], rounds[rounds.len() - 1 - quarter]);
        Row { about, median: rounds[rounds.len() / 2], low, high, proof }
    }
}

/// What was measured, and each contender's figure.
#[derive(Debug)]
pub(crate) struct Table {
    /// A short name, for the file of figures and the bars.
    pub(crate) setting: &'static str,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    /// The first is what the others are compared with.
    pub(crate) rows: Vec<Row>,
}

impl Table {
    /// How many times the figure of the first row this row's is.
    pub(crate) fn ratio(&self, row: &Row) -> f64 {
        row.median / self.rows[0].median
    }

    /// The row of a contender.
    pub(crate) fn row(&self, name: &str) -> &Row {
        let row = self.rows.iter().find(|row| row.about.name() == name);
        row.unwrap_or_else(|| panic!("no {name} in {}", self.setting))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({})", self.title, self.unit)?;
        for (number, row) in self.rows.iter().enumerate() {
            let clock = match row.about.time {
                Time::EachCall => "call",
                Time::Thread => "thread",
                Time::None => "",
            };
            let range = format!("[{:.2} … {:.2}]", row.low, row.high);
            let end = if number + 1 == self.rows.len() { "" } else { "\n" };
            let line = format!(
                "{:<31} {clock:<6} {:>9.2} {range:<19} {:>7.2}  {}",
                row.about.named(),
                row.median,
                self.ratio(row),
                row.proof,
            );
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}
