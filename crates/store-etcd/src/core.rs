//! What the operations share: the connection, what is known of the store, and the rule that an
//! older copy of it is put into quarantine before anything else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use snowlease_core::Tick;
use snowlease_lease::{Cell, Outage, RollbackGuard, Terms, rules};

use crate::Clock;
use crate::guard::Guard;
use crate::keys::Keys;
use crate::net::{Client, Deadline, Kind, Trouble, Written};
use crate::proto::{
    KeyValue, RangeRequest, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
};
use crate::record::{Known, NoRecord, Pulse, Record, SCHEMA};
use crate::txn;

/// The pulse is put with a grant or renewal, but no more often than this: what is looked for is a
/// silence of two renewals.
const PULSE_EVERY_MS: u64 = 1_000;

/// The most cells that are remembered: a holder has one, a service all that it renews.
const MOST_VIEWS: usize = 1 << 17;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) client: Client,
    pub(crate) keys: Keys,
    pub(crate) attempt: Duration,
    pub(crate) now: Clock,
    pub(crate) guard: Guard,
    known: Mutex<Arc<Known>>,
    /// The highest floor and the longest window that were ever seen here.
    most: Mutex<(Tick, u64)>,
    views: Mutex<HashMap<u64, View>>,
    pulse_ms: Mutex<Option<i64>>,
    /// The latest pulse that was ever read here, in Unix ms: no clock of ours that is behind it is
    /// right.
    heard_ms: Mutex<i64>,
    /// See [`Core::lead`], as of the last connection.
    lead: Mutex<Option<i64>>,
    /// When the cluster gave a good answer last, by our clock.
    answered_ms: Mutex<i64>,
    /// The cluster that gave it.
    answered_by: Mutex<u64>,
    /// Why the store has to be quarantined before anything else is done.
    distrust: Mutex<Option<String>>,
    /// Held by the one who does so.
    settling: Mutex<()>,
    alarms: Mutex<Vec<String>>,
}

/// A cell as it was seen last: its bytes in the store and etcd's version of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) bytes: Vec<u8>,
    pub(crate) version: i64,
}

impl View {
    pub(crate) fn of(kv: &KeyValue) -> View {
        View { bytes: kv.value.clone(), version: kv.version }
    }

    pub(crate) fn cell(&self) -> Result<Cell, Outage> {
        let seq = seq_of(self.version);
        Ok(Cell { seq, ..Cell::decode(&self.bytes)? })
    }
}

/// A cell's number of changes: it was made by the first put.
pub(crate) fn seq_of(version: i64) -> u64 {
    u64::try_from(version.saturating_sub(1)).unwrap_or(0)
}

/// The bytes of a cell in this store: etcd counts its changes.
pub(crate) fn stored(cell: &Cell) -> Vec<u8> {
    Cell { seq: 0, ..cell.clone() }.encode()
}

