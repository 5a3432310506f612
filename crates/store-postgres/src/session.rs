//! One connection to the primary: made ready, with every statement prepared, and watched.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use snowlease_lease::Outage;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Connection, Socket, Statement};

use crate::address::{Address, Server};
use crate::fault::{Fault, Remedy};
use crate::schema::{SYSTEM_ID, TIMELINE};
use crate::sql::Texts;
use crate::tls::{Stream, Tls};

/// The oldest version of PostgreSQL, as it numbers itself.
const OLDEST: i32 = 15_00_00;

/// What of a session differs from server to server, and must not. Nothing that a grant rests on is
/// left to these: the statements see to that themselves.
const SETTINGS: &str = "
    SET statement_timeout = 0;
    SET idle_session_timeout = 0;
    SET default_transaction_isolation = 'read committed';
    SET timezone = 'UTC';
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
    SET plan_cache_mode = 'force_generic_plan'";

/// An open connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Where it leads, for people.
    pub(crate) server: String,
    tls: Tls,
    /// The server has said that a commit may not have reached its standby.
    doubtful: Arc<AtomicBool>,
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) system_id: i64,
    pub(crate) timeline: i64,
    /// Whether commits are synced.
    pub(crate) fsync: bool,
}

/// Every statement, prepared.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) grant: Statement,
    pub(crate) confirm: Statement,
    pub(crate) renew: Statement,
    pub(crate) release: Statement,
    pub(crate) drain: Statement,
    pub(crate) look: Statement,
    pub(crate) pool: Statement,
    pub(crate) pulse: Statement,
    pub(crate) longer: Statement,
    pub(crate) list: Statement,
}

/// Connects to the first server that is a primary, and to none that goes back behind the lineage
/// that was seen: it is a primary that was left behind, and the one that took its place may grant
/// the same. If there is no primary, this is told, or else the first reason that nothing but a
/// person can remove, or else the last one.
pub(crate) async fn connect(
    address: &Address,
    seen: Option<Facts>,
    limit: Duration,
) -> Result<(Session, Facts), Fault> {
    let each = limit / u32::try_from(address.servers.len()).unwrap_or(1).max(1);
    let (mut told, mut behind): (Option<Fault>, Option<Fault>) = (None, None);
    for server in &address.servers {
        let fault = match timeout(each, one(address, server, limit)).await {
            Ok(Ok((session, facts))) => match seen.filter(|seen| facts.is_behind(*seen)) {
                None => return Ok((session, facts)),
                Some(seen) => {
                    behind = Some(left_behind(server, facts, seen));
                    continue;
                }
            },
            Ok(Err(fault)) => fault,
            Err(_) => Fault {
                outage: Outage::unavailable(format!(
                    "PostgreSQL at {} does not answer: check that it runs and that the network \
                     lets us through",
                    server.name
                )),
                remedy: Remedy::Again,
            },
        };
        if told.as_ref().is_none_or(|told| told.remedy == Remedy::Again) {
            told = Some(fault);
        }
    }
    Err(behind
        .or(told)
        .unwrap_or_else(|| Fault::tell(Outage::unavailable("the URL names no server"))))
}

fn left_behind(server: &Server, facts: Facts, seen: Facts) -> Fault {
    Fault::tell(Outage::unavailable(format!(
        "PostgreSQL at {} is on timeline {}, and timeline {} of this cluster was seen: stop this \
         server; or, if it was restored on purpose, tell the store with `snowlease store \
         quarantine` and restart this process; nothing was changed",
        server.name, facts.timeline, seen.timeline
    )))
}

impl Facts {
    /// Whether this is an earlier history of the same cluster.
    pub(crate) fn is_behind(self, seen: Facts) -> bool {
        self.system_id == seen.system_id && self.timeline < seen.timeline
    }
}

async fn one(
    address: &Address,
    server: &Server,
    limit: Duration,
) -> Result<(Session, Facts), Fault> {
    let tls = Tls::new(server.encryption, address.roots.as_deref())
        .map_err(|error| Fault::tell(Outage::unavailable(error)))?;
    let mut config = server.config.clone();
    // A peer that has gone without a word is noticed in seconds, also while nothing is asked.
    config.keepalives(true).keepalives_idle(Duration::from_secs(2));
    config.keepalives_interval(Duration::from_secs(1)).keepalives_retries(3);
    config.tcp_user_timeout(limit.max(Duration::from_secs(1)));
    let (client, connection) = config
        .connect(tls.clone())
        .await
        .map_err(|error| Fault::of_connecting(&error, &server.name))?;
    let doubtful = Arc::new(AtomicBool::new(false));
    tokio::spawn(listen(connection, Arc::clone(&doubtful)));
    let session = Session { client, server: server.name.clone(), tls, doubtful };
    let facts = session.make_ready().await?;
    Ok((session, facts))
}

