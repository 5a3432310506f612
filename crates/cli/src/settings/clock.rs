//! The clock's part of the configuration: its thresholds, its gate, its guard.

use std::str::FromStr;

use snowlease_lease::{ClockGate, ClockTerms};

use super::keys::{self, Key};
use super::{Origin, Resolver, Setting, read, told};
use crate::stores;
use crate::usage::Usage;

/// What a service makes of its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) terms: ClockTerms,
    pub(crate) gate: ClockGate,
    pub(crate) guard: ClockGuard,
}

/// How calls see to it that the tick is the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockGuard {
    /// Each call checks the time.
    Precise,
    /// A thread publishes each tick.
    Ticking,
}

impl FromStr for ClockGuard {
    type Err = String;

    fn from_str(text: &str) -> Result<ClockGuard, String> {
        match text {
            "precise" => Ok(ClockGuard::Precise),
            "ticking" => Ok(ClockGuard::Ticking),
            _ => Err("a clock guard is `precise` or `ticking`".to_owned()),
        }
    }
}

/// The key of each threshold, by the name that its check has for it.
static LENGTHS: [(&str, &Key); 8] = [
    ("ignore", &keys::CLOCK_IGNORE),
    ("step", &keys::CLOCK_STEP),
    ("slew", &keys::CLOCK_SLEW),
    ("sample", &keys::CLOCK_SAMPLE),
    ("pause", &keys::CLOCK_PAUSE),
    ("max-error", &keys::CLOCK_MAX_ERROR),
    ("warn", &keys::CLOCK_WARN),
    ("bound", &keys::ORDERING_BOUND),
];

impl Resolver<'_> {
    /// Everything about the clock of a process that uses this store.
    pub(super) fn clock(&mut self, store: &str) -> Result<Clock, Usage> {
        Ok(Clock {
            terms: self.clock_terms()?,
            gate: self.clock_gate(store)?,
            guard: self.required(&keys::CLOCK_GUARD, str::parse)?.value,
        })
    }

    fn clock_terms(&mut self) -> Result<ClockTerms, Usage> {
        let mut length = |key| self.required(key, read::length).map(|setting| setting.value);
        let terms = ClockTerms {
            ignore: length(&keys::CLOCK_IGNORE)?,
            step: length(&keys::CLOCK_STEP)?,
            slew: length(&keys::CLOCK_SLEW)?,
            sample: length(&keys::CLOCK_SAMPLE)?,
            pause: length(&keys::CLOCK_PAUSE)?,
            max_error: length(&keys::CLOCK_MAX_ERROR)?,
            warn: length(&keys::CLOCK_WARN)?,
            bound: length(&keys::ORDERING_BOUND)?,
        };
        let Err(error) = terms.checked() else { return Ok(terms) };
        let key = LENGTHS.iter().find(|(name, _)| *name == error.name).map(|(_, key)| *key);
        let Some(key) = key else { return Err(Usage(error.to_string())) };
        let origin = self.sources.text(key)?.map_or(Origin::Default, |(_, origin)| origin);
        Err(Usage(format!(
            "{} {}: choose {} to {}",
            origin.of(key),
            told(error.value),
            told(error.least),
            told(error.most)
        )))
    }

    fn clock_gate(&mut self, store: &str) -> Result<ClockGate, Usage> {
        let given: Option<Setting<ClockGate>> = self.optional(&keys::CLOCK_GATE, str::parse)?;
        Ok(given.map_or_else(
            || {
                let gate = stores::clock_gate(store);
                self.shown.fill(&keys::CLOCK_GATE, gate.to_string());
                gate
            },
            |setting| setting.value,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_has_a_key_with_the_default_of_the_library() {
        let length = |key: &Key| read::length(key.default).expect("a length");
        let terms = ClockTerms {
            ignore: length(&keys::CLOCK_IGNORE),
            step: length(&keys::CLOCK_STEP),
            slew: length(&keys::CLOCK_SLEW),
            sample: length(&keys::CLOCK_SAMPLE),
            pause: length(&keys::CLOCK_PAUSE),
            max_error: length(&keys::CLOCK_MAX_ERROR),
            warn: length(&keys::CLOCK_WARN),
            bound: length(&keys::ORDERING_BOUND),
        };
        assert_eq!(terms, ClockTerms::DEFAULT);
        for (name, key) in LENGTHS {
            assert!(key.flag.ends_with(name), "{name}: {}", key.flag);
        }
    }
}
