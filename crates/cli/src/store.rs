//! `snowlease store`: makes, looks at, freezes, quarantines and checks the store of a service.
//!
//! Nothing here deletes a cell or takes a generator id away from its holder: waiting for a window
//! to end is always safe.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use snowlease_core::Tick;
use snowlease_lease::pool::judging_tick;
use snowlease_lease::{LeaseStore, Mode, StoreStatus, Terms, os, rules};
use snowlease_service::{look, store_doc, verified_doc};
use snowlease_wire::{self as wire, FormatDoc, StoreDoc};

use crate::client::Client;
use crate::output::{self, plain};
use crate::settings::keys::{self, Key};
use crate::settings::{Flags, Keys, Resolver, hide_secrets};
use crate::stores::{self, Wanted};
use crate::target::{Asked, Target};
use crate::time::told;
use crate::usage::Usage;

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
  snowlease store quarantine --store etcd://etcd-1:2379,etcd-2:2379/ids
  snowlease store quarantine --server http://ids.internal:8700

After a store was restored from a backup or copied from elsewhere it may have forgotten leases.
Until every one that it may have forgotten is over, nothing is granted or renewed. It ends by
itself. The service of a store in a file has to be stopped first, or asked with --server.";

const FREEZE_EXAMPLES: &str = "\
Examples:
  snowlease store freeze
  snowlease store freeze --store etcd://etcd-1:2379,etcd-2:2379/ids

Nobody new gets a lease until `snowlease store unfreeze`; who has one keeps it.";

const UNFREEZE_EXAMPLES: &str = "\
Examples:
  snowlease store unfreeze
  snowlease store unfreeze --store etcd://etcd-1:2379,etcd-2:2379/ids";

const VERIFY_EXAMPLES: &str = "\
Examples:
  snowlease store verify
  snowlease store verify --store postgres://ids@db.internal/ids --json

Checks every cell, and its history where the store keeps one, against the invariants that every
grant rests on. It changes nothing. The exit code is 1 if anything is wrong.";

const ADOPT_EXAMPLES: &str = "\
Examples:
  snowlease store adopt --plan plan.toml --range eu --store etcd://etcd-1:2379/ids

Run it for each store after the plan was changed, then restart its services with the new plan.
Those that were started with the plan before are granted leases still. The generator ids of a
store never change: a plan that changes them is refused.";

/// Make, look at, freeze, quarantine or check a store
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
    Freeze(Freeze),
    Unfreeze(Unfreeze),
    Quarantine(Quarantine),
    Verify(Verify),
    Adopt(Adopt),
}

