//! The cold check: whether a store that nobody has used for long was put back to an older state.
//!
//! A store that was restored from a backup looks like one whose holders have all stopped: its pulse
//! (the time of its last grant or renewal) is old. If holders that it has forgotten are still
//! running, what it grants now may overlap their windows. So whoever finds the pulse silent for two
//! renewals watches for a while whether a renewal vouches for the store, and puts it into
//! quarantine if none does. A fleet that was stopped as a whole pays for that with one wait.
//!
//! Pure: the store reads the pulse and the clocks, and acts on the [`Verdict`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use snowlease_core::clock::nanos;

use crate::Terms;

/// What to do about a store whose pulse is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollbackGuard {
    /// Quarantine it, if nobody vouches for it.
    #[default]
    Enforce,
    /// Say so and go on. For fleets that stop as a whole every night, and know that they never
    /// restore a backup.
    Warn,
}

impl FromStr for RollbackGuard {
    type Err = String;

    fn from_str(text: &str) -> Result<RollbackGuard, String> {
        match text {
            "enforce" => Ok(RollbackGuard::Enforce),
            "warn" => Ok(RollbackGuard::Warn),
            _ => Err("a rollback guard is `enforce` or `warn`".to_owned()),
        }
    }
}

impl fmt::Display for RollbackGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RollbackGuard::Enforce => "enforce",
            RollbackGuard::Warn => "warn",
        })
    }
}

/// What a store may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Grant.
    Trust,
    /// Grant nothing yet; look at the pulse again at the next ask.
    Watch {
        /// For how long the pulse was silent when it was first read.
        silent: Duration,
        /// For how long to watch still.
        left: Duration,
    },
    /// Quarantine the store before anything else is granted; the guard trusts it from then on.
    Quarantine {
        /// For how long the pulse was silent.
        silent: Duration,
    },
    /// Grant, and raise an alarm.
    Warn {
        /// For how long the pulse was silent.
        silent: Duration,
    },
    /// Grant nothing: the pulse moves, and this host's clock is off by more than
    /// [`Terms::SKEW_LIMIT`]. Look again at the next ask.
    Skew {
        /// How far this host's clock is ahead of those who wrote the pulse, in ms; negative if
        /// behind.
        ahead_ms: i64,
    },
}

/// What a store tells of its last use, in Unix ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// When a lease was last granted or renewed, by the clock of whoever did; 0 if never.
    pub pulse_ms: i64,
    /// When its floor begins or began. While it lies ahead nobody can have used the store since it
    /// was set, so until then the silence is its own doing.
    pub floor_ms: i64,
}

impl Trace {
    /// Since when the store is silent.
    fn heard_ms(self, now_ms: i64) -> i64 {
        self.pulse_ms.max(self.floor_ms.min(now_ms))
    }
}

/// Judges the pulse of a store: one for each process that uses it.
#[derive(Clone, Debug)]
pub struct PulseGuard {
    guard: RollbackGuard,
    terms: Terms,
    watching: Option<Watching>,
}

#[derive(Clone, Copy, Debug)]
struct Watching {
    pulse_ms: i64,
    silent: Duration,
    looked_ns: u64,
    until_ns: u64,
    /// How far this host's clock is ahead, once a moving pulse has shown that it is the one that is
    /// wrong.
    ahead_ms: Option<i64>,
}

impl PulseGuard {
    /// A guard that trusts until it is told of a connection. Everyone who shares a store uses the
    /// same terms.
    pub fn new(guard: RollbackGuard, terms: Terms) -> PulseGuard {
        PulseGuard { guard, terms, watching: None }
    }

    /// Judges what was read when a connection to the store was made. Of a store that has never
    /// granted anything nothing can be forgotten.
    ///
    /// `now_ms` is the clock that the pulse was written by, or one near it; `now_ns` the boot clock
    /// of this machine.
    pub fn connected(&mut self, trace: Trace, now_ms: i64, now_ns: u64) -> Verdict {
        if let Some(watching) = self.watching
            && watching.pulse_ms == trace.pulse_ms
        {
            return self.look(trace, now_ms, now_ns);
        }
        self.watching = None;
        let silent_ms = now_ms.saturating_sub(trace.heard_ms(now_ms));
        let silent = Duration::from_millis(silent_ms.unsigned_abs());
        // A pulse far ahead of our clock tells nothing either.
        let heard = if silent_ms < 0 { Terms::SKEW_LIMIT } else { self.terms.renew() * 2 };
        if trace.pulse_ms == 0 || silent <= heard {
            return Verdict::Trust;
        }
        if self.guard == RollbackGuard::Warn {
            return Verdict::Warn { silent };
        }
        let left = self.watch();
        let until_ns = now_ns.saturating_add(nanos(left));
        let (pulse_ms, looked_ns) = (trace.pulse_ms, now_ns);
        self.watching = Some(Watching { pulse_ms, silent, looked_ns, until_ns, ahead_ms: None });
        Verdict::Watch { silent, left }
    }

