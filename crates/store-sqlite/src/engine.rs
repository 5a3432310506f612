//! One transaction after the other, and what becomes of their errors.
//!
//! An error of input or output leaves it open what is on the disk, so it is the end of the session:
//! the engine answers nothing any more until the store is opened anew, which reads the truth. A
//! full disk is no such error, since the log was not extended: the call is refused and later ones
//! may succeed.

use std::path::PathBuf;

use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use snowlease_core::Tick;
use snowlease_lease::{Cell, CellError, Finding, Meta, Outage, Verified, cell, verify};

use crate::Clock;
use crate::files::{beside, inode};
use crate::lock::Lock;
use crate::schema::{self, Record, TOKEN, number, unsigned};
use crate::witness::{Slot, Witness};

/// The open store. Dropped in this order: the lock is the last to go.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) connection: Connection,
    pub(crate) record: Record,
    pub(crate) witness: Witness,
    pub(crate) path: PathBuf,
    /// The number of the file that was opened.
    pub(crate) inode: u64,
    /// The number of its log.
    pub(crate) log: u64,
    pub(crate) now: Clock,
    /// What was found at opening and since.
    pub(crate) alarms: Vec<String>,
    /// Why the witness could not be written the last time.
    pub(crate) witness_alarm: Option<String>,
    /// Why nothing is answered any more.
    pub(crate) latched: Option<String>,
    pub(crate) _lock: Lock,
}

/// What a transaction does.
pub(crate) enum Step<T> {
    /// Nothing.
    Keep(T),
    /// Puts a cell in place of these bytes.
    Put { generator_id: u64, old: Vec<u8>, new: Box<Cell>, record: Record, answer: T },
    /// Changes only what the store knows of itself.
    Note { record: Record, answer: T },
}

/// Why a step was not taken.
pub(crate) enum Failure<E> {
    /// The rules say no.
    Refused(E),
    /// SQLite says no.
    Sqlite(rusqlite::Error),
    /// The cells are not what they have to be.
    Damaged(String),
}

impl<E> From<rusqlite::Error> for Failure<E> {
    fn from(error: rusqlite::Error) -> Failure<E> {
        Failure::Sqlite(error)
    }
}

impl<E> From<CellError> for Failure<E> {
    fn from(error: CellError) -> Failure<E> {
        Failure::Damaged(error.to_string())
    }
}

impl Engine {
    /// Reads, with nothing written.
    pub(crate) fn read<T, E: From<Outage>>(
        &mut self,
        read: impl FnOnce(&Cells<'_>, &Record) -> Result<T, Failure<E>>,
    ) -> Result<T, E> {
        self.change(|cells, record| read(cells, record).map(Step::Keep))
    }

    /// Decides and writes in one transaction, durable when this returns `Ok`.
    pub(crate) fn change<T, E: From<Outage>>(
        &mut self,
        decide: impl FnOnce(&Cells<'_>, &Record) -> Result<Step<T>, Failure<E>>,
    ) -> Result<T, E> {
        let mut decide = Some(decide);
        let once = |cells: &Cells<'_>, record: &Record, (): &()| match decide.take() {
            Some(decide) => decide(cells, record),
            None => Err(Failure::Damaged("asked twice".to_owned())),
        };
        let mut answers = self.change_each(&[()], once);
        answers.pop().unwrap_or_else(|| Err(Outage::unavailable("not asked").into()))
    }

    /// Decides about each ask in turn, each upon what the ones before have changed, and writes all
    /// of it in one transaction. What the rules refuse leaves the others as they are; what stops
    /// SQLite stops them all.
    pub(crate) fn change_each<A, T, E: From<Outage>>(
        &mut self,
        asks: &[A],
        decide: impl FnMut(&Cells<'_>, &Record, &A) -> Result<Step<T>, Failure<E>>,
    ) -> Vec<Result<T, E>> {
        let all = |outage: &Outage| asks.iter().map(|_| Err(outage.clone().into())).collect();
        if let Err(outage) = self.usable() {
            return all(&outage);
        }
        let mut committing = false;
        match transact(&mut self.connection, &self.record, asks, decide, &mut committing) {
            Ok((answers, None)) => answers,
            Ok((answers, Some(record))) => {
                self.record = record;
                self.bear_witness();
                answers
            }
            Err(Stopped::Damaged(what)) => all(&self.latch(&what, false)),
            Err(Stopped::Sqlite(error)) => all(&self.outage(&error, committing)),
        }
    }

    /// Writes how far the store has come beside it. That it could not be written weakens the watch
    /// for rollbacks and nothing else, so it is an alarm and no error.
    pub(crate) fn bear_witness(&mut self) {
        let written = self.witness.write(&slot(&self.record));
        self.witness_alarm = written.err().map(|error| {
            format!(
                "the witness file cannot be written ({error}): an older copy of the store that \
                 is put back may go unnoticed"
            )
        });
    }

    /// The wall clock, in Unix ms.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.now)()
    }

    fn usable(&mut self) -> Result<(), Outage> {
        if let Some(why) = &self.latched {
            return Err(Outage::unavailable(why.clone()));
        }
        if inode(&self.path).ok() != Some(self.inode) {
            let what = "the file was moved, removed or replaced while it was open";
            return Err(self.latch(what, false));
        }
        if inode(&beside(&self.path, "-wal")).ok() != Some(self.log) {
            self.renew_log()?;
        }
        if self.witness.is_lost() {
            self.notice("the witness file was removed or replaced while the store was open");
            self.witness.forget();
            self.bear_witness();
        }
        Ok(())
    }

    /// Commits go on to a log that has lost its name, and would end with this process: moves them
    /// all into the store, and begins another log.
    fn renew_log(&mut self) -> Result<(), Outage> {
        match begin_log(&self.connection) {
            Ok(true) => {}
            Ok(false) => return Err(self.latch("its log was removed while it was open", false)),
            Err(error) => return Err(self.outage(&error, false)),
        }
        let Ok(log) = inode(&beside(&self.path, "-wal")) else {
            return Err(self.latch("its log was removed while it was open", false));
        };
        self.log = log;
        self.notice("the log was removed or replaced while the store was open: nothing was lost");
        Ok(())
    }

    fn notice(&mut self, what: &str) {
        if !self.alarms.iter().any(|alarm| alarm == what) {
            self.alarms.push(what.to_owned());
        }
    }

    fn outage(&mut self, error: &rusqlite::Error, committing: bool) -> Outage {
        let path = self.path.display();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Outage::unavailable(format!(
                "the disk of {path} is full: make room; nothing was changed or lost"
            )),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Outage::unavailable(format!("another program holds {path}: stop it, and try again"))
            }
            _ => self.latch(&error.to_string(), committing),
        }
    }

    fn latch(&mut self, what: &str, unknown: bool) -> Outage {
        let path = self.path.display();
        self.latched = Some(format!(
            "an earlier error stopped the store {path} ({what}): check the disk, then restart this \
             program; what was confirmed is not lost"
        ));
        Outage {
            unknown,
            detail: format!("the store {path} failed ({what}): check the disk, then restart"),
        }
    }
}

