//! From a blocking call to the connection and back, in the time of one attempt.
//!
//! The connection and its timers live on one thread of their own. Any number of threads may call at
//! once: their statements go down the connection one behind the other, without waiting for answers.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use snowlease_core::Tick;
use snowlease_lease::{Outage, os};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::fault::{Fault, Remedy};
use crate::session::{self, Session, Statements};
use crate::shared::{Ready, Shared};
use crate::sql;

/// The first and the longest pause before the same is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(250));

/// How long one of many asks waits for a row that another session holds.
const ROW_WAIT: Duration = Duration::from_millis(200);

/// The thread with the connection, as the callers see it.
pub(crate) struct Link {
    handle: Handle,
    pub(crate) shared: Arc<Shared>,
    pub(crate) attempt: Duration,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

/// One call, on its way.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    begun_ns: u64,
    attempt: Duration,
    sent: Arc<Mutex<Sent>>,
    /// Until when it waits for rows that another session holds, on the clock of `begun_ns`;
    /// `None`: as long as it lasts.
    rows_until_ns: Option<u64>,
    /// What was in the way the last time.
    trouble: Arc<Mutex<Option<Outage>>>,
}

/// Statements of a call whose outcomes are not known yet.
#[derive(Debug, Default)]
struct Sent {
    count: usize,
    /// Where the last one was sent.
    over: Option<Arc<Ready>>,
}

