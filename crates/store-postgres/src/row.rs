//! From rows to cells and back: what the columns mean.

use snowlease_core::{Format, Tick};
use snowlease_lease::{Cell, Holder, Meta, Mode, Outage, PlanHash, Realm, TokenHash};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// What the store is for, with what belongs to one look at it.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) meta: Meta,
    /// The server's clock, Unix ms.
    pub(crate) now_ms: i64,
    /// The history that was recorded goes on.
    pub(crate) same_lineage: bool,
    /// A statement that writes may be sent over such a session.
    pub(crate) fresh: bool,
}

impl Look {
    pub(crate) fn read(row: &Row) -> Result<Look, Outage> {
        let (same_lineage, fresh) = (get(row, "same_lineage")?, get(row, "fresh")?);
        Ok(Look { meta: meta(row)?, now_ms: get(row, "now_ms")?, same_lineage, fresh })
    }

    /// The tick of the server's clock; of a clock that is outside of the format, the nearest.
    pub(crate) fn now(&self) -> Tick {
        let format = self.meta.format;
        format.tick_at_ms(self.now_ms).unwrap_or_else(|_| {
            if self.now_ms < format.epoch_ms() {
                Tick(0)
            } else {
                snowlease_lease::rules::end(format)
            }
        })
    }
}

/// A column of a row.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, Outage> {
    row.try_get(column).map_err(|_| damaged(&format!("the column {column}")))
}

/// A column that is a tick, a count or a generator id: never negative.
pub(crate) fn count(row: &Row, column: &str) -> Result<u64, Outage> {
    let number: i64 = get(row, column)?;
    u64::try_from(number).map_err(|_| damaged(&format!("the column {column}")))
}

/// For a parameter of the database: all of ours have at most 63 bits.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn meta(row: &Row) -> Result<Meta, Outage> {
    let text = |column: &str| get::<String>(row, column);
    let plan = |column: &str| match get::<Option<String>>(row, column)? {
        None => Ok(None),
        Some(text) => match PlanHash::from_text(&text) {
            None => Err(damaged(column)),
            plan => Ok(plan),
        },
    };
    let layout = text("layout")?.parse().map_err(|_| damaged("the layout"))?;
    let tick_ms = u32::try_from(count(row, "tick_ms")?).map_err(|_| damaged("the tick length"))?;
    let format =
        Format::new(layout, tick_ms, get(row, "epoch_ms")?).map_err(|_| damaged("the format"))?;
    if format.fingerprint() != get::<i64>(row, "fingerprint")?.cast_unsigned() {
        return Err(damaged("the fingerprint of the format"));
    }
    let mode = match &*text("mode")? {
        "open" => Mode::Open,
        "frozen" => Mode::Frozen,
        _ => return Err(damaged("the mode")),
    };
    let realm =
        Realm::new(text("environment")?, plan("plan")?).map_err(|_| damaged("the environment"))?;
    Ok(Meta {
        format,
        range: (count(row, "first_id")?, count(row, "last_id")?),
        mode,
        floor: Tick(count(row, "floor_tick")?),
        longest_window: count(row, "longest_window")?,
        region: text("store_region")?,
        realm,
        previous_plan: plan("previous_plan")?,
    })
}

/// The cell of a row.
pub(crate) fn cell(row: &Row) -> Result<(u64, Cell), Outage> {
    let generator_id = count(row, "generator_id")?;
    let wrong = |what: &str| damaged(&format!("{what} of generator id {generator_id}"));
    let token = match get::<Option<&[u8]>>(row, "token")? {
        None => TokenHash::NOBODY,
        Some(bytes) => TokenHash::from_bytes(bytes.try_into().map_err(|_| wrong("the token"))?),
    };
    let text = |column: &str| get::<String>(row, column);
    let [name, machine, process, region] =
        [text("holder")?, text("machine")?, text("process")?, text("region")?];
    let holder = if name.is_empty() {
        Holder::nobody()
    } else {
        Holder::new(name, machine, process, region).map_err(|_| wrong("the holder"))?
    };
    let cell = Cell {
        until: Tick(count(row, "until_tick")?),
        draining: get(row, "draining")?,
        from: Tick(count(row, "from_tick")?),
        seq: count(row, "seq")?,
        granted_at_ms: get(row, "granted_at_ms")?,
        format: get::<i64>(row, "format")?.cast_unsigned(),
        token,
        holder,
    };
    Ok((generator_id, cell))
}

fn damaged(what: &str) -> Outage {
    Outage::unavailable(format!(
        "the store's tables are damaged ({what}): stop using it and look by `snowlease store \
         verify`"
    ))
}
