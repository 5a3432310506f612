//! The store at the other end of a wire: a lease service, asked over HTTP.
//!
//! One call is one request, bounded from the name's look-up to the last byte of the answer. What is
//! known to have failed before anything was sent is told apart from what may have taken effect:
//! after the latter the holder asks again with the same secrets, and the service finds its own
//! work.
//!
//! The service has a clock of its own: it grants from the holder's now, for as long as the holder
//! asks and its terms allow, and tells its time with each answer.

mod answer;
mod call;
mod url;

use std::fmt;
use std::time::Duration;

use snowlease_core::{Format, Tick, Window};
use snowlease_lease::{
    Acquire, AcquireError, Carries, Grant, Holder, LeaseEntry, LeaseStore, Meta, Mode, Outage,
    PlanHash, Realm, Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus, rules,
};
use snowlease_wire as wire;

pub use url::UrlError;

use call::Caller;

/// A [`LeaseStore`] that is a Snowlease service at an `http://` URL.
///
/// # Promise
///
/// Every method returns within the attempt it was made with, whatever the network or the service
/// does. A connection is kept between calls. No secret is part of an error, a log or a URL.
///
/// # Example
///
/// ```
/// # use std::time::Duration;
/// # use snowlease_store_remote::{RemoteStore, UrlError};
/// let store = RemoteStore::new("http://ids.internal:8700", Duration::from_secs(3))?;
/// assert!(RemoteStore::new("https://ids.internal", Duration::from_secs(3)).is_err());
/// # Ok::<(), UrlError>(())
/// ```
#[derive(Debug)]
pub struct RemoteStore {
    caller: Caller,
}

impl RemoteStore {
    /// A store at this URL; nothing is sent yet.
    ///
    /// `attempt` bounds each call: [`Terms::attempt`](snowlease_lease::Terms::attempt).
    ///
    /// # Errors
    ///
    /// [`UrlError`] says what to write instead.
    pub fn new(url: &str, attempt: Duration) -> Result<RemoteStore, UrlError> {
        Ok(RemoteStore { caller: Caller::new(url::base(url)?, attempt) })
    }

    /// As [`status`](LeaseStore::status), for whoever connects: tells a service that is away from a
    /// URL at which there is none, where trying again is of no use.
    ///
    /// # Errors
    ///
    /// See [`StatusError`].
    pub fn inquire(&self) -> Result<StoreStatus, StatusError> {
        let asked = self.caller.get::<wire::StoreDoc>("/store");
        let doc = asked.map_err(|failure| answer::no_status(&failure))?;
        status(doc).ok_or_else(|| StatusError::NoService(senseless().detail))
    }
}

/// Why a service does not say what its store is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusError {
    /// What answers at the URL is no lease service; the text says what it is. Correct the URL.
    NoService(String),
    /// Try again.
    Outage(Outage),
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatusError::NoService(detail) => f.write_str(detail),
            StatusError::Outage(outage) => outage.fmt(f),
        }
    }
}

impl std::error::Error for StatusError {}

