//! The cold check: see [`PulseGuard`]. It is made for each new connection, before a grant.

use std::sync::Mutex;

use snowlease_lease::guard::{Trace, Verdict};
use snowlease_lease::{AcquireError, Outage, PulseGuard, RollbackGuard, Terms, os};

use crate::core::{Core, lock};
use crate::net::{Deadline, Trouble};
use crate::proto::{RangeRequest, TxnRequest};
use crate::record::Pulse;
use crate::txn;

/// A member may lag behind the one that was asked last by so many entries that are no revisions.
const MOST_LAG: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct Guard(Mutex<Judging>);

#[derive(Debug)]
struct Judging {
    pulse: PulseGuard,
    /// How many connections there were when the pulse was judged last.
    connections: u64,
}

impl Guard {
    pub(crate) fn new(guard: RollbackGuard, terms: Terms) -> Guard {
        Guard(Mutex::new(Judging { pulse: PulseGuard::new(guard, terms), connections: 0 }))
    }

    /// What may have been forgotten is waited for: the pulse need not tell of it.
    pub(crate) fn quarantined(&self) {
        lock(&self.0).pulse.quarantined();
    }
}

impl Core {
    /// Answers the newest connection that may be used for a grant.
    ///
    /// # Errors
    ///
    /// The store may be an older copy of itself: it is watched, or cannot be reached.
    pub(crate) fn trusted(&self, deadline: Deadline) -> Result<u64, AcquireError> {
        self.settle().map_err(unsent)?;
        let connections = self.client.connected(deadline).map_err(unsent)?;
        let judge = {
            let judging = lock(&self.guard.0);
            judging.connections != connections || judging.pulse.is_watching()
        };
        if judge {
            // The floor that is in force now counts.
            self.read_meta(deadline)?;
            let status = self.status_of_member(deadline)?;
            let pulse = self.read_pulse(self.lead(status.as_ref()), deadline)?;
            self.judge(connections, pulse)?;
        }
        Ok(connections)
    }

    /// Judges the pulse that was read on this connection, or later.
    pub(crate) fn judge(&self, connections: u64, pulse: Pulse) -> Result<(), AcquireError> {
        let meta = &self.known().record.meta;
        let trace = Trace { pulse_ms: pulse.ms, floor_ms: meta.format.unix_ms(meta.floor) };
        let verdict = {
            let mut judging = lock(&self.guard.0);
            let now_ns = os::boot_ns();
            if judging.connections < connections {
                judging.connections = connections;
                judging.pulse.connected(trace, (self.now)(), now_ns)
            } else {
                judging.pulse.look(trace, (self.now)(), now_ns)
            }
        };
        match verdict {
            Verdict::Trust => {}
            Verdict::Warn { silent } => self.alarm(format!(
                "nobody had used the store for {} s: if it was restored from a backup, tell it \
                 with `snowlease store quarantine`",
                silent.as_secs()
            )),
            Verdict::Watch { silent, left } => {
                return Err(Outage::unavailable(format!(
                    "nobody has used the store for {} s, so it may have been restored from a \
                     backup: it is watched for {} ms more for a renewal that tells otherwise",
                    silent.as_secs(),
                    left.as_millis()
                ))
                .into());
            }
            // By the clocks of those who wrote the pulse, which are no reference for a holder.
            Verdict::Skew { ahead_ms } => {
                return Err(AcquireError::ClockUntrusted {
                    reason: format!(
                        "it is {} ms {} those who use the store: set it right",
                        ahead_ms.unsigned_abs(),
                        if ahead_ms < 0 { "behind" } else { "ahead of" }
                    ),
                });
            }
            Verdict::Quarantine { silent } => {
                self.wait_for_the_forgotten(|| self.deadline()).map_err(unsent)?;
                self.alarm(format!(
                    "nobody had used the store for {} s, and nobody renewed while it was watched: \
                     it was put into quarantine, since it may have been restored from a backup",
                    silent.as_secs()
                ));
            }
        }
        Ok(())
    }

    /// The pulse; a term or a lead of the cluster that is below the one in it shows an older copy.
    pub(crate) fn read_pulse(
        &self,
        lead: Option<i64>,
        deadline: Deadline,
    ) -> Result<Pulse, Outage> {
        let request = RangeRequest { key: self.keys.pulse(), ..RangeRequest::default() };
        let answer = self.client.range(&request, deadline).map_err(unsent)?;
        let Some(kv) = answer.kvs.first() else { return Ok(Pulse::default()) };
        let pulse = Pulse::decode(&kv.value).ok_or_else(|| self.damaged("its pulse"))?;
        self.heard(pulse);
        let term = answer.header.map_or(u64::MAX, |header| header.raft_term);
        // A member that was caught up by a snapshot may tell an old term until its next entry, so
        // only one that has taken an entry is believed.
        let term = if term < pulse.term { self.term(deadline)? } else { term };
        let fell = lead.zip(pulse.lead).filter(|(lead, known)| known - lead > MOST_LAG);
        if term < pulse.term || fell.is_some() {
            self.distrust(&match fell {
                Some((lead, known)) => format!(
                    "etcd's log is {} entries shorter than its revision tells, so it was restored \
                     from a snapshot",
                    known - lead
                ),
                None => format!("etcd's raft went back from term {} to {term}", pulse.term),
            });
            self.settle()?;
            // Said once; the time stays, since this vouches for nothing.
            let request = TxnRequest {
                compare: vec![txn::value_is(self.keys.pulse(), &kv.value)],
                success: vec![txn::put(self.keys.pulse(), Pulse { term, lead, ..pulse }.encode())],
                failure: Vec::new(),
            };
            self.write(&request, deadline, u64::MAX)?;
        }
        Ok(pulse)
    }
}

fn unsent(trouble: Trouble) -> Outage {
    Outage::unavailable(trouble.detail)
}
