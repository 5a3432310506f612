//! The format: layout, tick length and epoch together, which is all one needs to read an id.
//!
//! Everyone under one plan uses one format (assumption A3). The [fingerprint](Format::fingerprint)
//! lets a store check that inside every grant, so two programs with different layouts or epochs can
//! never both issue from it.

use std::fmt;

use crate::{Id, IdParts, Layout, Moment, Tick, TickError};

/// Layout, tick length and epoch.
///
/// # Shape and units
///
/// The tick length is in whole milliseconds, 1 to [`Format::MAX_TICK_MS`]. The epoch is in Unix
/// milliseconds and may lie before 1970; both are part of the ids for ever.
///
/// # Example
///
/// ```
/// # use snowlease_core::{Format, Tick};
/// let format = Format::DEFAULT;
/// assert_eq!(format.to_string(), "t41g10s12/1ms/1704067200000");
/// assert_eq!(format.tick_at_ms(1_704_067_200_005)?, Tick(5));
/// assert_eq!(format.unix_ms(Tick(5)), 1_704_067_200_005);
/// # Ok::<(), snowlease_core::TickError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    layout: Layout,
    tick_ms: u32,
    epoch_ms: i64,
}

impl Format {
    /// `t41g10s12`, 1 ms, 2024-01-01T00:00:00Z: ids until 2093-09-06T15:47:35.551Z.
    pub const DEFAULT: Format =
        Format { layout: Layout::DEFAULT, tick_ms: 1, epoch_ms: 1_704_067_200_000 };

    /// The longest tick, one day in milliseconds.
    pub const MAX_TICK_MS: u32 = 86_400_000;

    /// Epochs lie within 100,000 years of 1970, so that no conversion can overflow 128 bits.
    pub const MAX_EPOCH_MS: i64 = 3_155_760_000_000_000;

    /// Makes a format.
    ///
    /// # Errors
    ///
    /// * [`FormatError::TickLength`]: `tick_ms` is 0 or longer than a day.
    /// * [`FormatError::Epoch`]: `epoch_ms` is more than 100,000 years from 1970.
    ///
    /// Whether the epoch has begun is a question for a clock: see [`Format::tick_at`].
    pub const fn new(layout: Layout, tick_ms: u32, epoch_ms: i64) -> Result<Format, FormatError> {
        if tick_ms == 0 || tick_ms > Format::MAX_TICK_MS {
            return Err(FormatError::TickLength { tick_ms });
        }
        if epoch_ms < -Format::MAX_EPOCH_MS || epoch_ms > Format::MAX_EPOCH_MS {
            return Err(FormatError::Epoch { epoch_ms });
        }
        Ok(Format { layout, tick_ms, epoch_ms })
    }

    /// The widths of the fields.
    pub const fn layout(self) -> Layout {
        self.layout
    }

    /// Length of a tick in milliseconds.
    pub const fn tick_ms(self) -> u32 {
        self.tick_ms
    }

    /// The instant of tick 0 in Unix milliseconds.
    pub const fn epoch_ms(self) -> i64 {
        self.epoch_ms
    }

    /// The tick that contains this instant of the id clock.
    ///
    /// # Errors
    ///
    /// * [`TickError::BeforeEpoch`]: set the clock, or configure an earlier epoch.
    /// * [`TickError::TimeEnd`]: the format has run out of time.
    pub const fn tick_at(self, moment: Moment) -> Result<Tick, TickError> {
        self.tick_at_ms(moment.unix_ms)
    }

    /// The tick that contains this Unix millisecond; see [`Format::tick_at`].
    ///
    /// # Errors
    ///
    /// As [`Format::tick_at`].
    pub const fn tick_at_ms(self, unix_ms: i64) -> Result<Tick, TickError> {
        let Some(since_ms) = unix_ms.checked_sub(self.epoch_ms) else {
            // Only a `unix_ms` next to an end of i64 gets here, far outside what an epoch may be.
            return if unix_ms < 0 {
                Err(TickError::BeforeEpoch { missing_ms: unix_ms.abs_diff(self.epoch_ms) })
            } else {
                Err(TickError::TimeEnd { end_ms: self.end_ms() })
            };
        };
        if since_ms < 0 {
            return Err(TickError::BeforeEpoch { missing_ms: since_ms.unsigned_abs() });
        }
        let tick = since_ms.unsigned_abs() / self.tick_ms as u64;
        if tick > self.layout.max_tick() {
            return Err(TickError::TimeEnd { end_ms: self.end_ms() });
        }
        Ok(Tick(tick))
    }

