//! The layout: how wide the three fields of an id are.
//!
//! ```text
//!  63  62                    22 21        12 11         0
//! +---+-----------------------+------------+------------+
//! | 0 |         tick          | generator  |  sequence  |     t41g10s12
//! +---+-----------------------+------------+------------+
//! ```
//!
//! Bit 63 is always 0, so every id is a positive `i64` and fits a signed 64-bit column. The other
//! 63 bits are split between the three fields, from high to low; no bit is left over and none is
//! used twice. Widths are checked once, here; every other module works with a [`Layout`] that is
//! right.

use std::fmt;
use std::str::FromStr;

/// Bits that an id may use: all of an `i64` but its sign.
pub(crate) const ID_BITS: u32 = 63;

/// Widths of the fields of an id, from high to low: tick, generator id, sequence.
///
/// # Promise
///
/// The widths of a `Layout` sum to 63 and the tick has at least one bit, so composing an id never
/// masks a value, and every id fits an `i64` (G7).
///
/// # Example
///
/// ```
/// # use snowlease_core::Layout;
/// let layout: Layout = "t41g10s12".parse()?;
/// assert_eq!(layout, Layout::DEFAULT);
/// assert_eq!(layout.generator_ids(), 1024);
/// assert_eq!(layout.ids_per_tick(), 4096);
/// assert!("t41g10s13".parse::<Layout>().is_err());
/// # Ok::<(), snowlease_core::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    tick_bits: u8,
    generator_bits: u8,
    sequence_bits: u8,
}

impl Layout {
    /// The classic layout `t41g10s12`: 69 years of milliseconds, 1,024 generator ids, 4,096 ids a
    /// tick.
    pub const DEFAULT: Layout = Layout { tick_bits: 41, generator_bits: 10, sequence_bits: 12 };

    /// The layout for fleets, `t41g13s9`: 69 years of milliseconds, 8,192 generator ids, 512 ids a
    /// tick.
    pub const FLEET: Layout = Layout { tick_bits: 41, generator_bits: 13, sequence_bits: 9 };

    /// Makes a layout of these widths in bits.
    ///
    /// # Errors
    ///
    /// * [`LayoutError::Sum`]: the widths do not sum to 63. Give or take the difference it names.
    /// * [`LayoutError::NoTick`]: the tick has no bits, so ids could not differ in time.
    pub const fn new(
        tick_bits: u8,
        generator_bits: u8,
        sequence_bits: u8,
    ) -> Result<Layout, LayoutError> {
        let sum = tick_bits as u32 + generator_bits as u32 + sequence_bits as u32;
        if sum != ID_BITS {
            return Err(LayoutError::Sum { tick_bits, generator_bits, sequence_bits });
        }
        if tick_bits == 0 {
            return Err(LayoutError::NoTick);
        }
        Ok(Layout { tick_bits, generator_bits, sequence_bits })
    }

    /// Width of the tick field in bits, 1 to 63.
    pub const fn tick_bits(self) -> u32 {
        self.tick_bits as u32
    }

    /// Width of the generator id field in bits, 0 to 62.
    pub const fn generator_bits(self) -> u32 {
        self.generator_bits as u32
    }

    /// Width of the sequence field in bits, 0 to 62.
    pub const fn sequence_bits(self) -> u32 {
        self.sequence_bits as u32
    }

    /// How many generator ids there are: one more than
    /// [`max_generator_id`](Self::max_generator_id).
    pub const fn generator_ids(self) -> u64 {
        1 << self.generator_bits
    }

    /// The largest generator id.
    pub const fn max_generator_id(self) -> u64 {
        self.generator_ids() - 1
    }

    /// How many ids one generator can issue in one tick.
    pub const fn ids_per_tick(self) -> u64 {
        1 << self.sequence_bits
    }

    /// The largest sequence.
    pub const fn max_sequence(self) -> u64 {
        self.ids_per_tick() - 1
    }

    /// The largest tick the time field can hold; an id with this tick is still valid.
    pub const fn max_tick(self) -> u64 {
        (1 << self.tick_bits) - 1
    }
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::DEFAULT
    }
}

