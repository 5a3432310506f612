//! The configuration: each value with its origin, checked before anything is done.

mod clock;
pub(crate) mod keys;
mod plan;
mod read;
mod sources;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use snowlease_core::{Format, Layout};
use snowlease_lease::range::default_range;
use snowlease_lease::{Holder, PlannedRange, Realm, RollbackGuard, Terms, TermsError, os};
use tracing_subscriber::EnvFilter;

pub(crate) use self::clock::{Clock, ClockGuard};
use self::keys::Key;
pub(crate) use self::plan::PlanFile;
pub(crate) use self::sources::{Flags, Keys, Origin, Sources};
use crate::usage::Usage;
use crate::{logs, stores};

/// A value and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Setting<T> {
    /// The value, if anybody gave it.
    pub(crate) fn given(self) -> Option<T> {
        (self.origin != Origin::Default).then_some(self.value)
    }
}

/// What `serve` goes by.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: Setting<SocketAddr>,
    pub(crate) store: Setting<String>,
    pub(crate) format: Setting<Format>,
    pub(crate) generators: Setting<(u64, u64)>,
    pub(crate) realm: Realm,
    pub(crate) terms: Terms,
    pub(crate) rollback_guard: RollbackGuard,
    pub(crate) clock: Clock,
    pub(crate) holder: Holder,
    pub(crate) max_ids_per_request: Setting<usize>,
    pub(crate) insecure: bool,
    pub(crate) log: EnvFilter,
    pub(crate) shown: Shown,
}

impl Settings {
    /// Everything of the table, each key checked alone and with those it depends on.
    pub(crate) fn resolve(sources: &Sources) -> Result<Settings, Usage> {
        let mut resolver = Resolver::new(sources);
        let listen = resolver.required(&keys::LISTEN, read::listen)?;
        let Place { store, format, generators, region, realm } = resolver.place()?;
        let terms = resolver.terms()?;
        let name = resolver.name()?;
        let process = std::process::id().to_string();
        let holder = Holder::new(name, os::host_name(), process, region)
            .map_err(|error| Usage(error.to_string()))?;
        let rollback_guard = resolver.required(&keys::ROLLBACK_GUARD, str::parse)?.value;
        let max_ids_per_request = resolver.required(&keys::MAX_IDS_PER_REQUEST, read::max_ids)?;
        let insecure = resolver.required(&keys::INSECURE, read::switch)?.value;
        let log = resolver.required(&keys::LOG, logs::parse)?.value;
        let clock = resolver.clock(&store.value)?;
        Ok(Settings {
            listen,
            store,
            format,
            generators,
            realm,
            terms,
            rollback_guard,
            clock,
            holder,
            max_ids_per_request,
            insecure,
            log,
            shown: resolver.shown,
        })
    }
}

/// Which store, and what it is for.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) store: Setting<String>,
    pub(crate) format: Setting<Format>,
    pub(crate) generators: Setting<(u64, u64)>,
    pub(crate) region: String,
    pub(crate) realm: Realm,
}