impl Link {
    /// Starts the thread.
    pub(crate) fn start(shared: Shared, attempt: Duration) -> std::io::Result<Link> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("snowlease-postgres".to_owned()).spawn(move || {
            // Dropped on its own thread, the runtime may wait as it likes.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Link { handle, shared: Arc::new(shared), attempt, _stop: stop })
    }

    /// Does something with the connection, and is back within one attempt.
    pub(crate) fn call<T, E, F>(&self, what: impl FnOnce(Call) -> F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Outage> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.call_within(self.attempt, what)
    }

    /// The same with another limit.
    pub(crate) fn call_within<T, E, F>(
        &self,
        attempt: Duration,
        what: impl FnOnce(Call) -> F,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Outage> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let call = Call {
            shared: Arc::clone(&self.shared),
            begun_ns: os::boot_ns(),
            attempt,
            rows_until_ns: None,
            sent: Arc::default(),
            trouble: Arc::default(),
        };
        let work = what(call.clone());
        let (answer, answered) = sync_channel(1);
        let limited = call.clone();
        let task = self.handle.spawn(async move {
            // A little less than the caller waits, so that it hears why.
            let result = match timeout(attempt - attempt / 16, work).await {
                Ok(result) => result,
                Err(_) => Err(E::from(limited.give_up())),
            };
            drop(answer.send(result));
        });
        match answered.recv_timeout(attempt) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                task.abort();
                Err(call.expired().into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(call.expired().into()),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl Call {
    /// The connection, made and looked over if there is none; waits for it as long as the attempt
    /// lasts.
    pub(crate) async fn ready(&self) -> Result<Arc<Ready>, Outage> {
        let mut pause = Call::first_pause();
        loop {
            match self.shared.ready(self.left()).await {
                Ok(ready) => return Ok(ready),
                Err(fault) => self.hope(fault, &mut pause).await?,
            }
        }
    }

    /// A connection of its own, to a server that may have no store yet.
    pub(crate) async fn bare(&self) -> Result<Session, Outage> {
        let mut pause = Call::first_pause();
        loop {
            match session::connect(&self.shared.address, None, self.left()).await {
                Ok((session, _)) => return Ok(session),
                Err(fault) => self.hope(fault, &mut pause).await?,
            }
        }
    }

    /// Waits for better times, if there is any hope of them within the attempt.
    async fn hope(&self, fault: Fault, pause: &mut Duration) -> Result<(), Outage> {
        let hopeless = !matches!(fault.remedy, Remedy::Again | Remedy::Reconnect);
        if hopeless {
            return Err(fault.outage);
        }
        self.note(fault.outage);
        self.pause(pause).await
    }

    /// Runs a statement. Its outcome is known when this returns, or the error says that it is not.
    pub(crate) async fn run(
        &self,
        pick: fn(&Statements) -> &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Fault> {
        let ready = self.begin().await?;
        let answer = ready.session.query_prepared(pick(&ready.statements), parameters).await;
        self.end(&ready, answer)
    }

    /// Runs statements of text in one message; answers the first column of the last row shown.
    pub(crate) async fn run_text(&self, text: &str) -> Result<Option<String>, Fault> {
        let ready = self.begin().await?;
        let answer = ready.session.query_text(text).await;
        self.end(&ready, answer)
    }

    /// Whether leases may be granted now; if not, for how long not at least.
    pub(crate) async fn watch(&self) -> Result<Option<Duration>, Fault> {
        if !self.shared.is_watching() {
            return Ok(None);
        }
        let ready = self.begin().await?;
        let answer = self.shared.watch(&ready, self.left()).await;
        self.end(&ready, answer)
    }

    /// Writes the floor that a holder has shown to be needed, if it is not written yet: nothing is
    /// granted or renewed before. Answers the floor then in force.
    pub(crate) async fn settle(&self) -> Result<Option<Tick>, Outage> {
        if self.shared.owed().is_none() {
            return Ok(None);
        }
        let _turn = self.shared.settling.lock().await;
        // Somebody else may have written it meanwhile.
        let Some(owed) = self.shared.owed() else { return Ok(None) };
        let schema = &self.shared.address.schema;
        let floor = self.alone(&sql::raise_floor(schema, owed.0)).await?;
        let floor = floor.and_then(|floor| floor.parse().ok()).map(Tick).ok_or_else(|| {
            Outage::unknown("the quarantine of the store was not answered: ask again")
        })?;
        self.shared.settled(owed, floor);
        Ok(Some(floor))
    }

    /// Something is about to be sent.
    async fn begin(&self) -> Result<Arc<Ready>, Fault> {
        let ready = self.ready().await.map_err(Fault::tell)?;
        let mut sent = self.sent();
        sent.count += 1;
        sent.over = Some(Arc::clone(&ready));
        drop(sent);
        Ok(ready)
    }

    /// It has ended; whether that may be believed.
    fn end<T>(&self, ready: &Ready, answer: Result<T, Fault>) -> Result<T, Fault> {
        self.sent().count -= 1;
        let session = &ready.session;
        if session.is_doubtful() {
            return Err(Fault::tell(Outage::unknown(format!(
                "PostgreSQL at {} stopped waiting for its synchronous standby, so what it \
                 committed might be lost with it: ask again with the same secrets, and look after \
                 the standby",
                session.server
            ))));
        }
        answer.inspect_err(|fault| {
            if fault.remedy == Remedy::Reconnect || fault.outage.unknown {
                self.shared.discard(ready);
            }
        })
    }

    /// Whether the same may be tried again; if not, what to tell.
    pub(crate) fn again(&self, fault: Fault) -> Result<(), Outage> {
        if fault.remedy == Remedy::Tell {
            return Err(fault.outage);
        }
        self.note(fault.outage);
        Ok(())
    }

    /// Runs a statement until it has run, or nothing helps.
    pub(crate) async fn rows(
        &self,
        pick: fn(&Statements) -> &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Outage> {
        let mut pause = Call::first_pause();
        loop {
            match self.run(pick, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(fault) => self.again(fault)?,
            }
            self.pause(&mut pause).await?;
        }
    }

    /// As [`rows`](Self::rows), for a change of the store as a whole.
    pub(crate) async fn alone(&self, change: &str) -> Result<Option<String>, Outage> {
        let mut pause = Call::first_pause();
        // The session first, so that its making takes no time from the waiting.
        self.ready().await?;
        for tried in 0.. {
            let Some(wait) = sql::lock_wait(tried, self.left()) else { break };
            let text = sql::alone(&self.shared.address.schema, change, wait);
            match self.run_text(&text).await {
                Ok(shown) => return Ok(shown),
                Err(fault) => self.again(fault)?,
            }
            self.pause(&mut pause).await?;
        }
        Err(self.trouble())
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits a little before the same is tried again, longer each time, and not at the same times
    /// as others. What would be begun too late to end in time is not begun: its outcome would
    /// not be known.
    pub(crate) async fn pause(&self, pause: &mut Duration) -> Result<(), Outage> {
        let spread = u32::try_from(os::boot_ns() % 64).unwrap_or(0);
        let time = *pause / 128 * (64 + spread);
        if self.left() < time + *pause {
            return Err(self.trouble());
        }
        sleep(time).await;
        *pause = (*pause * 2).min(PAUSES.1);
        Ok(())
    }

    /// The same for a row that another session holds, or that was changed just now.
    pub(crate) async fn pause_for_row(&self, pause: &mut Duration) -> Result<(), Outage> {
        if self.rows_until_ns.is_some_and(|until_ns| os::boot_ns() >= until_ns) {
            return Err(self.trouble());
        }
        self.pause(pause).await
    }

    /// The same call, which waits for rows that others hold for a moment only.
    pub(crate) fn hurried(&self) -> Call {
        let share = u64::try_from(ROW_WAIT.as_nanos()).unwrap_or(u64::MAX);
        Call { rows_until_ns: Some(os::boot_ns().saturating_add(share)), ..self.clone() }
    }

    /// The same call for one of many asks, with what is in the way of that one.
    pub(crate) fn apart(&self) -> Call {
        Call { trouble: Arc::default(), ..self.clone() }
    }

    /// The first pause.
    pub(crate) fn first_pause() -> Duration {
        PAUSES.0
    }

    /// How long ago it began, in ms.
    pub(crate) fn age_ms(&self) -> i64 {
        i64::try_from(self.age().as_millis()).unwrap_or(i64::MAX)
    }

    fn age(&self) -> Duration {
        Duration::from_nanos(os::boot_ns().saturating_sub(self.begun_ns))
    }

    /// What is left of the attempt.
    pub(crate) fn left(&self) -> Duration {
        (self.attempt - self.attempt / 16).saturating_sub(self.age())
    }

    /// Keeps what was in the way, to be told when the time is over.
    pub(crate) fn note(&self, outage: Outage) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(outage);
    }

    /// The time is over. What the server still does for us is of no use to anyone, and a connection
    /// that answers nothing is not used again.
    fn give_up(&self) -> Outage {
        let sent = self.sent();
        if let (1.., Some(ready)) = (sent.count, &sent.over) {
            self.shared.discard(ready);
            ready.session.cancel();
        }
        drop(sent);
        self.expired()
    }

    fn expired(&self) -> Outage {
        let ms = self.attempt.as_millis();
        if self.sent().count > 0 {
            return Outage::unknown(format!(
                "PostgreSQL has not answered within {ms} ms: ask again with the same secrets"
            ));
        }
        self.trouble()
    }

    /// What was in the way.
    fn trouble(&self) -> Outage {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        trouble.unwrap_or_else(|| {
            Outage::unavailable(format!(
                "there was no connection to PostgreSQL within {} ms: check that it runs and that \
                 the network lets us through",
                self.attempt.as_millis()
            ))
        })
    }
}
