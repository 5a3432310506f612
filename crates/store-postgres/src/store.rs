//! A store in PostgreSQL, as holders see it.
//!
//! Each operation is first one statement that decides and writes. If that changes nothing, a look
//! at the row and the [`rules`] say why; where they would have had the row changed, it was locked
//! or has changed meanwhile, and the statement is tried again until the attempt is over.

use snowlease_lease::rules;
use snowlease_lease::{
    Acquire, AcquireError, Cell, Grant, LeaseEntry, LeaseStore, Meta, Outage, Release,
    ReleaseError, Renew, RenewError, Renewal, StoreStatus, Token,
};

use crate::each::each;
use crate::grant;
use crate::link::{Call, Link};
use crate::renew;
use crate::row::{self, Look, number};
use crate::shared;

/// A [`LeaseStore`] whose cells are rows of PostgreSQL.
///
/// # Promise
///
/// Every call is back within the attempt that it was opened with. A grant or renewal that was
/// answered is on the disk of the server, and on that of its synchronous standby if there is one.
/// Dropping it ends the connection; it may be dropped anywhere.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) link: Link,
    /// As it was when the store was opened; format and range never change.
    meta: Meta,
}

/// What is to be done after a look.
pub(crate) enum Next<T> {
    /// Give this answer.
    Answer(T),
    /// Try again at once: what was in the way is gone.
    AtOnce,
    /// Try again in a moment: the row is locked, or was changed just now.
    Later,
}

impl PostgresStore {
    /// A store over this connection, which is made now.
    pub(crate) fn over(link: Link) -> Result<PostgresStore, Outage> {
        let look =
            link.call(|call| async move { look(&call, None).await.map(|(look, _)| look) })?;
        Ok(PostgresStore { link, meta: look.meta })
    }

    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn has(&self, generator_id: u64) -> bool {
        (self.meta.range.0..=self.meta.range.1).contains(&generator_id)
    }
}

impl LeaseStore for PostgresStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        let (look, pulse_ms) = self.link.call(|call| async move {
            let (look, _) = look(&call, None).await?;
            let clock = call.shared.clock_ms();
            let rows = call.rows(|all| &all.pulse, &[&clock]).await?;
            let row = shared::one(rows, &call.shared.address).map_err(|fault| fault.outage)?;
            Ok::<_, Outage>((look, row::get(&row, "pulse_ms")?))
        })?;
        let alarms = self.link.shared.alarms();
        let kind = "postgres".to_owned();
        Ok(StoreStatus { kind, meta: look.meta, pulse_ms: Some(pulse_ms), alarms })
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        let ask = ask.clone();
        self.link.call(|call| async move { grant::acquire(&call, &ask).await })
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        if !self.has(ask.generator_id) {
            return Err(RenewError::OutOfRange);
        }
        let (ask, format) = (ask.clone(), self.meta.format);
        self.link.call(|call| async move { renew::renew(&call, format, &ask).await })
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        if !self.has(ask.generator_id) {
            return Err(ReleaseError::OutOfRange);
        }
        let ask = ask.clone();
        self.link.call(|call| async move { release(&call, &ask).await })
    }

    fn acquire_each(&self, asks: &[Acquire]) -> Vec<Result<Grant, AcquireError>> {
        each(&self.link, &self.meta, asks)
    }

    fn renew_each(&self, asks: &[Renew]) -> Vec<Result<Renewal, RenewError>> {
        each(&self.link, &self.meta, asks)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.link.call(|call| async move {
            let rows = call.rows(|all| &all.list, &[&1_i64]).await?;
            rows.iter().map(|row| row::cell(row).map(|(id, cell)| rules::entry(id, cell))).collect()
        })
    }
}

/// What the store is for, and the cell of a generator id of its range.
pub(crate) async fn look(
    call: &Call,
    generator_id: Option<u64>,
) -> Result<(Look, Option<Cell>), Outage> {
    // No row has a negative id: what the store is for is answered all the same.
    let id = generator_id.map_or(-1, number);
    let clock = call.shared.clock_ms();
    let rows = call.rows(|all| &all.look, &[&id, &clock]).await?;
    let row = shared::one(rows, &call.shared.address).map_err(|fault| fault.outage)?;
    let cell = match (generator_id, row::get::<Option<i64>>(&row, "generator_id")?) {
        (None, _) => None,
        (Some(_), Some(_)) => Some(row::cell(&row)?.1),
        (Some(id), None) => return Err(missing(id)),
    };
    Ok((Look::read(&row)?, cell))
}

/// The cell of a generator id of the range.
pub(crate) async fn look_at(call: &Call, generator_id: u64) -> Result<(Look, Cell), Outage> {
    match look(call, Some(generator_id)).await? {
        (look, Some(cell)) => Ok((look, cell)),
        (_, None) => Err(missing(generator_id)),
    }
}

fn missing(generator_id: u64) -> Outage {
    Outage::unavailable(format!(
        "the row of generator id {generator_id} is missing from the table cells: somebody has \
         deleted it, and with it how far its ids were given out; restore the table from a backup, \
         then run `snowlease store quarantine`"
    ))
}

/// What is told if a row stays locked for the whole of an attempt.
pub(crate) fn locked() -> Outage {
    Outage::unavailable(
        "another session holds the row of the lease locked: end its transaction (see \
         pg_stat_activity), and try again",
    )
}

async fn release(call: &Call, ask: &Release) -> Result<(), ReleaseError> {
    let token = ask.token.hash();
    let next = ask.next.as_ref().map_or(token, Token::hash);
    let (token, next) = (token.as_bytes().as_slice(), next.as_bytes().as_slice());
    let (id, seq, unused) = (number(ask.generator_id), number(ask.seq), number(ask.unused_from.0));
    let mut pause = Call::first_pause();
    loop {
        match call.run(|all| &all.release, &[&id, &token, &next, &seq, &unused]).await {
            Ok(rows) if !rows.is_empty() => return Ok(()),
            Ok(_) => {
                let (look, cell) = look_at(call, ask.generator_id).await?;
                rules::release(&cell, ask)?;
                call.shared.judge_session(&look)?;
                call.note(locked());
            }
            Err(fault) => call.again(fault)?,
        }
        call.pause(&mut pause).await?;
    }
}
