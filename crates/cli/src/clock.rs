//! What a service says of its host's clock when it starts, and which leases it gives by it.

use std::sync::Arc;

use snowlease_core::Gauge;
use snowlease_lease::id_clock::{Gauged, distrust};
use snowlease_lease::{Administer, ClockGate, Gated, os};

use crate::output::note;
use crate::settings::Clock;

/// The store as far as the clock is trusted; and a word about it if it is not.
pub(crate) fn gated(store: Arc<dyn Administer>, clock: &Clock) -> Arc<dyn Administer> {
    let max_error = clock.terms.max_error;
    if let Some(why) = distrust(os::kernel_time(), max_error) {
        let then = match clock.gate {
            ClockGate::Enforce => {
                "no lease is granted until then, unless --clock-gate warn is said"
            }
            ClockGate::Warn => {
                "ids are unique all the same, and until then their order among hosts has no bound"
            }
        };
        note(format_args!("warning: {why}; {then}"));
    }
    match clock.gate {
        ClockGate::Enforce => Arc::new(Gated::new(store, max_error)),
        ClockGate::Warn => store,
    }
}

/// A clock that is read by a call to the kernel makes ids dear, and nothing else shows that.
pub(crate) fn warn_of_slow_reads(gauged: Gauged) {
    if gauged.is_slow() {
        note(format_args!("warning: {}", told(gauged, &os::clock_source())));
    }
}

fn told(gauged: Gauged, source: &str) -> String {
    let whose = match gauged.gauge {
        Gauge::Counter { .. } => "the first id of each tick",
        Gauge::Clock { .. } => "each id",
    };
    let source = if source.is_empty() { "unknown" } else { source };
    format!(
        "reading the clock of this machine takes {} ns, and {whose} costs that (clock source \
         {source}): see docs/operating/clocks.md",
        gauged.boot_read_ns
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_clock_is_told_with_its_source_and_who_pays() {
        let slow = |gauge| told(Gauged { gauge, boot_read_ns: 900 }, "hpet");
        let each = slow(Gauge::BOOTTIME);
        assert!(each.contains("900 ns") && each.contains("each id") && each.contains("hpet"));
        assert!(slow(Gauge::Counter { hz: 1 }).contains("the first id of each tick"));
    }
}
