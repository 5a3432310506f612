//! How busy the machine was with other things of its own.

use std::fs;

/// Processor time so far, in clock ticks of the kernel: what all processes used, and what could
/// have been used; and what this one used of it.
fn processor_time() -> (u64, u64, u64) {
    let numbers = |text: String, skip: usize| -> Vec<u64> {
        text.split_whitespace().skip(skip).map_while(|field| field.parse().ok()).collect()
    };
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = numbers(stat.lines().next().unwrap_or_default().to_owned(), 1);
    // User, nice, system; the eighth, what other guests took, was nobody's here.
    let busy = all.iter().take(3).sum();
    let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may have blanks, and ends with a bracket; user and system are fields 14 and 15.
    let own = own.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let own = numbers(own, 11).iter().take(2).sum();
    (busy, all.iter().take(8).sum(), own)
}

/// Watches what other processes use.
pub(crate) struct Busy {
    before: (u64, u64, u64),
}

impl Busy {
    pub(crate) fn watch() -> Busy {
        Busy { before: processor_time() }
    }

    /// One line: their share of the processors' time.
    pub(crate) fn line(&self) -> String {
        let (busy, all, own) = processor_time();
        let others = (busy - self.before.0).saturating_sub(own - self.before.2);
        let share = others as f64 / (all - self.before.1).max(1) as f64 * 100.0;
        format!("{:<58} {share:>12.2} %", "processor time taken by other processes of this machine")
    }
}