/// Turns texts into values, and remembers what to show of them.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    sources: &'a Sources,
    shown: Shown,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(sources: &'a Sources) -> Resolver<'a> {
        Resolver { sources, shown: Shown::default() }
    }

    /// The value of a key, if anybody gave one or there is a default.
    pub(crate) fn optional<T>(
        &mut self,
        key: &'static Key,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<Setting<T>>, Usage> {
        let Some((text, origin)) = self.sources.text(key)? else {
            self.shown.add(key, None, Origin::Default);
            return Ok(None);
        };
        let value = read(&text).map_err(|fault| wrong(key, &origin, &text, &fault))?;
        self.shown.add(key, Some(text), origin.clone());
        Ok(Some(Setting { value, origin }))
    }

    /// The value of a key that has a default.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static Key,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Setting<T>, Usage> {
        let missing = || Usage(format!("--{} is missing: give it a value", key.flag));
        self.optional(key, read)?.ok_or_else(missing)
    }

    /// Which store, and what it is for, as the plan says if there is one. What is given beside a
    /// plan must not contradict it.
    pub(crate) fn place(&mut self) -> Result<Place, Usage> {
        let store = self.store()?;
        let format = self.format()?;
        let generators = self.generators(format.value);
        let region = self.optional(&keys::REGION, label)?;
        let environment = self.optional(&keys::ENVIRONMENT, |text| {
            let checked = Realm::new(text, None).map_err(|error| error.to_string());
            checked.map(|_| text.to_owned())
        })?;
        let plan = self.plan()?;
        let name = |setting: Option<Setting<String>>| setting.map(|setting| setting.value);
        let Some((file, range, origin)) = plan else {
            let realm = Realm::new(name(environment).unwrap_or_default(), None)
                .map_err(|error| Usage(error.to_string()))?;
            let (generators, region) = (generators?, name(region).unwrap_or_default());
            return Ok(Place { store, format, generators, region, realm });
        };
        let plan = &file.plan;
        let contradicts = |key: &Key, origin: &Origin, planned: &str| {
            Err(Usage(format!(
                "{} contradicts the plan, which says {planned}: leave it out, or change the plan",
                origin.of(key)
            )))
        };
        if format.origin != Origin::Default && format.value != plan.format() {
            return contradicts(&keys::LAYOUT, &format.origin, &plan.format().to_string());
        }
        // A range that only the layout of the plan has is judged with that.
        let given = self.sources.text(&keys::GENERATORS)?;
        if let Some((text, origin)) = given
            && read::generators(&text, plan.format()) != Ok(range.ids)
        {
            let planned = format!("{}-{}", range.ids.0, range.ids.1);
            return contradicts(&keys::GENERATORS, &origin, &planned);
        }
        if let Some(given) = environment.filter(|given| given.value != plan.environment()) {
            let planned = match plan.environment() {
                "" => "none",
                name => name,
            };
            return contradicts(&keys::ENVIRONMENT, &given.origin, planned);
        }
        let store = match file.store(&range) {
            Some(url) if store.origin == Origin::Default => {
                Setting { value: url.to_owned(), origin: origin.clone() }
            }
            _ => store,
        };
        self.shown.fill(&keys::STORE, store.value.clone());
        self.shown.fill(&keys::LAYOUT, plan.format().layout().to_string());
        self.shown.fill(&keys::TICK, told(Duration::from_millis(plan.format().tick_ms().into())));
        self.shown.fill(&keys::EPOCH, crate::time::told(plan.format().epoch_ms()));
        self.shown.fill(&keys::GENERATORS, format!("{}-{}", range.ids.0, range.ids.1));
        let region = name(region).unwrap_or_else(|| file.region(&range).to_owned());
        self.shown.fill(&keys::REGION, region.clone());
        Ok(Place {
            store,
            format: Setting { value: plan.format(), origin: origin.clone() },
            generators: Setting { value: range.ids, origin },
            region,
            realm: plan.realm(),
        })
    }

    /// The plan and its range that counts here, and who gave it.
    fn plan(&mut self) -> Result<Option<(PlanFile, PlannedRange, Origin)>, Usage> {
        let path = self.optional(&keys::PLAN, |text| Ok(PathBuf::from(text)))?;
        let Some(path) = path else {
            let range = self.optional(&keys::RANGE, |text| Ok(text.to_owned()))?;
            return match range {
                Some(range) => Err(Usage(format!(
                    "{} names a range of a plan: give --{} FILE too",
                    range.origin.of(&keys::RANGE),
                    keys::PLAN.flag
                ))),
                None => Ok(None),
            };
        };
        let file = PlanFile::read(&path.value)?;
        let range = self.optional(&keys::RANGE, |name| file.range(name).cloned())?;
        match range {
            Some(range) => Ok(Some((file, range.value, path.origin))),
            None => {
                let names: Vec<&str> =
                    file.plan.ranges().iter().map(|range| range.name.as_str()).collect();
                Err(Usage(format!(
                    "say which range of the plan this is: --{} {}",
                    keys::RANGE.flag,
                    names.join("|")
                )))
            }
        }
    }

    /// Layout, tick length and epoch together; the origin is the default only if that of all three
    /// is.
    pub(crate) fn format(&mut self) -> Result<Setting<Format>, Usage> {
        let layout = self.required(&keys::LAYOUT, |text| {
            text.parse::<Layout>().map_err(|error| error.to_string())
        })?;
        let tick = self.required(&keys::TICK, |text| {
            let ms = read::tick_ms(text)?;
            Format::new(Layout::DEFAULT, ms, 0).map_err(|error| error.to_string())?;
            Ok(ms)
        })?;
        // Whether it has begun is no matter of the text: the clock may be what is wrong.
        let epoch = self.required(&keys::EPOCH, read::epoch_ms)?;
        let value = Format::new(layout.value, tick.value, epoch.value)
            .map_err(|error| Usage(error.to_string()))?;
        let origins = [layout.origin, tick.origin, epoch.origin];
        let origin = origins.into_iter().find(|origin| *origin != Origin::Default);
        Ok(Setting { value, origin: origin.unwrap_or(Origin::Default) })
    }

    /// The generator ids of a store; all of the layout unless somebody says otherwise.
    pub(crate) fn generators(&mut self, format: Format) -> Result<Setting<(u64, u64)>, Usage> {
        let given = self.optional(&keys::GENERATORS, |text| read::generators(text, format))?;
        let all = default_range(format);
        if given.is_none() {
            self.shown.fill(&keys::GENERATORS, format!("{}-{}", all.0, all.1));
        }
        Ok(given.unwrap_or(Setting { value: all, origin: Origin::Default }))
    }

    /// The URL of a store of this build.
    pub(crate) fn store(&mut self) -> Result<Setting<String>, Usage> {
        self.required(&keys::STORE, |url| {
            stores::check(url).map_err(|error| error.to_string())?;
            Ok(url.to_owned())
        })
    }

    fn terms(&mut self) -> Result<Terms, Usage> {
        let lease = self.required(&keys::LEASE, read::length)?;
        let renew = self.optional(&keys::RENEW, read::length)?.unwrap_or_else(|| {
            let third_ms = u64::try_from(lease.value.as_millis() / 3).unwrap_or(u64::MAX);
            let value = Duration::from_millis(third_ms);
            self.shown.fill(&keys::RENEW, told(value));
            Setting { value, origin: Origin::Default }
        });
        let bridge = self.optional(&keys::BRIDGE, read::length)?;
        let terms = Terms::new(lease.value, renew.value)
            .map_err(|error| Usage(no_terms(error, &lease, &renew)))?;
        match bridge {
            Some(bridge) => terms.with_bridge(bridge.value).map_err(|_| {
                Usage(format!(
                    "{} {}: choose {} (the lease) to {}",
                    bridge.origin.of(&keys::BRIDGE),
                    told(bridge.value),
                    told(lease.value),
                    told(Terms::LONGEST_WINDOW)
                ))
            }),
            None => {
                self.shown.fill(&keys::BRIDGE, told(lease.value));
                Ok(terms)
            }
        }
    }

    fn name(&mut self) -> Result<String, Usage> {
        let given = self.optional(&keys::NAME, label)?;
        Ok(given.map_or_else(
            || {
                let host = Some(os::host_name()).filter(|name| !name.is_empty());
                let name = host.unwrap_or_else(|| "snowlease".to_owned());
                self.shown.fill(&keys::NAME, name.clone());
                name
            },
            |setting| setting.value,
        ))
    }
}

