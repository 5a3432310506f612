//! `snowlease store`: makes, looks at and quarantines the store of a service.
//!
//! Nothing here deletes a cell or takes a generator id away from its holder: waiting for a window
//! to end is always safe.

use std::fmt::Write;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;
use snowlease_lease::pool::judging_tick;
use snowlease_lease::{LeaseStore, Pool, Terms, os, rules};
use snowlease_service::store_doc;
use snowlease_wire::{self as wire, FormatDoc, StoreDoc};

use crate::output::{self, plain};
use crate::settings::keys::{self, Key};
use crate::settings::{Flags, Keys, Resolver, hide_secrets};
use crate::stores::{self, Wanted};
use crate::target::{Asked, Target};
use crate::time::told;

const INIT_EXAMPLES: &str = "\
Examples:
  snowlease store init
  snowlease store init --store sqlite:/var/lib/snowlease/ids.db --layout t41g13s9
  snowlease store init --generators 512-1023 --json

The format and the generator ids of a store never change: both are part of its ids.
`snowlease serve` makes a store by itself; this is for doing it ahead, or elsewhere.";

const STATUS_EXAMPLES: &str = "\
Examples:
  snowlease store status
  snowlease store status --server http://ids.internal:8700
  snowlease store status --store sqlite:snowlease.db --json";

const QUARANTINE_EXAMPLES: &str = "\
Examples:
  snowlease store quarantine --store sqlite:snowlease.db

After a store was restored from a backup or copied from elsewhere it may have forgotten leases.
Until every one that it may have forgotten is over, nothing is granted or renewed. It ends by
itself. Stop the service first.";

/// Make, look at or quarantine a store
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct Store {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(Init),
    Status(Status),
    Quarantine(Quarantine),
}

impl Store {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::Init(verb) => verb.run(),
            Verb::Status(verb) => verb.run(),
            Verb::Quarantine(verb) => verb.run(),
        }
    }
}

/// Make a store
#[derive(Debug, Args)]
#[command(after_help = INIT_EXAMPLES)]
struct Init {
    #[command(flatten)]
    flags: Flags<InitKeys>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct InitKeys;

impl Keys for InitKeys {
    const KEYS: &'static [&'static Key] =
        &[&keys::STORE, &keys::LAYOUT, &keys::TICK, &keys::EPOCH, &keys::GENERATORS];
}

impl Init {
    fn run(self) -> Result<()> {
        let sources = self.flags.sources()?;
        let mut resolver = Resolver::new(&sources);
        let url = resolver.store()?.value;
        let format = resolver.format()?.value;
        let range = resolver.generators(format)?.value;
        let wanted = Wanted { format: Some(format), range: Some(range), ..Wanted::ANY };
        let store = stores::create(&url, wanted)?;
        let facts = Facts::of_store(&*store)?;
        output::answer(&facts.answer(&format!("created {url}\n"), self.json)?)
    }
}

/// Show what a store is for and how it stands
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
struct Status {
    #[command(flatten)]
    target: Target,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    fn run(self) -> Result<()> {
        let facts = match self.target.asked()? {
            Asked::Service(client) => Facts::from(client.get::<StoreDoc>("/store")?),
            Asked::Store(url) => Facts::of_store(&*stores::open(&url)?)?,
        };
        output::answer(&facts.answer("", self.json)?)
    }
}

/// Grant nothing until every lease that a store may have forgotten is over
#[derive(Debug, Args)]
#[command(after_help = QUARANTINE_EXAMPLES)]
struct Quarantine {
    #[command(flatten)]
    flags: Flags<StoreKey>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct StoreKey;

impl Keys for StoreKey {
    const KEYS: &'static [&'static Key] = &[&keys::STORE];
}

impl Quarantine {
    fn run(self) -> Result<()> {
        let sources = self.flags.sources()?;
        let url = Resolver::new(&sources).store()?.value;
        let store = stores::adopt(&url)?;
        let meta = store.status()?.meta;
        let now = meta.format.tick_at_ms(os::wall_ms()).context("the floor cannot be told")?;
        let floor = store.quarantine(rules::past_every_window(&meta, now))?;
        let time = told(meta.format.unix_ms(floor));
        if self.json {
            let facts = serde_json::json!({ "floor": floor.0, "floor_time": time });
            return output::answer(&facts.to_string());
        }
        let url = hide_secrets(&url);
        output::answer(&format!(
            "{url} is in quarantine: it grants again from {time} (tick {floor})"
        ))
    }
}

/// What a store is for and how it stands.
#[derive(Debug, Serialize)]
struct Facts {
    kind: String,
    format: FormatDoc,
    generators: String,
    mode: wire::Mode,
    floor: u64,
    floor_time: String,
    longest_window: u64,
    used: u64,
    total: u64,
    alarms: Vec<String>,
    reference_ms: i64,
    #[serde(skip)]
    floor_ms: i64,
}

impl From<StoreDoc> for Facts {
    fn from(doc: StoreDoc) -> Facts {
        let StoreDoc { kind, format, generators, mode, floor, longest_window, .. } = doc;
        // In 128 bits, since a service may announce any numbers.
        let floor_ms = i128::from(format.epoch_ms) + i128::from(floor) * i128::from(format.tick_ms);
        let floor_ms = i64::try_from(floor_ms).unwrap_or(i64::MAX);
        Facts {
            kind,
            format,
            generators,
            mode,
            floor,
            floor_time: told(floor_ms),
            longest_window,
            used: doc.used,
            total: doc.total,
            alarms: doc.alarms,
            reference_ms: doc.reference_ms,
            floor_ms,
        }
    }
}

impl Facts {
    /// What a service would say of this store.
    fn of_store(store: &dyn LeaseStore) -> Result<Facts> {
        let status = store.status()?;
        let now_ms = os::wall_ms();
        let now = judging_tick(status.meta.format, now_ms);
        let pool = Pool::of(&status.meta, &store.list()?, now);
        Ok(Facts::from(store_doc(status, pool, Terms::DEFAULT.window(), now_ms)))
    }

    fn answer(&self, head: &str, json: bool) -> Result<String> {
        if json {
            return output::json(self);
        }
        let mut text = head.to_owned();
        let format = &self.format;
        let mode = match self.mode {
            wire::Mode::Frozen => "frozen: it grants nothing, holders go on".to_owned(),
            wire::Mode::Open if self.floor_ms > self.reference_ms => {
                format!("in quarantine: it grants again from {}", self.floor_time)
            }
            wire::Mode::Open => "open".to_owned(),
        };
        let epoch = told(format.epoch_ms);
        // Writing into a string cannot fail.
        let _ = writeln!(text, "store          {}", plain(&self.kind));
        let _ = writeln!(
            text,
            "format         {}, tick {} ms, epoch {epoch}",
            plain(&format.layout),
            format.tick_ms
        );
        let _ = writeln!(text, "generator ids  {}", plain(&self.generators));
        let _ = writeln!(text, "in use         {} of {}", self.used, self.total);
        let _ = writeln!(text, "mode           {mode}");
        for alarm in &self.alarms {
            let _ = writeln!(text, "alarm          {}", plain(alarm));
        }
        Ok(text)
    }
}
