//! What a machine commands, done: on the store, the generator and the id clock. And what these
//! show that the machine should know.
//!
//! No thread and no waiting: the keeper's thread has a pair of these, and so have tests, so that
//! what is tested by plain calls is what runs.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use snowlease_core::{Clock, Closed, Gauge, Generator, Window};

use crate::id_clock::Reading;
use crate::machine::{Command, Event, SAME_NS, Stepped};
use crate::{Acquire, AcquireError, Grant, IdClock, LeaseStore, Outage, RenewError, Renewal};

/// Acts for a machine.
#[derive(Debug)]
pub(crate) struct Hands {
    store: Arc<dyn LeaseStore>,
    pub(crate) generator: Arc<Generator>,
    pub(crate) clock: Arc<IdClock>,
    /// What the machine knows of a step.
    told: Option<Stepped>,
    /// The id clock went back while no lease was open: order begins anew with the next one.
    turned_back: bool,
    gauge: Gauge,
    /// The marker of a restored machine when it was last looked at.
    marker: Option<u64>,
}

impl Hands {
    pub(crate) fn new(
        store: Arc<dyn LeaseStore>,
        generator: Arc<Generator>,
        clock: Arc<IdClock>,
    ) -> Hands {
        let (gauge, marker) = (clock.gauge(), clock.read_marker());
        Hands { store, generator, clock, told: None, turned_back: false, gauge, marker }
    }

    /// What the clocks of the host, and the machine that it runs on, show and the machine of the
    /// holder does not know.
    pub(crate) fn look(&mut self) -> Option<Event> {
        let gauge = self.clock.gauge();
        if mem::replace(&mut self.gauge, gauge) != gauge {
            self.generator.refresh_gauge();
        }
        if let Some(restored) = self.restored() {
            return Some(restored);
        }
        let step = self.clock.step();
        let stepped = step.map(|step| Stepped { by_ns: step.by_ns, verdict: step.verdict });
        if is_news(self.told, stepped) {
            self.told = stepped;
            return Some(Event::Clock(stepped));
        }
        None
    }

    /// Whether the machine was restored since it was looked at last.
    pub(crate) fn restored(&mut self) -> Option<Event> {
        let marker = self.clock.read_marker();
        if mem::replace(&mut self.marker, marker) == marker {
            return None;
        }
        // The machine forgets all that it was told.
        self.told = None;
        Some(Event::Restored { seed: random() })
    }

    /// Does what the machine says; with what there is to tell it of that.
    pub(crate) fn execute(&mut self, command: Command) -> Option<Event> {
        match command {
            Command::Acquire(ask) => {
                self.generator.note_marker();
                let sent_ns = self.clock.boot_ns();
                let answer = self.guarded(|store| store.acquire(&ask));
                self.hear(sent_ns, told_by_acquire(&ask, &answer));
                Some(Event::Acquired(answer))
            }
            Command::Renew(ask) => {
                let sent_ns = self.clock.boot_ns();
                let answer = self.guarded(|store| store.renew(&ask));
                self.hear(sent_ns, told_by_renewal(&answer));
                Some(Event::Renewed(answer))
            }
            // It may be another copy that goes on with it.
            Command::Release(_) if self.clock.read_marker() != self.marker => {
                Some(Event::Released(Ok(())))
            }
            Command::Release(ask) => {
                Some(Event::Released(self.guarded(|store| store.release(&ask))))
            }
            Command::Open { window, deadline_ns, follow_ns } => {
                // Another copy may have been given the same answer.
                if let Some(restored) = self.restored() {
                    return Some(restored);
                }
                self.open(window, deadline_ns, follow_ns).map(Event::Closed)
            }
            Command::Extend { until, deadline_ns } => {
                self.generator.extend(until, deadline_ns);
                None
            }
            Command::Follow { by_ns } => {
                self.follow(by_ns);
                self.turned_back |= by_ns < 0;
                Some(Event::Wake)
            }
            Command::Close => self.generator.close().map(Event::Closed),
        }
    }

    /// What stands apart afterwards is news, even if it looks like what was told before.
    fn follow(&mut self, by_ns: i64) {
        self.clock.follow(by_ns);
        self.told = None;
    }

    fn open(&mut self, window: Window, deadline_ns: u64, follow_ns: i64) -> Option<Closed> {
        let turned_back = mem::take(&mut self.turned_back);
        // The machine made the window for this format, so it fits.
        let opened = if follow_ns != 0 {
            let generator = Arc::clone(&self.generator);
            generator.open_reseeded(window, deadline_ns, || self.follow(follow_ns))
        } else if turned_back {
            self.generator.open_reseeded(window, deadline_ns, || ())
        } else {
            self.generator.open(window, deadline_ns)
        };
        opened.ok().flatten()
    }

    /// A driver that panics costs a call, not the thread.
    fn guarded<T, E: From<Outage>>(
        &self,
        call: impl FnOnce(&dyn LeaseStore) -> Result<T, E>,
    ) -> Result<T, E> {
        let answer = catch_unwind(AssertUnwindSafe(|| call(&*self.store)));
        answer.unwrap_or_else(|_| {
            let crashed = "the store's driver panicked: this is a bug, please report it";
            Err(Outage::unknown(crashed).into())
        })
    }

    /// Has the clock take note of an answer; that may be what a verdict waits for.
    fn hear(&self, sent_ns: u64, told: Option<Option<i64>>) {
        let Some(reference_ms) = told else { return };
        let answered_ns = self.clock.boot_ns();
        self.clock.hear(reference_ms.map(|ms| Reading::of_call(ms, sent_ns, answered_ns)));
    }
}

/// The reference clock in an answer, if the store answered at all, and if it has one.
fn told_by_acquire(ask: &Acquire, answer: &Result<Grant, AcquireError>) -> Option<Option<i64>> {
    match answer {
        Ok(grant) => Some(grant.reference_ms),
        Err(AcquireError::Skew { ahead_ms }) => Some(Some(ask.now_ms.saturating_sub(*ahead_ms))),
        // Not asked, or not answered.
        Err(AcquireError::ClockUntrusted { .. } | AcquireError::Outage(_)) => None,
        Err(_) => Some(None),
    }
}

fn told_by_renewal(answer: &Result<Renewal, RenewError>) -> Option<Option<i64>> {
    match answer {
        Ok(renewal) => Some(renewal.reference_ms),
        Err(RenewError::Outage(_)) => None,
        Err(_) => Some(None),
    }
}

fn is_news(told: Option<Stepped>, now: Option<Stepped>) -> bool {
    match (told, now) {
        (Some(told), Some(now)) => {
            told.verdict != now.verdict || told.by_ns.abs_diff(now.by_ns) > SAME_NS
        }
        (told, now) => told != now,
    }
}

/// Fresh from the system, which has other randomness in each copy of a machine. Without it only the
/// spread of renewals is lost.
pub(crate) fn random() -> u64 {
    let mut seed = [0; 8];
    let _ = getrandom::fill(&mut seed);
    u64::from_le_bytes(seed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id_clock::Verdict;

    #[test]
    fn a_step_is_told_anew_when_it_or_its_verdict_has_changed() {
        let stepped = |by_ns, verdict| Some(Stepped { by_ns, verdict });
        let told = stepped(1_000_000_000, Verdict::Asking);
        assert!(is_news(None, told) && is_news(told, None) && !is_news(None, None));
        assert!(!is_news(told, stepped(1_090_000_000, Verdict::Asking)));
        assert!(is_news(told, stepped(1_110_000_000, Verdict::Asking)));
        assert!(is_news(told, stepped(1_000_000_000, Verdict::Confirmed)));
    }
}
