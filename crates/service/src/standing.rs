//! How the service's own lease stands, as whoever keeps it tells.

use std::time::Duration;

use snowlease_core::Window;
use snowlease_lease::{State, Status};

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClockStanding {
    /// Wall clock minus id clock, in seconds.
    pub offset_s: f64,
    /// How far off the wall clock may be by the kernel's estimate, in seconds.
    pub max_error_s: Option<f64>,
    /// How often the wall clock was set.
    pub steps: u64,
    /// How often the process stood still for long.
    pub pauses: Option<u64>,
    /// How far the tick of an id may be from true time, in seconds (G3).
    pub ordering_bound_s: Option<f64>,
    /// The reference clock's answer: this host's clock minus it, in seconds.
    pub skew_s: Option<f64>,
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
        let kernel = snowlease_lease::os::kernel_time();
        let max_error_s = kernel.map(|time| seconds(time.max_error_us, 1e6));
        let offset_s = seconds(status.clock.offset_ns, 1e9);
        Standing {
            ready,
            reason,
            retry_after: status.retry_at_ms.and_then(|at_ms| {
                let left_ms = at_ms.saturating_sub(snowlease_lease::os::wall_ms());
                u64::try_from(left_ms).ok().map(Duration::from_millis)
            }),
            generator_id: status.window.map(Window::generator_id),
            remaining: status.window.map(|_| status.remaining),
            renewals: vec![
                ("granted", status.outcomes.granted),
                ("not-granted", status.outcomes.not_granted),
                ("renewed", status.outcomes.renewed),
                ("not-renewed", status.outcomes.not_renewed),
                ("lost", status.outcomes.lost),
            ],
            clock: Some(ClockStanding {
                offset_s,
                max_error_s,
                steps: status.clock.steps,
                pauses: None,
                ordering_bound_s: max_error_s.map(|error| error + offset_s.abs()),
                skew_s: status.skew_ms.map(|ms| seconds(ms, 1e3)),
            }),
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