impl Store {
    pub(crate) fn run(self) -> Result<()> {
        match self.verb {
            Verb::Init(verb) => verb.run(),
            Verb::Status(verb) => verb.run(),
            Verb::Freeze(Freeze { operation }) => operation.run(Mode::Frozen),
            Verb::Unfreeze(Unfreeze { operation }) => operation.run(Mode::Open),
            Verb::Quarantine(verb) => verb.run(),
            Verb::Verify(verb) => verb.run(),
            Verb::Adopt(verb) => verb.run(),
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
    const KEYS: &'static [&'static Key] = &[
        &keys::STORE,
        &keys::LAYOUT,
        &keys::TICK,
        &keys::EPOCH,
        &keys::GENERATORS,
        &keys::REGION,
        &keys::ENVIRONMENT,
        &keys::PLAN,
        &keys::RANGE,
    ];
}

impl Init {
    fn run(self) -> Result<()> {
        let sources = self.flags.sources()?;
        let place = Resolver::new(&sources).place()?;
        let url = place.store.value;
        let wanted = Wanted {
            format: Some(place.format.value),
            range: Some(place.generators.value),
            region: place.region,
            realm: place.realm,
            ..Wanted::default()
        };
        let store = stores::create(&url, &wanted)?;
        let facts = Facts::of_store(&*store)?;
        let head = format!("created {}\n", hide_secrets(&url));
        output::answer(&facts.answer(&head, self.json)?)
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

/// Grant nothing new; who has a lease keeps it
#[derive(Debug, Args)]
#[command(after_help = FREEZE_EXAMPLES)]
struct Freeze {
    #[command(flatten)]
    operation: SetMode,
}

/// Grant again
#[derive(Debug, Args)]
#[command(after_help = UNFREEZE_EXAMPLES)]
struct Unfreeze {
    #[command(flatten)]
    operation: SetMode,
}

#[derive(Debug, Args)]
struct SetMode {
    #[command(flatten)]
    target: Target,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl SetMode {
    fn run(self, mode: Mode) -> Result<()> {
        let (path, told, set) = match mode {
            Mode::Frozen => (
                "/store/freeze",
                "frozen: it grants nothing, holders go on (`snowlease store unfreeze` undoes it)",
                wire::Mode::Frozen,
            ),
            Mode::Open => ("/store/unfreeze", "open: it grants leases", wire::Mode::Open),
        };
        let set = match self.target.asked()? {
            Asked::Service(client) => client.command::<wire::ModeSet>(path)?,
            Asked::Store(url) => {
                stores::open(&url)?.set_mode(mode)?;
                wire::ModeSet { mode: set }
            }
        };
        output::answer(&if self.json { output::json(&set)? } else { told.to_owned() })
    }
}

/// Check everything that a store holds
#[derive(Debug, Args)]
#[command(after_help = VERIFY_EXAMPLES)]
struct Verify {
    #[command(flatten)]
    target: Target,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    fn run(self) -> Result<()> {
        let verified: wire::Verified = match self.target.asked()? {
            Asked::Service(client) => client.get("/store/verify")?,
            Asked::Store(url) => verified_doc(stores::open(&url)?.verify()?),
        };
        if self.json {
            output::answer(&output::json(&verified)?)?;
        } else if verified.sound {
            output::answer(&format!(
                "sound: {} cells and {} steps of their history checked; {}",
                verified.cells,
                verified.steps,
                plain(&verified.history)
            ))?;
        }
        if verified.sound {
            return Ok(());
        }
        let told = verified.findings.iter().map(|finding| match finding.generator_id {
            Some(id) => format!("generator id {id}: {}", plain(&finding.what)),
            None => plain(&finding.what),
        });
        let (most, count) = (10, verified.findings.len());
        let mut told: Vec<_> = told.take(most).collect();
        if count > most {
            told.push(format!("{} more (--json has all)", count - most));
        }
        bail!(
            "the store is not sound: {}; freeze it, keep a copy, and find out who wrote to it: \
             `snowlease store quarantine` makes granting safe again",
            told.join("; ")
        )
    }
}

/// Give a store the new version of its plan
#[derive(Debug, Args)]
#[command(after_help = ADOPT_EXAMPLES)]
struct Adopt {
    #[command(flatten)]
    flags: Flags<AdoptKeys>,
}

#[derive(Clone, Debug)]
struct AdoptKeys;

impl Keys for AdoptKeys {
    const KEYS: &'static [&'static Key] = &[&keys::STORE, &keys::PLAN, &keys::RANGE];
}

impl Adopt {
    fn run(self) -> Result<()> {
        let sources = self.flags.sources()?;
        let place = Resolver::new(&sources).place()?;
        let Some(plan) = place.realm.plan() else {
            return Err(Usage("--plan is missing: give the new plan".to_owned()).into());
        };
        let url = hide_secrets(&place.store.value);
        let store = stores::open(&place.store.value)?;
        let meta = store.status()?.meta;
        let (first, last) = meta.range;
        if meta.format != place.format.value {
            bail!(
                "{url} has the format {}, and the plan says {}: the format of a store never \
                 changes",
                meta.format,
                place.format.value
            );
        }
        if meta.range != place.generators.value {
            bail!(
                "{url} grants the generator ids {first}-{last}, and the plan says {}-{}: the range \
                 of a store never changes; plan the others for another store",
                place.generators.value.0,
                place.generators.value.1
            );
        }
        if meta.realm.environment() != place.realm.environment() {
            bail!(
                "{url} is of the environment {:?}, and the plan of {:?}: the environment of a \
                 store never changes",
                meta.realm.environment(),
                place.realm.environment()
            );
        }
        store.adopt_plan(Some(plan))?;
        output::answer(&format!(
            "{url} goes by the plan {plan}; services that were started with the one before may be \
             restarted one by one"
        ))
    }
}

/// Grant nothing until every lease that a store may have forgotten is over
#[derive(Debug, Args)]
#[command(after_help = QUARANTINE_EXAMPLES)]
struct Quarantine {
    #[command(flatten)]
    flags: Flags<StoreKey>,
    /// Ask the service at this URL
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
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
        let (url, floor, time) = match self.server {
            Some(server) => {
                let answer: wire::Quarantined =
                    Client::new(&server)?.command("/store/quarantine")?;
                let unsaid = "a time past what can be said".to_owned();
                (server, Tick(answer.floor), answer.floor_time.unwrap_or(unsaid))
            }
            None => {
                let sources = self.flags.sources()?;
                let url = Resolver::new(&sources).store()?.value;
                let store = stores::adopt(&url)?;
                let StoreStatus { meta, pulse_ms, .. } = store.status()?;
                let now_ms = os::wall_ms();
                check_clock(now_ms, pulse_ms.unwrap_or(0))?;
                let now = meta.format.tick_at_ms(now_ms).context("the floor cannot be told")?;
                let floor = store.quarantine(rules::past_every_window(&meta, now))?;
                (url, floor, told(meta.format.unix_ms(floor)))
            }
        };
        if self.json {
            let facts = serde_json::json!({ "floor": floor.0, "floor_time": time });
            return output::answer(&facts.to_string());
        }
        let (url, time) = (hide_secrets(&url), plain(&time));
        output::answer(&format!(
            "{url} is in quarantine: it grants again from {time} (tick {floor})"
        ))
    }
}

/// A floor by a clock that is behind keeps out nobody whom it is meant to.
fn check_clock(now_ms: i64, pulse_ms: i64) -> Result<()> {
    let behind_ms = pulse_ms.saturating_sub(now_ms);
    if u128::from(behind_ms.unsigned_abs()) > Terms::SKEW_LIMIT.as_millis() && behind_ms > 0 {
        bail!(
            "this machine's clock is {behind_ms} ms behind whoever used the store last: set it, or \
             ask a service with --server, and try again"
        );
    }
    Ok(())
}

/// What a store is for and how it stands.
#[derive(Debug, Serialize)]
struct Facts {
    kind: String,
    format: FormatDoc,
    generators: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    region: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    environment: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
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
            region: doc.region,
            environment: doc.environment,
            plan: doc.plan,
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
        let now_ms = os::wall_ms();
        let format = store.status()?.meta.format;
        let (status, pool) = look(store, judging_tick(format, now_ms))?;
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
        for (name, value) in [
            ("region", Some(&self.region)),
            ("environment", Some(&self.environment)),
            ("plan", self.plan.as_ref()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let _ = writeln!(text, "{name:<13}  {}", plain(value));
            }
        }
        let _ = writeln!(text, "in use         {} of {}", self.used, self.total);
        let _ = writeln!(text, "mode           {mode}");
        for alarm in &self.alarms {
            let _ = writeln!(text, "alarm          {}", plain(alarm));
        }
        Ok(text)
    }
}
