//! The tables, and what the store knows of itself.
//!
//! `cells` has one row per generator id of the range, all made at creation, none ever deleted. The
//! index on the cell itself finds the id that is free longest by one comparison of bytes; the one
//! on the token finds a lease that is asked for again. `meta` has one row per fact, as text, for
//! people to read.

use std::collections::HashMap;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};
use snowlease_core::{Format, Tick};
use snowlease_lease::{Cell, Meta, Mode, PlanHash, Realm};

use crate::identity::Identity;

/// "snwl": tells our databases from those of other programs.
pub(crate) const APPLICATION: i64 = 0x736e_776c;
pub(crate) const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE cells (generator_id INTEGER PRIMARY KEY, cell BLOB NOT NULL);
";

/// Made after the rows, which is faster; the second one is over [`TOKEN`].
const INDEXES: &str = "
    CREATE INDEX cells_by_cell ON cells (cell);
    CREATE INDEX cells_by_token ON cells (substr(cell, 42, 32));
";

/// The token hash in the bytes of a cell; SQL counts from 1.
pub(crate) const TOKEN: &str = "substr(cell, 42, 32)";
const _: () = assert!(snowlease_lease::cell::TOKEN_BYTES.start == 41);
const _: () = assert!(snowlease_lease::cell::TOKEN_BYTES.end == 41 + 32);

/// All that the store knows beside its cells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) meta: Meta,
    /// Random, from creation: which store this is.
    pub(crate) store_id: [u8; 16],
    /// Grows by one with each commit.
    pub(crate) changes: u64,
    /// The largest `until` ever stored in any cell.
    pub(crate) until: Tick,
    /// When a lease was last granted or renewed, in Unix ms.
    pub(crate) pulse_ms: i64,
    /// The file that was written last.
    pub(crate) identity: Identity,
}

/// What a database is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Empty,
    Ours,
    Newer(i64),
    Foreign,
}

/// Looks and changes nothing.
pub(crate) fn recognise(connection: &Connection) -> rusqlite::Result<Kind> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    Ok(match application {
        APPLICATION if version > VERSION => Kind::Newer(version),
        APPLICATION => Kind::Ours,
        0 if version == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 => Kind::Empty,
        _ => Kind::Foreign,
    })
}

/// Makes the tables and all rows, in the caller's transaction.
pub(crate) fn create(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    connection.execute_batch(TABLES)?;
    let mut insert = connection.prepare("INSERT INTO meta (key, value) VALUES (?1, ?2)")?;
    for (key, value) in record.rows() {
        insert.execute(params![key, value])?;
    }
    let mut insert =
        connection.prepare("INSERT INTO cells (generator_id, cell) VALUES (?1, ?2)")?;
    let vacant = Cell::vacant(record.meta.format.fingerprint()).encode();
    for generator_id in record.meta.range.0..=record.meta.range.1 {
        insert.execute(params![number(generator_id)?, vacant])?;
    }
    connection.execute_batch(INDEXES)?;
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Writes what differs, in the caller's transaction.
pub(crate) fn update(connection: &Connection, old: &Record, new: &Record) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2)
               ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    let mut update = connection.prepare_cached(sql)?;
    for ((key, value), (_, before)) in new.rows().into_iter().zip(old.rows()) {
        if value != before && update.execute(params![key, value])? != 1 {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        }
    }
    Ok(())
}

/// Reads what [`create`] and [`update`] wrote; the inner error names the fact that is missing or
/// wrong.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Result<Record, String>> {
    let mut select = connection.prepare("SELECT key, value FROM meta")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: HashMap<String, String> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(Record::from_rows(&rows).map_err(str::to_owned))
}

/// Has SQLite check its own structures; the inner error says what it found. What it does more than
/// a quick check is to compare the indexes with the rows, and a grant is found by an index.
pub(crate) fn check(connection: &Connection) -> rusqlite::Result<Result<(), String>> {
    let check = |row: &Row<'_>| row.get::<_, String>(0);
    let found = connection.query_row("PRAGMA integrity_check(1)", [], check)?;
    Ok(if found == "ok" { Ok(()) } else { Err(found) })
}

