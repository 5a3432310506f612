//! `snowlease lease`: who has which generator id, until when; and who is to move.

use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use snowlease_lease::pool::judging_tick;
use snowlease_lease::{LeaseStore, os};
use snowlease_service::lease_line;
use snowlease_wire::{Drained, LeaseLine, Leases, State};

use crate::output;
use crate::stores;
use crate::target::{Asked, Target};

const EXAMPLES: &str = "\
Examples:
  snowlease lease list
  snowlease lease list --server http://ids.internal:8700 --json
  snowlease lease list --store sqlite:snowlease.db

States: held; expired (its window is over and it was not given back: it can be granted); draining
(not granted again, its holder moves away); free (given back). What was never granted is not
listed.";

const DRAIN_EXAMPLES: &str = "\
Examples:
  snowlease lease drain 17
  snowlease lease drain 17 --store etcd://etcd-1:2379,etcd-2:2379/ids

The holder learns of it at its next renewal, gets another generator id and goes on without a gap.
Nothing is taken away: a holder that does not move keeps its window.";

const UNDRAIN_EXAMPLES: &str = "\
Examples:
  snowlease lease undrain 17";

/// See and move who has which generator id
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Lease {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(List),
    Drain(Drain),
    Undrain(Undrain),
}

/// List every generator id that was ever granted
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct List {
    #[command(flatten)]
    target: Target,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Have the holder of a generator id move to another one
#[derive(Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
struct Drain {
    #[command(flatten)]
    mark: Mark,
}

/// Have a generator id granted again
#[derive(Debug, Args)]
#[command(after_help = UNDRAIN_EXAMPLES)]
struct Undrain {
    #[command(flatten)]
    mark: Mark,
}

#[derive(Debug, Args)]
struct Mark {
    /// The generator id
    #[arg(value_name = "ID")]
    generator_id: u64,
    #[command(flatten)]
    target: Target,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Mark {
    fn set(self, draining: bool) -> Result<()> {
        let id = self.generator_id;
        let drained = match self.target.asked()? {
            Asked::Service(client) => {
                let verb = if draining { "drain" } else { "undrain" };
                client.command(&format!("/generators/{id}/{verb}"))?
            }
            Asked::Store(url) => {
                stores::open(&url)?.drain(id, draining)?;
                Drained { generator_id: id, draining }
            }
        };
        if self.json {
            return output::answer(&output::json(&drained)?);
        }
        output::answer(&if draining {
            format!(
                "generator id {id} is draining: its holder moves to another one at its next \
                 renewal, and it is not granted again until `snowlease lease undrain {id}`"
            )
        } else {
            format!("generator id {id} is granted again")
        })
    }
}

impl Lease {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::List(list) => list.run(),
            Verb::Drain(Drain { mark }) => mark.set(true),
            Verb::Undrain(Undrain { mark }) => mark.set(false),
        }
    }
}

impl List {
    fn run(self) -> Result<()> {
        let leases = match self.target.asked()? {
            Asked::Service(client) => client.get("/generators")?,
            Asked::Store(url) => of_store(&*stores::open(&url)?)?,
        };
        if self.json {
            return output::answer(&output::json(&leases)?);
        }
        if leases.leases.is_empty() {
            return output::answer("no generator id was ever granted");
        }
        output::answer(&table(&leases))
    }
}

/// What a service would answer for this store.
fn of_store(store: &dyn LeaseStore) -> Result<Leases> {
    let format = store.status()?.meta.format;
    let now_ms = os::wall_ms();
    let now = judging_tick(format, now_ms);
    let entries = store.list()?.into_iter();
    let lines = entries.map(|entry| lease_line(entry, now, format, now_ms, None));
    Ok(Leases { leases: lines.collect(), reference_ms: now_ms })
}

const COLUMNS: [&str; 8] =
    ["generator", "state", "holder", "machine", "process", "region", "until", "age"];

/// As wide as the terminal at most; as wide as it needs where there is none. A column in which
/// nothing is said is left out.
fn table(leases: &Leases) -> String {
    let rows: Vec<[String; COLUMNS.len()]> = leases.leases.iter().map(row).collect();
    let said = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(said).collect();
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(columns.iter().map(|column| COLUMNS[*column]));
    for row in &rows {
        table.add_row(columns.iter().map(|column| &row[*column]));
    }
    // Without a border every line ends in the padding of its last cell.
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn row(lease: &LeaseLine) -> [String; COLUMNS.len()] {
    [
        lease.generator_id.to_string(),
        state(lease.state).to_owned(),
        output::plain(&lease.holder),
        output::plain(&lease.machine),
        output::plain(&lease.process),
        output::plain(&lease.region),
        lease.until_time.as_deref().map_or_else(|| format!("tick {}", lease.until), output::plain),
        age(lease.age_ms),
    ]
}

fn state(state: State) -> &'static str {
    match state {
        State::Held => "held",
        State::Expired => "expired",
        State::Draining => "draining",
        State::Free => "free",
    }
}

/// The two largest units: `3d 4h`.
fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m {}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h {}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d {}h", s / 86_400, s / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_core::{Format, Tick};
    use snowlease_lease::{Holder, LeaseEntry};

    /// What a list of this one lease says, five seconds after it was granted.
    fn list(holder: Holder) -> Leases {
        let format = Format::DEFAULT;
        let entry = LeaseEntry {
            generator_id: 7,
            from: Tick(1),
            until: Tick(60_000),
            seq: 1,
            held: holder != Holder::nobody(),
            draining: false,
            granted_at_ms: format.epoch_ms(),
            holder,
        };
        let line = lease_line(entry, Tick(5_000), format, format.epoch_ms() + 5_000, None);
        Leases { leases: vec![line], reference_ms: 0 }
    }

    #[test]
    fn the_table_has_a_line_a_lease() {
        let table = table(&list(Holder::new("web", "host-1", "42", "eu").unwrap()));
        assert_eq!(table.lines().count(), 2, "{table}");
        assert!(table.contains("2024-01-01T00:01:00.000Z") && table.contains("5s"), "{table}");
        assert!(table.contains("region"), "{table}");
    }

    #[test]
    fn a_column_in_which_nothing_is_said_is_left_out() {
        let table = table(&list(Holder::nobody()));
        assert!(!table.contains("region") && !table.contains("holder"), "{table}");
    }

    #[test]
    fn ages_are_short() {
        for (ms, text) in
            [(0, "0s"), (61_000, "1m 1s"), (3_600_000, "1h 0m"), (90_000_000, "1d 1h")]
        {
            assert_eq!(age(ms), text);
        }
    }
}
