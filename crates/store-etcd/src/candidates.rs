//! Which generator ids an ask tries: a few that follow from its request key.
//!
//! Asking again tries the same ones and finds the grant that was made. Asks at once try different
//! ones, so a herd seldom meets.

use snowlease_lease::TokenHash;

/// How many are tried without having looked.
pub(crate) const TRIED: usize = 8;

/// A sequence of numbers that follows from a seed: splitmix64.
pub(crate) struct Draws(u64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// A number below `bound`, which is at most 2^20: too few for a bias that matters.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }

    /// Takes up to `count` of these, in a drawn order.
    pub(crate) fn some_of<T>(&mut self, mut from: Vec<T>, count: usize) -> Vec<T> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count && !from.is_empty() {
            let place = self.below(u64::try_from(from.len()).unwrap_or(1));
            taken.push(from.swap_remove(usize::try_from(place).unwrap_or(0)));
        }
        taken
    }
}

/// The generator ids that this token leads to, all different.
pub(crate) fn of_token(token: &TokenHash, (first, last): (u64, u64)) -> Vec<u64> {
    let ids = last.saturating_sub(first).saturating_add(1);
    let mut seed = [0; 8];
    seed.copy_from_slice(&token.as_bytes()[..8]);
    let mut draws = Draws::new(u64::from_be_bytes(seed));
    if ids <= 2 * TRIED as u64 {
        return draws.some_of((first..=last).collect(), TRIED);
    }
    let mut found = Vec::with_capacity(TRIED);
    while found.len() < TRIED {
        let id = first + draws.below(ids);
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_lease::Token;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_token_always_leads_to_the_same_distinct_ids_of_the_range() {
        for (first, last) in [(0, 0), (5, 9), (5, 20), (5, 21), (7, 1_000_000)] {
            let token = Token::random().hash();
            let ids = of_token(&token, (first, last));
            assert_eq!(ids, of_token(&token, (first, last)));
            let distinct: BTreeSet<_> = ids.iter().copied().collect();
            assert_eq!(distinct.len(), ids.len());
            assert_eq!(ids.len() as u64, (last - first + 1).min(8));
            assert!(ids.iter().all(|id| (first..=last).contains(id)));
        }
    }

    /// A herd is spread over the whole range.
    #[test]
    fn every_id_is_led_to_about_as_often() {
        let mut counts = BTreeMap::<u64, u32>::new();
        for _ in 0..4_000 {
            let first = of_token(&Token::random().hash(), (0, 63))[0];
            *counts.entry(first).or_default() += 1;
        }
        // 62.5 each on average; ten standard deviations are 78.
        assert!(counts.len() == 64 && counts.values().all(|count| *count < 141), "{counts:?}");
    }
}