/// All cells are there and are cells, and there are no others: nothing that was granted once can be
/// granted anew. The inner error says which one is not as it should be.
pub(crate) fn check_cells(
    connection: &Connection,
    record: &Record,
) -> rusqlite::Result<Result<(), String>> {
    let Meta { format, range: (first, last), .. } = &record.meta;
    let fingerprint = format.fingerprint();
    let mut select =
        connection.prepare("SELECT generator_id, cell FROM cells ORDER BY generator_id")?;
    let mut rows = select.query([])?;
    let mut expected = *first;
    while let Some(row) = rows.next()? {
        let generator_id = unsigned(row, 0)?;
        if generator_id != expected || expected > *last {
            return Ok(Err(format!("the cell of {generator_id} is not expected there")));
        }
        let ValueRef::Blob(bytes) = row.get_ref(1)? else {
            return Ok(Err(format!("the cell of {generator_id} is none")));
        };
        match Cell::decode(bytes) {
            Err(error) => return Ok(Err(format!("the cell of {generator_id}: {error}"))),
            Ok(cell) if cell.format != fingerprint || cell.until > record.until => {
                return Ok(Err(format!("the cell of {generator_id} is not of this store")));
            }
            Ok(_) => expected += 1,
        }
    }
    Ok(if expected > *last { Ok(()) } else { Err("the last cells are missing".to_owned()) })
}

/// A number as SQLite stores it; generator ids and ticks have at most 63 bits.
pub(crate) fn number(value: u64) -> rusqlite::Result<i64> {
    i64::try_from(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// A number as [`number`] stored it.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

impl Record {
    /// A row for each fact; always the same keys in the same order.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let Meta { format, range, mode, floor, longest_window, region, realm, previous_plan } =
            &self.meta;
        let plan = |plan: Option<PlanHash>| plan.map(PlanHash::to_text).unwrap_or_default();
        let store_id = self.store_id.map(|byte| format!("{byte:02x}")).concat();
        vec![
            ("layout", format.layout().to_string()),
            ("tick_ms", format.tick_ms().to_string()),
            ("epoch_ms", format.epoch_ms().to_string()),
            ("first", range.0.to_string()),
            ("last", range.1.to_string()),
            ("mode", if *mode == Mode::Open { "open" } else { "frozen" }.to_owned()),
            ("floor", floor.to_string()),
            ("longest_window", longest_window.to_string()),
            ("region", region.clone()),
            ("environment", realm.environment().to_owned()),
            ("plan", plan(realm.plan())),
            ("previous_plan", plan(*previous_plan)),
            ("store_id", store_id),
            ("changes", self.changes.to_string()),
            ("until", self.until.to_string()),
            ("pulse_ms", self.pulse_ms.to_string()),
            ("machine", self.identity.machine.clone()),
            ("inode", self.identity.inode.to_string()),
        ]
    }

    fn from_rows(rows: &HashMap<String, String>) -> Result<Record, &'static str> {
        fn parsed<T: std::str::FromStr>(text: &str, what: &'static str) -> Result<T, &'static str> {
            text.parse().map_err(|_| what)
        }
        let text = |key: &str| rows.get(key).map(String::as_str).ok_or("a fact is missing");
        let layout = parsed(text("layout")?, "its layout is none")?;
        let tick_ms = parsed(text("tick_ms")?, "its tick length is none")?;
        let epoch_ms = parsed(text("epoch_ms")?, "its epoch is none")?;
        let format = Format::new(layout, tick_ms, epoch_ms).map_err(|_| "its format is none")?;
        let range = (
            parsed(text("first")?, "its range is none")?,
            parsed(text("last")?, "its range is none")?,
        );
        snowlease_lease::range::check_range(format, range).map_err(|_| "its range is none")?;
        let mode = match text("mode")? {
            "open" => Mode::Open,
            "frozen" => Mode::Frozen,
            _ => return Err("its mode is none"),
        };
        // A store of an earlier version belongs nowhere.
        let told = |key: &str| rows.get(key).map_or("", String::as_str);
        let plan = |key: &str| match told(key) {
            "" => Ok(None),
            hash => PlanHash::from_text(hash).map(Some).ok_or("its plan is none"),
        };
        let realm = Realm::new(told("environment"), plan("plan")?);
        Ok(Record {
            meta: Meta {
                format,
                range,
                mode,
                floor: Tick(parsed(text("floor")?, "its floor is none")?),
                longest_window: parsed(text("longest_window")?, "its longest window is none")?,
                region: told("region").to_owned(),
                realm: realm.map_err(|_| "its environment is none")?,
                previous_plan: plan("previous_plan")?,
            },
            store_id: bytes(text("store_id")?).ok_or("its id is none")?,
            changes: parsed(text("changes")?, "its change counter is none")?,
            until: Tick(parsed(text("until")?, "its largest end is none")?),
            pulse_ms: parsed(text("pulse_ms")?, "its pulse is none")?,
            identity: Identity {
                machine: text("machine")?.to_owned(),
                inode: parsed(text("inode")?, "its file number is none")?,
            },
        })
    }
}

fn bytes(hex: &str) -> Option<[u8; 16]> {
    let value = u128::from_str_radix(hex, 16).ok()?;
    (hex.len() == 32).then(|| value.to_be_bytes())
}