    /// The first tick that begins at or after this Unix millisecond: where a window ends that is to
    /// last until then. At most the first tick past the time field, and 0 for times before the
    /// epoch.
    pub const fn first_tick_from_ms(self, unix_ms: i64) -> Tick {
        match self.tick_at_ms(unix_ms) {
            Ok(tick) if self.unix_ms(tick) < unix_ms => Tick(tick.0 + 1),
            Ok(tick) => tick,
            Err(TickError::BeforeEpoch { .. }) => Tick(0),
            Err(TickError::TimeEnd { .. }) => Tick(self.layout.max_tick() + 1),
        }
    }

    /// The Unix millisecond at which `tick` begins; `i64::MAX` if it begins later than that.
    pub const fn unix_ms(self, tick: Tick) -> i64 {
        let ms = self.epoch_ms as i128 + tick.0 as i128 * self.tick_ms as i128;
        if ms > i64::MAX as i128 {
            i64::MAX
        } else {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most i64::MAX by the branch, and \
                at least the epoch, which is an i64"
            )]
            {
                ms as i64
            }
        }
    }

    /// The first Unix millisecond that no id of this format can carry; `i64::MAX` if beyond that.
    pub const fn end_ms(self) -> i64 {
        self.unix_ms(Tick(self.layout.max_tick() + 1))
    }

    /// How many ticks a duration in milliseconds fills, rounded up.
    pub const fn ticks_in_ms(self, ms: u64) -> u64 {
        ms.div_ceil(self.tick_ms as u64)
    }

    /// Composes an id.
    ///
    /// # Errors
    ///
    /// [`crate::IdError::Field`] names the field whose value does not fit its width, and by how
    /// much it missed. Nothing is ever masked (G7).
    pub const fn compose(self, parts: IdParts) -> Result<Id, crate::IdError> {
        Id::compose(self.layout, parts)
    }

    /// Takes an id apart. Never fails: every id has these three fields under every layout.
    pub const fn decode(self, id: Id) -> IdParts {
        id.parts(self.layout)
    }

    /// A number that differs between formats: FNV-1a over the text of the format.
    ///
    /// Stored in every cell and compared inside every grant; it guards against mistakes, not
    /// attacks.
    pub fn fingerprint(self) -> u64 {
        struct Fnv(u64);
        impl fmt::Write for Fnv {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for byte in text.bytes() {
                    self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                }
                Ok(())
            }
        }
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        // Writing into the hash cannot fail.
        let _ = fmt::write(&mut hash, format_args!("{self}"));
        hash.0
    }
}

impl Default for Format {
    fn default() -> Format {
        Format::DEFAULT
    }
}

/// The one text of a format: layout, tick length and epoch in Unix milliseconds.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}ms/{}", self.layout, self.tick_ms, self.epoch_ms)
    }
}

