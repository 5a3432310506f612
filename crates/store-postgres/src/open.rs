//! Opening and making a store: everything is checked before anything is granted.

use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::guard::{PulseGuard, RollbackGuard};
use snowlease_lease::range::{check_range, default_range};
use snowlease_lease::{Outage, PlanHash, Realm, Terms};
use tokio_postgres::types::Type;

use crate::Clock;
use crate::address::Address;
use crate::error::OpenError;
use crate::fault::Fault;
use crate::link::{Call, Link};
use crate::row::number;
use crate::schema::{self, Kind};
use crate::session::Session;
use crate::shared::Shared;
use crate::store::PostgresStore;

/// Making a store of a million generator ids may take as long.
const PATIENCE: Duration = Duration::from_mins(2);

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Open {
    /// The format it has to have; `None` takes what is stored.
    pub format: Option<Format>,
    /// The generator ids it has to have, first and last; `None` takes what is stored.
    pub range: Option<(u64, u64)>,
    /// How long a call may take.
    pub attempt: Duration,
    /// The terms that holders of this store renew by: after two renewals without one, the store is
    /// suspected to be an older copy of itself.
    pub terms: Terms,
    /// What to do then.
    pub rollback_guard: RollbackGuard,
    /// In place of the server's clock; for tests.
    pub clock: Option<Clock>,
}

/// What a store is made for.
#[derive(Clone, Debug, Default)]
pub struct Init {
    /// The one format of every id issued under it.
    pub format: Format,
    /// The first and the last generator id; `None`: all of the layout, up to
    /// [`DEFAULT_IDS`](snowlease_lease::range::DEFAULT_IDS).
    pub range: Option<(u64, u64)>,
    /// The region its generator ids are for, for people.
    pub region: String,
    /// Where it belongs.
    pub realm: Realm,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What a person should know of; also in the store's status.
    pub alarms: Vec<String>,
}

/// What `init` has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// The store was made.
    Made,
    /// It was there and is up to date.
    UpToDate,
}

impl Default for Open {
    /// Opens an existing store whatever it is for, by the server's clock.
    fn default() -> Open {
        Open {
            format: None,
            range: None,
            attempt: Terms::DEFAULT.attempt(),
            terms: Terms::DEFAULT,
            rollback_guard: RollbackGuard::Enforce,
            clock: None,
        }
    }
}

impl PostgresStore {
    /// Opens a store that was made by [`init`](Self::init).
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(address: &Address, how: &Open) -> Result<(PostgresStore, Opened), OpenError> {
        let link = start(address, how)?;
        let kind = link.call::<_, OpenError, _>(|call| async move {
            let (_, kind) = bare(&call).await?;
            Ok(kind)
        })?;
        if let Some(error) = OpenError::of_kind(kind, address) {
            return Err(error);
        }
        let store = PostgresStore::over(link)?;
        let meta = store.meta();
        if let Some(given) = how.format
            && given != meta.format
        {
            return Err(OpenError::Format { stored: meta.format, given });
        }
        if let Some(given) = how.range
            && given != meta.range
        {
            return Err(OpenError::Range { stored: meta.range, given });
        }
        let alarms = store.link.shared.alarms();
        Ok((store, Opened { alarms }))
    }

    /// Makes the store in its schema, which is made too if it is missing. A store that is there
    /// already is left as it is, if it is for the same.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. Nothing was changed then, or all of it if its outcome is unknown: look
    /// again.
    pub fn init(address: &Address, what: &Init) -> Result<Initialised, OpenError> {
        let range = what.range.unwrap_or_else(|| default_range(what.format));
        check_range(what.format, range)?;
        let link = start(address, &Open { attempt: PATIENCE, ..Open::default() })?;
        let init = Init { range: Some(range), ..what.clone() };
        let made = link.call(|call| async move { make(&call, &init, range).await })?;
        if made == Initialised::UpToDate {
            let same = Open { format: Some(what.format), range: what.range, ..Open::default() };
            PostgresStore::open(address, &same)?;
        }
        Ok(made)
    }
}

fn start(address: &Address, how: &Open) -> Result<Link, OpenError> {
    let guard = PulseGuard::new(how.rollback_guard, how.terms);
    let shared = Shared::new(address.clone(), how.clock.clone(), guard);
    Link::start(shared, how.attempt).map_err(|error| OpenError::Thread(error.to_string()))
}

/// A session, and what its schema holds.
async fn bare(call: &Call) -> Result<(Session, Kind), Outage> {
    let session = call.bare().await?;
    let kind = schema::look(&session, &call.shared.address.schema).await;
    Ok((session, kind.map_err(|fault| fault.outage)?))
}

async fn make(call: &Call, init: &Init, range: (u64, u64)) -> Result<Initialised, OpenError> {
    let address = &call.shared.address;
    let (mut session, kind) = bare(call).await?;
    match kind {
        Kind::Missing => {}
        kind => {
            return match OpenError::of_kind(kind, address) {
                // There is no older version than the first one yet.
                Some(error) => Err(error),
                None => Ok(Initialised::UpToDate),
            };
        }
    }
    let server = session.server.clone();
    match fill(&mut session, call, init, range).await {
        Ok(()) => Ok(Initialised::Made),
        Err(error) => {
            // Somebody else may have made it at the same time.
            let (_, kind) = bare(call).await?;
            if kind.is_usable() {
                return Ok(Initialised::UpToDate);
            }
            Err(Fault::of_statement(&error, &server).outage.into())
        }
    }
}

/// Makes everything in one transaction.
async fn fill(
    session: &mut Session,
    call: &Call,
    init: &Init,
    (first, last): (u64, u64),
) -> Result<(), tokio_postgres::Error> {
    let schema = &call.shared.address.schema;
    let transaction = session.client.transaction().await?;
    transaction.batch_execute("SET LOCAL synchronous_commit = on").await?;
    let known = transaction
        .query_typed(
            "SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1",
            &[(&schema.to_string(), Type::NAME)],
        )
        .await?;
    if known.is_empty() {
        transaction.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    transaction.batch_execute(&schema::create(schema)).await?;
    let [meta, cells] = schema::fill(schema);
    let format = init.format;
    let fingerprint = format.fingerprint().cast_signed();
    let plan = init.realm.plan().map(PlanHash::to_text);
    transaction
        .query_typed(
            &meta,
            &[
                (&format.layout().to_string(), Type::TEXT),
                (&i64::from(format.tick_ms()), Type::INT8),
                (&format.epoch_ms(), Type::INT8),
                (&fingerprint, Type::INT8),
                (&number(first), Type::INT8),
                (&number(last), Type::INT8),
                (&init.region, Type::TEXT),
                (&init.realm.environment(), Type::TEXT),
                (&plan, Type::TEXT),
            ],
        )
        .await?;
    transaction
        .query_typed(
            &cells,
            &[
                (&number(first), Type::INT8),
                (&number(last), Type::INT8),
                (&fingerprint, Type::INT8),
            ],
        )
        .await?;
    transaction.batch_execute(&format!("ANALYZE {schema}.cells")).await?;
    transaction.commit().await
}
