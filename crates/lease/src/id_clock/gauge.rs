//! What a call may check its tick by on this host, and what that costs: measured once a process.

use snowlease_core::Gauge;
use snowlease_core::clock::read_counter;

use crate::{PerProcess, os};

/// How long the counter is compared with the boot clock.
const MEASURE_NS: u64 = 10_000_000;

/// A read of the boot clock that costs more is no read of the kernel's shared page.
const SLOW_READ_NS: u64 = 150;

/// How calls check the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauged {
    /// By what.
    pub gauge: Gauge,
    /// What one reading of the boot clock costs, in ns: the first call of each tick pays for one,
    /// and each call does where there is no counter.
    pub boot_read_ns: u64,
}

impl Gauged {
    /// That of this host. The first time it takes about 10 ms.
    pub fn of_host() -> Gauged {
        // Threads that are first at once each measure it, since a child must not wait for a thread
        // of its parent's.
        static HOST: PerProcess<Host> = PerProcess::new();
        HOST.get().0
    }

    /// Whether reading the clock is a call to the kernel here, which makes each id dearer than
    /// everything else about it.
    pub fn is_slow(self) -> bool {
        self.boot_read_ns > SLOW_READ_NS
    }
}

#[derive(Debug)]
struct Host(Gauged);

impl Default for Host {
    /// Measured now.
    fn default() -> Host {
        Host(Gauged { gauge: measured(), boot_read_ns: cost_ns() })
    }
}

/// The processor's counter with its measured rate, if the kernel trusts it; the boot clock
/// otherwise.
fn measured() -> Gauge {
    if !os::counter_is_trusted() {
        return Gauge::BOOTTIME;
    }
    let Some((first, first_ns)) = both() else { return Gauge::BOOTTIME };
    while os::boot_ns() < first_ns + MEASURE_NS {
        std::hint::spin_loop();
    }
    let Some((last, last_ns)) = both() else { return Gauge::BOOTTIME };
    let counts = u128::from(last.wrapping_sub(first));
    let hz = counts * 1_000_000_000 / u128::from(last_ns - first_ns);
    // A rate that no processor has means that the measurement failed.
    match u64::try_from(hz) {
        Ok(hz) if (1_000_000..100_000_000_000).contains(&hz) => Gauge::Counter { hz },
        _ => Gauge::BOOTTIME,
    }
}

/// Counter and boot clock at one instant: the tightest of several pairs, since one that is torn by
/// a lost core is not the tightest.
pub(super) fn both() -> Option<(u64, u64)> {
    let pair = |_| {
        let before = read_counter()?;
        let boot_ns = os::boot_ns();
        let apart = read_counter()?.wrapping_sub(before);
        Some((apart, before.wrapping_add(apart / 2), boot_ns))
    };
    (0..8).filter_map(pair).min().map(|(_, count, boot_ns)| (count, boot_ns))
}

/// The least of several rounds: what it costs when nothing comes between.
fn cost_ns() -> u64 {
    const READS: u64 = 64;
    let round = |_| {
        let began_ns = os::boot_ns();
        (0..READS).for_each(|_| {
            std::hint::black_box(os::boot_ns());
        });
        os::boot_ns().saturating_sub(began_ns) / READS
    };
    (0..8).map(round).min().unwrap_or(0)
}

/// Watches that a counter keeps its rate: a kernel may stop trusting the counter at run time, and
/// then so must a generator.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterWatch {
    last: Option<(u64, u64)>,
    amiss: u32,
    looks: u32,
}

impl CounterWatch {
    /// Looks amiss in a row that are needed: a suspend alone may set a counter back once.
    const PATIENCE: u32 = 3;

    /// How many looks lie between two questions to the kernel, which has its own reasons.
    const ASK_EVERY: u32 = 240;

    /// Whether the counter, at `hz`, is still to be trusted, given what it and a clock that counts
    /// while the machine runs read now.
    pub(super) fn look(
        &mut self,
        hz: u64,
        count: u64,
        running_ns: u64,
        is_trusted: impl FnOnce() -> bool,
    ) -> bool {
        if let Some((last_count, last_ns)) = self.last.replace((count, running_ns)) {
            let ns = u128::from(running_ns.saturating_sub(last_ns));
            let counted = u128::from(count.wrapping_sub(last_count));
            let by_counter_ns = counted * 1_000_000_000 / u128::from(hz.max(1));
            // The two are not read at one instant.
            let off = by_counter_ns.abs_diff(ns) > ns / 100 + 1_000_000;
            self.amiss = if off { self.amiss + 1 } else { 0 };
        }
        self.looks += 1;
        let asks = self.looks.is_multiple_of(CounterWatch::ASK_EVERY);
        self.amiss < CounterWatch::PATIENCE && (!asks || is_trusted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_loses_its_rate_is_not_trusted_any_more_and_a_suspend_is_forgiven() {
        let hz = 2_000_000_000;
        let mut watch = CounterWatch::default();
        let (mut count, mut ns) = (10_000_000_000, 5_000_000_000);
        let mut look = |counts: i64, passed_ns: u64| {
            count = u64::wrapping_add_signed(count, counts);
            ns += passed_ns;
            watch.look(hz, count, ns, || true)
        };
        assert!(look(0, 0) && look(500_000_000, 250_000_000));
        // A suspend sets it back, and it goes on at its rate.
        assert!(look(-9_000_000_000, 250_000_000) && look(500_000_000, 250_000_000));
        // It stands still.
        assert!(look(0, 250_000_000) && look(0, 250_000_000));
        assert!(!look(0, 250_000_000));
    }

    #[test]
    fn the_kernels_word_counts_within_a_minute() {
        let mut watch = CounterWatch::default();
        let distrusted =
            (0..240).find(|n| !watch.look(1_000_000_000, n * 1_000, n * 1_000, || false));
        assert_eq!(distrusted, Some(239));
    }

    #[test]
    fn the_counter_of_this_host_runs_at_its_measured_rate() {
        let gauged = Gauged::of_host();
        assert!(gauged.boot_read_ns > 0, "{gauged:?}");
        let Gauge::Counter { hz } = gauged.gauge else { return };
        let (first, first_ns) = both().unwrap();
        while os::boot_ns() < first_ns + 2 * MEASURE_NS {}
        let (last, last_ns) = both().unwrap();
        let by_counter_ns = u128::from(last - first) * 1_000_000_000 / u128::from(hz);
        let ns = u128::from(last_ns - first_ns);
        let off = by_counter_ns.abs_diff(ns);
        assert!(off * 200 < ns, "the counter's rate is off: {off} of {ns} ns");
    }
}
