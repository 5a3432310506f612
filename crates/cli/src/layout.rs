//! `snowlease layout show`: the widths of an id with their arithmetic.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use snowlease_core::Layout as Widths;
use snowlease_lease::os;
use snowlease_wire::FormatDoc;

use crate::output;
use crate::reading::{ReadAs, Reading};
use crate::time::{grouped, told, years};

const EXAMPLES: &str = "\
Examples:
  snowlease layout
  snowlease layout show --layout t41g13s9
  snowlease layout show --layout t39g16s8 --tick 10ms --epoch 2024-01-01T00:00:00Z
  snowlease layout show --preset discord --json";

/// Show the layout of an id: widths with their arithmetic
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Layout {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    show: Show,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(Show),
}

/// Show the widths of the fields, how many ids they give and until when
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct Show {
    #[command(flatten)]
    read_as: ReadAs,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Layout {
    pub(crate) fn run(self) -> Result<()> {
        let show = match self.verb {
            Some(Verb::Show(show)) => show,
            None => self.show,
        };
        let reading = show.read_as.reading()?;
        if show.json {
            output::answer(&json(reading).to_string())
        } else {
            output::answer(&text(reading))
        }
    }
}

/// Ids in a span of time: what one generator gives, and all together.
#[derive(Clone, Copy, Debug)]
struct Rate {
    name: &'static str,
    ms: u128,
}

const RATES: [Rate; 2] = [Rate { name: "second", ms: 1_000 }, Rate { name: "day", ms: 86_400_000 }];

impl Rate {
    fn ids(self, per_tick: u128, tick_ms: u32) -> u128 {
        per_tick * self.ms / u128::from(tick_ms)
    }
}

fn text(reading: Reading) -> String {
    let mut lines = vec![
        format!("{reading}, tick {} ms, epoch {}", reading.tick_ms(), told(reading.epoch_ms())),
        String::new(),
    ];
    lines.extend(ruler(&reading.fields()));
    lines.push(String::new());
    for (name, bits) in reading.fields() {
        let values = grouped(1 << bits);
        let unit = if bits == 1 { "bit " } else { "bits" };
        let tail = if name == "tick" { format!("  {}", span(reading)) } else { String::new() };
        lines.push(format!(
            "{name:<13} {bits:>2} {unit}  {:<6} {values}{tail}",
            format!("2^{bits} =")
        ));
    }
    if let Some(format) = reading.format() {
        lines.push(String::new());
        lines.extend(counts(format.layout(), format.tick_ms()));
    }
    lines.push(String::new());
    let left = i128::from(end_ms(reading)) - i128::from(os::wall_ms());
    let left = if left < 0 { "it is over".to_owned() } else { format!("{} from now", years(left)) };
    lines.push(format!("time ends     {} ({left})", told(end_ms(reading))));
    lines.join("\n")
}

/// The bits of an id, one letter each, below the numbers of the highest and lowest of each field.
fn ruler(fields: &[(&'static str, u32)]) -> [String; 2] {
    let bits: u32 = fields.iter().map(|(_, bits)| bits).sum();
    let unused = 64 - bits;
    let (mut numbers, mut letters) = (String::new(), String::new());
    let mut column = |high: u32, bits: u32, letter: &str| {
        let low = high + 1 - bits;
        let ends = if low == high { high.to_string() } else { format!("{high} {low}") };
        let width = ends.len().max(bits as usize);
        if low == high {
            numbers.push_str(&format!("{high:<width$} "));
        } else {
            let rest = width - high.to_string().len();
            numbers.push_str(&format!("{high}{low:>rest$} "));
        }
        letters.push_str(&format!("{:<width$} ", letter.repeat(bits as usize)));
    };
    if unused > 0 {
        column(63, unused, "0");
    }
    let mut high = bits;
    for (name, bits) in fields {
        if *bits > 0 {
            column(high - 1, *bits, &name[..1]);
        }
        high -= bits;
    }
    [numbers.trim_end().to_owned(), letters.trim_end().to_owned()]
}

fn counts(layout: Widths, tick_ms: u32) -> Vec<String> {
    let generators = u128::from(layout.generator_ids());
    let per_tick = u128::from(layout.ids_per_tick());
    let of = |name: &str, per_tick: u128| {
        let rates = RATES
            .iter()
            .map(|rate| format!("  {} a {}", grouped(rate.ids(per_tick, tick_ms)), rate.name));
        format!("{name:<13} {} ids a tick{}", grouped(per_tick), rates.collect::<String>())
    };
    vec![of("per generator", per_tick), of("all together", generators * per_tick)]
}

/// How long the time field lasts, as arithmetic.
fn span(reading: Reading) -> String {
    let length = i128::from(end_ms(reading)) - i128::from(reading.epoch_ms());
    format!("x {} ms = {}", reading.tick_ms(), years(length))
}

/// The first Unix ms past the time field, or the end of what 64 bits of ms can say.
fn end_ms(reading: Reading) -> i64 {
    // Where a preset leaves bits above its fields unused, a format has them in its tick.
    let bits = reading.fields().iter().find(|(name, _)| *name == "tick").map_or(0, |field| field.1);
    let length = (1i128 << bits) * i128::from(reading.tick_ms());
    i64::try_from(i128::from(reading.epoch_ms()) + length).unwrap_or(i64::MAX)
}

fn json(reading: Reading) -> Value {
    let mut high = reading.fields().iter().map(|(_, bits)| bits).sum::<u32>();
    let fields: Vec<Value> = reading
        .fields()
        .into_iter()
        .map(|(name, bits)| {
            high -= bits;
            json!({ "name": name, "bits": bits, "lowest_bit": high, "values": 1u64 << bits })
        })
        .collect();
    let mut facts = json!({
        "tick_ms": reading.tick_ms(),
        "epoch_ms": reading.epoch_ms(),
        "epoch": told(reading.epoch_ms()),
        "fields": fields,
        "end_ms": end_ms(reading),
        "end": told(end_ms(reading)),
    });
    if let Some(preset) = reading.preset() {
        facts["preset"] = preset.name().into();
    }
    if let Some(format) = reading.format() {
        let layout = format.layout();
        facts["format"] = json!(FormatDoc::from(format));
        for (name, generators) in [("per_generator", 1), ("total", layout.generator_ids())] {
            let per_tick = u128::from(layout.ids_per_tick()) * u128::from(generators);
            facts[name]["ids_per_tick"] = number(per_tick);
            for rate in RATES {
                let ids = rate.ids(per_tick, format.tick_ms());
                facts[name][format!("ids_per_{}", rate.name)] = number(ids);
            }
        }
    }
    facts
}

/// Past 64 bits readers of JSON round a number anyway, so it is rounded here.
fn number(number: u128) -> Value {
    u64::try_from(number).map_or_else(|_| (number as f64).into(), Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_core::Format;

    #[test]
    fn the_ruler_has_a_letter_a_bit() {
        let [numbers, letters] = ruler(&Reading::Format(Format::DEFAULT).fields());
        assert_eq!(numbers, format!("63 62{}22 21      12 11         0", " ".repeat(37)));
        let wide = |letter: &str, bits| letter.repeat(bits);
        assert_eq!(letters, format!("0  {} {} {}", wide("t", 41), wide("g", 10), wide("s", 12)));
        for text in ["t63g0s0", "t1g62s0", "t61g1s1", "t1g0s62"] {
            let format = Format::new(text.parse().unwrap(), 1, 0).unwrap();
            let [numbers, letters] = ruler(&Reading::Format(format).fields());
            assert_eq!(letters.chars().filter(|c| *c != ' ').count(), 64, "{text}");
            assert!(numbers.starts_with("63 62"), "{text}: {numbers}");
        }
    }

    #[test]
    fn counts_do_not_overflow_at_the_widest() {
        for text_of in ["t1g0s62", "t1g62s0", "t1g31s31"] {
            for tick_ms in [1, Format::MAX_TICK_MS] {
                let format = Format::new(text_of.parse().unwrap(), tick_ms, 0).unwrap();
                assert!(text(Reading::Format(format)).contains("a day"));
                json(Reading::Format(format));
            }
        }
    }
}
