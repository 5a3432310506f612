//! The store trait on SQLite: each method is one transaction around one of the rules.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use snowlease_core::Tick;
use snowlease_lease::rules::{self, Decision};
use snowlease_lease::{
    Acquire, AcquireError, Administer, Grant, LeaseEntry, LeaseStore, Mode, Outage, PlanHash,
    Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus, Verified,
};

use crate::engine::{Cells, Engine, Failure, Found, Step};
use crate::schema::Record;

/// A lease store in one SQLite file. Make one with [`SqliteStore::open`](crate::SqliteStore::open).
///
/// # Promise
///
/// What was answered survives `kill -9` and loss of power. While this value lives no other process
/// has the store. Callers take turns; none waits for its turn longer than the time of one attempt.
///
/// Do not use it in a forked child. The child may open other files; this one it never can, even
/// once its parent has closed it, since SQLite goes on to count it as open there.
#[derive(Debug)]
pub struct SqliteStore {
    /// `None` while somebody has their turn.
    engine: Mutex<Option<Engine>>,
    back: Condvar,
    attempt: Duration,
}

/// A turn at the engine, given back when dropped.
struct Turn<'a> {
    store: &'a SqliteStore,
    engine: Option<Engine>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.store.slot() = self.engine.take();
        self.store.back.notify_one();
    }
}

impl SqliteStore {
    pub(crate) fn new(engine: Engine, attempt: Duration) -> SqliteStore {
        SqliteStore { engine: Mutex::new(Some(engine)), back: Condvar::new(), attempt }
    }

    fn slot(&self) -> MutexGuard<'_, Option<Engine>> {
        // The lock is held to take and to put back only, which cannot panic.
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn<T, E: From<Outage>>(
        &self,
        use_it: impl FnOnce(&mut Engine) -> Result<T, E>,
    ) -> Result<T, E> {
        self.turn_or(use_it, |outage| Err(outage.into()))
    }

    /// Each of them is answered, by what was done or why it was not.
    fn turn_each<A, T, E: From<Outage>>(
        &self,
        asks: &[A],
        use_it: impl FnOnce(&mut Engine) -> Vec<Result<T, E>>,
    ) -> Vec<Result<T, E>> {
        self.turn_or(use_it, |outage| asks.iter().map(|_| Err(outage.clone().into())).collect())
    }

