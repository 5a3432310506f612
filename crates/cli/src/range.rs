//! `snowlease range`: the ids of a span of time, half-open, ready for an index scan.

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::json;
use snowlease_core::{IdSpan, SpanError};

use crate::output;
use crate::reading::ReadAs;
use crate::time;

const EXAMPLES: &str = "\
Examples:
  snowlease range --from 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z
  snowlease range --from 2026-01-01T00:00:00+05:45 --to 2026-01-02T00:00:00+05:45 --column order_id
  snowlease range --preset twitter --from 1656432460105 --to 1656432460106 --json

The span is half-open: first is the smallest id at or after --from, end the smallest id at or after
--to, so neighbouring spans share no id. Times are RFC 3339 with a zone, or Unix milliseconds.";

/// First and last ids for a span of time, ready for SQL
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Range {
    /// The first instant of the span
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_negative_numbers = true)]
    from: i64,
    /// The first instant after the span
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_negative_numbers = true)]
    to: i64,
    #[command(flatten)]
    read_as: ReadAs,
    /// The column to name in the SQL condition
    #[arg(long, value_name = "NAME", default_value = "id")]
    column: String,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Range {
    pub(crate) fn run(self) -> Result<()> {
        let format = self.read_as.reading()?.need_format()?;
        let (from, to) = (time::told(self.from), time::told(self.to));
        let span = IdSpan::of_ms(format, self.from, self.to).map_err(|error| match error {
            SpanError::Reversed { .. } => {
                anyhow!("--from {from} is after --to {to}: exchange them")
            }
            SpanError::TimeEnd { end_ms } => {
                let end = time::told(end_ms);
                anyhow!("ids of {format} end at {end}: use times before that")
            }
        })?;
        let (first, end) = (span.first, span.end);
        let sql = format!("{0} >= {first} AND {0} < {end}", self.column);
        if self.json {
            let facts = json!({
                "first": first.to_string(), "end": end.to_string(), "sql": sql,
                "from": from, "to": to, "format": format.to_string(),
            });
            return output::answer(&facts.to_string());
        }
        output::answer(&format!("first  {first}\nend    {end}\nsql    {sql}"))
    }
}
