//! The check: every id of every file, in one ascending pass, side by side.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use rusqlite::{Connection, OpenFlags};
use snowlease::{Format, Id};

/// What the check found.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) orders: u64,
    files: usize,
    generator_ids: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { orders, files, generator_ids } = self;
        write!(
            f,
            "no duplicate among {orders} orders in {files} files, \
             from {generator_ids} generator ids"
        )
    }
}

/// Merges the files' ids, each of which SQLite gives in ascending order, and compares neighbours.
pub(crate) fn check(files: &[PathBuf]) -> Result<Report> {
    let open = |path: &PathBuf| {
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .with_context(|| format!("cannot read {}", path.display()))
    };
    let files = files.iter().map(open).collect::<Result<Vec<_>>>()?;
    let mut statements = files
        .iter()
        .map(|file| file.prepare("SELECT id FROM orders ORDER BY id"))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut cursors = statements
        .iter_mut()
        .map(|statement| Ok(statement.query_map([], |row| row.get::<_, i64>(0))?.peekable()))
        .collect::<rusqlite::Result<Vec<_>>>()?;

    let mut report = Report { orders: 0, files: files.len(), generator_ids: 0 };
    let mut generator_ids = std::collections::BTreeSet::new();
    let mut last = None;
    loop {
        let smallest = cursors
            .iter_mut()
            .filter_map(|cursor| Some((cursor.peek()?.as_ref().ok().copied(), cursor)))
            .min_by_key(|(id, _)| *id);
        let Some((_, cursor)) = smallest else { break };
        let Some(id) = cursor.next().transpose()? else { break };
        if last == Some(id) {
            bail!("order {id} is there twice");
        }
        last = Some(id);
        report.orders += 1;
        generator_ids.insert(Format::DEFAULT.decode(Id::try_from(id)?).generator_id);
    }
    report.generator_ids = generator_ids.len();
    Ok(report)
}
