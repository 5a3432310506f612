//! The range: which generator ids a store grants, from the first to the last, both included.
//!
//! A store keeps one cell per generator id and creates them all at once, so a range is bounded: a
//! layout may have 2^62 generator ids, and no fleet does.

use std::fmt;

use snowlease_core::Format;

/// The most generator ids a store holds.
pub const MOST_IDS: u64 = 1 << 20;

/// The most generator ids a store is made with if nobody says how many.
pub const DEFAULT_IDS: u64 = 1 << 16;

/// All generator ids of the layout, at most [`DEFAULT_IDS`].
pub fn default_range(format: Format) -> (u64, u64) {
    (0, format.layout().generator_ids().min(DEFAULT_IDS) - 1)
}

/// Checks a range where it comes in, and answers how many generator ids it has.
///
/// # Errors
///
/// [`RangeError`] says what to give instead.
pub fn check_range(format: Format, (first, last): (u64, u64)) -> Result<u64, RangeError> {
    let max = format.layout().max_generator_id();
    if first > last {
        return Err(RangeError::Empty { first, last });
    }
    if last > max {
        return Err(RangeError::Layout { last, max });
    }
    // The last one is below 2^62, so adding one cannot wrap.
    let ids = last - first + 1;
    if ids > MOST_IDS { Err(RangeError::TooLong { ids }) } else { Ok(ids) }
}

/// Why a pair of numbers is no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// It ends before it begins. Give the smaller number first.
    Empty {
        /// The first generator id given.
        first: u64,
        /// The last one given.
        last: u64,
    },
    /// It does not fit the layout. End it at `max`, or choose a layout with more generator ids.
    Layout {
        /// The last generator id given.
        last: u64,
        /// The largest one of the layout.
        max: u64,
    },
    /// It is longer than [`MOST_IDS`]. Give a part of it; other stores may take the rest.
    TooLong {
        /// How many generator ids it has.
        ids: u64,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Empty { first, last } => {
                write!(
                    f,
                    "the range {first}-{last} ends before it begins: give the smaller id first"
                )
            }
            RangeError::Layout { last, max } => write!(
                f,
                "generator id {last} does not fit the layout: end the range at {max} or choose a \
                 layout with more generator ids"
            ),
            RangeError::TooLong { ids } => write!(
                f,
                "a range of {ids} generator ids is too long for one store: give at most {MOST_IDS}"
            ),
        }
    }
}

impl std::error::Error for RangeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(layout: &str) -> Format {
        Format::new(layout.parse().unwrap(), 1, 0).unwrap()
    }

    #[test]
    fn ranges_are_checked_at_the_door() {
        let check = |range| check_range(Format::DEFAULT, range);
        assert_eq!(check((0, 1023)), Ok(1024));
        assert_eq!(check((7, 7)), Ok(1));
        assert_eq!(check((8, 7)), Err(RangeError::Empty { first: 8, last: 7 }));
        assert_eq!(check((0, 1024)), Err(RangeError::Layout { last: 1024, max: 1023 }));
        let wide = format("t1g62s0");
        assert_eq!(check_range(wide, (5, MOST_IDS + 4)), Ok(MOST_IDS));
        assert_eq!(
            check_range(wide, (0, MOST_IDS)),
            Err(RangeError::TooLong { ids: MOST_IDS + 1 })
        );
    }

    #[test]
    fn the_default_range_is_all_that_is_sensible() {
        assert_eq!(default_range(Format::DEFAULT), (0, 1023));
        assert_eq!(default_range(format("t1g62s0")), (0, DEFAULT_IDS - 1));
        assert_eq!(default_range(format("t63g0s0")), (0, 0));
    }
}
