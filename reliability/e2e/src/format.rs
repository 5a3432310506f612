//! The format of all scenarios: few ids in a tick, so that whoever draws without pause takes every
//! id there is, and two holders of one generator id cannot miss each other.

use snowlease_core::{Format, Id};
use snowlease_lease::os;

/// Four ids a millisecond.
pub(crate) const LAYOUT: &str = "t41g20s2";
/// The first generator id that is not in the range of the store.
pub(crate) const GENERATORS: u64 = 8;
/// The range, as it is written.
pub(crate) const RANGE: &str = "0-7";

const SEQUENCE_BITS: u32 = 2;
const GENERATOR_BITS: u32 = 20;

/// Tick and generator id of an id.
pub(crate) const fn parts(id: u64) -> (u64, u64) {
    let tick = id >> (SEQUENCE_BITS + GENERATOR_BITS);
    (tick, id >> SEQUENCE_BITS & ((1 << GENERATOR_BITS) - 1))
}

/// The tick of now: those of every layout are of one millisecond and of one epoch.
pub(crate) fn now() -> u64 {
    Format::DEFAULT.tick_at_ms(os::wall_ms()).map_or(0, |tick| tick.0)
}

/// Unix ms of a tick.
pub(crate) fn unix_ms(tick: u64) -> i64 {
    Format::DEFAULT.unix_ms(snowlease_core::Tick(tick))
}

/// Whether a number is an id at all, of a generator id of the range.
pub(crate) fn is_id(id: u64) -> bool {
    Id::new(id).is_ok() && parts(id).1 < GENERATORS
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_core::{IdParts, Layout, Tick};

    #[test]
    fn ids_are_taken_apart_as_the_layout_says() {
        let layout: Layout = LAYOUT.parse().unwrap();
        let parts = IdParts { tick: Tick(123_456_789), generator_id: 5, sequence: 3 };
        let id = Id::compose(layout, parts).unwrap().get();
        assert_eq!(super::parts(id), (123_456_789, 5));
        assert!(is_id(id));
        assert!(!is_id(id + (8 << SEQUENCE_BITS)) && !is_id(1 << 63));
        assert_eq!(RANGE, format!("0-{}", GENERATORS - 1));
    }
}
