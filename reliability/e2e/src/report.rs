//! What is told at the end.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use snowlease_lease::os;

use crate::format::unix_ms;

/// One scenario that was run to its end.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) how: String,
    pub(crate) detected: Option<Duration>,
    pub(crate) until: u64,
    pub(crate) ids: usize,
    pub(crate) duplicates: usize,
    pub(crate) back: Option<Duration>,
    pub(crate) verified: String,
    pub(crate) wrong: Vec<String>,
}

/// One scenario, however it went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: String,
    pub(crate) result: Result<Row, String>,
}

impl Outcome {
    pub(crate) fn is_right(&self) -> bool {
        self.wrong().is_empty()
    }

    /// What is wrong with it, in words.
    pub(crate) fn wrong(&self) -> Vec<String> {
        match &self.result {
            Ok(row) => row.wrong.clone(),
            Err(error) => vec![error.clone()],
        }
    }
}

/// All of them, and below what is wrong.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header([
        "scenario",
        "detected",
        "after",
        "quarantined until",
        "ids drawn",
        "duplicates",
        "back after",
        "verify",
        "",
    ]);
    for outcome in outcomes {
        let verdict = if outcome.is_right() { "ok" } else { "FAILED" }.to_owned();
        let name = outcome.scenario.clone();
        match &outcome.result {
            Ok(row) => table.add_row([
                name,
                row.how.clone(),
                seconds(row.detected),
                time(row.until),
                row.ids.to_string(),
                row.duplicates.to_string(),
                seconds(row.back),
                row.verified.clone(),
                verdict,
            ]),
            Err(_) => {
                let mut cells = vec![name];
                cells.extend(std::iter::repeat_n("-".to_owned(), 7));
                cells.push(verdict);
                table.add_row(cells)
            }
        };
    }
    for column in [2, 4, 5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let wrong = outcomes.iter().flat_map(|outcome| {
        let name = &outcome.scenario;
        outcome.wrong().into_iter().map(move |what| format!("\n{name}: {what}"))
    });
    format!("{table}\n{}", wrong.collect::<String>())
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| format!("{:.1} s", time.as_secs_f64()))
}

/// Of the day, in UTC.
fn time(tick: u64) -> String {
    if tick == 0 {
        return "-".to_owned();
    }
    let of_day = unix_ms(tick).rem_euclid(86_400_000) / 1_000;
    format!("{:02}:{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// The time of the day, for the name of a folder.
pub(crate) fn stamp() -> String {
    format!("{}-{}", os::wall_ms() / 1_000, std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(duplicates: usize, wrong: &[&str]) -> Row {
        Row {
            how: "revision".to_owned(),
            detected: Some(Duration::from_millis(1_250)),
            until: 1,
            ids: 1_000,
            duplicates,
            back: None,
            verified: "sound".to_owned(),
            wrong: wrong.iter().map(|&what| what.to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_wrong_is_told_below_the_table() {
        let outcome = |result| Outcome { scenario: "a".to_owned(), result };
        let fine = outcome(Ok(row(0, &[])));
        let twice = outcome(Ok(row(2, &["the same ids"])));
        let broken = outcome(Err("it does not start".to_owned()));
        assert!(fine.is_right() && !twice.is_right() && !broken.is_right());
        let text = table(&[fine, twice, broken]);
        assert_eq!(text.matches("FAILED").count(), 2, "{text}");
        assert!(text.contains("00:00:00 UTC") && text.contains("1.2 s"), "{text}");
        assert!(text.ends_with("\na: the same ids\na: it does not start"), "{text}");
    }
}
