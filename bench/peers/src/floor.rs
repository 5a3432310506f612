//! What this processor takes for the parts that no call can do without: the limit of the figures
//! above it.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use snowlease_bench::{Figure, timed};
use snowlease_core::clock::read_counter;
use snowlease_lease::os;

use crate::ROUNDS;

const CALLS: u64 = 20_000;

/// Each part by itself, and together, in turns.
pub(crate) fn lines() -> Vec<String> {
    let word = AtomicU64::new(0);
    let add = || word.fetch_add(1, Ordering::Relaxed);
    let count = || read_counter().unwrap_or(0);
    let mut figures = [
        Figure::new("limit: one locked addition", "ns"),
        Figure::new("limit: one reading of the counter", "ns"),
        Figure::new("limit: both, and nothing else", "ns"),
        Figure::new("limit: the boot clock through the vDSO", "ns"),
    ];
    for _ in 0..ROUNDS {
        figures[0].add(each(add));
        figures[1].add(each(count));
        figures[2].add(each(|| count() ^ add()));
        figures[3].add(each(os::boot_ns));
    }
    figures.iter_mut().map(Figure::line).collect()
}

fn each(mut part: impl FnMut() -> u64) -> f64 {
    let ns = timed(|| {
        (0..CALLS).for_each(|_| {
            black_box(part());
        })
    });
    ns as f64 / CALLS as f64
}
