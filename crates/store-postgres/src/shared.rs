//! What all calls share: the session of the moment, and what was found when it was made.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use snowlease_core::Tick;
use snowlease_lease::guard::{PulseGuard, Trace, Verdict};
use snowlease_lease::{Outage, os, rules};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::address::Address;
use crate::error::OpenError;
use crate::fault::Fault;
use crate::open::Clock;
use crate::row::{self, Look};
use crate::schema::{self, Kind};
use crate::session::{self, Facts, Session, Statements};
use crate::sql::{self, Texts};

/// What every call has at hand.
pub(crate) struct Shared {
    pub(crate) address: Address,
    pub(crate) texts: Texts,
    /// In place of the server's clock.
    clock: Option<Clock>,
    guard: Mutex<PulseGuard>,
    found: Mutex<Found>,
    /// Of the session before.
    seen: Mutex<Option<Facts>>,
    current: Mutex<Option<Arc<Ready>>>,
    /// Held by whoever makes the next session.
    connecting: tokio::sync::Mutex<()>,
}

/// A session that is ready for grants.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) session: Session,
    pub(crate) statements: Statements,
}

/// What people should know of.
#[derive(Clone, Debug, Default)]
struct Found {
    /// Of the server of the moment.
    server: Vec<String>,
    /// What has happened since the store was opened.
    events: Vec<String>,
}

impl Shared {
    pub(crate) fn new(address: Address, clock: Option<Clock>, guard: PulseGuard) -> Shared {
        Shared {
            texts: Texts::new(&address.schema),
            address,
            clock,
            guard: Mutex::new(guard),
            found: Mutex::default(),
            seen: Mutex::default(),
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// What the statements are told in place of the server's clock.
    pub(crate) fn clock_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(Clock::read)
    }

    /// The server's clock, as an answer tells it; a clock in its place is nobody's reference.
    pub(crate) fn reference_ms(&self, row: &Row) -> Result<Option<i64>, Outage> {
        if self.clock.is_some() { Ok(None) } else { row::get(row, "now_ms").map(Some) }
    }

    /// The session of the moment, or a new one.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<Arc<Ready>, Fault> {
        if let Some(ready) = self.usable() {
            return Ok(ready);
        }
        let _turn = self.connecting.lock().await;
        // Somebody else may have made it meanwhile.
        if let Some(ready) = self.usable() {
            return Ok(ready);
        }
        let seen = *lock(&self.seen);
        let (session, facts) = session::connect(&self.address, seen, limit).await?;
        let kind = schema::look(&session, &self.address.schema).await?;
        if let Some(error) = OpenError::of_kind(kind, &self.address) {
            return Err(Fault::tell(Outage::unavailable(error.to_string())));
        }
        let statements = session.prepare(&self.texts).await?;
        let ready = Arc::new(Ready { session, statements });
        self.look_over(&ready, facts, seen).await?;
        *lock(&self.seen) = Some(facts);
        *lock(&self.current) = Some(Arc::clone(&ready));
        Ok(ready)
    }

    fn usable(&self) -> Option<Arc<Ready>> {
        lock(&self.current).as_ref().filter(|ready| !ready.session.is_over()).cloned()
    }