/// The one text of a layout, such as `t41g10s12`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}g{}s{}", self.tick_bits, self.generator_bits, self.sequence_bits)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads exactly what [`Display`](fmt::Display) writes: no signs, spaces or leading zeros.
impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Layout, LayoutError> {
        let malformed = || LayoutError::Malformed;
        let rest = text.strip_prefix('t').ok_or_else(malformed)?;
        let (tick, rest) = rest.split_once('g').ok_or_else(malformed)?;
        let (generator, sequence) = rest.split_once('s').ok_or_else(malformed)?;
        Layout::new(width(tick)?, width(generator)?, width(sequence)?)
    }
}

fn width(text: &str) -> Result<u8, LayoutError> {
    let digits = text.as_bytes();
    let canonical = match digits {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return Err(LayoutError::Malformed);
    }
    text.parse().map_err(|_| LayoutError::Malformed)
}

/// Why widths are no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The widths do not sum to 63 bits. Give or take the difference.
    Sum {
        /// Width asked for the tick, in bits.
        tick_bits: u8,
        /// Width asked for the generator id, in bits.
        generator_bits: u8,
        /// Width asked for the sequence, in bits.
        sequence_bits: u8,
    },
    /// The tick has no bits. Give it at least one.
    NoTick,
    /// The text is not of the form `t41g10s12`. Write the three widths in this order, in decimal.
    Malformed,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Sum { tick_bits: t, generator_bits: g, sequence_bits: s } => {
                let sum = u32::from(*t) + u32::from(*g) + u32::from(*s);
                let (verb, by) = if sum > ID_BITS {
                    ("take away", sum - ID_BITS)
                } else {
                    ("add", ID_BITS - sum)
                };
                write!(f, "layout t{t}g{g}s{s} sums to {sum} bits, not to 63: {verb} {by}")
            }
            LayoutError::NoTick => {
                f.write_str("a layout needs at least 1 bit of tick: ids could not differ in time")
            }
            LayoutError::Malformed => f.write_str(
                "a layout is written tTgGsS with widths in bits that sum to 63, \
                 for example t41g10s12",
            ),
        }
    }
}

impl std::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_layout_of_63_bits_round_trips_and_no_other_sum_is_taken() {
        for t in 0..=66u8 {
            for g in 0..=66u8 {
                for s in 0..=66u8 {
                    let text = format!("t{t}g{g}s{s}");
                    let sums = u32::from(t) + u32::from(g) + u32::from(s) == 63;
                    match text.parse::<Layout>() {
                        Ok(layout) => {
                            assert!(sums && t > 0, "{text} was taken");
                            assert_eq!(layout.to_string(), text);
                        }
                        Err(LayoutError::NoTick) => assert!(sums && t == 0),
                        Err(error) => {
                            assert!(!sums, "{text} was refused");
                            let expected = LayoutError::Sum {
                                tick_bits: t,
                                generator_bits: g,
                                sequence_bits: s,
                            };
                            assert_eq!(error, expected);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_the_canonical_text_is_read() {
        for text in [
            "",
            "t",
            "t41",
            "t41g10",
            "41g10s12",
            "t41g10s12 ",
            " t41g10s12",
            "T41G10S12",
            "t+41g10s12",
            "t041g10s12",
            "t41g-10s12",
            "t41g10s12s0",
            "g10t41s12",
            "t４１g10s12",
            "t256g0s0",
            "t99999999999999999999g1s1",
        ] {
            assert_eq!(text.parse::<Layout>(), Err(LayoutError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn the_error_says_by_how_much() {
        let error = Layout::new(41, 10, 13).unwrap_err();
        assert_eq!(error.to_string(), "layout t41g10s13 sums to 64 bits, not to 63: take away 1");
        let error = Layout::new(40, 10, 12).unwrap_err();
        assert_eq!(error.to_string(), "layout t40g10s12 sums to 62 bits, not to 63: add 1");
    }

    #[test]
    fn widths_at_their_ends_do_not_overflow() {
        let all_tick = Layout::new(63, 0, 0).unwrap();
        assert_eq!(all_tick.max_tick(), (1 << 63) - 1);
        assert_eq!((all_tick.generator_ids(), all_tick.ids_per_tick()), (1, 1));
        let all_generator = Layout::new(1, 62, 0).unwrap();
        assert_eq!(all_generator.max_generator_id(), (1 << 62) - 1);
        let all_sequence = Layout::new(1, 0, 62).unwrap();
        assert_eq!(all_sequence.max_sequence(), (1 << 62) - 1);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<Layout>();
        }
    }
}
