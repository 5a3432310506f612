//! Median and middle half of what was measured several times.

/// Of some values, sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// The median and the ends of the middle half: of three values or fewer, that is all of them.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (half, quarter) = (values.len() / 2, values.len() / 4);
        let other = values[values.len() - 1 - half];
        Spread {
            low: values[quarter],
            median: f64::midpoint(values[half], other),
            high: values[values.len() - 1 - quarter],
        }
    }
}