/// Drives a connection to its end.
async fn listen(mut connection: Connection<Socket, Stream<Socket>>, doubtful: Arc<AtomicBool>) {
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        // The text may be in any language, the place in the server's source is not. It is said
        // before the end of the statement that it is about, and so heard before that.
        if let AsyncMessage::Notice(notice) = message
            && notice.routine() == Some("SyncRepWaitForLSN")
        {
            // ORDERING: Release, with the Acquire in `Session::is_doubtful`; the end of the
            // statement is passed on by a channel after this anyway.
            doubtful.store(true, Ordering::Release);
        }
    }
}

impl Session {
    async fn make_ready(&self) -> Result<Facts, Fault> {
        let fault = |error| Fault::of_connecting(&error, &self.server);
        let version = self
            .client
            .query_typed(
                "SELECT pg_catalog.current_setting('server_version_num')::integer, \
                 pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('fsync') = 'on'",
                &[],
            )
            .await
            .map_err(fault)?;
        let Some(row) = version.first() else { return Err(self.unreadable()) };
        let (version, standby, fsync): (i32, bool, bool) = (
            row.try_get(0).map_err(fault)?,
            row.try_get(1).map_err(fault)?,
            row.try_get(2).map_err(fault)?,
        );
        if version < OLDEST {
            return Err(Fault::tell(Outage::unavailable(format!(
                "PostgreSQL at {} is version {}: the store needs 15 or later",
                self.server,
                version / 10_000
            ))));
        }
        if standby {
            return Err(Fault {
                outage: Outage::unavailable(format!(
                    "PostgreSQL at {} is a standby and grants nothing: name the primary in the \
                     store's URL, or all servers as HOST,HOST",
                    self.server
                )),
                remedy: Remedy::Again,
            });
        }
        self.client.batch_execute(SETTINGS).await.map_err(fault)?;
        let lineage = format!("SELECT {SYSTEM_ID}, {TIMELINE}");
        let rows = self.client.query_typed(&lineage, &[]).await.map_err(fault)?;
        let Some(row) = rows.first() else { return Err(self.unreadable()) };
        let (system_id, timeline) =
            (row.try_get(0).map_err(fault)?, row.try_get(1).map_err(fault)?);
        Ok(Facts { system_id, timeline, fsync })
    }

    fn unreadable(&self) -> Fault {
        Fault::tell(Outage::unavailable(format!(
            "PostgreSQL at {} answers nothing to a question: is it PostgreSQL?",
            self.server
        )))
    }

    /// Prepares all statements in one round trip.
    pub(crate) async fn prepare(&self, texts: &Texts) -> Result<Statements, Fault> {
        let prepare = |text| self.client.prepare(text);
        let first = async {
            tokio::try_join!(
                prepare(&texts.grant),
                prepare(&texts.confirm),
                prepare(&texts.renew),
                prepare(&texts.release),
                prepare(&texts.drain),
            )
        };
        let second = async {
            tokio::try_join!(
                prepare(&texts.look),
                prepare(&texts.pool),
                prepare(&texts.pulse),
                prepare(&texts.longer),
                prepare(&texts.list),
            )
        };
        let ((grant, confirm, renew, release, drain), (look, pool, pulse, longer, list)) =
            tokio::try_join!(first, second)
                .map_err(|error| Fault::of_statement(&error, &self.server))?;
        Ok(Statements { grant, confirm, renew, release, drain, look, pool, pulse, longer, list })
    }

    /// Whether it can be used no more: it was cut, or what was committed over it is in doubt.
    pub(crate) fn is_over(&self) -> bool {
        self.client.is_closed() || self.is_doubtful()
    }

    /// Whether the server has given up waiting for its synchronous standby.
    pub(crate) fn is_doubtful(&self) -> bool {
        // ORDERING: Acquire, with the Release in `listen`.
        self.doubtful.load(Ordering::Acquire)
    }

    /// Has the server stop what it does for us, if it can be reached; waits for nothing.
    pub(crate) fn cancel(&self) {
        let (token, tls) = (self.client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            // A server that cannot be told ends the statement by itself, sooner or later.
            drop(timeout(Duration::from_secs(1), token.cancel_query(tls)).await);
        });
    }
}