    /// Has the next call make another session.
    pub(crate) fn discard(&self, ready: &Ready) {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|held| std::ptr::eq(&raw const **held, ready)) {
            *current = None;
        }
    }

    /// Has the next call make another session, whichever there is: it leads elsewhere now.
    pub(crate) fn forget(&self) {
        *lock(&self.current) = None;
    }

    /// A holder knew more than the store, which is in quarantine since.
    pub(crate) fn rolled_back(&self, floor: Tick) {
        self.event(format!(
            "a holder knew a later state of its lease than the store: it was put back to an older \
             state; {}",
            quarantined(floor)
        ));
    }

    /// Whether this is the store that it was: the same history of the same cluster, and not an
    /// older state of it.
    async fn look_over(
        &self,
        ready: &Ready,
        facts: Facts,
        seen: Option<Facts>,
    ) -> Result<(), Fault> {
        let look = self.look(ready).await?;
        let recorded = format!("SELECT system_id, timeline FROM {}.meta", self.address.schema);
        let row = one(ready.session.query(&recorded).await?, &self.address)?;
        let system_id: i64 = row::get(&row, "system_id").map_err(Fault::tell)?;
        let timeline: i64 = row::get(&row, "timeline").map_err(Fault::tell)?;
        self.describe(facts);
        if (system_id, timeline) != (facts.system_id, facts.timeline) {
            let what = if system_id == facts.system_id {
                format!(
                    "PostgreSQL goes on from timeline {timeline} on timeline {}: a standby was \
                     promoted or a backup restored",
                    facts.timeline
                )
            } else {
                "the store was moved to another PostgreSQL cluster".to_owned()
            };
            let raise = |at_least| sql::follow_lineage(&self.address.schema, at_least);
            if let Some(floor) = self.quarantine(ready, &look, raise).await? {
                self.event(format!("{what}; {}", quarantined(floor)));
            }
            // What may have been forgotten is waited for now, however silent the pulse.
            return Ok(());
        }
        if let Some(seen) = seen
            && facts.is_behind(seen)
        {
            let raise = |at_least| sql::raise_floor(&self.address.schema, at_least);
            if let Some(floor) = self.quarantine(ready, &look, raise).await? {
                self.event(format!(
                    "PostgreSQL at {} is on timeline {}, and was on {} before: it is an older \
                     copy, or a primary that was left behind; if it is the latter, stop it now; \
                     {}",
                    ready.session.server,
                    facts.timeline,
                    seen.timeline,
                    quarantined(floor)
                ));
            }
            return Ok(());
        }
        self.take_pulse(ready, &look).await
    }

    fn describe(&self, facts: Facts) {
        let mut found = lock(&self.found);
        found.server.clear();
        if !facts.fsync {
            found.server.push(
                "PostgreSQL runs with fsync off: a loss of power loses leases and ids repeat; set \
                 fsync = on"
                    .to_owned(),
            );
        }
    }

    async fn look(&self, ready: &Ready) -> Result<Look, Fault> {
        // There is no such row: what the store is for is answered all the same.
        let parameters: [&(dyn ToSql + Sync); 2] = [&-1_i64, &self.clock_ms()];
        let rows = ready.session.query_prepared(&ready.statements.look, &parameters).await?;
        Look::read(&one(rows, &self.address)?).map_err(Fault::tell)
    }

    /// Raises the floor past every window that may be forgotten, with the statement made for that
    /// floor; `None`: somebody else has done so.
    async fn quarantine(
        &self,
        ready: &Ready,
        look: &Look,
        raise: impl FnOnce(u64) -> String,
    ) -> Result<Option<Tick>, Fault> {
        let floor = rules::past_every_window(&look.meta, look.now());
        let text = sql::alone(&self.address.schema, &raise(floor.0));
        let floor = ready.session.query_text(&text).await?;
        Ok(floor.and_then(|floor| floor.parse().ok()).map(Tick))
    }

    async fn take_pulse(&self, ready: &Ready, look: &Look) -> Result<(), Fault> {
        let (pulse_ms, now_ms) = self.pulse(ready).await?;
        let verdict = lock(&self.guard).connected(trace(pulse_ms, look), now_ms, os::boot_ns());
        self.act(ready, look, verdict).await.map(drop)
    }

    async fn act(
        &self,
        ready: &Ready,
        look: &Look,
        verdict: Verdict,
    ) -> Result<Option<Duration>, Fault> {
        match verdict {
            Verdict::Trust => Ok(None),
            Verdict::Watch { left, .. } => Ok(Some(left)),
            // The pulse was written by the server's clock, so that clock was set.
            Verdict::Skew { ahead_ms } => {
                self.event(format!(
                    "the clock of PostgreSQL is {ahead_ms} ms ahead of what it was when leases \
                     were granted last: set it"
                ));
                Ok(Some(Duration::ZERO))
            }
            Verdict::Warn { silent } => {
                self.event(format!(
                    "nobody has used the store for {} s: if it was restored from a copy, run \
                     `snowlease store quarantine` now",
                    silent.as_secs()
                ));
                Ok(None)
            }
            Verdict::Quarantine { silent } => {
                let raise = |at_least| sql::raise_floor(&self.address.schema, at_least);
                let floor = self.quarantine(ready, look, raise).await?;
                lock(&self.guard).quarantined();
                if let Some(floor) = floor {
                    self.event(format!(
                        "nobody has used the store for {} s and no holder vouches for it: it may \
                         be an older copy of itself; {}",
                        silent.as_secs(),
                        quarantined(floor)
                    ));
                }
                Ok(None)
            }
        }
    }

    async fn pulse(&self, ready: &Ready) -> Result<(i64, i64), Fault> {
        let clock = self.clock_ms();
        let rows = ready.session.query_prepared(&ready.statements.pulse, &[&clock]).await?;
        let row = one(rows, &self.address)?;
        let read = |column| row::get(&row, column).map_err(Fault::tell);
        Ok((read("pulse_ms")?, read("now_ms")?))
    }

    /// Whether the pulse has to be looked at before anything is granted.
    pub(crate) fn is_watching(&self) -> bool {
        lock(&self.guard).is_watching()
    }

    /// Looks at it. Whether leases may be granted now; if not, for how long not at least.
    pub(crate) async fn watch(&self, ready: &Ready) -> Result<Option<Duration>, Fault> {
        let look = self.look(ready).await?;
        let (pulse_ms, now_ms) = self.pulse(ready).await?;
        let verdict = lock(&self.guard).look(trace(pulse_ms, &look), now_ms, os::boot_ns());
        self.act(ready, &look, verdict).await
    }

    fn event(&self, what: String) {
        let mut found = lock(&self.found);
        if !found.events.contains(&what) {
            found.events.push(what);
        }
    }

    /// What people should know of.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let found = lock(&self.found);
        found.server.iter().chain(&found.events).cloned().collect()
    }
}

