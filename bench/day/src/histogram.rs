//! How often a duration was seen, to within a percent: a bucket for each of 128 steps of each
//! doubling.

const STEPS_LOG2: u32 = 7;
const STEPS: u64 = 1 << STEPS_LOG2;
const BUCKETS: usize = 64 << STEPS_LOG2;

/// Counts of nanoseconds, in buckets that are at most 1/128 wide.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }

    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count += 1;
        }
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many values there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest value, exactly.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The value that this share of all, in millionths, does not exceed; rounded up to the end of
    /// its bucket.
    pub fn at(&self, millionths: u64) -> u64 {
        let wanted = u128::from(self.total) * u128::from(millionths);
        let mut seen = 0u128;
        for (place, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count) * 1_000_000;
            if seen >= wanted && *count > 0 {
                return last_of(place).min(self.max);
            }
        }
        self.max
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

/// Values below 128 have a bucket each; above, the doubling and the seven bits after the first.
fn bucket(value: u64) -> usize {
    let doubling = (63 - (value | 1).leading_zeros()).saturating_sub(STEPS_LOG2);
    let step = value >> doubling; // below 256
    usize::try_from(u64::from(doubling) * STEPS + step).unwrap_or(BUCKETS)
}

/// The largest value of a bucket.
fn last_of(place: usize) -> u64 {
    let place = place as u64;
    let doubling = (place / STEPS).saturating_sub(1);
    let step = u128::from(place - doubling * STEPS);
    u64::try_from(((step + 1) << doubling) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_ends_within_a_percent_above_it() {
        let values = (0..64).flat_map(|bit| [0u64, 1, 3, 99].map(|more| (1u64 << bit) + more));
        for value in values.chain([0, 127, 128, 255, 256, 1_000_003, u64::MAX]) {
            let last = last_of(bucket(value));
            assert!(last >= value && last - value <= value / 128, "{value} {last}");
        }
    }

    #[test]
    fn shares_are_of_all_that_was_added() {
        let (mut low, mut high) = (Histogram::new(), Histogram::new());
        (1..=50).for_each(|value| low.add(value));
        (51..=100).for_each(|value| high.add(value));
        low.merge(&high);
        assert_eq!((low.total(), low.max()), (100, 100));
        assert_eq!((low.at(500_000), low.at(990_000), low.at(1_000_000)), (50, 99, 100));
        low.add(5_000_000);
        assert_eq!((low.at(990_000), low.at(999_900)), (100, 5_000_000));
    }
}
