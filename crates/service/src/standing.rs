//! How the service's own lease stands, as whoever keeps it tells.

use std::time::Duration;

use snowlease_core::{Gauge, Window};
use snowlease_lease::{ClockStatus, State, Status};

/// How the holder of the service's own lease stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Whether ids can be issued now.
    pub ready: bool,
    /// Why not, in words with what to do; empty if ready.
    pub reason: String,
    /// When ids can be expected, if that is known.
    pub retry_after: Option<Duration>,
    /// The generator id it issues under, if it has one.
    pub generator_id: Option<u64>,
    /// Time until issuing stops if no renewal succeeds.
    pub remaining: Option<Duration>,
    /// How often the store gave which answer, by a name for the outcome.
    pub renewals: Vec<(&'static str, u64)>,
    /// How its clock stands, if it is known.
    pub clock: Option<ClockStanding>,
}

/// How the id clock stands; what is not known is left out of the metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockStanding {
    /// Wall clock minus id clock, in seconds.
    pub offset_s: f64,
    /// How far off the wall clock may be by the kernel's estimate, in seconds.
    pub max_error_s: Option<f64>,
    /// Whether the wall clock is kept synchronised, as far as the kernel knows.
    pub synchronised: Option<bool>,
    /// How often the wall clock came to stand apart from the id clock: it was set, or ran off.
    pub steps: u64,
    /// How often the process stood still for long.
    pub pauses: u64,
    /// How often the id clock was seeded anew.
    pub reseeds: u64,
    /// How far the id clock was ahead at worst in the last minute or two, in seconds.
    pub lead_s: f64,
    /// As `lead_s`, behind.
    pub lag_s: f64,
    /// This host's id clock minus the reference clock, in seconds.
    pub skew_s: Option<f64>,
    /// How far the tick of an id may be from the host's disciplined time (G3), in seconds; nothing
    /// while nobody can say.
    pub ordering_bound_s: Option<f64>,
    /// What a person should know, in words with what to do.
    pub alarm: Option<String>,
    /// What one reading of the boot clock costs, in seconds.
    pub read_s: f64,
    /// What calls check the time by: `counter` or `boottime`.
    pub gauge: &'static str,
}

impl From<&ClockStatus> for ClockStanding {
    fn from(clock: &ClockStatus) -> ClockStanding {
        let ns = |ns: u64| Duration::from_nanos(ns).as_secs_f64();
        ClockStanding {
            offset_s: seconds(clock.offset_ns, 1e9),
            max_error_s: clock.kernel.map(|kernel| seconds(kernel.max_error_us, 1e6)),
            synchronised: clock.kernel.map(|kernel| kernel.synchronised),
            steps: clock.counts.steps,
            pauses: clock.counts.pauses,
            reseeds: clock.counts.reseeds,
            lead_s: ns(clock.lead_ns),
            lag_s: ns(clock.lag_ns),
            skew_s: clock.reference_ahead_ns.map(|(ahead_ns, _)| -seconds(ahead_ns, 1e9)),
            ordering_bound_s: clock.bound.ok().map(|bound| bound.as_secs_f64()),
            alarm: clock.alarm(),
            read_s: ns(clock.gauged.boot_read_ns),
            gauge: match clock.gauged.gauge {
                Gauge::Counter { .. } => "counter",
                Gauge::Clock { .. } => "boottime",
            },
        }
    }
}

/// What a [`Keeper`](snowlease_lease::Keeper) tells.
impl From<Status> for Standing {
    fn from(status: Status) -> Standing {
        let held = matches!(status.state, State::Held | State::Draining);
        let ready = held && !status.remaining.is_zero();
        let reason = match status.trouble {
            _ if ready => String::new(),
            Some(trouble) => trouble,
            None => no_lease(status.state).to_owned(),
        };
        Standing {
            ready,
            reason,
            retry_after: status.retry_after,
            generator_id: status.window.map(Window::generator_id),
            remaining: status.window.map(|_| status.remaining),
            renewals: vec![
                ("granted", status.outcomes.granted),
                ("not-granted", status.outcomes.not_granted),
                ("renewed", status.outcomes.renewed),
                ("not-renewed", status.outcomes.not_renewed),
                ("lost", status.outcomes.lost),
            ],
            clock: Some(ClockStanding::from(&status.clock)),
        }
    }
}

/// Why there are no ids, where nothing else is known.
fn no_lease(state: State) -> &'static str {
    match state {
        State::Idle => "the service holds no lease: it is starting or stopping",
        State::Acquiring => "the service has no lease yet",
        State::Held | State::Draining => {
            "the lease of the service has run out: it is being renewed, or another one is asked for"
        }
        State::Lost => "the service has lost its lease: it asks for another one",
    }
}

/// A count of a small unit in seconds, for a gauge.
fn seconds(count: i64, per_second: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a gauge needs no more than 53 bits")]
    let count = count as f64;
    count / per_second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_never_had_a_lease_has_none_yet() {
        for state in [State::Idle, State::Held, State::Draining, State::Lost] {
            assert!(!no_lease(state).contains("yet"), "{state:?}");
        }
        assert!(no_lease(State::Acquiring).contains("no lease yet"));
    }
}
