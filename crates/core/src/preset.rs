//! Presets: how to read ids of well-known systems, each with its own fields, epoch and tick length.
//!
//! An id says nothing about where it comes from, and read with a wrong epoch it still gives a
//! plausible date. So every answer here carries the preset it was read with, and an id that cannot
//! be one of the system is refused. Issuing is another matter: that needs a [`Format`], which only
//! the presets with our three fields in our order have.

use std::fmt;

use crate::{Format, Id, Layout, Tick};

/// How to take the ids of one system apart.
///
/// # Shape and units
///
/// Fields are listed from high to low, end at bit 0, and have [`bits`](Self::bits) bits together;
/// bits above them are 0 in an id of the system. Exactly one field is the time, in ticks of
/// [`tick_ms`](Self::tick_ms) milliseconds since [`epoch_ms`](Self::epoch_ms). The widths are
/// checked when this crate is compiled.
///
/// # Example
///
/// ```
/// # use snowlease_core::{Id, Preset};
/// let twitter = Preset::named("twitter")?;
/// let decoded = twitter.decode(Id::new(1_541_815_603_606_036_480)?)?;
/// assert_eq!(decoded.unix_ms, 1_656_432_460_105); // 2022-06-28T16:07:40.105Z
/// assert!(decoded.parts().eq([("machine", 378), ("sequence", 0)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    name: &'static str,
    epoch_ms: i64,
    tick_ms: u32,
    bits: u32,
    fields: &'static [Field],
    format: Option<Format>,
}

/// A field of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What its system calls it; `tick` for the time.
    pub name: &'static str,
    /// Its width in bits, 1 to 63.
    pub bits: u32,
    /// What it holds.
    pub kind: FieldKind,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Ticks since the epoch.
    Time,
    /// A number of its system: who issued the id, or which of several in one tick it is.
    Part,
}

const fn tick(bits: u32) -> Field {
    Field { name: "tick", bits, kind: FieldKind::Time }
}

const fn part(name: &'static str, bits: u32) -> Field {
    Field { name, bits, kind: FieldKind::Part }
}

const EPOCH_MS: i64 = Format::DEFAULT.epoch_ms();
const TWITTER_EPOCH_MS: i64 = 1_288_834_974_657;

const FLEET: Format = match Format::new(Layout::FLEET, 1, EPOCH_MS) {
    Ok(format) => format,
    Err(_) => panic!("the epoch is in bounds"),
};
const TWITTER: Format = match Format::new(Layout::DEFAULT, 1, TWITTER_EPOCH_MS) {
    Ok(format) => format,
    Err(_) => panic!("the epoch is in bounds"),
};
const JS53: Format = match Layout::new(51, 6, 6) {
    Ok(layout) => match Format::new(layout, 1, EPOCH_MS) {
        Ok(format) => format,
        Err(_) => panic!("the epoch is in bounds"),
    },
    Err(_) => panic!("the widths sum to 63"),
};