    /// Long enough for a single holder to renew once: a clock of ours that is far ahead shows every
    /// store as silent, and only a pulse that moves tells the two apart.
    fn watch(&self) -> Duration {
        self.terms.renew() + self.terms.attempt() * 2
    }

    /// Whether the pulse has to be read before anything is granted.
    pub fn is_watching(&self) -> bool {
        self.watching.is_some()
    }

    /// Judges what was read while [`is_watching`](Self::is_watching).
    pub fn look(&mut self, trace: Trace, now_ms: i64, now_ns: u64) -> Verdict {
        let watch = self.watch();
        let Some(watching) = &mut self.watching else { return Verdict::Trust };
        let until_ns = now_ns.saturating_add(nanos(watch));
        if trace.pulse_ms != watching.pulse_ms {
            // It moved since the last look, so it is no older than that.
            let looked = Duration::from_nanos(now_ns.saturating_sub(watching.looked_ns));
            let age_ms = i64::try_from(looked.as_millis()).unwrap_or(i64::MAX);
            let pulse_ms = trace.pulse_ms;
            let apart_ms = now_ms.saturating_sub(pulse_ms);
            let within = |ms: i64| u128::from(ms.unsigned_abs()) <= Terms::SKEW_LIMIT.as_millis();
            if within(apart_ms) {
                self.watching = None;
                return Verdict::Trust;
            }
            *watching = Watching { pulse_ms, looked_ns: now_ns, until_ns, ..*watching };
            let ahead_ms = apart_ms - apart_ms.clamp(0, age_ms);
            if within(ahead_ms) {
                // It may have moved right after the last look, or just now: the next look tells.
                return Verdict::Watch { silent: watching.silent, left: watch };
            }
            watching.ahead_ms = Some(ahead_ms);
            return Verdict::Skew { ahead_ms };
        }
        watching.looked_ns = now_ns;
        if trace.floor_ms > now_ms {
            // Somebody else has put it into quarantine meanwhile.
            self.watching = None;
            return Verdict::Trust;
        }
        let silent = watching.silent;
        let left_ns = watching.until_ns.saturating_sub(now_ns);
        match watching.ahead_ms {
            // A clock that was shown to be wrong sets no floor.
            Some(ahead_ms) => Verdict::Skew { ahead_ms },
            None if left_ns == 0 => Verdict::Quarantine { silent },
            None => Verdict::Watch { silent, left: Duration::from_nanos(left_ns) },
        }
    }

