//! The transaction of a grant, as a part of one for many asks.
//!
//! ```text
//! if   nothing was granted to this request key yet:    requests/c is not its token, for each c
//!                                                      that it tries; moved/TOKEN is not there
//! then if   least < cells/c1 < bound:  put cells/c1, requests/c1
//!      else if least < cells/c2 < bound:  put cells/c2, requests/c2
//!      else …
//! else get all of those
//! ```
//!
//! The first eight bytes of a cell are its drain mark and `until`, so one comparison of bytes tells
//! whether it is free, with no read before. What sorts below every cell there can be is none, and
//! is left alone; what else is none shows when it was replaced (see `damaged`). A transaction that
//! is sent again after it was made finds its own token and changes nothing. etcd compares
//! everything of a transaction before it puts anything, so asks in one transaction never try the
//! same cell.

use std::collections::HashMap;

use snowlease_lease::cell::free_bound;
use snowlease_lease::rules::{self, Decision};
use snowlease_lease::{Acquire, Cell, Grant, Meta, Outage, TokenHash};

use crate::candidates;
use crate::core::{Core, View, stored};
use crate::damaged::{Mine, Over};
use crate::keys::Family;
use crate::proto::{KeyValue, RequestOp, TxnRequest, TxnResponse};
use crate::record::Pulse;
use crate::txn;

/// An ask that has no answer yet.
#[derive(Debug)]
pub(crate) struct Pending<'a> {
    /// Its place among the asks.
    pub(crate) place: usize,
    pub(crate) ask: &'a Acquire,
    pub(crate) token: TokenHash,
    /// What its request key leads to.
    home: Vec<u64>,
    /// Cells whose last grant was to this request key and is over, with the version they had then:
    /// they may be granted to it anew.
    spent: HashMap<u64, i64>,
    /// Where a grant elsewhere was made to this request key, and the version of the note of it.
    moved: Option<(u64, i64)>,
    /// Whether what its request key leads to was all taken.
    pub(crate) elsewhere: bool,
    /// What it tries in this round.
    pub(crate) tried: Vec<u64>,
}