impl Preset {
    /// Every preset, Snowlease's own first.
    pub const ALL: &'static [Preset] = &[
        Preset {
            name: "snowlease",
            epoch_ms: EPOCH_MS,
            tick_ms: 1,
            bits: 63,
            fields: &[tick(41), part("generator_id", 10), part("sequence", 12)],
            format: Some(Format::DEFAULT),
        },
        Preset {
            name: "fleet",
            epoch_ms: EPOCH_MS,
            tick_ms: 1,
            bits: 63,
            fields: &[tick(41), part("generator_id", 13), part("sequence", 9)],
            format: Some(FLEET),
        },
        // Below 2^53, so a JavaScript number holds each exactly. Time ends as that of `snowlease`
        // does; as a format the tick has the ten bits above it too, which stay 0 until
        // then.
        Preset {
            name: "js53",
            epoch_ms: EPOCH_MS,
            tick_ms: 1,
            bits: 53,
            fields: &[tick(41), part("generator_id", 6), part("sequence", 6)],
            format: Some(JS53),
        },
        Preset {
            name: "twitter",
            epoch_ms: TWITTER_EPOCH_MS,
            tick_ms: 1,
            bits: 63,
            fields: &[tick(41), part("machine", 10), part("sequence", 12)],
            format: Some(TWITTER),
        },
        // 2015-01-01T00:00:00Z.
        Preset {
            name: "discord",
            epoch_ms: 1_420_070_400_000,
            tick_ms: 1,
            bits: 64,
            fields: &[tick(42), part("worker", 5), part("process", 5), part("increment", 12)],
            format: None,
        },
        // 2011-08-24T21:07:01.721Z.
        Preset {
            name: "instagram",
            epoch_ms: 1_314_220_021_721,
            tick_ms: 1,
            bits: 64,
            fields: &[tick(41), part("shard", 13), part("sequence", 10)],
            format: None,
        },
        Preset {
            name: "mastodon",
            epoch_ms: 0,
            tick_ms: 1,
            bits: 64,
            fields: &[tick(48), part("sequence", 16)],
            format: None,
        },
        // 2014-09-01T00:00:00Z, its default; each installation may set its own.
        Preset {
            name: "sonyflake",
            epoch_ms: 1_409_529_600_000,
            tick_ms: 10,
            bits: 63,
            fields: &[tick(39), part("sequence", 8), part("machine", 16)],
            format: None,
        },
    ];

    /// The preset of this name.
    ///
    /// # Errors
    ///
    /// [`UnknownPreset`]: there is none. Its message lists the names and suggests the nearest.
    pub fn named(name: &str) -> Result<&'static Preset, UnknownPreset> {
        Preset::ALL
            .iter()
            .find(|preset| preset.name == name)
            .ok_or_else(|| UnknownPreset { nearest: nearest(name) })
    }

    /// Its name, which [`named`](Self::named) finds again.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The instant of tick 0 in Unix milliseconds.
    pub const fn epoch_ms(&self) -> i64 {
        self.epoch_ms
    }

    /// Length of a tick in milliseconds.
    pub const fn tick_ms(&self) -> u32 {
        self.tick_ms
    }

    /// Width of all fields together in bits: 53, 63 or 64.
    ///
    /// An [`Id`] has 63. Where a system uses 64, ids are read as long as their highest bit is 0.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// The fields, from high to low.
    pub const fn fields(&self) -> &'static [Field] {
        self.fields
    }

    /// The format that issues such ids, if the fields are tick, generator id and sequence in this
    /// order over the 63 bits of an id.
    ///
    /// The format of `js53` is `t51g6s6`; see [`Preset::decode`] for what is refused although the
    /// format could hold it.
    pub const fn format(&self) -> Option<Format> {
        self.format
    }

    /// Takes an id apart.
    ///
    /// # Shape and units
    ///
    /// See [`Decoded`]. The time is not compared with any clock: an id of another system often
    /// gives one in the future, so compare it before showing it.
    ///
    /// # Errors
    ///
    /// [`PresetError::TooLarge`]: the id has bits above the fields, so it is none of this system.
    /// Name the preset it comes from.
    ///
    /// # Cost
    ///
    /// Does not allocate; no floating point.
    pub fn decode(&'static self, id: Id) -> Result<Decoded, PresetError> {
        if id.get().checked_shr(self.bits).is_some_and(|above| above != 0) {
            return Err(PresetError::TooLarge { preset: self.name, bits: self.bits });
        }
        let tick = values(self, id)
            .find_map(|(field, value)| (field.kind == FieldKind::Time).then_some(value))
            .unwrap_or_default();
        // `is_sound` shows that neither this nor the subtraction in `values` can overflow.
        let unix_ms = self.epoch_ms + (tick * u64::from(self.tick_ms)).cast_signed();
        Ok(Decoded { preset: self, id, tick: Tick(tick), unix_ms })
    }

    /// What the doc of [`Preset`] says of the widths, and that every time fits an `i64`.
    const fn is_sound(&self) -> bool {
        let (mut bits, mut times, mut tick_bits) = (0, 0, 0);
        let mut rest = self.fields;
        while let [field, lower @ ..] = rest {
            if field.bits == 0 || field.bits > 63 {
                return false;
            }
            bits += field.bits;
            if matches!(field.kind, FieldKind::Time) {
                times += 1;
                tick_bits = field.bits;
            }
            rest = lower;
        }
        let ticks_ms = (1i128 << tick_bits) * self.tick_ms as i128;
        bits == self.bits
            && bits <= 64
            && times == 1
            && self.tick_ms > 0
            && self.epoch_ms >= 0
            && ticks_ms <= i64::MAX as i128 - self.epoch_ms as i128
            && self.name.len() <= LONGEST_NAME
    }
}