/// A length as the flags take it.
fn told(length: Duration) -> String {
    match length.as_millis() {
        ms if ms % 1_000 == 0 => format!("{}s", ms / 1_000),
        ms => format!("{ms}ms"),
    }
}

/// Why these are no terms, in lengths that the flags take.
fn no_terms(error: TermsError, lease: &Setting<Duration>, renew: &Setting<Duration>) -> String {
    let (long, often) = (told(lease.value), told(renew.value));
    match error {
        TermsError::Window { .. } | TermsError::Bridge { .. } => format!(
            "{} {long}: choose {} to {}",
            lease.origin.of(&keys::LEASE),
            told(Terms::SHORTEST_WINDOW),
            told(Terms::LONGEST_WINDOW)
        ),
        TermsError::Renew { .. } => format!(
            "{} {often} leaves no time for a second attempt in a lease of {long}: renew every {}",
            renew.origin.of(&keys::RENEW),
            told(lease.value / 3)
        ),
    }
}

fn label(text: &str) -> Result<String, String> {
    // The error names a part of a holder's label, and this text may be another one.
    Holder::new(text, "", "", "")
        .map_err(|error| format!("it {}: give 1 to 128 bytes of plain text", error.fault))?;
    Ok(text.to_owned())
}

fn wrong(key: &Key, origin: &Origin, text: &str, fault: &str) -> Usage {
    Usage(format!("{} {:?}: {fault}", origin.of(key), hide_secrets(text)))
}