impl LeaseStore for RemoteStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        let doc: wire::StoreDoc =
            self.caller.get("/store").map_err(|failure| answer::outage(&failure))?;
        status(doc).ok_or_else(senseless)
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        // The wire says how long, not until when, so what is empty or too long is refused here.
        if ask.from >= ask.until || ask.until > rules::end(ask.format) {
            return Err(AcquireError::Window { from: ask.from, until: ask.until });
        }
        let lease: wire::Lease = self
            .caller
            .post("/generators/lease", &lease_ask(ask), self.caller.deadline_ns())
            .map_err(|failure| answer::not_granted(&failure, ask))?;
        let store = Format::try_from(&lease.format).map_err(|_| senseless())?;
        if store != ask.format {
            return Err(AcquireError::Format { store, asked: ask.format });
        }
        let (from, until) = (Tick(lease.from), Tick(lease.until));
        // A service that answers with another token knows nothing of this holder's key.
        if lease.token.reveal() != ask.request_key.token().reveal()
            || Window::new(ask.format.layout(), lease.generator_id, from, until).is_err()
        {
            return Err(senseless().into());
        }
        Ok(Grant {
            generator_id: lease.generator_id,
            from,
            until,
            seq: lease.seq,
            draining: lease.draining,
            reference_ms: Some(lease.reference_ms),
        })
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        let body = wire::RenewAsk {
            token: wire::Secret::new(ask.token.reveal()),
            seq: ask.seq,
            next: Some(ask.next.to_text()),
            until: Some(ask.until.0),
            now_ms: Some(ask.now_ms),
        };
        let path = format!("/generators/{}/renew", ask.generator_id);
        let renewed: wire::Renewed = self
            .caller
            .post(&path, &body, self.caller.deadline_ns())
            .map_err(|failure| answer::not_renewed(&failure))?;
        Ok(Renewal {
            until: Tick(renewed.until),
            seq: renewed.seq,
            token: match renewed.carries {
                wire::Carries::Token => Carries::Token,
                wire::Carries::Next => Carries::Next,
            },
            draining: renewed.draining,
            reference_ms: Some(renewed.reference_ms),
        })
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        // The wire takes one token: the other one is shown if the first is not the cell's.
        let deadline_ns = self.caller.deadline_ns();
        let mut released = Ok(());
        for token in [Some(&ask.token), ask.next.as_ref()].into_iter().flatten() {
            let body = wire::ReleaseAsk {
                token: wire::Secret::new(token.reveal()),
                seq: ask.seq,
                until: ask.unused_from.0,
            };
            let path = format!("/generators/{}/release", ask.generator_id);
            released = self
                .caller
                .post(&path, &body, deadline_ns)
                .map(|_: wire::Released| ())
                .map_err(|failure| answer::not_released(&failure));
            if !matches!(released, Err(ReleaseError::NotYours { .. })) {
                break;
            }
        }
        released
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        let leases: wire::Leases =
            self.caller.get("/generators").map_err(|failure| answer::outage(&failure))?;
        leases.leases.into_iter().map(|line| entry(line).ok_or_else(senseless)).collect()
    }
}

fn lease_ask(ask: &Acquire) -> wire::LeaseAsk {
    let some = |text: &str| Some(text.to_owned());
    let window_ms = ask.until.since(ask.from).saturating_mul(ask.format.tick_ms().into());
    wire::LeaseAsk {
        holder: ask.holder.name().to_owned(),
        machine: some(ask.holder.machine()),
        process: some(ask.holder.process()),
        region: some(ask.holder.region()),
        format: Some(ask.format.into()),
        environment: Some(ask.realm.environment().to_owned()).filter(|name| !name.is_empty()),
        plan: ask.realm.plan().map(PlanHash::to_text),
        now_ms: Some(ask.now_ms),
        window_ms: Some(window_ms),
        request_key: Some(wire::Secret::new(ask.request_key.reveal())),
    }
}

/// An answer that no service of ours gives; what became of the call is not known.
fn senseless() -> Outage {
    Outage::unknown(
        "the lease service gave an answer that makes no sense: check the URL and its version",
    )
}

fn status(doc: wire::StoreDoc) -> Option<StoreStatus> {
    let (first, last) = doc.generators.split_once('-')?;
    // A hash that is none is a service that makes no sense, not one without a plan.
    let plan = |text: Option<String>| match text {
        None => Some(None),
        Some(text) => PlanHash::from_text(&text).map(Some),
    };
    Some(StoreStatus {
        kind: doc.kind,
        meta: Meta {
            format: Format::try_from(&doc.format).ok()?,
            range: (first.parse().ok()?, last.parse().ok()?),
            mode: match doc.mode {
                wire::Mode::Open => Mode::Open,
                wire::Mode::Frozen => Mode::Frozen,
            },
            floor: Tick(doc.floor),
            longest_window: doc.longest_window,
            region: doc.region,
            realm: Realm::new(doc.environment, plan(doc.plan)?).ok()?,
            previous_plan: plan(doc.previous_plan)?,
        },
        pulse_ms: doc.pulse_ms,
        alarms: doc.alarms,
    })
}

fn entry(line: wire::LeaseLine) -> Option<LeaseEntry> {
    // Whoever holds a lease has a name, and a cell that nobody holds has none.
    let held = !line.holder.is_empty();
    let holder = if held {
        Holder::new(line.holder, line.machine, line.process, line.region).ok()?
    } else {
        Holder::nobody()
    };
    Some(LeaseEntry {
        generator_id: line.generator_id,
        from: Tick(line.from),
        until: Tick(line.until),
        seq: line.seq,
        held,
        draining: line.state == wire::State::Draining,
        granted_at_ms: line.granted_at_ms,
        holder,
    })
}
