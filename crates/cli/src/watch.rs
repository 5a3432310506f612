//! Tells on stderr when a service loses its lease or its store, and when it has them again; and
//! what is amiss with its clock.
//!
//! The trouble itself is in words of the store, or of the clock. Their numbers and times change at
//! each look, so only the words count as another trouble, and what goes on is not told again.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use snowlease_core::Window;
use snowlease_lease::{Keeper, State, Status, os};
use snowlease_wire::time::beside_ticks;

use crate::output::note;

/// How long it sleeps while nobody wakes it. What the keeper does and what becomes of the clock
/// wakes it at once.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// How long it waits after it was woken for nothing of the keeper's.
const PAUSE: Duration = Duration::from_millis(50);

/// A service that comes and goes says so this often at most, unless it begins or ends to serve.
const QUIET_NS: u64 = 10_000_000_000;

/// What was seen of a keeper at a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    state: State,
    /// Whether ids can be issued.
    serving: bool,
    generator_id: Option<u64>,
    trouble: Option<String>,
    remaining: Duration,
    /// How many leases were lost so far: one that is replaced at once is not seen to be gone.
    lost: u64,
    /// What is amiss with the clock.
    alarm: Option<String>,
    edition: u64,
}

impl Seen {
    pub(crate) fn of(keeper: &Keeper) -> Seen {
        let status = keeper.status();
        let alarm = status.clock.alarm();
        let Status { state, window, remaining, trouble, outcomes, edition, .. } = status;
        let format = keeper.generator().format();
        Seen {
            state,
            // Without a window, one is being opened or closed at this moment.
            serving: matches!(state, State::Held | State::Draining)
                && (window.is_none() || !remaining.is_zero()),
            generator_id: window.map(Window::generator_id),
            trouble: trouble.map(|trouble| beside_ticks(&trouble, format)),
            remaining,
            lost: outcomes.lost,
            alarm,
            edition,
        }
    }

    fn trouble(&self) -> &str {
        self.trouble.as_deref().unwrap_or("the store has not answered in time")
    }

    /// The trouble without its numbers.
    fn kind(&self) -> Option<String> {
        self.trouble.as_deref().map(words)
    }
}

