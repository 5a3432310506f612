//! Acquiring: one or two transactions for many asks.
//!
//! First each ask tries what its request key leads to. If that is all taken, the cells are read
//! once, and it tries some of those that have been free longest. What was read decides nothing: the
//! transaction compares it.

use std::collections::HashSet;

use snowlease_core::Tick;
use snowlease_lease::{Acquire, AcquireError, Cell, Grant, Meta, Outage, TokenHash, os, rules};

use crate::candidates::{Draws, TRIED};
use crate::core::Core;
use crate::grant::{Outcome, Pending};
use crate::net::{Deadline, Kind};
use crate::proto::{ResponseOp, TxnRequest};
use crate::record::{Known, Pulse};
use crate::txn;

/// How many asks go into one transaction: with these, the operations along any path through it stay
/// below the 128 that etcd takes by default.
const TOGETHER: usize = 24;

/// Of the cells that are free, one of so many that have been so for longest is tried.
const LONGEST_FREE: usize = 64;

/// Every so many grants elsewhere, notes of such grants that are over are looked for.
const SWEEP_EVERY: u64 = 16;

type Answer = Result<Grant, AcquireError>;

/// What is left to be done of some asks, and what has been answered.
struct Round<'a> {
    pending: Vec<Pending<'a>>,
    answers: Vec<Option<Answer>>,
    /// An earlier transaction may or may not have been made.
    unknown: bool,
    draws: Draws,
}

/// The cells as they were read last.
struct Free {
    /// `until` and generator id of each that is not draining, the one free longest first.
    cells: Vec<(Tick, u64)>,
}

impl Core {
    pub(crate) fn acquire_each(&self, asks: &[Acquire], deadline: Deadline) -> Vec<Answer> {
        let mut answers = Vec::with_capacity(asks.len());
        for part in asks.chunks(TOGETHER) {
            let mut round = Round {
                pending: Vec::new(),
                answers: vec![None; part.len()],
                unknown: false,
                draws: Draws::new(os::boot_ns()),
            };
            let ended = self.acquire_some(part, &mut round, deadline);
            let none = || Outage::unavailable("try again").into();
            let mut error = ended.err().unwrap_or_else(none);
            if let AcquireError::Outage(outage) = &mut error {
                outage.unknown |= round.unknown;
            }
            // Those without an answer of their own share this one.
            let shared = || Err(error.clone());
            answers.extend(round.answers.into_iter().map(|answer| answer.unwrap_or_else(shared)));
        }
        answers
    }