impl Core {
    pub(crate) fn new(
        client: Client,
        keys: Keys,
        known: Known,
        (attempt, now): (Duration, Clock),
        (guard, terms): (RollbackGuard, Terms),
    ) -> Core {
        let cluster_id = client.newest().cluster_id;
        Core {
            client,
            keys,
            attempt,
            now,
            guard: Guard::new(guard, terms),
            most: Mutex::new((known.record.meta.floor, known.record.meta.longest_window)),
            known: Mutex::new(Arc::new(known)),
            views: Mutex::default(),
            pulse_ms: Mutex::default(),
            heard_ms: Mutex::default(),
            lead: Mutex::default(),
            answered_ms: Mutex::default(),
            answered_by: Mutex::new(cluster_id),
            distrust: Mutex::default(),
            settling: Mutex::default(),
            alarms: Mutex::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::within(self.attempt)
    }

    /// What the store is for, as far as is known: every transaction compares it.
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&lock(&self.known))
    }

    /// Takes over what a transaction read of the store's meta.
    pub(crate) fn learn(&self, found: Option<&KeyValue>) -> Result<Arc<Known>, Outage> {
        let known = Arc::new(decode(&self.keys, found)?);
        let meta = &known.record.meta;
        let mut most = lock(&self.most);
        *most = (most.0.max(meta.floor), most.1.max(meta.longest_window));
        drop(most);
        *lock(&self.known) = Arc::clone(&known);
        Ok(known)
    }

    /// The highest floor and the longest window that were ever seen here: an older copy of the
    /// store has forgotten them, and this process has not.
    pub(crate) fn most(&self) -> (Tick, u64) {
        *lock(&self.most)
    }

    pub(crate) fn view(&self, generator_id: u64) -> Option<View> {
        lock(&self.views).get(&generator_id).cloned()
    }

    pub(crate) fn remember(&self, generator_id: u64, view: View) {
        let mut views = lock(&self.views);
        if views.len() >= MOST_VIEWS {
            // What is forgotten costs one more look.
            views.clear();
        }
        views.insert(generator_id, view);
    }

    /// Makes a transaction that puts something. If the answer shows that the cluster is an older
    /// copy of itself, the store is quarantined, and nothing is said of what was asked.
    pub(crate) fn write(
        &self,
        request: &TxnRequest,
        deadline: Deadline,
        newest: u64,
    ) -> Result<Written, Trouble> {
        self.settle()?;
        let written = self.client.write(request, deadline, newest)?;
        if let Some(why) = &written.went_back {
            if self.was_waited_for(deadline)? {
                return Ok(written);
            }
            self.distrust(why);
            self.settle()?;
            let detail = format!("{why}: it is an older copy of itself and in quarantine now");
            return Err(Trouble::new(Kind::Final, true, detail));
        }
        *lock(&self.answered_ms) = (self.now)();
        *lock(&self.answered_by) = self.client.newest().cluster_id;
        Ok(written)
    }

    /// Whether what shows to this process now was seen by another one, and waited for, while this
    /// one was away.
    ///
    /// Then the store names the cluster that answers, or its floor is past every window that was
    /// under way at our last good answer. That floor was set after the cluster went back: what was
    /// put back is older than that answer.
    fn was_waited_for(&self, deadline: Deadline) -> Result<bool, Trouble> {
        let used = *lock(&self.answered_by);
        let request = RangeRequest { key: self.keys.meta(), ..RangeRequest::default() };
        let answer = self.client.range(&request, deadline)?;
        let known = self.learn(answer.kvs.first()).map_err(crate::admin::as_trouble)?;
        let here = answer.header.as_ref().map_or(0, |header| header.cluster_id);
        if here != used {
            return Ok(known.record.cluster_id == here);
        }
        let meta = &known.record.meta;
        let answered_ms = *lock(&self.answered_ms);
        Ok(meta.format.tick_at_ms(answered_ms).is_ok_and(|answered| {
            let past = rules::past_every_window(meta, answered);
            meta.floor >= rules::past_skew(meta.format, past)
        }))
    }

    /// Reads these keys in a transaction that is ordered with all that put something.
    pub(crate) fn look(&self, keys: Vec<Vec<u8>>, deadline: Deadline) -> Result<Looked, Outage> {
        let request = TxnRequest {
            compare: vec![txn::never(self.keys.meta())],
            success: vec![txn::put(self.keys.pulse(), Vec::new())],
            failure: keys.into_iter().map(txn::get).collect(),
        };
        let written = self.write(&request, deadline, u64::MAX)?;
        Ok(Looked(written.answer))
    }

    /// Learns the store's meta anew.
    pub(crate) fn refresh(&self, deadline: Deadline) -> Result<Arc<Known>, Outage> {
        let looked = self.look(vec![self.keys.meta()], deadline)?;
        self.learn(looked.get(0))
    }

    /// Reads the store's meta, also where nothing can be put. What a transaction compares it with
    /// decides, so it does no harm if it is old.
    pub(crate) fn read_meta(&self, deadline: Deadline) -> Result<Arc<Known>, Outage> {
        self.settle()?;
        let request = RangeRequest { key: self.keys.meta(), ..RangeRequest::default() };
        let answer = self.client.range(&request, deadline)?;
        self.learn(answer.kvs.first())
    }

    /// A pulse that was read.
    pub(crate) fn heard(&self, pulse: Pulse) {
        let mut heard_ms = lock(&self.heard_ms);
        *heard_ms = (*heard_ms).max(pulse.ms);
    }

    /// By how many the entries that a member has applied outnumber its revisions.
    ///
    /// Every revision is an entry, and some entries are none, so in one history this only grows. A
    /// restored snapshot keeps its revision and begins with the first entry anew: the number falls
    /// by all of the revision, under the same token, term and cluster id too. `None`: etcd does not
    /// tell this user.
    pub(crate) fn lead(&self, status: Option<&StatusResponse>) -> Option<i64> {
        let status = status?;
        let applied = i64::try_from(status.raft_applied_index).ok()?;
        let lead = applied.checked_sub(status.header.as_ref()?.revision)?;
        *lock(&self.lead) = Some(lead);
        Some(lead)
    }

    /// How the member that answers stands, if etcd tells this user.
    pub(crate) fn status_of_member(
        &self,
        deadline: Deadline,
    ) -> Result<Option<StatusResponse>, Outage> {
        match self.client.read(&StatusRequest {}, deadline) {
            Ok(status) => Ok(Some(status)),
            // Some versions tell root only, where users are checked.
            Err(trouble) if trouble.kind == Kind::Denied => Ok(None),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// The term by an answer to what a member has taken as an entry.
    pub(crate) fn term(&self, deadline: Deadline) -> Result<u64, Outage> {
        let looked = self.look(vec![self.keys.meta()], deadline)?;
        Ok(looked.0.header.map_or(u64::MAX, |header| header.raft_term))
    }

    /// From now on nothing is done before the store is in quarantine.
    pub(crate) fn distrust(&self, why: &str) {
        self.alarm(format!("{why}: the store was put into quarantine"));
        *lock(&self.distrust) = Some(why.to_owned());
    }

    /// Puts the store into quarantine if it is distrusted.
    ///
    /// A store of very many generator ids is read in parts, each with the time of a call.
    pub(crate) fn settle(&self) -> Result<(), Trouble> {
        let why = lock(&self.distrust).clone();
        if why.is_some() {
            let Ok(_settling) = self.settling.try_lock() else {
                let detail = "the store is being put into quarantine: try again";
                return Err(Trouble::new(Kind::Final, false, detail));
            };
            self.wait_for_the_forgotten(|| self.deadline())?;
            let mut distrust = lock(&self.distrust);
            if *distrust == why {
                *distrust = None;
            }
        }
        Ok(())
    }

    /// The pulse to put with a grant or renewal, if it is time.
    pub(crate) fn due_pulse(&self) -> Option<Pulse> {
        let (ms, term) = ((self.now)(), self.client.newest().term);
        let due = lock(&self.pulse_ms).is_none_or(|last| last.abs_diff(ms) >= PULSE_EVERY_MS);
        let lead = *lock(&self.lead);
        due.then_some(Pulse { ms, term, lead })
    }

    pub(crate) fn pulse_was_put(&self, pulse: Pulse) {
        *lock(&self.pulse_ms) = Some(pulse.ms);
    }

    /// Something that a person should know of, told once.
    pub(crate) fn alarm(&self, what: String) {
        let mut alarms = lock(&self.alarms);
        if !alarms.contains(&what) {
            alarms.push(what);
        }
    }

    pub(crate) fn alarms(&self) -> Vec<String> {
        lock(&self.alarms).clone()
    }

    pub(crate) fn damaged(&self, what: impl std::fmt::Display) -> Outage {
        damaged(&self.keys, what)
    }

    /// The last tick that a floor has to be above, now.
    pub(crate) fn past_every_window(&self, known: &Known) -> Result<Tick, Outage> {
        let meta = &known.record.meta;
        let (now_ms, heard_ms) = ((self.now)(), *lock(&self.heard_ms));
        let behind_ms = heard_ms.saturating_sub(now_ms);
        if behind_ms > i64::try_from(Terms::SKEW_LIMIT.as_millis()).unwrap_or(i64::MAX) {
            // A floor by such a clock would keep nobody out, and the evidence would be spent.
            return Err(Outage::unavailable(format!(
                "the store has to be quarantined, and this host's clock is {behind_ms} ms behind \
                 those who used it last: set it"
            )));
        }
        match meta.format.tick_at_ms(now_ms.max(heard_ms)) {
            Ok(now) => Ok(rules::rolled_back(meta, now)),
            Err(error) => Err(Outage::unavailable(format!(
                "the store has to be quarantined, and the clock is of no use: {error}"
            ))),
        }
    }
}

/// What [`Core::look`] read, in the order of the keys.
#[derive(Debug)]
pub(crate) struct Looked(TxnResponse);

impl Looked {
    pub(crate) fn get(&self, place: usize) -> Option<&KeyValue> {
        txn::found(self.0.responses.get(place))
    }
}

/// Reads the store's meta, for a store in use.
pub(crate) fn decode(keys: &Keys, found: Option<&KeyValue>) -> Result<Known, Outage> {
    let Some(kv) = found else {
        return Err(damaged(keys, "its meta is gone"));
    };
    let record = Record::decode(&kv.value).map_err(|error| match error {
        NoRecord::Damaged(what) => damaged(keys, what),
        NoRecord::Newer(schema) => Outage::unavailable(format!(
            "the store under {}/ has schema {schema} now, and this program knows {SCHEMA}: update \
             this program",
            keys.prefix()
        )),
    })?;
    if record.creating {
        return Err(Outage::unavailable(format!(
            "the store under {}/ is being made: try again; if that goes on, finish it with \
             `snowlease store init`",
            keys.prefix()
        )));
    }
    Ok(Known { record, bytes: kv.value.clone() })
}

fn damaged(keys: &Keys, what: impl std::fmt::Display) -> Outage {
    Outage::unavailable(format!(
        "the store under {}/ is damaged ({what}): restore a backup of etcd, and tell the store \
         with `snowlease store quarantine`",
        keys.prefix()
    ))
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is one assignment or insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
