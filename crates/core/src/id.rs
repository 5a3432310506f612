//! The id: 63 bits in a `u64`, and the three numbers it is made of.

use std::fmt;

use crate::Layout;

/// A unique id: 64 bits of which the highest is always 0, so it also fits an `i64`.
///
/// Ordering an `Id` orders by tick first, then generator id, then sequence. `Display` is the
/// decimal text, `FromStr` reads exactly that text back; the other forms are in
/// [`text`](crate::text).
///
/// # Example
///
/// ```
/// # use snowlease_core::{Id, IdParts, Layout, Tick};
/// let parts = IdParts { tick: Tick(5), generator_id: 3, sequence: 4095 };
/// let id = Id::compose(Layout::DEFAULT, parts)?;
/// assert_eq!(id.get(), 20_987_903);
/// assert_eq!(id.parts(Layout::DEFAULT), parts);
/// assert_eq!("20987903".parse::<Id>(), Ok(id));
/// # Ok::<(), snowlease_core::IdError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Id(u64);

impl Id {
    /// The smallest id.
    pub const MIN: Id = Id(0);

    /// The largest id, `i64::MAX`.
    pub const MAX: Id = Id(i64::MAX.unsigned_abs());

    /// The id with this value.
    ///
    /// # Errors
    ///
    /// [`IdError::TooLarge`]: the value is above `i64::MAX`, so it is no id.
    pub const fn new(value: u64) -> Result<Id, IdError> {
        if value > Id::MAX.0 { Err(IdError::TooLarge { value }) } else { Ok(Id(value)) }
    }

    /// The id with this value, which the caller has shown to be at most `i64::MAX`.
    pub(crate) const fn new_unchecked(value: u64) -> Id {
        debug_assert!(value <= Id::MAX.0);
        Id(value)
    }

    /// The value, 0 to `i64::MAX`.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The value as the signed integer that databases store; never negative.
    pub const fn to_i64(self) -> i64 {
        self.0.cast_signed()
    }

    /// Composes an id of this layout.
    ///
    /// # Errors
    ///
    /// [`IdError::Field`]: a value does not fit its field. Nothing is masked (G7).
    pub const fn compose(layout: Layout, parts: IdParts) -> Result<Id, IdError> {
        if let Err(error) = check("tick", parts.tick.0, layout.max_tick()) {
            return Err(error);
        }
        if let Err(error) = check("generator id", parts.generator_id, layout.max_generator_id()) {
            return Err(error);
        }
        if let Err(error) = check("sequence", parts.sequence, layout.max_sequence()) {
            return Err(error);
        }
        // The shifts are below 64: the tick has at least one of the 63 bits.
        let tick = parts.tick.0 << (layout.generator_bits() + layout.sequence_bits());
        let generator_id = parts.generator_id << layout.sequence_bits();
        Ok(Id::new_unchecked(tick | generator_id | parts.sequence))
    }

    /// The three numbers this id is made of under `layout`.
    pub const fn parts(self, layout: Layout) -> IdParts {
        IdParts {
            tick: crate::Tick(self.0 >> (layout.generator_bits() + layout.sequence_bits())),
            generator_id: (self.0 >> layout.sequence_bits()) & layout.max_generator_id(),
            sequence: self.0 & layout.max_sequence(),
        }
    }

    /// A shard number from 0 to `shards - 1`, evenly spread however the ids were issued.
    ///
    /// The remainder of the raw value would favour low shards, because the lowest bits are a
    /// sequence; this hashes first. The mapping is fixed for ever: rows may be placed by it.
    /// `None` if `shards` is 0.
    pub const fn shard(self, shards: u32) -> Option<u32> {
        if shards == 0 {
            return None;
        }
        // SplitMix64's finaliser, then the high half of a multiplication instead of a remainder.
        let mut hash = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        #[expect(clippy::cast_possible_truncation, reason = "below `shards`, which is a u32")]
        Some(((hash as u128 * shards as u128) >> 64) as u32)
    }
}

const fn check(field: &'static str, value: u64, max: u64) -> Result<(), IdError> {
    if value > max { Err(IdError::Field { field, value, max }) } else { Ok(()) }
}

impl From<Id> for u64 {
    fn from(id: Id) -> u64 {
        id.0
    }
}

impl From<Id> for i64 {
    fn from(id: Id) -> i64 {
        id.to_i64()
    }
}