/// Why values are no format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// The tick length is 0 or above [`Format::MAX_TICK_MS`].
    TickLength {
        /// The length asked for, in milliseconds.
        tick_ms: u32,
    },
    /// The epoch is more than 100,000 years from 1970. Unix milliseconds are expected.
    Epoch {
        /// The epoch asked for, in Unix milliseconds.
        epoch_ms: i64,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::TickLength { tick_ms } => write!(
                f,
                "a tick of {tick_ms} ms is not possible: choose 1 ms to {} ms (a day)",
                Format::MAX_TICK_MS
            ),
            FormatError::Epoch { epoch_ms } => write!(
                f,
                "an epoch at Unix ms {epoch_ms} is more than 100,000 years from 1970: \
                 give the epoch in milliseconds"
            ),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const L_E: Format = Format::DEFAULT;

    #[test]
    fn the_epoch_itself_is_tick_0_and_the_millisecond_before_is_an_error() {
        assert_eq!(L_E.tick_at_ms(L_E.epoch_ms()), Ok(Tick(0)));
        assert_eq!(
            L_E.tick_at_ms(L_E.epoch_ms() - 1),
            Err(TickError::BeforeEpoch { missing_ms: 1 })
        );
        assert_eq!(
            L_E.tick_at_ms(-1),
            Err(TickError::BeforeEpoch { missing_ms: 1_704_067_200_001 })
        );
        assert!(matches!(L_E.tick_at_ms(i64::MIN), Err(TickError::BeforeEpoch { .. })));
    }

    #[test]
    fn the_last_tick_works_and_the_next_is_the_end_of_time() {
        let last = 3_903_090_455_551; // 2093-09-06T15:47:35.551Z
        assert_eq!(L_E.tick_at_ms(last), Ok(Tick((1 << 41) - 1)));
        assert_eq!(L_E.tick_at_ms(last + 1), Err(TickError::TimeEnd { end_ms: last + 1 }));
        assert!(matches!(L_E.tick_at_ms(i64::MAX), Err(TickError::TimeEnd { .. })));
        let before_1970 = Format::new(Layout::DEFAULT, 1, -5).unwrap();
        assert!(matches!(before_1970.tick_at_ms(i64::MAX), Err(TickError::TimeEnd { .. })));
    }

    #[test]
    fn twenty_eight_bits_of_seconds_end_when_they_ended_in_production() {
        let layout = Layout::new(28, 22, 13).unwrap();
        let format = Format::new(layout, 1000, 1_463_673_600_000).unwrap(); // 2016-05-20
        assert_eq!(format.end_ms(), 1_463_673_600_000 + (1i64 << 28) * 1000);
        assert!(format.tick_at_ms(format.end_ms() - 1).is_ok());
        assert!(format.tick_at_ms(format.end_ms()).is_err());
    }

    #[test]
    fn a_fingerprint_tells_layout_tick_length_and_epoch_apart() {
        let others = [
            Format::new(Layout::FLEET, 1, L_E.epoch_ms()).unwrap(),
            Format::new(Layout::DEFAULT, 10, L_E.epoch_ms()).unwrap(),
            Format::new(Layout::DEFAULT, 1, L_E.epoch_ms() + 1).unwrap(),
        ];
        for other in others {
            assert_ne!(other.fingerprint(), L_E.fingerprint(), "{other}");
        }
        // Stored for ever in every cell: this number must never change.
        assert_eq!(L_E.fingerprint(), FINGERPRINT_OF_DEFAULT);
    }

    const FINGERPRINT_OF_DEFAULT: u64 = 205_663_094_650_663_488;

    #[test]
    fn lengths_and_epochs_outside_their_bounds_are_refused() {
        assert!(Format::new(Layout::DEFAULT, 0, 0).is_err());
        assert!(Format::new(Layout::DEFAULT, Format::MAX_TICK_MS + 1, 0).is_err());
        assert!(Format::new(Layout::DEFAULT, 1, i64::MAX).is_err());
        assert!(Format::new(Layout::DEFAULT, 1, i64::MIN).is_err());
    }

    proptest! {
        #[test]
        fn a_tick_begins_at_or_before_the_instant_it_contains(
            tick_bits in 1u8..=63, tick_ms in 1u32..=86_400_000,
            epoch_ms in -Format::MAX_EPOCH_MS..=Format::MAX_EPOCH_MS, unix_ms: i64,
        ) {
            let layout = Layout::new(tick_bits, 63 - tick_bits, 0).unwrap();
            let format = Format::new(layout, tick_ms, epoch_ms).unwrap();
            match format.tick_at_ms(unix_ms) {
                Ok(tick) => {
                    prop_assert!(format.unix_ms(tick) <= unix_ms);
                    let next = format.unix_ms(Tick(tick.0 + 1));
                    prop_assert!(unix_ms < next || next == i64::MAX);
                    prop_assert!(tick.0 <= layout.max_tick());
                    let first = format.first_tick_from_ms(unix_ms);
                    prop_assert!(format.unix_ms(first) >= unix_ms);
                    prop_assert!(first.0 == tick.0 || first.0 == tick.0 + 1);
                }
                Err(TickError::BeforeEpoch { .. }) => prop_assert!(unix_ms < epoch_ms),
                Err(TickError::TimeEnd { end_ms }) => prop_assert!(unix_ms >= end_ms),
            }
        }
    }
}
