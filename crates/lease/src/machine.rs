//! What a holder decides: an event comes in, commands go out, nothing else happens.
//!
//! The machine knows no thread, no store and no clock; it is told the time with each event. The
//! keeper runs it for real, tests and models run it by plain calls. At most one call to the store
//! is under way.
//!
//! ```text
//!          start            grant               drained             grant
//!   Idle ────────► Acquiring ─────► Held ◄────────────────► Draining ─────► Held (another id)
//!                      ▲             │ not yours, or the window ran out
//!                      └─── Lost ◄───┘        stop, from anywhere: close the gate, release, Idle
//! ```
//!
//! What it never does: learn `until` from anything but an answer, issue after its gate was closed,
//! resume a lost lease from memory, or count the lease's real time from later than the first
//! sending of the ask that was granted.

mod ask;
mod clock;
mod message;
mod pace;

use snowlease_core::clock::nanos;
use snowlease_core::{Closed, Format, Moment, Tick, TickError, Window};

pub(crate) use self::clock::SAME_NS;
pub use self::message::{Command, Event, State, Stepped};
use self::pace::{Pace, Sent};
use crate::store::Carries;
use crate::{
    AcquireError, Grant, Holder, Outage, Realm, Release, ReleaseError, Renew, RenewError, Renewal,
    RequestKey, Terms, Token,
};

/// A lease that is held.
#[derive(Clone, Debug)]
struct Seat {
    generator_id: u64,
    token: Token,
    /// The token from the renewal on that is under way or to be repeated; shown with every attempt
    /// at it. Made for each renewal when it is first sent, so that of two copies of this process
    /// only one has the token that the store has then.
    next: Option<Token>,
    seq: u64,
    until: Tick,
    /// When the lease was asked for: its age is counted from here.
    since_ns: u64,
    deadline_ns: u64,
    renew_ns: u64,
    draining: bool,
}

/// The pure state machine of a holder.
#[derive(Clone, Debug)]
pub struct Machine {
    terms: Terms,
    format: Format,
    holder: Holder,
    realm: Realm,
    state: State,
    seat: Option<Seat>,
    /// The key of the acquire that is under way or to be repeated.
    key: Option<(RequestKey, Sent)>,
    /// The renewal that is under way or to be repeated, byte for byte but for the time it was
    /// sent.
    renewal: Option<(Renew, Sent)>,
    /// A lease whose gate is being closed, to be released as soon as it is.
    retired: Option<Seat>,
    leaving: Option<Leaving>,
    /// The wall clock stands apart, and has not been followed.
    stepped: Option<Stepped>,
    waiting_for_store: bool,
    stopping: bool,
    pace: Pace,
}

#[derive(Clone, Debug)]
struct Leaving {
    ask: Release,
    /// When its real time is over, on the boot clock: the id clock may have been seeded anew.
    over_ns: u64,
    attempts: u32,
}

/// A clean stop tries this often to give the lease back; then it runs out by itself.
const RELEASE_ATTEMPTS: u32 = 3;

impl Machine {
    /// A machine at rest.
    pub fn new(terms: Terms, format: Format, holder: Holder) -> Machine {
        Machine {
            terms,
            format,
            holder,
            realm: Realm::default(),
            state: State::Idle,
            seat: None,
            key: None,
            renewal: None,
            retired: None,
            leaving: None,
            stepped: None,
            waiting_for_store: false,
            stopping: false,
            pace: Pace::new(terms, format),
        }
    }

    /// States this realm with each acquire.
    #[must_use]
    pub fn of_realm(self, realm: Realm) -> Machine {
        Machine { realm, ..self }
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether no ids are wanted and nothing is left to be given back.
    pub fn is_at_rest(&self) -> bool {
        self.state == State::Idle
            && !self.waiting_for_store
            && self.seat.is_none()
            && self.retired.is_none()
            && self.leaving.is_none()
    }

    /// When it wants [`Event::Wake`] next, on the boot clock; `None` while the store is being
    /// asked.
    pub fn wake_ns(&self) -> Option<u64> {
        if self.waiting_for_store {
            return None;
        }
        let seat_ns = self.seat.as_ref().map(|seat| {
            let wants_other = if seat.draining { self.pace.retry_ns } else { u64::MAX };
            seat.deadline_ns.min(seat.renew_ns.max(self.pace.retry_ns)).min(wants_other)
        });
        let wants_lease = self.seat.is_none() && self.state != State::Idle;
        let other_ns = (wants_lease || self.moves_back() || self.leaving.is_some())
            .then_some(self.pace.retry_ns);
        seat_ns.into_iter().chain(other_ns).min()
    }

    /// Takes an event at a moment and says what to do.
    pub fn step(&mut self, now: &Moment, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Start { seed } => self.start(now, seed),
            Event::Wake => {}
            Event::Acquired(answer) => self.acquired(now, answer, &mut commands),
            Event::Renewed(answer) => self.renewed(now, answer, &mut commands),
            Event::Released(answer) => self.released(now, &answer),
            Event::Closed(closed) => self.closed(closed),
            Event::Clock(stepped) => self.clock(now, stepped),
            Event::Restored { seed } => self.restored(now, seed, &mut commands),
            Event::Suspend => self.rest(&mut commands),
            Event::Stop => self.stop(&mut commands),
        }
        // A lease by another time is not judged by this one.
        if !commands.iter().any(Command::moves_clock) {
            self.go_on(now, &mut commands);
        }
        commands
    }