impl TryFrom<u64> for Id {
    type Error = IdError;

    fn try_from(value: u64) -> Result<Id, IdError> {
        Id::new(value)
    }
}

impl TryFrom<i64> for Id {
    type Error = IdError;

    fn try_from(value: i64) -> Result<Id, IdError> {
        u64::try_from(value).map_err(|_| IdError::Negative { value }).and_then(Id::new)
    }
}

/// The decimal text.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({})", self.0)
    }
}

/// What an id is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdParts {
    /// The time field, in ticks since the epoch of the format.
    pub tick: crate::Tick,
    /// Which generator id issued it.
    pub generator_id: u64,
    /// Which id of that generator in that tick it is.
    pub sequence: u64,
}

/// Why a number is no id, or numbers compose to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The value is above `i64::MAX`: it never was an id of this system.
    TooLarge {
        /// The value given.
        value: u64,
    },
    /// The value is negative: it never was an id of this system.
    Negative {
        /// The value given.
        value: i64,
    },
    /// A value does not fit its field.
    Field {
        /// Which field.
        field: &'static str,
        /// The value given.
        value: u64,
        /// The largest value that fits.
        max: u64,
    },
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdError::TooLarge { value } => {
                write!(f, "{value} is no id: ids are at most {}", i64::MAX)
            }
            IdError::Negative { value } => write!(f, "{value} is no id: ids are not negative"),
            IdError::Field { field, value, max } => {
                write!(f, "{field} {value} does not fit: the layout holds 0 to {max}")
            }
        }
    }
}

impl std::error::Error for IdError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tick;
    use proptest::prelude::*;

    fn any_layout() -> impl Strategy<Value = Layout> {
        (1u8..=63)
            .prop_flat_map(|t| (Just(t), 0..=63 - t))
            .prop_map(|(t, g)| Layout::new(t, g, 63 - t - g).unwrap())
    }

    fn any_id() -> impl Strategy<Value = Id> {
        (0..=Id::MAX.get()).prop_map(|value| Id::new(value).unwrap())
    }

    #[test]
    fn known_ids_compose() {
        let id = |tick, generator_id, sequence| {
            Id::compose(Layout::DEFAULT, IdParts { tick: Tick(tick), generator_id, sequence })
                .map(Id::get)
        };
        assert_eq!(id(5, 3, 4095), Ok(20_987_903));
        assert_eq!(id(6, 3, 0), Ok(25_178_112));
        assert_eq!(id((1 << 41) - 1, 1023, 4095), Ok(i64::MAX.unsigned_abs()));
    }

    #[test]
    fn a_generator_id_of_1024_is_an_error_and_not_0() {
        let parts = IdParts { tick: Tick(1), generator_id: 1024, sequence: 0 };
        assert_eq!(
            Id::compose(Layout::DEFAULT, parts),
            Err(IdError::Field { field: "generator id", value: 1024, max: 1023 })
        );
    }

    proptest! {
        #[test]
        fn fields_are_disjoint_and_complete(layout in any_layout(), id in any_id()) {
            prop_assert_eq!(Id::compose(layout, id.parts(layout)), Ok(id));
        }

        #[test]
        fn what_does_not_fit_is_refused(layout in any_layout(), fields: (u64, u64, u64)) {
            let (tick, generator_id, sequence) = fields;
            let parts = IdParts { tick: Tick(tick), generator_id, sequence };
            let fits = tick <= layout.max_tick()
                && generator_id <= layout.max_generator_id()
                && sequence <= layout.max_sequence();
            match Id::compose(layout, parts) {
                Ok(id) => prop_assert!(fits && id.parts(layout) == parts),
                Err(_) => prop_assert!(!fits),
            }
        }

        #[test]
        fn ids_order_as_their_parts(layout in any_layout(), a in any_id(), b in any_id()) {
            prop_assert_eq!(a.cmp(&b), a.parts(layout).cmp(&b.parts(layout)));
        }

        #[test]
        fn shards_are_in_range(id in any_id(), shards in 1u32..) {
            prop_assert!(id.shard(shards).unwrap() < shards);
        }
    }

    #[test]
    fn shards_are_even_for_ids_that_share_their_low_bits() {
        let mut counts = [0u32; 16];
        for tick in 0..16_000u64 {
            let id = Id::new(tick << 22).unwrap();
            counts[id.shard(16).unwrap() as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(Id::MAX.shard(0), None);
    }
}
