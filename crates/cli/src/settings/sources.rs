//! Where values come from: a flag, else the environment, else the file, else the default.
//!
//! A value that is there but empty is refused and never taken for a missing one: an empty variable
//! is a deployment gone wrong, and its default may be another fleet's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::keys::{self, Key};
use crate::usage::{Usage, nearest};

/// The keys a verb takes as flags.
pub(crate) trait Keys {
    const KEYS: &'static [&'static Key];
}

/// What was given as flags, for the keys of a verb.
#[derive(Clone, Debug)]
pub(crate) struct Flags<K> {
    given: Vec<(&'static str, String)>,
    config: Option<PathBuf>,
    keys: PhantomData<K>,
}

impl<K: Keys> clap::Args for Flags<K> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read values from this TOML file [env: SNOWLEASE_CONFIG]");
        K::KEYS.iter().fold(command, |command, key| command.arg(argument(key))).arg(config)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::<K>::augment_args(command)
    }
}

fn argument(key: &'static Key) -> Arg {
    let mut help = format!("{} [env: {}]", key.help, key.variable());
    let default = if key.default.is_empty() { key.default_help } else { key.default };
    if !default.is_empty() && key.value.is_some() {
        help.push_str(&format!(" [default: {default}]"));
    }
    let heading = Some(key.heading).filter(|heading| !heading.is_empty());
    let argument = Arg::new(key.flag).long(key.flag).help(help).help_heading(heading);
    match key.value {
        Some(value) => argument.value_name(value).allow_negative_numbers(true),
        None => argument.action(ArgAction::SetTrue),
    }
}

impl<K: Keys> clap::FromArgMatches for Flags<K> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags<K>, clap::Error> {
        let given = K::KEYS.iter().filter_map(|key| {
            let text = match key.value {
                Some(_) => matches.get_one::<String>(key.flag).cloned(),
                None => matches.get_flag(key.flag).then(|| "true".to_owned()),
            };
            Some((key.flag, text?))
        });
        let config = matches.get_one::<PathBuf>("config").cloned();
        Ok(Flags { given: given.collect(), config, keys: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<K: Keys> Flags<K> {
    /// With the environment of this process, and the file if one is named.
    pub(crate) fn sources(self) -> Result<Sources, Usage> {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| name.starts_with("SNOWLEASE_"))
            .collect();
        let mut sources = Sources { flags: self.given, environment, file: None };
        let config = match self.config {
            Some(path) => Some(path),
            None => sources.variable("SNOWLEASE_CONFIG")?.map(PathBuf::from),
        };
        sources.file = config.map(|path| File::read(&path)).transpose()?;
        Ok(sources)
    }
}

/// Everything that was said about the configuration.
#[derive(Debug)]
pub(crate) struct Sources {
    flags: Vec<(&'static str, String)>,
    environment: BTreeMap<String, OsString>,
    file: Option<File>,
}

impl Sources {
    /// The text that counts for a key, and who gave it.
    pub(super) fn text(&self, key: &'static Key) -> Result<Option<(String, Origin)>, Usage> {
        let flag = self.flags.iter().find(|(flag, _)| *flag == key.flag);
        let found = if let Some((_, text)) = flag {
            Some((text.clone(), Origin::Flag))
        } else if let Some(text) = self.variable(&key.variable())? {
            Some((text, Origin::Environment))
        } else if let Some((file, text)) = self.file.as_ref().and_then(|file| file.get(key)) {
            Some((text.to_owned(), Origin::File(file.path.clone())))
        } else {
            (!key.default.is_empty()).then(|| (key.default.to_owned(), Origin::Default))
        };
        match found {
            Some((text, origin)) if text.trim().is_empty() => {
                Err(Usage(format!("{} is empty: give it a value or take it away", origin.of(key))))
            }
            found => Ok(found),
        }
    }

    fn variable(&self, name: &str) -> Result<Option<String>, Usage> {
        let Some(value) = self.environment.get(name) else { return Ok(None) };
        match value.to_str() {
            Some("") => Err(Usage(format!("{name} is empty: give it a value or unset it"))),
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(Usage(format!("{name} is not UTF-8 text: set it anew"))),
        }
    }

    /// Variables that look like a misspelt one of ours. Not an error: others put variables of this
    /// prefix there too, as Kubernetes does for a service called `snowlease`.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = String> {
        let known: Vec<String> = keys::ALL.iter().map(|key| key.variable()).collect();
        self.environment.keys().filter_map(move |name| {
            let other = ["SNOWLEASE_CONFIG", "SNOWLEASE_SERVER"];
            if known.contains(name) || other.contains(&name.as_str()) {
                return None;
            }
            let end = |name: &'_ str| name.trim_start_matches("SNOWLEASE_").to_owned();
            let ends: Vec<String> = known.iter().map(|name| end(name)).collect();
            let meant = nearest(&end(name), ends.iter().map(String::as_str))?;
            Some(format!("the variable {name} is ignored: did you mean SNOWLEASE_{meant}?"))
        })
    }
}

/// Who gave a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Environment,
    File(PathBuf),
    Default,
}

impl Origin {
    /// The place where the value of `key` is to be changed.
    pub(crate) fn of(&self, key: &Key) -> String {
        match self {
            Origin::Flag => format!("--{}", key.flag),
            Origin::Environment => key.variable(),
            Origin::File(path) => format!("{} in {}", key.name(), path.display()),
            Origin::Default => format!("the default of --{}", key.flag),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A configuration file that was read and has no unknown keys.
#[derive(Debug)]
struct File {
    path: PathBuf,
    values: BTreeMap<String, String>,
}

impl File {
    fn read(path: &Path) -> Result<File, Usage> {
        let text = fs::read_to_string(path).map_err(|error| {
            Usage(format!("the configuration file {} cannot be read: {error}", path.display()))
        })?;
        let values =
            values(&text).map_err(|fault| Usage(format!("{}: {fault}", path.display())))?;
        Ok(File { path: path.to_owned(), values })
    }

    fn get(&self, key: &Key) -> Option<(&File, &str)> {
        self.values.get(&key.name()).map(|text| (self, text.as_str()))
    }
}

/// The values of a TOML file as text, each under a known key.
fn values(text: &str) -> Result<BTreeMap<String, String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        format!("line {}: {}", before.matches('\n').count() + 1, error.message())
    })?;
    let mut values = BTreeMap::new();
    for (name, value) in table {
        if !keys::ALL.iter().any(|key| key.name() == name) {
            return Err(unknown(&name));
        }
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(switch) => switch.to_string(),
            toml::Value::Datetime(time) => time.to_string(),
            toml::Value::Float(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
                return Err(format!("{name}: write the value as text in quotes"));
            }
        };
        values.insert(name, text);
    }
    Ok(values)
}