/// What a transaction says of one ask.
#[derive(Debug)]
pub(crate) enum Outcome {
    Granted(Grant),
    /// It was granted before.
    Mine(Mine),
    /// It was granted over what is no cell.
    Over(Over),
    /// All that were tried are taken.
    Taken,
    /// Something was learnt of an earlier grant to the same request key: ask once more.
    Again,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(place: usize, ask: &'a Acquire, meta: &Meta) -> Pending<'a> {
        let token = ask.request_key.token().hash();
        let home = candidates::of_token(&token, meta.range);
        let (spent, moved) = (HashMap::new(), None);
        Pending { place, ask, token, home, spent, moved, elsewhere: false, tried: Vec::new() }
    }

    pub(crate) fn home(&self) -> &[u64] {
        &self.home
    }

    /// Every generator id that is looked at for an earlier grant.
    fn looked_at(&self) -> Vec<u64> {
        let mut ids = self.home.clone();
        let more = self.tried.iter().copied().chain(self.moved.map(|(id, _)| id));
        for id in more {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }
}

impl Core {
    /// The part of a transaction that grants one of these cells to this ask.
    pub(crate) fn granting(
        &self,
        meta: &Meta,
        pending: &Pending<'_>,
        pulse: Option<Pulse>,
    ) -> TxnRequest {
        let ids = pending.looked_at();
        let moved = self.keys.moved(&pending.token);
        let mut compare: Vec<_> = ids
            .iter()
            .map(|id| match pending.spent.get(id) {
                Some(version) => txn::version_is(self.keys.cell(*id), *version),
                None => txn::value_is_not(self.keys.request(*id), pending.token.as_bytes()),
            })
            .collect();
        let version = pending.moved.map_or(0, |(_, version)| version);
        compare.push(txn::version_is(moved.clone(), version));
        let mut failure = vec![txn::get(moved)];
        for id in ids {
            failure.extend([txn::get(self.keys.cell(id)), txn::get(self.keys.request(id))]);
        }
        let chain = self.chain(meta, pending, pulse);
        TxnRequest { compare, success: chain.into_iter().collect(), failure }
    }

    /// The first of these that is free, or else the next.
    fn chain(&self, meta: &Meta, pending: &Pending<'_>, pulse: Option<Pulse>) -> Option<RequestOp> {
        let vacant = Cell::vacant(meta.format.fingerprint());
        let (least, bound) = (below_every_cell(), free_bound(pending.ask.from));
        let mut rest = None;
        for id in pending.tried.iter().rev() {
            // The new cell depends on nothing in the old one but its number of changes, which etcd
            // counts.
            let Some(Decision::Put(cell, _)) = rules::acquire(meta, *id, &vacant, pending.ask)
            else {
                continue;
            };
            let mut success = vec![
                txn::replace(self.keys.cell(*id), stored(&cell)),
                txn::put(self.keys.request(*id), pending.token.as_bytes().to_vec()),
            ];
            if !pending.home.contains(id) {
                let note = id.to_string().into_bytes();
                success.push(txn::put(self.keys.moved(&pending.token), note));
            }
            if let Some(pulse) = pulse {
                success.push(txn::put(self.keys.pulse(), pulse.encode()));
            }
            rest = Some(txn::nested(TxnRequest {
                compare: vec![
                    txn::value_is_above(self.keys.cell(*id), &least),
                    txn::value_is_below(self.keys.cell(*id), &bound),
                ],
                success,
                failure: rest.into_iter().collect(),
            }));
        }
        rest
    }

    /// What the answer to [`granting`](Self::granting) says.
    pub(crate) fn granted(
        &self,
        meta: &Meta,
        pending: &mut Pending<'_>,
        answer: &TxnResponse,
    ) -> Result<Outcome, Outage> {
        if !answer.succeeded {
            return self.granted_before(pending, answer);
        }
        let vacant = Cell::vacant(meta.format.fingerprint());
        let mut level = txn::inner(answer.responses.first());
        for id in &pending.tried {
            let Some(Decision::Put(cell, _)) = rules::acquire(meta, *id, &vacant, pending.ask)
            else {
                continue;
            };
            let Some(reached) = level else { break };
            if !reached.succeeded {
                level = txn::inner(reached.responses.first());
                continue;
            }
            let old = txn::replaced(reached.responses.first())
                .ok_or_else(|| Outage::unknown("etcd's answer lacks a cell: try again"))?;
            let view = View { bytes: stored(&cell), version: old.version + 1 };
            // One that this program cannot read has a window it cannot judge.
            if let Err(why) = Cell::decode(&old.value) {
                let old = old.value.clone();
                return Ok(Outcome::Over(Over { id: *id, made: view, old, why }));
            }
            let grant = grant_of(*id, &view.cell()?);
            self.remember(*id, view);
            return Ok(Outcome::Granted(grant));
        }
        Ok(Outcome::Taken)
    }

    /// Something was granted to this request key before: the grant that is still in force, or what
    /// to compare so that it may be granted anew. The transaction that failed would have put
    /// something, so that what it read is ordered with all that is put.
    fn granted_before(
        &self,
        pending: &mut Pending<'_>,
        answer: &TxnResponse,
    ) -> Result<Outcome, Outage> {
        // What is not there any more is not compared any more.
        let ids = pending.looked_at();
        (pending.moved, pending.spent) = (None, HashMap::new());
        let mut found: HashMap<u64, (Option<&KeyValue>, Option<&KeyValue>)> = HashMap::new();
        for op in &answer.responses {
            let Some(kv) = txn::found(Some(op)) else { continue };
            match self.keys.family(&kv.key) {
                Some(Family::Cell(id)) => found.entry(id).or_default().0 = Some(kv),
                Some(Family::Request(id)) => found.entry(id).or_default().1 = Some(kv),
                Some(Family::Moved) => {
                    let id = std::str::from_utf8(&kv.value).ok().and_then(|id| id.parse().ok());
                    let id = id.ok_or_else(|| self.damaged("a note of a grant is no number"))?;
                    pending.moved = Some((id, kv.version));
                }
                _ => {}
            }
        }
        // What is in the way, unless the grant is found elsewhere.
        let mut wrong = None;
        for id in &ids {
            let (cell, request) = found.get(id).copied().unwrap_or_default();
            let last = request.is_some_and(|kv| kv.value == pending.token.as_bytes());
            match cell.map(|kv| (View::of(kv), kv.mod_revision)) {
                Some((view, revision)) => match view.cell() {
                    Ok(cell) if cell.token == pending.token => {
                        let grant = grant_of(*id, &cell);
                        return Ok(Outcome::Mine(Mine { grant, view, revision }));
                    }
                    Ok(_) if last => {
                        pending.spent.insert(*id, view.version);
                    }
                    Err(outage) if last => wrong = Some(outage),
                    // The last grant of it was to another.
                    _ => {}
                },
                None if last => {
                    let what = format!("the cell of generator id {id} is missing");
                    wrong = Some(self.damaged(what));
                }
                None => {}
            }
            if request.is_none() {
                let what = format!("what generator id {id} was last asked with is missing");
                wrong = Some(self.damaged(what));
            }
        }
        let elsewhere = pending.moved.is_some_and(|(id, _)| !ids.contains(&id));
        match wrong {
            Some(outage) if !elsewhere => Err(outage),
            _ => Ok(Outcome::Again),
        }
    }
}

/// Sorts below every cell, and above what is empty or zero.
fn below_every_cell() -> Vec<u8> {
    let mut bytes = stored(&Cell::vacant(0));
    bytes.pop();
    bytes
}

fn grant_of(generator_id: u64, cell: &Cell) -> Grant {
    Grant {
        generator_id,
        from: cell.from,
        until: cell.until,
        seq: cell.seq,
        draining: cell.draining,
        reference_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use snowlease_core::{Format, Tick};
    use snowlease_lease::{Holder, Realm, RequestKey, RollbackGuard, Terms};

    use super::*;
    use crate::Clock;
    use crate::keys::Keys;
    use crate::net::Client;
    use crate::proto::{RangeResponse, ResponseOp, response_op::Response};
    use crate::record::Record;

    fn found(key: Vec<u8>, value: Vec<u8>) -> ResponseOp {
        let kvs = vec![KeyValue { key, value, version: 3, ..KeyValue::default() }];
        let range = RangeResponse { kvs, ..RangeResponse::default() };
        ResponseOp { response: Some(Response::ResponseRange(range)) }
    }

    /// The note of an earlier grant was there in one round, and swept before the next: it is not
    /// compared for ever.
    #[test]
    fn a_note_that_is_gone_is_not_waited_for() {
        let meta = Meta::new(Format::DEFAULT, (0, 0));
        let record = Record { meta: meta.clone(), creating: false, cluster_id: 1, created_ms: 0 };
        let keys = Keys::under("ids");
        let core = Core::new(
            Client::new(&"etcd://127.0.0.1:1/ids".parse().unwrap()).unwrap(),
            keys.clone(),
            record.known(),
            (Duration::from_secs(1), Clock::new(|| 0)),
            (RollbackGuard::Enforce, Terms::DEFAULT),
        );
        let ask = Acquire {
            request_key: RequestKey::random(),
            from: Tick(10),
            until: Tick(20),
            format: Format::DEFAULT,
            realm: Realm::default(),
            holder: Holder::nobody(),
            patience: Duration::ZERO,
            now_ms: 0,
        };
        let mut pending = Pending::new(0, &ask, &meta);
        let note = keys.moved(&pending.token);
        let compared = |pending: &Pending<'_>| core.granting(&meta, pending, None).compare;
        let fresh = txn::version_is(note.clone(), 0);
        assert!(compared(&pending).contains(&fresh));
        let vacant = Cell::vacant(meta.format.fingerprint());
        let home = || {
            vec![
                found(keys.cell(0), stored(&vacant)),
                found(keys.request(0), TokenHash::NOBODY.as_bytes().to_vec()),
            ]
        };
        let mut responses = home();
        responses.push(found(note.clone(), b"0".to_vec()));
        let answer = TxnResponse { responses, ..TxnResponse::default() };
        assert!(matches!(core.granted(&meta, &mut pending, &answer), Ok(Outcome::Again)));
        assert!(compared(&pending).contains(&txn::version_is(note, 3)));
        let answer = TxnResponse { responses: home(), ..TxnResponse::default() };
        assert!(matches!(core.granted(&meta, &mut pending, &answer), Ok(Outcome::Again)));
        assert!(compared(&pending).contains(&fresh));
    }
}