    fn acquire_some<'a>(
        &self,
        asks: &'a [Acquire],
        round: &mut Round<'a>,
        deadline: Deadline,
    ) -> Result<(), AcquireError> {
        let mut newest = self.trusted(deadline)?;
        let mut known = self.known();
        // A refusal is told by what the store is for now.
        if asks.iter().any(|ask| rules::admit(&known.record.meta, ask).is_err()) {
            known = self.refresh(deadline)?;
        }
        let pending = |(place, ask)| Pending::new(place, ask, &known.record.meta);
        round.pending = (0..).zip(asks).map(pending).collect();
        loop {
            round.refuse(&known.record.meta);
            if round.pending.iter().any(|pending| pending.elsewhere) {
                let free = self.free(deadline)?;
                round.refuse_without_free(&known.record.meta, &free);
                round.share(Some(&free));
            } else {
                round.share(None);
            }
            if round.pending.is_empty() {
                return Ok(());
            }
            if deadline.left().is_zero() {
                return Err(Outage::unavailable("too many ask at once: try again").into());
            }
            let pulse = self.due_pulse();
            let (request, raised) = self.granting_each(round, &known, pulse);
            let written = match self.write(&request, deadline, newest) {
                Ok(written) => written,
                Err(trouble) if trouble.kind == Kind::Reconnected => {
                    round.unknown |= trouble.unknown;
                    newest = self.trusted(deadline)?;
                    continue;
                }
                Err(trouble) => return Err(Outage::from(trouble).into()),
            };
            let responses = &written.answer.responses;
            if !written.answer.succeeded {
                // The bytes that were sent before may have been compared with another meta.
                round.unknown |= written.repeated;
                known = self.learn(txn::found(responses.first()))?;
                continue;
            }
            if let Some(raised) = raised {
                self.learned(raised)?;
                known = self.known();
            }
            let elsewhere = self.take_answers(round, &known.record.meta, responses, deadline)?;
            if let (Some(pulse), true) = (pulse, round.answers.iter().flatten().any(Answer::is_ok))
            {
                self.pulse_was_put(pulse);
            }
            if elsewhere && round.draws.below(SWEEP_EVERY) == 0 {
                // What is left over does no harm.
                drop(self.sweep(&mut round.draws, deadline));
            }
        }
    }

    /// One transaction for all that try something in this round.
    fn granting_each(
        &self,
        round: &Round<'_>,
        known: &Known,
        pulse: Option<Pulse>,
    ) -> (TxnRequest, Option<Known>) {
        let meta = &known.record.meta;
        let trying = || round.pending.iter().filter(|pending| !pending.tried.is_empty());
        let longest = trying()
            .map(|pending| rules::longest_window(meta, pending.ask.from, pending.ask.until))
            .max();
        let raised = self.raise_longest(known, longest.unwrap_or(0));
        let mut success: Vec<_> = raised.iter().map(|new| self.put_meta(new)).collect();
        success.extend((0..).zip(trying()).map(|(place, pending)| {
            // Of parts side by side only one may put a key.
            let pulse = pulse.filter(|_| place == 0);
            txn::nested(self.granting(meta, pending, pulse))
        }));
        let request = TxnRequest {
            compare: vec![txn::value_is(self.keys.meta(), &known.bytes)],
            success,
            failure: vec![txn::get(self.keys.meta())],
        };
        (request, raised)
    }

    /// Takes the answers to [`granting_each`](Self::granting_each); whether any grant was made
    /// where its request key does not lead.
    fn take_answers(
        &self,
        round: &mut Round<'_>,
        meta: &Meta,
        responses: &[ResponseOp],
        deadline: Deadline,
    ) -> Result<bool, Outage> {
        let mut parts = responses.iter().filter_map(|op| txn::inner(Some(op)));
        let mut elsewhere = false;
        for mut pending in std::mem::take(&mut round.pending) {
            if pending.tried.is_empty() {
                round.pending.push(pending);
                continue;
            }
            let Some(part) = parts.next() else {
                return Err(Outage::unknown("etcd's answer has no part for an ask: try again"));
            };
            let answer = match self.granted(meta, &mut pending, part) {
                Ok(Outcome::Granted(grant)) => {
                    elsewhere |= pending.elsewhere;
                    Ok(grant)
                }
                Ok(Outcome::Mine(mine)) => self.confirmed(mine, deadline),
                Ok(Outcome::Over(over)) => Err(self.put_back(&over, deadline)),
                Ok(Outcome::Taken) => {
                    pending.elsewhere = true;
                    round.pending.push(pending);
                    continue;
                }
                Ok(Outcome::Again) => {
                    round.pending.push(pending);
                    continue;
                }
                Err(outage) => Err(outage),
            };
            let unknown = round.unknown;
            let answer = answer
                .map_err(|outage| Outage { unknown: outage.unknown | unknown, ..outage }.into());
            round.answers[pending.place] = Some(answer);
        }
        // The pulse goes with the first; if that was not granted, another one has its turn.
        let count = round.pending.len().max(1);
        round.pending.rotate_left(1 % count);
        Ok(elsewhere)
    }

    /// Reads all cells once.
    fn free(&self, deadline: Deadline) -> Result<Free, Outage> {
        let mut cells = Vec::new();
        self.each_cell(
            0,
            || deadline,
            |id, view| {
                let cell = Cell::decode(&view.bytes)?;
                if !cell.draining {
                    cells.push((cell.until, id));
                }
                Ok(())
            },
        )
        .map_err(|trouble| Outage { unknown: false, ..trouble.into() })?;
        cells.sort_unstable();
        Ok(Free { cells })
    }
}

impl Round<'_> {
    /// Answers those that can be granted nothing, whatever the cells are.
    fn refuse(&mut self, meta: &Meta) {
        let answers = &mut self.answers;
        self.pending.retain(|pending| match rules::admit(meta, pending.ask) {
            Ok(()) => true,
            Err(error) => {
                answers[pending.place] = Some(Err(error));
                false
            }
        });
    }

    /// Answers those for which nothing is free.
    fn refuse_without_free(&mut self, meta: &Meta, free: &Free) {
        let earliest = free.cells.first().map(|(until, _)| *until);
        let (first, last) = meta.range;
        let total = last.saturating_sub(first).saturating_add(1);
        let answers = &mut self.answers;
        self.pending.retain(|pending| {
            let some = earliest.is_some_and(|earliest| earliest <= pending.ask.from);
            if pending.elsewhere && !some {
                answers[pending.place] = Some(Err(AcquireError::Exhausted { total, earliest }));
            }
            !pending.elsewhere || some
        });
    }

    /// Gives each ask cells to try that no other ask tries; one that gets none waits for the next
    /// round, and so does one whose request key another one has too.
    fn share(&mut self, free: Option<&Free>) {
        let mut used = HashSet::new();
        let mut tokens = HashSet::<TokenHash>::new();
        for pending in &mut self.pending {
            pending.tried.clear();
            if !tokens.insert(pending.token) {
                continue;
            }
            let mut unused: Vec<u64> = if pending.elsewhere {
                let cells = free.map_or(&[][..], |free| &free.cells);
                let fit = cells.iter().take_while(|(until, _)| *until <= pending.ask.from);
                let fit = fit.map(|(_, id)| *id).filter(|id| !used.contains(id));
                fit.take(LONGEST_FREE).collect()
            } else {
                pending.home().iter().copied().filter(|id| !used.contains(id)).collect()
            };
            if pending.elsewhere {
                unused = self.draws.some_of(unused, TRIED);
            }
            used.extend(unused.iter().copied());
            pending.tried = unused;
        }
    }
}