    /// Starts whatever is due, one call to the store at a time: a renewal before anything else.
    fn go_on(&mut self, now: &Moment, commands: &mut Vec<Command>) {
        if self.follow_if_free(now, commands) {
            return;
        }
        let tick = match self.format.tick_at(*now) {
            Ok(tick) => tick,
            Err(error) => return self.go_on_outside_time(now, error, commands),
        };
        if let Some(seat) = &self.seat
            && (tick >= seat.until || now.boot_ns >= seat.deadline_ns)
        {
            self.lose(commands);
            if self.follow_if_free(now, commands) {
                return;
            }
        }
        if self.waiting_for_store || now.boot_ns < self.pace.retry_ns {
            return;
        }
        let renewal_due = self.seat.as_ref().is_some_and(|seat| now.boot_ns >= seat.renew_ns);
        let wants_lease = self.state != State::Idle
            && !self.stopping
            && self.retired.is_none()
            && (self.moves_back() || self.seat.as_ref().is_none_or(|seat| seat.draining));
        let mut command = if renewal_due { self.ask_to_renew(now) } else { None };
        // What was granted and not used may be just what is wanted: it goes back first.
        if command.is_none() {
            command = self.ask_to_release(now);
        }
        if command.is_none() && wants_lease {
            command = self.ask_to_acquire(now);
            if command.is_none() {
                self.pace.retry_ns = now.boot_ns.saturating_add(nanos(self.terms.attempt()));
            }
        }
        if let Some(command) = command {
            self.waiting_for_store = true;
            commands.push(command);
        }
    }

    /// Before the epoch and past the end of time there is no tick to ask for, and none to issue in.
    fn go_on_outside_time(&mut self, now: &Moment, error: TickError, commands: &mut Vec<Command>) {
        self.lose(commands);
        if matches!(error, TickError::TimeEnd { .. }) {
            // Every window is over: there is nothing to give back.
            self.leaving = None;
        }
        if self.waiting_for_store || now.boot_ns < self.pace.retry_ns {
            return;
        }
        match self.ask_to_release(now) {
            Some(command) => {
                self.waiting_for_store = true;
                commands.push(command);
            }
            None => self.pace.retry_ns = now.boot_ns.saturating_add(nanos(self.terms.attempt())),
        }
    }

    fn acquired(
        &mut self,
        now: &Moment,
        answer: Result<Grant, AcquireError>,
        commands: &mut Vec<Command>,
    ) {
        self.waiting_for_store = false;
        let grant = match answer {
            Ok(grant) => grant,
            Err(error) => {
                // What may have landed is asked for again with its key; all else begins anew.
                if !matches!(error, AcquireError::Outage(Outage { unknown: true, .. })) {
                    self.key = None;
                }
                return self.pace.back_off(now);
            }
        };
        let Some((key, sent)) = self.key.take() else { return };
        let token = key.token();
        let seat = self.seat_of(&grant, token, &sent);
        let window = Window::new(self.format.layout(), grant.generator_id, grant.from, grant.until);
        self.pace.failures = 0;
        self.pace.retry_ns = now.boot_ns;
        // One that was had for another time is of use only while that is still wanted.
        let wanted = sent.follow_ns == 0 || self.is_wanted(sent.follow_ns);
        let usable = wanted && now.boot_ns < seat.deadline_ns && self.state != State::Idle;
        match window {
            Ok(window) if usable => {
                self.retired = self.seat.replace(seat.clone());
                self.renewal = None;
                self.state = if seat.draining { State::Draining } else { State::Held };
                let follow_ns = sent.follow_ns;
                self.stepped = self.stepped.filter(|_| follow_ns == 0);
                let deadline_ns = seat.deadline_ns;
                commands.push(Command::Open { window, deadline_ns, follow_ns });
            }
            // Too late to be of use, or no longer wanted: given back unused.
            _ => self.leave(&seat, grant.from),
        }
    }

    fn seat_of(&mut self, grant: &Grant, token: Token, sent: &Sent) -> Seat {
        Seat {
            generator_id: grant.generator_id,
            token,
            next: None,
            seq: grant.seq,
            until: grant.until,
            since_ns: sent.at.boot_ns,
            deadline_ns: self.pace.deadline_ns(grant.until, sent),
            renew_ns: self.pace.renew_ns(grant.until, sent),
            draining: grant.draining,
        }
    }

