//! The thresholds that a clock is judged by.

use std::fmt;
use std::time::Duration;

/// Lengths of time that decide what a deviation of the wall clock is taken for. The reasons for
/// each default are in `docs/reference/configuration.md`.
///
/// # Promise
///
/// Checked where they are made: see [`ClockTermsError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTerms {
    /// Offsets of the wall clock up to here are noise of the comparison: 2 ms.
    pub ignore: Duration,
    /// Offsets beyond are a step: somebody has set the clock; up to here they are drift: 500 ms.
    pub step: Duration,
    /// How much drift is made up for in a second: 5 ms.
    pub slew: Duration,
    /// How often the clocks are compared: 250 ms.
    pub sample: Duration,
    /// How long issuing pauses after a step, if the store has not answered before: 3 s.
    pub pause: Duration,
    /// The kernel's estimate of its error from which the wall clock is not trusted: 3 s.
    pub max_error: Duration,
    /// A difference from the reference clock that is worth a warning: 250 ms.
    pub warn: Duration,
    /// How far an id's tick may be from the host's disciplined time (G3): 5 ms.
    pub bound: Duration,
}

impl ClockTerms {
    /// The lengths named above.
    pub const DEFAULT: ClockTerms = ClockTerms {
        ignore: Duration::from_millis(2),
        step: Duration::from_millis(500),
        slew: Duration::from_millis(5),
        sample: Duration::from_millis(250),
        pause: Duration::from_secs(3),
        max_error: Duration::from_secs(3),
        warn: Duration::from_millis(250),
        bound: Duration::from_millis(5),
    };

    /// The same, if they go together.
    ///
    /// # Errors
    ///
    /// [`ClockTermsError`], which says what does not.
    pub fn checked(self) -> Result<ClockTerms, ClockTermsError> {
        let within = |name, value: Duration, least: Duration, most: Duration| {
            let fits = value >= least && value <= most;
            if fits { Ok(()) } else { Err(ClockTermsError { name, value, least, most }) }
        };
        let ms = Duration::from_millis;
        within("step", self.step, ms(50), ms(60_000))?;
        within("ignore", self.ignore, Duration::ZERO, self.step / 2)?;
        within("slew", self.slew, Duration::ZERO, ms(100))?;
        within("sample", self.sample, ms(10), ms(5_000))?;
        within("pause", self.pause, Duration::ZERO, ms(60_000))?;
        within("max-error", self.max_error, ms(1), ms(16_000))?;
        within("warn", self.warn, ms(1), ms(60_000))?;
        within("bound", self.bound, self.ignore.max(ms(1)), self.step)?;
        Ok(self)
    }
}

impl Default for ClockTerms {
    fn default() -> ClockTerms {
        ClockTerms::DEFAULT
    }
}

/// A length that does not go with the others. Choose one within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTermsError {
    /// Which one.
    pub name: &'static str,
    /// What it is.
    pub value: Duration,
    /// The least that goes.
    pub least: Duration,
    /// The most that goes.
    pub most: Duration,
}

impl fmt::Display for ClockTermsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClockTermsError { name, value, least, most } = self;
        write!(f, "a clock's {name} of {value:?} does not go: choose {least:?} to {most:?}")
    }
}

impl std::error::Error for ClockTermsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_nonsense_does_not() {
        assert_eq!(ClockTerms::DEFAULT.checked(), Ok(ClockTerms::DEFAULT));
        let ms = Duration::from_millis;
        let default = ClockTerms::DEFAULT;
        for (name, terms) in [
            ("step", ClockTerms { step: ms(10), ..default }),
            ("ignore", ClockTerms { ignore: ms(400), ..default }),
            ("slew", ClockTerms { slew: ms(500), ..default }),
            ("sample", ClockTerms { sample: ms(0), ..default }),
            ("pause", ClockTerms { pause: ms(600_000), ..default }),
            ("max-error", ClockTerms { max_error: ms(0), ..default }),
            ("warn", ClockTerms { warn: ms(0), ..default }),
            ("bound", ClockTerms { bound: ms(501), ..default }),
            ("bound", ClockTerms { bound: ms(1), ..default }),
        ] {
            let error = terms.checked().map_err(|error| error.name);
            assert_eq!(error, Err(name));
        }
    }
}