const _: () = {
    let mut rest = Preset::ALL;
    while let [preset, others @ ..] = rest {
        assert!(preset.is_sound(), "the widths of a preset do not sum to its bits");
        rest = others;
    }
};

/// The fields of an id with their values, from high to low.
fn values(preset: &'static Preset, id: Id) -> impl Iterator<Item = (&'static Field, u64)> {
    let mut below = preset.bits;
    preset.fields.iter().map(move |field| {
        below -= field.bits;
        (field, (id.get() >> below) & ((1 << field.bits) - 1))
    })
}

/// An id taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// How it was read. Show its name and epoch beside the time: with another preset it is another
    /// time.
    pub preset: &'static Preset,
    /// The id.
    pub id: Id,
    /// The time field, in ticks of the preset.
    pub tick: Tick,
    /// The Unix millisecond at which that tick begins.
    pub unix_ms: i64,
}

impl Decoded {
    /// Every field with its value, from high to low, the time among them.
    pub fn fields(self) -> impl Iterator<Item = (&'static Field, u64)> {
        values(self.preset, self.id)
    }

    /// Name and value of every field but the time, from high to low.
    pub fn parts(self) -> impl Iterator<Item = (&'static str, u64)> {
        self.fields()
            .filter(|(field, _)| field.kind == FieldKind::Part)
            .map(|(field, value)| (field.name, value))
    }
}

/// Why an id is none of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PresetError {
    /// The id has bits above the fields of the preset. Name the preset it comes from.
    TooLarge {
        /// Name of the preset.
        preset: &'static str,
        /// Width of its ids in bits.
        bits: u32,
    },
}

impl fmt::Display for PresetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PresetError::TooLarge { preset, bits } => write!(
                f,
                "this is no id of the preset {preset}, whose ids are below 2^{bits}: \
                 name the preset it comes from"
            ),
        }
    }
}

impl std::error::Error for PresetError {}

/// No preset has this name. Use one that the message lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPreset {
    /// The name that was probably meant.
    pub nearest: Option<&'static str>,
}

impl fmt::Display for UnknownPreset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no preset of this name: ")?;
        if let Some(nearest) = self.nearest {
            write!(f, "did you mean {nearest}? ")?;
        }
        f.write_str("known are ")?;
        for (place, preset) in Preset::ALL.iter().enumerate() {
            let between = match place {
                0 => "",
                _ if place + 1 == Preset::ALL.len() => " and ",
                _ => ", ",
            };
            write!(f, "{between}{}", preset.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPreset {}

/// Bounds the names of presets, and with them the table of [`edits`].
const LONGEST_NAME: usize = 12;

/// The name that takes the fewest edits, if those leave at least half of it.
fn nearest(text: &str) -> Option<&'static str> {
    // A longer text is no misspelling of any name, and its length is not bounded.
    if text.len() > 2 * LONGEST_NAME {
        return None;
    }
    Preset::ALL
        .iter()
        .map(|preset| (edits(text, preset.name), preset.name))
        .filter(|(edits, name)| edits * 2 <= name.len())
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// How many bytes to insert, remove or replace to make `name` from `text`, whatever their case.
fn edits(text: &str, name: &str) -> usize {
    // One row of the usual table: `row[n]` is the answer for the text so far and `n` bytes of the
    // name.
    let mut row: [usize; LONGEST_NAME + 1] = std::array::from_fn(|n| n);
    for byte in text.bytes() {
        let mut diagonal = row[0];
        row[0] += 1;
        for (n, other) in name.bytes().enumerate() {
            let replaced = diagonal + usize::from(!byte.eq_ignore_ascii_case(&other));
            diagonal = row[n + 1];
            row[n + 1] = replaced.min(row[n] + 1).min(diagonal + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests;
