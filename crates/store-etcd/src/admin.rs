//! What an operator does, and what the store does to itself: changes of its meta.

use std::sync::Arc;

use snowlease_core::Tick;
use snowlease_lease::{Outage, rules};

use crate::core::Core;
use crate::net::{Deadline, Kind, Trouble};
use crate::proto::TxnRequest;
use crate::record::{Known, Record};
use crate::txn;

impl Core {
    /// Changes what is stored of the store itself, from what is stored now; `None` leaves it.
    pub(crate) fn change_meta(
        &self,
        deadline: Deadline,
        change: impl Fn(&Record) -> Option<Record>,
    ) -> Result<(), Outage> {
        let mut known = self.refresh(deadline)?;
        loop {
            let Some(record) = change(&known.record) else { return Ok(()) };
            let new = record.known();
            let request = self.swap(&known, &new);
            let written = self.write(&request, deadline, u64::MAX)?;
            if written.answer.succeeded {
                return self.learned(new);
            }
            known = self.learn(txn::found(written.answer.responses.first()))?;
        }
    }

    /// Raises the floor to at least what `at_least` makes of what is stored, and to every `until`,
    /// and answers it.
    ///
    /// The floor is put first, and the cells are read as they stood then. What was granted or
    /// renewed before the put, and not seen before, raises it once more; after the put nothing
    /// passes that is below it. So this ends, and is one step at the revision of the last put.
    pub(crate) fn raise_floor(
        &self,
        at_least: impl Fn(&Known) -> Result<Tick, Outage>,
        deadline: impl Fn() -> Deadline,
    ) -> Result<Tick, Trouble> {
        let mut known = self.known();
        let (mut largest, longest) = self.most();
        loop {
            let mut record = known.record.clone();
            record.meta.longest_window = record.meta.longest_window.max(longest);
            record.cluster_id = match self.client.newest().cluster_id {
                0 => record.cluster_id,
                id => id,
            };
            let wanted = at_least(&record.clone().known()).map_err(as_trouble)?;
            record.meta.floor = rules::quarantine(&record.meta, wanted, largest);
            let new = record.known();
            // Not by way of `write`, which waits for this.
            let written = self.client.write(&self.swap(&known, &new), deadline(), u64::MAX)?;
            if let Some(why) = &written.went_back {
                self.distrust(why);
            }
            let answer = written.answer;
            if !answer.succeeded {
                known = self.learn(txn::found(answer.responses.first())).map_err(as_trouble)?;
                continue;
            }
            let floor = new.record.meta.floor;
            known = Arc::new(new.clone());
            self.learned(new).map_err(as_trouble)?;
            let revision = answer.header.map_or(0, |header| header.revision);
            match self.largest(revision, &deadline) {
                Ok(until) if until <= floor => return Ok(floor),
                Ok(until) => largest = until,
                // It took so long that it has to begin anew.
                Err(trouble) if trouble.kind == Kind::Compacted => {}
                Err(trouble) => return Err(trouble),
            }
        }
    }

    /// The quarantine of a store that may have forgotten windows.
    pub(crate) fn wait_for_the_forgotten(
        &self,
        deadline: impl Fn() -> Deadline,
    ) -> Result<Tick, Trouble> {
        let floor = self.raise_floor(|known| self.past_every_window(known), deadline)?;
        self.guard.quarantined();
        Ok(floor)
    }

    fn swap(&self, old: &Known, new: &Known) -> TxnRequest {
        TxnRequest {
            compare: vec![txn::value_is(self.keys.meta(), &old.bytes)],
            success: vec![self.put_meta(new)],
            failure: vec![txn::get(self.keys.meta())],
        }
    }

    /// Takes over what was put.
    pub(crate) fn learned(&self, known: Known) -> Result<(), Outage> {
        let kv = crate::proto::KeyValue { value: known.bytes, ..Default::default() };
        self.learn(Some(&kv)).map(drop)
    }
}

pub(crate) fn as_trouble(outage: Outage) -> Trouble {
    Trouble::new(Kind::Final, outage.unknown, outage.detail)
}