    /// The store is in quarantine now: what it may have forgotten is waited for.
    pub fn quarantined(&mut self) {
        self.watching = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_800_000_000_000;
    const S: u64 = 1_000_000_000;

    fn guard(guard: RollbackGuard) -> PulseGuard {
        PulseGuard::new(guard, Terms::DEFAULT)
    }

    /// A store that was never quarantined.
    fn pulse(pulse_ms: i64) -> Trace {
        Trace { pulse_ms, floor_ms: 0 }
    }

    #[test]
    fn a_pulse_of_two_renewals_or_of_none_at_all_is_trusted() {
        let mut guard = guard(RollbackGuard::Enforce);
        for pulse_ms in [0, NOW_MS, NOW_MS - 40_000, NOW_MS + 2_000] {
            assert_eq!(guard.connected(pulse(pulse_ms), NOW_MS, 0), Verdict::Trust, "{pulse_ms}");
        }
        assert!(!guard.is_watching());
    }

    #[test]
    fn a_silent_pulse_is_watched_and_a_renewal_vouches() {
        let mut guard = guard(RollbackGuard::Enforce);
        let silent = Duration::from_millis(40_001);
        let pulse_ms = NOW_MS - 40_001;
        let left = Duration::from_secs(26);
        assert_eq!(guard.connected(pulse(pulse_ms), NOW_MS, S), Verdict::Watch { silent, left });
        let left = Duration::from_secs(17);
        assert_eq!(
            guard.look(pulse(pulse_ms), NOW_MS + 9_000, 10 * S),
            Verdict::Watch { silent, left }
        );
        assert_eq!(guard.look(pulse(NOW_MS + 9_000), NOW_MS + 10_000, 11 * S), Verdict::Trust);
        assert_eq!(guard.look(pulse(pulse_ms), NOW_MS + 99_000, 99 * S), Verdict::Trust);
    }

    #[test]
    fn if_nobody_vouches_it_is_quarantined_however_often_the_connection_breaks() {
        let mut guard = guard(RollbackGuard::Enforce);
        let silent = Duration::from_hours(9);
        let pulse_ms = NOW_MS - 9 * 3_600_000;
        guard.connected(pulse(pulse_ms), NOW_MS, S);
        let again = guard.connected(pulse(pulse_ms), NOW_MS + 5_000, 6 * S);
        assert_eq!(again, Verdict::Watch { silent, left: Duration::from_secs(21) });
        assert_eq!(guard.look(pulse(pulse_ms), NOW_MS, 27 * S), Verdict::Quarantine { silent });
        // Until it is done.
        assert_eq!(guard.look(pulse(pulse_ms), NOW_MS, 28 * S), Verdict::Quarantine { silent });
        guard.quarantined();
        assert_eq!(guard.look(pulse(pulse_ms), NOW_MS, 29 * S), Verdict::Trust);
    }

    #[test]
    fn a_pulse_from_the_future_is_no_pulse() {
        let mut guard = guard(RollbackGuard::Enforce);
        let verdict = guard.connected(pulse(NOW_MS + 2_001), NOW_MS, 0);
        assert!(matches!(verdict, Verdict::Watch { .. }), "{verdict:?}");
    }

    /// Three hours off: while the fleet is alive, its pulse tells whose clock is wrong.
    #[test]
    fn a_clock_that_is_far_off_a_moving_pulse_is_the_one_that_is_wrong() {
        for off_ms in [10_800_000, -10_800_000] {
            let mut guard = guard(RollbackGuard::Enforce);
            let ours = |ms: i64| NOW_MS + ms + off_ms;
            let first = guard.connected(pulse(NOW_MS - 500), ours(0), 0);
            assert!(matches!(first, Verdict::Watch { .. }), "{first:?}");
            for s in 1..=30 {
                let verdict = guard.look(
                    pulse(NOW_MS + s * 1_000 - 300),
                    ours(s * 1_000),
                    s.unsigned_abs() * S,
                );
                let Verdict::Skew { ahead_ms } = verdict else { panic!("{verdict:?}") };
                assert!((ahead_ms - off_ms).abs() <= 1_000, "{ahead_ms}");
            }
            // The clock was set.
            assert_eq!(guard.look(pulse(NOW_MS + 31_000), NOW_MS + 31_500, 31 * S), Verdict::Trust);
        }
    }

    /// Else a store would never be in service again while processes keep being started.
    #[test]
    fn a_quarantine_is_not_begun_anew_by_those_who_come_during_or_right_after_it() {
        let store = Trace { pulse_ms: NOW_MS - 3_600_000, floor_ms: NOW_MS + 64_000 };
        for (now_ms, trusted) in [(0, true), (63_999, true), (104_000, true), (104_001, false)] {
            let verdict = guard(RollbackGuard::Enforce).connected(store, NOW_MS + now_ms, S);
            assert_eq!(verdict == Verdict::Trust, trusted, "{now_ms}: {verdict:?}");
        }
        // One who was watching learns of it.
        let mut guard = guard(RollbackGuard::Enforce);
        guard.connected(pulse(NOW_MS - 3_600_000), NOW_MS, S);
        assert_eq!(guard.look(store, NOW_MS + 1_000, 2 * S), Verdict::Trust);
    }

    /// The only holder renews every 20 s; a starter whose clock is ahead sees hours of silence.
    #[test]
    fn a_clock_that_is_wrong_never_sets_a_floor() {
        let mut guard = guard(RollbackGuard::Enforce);
        let ours = |s: i64| NOW_MS + 10_800_000 + s * 1_000;
        guard.connected(pulse(NOW_MS - 1_000), ours(0), 0);
        for s in 1..=200_i64 {
            // The pulse moves at 19 s, and never again.
            let at = if s < 19 { NOW_MS - 1_000 } else { NOW_MS + 19_000 };
            let verdict = guard.look(pulse(at), ours(s), s.unsigned_abs() * S);
            assert_eq!(matches!(verdict, Verdict::Skew { .. }), s >= 19, "{s}: {verdict:?}");
        }
        // Asks an hour apart tell nothing of a clock that is half an hour ahead.
        let mut guard = self::guard(RollbackGuard::Enforce);
        guard.connected(pulse(NOW_MS), NOW_MS + 1_800_000, 0);
        let verdict = guard.look(pulse(NOW_MS + 3_600_000), NOW_MS + 5_400_000, 3_600 * S);
        assert!(matches!(verdict, Verdict::Watch { .. }), "{verdict:?}");
    }

    #[test]
    fn a_warning_lets_the_store_go_on() {
        let mut guard = guard(RollbackGuard::Warn);
        let silent = Duration::from_mins(1);
        assert_eq!(guard.connected(pulse(NOW_MS - 60_000), NOW_MS, 0), Verdict::Warn { silent });
        assert!(!guard.is_watching());
        assert_eq!("warn".parse(), Ok(RollbackGuard::Warn));
        assert!("off".parse::<RollbackGuard>().is_err());
    }
}
