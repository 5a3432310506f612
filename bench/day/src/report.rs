//! Figures as lines for people and as JSON, and the bounds that they are held to.

/// The figures of a run so far.
#[derive(Debug, Default)]
pub struct Report {
    figures: Vec<String>,
    broken: Vec<String>,
}

impl Report {
    /// No figures yet.
    pub fn new() -> Report {
        Report::default()
    }

    /// Prints a figure and keeps it.
    #[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
    pub fn line(&mut self, what: &str, value: f64, unit: &str, note: &str) {
        let line = format!("{what:<52} {value:>14.2} {unit:<6} {note}");
        println!("{}", line.trim_end());
        self.figures.push(format!(
            "  {{\"what\": \"{what}\", \"value\": {value:.4}, \"unit\": \"{unit}\", \
             \"note\": \"{note}\"}}"
        ));
    }

    /// Holds the run to a bound; the text says what was to be.
    pub fn hold(&mut self, holds: bool, bound: impl Into<String>) {
        if !holds {
            self.broken.push(bound.into());
        }
    }

    /// The bounds that were broken, in words.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// All figures, one object a line. Names are ours and have nothing that needs an escape.
    pub fn json(&self) -> String {
        let mut text = String::from("{\"figures\": [\n");
        text.push_str(&self.figures.join(",\n"));
        text.push_str("\n]}\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_broken_is_kept_and_one_that_holds_is_not() {
        let mut report = Report::new();
        report.hold(true, "at least one");
        assert!(report.broken().is_empty());
        report.hold(false, "at most two");
        assert_eq!(report.broken(), ["at most two"]);
        report.line("a", 1.5, "ns", "");
        let figure = "  {\"what\": \"a\", \"value\": 1.5000, \"unit\": \"ns\", \"note\": \"\"}";
        assert_eq!(report.json(), format!("{{\"figures\": [\n{figure}\n]}}\n"));
    }
}
