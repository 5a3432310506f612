//! How to read an id: the format of this installation, or a preset of another system.
//!
//! Read in another way an id still gives a plausible date, so every answer says how it was read.

use std::fmt;

use anyhow::Result;
use clap::Args;
use snowlease_core::{Format, Id, Preset};
use snowlease_wire::time::of_tick;

use crate::settings::keys::{self, Key};
use crate::settings::{Flags, Keys, Resolver};
use crate::usage::Usage;

/// The flags that say how to read an id.
#[derive(Debug, Args)]
pub(crate) struct ReadAs {
    /// Read as ids of a well-known system: snowlease, fleet, js53, twitter, discord, instagram,
    /// mastodon or sonyflake
    #[arg(long, value_name = "NAME", value_parser = Preset::named)]
    #[arg(conflicts_with_all = ["layout", "tick", "epoch", "config"])]
    preset: Option<&'static Preset>,
    #[command(flatten)]
    flags: Flags<FormatKeys>,
}

#[derive(Clone, Debug)]
struct FormatKeys;

impl Keys for FormatKeys {
    const KEYS: &'static [&'static Key] = &[&keys::LAYOUT, &keys::TICK, &keys::EPOCH];
}

/// Name and value of each field of an id, from high to low.
pub(crate) type Fields = Vec<(&'static str, u64)>;

/// How to read an id.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reading {
    /// Of this installation.
    Format(Format),
    /// Of another system.
    Preset(&'static Preset),
}

impl ReadAs {
    /// The preset named, or else the format that flags, environment and file say.
    pub(crate) fn reading(self) -> Result<Reading, Usage> {
        if let Some(preset) = self.preset {
            return Ok(Reading::Preset(preset));
        }
        let sources = self.flags.sources()?;
        Ok(Reading::Format(Resolver::new(&sources).format()?.value))
    }
}

impl Reading {
    /// The format, if the fields are ours in our order.
    pub(crate) fn format(self) -> Option<Format> {
        match self {
            Reading::Format(format) => Some(format),
            Reading::Preset(preset) => preset.format(),
        }
    }

    /// The format, where it cannot be done without.
    pub(crate) fn need_format(self) -> Result<Format, Usage> {
        self.format().ok_or_else(|| {
            Usage(format!(
                "ids of the {self} do not consist of tick, generator id and sequence in this \
                 order: choose another preset, or give --layout, --tick and --epoch"
            ))
        })
    }

    /// The preset, if ids are read by one.
    pub(crate) fn preset(self) -> Option<&'static Preset> {
        match self {
            Reading::Format(_) => None,
            Reading::Preset(preset) => Some(preset),
        }
    }

    /// Name and width of the fields in bits, from high to low; that of the time is `tick`.
    pub(crate) fn fields(self) -> Vec<(&'static str, u32)> {
        match self {
            Reading::Format(format) => {
                let layout = format.layout();
                vec![
                    ("tick", layout.tick_bits()),
                    ("generator_id", layout.generator_bits()),
                    ("sequence", layout.sequence_bits()),
                ]
            }
            Reading::Preset(preset) => {
                preset.fields().iter().map(|field| (field.name, field.bits)).collect()
            }
        }
    }

    /// The Unix ms of an id, and its fields with their values from high to low.
    pub(crate) fn fields_of(self, id: Id) -> Result<(i64, Fields)> {
        match self {
            Reading::Format(format) => {
                let parts = format.decode(id);
                let fields = vec![
                    ("tick", parts.tick.0),
                    ("generator_id", parts.generator_id),
                    ("sequence", parts.sequence),
                ];
                Ok((of_tick(format, parts.tick)?, fields))
            }
            Reading::Preset(preset) => {
                let decoded = preset.decode(id)?;
                let fields = decoded.fields().map(|(field, value)| (field.name, value));
                Ok((decoded.unix_ms, fields.collect()))
            }
        }
    }

    /// The instant of tick 0, in Unix ms.
    pub(crate) fn epoch_ms(self) -> i64 {
        match self {
            Reading::Format(format) => format.epoch_ms(),
            Reading::Preset(preset) => preset.epoch_ms(),
        }
    }

    /// The length of a tick in ms.
    pub(crate) fn tick_ms(self) -> u32 {
        match self {
            Reading::Format(format) => format.tick_ms(),
            Reading::Preset(preset) => preset.tick_ms(),
        }
    }
}

/// `layout` or `preset`, and its name.
impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Format(format) => write!(f, "layout {}", format.layout()),
            Reading::Preset(preset) => write!(f, "preset {}", preset.name()),
        }
    }
}
