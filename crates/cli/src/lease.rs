//! `snowlease lease`: who has which generator id, until when.

use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::{ContentArrangement, Table, presets};
use snowlease_core::Format;
use snowlease_lease::{LeaseEntry, LeaseStore, os};
use snowlease_wire::time::text;
use snowlease_wire::{LeaseLine, Leases, State};

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

/// See who has which generator id
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Lease {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(List),
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

impl Lease {
    pub(crate) fn run(self) -> Result<()> {
        let Verb::List(list) = self.verb;
        let leases = match list.target.asked()? {
            Asked::Service(client) => client.get("/generators")?,
            Asked::Store(url) => of_store(&*stores::open(&url)?)?,
        };
        if list.json {
            return output::answer(&serde_json::to_string(&leases)?);
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
    let lines = store.list()?.into_iter().map(|entry| line(entry, format, now_ms));
    Ok(Leases { leases: lines.collect(), reference_ms: now_ms })
}

fn line(entry: LeaseEntry, format: Format, now_ms: i64) -> LeaseLine {
    let until_ms = format.unix_ms(entry.until);
    let state = match entry {
        LeaseEntry { draining: true, .. } => State::Draining,
        LeaseEntry { held: false, .. } => State::Free,
        _ if until_ms <= now_ms => State::Expired,
        _ => State::Held,
    };
    LeaseLine {
        generator_id: entry.generator_id,
        holder: entry.holder.name().to_owned(),
        machine: entry.holder.machine().to_owned(),
        process: entry.holder.process().to_owned(),
        region: entry.holder.region().to_owned(),
        seq: entry.seq,
        from: entry.from.0,
        until: entry.until.0,
        from_time: text(format.unix_ms(entry.from)),
        until_time: text(until_ms),
        granted_at_ms: entry.granted_at_ms,
        age_ms: u64::try_from(now_ms.saturating_sub(entry.granted_at_ms)).unwrap_or(0),
        skew_ms: None,
        state,
    }
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
        lease.holder.clone(),
        lease.machine.clone(),
        lease.process.clone(),
        lease.region.clone(),
        lease.until_time.clone().unwrap_or_else(|| format!("tick {}", lease.until)),
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
    use snowlease_core::Tick;
    use snowlease_lease::Holder;

    fn entry(held: bool, draining: bool, until: u64) -> LeaseEntry {
        LeaseEntry {
            generator_id: 7,
            from: Tick(1),
            until: Tick(until),
            seq: 1,
            held,
            draining,
            granted_at_ms: Format::DEFAULT.epoch_ms(),
            holder: Holder::new("web", "host-1", "42", "eu").unwrap(),
        }
    }

    #[test]
    fn states_follow_from_the_cell_and_the_clock() {
        let now_ms = Format::DEFAULT.epoch_ms() + 1_000;
        let state = |entry| line(entry, Format::DEFAULT, now_ms).state;
        assert_eq!(state(entry(true, false, 1_001)), State::Held);
        assert_eq!(state(entry(true, false, 1_000)), State::Expired);
        assert_eq!(state(entry(false, false, 1_001)), State::Free);
        assert_eq!(state(entry(true, true, 1_001)), State::Draining);
    }

    #[test]
    fn the_table_has_a_line_a_lease() {
        let lines = vec![line(entry(true, false, 60_000), Format::DEFAULT, 1_704_067_205_000)];
        let table = table(&Leases { leases: lines, reference_ms: 0 });
        assert_eq!(table.lines().count(), 2, "{table}");
        assert!(table.contains("2024-01-01T00:01:00.000Z") && table.contains("5s"), "{table}");
        assert!(table.contains("region"), "{table}");
    }

    #[test]
    fn a_column_in_which_nothing_is_said_is_left_out() {
        let mut nobody = entry(false, false, 60_000);
        nobody.holder = Holder::nobody();
        let lines = vec![line(nobody, Format::DEFAULT, 1_704_067_205_000)];
        let table = table(&Leases { leases: lines, reference_ms: 0 });
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