impl Session {
    async fn query(&self, text: &str) -> Result<Vec<Row>, Fault> {
        let rows = self.client.query_typed(text, &[]).await;
        rows.map_err(|error| Fault::of_statement(&error, &self.server))
    }

    pub(crate) async fn query_prepared(
        &self,
        statement: &tokio_postgres::Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        let rows = self.client.query(statement, parameters).await;
        rows.map_err(|error| Fault::of_statement(&error, &self.server))
    }

    /// Runs statements of text in one message; answers the first column of the last row shown.
    pub(crate) async fn query_text(&self, text: &str) -> Result<Option<String>, Fault> {
        use tokio_postgres::SimpleQueryMessage;
        let messages = self.client.simple_query(text).await;
        let messages = messages.map_err(|error| Fault::of_statement(&error, &self.server))?;
        // A statement that shows no row ends with the count of none.
        let mut shown = None;
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(_) => shown = None,
                SimpleQueryMessage::Row(row) => shown = row.get(0).map(str::to_owned),
                _ => {}
            }
        }
        Ok(shown)
    }
}

fn trace(pulse_ms: i64, look: &Look) -> Trace {
    Trace { pulse_ms, floor_ms: look.meta.format.unix_ms(look.meta.floor) }
}

fn quarantined(floor: Tick) -> String {
    format!("it is in quarantine and grants again by itself from tick {floor}")
}

/// The row about the store.
pub(crate) fn one(rows: Vec<Row>, address: &Address) -> Result<Row, Fault> {
    rows.into_iter().next().ok_or_else(|| {
        let error = OpenError::NoMeta { address: address.to_string() };
        Fault::tell(Outage::unavailable(error.to_string()))
    })
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("address", &self.address)
            .field("connected", &self.usable().is_some())
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single assignment after all that could fail.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kind {
    pub(crate) fn is_usable(self) -> bool {
        self == Kind::Ours(schema::VERSION)
    }
}