    fn turn_or<T>(
        &self,
        use_it: impl FnOnce(&mut Engine) -> T,
        without: impl FnOnce(Outage) -> T,
    ) -> T {
        let (mut slot, _) = self
            .back
            .wait_timeout_while(self.slot(), self.attempt, |slot| slot.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        let mut turn = Turn { store: self, engine: slot.take() };
        drop(slot);
        match &mut turn.engine {
            Some(engine) => use_it(engine),
            None => {
                // Nothing is given back by one who had no turn.
                std::mem::forget(turn);
                without(busy())
            }
        }
    }
}

fn busy() -> Outage {
    Outage::unavailable(
        "the store was busy for a whole attempt: try again; if it recurs, the disk is slow",
    )
}

/// What is noted with each grant and renewal.
fn noted(record: &Record, now_ms: i64, longest_window: u64) -> Record {
    let mut next = record.clone();
    next.meta.longest_window = longest_window;
    next.pulse_ms = now_ms;
    next
}

fn exhausted(cells: &Cells<'_>, record: &Record) -> Result<AcquireError, Failure<AcquireError>> {
    let (first, last) = record.meta.range;
    Ok(AcquireError::Exhausted { total: last - first + 1, earliest: cells.earliest()? })
}

impl LeaseStore for SqliteStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.turn(|engine| {
            let meta = engine.read::<_, Outage>(|_, record| Ok(record.meta.clone()))?;
            let mut alarms = engine.alarms.clone();
            alarms.extend(engine.witness_alarm.clone());
            let open_ms = meta.format.unix_ms(meta.floor);
            if meta.floor > Tick(0) && open_ms > engine.now_ms() {
                let left_s = open_ms.saturating_sub(engine.now_ms()) / 1000;
                alarms.push(format!("in quarantine: leases are granted again in {left_s} s"));
            }
            let pulse_ms = Some(engine.record.pulse_ms);
            Ok(StoreStatus { kind: "sqlite".to_owned(), meta, pulse_ms, alarms })
        })
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        one(self.acquire_each(std::slice::from_ref(ask)))
    }

    fn acquire_each(&self, asks: &[Acquire]) -> Vec<Result<Grant, AcquireError>> {
        self.turn_each(asks, |engine| {
            let now_ms = engine.now_ms();
            engine.change_each(asks, |cells, record, ask| {
                rules::admit(&record.meta, ask).map_err(Failure::Refused)?;
                let token = ask.request_key.token().hash();
                let found = match cells.mine(token.as_bytes())? {
                    Some(found) => Some(found),
                    None => cells.free(ask.from)?,
                };
                let Some((generator_id, old, cell)) = found else {
                    return Err(Failure::Refused(exhausted(cells, record)?));
                };
                match rules::acquire(&record.meta, generator_id, &cell, ask) {
                    Some(Decision::Keep(grant)) => Ok(Step::Keep(grant)),
                    Some(Decision::Put(new, answer)) => {
                        let longest = rules::longest_window(&record.meta, new.from, new.until);
                        let record = noted(record, now_ms, longest);
                        Ok(Step::Put { generator_id, old, new: Box::new(new), record, answer })
                    }
                    None => Err(Failure::Refused(exhausted(cells, record)?)),
                }
            })
        })
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        one(self.renew_each(std::slice::from_ref(ask)))
    }

    fn renew_each(&self, asks: &[Renew]) -> Vec<Result<Renewal, RenewError>> {
        let answers = self.turn_each(asks, |engine| {
            let now_ms = engine.now_ms();
            engine.change_each(asks, |cells, record, ask| {
                let (generator_id, old, cell) =
                    held(cells, ask.generator_id, RenewError::OutOfRange)?;
                match rules::renew(&record.meta, &cell, ask) {
                    Ok(Decision::Keep(answer)) => Ok(Step::Keep(Ok(answer))),
                    Ok(Decision::Put(new, answer)) => {
                        let now = rules::renewed_at(&record.meta, &cell, now_ms);
                        let longest = rules::longest_window(&record.meta, now, new.until);
                        let record = noted(record, now_ms, longest);
                        let new = Box::new(new);
                        Ok(Step::Put { generator_id, old, new, record, answer: Ok(answer) })
                    }
                    // The refusal is written down with the floor that it tells of.
                    Err(RenewError::RolledBack { floor }) => {
                        let record = quarantined(cells, record, floor)?;
                        let floor = record.meta.floor;
                        let answer = Err(RenewError::RolledBack { floor });
                        Ok(Step::Note { record, answer })
                    }
                    Err(error) => Err(Failure::Refused(error)),
                }
            })
        });
        answers.into_iter().map(|answer| answer?).collect()
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.turn(|engine| {
            engine.change(|cells, record| {
                let (generator_id, old, cell) =
                    held(cells, ask.generator_id, ReleaseError::OutOfRange)?;
                let new = Box::new(rules::release(&cell, ask).map_err(Failure::Refused)?);
                Ok(Step::Put { generator_id, old, new, record: record.clone(), answer: () })
            })
        })
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        let cells = self.turn(|engine| engine.read::<_, Outage>(|cells, _| cells.all()))?;
        Ok(cells.into_iter().map(|(id, cell)| rules::entry(id, cell)).collect())
    }
}

/// What a store knows of itself once nothing is granted or renewed below a floor.
fn quarantined<E>(
    cells: &Cells<'_>,
    record: &Record,
    at_least: Tick,
) -> Result<Record, Failure<E>> {
    let mut record = record.clone();
    record.meta.floor = rules::quarantine(&record.meta, at_least, cells.largest()?);
    Ok(record)
}

/// The answer to the only ask.
fn one<T, E: From<Outage>>(mut answers: Vec<Result<T, E>>) -> Result<T, E> {
    answers.pop().unwrap_or_else(|| Err(Outage::unavailable("nothing was asked").into()))
}

fn held<E>(cells: &Cells<'_>, generator_id: u64, out: E) -> Result<Found, Failure<E>> {
    cells.get(generator_id)?.ok_or(Failure::Refused(out))
}