/// Ends the log and begins another one; `false`: SQLite does not do it.
fn begin_log(connection: &Connection) -> rusqlite::Result<bool> {
    for mode in ["delete", "wal"] {
        let set = connection
            .pragma_update_and_check(None, "journal_mode", mode, |row| row.get::<_, String>(0))?;
        if set != mode {
            return Ok(false);
        }
    }
    // The file of the log is made when the store is looked at next.
    Ok(schema::recognise(connection)? == schema::Kind::Ours)
}

/// How far a store has come.
pub(crate) fn slot(record: &Record) -> Slot {
    Slot {
        store_id: record.store_id,
        changes: record.changes,
        until: record.until,
        format: record.meta.format.to_string(),
    }
}

/// Why a transaction did not take place.
enum Stopped {
    Sqlite(rusqlite::Error),
    Damaged(String),
}

impl From<rusqlite::Error> for Stopped {
    fn from(error: rusqlite::Error) -> Stopped {
        Stopped::Sqlite(error)
    }
}

/// What each ask is answered, and what the store knows of itself from then on if anything changed.
type Transacted<T, E> = (Vec<Result<T, E>>, Option<Record>);

fn transact<A, T, E>(
    connection: &mut Connection,
    record: &Record,
    asks: &[A],
    mut decide: impl FnMut(&Cells<'_>, &Record, &A) -> Result<Step<T>, Failure<E>>,
    committing: &mut bool,
) -> Result<Transacted<T, E>, Stopped> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let cells = Cells { connection: &transaction, meta: &record.meta };
    let (mut next, mut changed) = (record.clone(), false);
    let mut answers = Vec::with_capacity(asks.len());
    for ask in asks {
        let answer = match decide(&cells, &next, ask).and_then(|step| cells.take(step)) {
            Ok((answer, None)) => Ok(answer),
            Ok((answer, Some(after))) => {
                (next, changed) = (after, true);
                Ok(answer)
            }
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::Sqlite(error)) => return Err(Stopped::Sqlite(error)),
            Err(Failure::Damaged(what)) => return Err(Stopped::Damaged(what)),
        };
        answers.push(answer);
    }
    if !changed {
        return Ok((answers, None));
    }
    next.changes = next.changes.max(record.changes + 1);
    schema::update(&transaction, record, &next)?;
    *committing = true;
    transaction.commit()?;
    Ok((answers, Some(next)))
}

/// The cells, inside a transaction.
pub(crate) struct Cells<'a> {
    connection: &'a Connection,
    meta: &'a Meta,
}

/// A cell and its bytes.
pub(crate) type Found = (u64, Vec<u8>, Cell);