/// All of a text but its numbers.
fn words(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The line that the step from one look to the next is worth, if any.
pub(crate) fn tell(before: &Seen, now: &Seen) -> Option<String> {
    let id = now.generator_id.map(|id| format!(" under generator id {id}")).unwrap_or_default();
    match (before.serving, now.serving) {
        (true, false) => Some(format!("lease lost: {}", now.trouble())),
        (false, true) if before.state == State::Acquiring => Some(format!("serving{id}")),
        (false, true) => Some(format!("serving again{id}")),
        (false, false) if before.kind() == now.kind() => None,
        (false, false) => Some(format!("no lease: {}", now.trouble())),
        (true, true) if before.lost != now.lost => {
            Some(format!("lease lost, and another one had: serving again{id}"))
        }
        (true, true) if both_differ(before.generator_id, now.generator_id) => {
            Some(format!("serving now{id}"))
        }
        (true, true) if before.kind() == now.kind() => None,
        (true, true) if now.trouble.is_none() => Some("the store answers again".to_owned()),
        (true, true) => {
            let (trouble, left_s) = (now.trouble(), now.remaining.as_secs());
            Some(format!("the store does not answer: {trouble}; ids go on for {left_s} s"))
        }
    }
}

fn both_differ(before: Option<u64>, now: Option<u64>) -> bool {
    before.is_some() && now.is_some() && before != now
}

/// What was told last, so that a service that comes and goes does not flood its log.
#[derive(Debug)]
struct Teller {
    told: Seen,
    told_ns: Option<u64>,
    clock: ClockTeller,
}

impl Teller {
    /// Goes on from what has been told.
    fn after(told: Seen) -> Teller {
        Teller { told, told_ns: None, clock: ClockTeller::default() }
    }

    /// The lines for what is seen now. What is kept back counts as not seen, and is told later if
    /// it still holds then.
    fn look(&mut self, now: Seen, now_ns: u64) -> Vec<String> {
        let clock = self.clock.look(now.alarm.as_deref(), now_ns);
        let line = tell(&self.told, &now);
        let quiet_ns = self.told_ns.map_or(u64::MAX, |told_ns| now_ns.saturating_sub(told_ns));
        if line.is_some() {
            if self.told.serving == now.serving && quiet_ns < QUIET_NS {
                return clock.into_iter().collect();
            }
            self.told_ns = Some(now_ns);
        }
        self.told = now;
        line.into_iter().chain(clock).collect()
    }
}

/// What was told of the clock. One that is set is told in three lines: that it was set, what the
/// store says of it, and that ids have followed.
#[derive(Debug, Default)]
struct ClockTeller {
    told: Option<String>,
    since_ns: u64,
    lines: u32,
}

impl ClockTeller {
    /// As many lines in one time of quiet.
    const LINES: u32 = 3;

    fn look(&mut self, alarm: Option<&str>, now_ns: u64) -> Option<String> {
        let now = alarm.map(words);
        if now == self.told {
            return None;
        }
        if now_ns.saturating_sub(self.since_ns) >= QUIET_NS {
            (self.since_ns, self.lines) = (now_ns, 0);
        }
        if self.lines == ClockTeller::LINES {
            return None;
        }
        self.lines += 1;
        self.told = now;
        Some(alarm.unwrap_or("the clock of this host is right again, and ids go by it").to_owned())
    }
}

/// Tells from `told` on, until the other end of `stop` is dropped.
pub(crate) fn watch(keeper: &Keeper, told: Seen, stop: &Receiver<()>) {
    let mut edition = told.edition;
    let mut teller = Teller::after(told);
    // What is amiss already is no change that anybody would be woken for.
    teller.look(Seen::of(keeper), os::boot_ns()).iter().for_each(note);
    loop {
        keeper.wait_changed(edition, LONGEST_SLEEP);
        let now = Seen::of(keeper);
        // One whose thread has died has no news, and lets nobody wait for any.
        let pause = if now.edition == edition { PAUSE } else { Duration::ZERO };
        if now.state == State::Idle || stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        edition = now.edition;
        teller.look(now, os::boot_ns()).iter().for_each(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: State, trouble: &str) -> Seen {
        let serving = matches!(state, State::Held | State::Draining);
        Seen {
            state,
            serving,
            generator_id: serving.then_some(7),
            trouble: Some(trouble.to_owned()).filter(|trouble| !trouble.is_empty()),
            remaining: Duration::from_secs(40),
            lost: 0,
            alarm: None,
            edition: 0,
        }
    }

    #[test]
    fn each_change_is_one_line_and_what_goes_on_is_none() {
        use State::{Acquiring, Draining, Held, Lost};
        for (before, now, line) in [
            (seen(Acquiring, ""), seen(Held, ""), "serving under generator id 7"),
            (
                seen(Acquiring, ""),
                seen(Acquiring, "all 4 are in use"),
                "no lease: all 4 are in use",
            ),
            (seen(Acquiring, "all 4 are in use"), seen(Acquiring, "all 5 are in use"), ""),
            (seen(Held, ""), seen(Held, ""), ""),
            (seen(Held, ""), seen(Draining, ""), ""),
            (
                seen(Held, ""),
                seen(Held, "the disk is full"),
                "the store does not answer: the disk is full; ids go on for 40 s",
            ),
            (seen(Held, "gone for 1 s"), seen(Held, "gone for 2 s"), ""),
            (seen(Held, "gone for 1 s"), seen(Held, ""), "the store answers again"),
            (seen(Held, "gone"), seen(Lost, "gone"), "lease lost: gone"),
            (seen(Held, ""), seen(Lost, ""), "lease lost: the store has not answered in time"),
            (seen(Lost, "gone"), seen(Lost, "gone"), ""),
            (seen(Lost, "gone"), seen(Lost, "frozen"), "no lease: frozen"),
            (seen(Lost, "gone"), seen(Held, ""), "serving again under generator id 7"),
        ] {
            assert_eq!(tell(&before, &now).unwrap_or_default(), line, "{before:?} {now:?}");
        }
        let other = Seen { generator_id: Some(8), ..seen(Held, "") };
        let line = tell(&seen(Draining, ""), &other);
        assert_eq!(line.as_deref(), Some("serving now under generator id 8"));
        let line = tell(&seen(Held, ""), &Seen { lost: 1, ..seen(Held, "") });
        let told = "lease lost, and another one had: serving again under generator id 7";
        assert_eq!(line.as_deref(), Some(told));
    }

    #[test]
    fn a_store_that_comes_and_goes_does_not_flood_the_log() {
        let mut teller = Teller::after(seen(State::Held, ""));
        let mut lines = Vec::new();
        for half_s in 0..80 {
            let trouble = if half_s % 2 == 0 { "gone" } else { "" };
            lines.extend(teller.look(seen(State::Held, trouble), half_s * 500_000_000));
        }
        assert!((2..=5).contains(&lines.len()), "{lines:?}");
        // The end of serving is told whatever was told just before.
        let lost = teller.look(seen(State::Lost, "gone"), 40_000_000_000);
        assert_eq!(lost, ["lease lost: gone"]);
    }

    #[test]
    fn what_was_kept_back_is_told_if_it_still_holds() {
        let mut teller = Teller::after(seen(State::Held, ""));
        let s = 1_000_000_000;
        assert_eq!(teller.look(seen(State::Held, "gone"), s).len(), 1);
        assert!(teller.look(seen(State::Held, ""), 2 * s).is_empty());
        let lines = teller.look(seen(State::Held, ""), 12 * s);
        assert_eq!(lines, ["the store answers again"]);
    }

    #[test]
    fn what_becomes_of_a_clock_that_was_set_is_told_once_each() {
        let mut teller = Teller::after(seen(State::Held, ""));
        let s = 1_000_000_000;
        let mut look = |alarm: &str, now_ns| {
            let alarm = Some(alarm.to_owned()).filter(|alarm| !alarm.is_empty());
            teller.look(Seen { alarm, ..seen(State::Held, "") }, now_ns)
        };
        assert!(look("", s).is_empty());
        assert_eq!(look("700 ms ahead: asking", 20 * s), ["700 ms ahead: asking"]);
        assert!(look("701 ms ahead: asking", 20 * s + 1).is_empty());
        assert_eq!(look("701 ms ahead: right", 21 * s).len(), 1);
        assert_eq!(look("", 22 * s), ["the clock of this host is right again, and ids go by it"]);
        // One that is set again and again.
        let lines: usize = (0..400)
            .map(|n| look(["900 ms ahead", ""][n % 2], 30 * s + n as u64 * s / 10).len())
            .sum();
        assert!((6..=16).contains(&lines), "{lines}");
        assert_eq!(look("the end", 90 * s).len(), 1);
    }
}
