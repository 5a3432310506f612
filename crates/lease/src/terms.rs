//! The terms of a lease: how long a window is, how often it is renewed, when issuing stops.

use std::fmt;
use std::time::Duration;

/// Lengths of time that a holder and a service agree on.
///
/// # Promise
///
/// Checked where they are made: at least two attempts to renew fit between the first one and the
/// stop, so a single lost answer never costs a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    window: Duration,
    renew: Duration,
    margin: Duration,
    attempt: Duration,
    /// The longest window of a lease that is old enough.
    bridge: Duration,
}

impl Terms {
    /// Windows of 60 s, renewed every 20 s; issuing stops 1 s before the lease's real time runs
    /// out.
    pub const DEFAULT: Terms = Terms {
        window: Duration::from_secs(60),
        renew: Duration::from_secs(20),
        margin: Duration::from_secs(1),
        attempt: Duration::from_secs(3),
        bridge: Duration::from_secs(60),
    };

    /// A holder's clock may differ from the reference by this much before it is worth a warning.
    pub const SKEW_WARN: Duration = Duration::from_millis(250);

    /// A holder whose clock differs from the reference by more is not granted a lease, and no
    /// window reaches further than this past the reference plus the window's length.
    pub const SKEW_LIMIT: Duration = Duration::from_secs(2);

    /// The shortest window.
    pub const SHORTEST_WINDOW: Duration = Duration::from_secs(1);

    /// The longest window: what a dead holder may cost.
    pub const LONGEST_WINDOW: Duration = Duration::from_hours(1);

    /// Terms with this window and renewal period; the stop margin and the time of an attempt follow
    /// from them, at most 1 s and 3 s.
    ///
    /// # Errors
    ///
    /// * [`TermsError::Window`]: the window is shorter than 1 s or longer than an hour.
    /// * [`TermsError::Renew`]: fewer than two attempts fit between the first renewal and the stop;
    ///   renew earlier (a third of the window is customary), or lengthen the window.
    pub fn new(window: Duration, renew: Duration) -> Result<Terms, TermsError> {
        if window < Terms::SHORTEST_WINDOW || window > Terms::LONGEST_WINDOW {
            return Err(TermsError::Window { window });
        }
        let margin = (window / 20).min(Terms::DEFAULT.margin);
        let attempt = ((window - margin) / 4).min(Terms::DEFAULT.attempt);
        if renew.is_zero() || renew + attempt * 2 + margin > window {
            return Err(TermsError::Renew { window, renew });
        }
        Ok(Terms { window, renew, margin, attempt, bridge: window })
    }

    /// The same terms with windows that grow with the age of the lease up to `bridge`, to outlive
    /// an outage of the store that long. A holder that crashes early never holds a long window; one
    /// that is forgotten by a store that was put back is waited for as long.
    ///
    /// # Errors
    ///
    /// [`TermsError::Bridge`]: it is shorter than the window, or longer than an hour.
    pub fn with_bridge(self, bridge: Duration) -> Result<Terms, TermsError> {
        if bridge < self.window || bridge > Terms::LONGEST_WINDOW {
            return Err(TermsError::Bridge { window: self.window, bridge });
        }
        Ok(Terms { bridge, ..self })
    }

    /// The longest window a lease may have.
    pub const fn bridge(self) -> Duration {
        self.bridge
    }

    /// The length of the window to ask for when the lease is this old: half its age, within the
    /// usual window and the bridge.
    pub fn window_at(self, age: Duration) -> Duration {
        (age / 2).clamp(self.window, self.bridge)
    }

    /// The length of a window.
    pub const fn window(self) -> Duration {
        self.window
    }

    /// The time from a grant to its first renewal.
    pub const fn renew(self) -> Duration {
        self.renew
    }

    /// Issuing stops this long before the lease's real time runs out.
    pub const fn margin(self) -> Duration {
        self.margin
    }

    /// One attempt at the store may take this long.
    pub const fn attempt(self) -> Duration {
        self.attempt
    }
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::DEFAULT
    }
}

/// Why lengths are no terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsError {
    /// The window is out of bounds.
    Window {
        /// The window asked for.
        window: Duration,
    },
    /// Renewal comes too late for the window.
    Renew {
        /// The window asked for.
        window: Duration,
        /// The renewal period asked for.
        renew: Duration,
    },
    /// The bridge is out of bounds.
    Bridge {
        /// The window it is to bridge.
        window: Duration,
        /// The bridge asked for.
        bridge: Duration,
    },
}

impl fmt::Display for TermsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TermsError::Window { window } => write!(
                f,
                "a lease of {window:?} is not possible: choose {:?} to {:?}",
                Terms::SHORTEST_WINDOW,
                Terms::LONGEST_WINDOW
            ),
            TermsError::Bridge { window, bridge } => write!(
                f,
                "windows that grow to {bridge:?} are not possible: choose {window:?} (the window) \
                 to {:?}",
                Terms::LONGEST_WINDOW
            ),
            TermsError::Renew { window, renew } => write!(
                f,
                "renewing a lease of {window:?} every {renew:?} leaves no time for a second \
                 attempt: \
                 renew every {:?}",
                Duration::from_millis(u64::try_from(window.as_millis() / 3).unwrap_or(u64::MAX))
            ),
        }
    }
}

impl std::error::Error for TermsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_terms_pass_their_own_check() {
        let terms = Terms::new(Duration::from_secs(60), Duration::from_secs(20));
        assert_eq!(terms, Ok(Terms::DEFAULT));
        // G5: with the store gone right before a renewal, issuing goes on for at least 37 s.
        let worst = Terms::DEFAULT.window - Terms::DEFAULT.renew - Terms::DEFAULT.margin;
        assert!(worst >= Duration::from_secs(37));
    }

    #[test]
    fn nonsense_is_refused() {
        let terms =
            |window, renew| Terms::new(Duration::from_millis(window), Duration::from_millis(renew));
        for (window, renew) in
            [(0, 0), (999, 300), (3_600_001, 1), (60_000, 0), (60_000, 60_000), (3_000, 2_500)]
        {
            assert!(terms(window, renew).is_err(), "{window} {renew}");
        }
        assert!(terms(3_000, 1_000).is_ok());
    }

    #[test]
    fn windows_grow_with_the_age_of_the_lease_within_the_bridge() {
        let seconds = Duration::from_secs;
        let bridged = Terms::DEFAULT.with_bridge(seconds(600)).unwrap();
        for (age, window) in
            [(0, 60), (120, 60), (122, 61), (1_000, 500), (1_200, 600), (9_999, 600)]
        {
            assert_eq!(bridged.window_at(seconds(age)), seconds(window), "{age}");
        }
        assert_eq!(Terms::DEFAULT.window_at(seconds(9_999)), seconds(60));
        assert!(Terms::DEFAULT.with_bridge(seconds(59)).is_err());
        assert!(Terms::DEFAULT.with_bridge(seconds(3_601)).is_err());
    }
}