impl Administer for SqliteStore {
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage> {
        self.turn(|engine| {
            engine.change(|cells, record| {
                let out = rules::out_of_range(&record.meta, generator_id);
                let (generator_id, old, cell) = held(cells, generator_id, out)?;
                Ok(match rules::drain(&cell, draining).map(Box::new) {
                    Some(new) => {
                        Step::Put { generator_id, old, new, record: record.clone(), answer: () }
                    }
                    None => Step::Keep(()),
                })
            })
        })
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Outage> {
        self.turn(|engine| {
            engine.change(|_, record| {
                let mut record = record.clone();
                record.meta.mode = mode;
                Ok(Step::Note { record, answer: () })
            })
        })
    }

    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage> {
        self.turn(|engine| {
            engine.change(|cells, record| {
                let record = quarantined(cells, record, at_least)?;
                let answer = record.meta.floor;
                Ok(Step::Note { record, answer })
            })
        })
    }

    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage> {
        self.turn(|engine| {
            engine.change(|_, record| {
                let meta = rules::adopt_plan(&record.meta, plan);
                Ok(Step::Note { record: Record { meta, ..record.clone() }, answer: () })
            })
        })
    }

    /// Reads the whole file, and no lease is granted or renewed meanwhile.
    fn verify(&self) -> Result<Verified, Outage> {
        self.turn(|engine| {
            // By its path the method is of one lifetime only.
            #[expect(clippy::redundant_closure_for_method_calls, reason = "see above")]
            engine.read(|cells, record| cells.verify(record))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Open;
    use snowlease_core::Format;
    use snowlease_lease::{Holder, Realm, RequestKey};

    fn ask(from: u64) -> Acquire {
        Acquire {
            request_key: RequestKey::random(),
            from: Tick(from),
            until: Tick(from + 60_000),
            format: Format::DEFAULT,
            realm: Realm::default(),
            holder: Holder::new("x".repeat(128), "y".repeat(128), "1", "z".repeat(128)).unwrap(),
            patience: Duration::ZERO,
            now_ms: 0,
        }
    }

    fn set_most_pages(store: &SqliteStore, pages: i64) {
        let mut slot = store.slot();
        let connection = &slot.as_mut().unwrap().connection;
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    }

    /// What durability and exclusion rest on is in force, not only asked for.
    #[test]
    fn the_modes_of_sqlite_are_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let open = Open { create: true, ..Open::default() };
        for _ in 0..2 {
            let (store, _) = SqliteStore::open(&path, &open).unwrap();
            let slot = store.slot();
            let connection = &slot.as_ref().unwrap().connection;
            let text = |name| {
                connection.pragma_query_value(None, name, |row| row.get::<_, String>(0)).unwrap()
            };
            let full: i64 =
                connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
            assert_eq!(
                (text("journal_mode"), text("locking_mode")),
                ("wal".into(), "exclusive".into())
            );
            assert_eq!(full, 2);
        }
    }

    /// A disk that is full refuses what would grow the file, and no more than that.
    #[test]
    fn a_full_disk_refuses_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let open = Open { create: true, range: Some((0, 199)), ..Open::default() };
        let (store, _) = SqliteStore::open(&path, &open).unwrap();
        set_most_pages(&store, 1);
        let mut granted = Vec::new();
        let outage = loop {
            match store.acquire(&ask(1_000)) {
                Ok(grant) => granted.push(grant),
                Err(AcquireError::Outage(outage)) => break outage,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(!outage.unknown && outage.detail.contains("make room"), "{outage}");
        assert_eq!(store.list().unwrap().len(), granted.len());
        set_most_pages(&store, 1 << 20);
        granted.push(store.acquire(&ask(1_000)).unwrap());
        drop(store);
        let (store, opened) = SqliteStore::open(&path, &open).unwrap();
        assert!(opened.alarms.is_empty());
        assert_eq!(store.list().unwrap().len(), granted.len());
    }

    /// One who waits for a turn in vain is told so in time, and the turn of another is not
    /// disturbed.
    #[test]
    fn nobody_waits_longer_than_an_attempt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let attempt = Duration::from_millis(1);
        let open = Open { create: true, attempt, ..Open::default() };
        let (store, _) = SqliteStore::open(&path, &open).unwrap();
        let answer = store.turn(|_| {
            let refused = store.status().unwrap_err();
            assert!(!refused.unknown && refused.detail.contains("busy"), "{refused}");
            Ok::<_, Outage>(7)
        });
        assert_eq!(answer, Ok(7));
        assert!(store.status().is_ok());
    }
}