    fn renewed(
        &mut self,
        now: &Moment,
        answer: Result<Renewal, RenewError>,
        commands: &mut Vec<Command>,
    ) {
        self.waiting_for_store = false;
        let renewal = match answer {
            Ok(renewal) => renewal,
            Err(
                RenewError::NotYours { .. }
                | RenewError::RolledBack { .. }
                | RenewError::OutOfRange,
            ) => {
                return self.lose(commands);
            }
            // The window that was confirmed stays good; the same bytes are sent again.
            Err(RenewError::Quarantined { .. } | RenewError::Outage(_)) => {
                return self.pace.back_off(now);
            }
        };
        let Some((ask, sent)) = self.renewal.take() else { return };
        // The store knows less than it once confirmed: it was rolled back, and may have granted our
        // generator id from an earlier tick on. Uniqueness comes before availability.
        if renewal.seq < ask.seq {
            return self.lose(commands);
        }
        let extended_ns = self.pace.deadline_ns(renewal.until, &sent);
        let renew_ns = self.pace.renew_ns(renewal.until, &sent);
        // What the window does not reach cannot be followed to under this lease.
        let follow_ns = self.follow_ns();
        let follows = sent.follow_ns > 0 && self.is_wanted(sent.follow_ns);
        let follows_next = follow_ns > 0 && self.sent(now, follow_ns).is_some();
        let changed = renewal.token == Carries::Token && renewal.seq != ask.seq;
        let reaches = renewal.until > sent.tick;
        if follows && !reaches && !changed {
            return self.lose(commands);
        }
        let Some(seat) = &mut self.seat else { return };
        seat.seq = renewal.seq;
        seat.draining = renewal.draining;
        self.state = if seat.draining { State::Draining } else { State::Held };
        self.pace.failures = 0;
        self.pace.retry_ns = now.boot_ns;
        // Confirmed as ours until `until`, whether or not that moved: within a long tick it does
        // not.
        seat.deadline_ns = seat.deadline_ns.max(extended_ns);
        match renewal.token {
            // Landed, with this sending or an earlier one of the same bytes.
            Carries::Next => {
                seat.token = seat.next.take().unwrap_or_else(|| seat.token.clone());
                seat.renew_ns = renew_ns.max(now.boot_ns);
            }
            // The cell was changed beside us: the next attempt starts from it, at once.
            Carries::Token if renewal.seq != ask.seq => {
                seat.next = None;
                seat.renew_ns = now.boot_ns;
            }
            // Nothing to extend yet; and what was sent may land still, so its token stays.
            Carries::Token => {
                let pause_ns = nanos(self.terms.renew()) / 8;
                seat.renew_ns = now.boot_ns.saturating_add(pause_ns);
            }
        }
        seat.until = seat.until.max(renewal.until);
        commands.push(Command::Extend { until: seat.until, deadline_ns: seat.deadline_ns });
        if follows && reaches {
            (self.stepped, self.key) = (None, None);
            commands.push(Command::Follow { by_ns: sent.follow_ns });
        } else if follows_next {
            seat.renew_ns = now.boot_ns;
        }
    }

    fn released(&mut self, now: &Moment, answer: &Result<(), ReleaseError>) {
        self.waiting_for_store = false;
        match answer {
            Err(ReleaseError::Outage(_)) => self.pace.back_off(now),
            // Done, or no longer ours, or never to be accepted: the window ends by itself then.
            _ => {
                self.leaving = None;
                self.pace.failures = 0;
            }
        }
    }

    fn closed(&mut self, closed: Closed) {
        if let Some(seat) = self.retired.take_if(|seat| seat.generator_id == closed.generator_id) {
            self.leave(&seat, closed.unused_from);
        }
    }

    fn start(&mut self, now: &Moment, seed: u64) {
        self.pace.seed(seed);
        if self.state == State::Idle && !self.stopping {
            // A copy of this process may have it too.
            self.key = None;
            self.state = State::Acquiring;
            self.pace.retry_ns = now.boot_ns;
        }
    }

    fn stop(&mut self, commands: &mut Vec<Command>) {
        self.stopping = true;
        self.rest(commands);
    }

    /// Closes the gate and gives the lease back.
    fn rest(&mut self, commands: &mut Vec<Command>) {
        if self.state == State::Idle {
            return;
        }
        self.state = State::Idle;
        self.renewal = None;
        self.pace.retry_ns = 0;
        if let Some(seat) = self.seat.take() {
            self.retired = Some(seat);
            commands.push(Command::Close);
        }
    }

    /// The lease is gone: nothing is issued from it again, and another one is wanted.
    fn lose(&mut self, commands: &mut Vec<Command>) {
        self.renewal = None;
        if self.seat.take().is_some() {
            self.state = State::Lost;
            commands.push(Command::Close);
        }
    }

    fn leave(&mut self, seat: &Seat, unused_from: Tick) {
        self.leaving = Some(Leaving {
            ask: Release {
                generator_id: seat.generator_id,
                token: seat.token.clone(),
                // A renewal may have landed without our knowing.
                next: seat.next.clone(),
                seq: seat.seq,
                unused_from,
            },
            over_ns: seat.deadline_ns.saturating_add(nanos(self.terms.margin())),
            attempts: 0,
        });
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod fleet;