fn unknown(name: &str) -> String {
    let names: Vec<String> = keys::ALL.iter().map(|key| key.name()).collect();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("there is no key {name}: did you mean {meant}?"),
        None => format!("there is no key {name}: known are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(flag: &[&str], variable: &[&str], file: &[&str]) -> Sources {
        Sources {
            flags: flag.iter().map(|text| ("tick", (*text).to_owned())).collect(),
            environment: variable
                .iter()
                .map(|text| ("SNOWLEASE_TICK".to_owned(), OsString::from(text)))
                .collect(),
            file: file
                .first()
                .map(|text| File { path: "f.toml".into(), values: values(text).unwrap() }),
        }
    }

    #[test]
    fn flag_before_environment_before_file_before_default() {
        let text = |sources: Sources| sources.text(&keys::TICK).unwrap().unwrap();
        let file = "tick = \"4ms\"";
        assert_eq!(text(sources(&["2ms"], &["3ms"], &[file])), ("2ms".into(), Origin::Flag));
        assert_eq!(text(sources(&[], &["3ms"], &[file])), ("3ms".into(), Origin::Environment));
        let origin = Origin::File("f.toml".into());
        assert_eq!(text(sources(&[], &[], &[file])), ("4ms".into(), origin));
        assert_eq!(text(sources(&[], &[], &[])), ("1ms".into(), Origin::Default));
        assert_eq!(sources(&[], &[], &[]).text(&keys::REGION).unwrap(), None);
    }

    #[test]
    fn empty_is_an_error_and_never_the_default() {
        let fault = |sources: Sources| sources.text(&keys::TICK).unwrap_err().to_string();
        assert!(fault(sources(&[""], &[], &[])).starts_with("--tick is empty"));
        assert!(fault(sources(&[], &[""], &[])).starts_with("SNOWLEASE_TICK is empty"));
        assert!(fault(sources(&[], &[" "], &[])).starts_with("SNOWLEASE_TICK is empty"));
        assert!(fault(sources(&[], &[], &["tick = \"\""])).starts_with("tick in f.toml is empty"));
    }

    #[test]
    fn a_file_holds_known_keys_with_plain_values() {
        let read = values("epoch = 2024-01-01T00:00:00Z\nmax_ids_per_request = 5\n").unwrap();
        assert_eq!(read["epoch"], "2024-01-01T00:00:00Z");
        assert_eq!(read["max_ids_per_request"], "5");
        let fault = |text| values(text).unwrap_err();
        assert_eq!(fault("lisen = 1"), "there is no key lisen: did you mean listen?");
        assert!(fault("colour = 1").ends_with("clock_warn, ordering_bound"));
        assert_eq!(fault("tick = 1.5"), "tick: write the value as text in quotes");
        assert!(fault("tick = \"1ms\"\nlisten =\n").starts_with("line 2: "));
    }

    #[test]
    fn a_misspelt_variable_is_pointed_out() {
        let mut some = sources(&[], &["1ms"], &[]);
        for name in ["SNOWLEASE_LISTN", "SNOWLEASE_SERVICE_HOST", "SNOWLEASE_PORT_8700_TCP"] {
            some.environment.insert(name.to_owned(), "x".into());
        }
        let found: Vec<String> = some.suspects().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("did you mean SNOWLEASE_LISTEN?"));
    }
}
