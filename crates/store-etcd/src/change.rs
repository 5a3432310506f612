//! Changes of cells that somebody holds: renewals, releases and drain marks.
//!
//! Each is decided from a whole cell, and made by a transaction that compares all of it: its bytes
//! and its number of changes. A cell is known from the last change, so that one transaction is
//! enough; if it is not known, or was changed by another, the transaction that fails answers with
//! it, and it is decided anew.

use std::collections::HashSet;

use snowlease_lease::rules::{self, Decision};
use snowlease_lease::{Cell, Outage, Release, ReleaseError, Renew, RenewError, Renewal};

use crate::core::{Core, View, stored};
use crate::net::Deadline;
use crate::proto::{RequestOp, TxnRequest};
use crate::record::Known;
use crate::txn;

/// How many renewals go into one transaction.
const TOGETHER: usize = 60;

type Answer = Result<Renewal, RenewError>;

/// A renewal that has no answer yet.
struct Pending<'a> {
    place: usize,
    ask: &'a Renew,
    /// The cell, if it was read after this was asked.
    fresh: Option<View>,
}

/// A renewal that is decided, and to be put.
struct Put<'a> {
    pending: Pending<'a>,
    old: View,
    new: Cell,
    answer: Renewal,
}

impl Core {
    pub(crate) fn renew_each(&self, asks: &[Renew], deadline: Deadline) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = vec![None; asks.len()];
        let mut pending: Vec<_> =
            (0..).zip(asks).map(|(place, ask)| Pending { place, ask, fresh: None }).collect();
        while !pending.is_empty() {
            let (now, later) = parted(pending);
            pending = later;
            let places: Vec<usize> = now.iter().map(|pending| pending.place).collect();
            match self.renew_some(now, &mut answers, deadline) {
                Ok(again) => pending.extend(again),
                Err(outage) => {
                    for place in places {
                        answers[place].get_or_insert_with(|| Err(outage.clone().into()));
                    }
                }
            }
        }
        let lost = || Err(Outage::unavailable("try again").into());
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    /// One transaction for renewals of different cells; answers those that need another.
    fn renew_some<'a>(
        &self,
        mut asks: Vec<Pending<'a>>,
        answers: &mut [Option<Answer>],
        deadline: Deadline,
    ) -> Result<Vec<Pending<'a>>, Outage> {
        if deadline.left().is_zero() {
            return Err(Outage::unavailable("too many ask at once: try again"));
        }
        let known = self.known();
        let (mut puts, mut undecided) = (Vec::new(), Vec::new());
        for pending in asks.drain(..) {
            let view = pending.fresh.clone().or_else(|| self.view(pending.ask.generator_id));
            match view.map(|view| self.decide(&known, view, pending.ask)) {
                Some((old, Ok(Decision::Put(new, answer)))) => {
                    puts.push(Put { pending, old, new, answer });
                }
                Some((_, decided)) if pending.fresh.is_some() => {
                    answers[pending.place] = Some(self.final_answer(decided));
                }
                // Nothing else is answered from what was remembered.
                _ => undecided.push(pending),
            }
        }
        if !undecided.is_empty() {
            let keys = undecided.iter().map(|pending| self.keys.cell(pending.ask.generator_id));
            let keys = std::iter::once(self.keys.meta()).chain(keys).collect();
            let looked = self.look(keys, deadline)?;
            let range = self.learn(looked.get(0))?.record.meta.range;
            for (place, pending) in (1..).zip(&mut undecided) {
                let id = pending.ask.generator_id;
                match looked.get(place) {
                    Some(kv) => pending.fresh = Some(View::of(kv)),
                    None if (range.0..=range.1).contains(&id) => {
                        let what = format!("the cell of generator id {id} is missing");
                        answers[pending.place] = Some(Err(self.damaged(what).into()));
                    }
                    None => answers[pending.place] = Some(Err(RenewError::OutOfRange)),
                }
            }
            undecided.retain(|pending| pending.fresh.is_some());
            // All are decided from one and the same meta, and that is compared.
            undecided.extend(puts.into_iter().map(|put| put.pending));
            return Ok(undecided);
        }
        if puts.is_empty() { Ok(undecided) } else { self.put_each(puts, &known, answers, deadline) }
    }

    fn decide(
        &self,
        known: &Known,
        view: View,
        ask: &Renew,
    ) -> (View, Result<Decision<Renewal>, RenewError>) {
        let decided = match view.cell() {
            Ok(cell) => rules::renew(&known.record.meta, &cell, ask),
            Err(outage) => Err(outage.into()),
        };
        (view, decided)
    }

    /// The answer to what changes nothing in the cell.
    fn final_answer(&self, decided: Result<Decision<Renewal>, RenewError>) -> Answer {
        match decided {
            Ok(Decision::Keep(answer) | Decision::Put(_, answer)) => Ok(answer),
            Err(RenewError::RolledBack { floor }) => {
                // Whether or not that can be written down now, the holder stops at once: what is
                // asked next writes it first.
                self.distrust("a holder was confirmed more than the store knows");
                drop(self.settle());
                let known = self.known().record.meta.floor;
                Err(RenewError::RolledBack { floor: floor.max(known) })
            }
            Err(error) => Err(error),
        }
    }

    /// Puts what was decided, each part on its own; answers those that were decided from a cell
    /// that is another by now.
    fn put_each<'a>(
        &self,
        puts: Vec<Put<'a>>,
        known: &Known,
        answers: &mut [Option<Answer>],
        deadline: Deadline,
    ) -> Result<Vec<Pending<'a>>, Outage> {
        let meta = &known.record.meta;
        let pulse = self.due_pulse();
        let longest = puts
            .iter()
            .map(|put| {
                let now = rules::renewed_at(meta, &put.new, put.pending.ask.now_ms);
                rules::longest_window(meta, now, put.new.until)
            })
            .max();
        let raised = self.raise_longest(known, longest.unwrap_or(0));
        let mut success: Vec<_> = raised.iter().map(|new| self.put_meta(new)).collect();
        success.extend((0..).zip(&puts).map(|(place, put)| {
            let mut part = self.replacing(put.pending.ask.generator_id, &put.old, &put.new);
            // Of parts side by side only one may put a key.
            if let Some(pulse) = pulse.filter(|_| place == 0) {
                part.success.push(txn::put(self.keys.pulse(), pulse.encode()));
            }
            txn::nested(part)
        }));
        let request = TxnRequest {
            compare: vec![txn::value_is(self.keys.meta(), &known.bytes)],
            success,
            failure: vec![txn::get(self.keys.meta())],
        };
        let answer = self.write(&request, deadline, u64::MAX)?.answer;
        if !answer.succeeded {
            self.learn(txn::found(answer.responses.first()))?;
            return Ok(puts.into_iter().map(|put| put.pending).collect());
        }
        if let Some(raised) = raised {
            self.learned(raised)?;
        }
        let mut parts = answer.responses.iter().filter_map(|op| txn::inner(Some(op)));
        let mut again = Vec::new();
        for (place, mut put) in (0..).zip(puts) {
            let id = put.pending.ask.generator_id;
            let Some(part) = parts.next() else {
                return Err(Outage::unknown("etcd's answer has no part for a renewal: try again"));
            };
            if part.succeeded {
                if let Some(pulse) = pulse.filter(|_| place == 0) {
                    self.pulse_was_put(pulse);
                }
                let view = View { bytes: stored(&put.new), version: put.old.version + 1 };
                self.remember(id, view);
                answers[put.pending.place] = Some(Ok(put.answer));
                continue;
            }
            match txn::found(part.responses.first()) {
                Some(kv) => {
                    let view = View::of(kv);
                    self.remember(id, view.clone());
                    put.pending.fresh = Some(view);
                    again.push(put.pending);
                }
                None => {
                    let what = format!("the cell of generator id {id} is missing");
                    answers[put.pending.place] = Some(Err(self.damaged(what).into()));
                }
            }
        }
        Ok(again)
    }

    /// The part of a transaction that puts a cell in place of the one it was decided from.
    fn replacing(&self, generator_id: u64, old: &View, new: &Cell) -> TxnRequest {
        let key = self.keys.cell(generator_id);
        TxnRequest {
            compare: vec![
                txn::value_is(key.clone(), &old.bytes),
                txn::version_is(key.clone(), old.version),
            ],
            success: vec![txn::put(key.clone(), stored(new))],
            failure: vec![txn::get(key)],
        }
    }

    /// Raises the longest window that was ever granted, if a longer one is about to be. By more
    /// than it has to be, if that is not the first: each raise costs every other process a
    /// transaction.
    pub(crate) fn raise_longest(&self, known: &Known, longest: u64) -> Option<Known> {
        let before = known.record.meta.longest_window;
        let mut record = known.record.clone();
        record.meta.longest_window = longest.max(before.saturating_add(before / 8));
        (longest > before).then(|| record.known())
    }

    pub(crate) fn put_meta(&self, known: &Known) -> RequestOp {
        txn::put(self.keys.meta(), known.bytes.clone())
    }

    /// Changes one cell by a decision about it; `None` leaves it as it is.
    fn change_cell<E: From<Outage>>(
        &self,
        generator_id: u64,
        deadline: Deadline,
        decide: impl Fn(&Cell) -> Result<Option<Cell>, E>,
    ) -> Result<(), Changed<E>> {
        let mut wanted: Option<View> = None;
        let mut view = self.view(generator_id);
        let mut fresh = false;
        loop {
            let decided = view.as_ref().map(|view| view.cell().map(|cell| decide(&cell)));
            let (old, new) = match (decided, view) {
                (Some(Ok(Ok(Some(new)))), Some(old)) => (old, new),
                // Sent twice, and made the first time.
                (_, Some(view)) if fresh && wanted.as_ref() == Some(&view) => return Ok(()),
                (Some(Ok(Ok(None))), _) if fresh => return Ok(()),
                (Some(Ok(Err(error))), _) if fresh => return Err(Changed::Refused(error)),
                (Some(Err(outage)), _) if fresh => return Err(Changed::Refused(outage.into())),
                _ => {
                    let keys = vec![self.keys.cell(generator_id)];
                    let looked = self.look(keys, deadline).map_err(Changed::outage)?;
                    view = Some(View::of(looked.get(0).ok_or(Changed::Missing)?));
                    fresh = true;
                    continue;
                }
            };
            let part = self.replacing(generator_id, &old, &new);
            let written = self
                .write(&part, deadline, u64::MAX)
                .map_err(|trouble| Changed::outage(trouble.into()))?;
            let made = View { bytes: stored(&new), version: old.version + 1 };
            if written.answer.succeeded {
                self.remember(generator_id, made);
                return Ok(());
            }
            if written.repeated {
                wanted = Some(made);
            }
            let kv = txn::found(written.answer.responses.first()).ok_or(Changed::Missing)?;
            view = Some(View::of(kv));
            fresh = true;
        }
    }

    pub(crate) fn release(&self, ask: &Release, deadline: Deadline) -> Result<(), ReleaseError> {
        let decide = |cell: &Cell| rules::release(cell, ask).map(Some);
        match self.change_cell(ask.generator_id, deadline, decide) {
            Ok(()) => Ok(()),
            Err(Changed::Refused(error)) => Err(error),
            Err(Changed::Missing) if self.has(ask.generator_id) => {
                let what = format!("the cell of generator id {} is missing", ask.generator_id);
                Err(self.damaged(what).into())
            }
            Err(Changed::Missing) => Err(ReleaseError::OutOfRange),
        }
    }

    pub(crate) fn drain(
        &self,
        generator_id: u64,
        draining: bool,
        deadline: Deadline,
    ) -> Result<(), Outage> {
        let decide = |cell: &Cell| Ok::<_, Outage>(rules::drain(cell, draining));
        match self.change_cell(generator_id, deadline, decide) {
            Ok(()) => Ok(()),
            Err(Changed::Refused(outage)) => Err(outage),
            Err(Changed::Missing) if self.has(generator_id) => {
                Err(self.damaged(format!("the cell of generator id {generator_id} is missing")))
            }
            Err(Changed::Missing) => {
                Err(rules::out_of_range(&self.known().record.meta, generator_id))
            }
        }
    }

    fn has(&self, generator_id: u64) -> bool {
        let (first, last) = self.known().record.meta.range;
        (first..=last).contains(&generator_id)
    }
}

/// Why a cell was not changed.
enum Changed<E> {
    Refused(E),
    Missing,
}

impl<E: From<Outage>> Changed<E> {
    fn outage(outage: Outage) -> Changed<E> {
        Changed::Refused(outage.into())
    }
}

/// The first of them that go into one transaction, each of another cell, and the rest.
fn parted(pending: Vec<Pending<'_>>) -> (Vec<Pending<'_>>, Vec<Pending<'_>>) {
    let mut ids = HashSet::new();
    pending
        .into_iter()
        .partition(|pending| ids.len() < TOGETHER && ids.insert(pending.ask.generator_id))
}