impl Cells<'_> {
    /// The cell of a generator id; `None` if that is not of the range.
    pub(crate) fn get<E>(&self, generator_id: u64) -> Result<Option<Found>, Failure<E>> {
        let (first, last) = self.meta.range;
        if generator_id < first || generator_id > last {
            return Ok(None);
        }
        let sql = "SELECT generator_id, cell FROM cells WHERE generator_id = ?1";
        match self.one(sql, &number(generator_id)?)? {
            Some(found) => Ok(Some(found)),
            None => Err(Failure::Damaged(format!("the cell of {generator_id} is missing"))),
        }
    }

    /// The cell that carries this token.
    pub(crate) fn mine<E>(&self, token: &[u8; 32]) -> Result<Option<Found>, Failure<E>> {
        self.one(&format!("SELECT generator_id, cell FROM cells WHERE {TOKEN} = ?1 LIMIT 1"), token)
    }

    /// The cell that has been free for longest at this tick.
    pub(crate) fn free<E>(&self, from: Tick) -> Result<Option<Found>, Failure<E>> {
        let sql = "SELECT generator_id, cell FROM cells WHERE cell < ?1
                   ORDER BY cell, generator_id LIMIT 1";
        self.one(sql, &cell::free_bound(from))
    }

    /// The end of the window that ends first, of those that are not draining.
    pub(crate) fn earliest<E>(&self) -> Result<Option<Tick>, Failure<E>> {
        let sql = "SELECT generator_id, cell FROM cells WHERE cell < ?1 ORDER BY cell LIMIT 1";
        Ok(self.one(sql, &DRAINING)?.map(|(_, _, cell)| cell.until))
    }

    /// The largest `until` of all cells that are not draining.
    pub(crate) fn largest<E>(&self) -> Result<Tick, Failure<E>> {
        let sql = "SELECT generator_id, cell FROM cells WHERE cell < ?1
                   ORDER BY cell DESC LIMIT 1";
        Ok(self.one(sql, &DRAINING)?.map(|(_, _, cell)| cell.until).unwrap_or_default())
    }

    /// Every cell that was ever changed, by generator id.
    pub(crate) fn all<E>(&self) -> Result<Vec<(u64, Cell)>, Failure<E>> {
        let vacant = Cell::vacant(self.meta.format.fingerprint()).encode();
        let sql = "SELECT generator_id, cell FROM cells WHERE cell <> ?1 ORDER BY generator_id";
        let mut select = self.connection.prepare_cached(sql)?;
        let mut rows = select.query(params![vacant])?;
        let mut cells = Vec::new();
        while let Some(row) = rows.next()? {
            let bytes: Vec<u8> = row.get(1)?;
            cells.push((unsigned(row, 0)?, Cell::decode(&bytes)?));
        }
        Ok(cells)
    }

    /// Looks at all cells, and answers what is wrong with any.
    pub(crate) fn verify<E>(&self, record: &Record) -> Result<Verified, Failure<E>> {
        let history = "a store in a file keeps no history of its cells".to_owned();
        let mut verified = Verified { history, ..Verified::default() };
        if let Err(what) = schema::check(self.connection)? {
            verified.findings.push(Finding::of_store(what));
        }
        if let Err(what) = schema::check_cells(self.connection, record)? {
            verified.findings.push(Finding::of_store(what));
            return Ok(verified);
        }
        let (first, last) = record.meta.range;
        verified.cells = last - first + 1;
        for (generator_id, cell) in self.all()? {
            let wrong = verify::cell(&record.meta, &cell).into_iter();
            verified.findings.extend(wrong.map(|what| Finding::of_cell(generator_id, what)));
        }
        Ok(verified)
    }

    fn one<E>(&self, sql: &str, value: &dyn rusqlite::ToSql) -> Result<Option<Found>, Failure<E>> {
        let mut select = self.connection.prepare_cached(sql)?;
        let row = select.query_row(params![value], |row| Ok((unsigned(row, 0)?, row.get(1)?)));
        let Some((generator_id, bytes)): Option<(u64, Vec<u8>)> = row.optional()? else {
            return Ok(None);
        };
        let cell = Cell::decode(&bytes)?;
        Ok(Some((generator_id, bytes, cell)))
    }

    /// Takes a step, and answers what the store knows of itself after it if that changed.
    fn take<T, E>(&self, step: Step<T>) -> Result<(T, Option<Record>), Failure<E>> {
        Ok(match step {
            Step::Keep(answer) => (answer, None),
            Step::Note { record, answer } => (answer, Some(record)),
            Step::Put { generator_id, old, new, mut record, answer } => {
                self.put(generator_id, &old, &new)?;
                record.until = record.until.max(new.until);
                (answer, Some(record))
            }
        })
    }

    fn put<E>(&self, generator_id: u64, old: &[u8], new: &Cell) -> Result<(), Failure<E>> {
        let sql = "UPDATE cells SET cell = ?3 WHERE generator_id = ?1 AND cell = ?2";
        let mut update = self.connection.prepare_cached(sql)?;
        match update.execute(params![number(generator_id)?, old, new.encode()])? {
            1 => Ok(()),
            _ => {
                Err(Failure::Damaged(format!("the cell of {generator_id} changed under our lock")))
            }
        }
    }
}

/// The smallest bytes of a draining cell: its top bit.
const DRAINING: [u8; 1] = [0x80];