/// What `--print-config` prints: TOML that could be the file, with the origin of each value.
#[derive(Debug, Default)]
pub(crate) struct Shown(Vec<(&'static Key, Option<String>, Origin)>);

impl Shown {
    fn add(&mut self, key: &'static Key, text: Option<String>, origin: Origin) {
        self.0.push((key, text, origin));
    }

    /// The default of a key that depends on something else.
    fn fill(&mut self, key: &'static Key, text: String) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.0 == key) {
            entry.1 = Some(text);
        }
    }

    /// One line per key. A key without a value is a comment, and so is a default that a store which
    /// is there may overrule: as a line of a file it would be insisted on.
    pub(crate) fn toml(&self) -> String {
        let mut lines = Vec::new();
        for (key, text, origin) in &self.0 {
            let value = text.as_deref().map(hide_secrets);
            let by_store =
                [&keys::LAYOUT, &keys::TICK, &keys::EPOCH, &keys::GENERATORS, &keys::CLOCK_GATE];
            let overruled = *origin == Origin::Default && by_store.contains(key);
            let left = match value {
                Some(value) if overruled => {
                    format!("# {} = {}", key.name(), toml::Value::String(value))
                }
                Some(value) if key.value.is_none() => format!("{} = {value}", key.name()),
                Some(value) => format!("{} = {}", key.name(), toml::Value::String(value)),
                None => format!("# {} =", key.name()),
            };
            let right = match text {
                Some(_) if overruled => format!("{origin}, or the store's own"),
                Some(_) => origin.to_string(),
                None => "not set".to_owned(),
            };
            lines.push((left, right));
        }
        let width = lines.iter().map(|(left, _)| left.chars().count()).max().unwrap_or_default();
        lines.iter().fold(String::new(), |mut all, (left, right)| {
            // Writing into a string cannot fail.
            let _ = writeln!(all, "{left:width$}  # {right}");
            all
        })
    }

    /// `{"tick":{"value":"1ms","origin":"default"},…}`; a key that is not set has the value null.
    pub(crate) fn json(&self) -> serde_json::Value {
        let entry = |(key, text, origin): &(&'static Key, Option<String>, Origin)| {
            let value = text.as_deref().map(hide_secrets);
            let origin = text.as_ref().map(|_| origin.to_string());
            (key.name(), serde_json::json!({ "value": value, "origin": origin }))
        };
        serde_json::Value::Object(self.0.iter().map(entry).collect())
    }
}

/// A URL without the user, the password and the options in it.
///
/// What is hidden is all up to the last `@`: drivers take a password with `/`, `?` or `@` in it,
/// and a URL that is refused may be any text. A path of a file is shown as it is.
pub(crate) fn hide_secrets(text: &str) -> String {
    let is_path = text.starts_with("sqlite:") && !text.starts_with("sqlite://");
    if is_path || text.starts_with("memory:") {
        return text.to_owned();
    }
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric());
    let scheme = if is_scheme { format!("{scheme}://") } else { String::new() };
    let (hidden, shown) = match text.rsplit_once('@') {
        Some((_, host)) => (format!("{scheme}***@"), host),
        None => (String::new(), text),
    };
    match shown.split_once('?') {
        Some((shown, _)) => format!("{hidden}{shown}?***"),
        None => format!("{hidden}{shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_not_shown() {
        for (url, shown) in [
            ("postgres://me:se@cret@db:5432/ids", "postgres://***@db:5432/ids"),
            ("postgres://me:pa/ss@db/ids", "postgres://***@db/ids"),
            ("postgres://me:se?cret@db/ids", "postgres://***@db/ids"),
            ("postgres://me@db/ids?password=x", "postgres://***@db/ids?***"),
            ("etcd://me:pa/ss@h", "etcd://***@h"),
            ("me:secret@db/ids", "***@db/ids"),
            ("postgres:me:secret@db", "***@db"),
            ("http://h:8700/x?token=y", "http://h:8700/x?***"),
        ] {
            assert_eq!(hide_secrets(url), shown);
        }
        for plain in ["sqlite:a@b.db", "http://h:8700/", "memory:", "etcd://h1:1,h2:2/ids"] {
            assert_eq!(hide_secrets(plain), plain);
        }
    }
}
