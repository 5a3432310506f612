//! The state word of a generator: `CLOSED(1) | generator id | tick | sequence`, the next free
//! value.
//!
//! One word says which lease is open, which tick is running and how far it is used, so that one
//! read-modify-write decides all three at once. Within one generator id a word never falls. In an
//! id the tick stands highest; here the generator id does, so that a value of another lease differs
//! from every value of this one by at least a whole tick, and one comparison tells all.

use crate::{Id, Layout, Tick, Window};

/// Set when no lease is open; every other bit then means nothing.
pub(super) const CLOSED: u64 = 1 << 63;

/// Set beside [`CLOSED`] for the few instructions between two leases: callers look again.
pub(super) const SWITCHING: u64 = CLOSED | 1 << 62;

/// No tick is published within this many values of the end of a generator id's values, so that
/// threads which add to the word at the same time, a block each at most, can never carry it into
/// the next generator id.
const RESERVE: u64 = 1 << 20;

/// Arithmetic on words of one layout. All shifts are below 64 and no sum here can wrap: a value is
/// below 2^63, and so is the end of its generator id's values or it is 2^63 itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Ids in a tick: 2^S.
    pub(super) cap: u64,
    /// 2^S - 1: the last value of a tick, counted from its first.
    pub(super) last: u64,
    composing: Composing,
    sequence_bits: u32,
    /// Bits below the generator id in a word: T + S, 1 to 63.
    lease_bits: u32,
    max_tick: u64,
}

/// What turns a value into an id: tick and generator id change places, each by one shift.
#[derive(Clone, Copy, Debug)]
struct Composing {
    tick_up: u32,
    generator_down: u32,
    /// The bits of the tick in an id.
    tick_mask: u64,
    /// The bits of the generator id in an id.
    generator_mask: u64,
}

impl Shape {
    pub(super) fn new(layout: Layout) -> Shape {
        Shape {
            cap: layout.ids_per_tick(),
            last: layout.max_sequence(),
            composing: Composing {
                tick_up: layout.generator_bits(),
                generator_down: layout.tick_bits(),
                tick_mask: layout.max_tick() << (layout.generator_bits() + layout.sequence_bits()),
                generator_mask: layout.max_generator_id() << layout.sequence_bits(),
            },
            sequence_bits: layout.sequence_bits(),
            lease_bits: layout.tick_bits() + layout.sequence_bits(),
            max_tick: layout.max_tick(),
        }
    }

    /// The first value of this tick under the generator id that `word` has.
    pub(super) fn tick_start(&self, word: u64, tick: Tick) -> u64 {
        self.base(word) | tick.0 << self.sequence_bits
    }

    /// The first value of this tick or of any later one, at most the end of the generator id's
    /// values.
    pub(super) fn start_from(&self, word: u64, tick: Tick) -> u64 {
        let tick = tick.0.min(self.max_tick + 1);
        (self.base(word) + (tick << self.sequence_bits)).min(self.end(word))
    }

    /// The first value of a window.
    pub(super) fn window_start(&self, window: Window) -> u64 {
        window.generator_id() << self.lease_bits | window.from().0 << self.sequence_bits
    }

    /// The first value of the generator id that `word` has.
    fn base(&self, word: u64) -> u64 {
        word >> self.lease_bits << self.lease_bits
    }

    /// The end of the values that `word`'s generator id may use. The very last value stays free, so
    /// that a word, which names the *next* value, always names one of its own generator id.
    pub(super) fn end(&self, word: u64) -> u64 {
        self.base(word) + ((1 << self.lease_bits) - 1)
    }

    /// Whether a tick starting here may be published: see [`RESERVE`].
    pub(super) fn publishable(&self, tick_start: u64) -> bool {
        self.end(tick_start) - tick_start > RESERVE
    }

    pub(super) fn generator_id(&self, word: u64) -> u64 {
        word >> self.lease_bits
    }

    pub(super) fn tick(&self, word: u64) -> Tick {
        Tick((word >> self.sequence_bits) & self.max_tick)
    }

    /// The first tick of which `word` has used nothing.
    pub(super) fn first_unused_tick(&self, word: u64) -> Tick {
        Tick((word - self.base(word)).div_ceil(self.cap))
    }

    /// The first value of the tick after that of `value`.
    pub(super) fn next_tick_start(&self, value: u64) -> u64 {
        (value & !(self.cap - 1)) + self.cap
    }

    /// The sequence a new tick starts with: where the last one stopped, if that was low.
    ///
    /// A generator that issues one id a tick would otherwise give sequence 0 to every id, and
    /// whoever shards by the low bits would fill one shard. A tick after a busy one has its
    /// full capacity.
    pub(super) fn carried(&self, word: u64) -> u64 {
        let sequence = word & (self.cap - 1);
        if sequence < self.cap / 4 { sequence } else { 0 }
    }

    /// The id a value stands for; the value is of an open word.
    #[inline(always)]
    pub(super) fn compose(&self, value: u64) -> Id {
        let Composing { tick_up, generator_down, tick_mask, generator_mask } = self.composing;
        Id::new_unchecked(
            (value << tick_up & tick_mask)
                | (value >> generator_down & generator_mask)
                | (value & self.last),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IdParts;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_and_its_id_say_the_same(
            t in 1u8..=63, g_share in 0u8..=62, tick: u64, generator_id: u64, sequence: u64,
        ) {
            let g = g_share.min(63 - t);
            let layout = Layout::new(t, g, 63 - t - g).unwrap();
            let shape = Shape::new(layout);
            let parts = IdParts {
                tick: Tick(tick & layout.max_tick()),
                generator_id: generator_id & layout.max_generator_id(),
                sequence: sequence & layout.max_sequence(),
            };
            let start = parts.generator_id << shape.lease_bits;
            let value = shape.tick_start(start, parts.tick) + parts.sequence;
            prop_assert_eq!(value & CLOSED, 0);
            prop_assert_eq!(Ok(shape.compose(value)), Id::compose(layout, parts));
            prop_assert_eq!(shape.tick(value), parts.tick);
            prop_assert_eq!(shape.generator_id(value), parts.generator_id);
            prop_assert!(shape.base(value) <= value && value <= shape.end(value));
            prop_assert!(shape.carried(value) <= shape.cap / 4);
        }
    }

    #[test]
    fn the_sequence_is_carried_only_from_a_low_one() {
        let shape = Shape::new(Layout::DEFAULT);
        assert_eq!([0, 1, 1023, 1024, 4000].map(|word| shape.carried(word)), [0, 1, 1023, 0, 0]);
        let tight = Shape::new(Layout::new(62, 0, 1).unwrap());
        assert_eq!([0, 1].map(|word| tight.carried(word)), [0, 0]);
    }
}
