//! The transaction of a grant, as a part of one for many asks.
//!
//! ```text
//! if   nothing was granted to this request key yet:    requests/c is not its token, for each c
//!                                                      that it tries; moved/TOKEN is not there
//! then if   cells/c1 < bound:  put cells/c1, requests/c1
//!      else if cells/c2 < bound:  put cells/c2, requests/c2
//!      else …
//! else get all of those
//! ```
//!
//! The first eight bytes of a cell are its drain mark and `until`, so one comparison of bytes tells
//! whether it is free, with no read before. A transaction that is sent again after it was made
//! finds its own token and changes nothing. etcd compares everything of a transaction before it
//! puts anything, so asks in one transaction never try the same cell.

use std::collections::HashMap;

use snowlease_lease::cell::free_bound;
use snowlease_lease::rules::{self, Decision};
use snowlease_lease::{Acquire, Cell, Grant, Meta, Outage, TokenHash};

use crate::candidates;
use crate::core::{Core, View, stored};
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
        let bound = free_bound(pending.ask.from);
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
                compare: vec![txn::value_is_below(self.keys.cell(*id), &bound)],
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
                .ok_or_else(|| self.damaged("a cell was granted and is not there"))?;
            // One that this program cannot read has a window it cannot judge.
            Cell::decode(&old.value)?;
            let view = View { bytes: stored(&cell), version: old.version + 1 };
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
        pending.spent.clear();
        for (id, (cell, request)) in found {
            let Some(kv) = cell else {
                return Err(self.damaged(format!("the cell of generator id {id} is missing")));
            };
            let view = View::of(kv);
            let cell = view.cell()?;
            if cell.token == pending.token {
                let grant = grant_of(id, &cell);
                self.remember(id, view);
                return Ok(Outcome::Granted(grant));
            }
            if request.is_some_and(|kv| kv.value == pending.token.as_bytes()) {
                pending.spent.insert(id, view.version);
            }
        }
        Ok(Outcome::Again)
    }
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
