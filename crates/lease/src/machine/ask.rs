//! What a holder asks of its store, in full: the same bytes again where an earlier try may have
//! landed.

use std::time::Duration;

use snowlease_core::clock::nanos;
use snowlease_core::{Moment, Tick};

use super::pace::Sent;
use super::{Command, Machine, RELEASE_ATTEMPTS, clock};
use crate::{Acquire, Renew, RequestKey, Token, rules};

impl Machine {
    pub(super) fn ask_to_acquire(&mut self, now: &Moment) -> Option<Command> {
        let sent = self.sent(now, if self.moves_back() { self.follow_ns() } else { 0 })?;
        // What may have landed under an old key is over by now, or of no use any more.
        let useful_ns = nanos(self.terms.window() - self.terms.margin() * 2);
        self.key.take_if(|(_, first)| {
            now.boot_ns >= first.at.boot_ns.saturating_add(useful_ns)
                || first.follow_ns != sent.follow_ns
        });
        let now = &sent.at;
        let first = || (RequestKey::random(), sent.clone());
        let (request_key, _) = self.key.get_or_insert_with(first).clone();
        let attempt = self.terms.attempt();
        Some(Command::Acquire(Acquire {
            request_key,
            from: sent.tick,
            until: self.window_end(now, Duration::ZERO),
            format: self.format,
            realm: self.realm.clone(),
            holder: self.holder.clone(),
            patience: if self.seat.is_some() { attempt } else { attempt * 3 },
            now_ms: now.unix_ms,
        }))
    }

    pub(super) fn ask_to_renew(&mut self, now: &Moment) -> Option<Command> {
        let ahead_ns = self.follow_ns().max(0);
        // A time outside of the format is none to follow to.
        let sent = self.sent(now, ahead_ns).or_else(|| self.sent(now, 0))?;
        let since_ns = self.seat.as_ref()?.since_ns;
        let age = Duration::from_nanos(now.boot_ns.saturating_sub(since_ns));
        let until = self.window_end(&sent.at, age);
        let seat = self.seat.as_mut()?;
        let (ask, first) = self.renewal.get_or_insert_with(|| {
            let next = seat.next.get_or_insert_with(Token::random);
            let ask = Renew {
                generator_id: seat.generator_id,
                token: seat.token.clone(),
                seq: seat.seq,
                next: next.hash(),
                until,
                now_ms: sent.at.unix_ms,
            };
            (ask, sent)
        });
        // By the time that the window asked for was reckoned in.
        ask.now_ms = now.unix_ms.saturating_add(first.follow_ns / 1_000_000);
        Some(Command::Renew(ask.clone()))
    }

    /// What is sent now, by the id clock as it would read once it has followed by so much.
    pub(super) fn sent(&self, now: &Moment, follow_ns: i64) -> Option<Sent> {
        let at = clock::ahead(now, follow_ns);
        let tick = self.format.tick_at(at).ok()?;
        Some(Sent { at, tick, follow_ns })
    }

    /// The end of a window that lasts from now for the time agreed for a lease of this age, in
    /// whole ticks: where ticks are long, the next one is had before this one ends.
    fn window_end(&self, now: &Moment, age: Duration) -> Tick {
        let window = self.terms.window_at(age);
        let window_ms = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        let end = self.format.first_tick_from_ms(now.unix_ms.saturating_add(window_ms));
        end.min(rules::end(self.format))
    }

    pub(super) fn ask_to_release(&mut self, now: &Moment) -> Option<Command> {
        let leaving = self.leaving.as_mut()?;
        let given_up = leaving.attempts >= RELEASE_ATTEMPTS || now.boot_ns >= leaving.over_ns;
        if given_up {
            self.leaving = None;
            return None;
        }
        leaving.attempts += 1;
        Some(Command::Release(leaving.ask.clone()))
    }
}
