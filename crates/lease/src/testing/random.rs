//! A small generator of numbers that are random enough for tests and the same on every run.

/// SplitMix64, from a seed. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number, any 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias of the remainder is of no concern for the small numbers of a test.
        self.draw().checked_rem(end).unwrap_or(0)
    }

    /// A number from `first` to `last`, both included; `first` if `last` is smaller.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first).saturating_add(1))
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        // The first outputs of SplitMix64 for seed 1234567, as given with its reference code.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn bounds_are_kept() {
        let mut random = Random::new(7);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.between(5, 5), 5);
        assert!((0..1000).all(|_| (3..=9).contains(&random.between(3, 9))));
        assert!((0..100).all(|_| !random.chance(0) && random.chance(100)));
    }
}
