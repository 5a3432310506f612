//! What all calls share: the session of the moment, and what was found when it was made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use snowlease_core::Tick;
use snowlease_lease::guard::{PulseGuard, Trace, Verdict};
use snowlease_lease::{Outage, os, rules};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::Clock;
use crate::address::Address;
use crate::error::OpenError;
use crate::fault::{Fault, Remedy};
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
    /// The latest history that a session had: it is never gone back behind.
    seen: Mutex<Option<Facts>>,
    /// The floor that a holder has shown to be needed, until it is written.
    owed: Mutex<Option<Tick>>,
    current: Mutex<Option<Arc<Ready>>>,
    /// Held by whoever makes the next session.
    connecting: tokio::sync::Mutex<()>,
    /// Held by whoever writes the floor that is owed.
    pub(crate) settling: tokio::sync::Mutex<()>,
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
    /// What has happened since the store was opened, the last of each kind.
    events: BTreeMap<Event, String>,
}

/// What a person is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The store goes on elsewhere.
    Lineage,
    /// A holder knew more.
    RolledBack,
    /// Nobody has used the store for long.
    Silence,
    /// The server's clock was set.
    Skew,
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
            owed: Mutex::default(),
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            settling: tokio::sync::Mutex::default(),
        }
    }

    /// What the statements are told in place of the server's clock.
    pub(crate) fn clock_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock())
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
        self.look_over(&ready, facts, limit).await?;
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

    /// Whether a statement may have changed nothing because of the session that it was sent over.
    pub(crate) fn judge_session(&self, look: &Look) -> Result<(), Outage> {
        if look.fresh {
            return Ok(());
        }
        Err(Outage::unavailable(format!(
            "a pooler gives out sessions of another isolation than read committed, in which a \
             grant does not see a freeze or quarantine that it had to wait for: run `{}` and have \
             the pooler connect anew (PgBouncer: RECONNECT); nothing was changed",
            self.address.isolation()
        )))
    }

    /// A holder knows more than the store: nothing is granted or renewed before this floor is
    /// written.
    pub(crate) fn owe(&self, floor: Tick) {
        let mut owed = lock(&self.owed);
        *owed = (*owed).max(Some(floor));
    }

    /// The floor that is to be written.
    pub(crate) fn owed(&self) -> Option<Tick> {
        *lock(&self.owed)
    }

    /// A holder knew more than the store, which is in quarantine since.
    pub(crate) fn settled(&self, owed: Tick, floor: Tick) {
        let mut still = lock(&self.owed);
        // A higher one may have come meanwhile.
        if still.is_some_and(|still| still <= owed) {
            *still = None;
        }
        drop(still);
        self.event(Event::RolledBack, format!(
            "a holder knew a later state of its lease than the store: it was put back to an older \
             state; {}",
            quarantined(floor)
        ));
    }

    /// Whether this is the store that it was: the same history of the same cluster, and not an
    /// older state of it.
    async fn look_over(&self, ready: &Ready, facts: Facts, limit: Duration) -> Result<(), Fault> {
        let look = self.look(ready).await?;
        let schema = &self.address.schema;
        let recorded = format!(
            "SELECT system_id, timeline, cells_oid = {} AS same_table FROM {schema}.meta",
            schema::cells_oid(schema)
        );
        let row = one(ready.session.query(&recorded).await?, &self.address)?;
        let system_id: i64 = row::get(&row, "system_id").map_err(Fault::tell)?;
        let timeline: i64 = row::get(&row, "timeline").map_err(Fault::tell)?;
        let same_table: bool = row::get(&row, "same_table").map_err(Fault::tell)?;
        self.describe(facts);
        let same_cluster = system_id == facts.system_id;
        if !same_cluster || timeline != facts.timeline || !same_table {
            let what = if same_cluster && timeline == facts.timeline {
                "the store's tables were made anew: they were restored from a dump".to_owned()
            } else if same_cluster {
                format!(
                    "PostgreSQL goes on from timeline {timeline} on timeline {}: a standby was \
                     promoted or a backup restored",
                    facts.timeline
                )
            } else {
                "the store was moved to another PostgreSQL cluster".to_owned()
            };
            let raise = |at_least| sql::follow_lineage(&self.address.schema, at_least);
            if let Some(floor) = self.quarantine(ready, &look, limit, raise).await? {
                self.event(Event::Lineage, format!("{what}; {}", quarantined(floor)));
            }
            // What may have been forgotten is waited for now, however silent the pulse.
            return Ok(());
        }
        self.take_pulse(ready, &look, limit).await
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
        limit: Duration,
        raise: impl FnOnce(u64) -> String,
    ) -> Result<Option<Tick>, Fault> {
        let floor = rules::past_every_window(&look.meta, look.now());
        let (change, begun_ns) = (raise(floor.0), os::boot_ns());
        let left =
            || limit.saturating_sub(Duration::from_nanos(os::boot_ns().saturating_sub(begun_ns)));
        let mut tried = 0;
        loop {
            let wait = sql::lock_wait(tried, left()).unwrap_or(sql::LOCK_WAIT);
            let text = sql::alone(&self.address.schema, &change, wait);
            tried += 1;
            match ready.session.query_text(&text).await {
                Ok(floor) => return Ok(floor.and_then(|floor| floor.parse().ok()).map(Tick)),
                Err(fault)
                    if fault.remedy == Remedy::Again && sql::lock_wait(tried, left()).is_some() => {
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    async fn take_pulse(&self, ready: &Ready, look: &Look, limit: Duration) -> Result<(), Fault> {
        let (pulse_ms, now_ms) = self.pulse(ready).await?;
        let verdict = lock(&self.guard).connected(trace(pulse_ms, look), now_ms, os::boot_ns());
        self.act(ready, look, limit, verdict).await.map(drop)
    }

    async fn act(
        &self,
        ready: &Ready,
        look: &Look,
        limit: Duration,
        verdict: Verdict,
    ) -> Result<Option<Duration>, Fault> {
        match verdict {
            Verdict::Trust => Ok(None),
            Verdict::Watch { left, .. } => Ok(Some(left)),
            // The pulse was written by the server's clock, so that clock was set.
            Verdict::Skew { ahead_ms } => {
                self.event(
                    Event::Skew,
                    format!(
                        "the clock of PostgreSQL is {ahead_ms} ms ahead of what it was when leases \
                     were granted last: set it"
                    ),
                );
                Ok(Some(Duration::ZERO))
            }
            Verdict::Warn { silent } => {
                self.event(
                    Event::Silence,
                    format!(
                        "nobody has used the store for {} s: if it was restored from a copy, run \
                     `snowlease store quarantine` now",
                        silent.as_secs()
                    ),
                );
                Ok(None)
            }
            Verdict::Quarantine { silent } => {
                let raise = |at_least| sql::raise_floor(&self.address.schema, at_least);
                let floor = self.quarantine(ready, look, limit, raise).await?;
                lock(&self.guard).quarantined();
                if let Some(floor) = floor {
                    self.event(Event::Silence, format!(
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
    pub(crate) async fn watch(
        &self,
        ready: &Ready,
        limit: Duration,
    ) -> Result<Option<Duration>, Fault> {
        let look = self.look(ready).await?;
        let (pulse_ms, now_ms) = self.pulse(ready).await?;
        let verdict = lock(&self.guard).look(trace(pulse_ms, &look), now_ms, os::boot_ns());
        self.act(ready, &look, limit, verdict).await
    }

    fn event(&self, kind: Event, what: String) {
        lock(&self.found).events.insert(kind, what);
    }

    /// What people should know of.
    pub(crate) fn alarms(&self) -> Vec<String> {
        let found = lock(&self.found);
        found.server.iter().chain(found.events.values()).cloned().collect()
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
