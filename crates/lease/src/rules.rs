//! What a store decides: pure functions from a cell and an ask to the next cell or a refusal.
//!
//! Every store calls these and makes the compare and the write around them one atomic step. With
//! that:
//!
//! * acquire and renew only add ticks at or above the cell's `until`;
//! * release only cuts a tail that was never used;
//! * so windows of one generator id that were granted and not given back never overlap (I2),
//!   `until` falls only by what release cuts off (I1), and `seq` never repeats (I6).

use snowlease_core::{Format, Tick};

use crate::store::Carries;
use crate::{
    Acquire, AcquireError, Cell, Grant, LeaseEntry, Meta, Mode, Outage, PlanHash, Release,
    ReleaseError, Renew, RenewError, Renewal, Terms, TokenHash,
};

/// Why a lease is not the asker's: the cell carries another token.
pub const TAKEN: &str =
    "the generator id has another holder, or another copy of this one has renewed";

/// Why a lease is not the asker's: the cell carries no token.
pub const GIVEN_BACK: &str = "the generator id was released";

/// What is to be done with a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// Put this cell in place of the one that was looked at, then give the answer.
    Put(Cell, T),
    /// Leave the cell as it is and give the answer.
    Keep(T),
}

/// Whether anything can be granted to this ask at all, whatever the cells are.
///
/// # Errors
///
/// Each [`AcquireError`] that does not depend on a cell.
pub fn admit(meta: &Meta, ask: &Acquire) -> Result<(), AcquireError> {
    if ask.format != meta.format {
        return Err(AcquireError::Format { store: meta.format, asked: ask.format });
    }
    if let Some(mismatch) = meta.realm.mismatch(meta.previous_plan, &ask.realm) {
        return Err(AcquireError::Realm(mismatch));
    }
    if meta.mode == Mode::Frozen {
        return Err(AcquireError::Frozen);
    }
    if ask.from < meta.floor {
        return Err(AcquireError::Quarantined { floor: meta.floor });
    }
    if ask.from >= ask.until || ask.until > end(meta.format) {
        return Err(AcquireError::Window { from: ask.from, until: ask.until });
    }
    Ok(())
}

/// Grants this cell if it is free, or answers again if it is the asker's already.
///
/// Call [`admit`] first. `None`: the cell is neither; try another.
pub fn acquire(
    meta: &Meta,
    generator_id: u64,
    cell: &Cell,
    ask: &Acquire,
) -> Option<Decision<Grant>> {
    let token = ask.request_key.token().hash();
    let grant = |cell: &Cell| Grant {
        generator_id,
        from: cell.from,
        until: cell.until,
        seq: cell.seq,
        draining: cell.draining,
        reference_ms: None,
    };
    if cell.token == token {
        return Some(Decision::Keep(grant(cell)));
    }
    let open = may_be_granted(cell.draining, cell.until, ask.from) && ask.from >= meta.floor;
    if !open || ask.from >= ask.until {
        return None;
    }
    let granted = Cell {
        until: ask.until,
        draining: false,
        from: ask.from,
        seq: cell.seq + 1,
        granted_at_ms: ask.now_ms,
        format: meta.format.fingerprint(),
        token,
        holder: ask.holder.clone(),
    };
    let answer = grant(&granted);
    Some(Decision::Put(granted, answer))
}

/// Moves `until` up for whoever shows the token of this very cell.
///
/// # Errors
///
/// [`RenewError::NotYours`], [`RenewError::Quarantined`], and [`RenewError::RolledBack`] with the
/// floor that the store must put in force in the same step, by [`quarantine`].
pub fn renew(meta: &Meta, cell: &Cell, ask: &Renew) -> Result<Decision<Renewal>, RenewError> {
    let token = ask.token.hash();
    // The hash of nobody would leave a live cell that no one can show a token for.
    let next = if ask.next == TokenHash::NOBODY { token } else { ask.next };
    let answer = |cell: &Cell| Renewal {
        until: cell.until,
        seq: cell.seq,
        token: if cell.token == next { Carries::Next } else { Carries::Token },
        draining: cell.draining,
        reference_ms: None,
    };
    // A cell only ever grows: one that has changed less often than the holder has seen it change is
    // an old copy of itself, whoever's token it carries.
    if cell.seq < ask.seq {
        let now = renewed_at(meta, cell, ask.now_ms);
        return Err(RenewError::RolledBack { floor: rolled_back(meta, now) });
    }
    if cell.token == TokenHash::NOBODY || (cell.token != token && cell.token != next) {
        return Err(RenewError::NotYours { reason: why_not(cell) });
    }
    // Not the cell the holder knows: an operator's drain, or an earlier attempt of this renewal.
    // Nothing may be decided from an old view, and nothing is lost: the holder adopts what is
    // answered.
    if cell.token != token || cell.seq != ask.seq {
        return Ok(Decision::Keep(answer(cell)));
    }
    if meta.floor > cell.until {
        return Err(RenewError::Quarantined { floor: meta.floor });
    }
    let until = ask.until.min(end(meta.format));
    if until <= cell.until {
        return Ok(Decision::Keep(answer(cell)));
    }
    let renewed = Cell { until, seq: cell.seq + 1, token: next, ..cell.clone() };
    let answer = answer(&renewed);
    Ok(Decision::Put(renewed, answer))
}

/// Cuts the window at the first unused tick and frees the cell for whoever shows its token.
///
/// `seq` need not be the cell's: the holder has closed its gate for good, so whatever has happened
/// to the cell since, nothing from `unused_from` on is ever used.
///
/// # Errors
///
/// [`ReleaseError::NotYours`], [`ReleaseError::OutsideWindow`].
pub fn release(cell: &Cell, ask: &Release) -> Result<Cell, ReleaseError> {
    let shown = [Some(&ask.token), ask.next.as_ref()];
    let mine = shown.into_iter().flatten().any(|token| token.hash() == cell.token);
    if cell.token == TokenHash::NOBODY || !mine || ask.seq > cell.seq {
        return Err(ReleaseError::NotYours { reason: why_not(cell) });
    }
    if ask.unused_from < cell.from || ask.unused_from > cell.until {
        return Err(ReleaseError::OutsideWindow { from: cell.from, until: cell.until });
    }
    Ok(Cell {
        until: ask.unused_from,
        seq: cell.seq + 1,
        token: TokenHash::NOBODY,
        holder: crate::Holder::nobody(),
        ..cell.clone()
    })
}

/// The cell with the draining mark set or taken back; `None` if it is so already.
pub fn drain(cell: &Cell, draining: bool) -> Option<Cell> {
    (cell.draining != draining).then(|| Cell { draining, seq: cell.seq + 1, ..cell.clone() })
}

/// Whether a cell with this mark and `until` can be granted from this tick on.
pub fn may_be_granted(draining: bool, until: Tick, from: Tick) -> bool {
    !draining && until <= from
}

/// The first tick that no window reaches: the one after the time field. Of a time field of 63 bits
/// the very last tick is not granted, since a cell keeps `until` in as many bits.
pub fn end(format: Format) -> Tick {
    Tick((format.layout().max_tick() + 1).min((1 << 63) - 1))
}

/// The floor after a quarantine: never lower than it was, nor than any window that is known.
pub fn quarantine(meta: &Meta, at_least: Tick, largest_until: Tick) -> Tick {
    meta.floor.max(at_least).max(largest_until)
}

/// What a store is for under a new version of the plan; the one before stays good.
pub fn adopt_plan(meta: &Meta, plan: Option<PlanHash>) -> Meta {
    if meta.realm.plan() == plan {
        return meta.clone();
    }
    let realm = meta.realm.clone().with_plan(plan);
    Meta { realm, previous_plan: meta.realm.plan(), ..meta.clone() }
}

/// The first tick that no window reaches which a store may have forgotten, if it is rolled back
/// `now`.
///
/// It may have forgotten one longer than any it remembers, so the usual length is the least that is
/// waited for. Twice the tolerated skew: a window may reach that far past the clock that granted
/// it, and that clock may have differed from this one by as much again. And where ticks are longer
/// than the unit of clocks, a window has one tick more than its time fills: it begins and ends
/// within one.
pub fn past_every_window(meta: &Meta, now: Tick) -> Tick {
    let ticks = |time: std::time::Duration| {
        meta.format.ticks_in_ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    };
    let longest = meta.longest_window.max(ticks(Terms::DEFAULT.window()));
    let begun = u64::from(meta.format.tick_ms() > 1);
    now.saturating_add(longest).saturating_add(ticks(Terms::SKEW_LIMIT * 2)).saturating_add(begun)
}

/// The floor of a store that has turned out to be an older copy of itself.
///
/// One that lies ahead of every clock that is tolerated stays as it is: since it was set nothing
/// can have been granted or renewed, so nothing later can have been forgotten.
pub fn rolled_back(meta: &Meta, now: Tick) -> Tick {
    if is_quarantined(meta, now) {
        meta.floor
    } else {
        past_every_window(meta, now).max(meta.floor)
    }
}

/// Whether nobody can have been granted anything since the floor was set, however far within the
/// tolerated skew their clocks are ahead of `now`.
pub fn is_quarantined(meta: &Meta, now: Tick) -> bool {
    meta.floor > past_skew(meta.format, now)
}

/// How far two clocks that are both within the tolerated skew of a third may show past a tick.
pub fn past_skew(format: Format, tick: Tick) -> Tick {
    let skew_ms = u64::try_from((Terms::SKEW_LIMIT * 2).as_millis()).unwrap_or(u64::MAX);
    tick.saturating_add(format.ticks_in_ms(skew_ms))
}

/// The longest window ever granted, in ticks, given one more.
pub fn longest_window(meta: &Meta, now: Tick, until: Tick) -> u64 {
    meta.longest_window.max(until.since(now))
}

/// When a renewal was asked for, by the given clock; never before the window of the cell, so that a
/// clock that is far behind cannot make a window look longer than it ever was.
pub fn renewed_at(meta: &Meta, cell: &Cell, now_ms: i64) -> Tick {
    meta.format.tick_at_ms(now_ms).map_or(cell.from, |now| now.max(cell.from))
}

/// What an operator is told who names a generator id that the store does not have.
pub fn out_of_range(meta: &Meta, generator_id: u64) -> Outage {
    let (first, last) = meta.range;
    Outage::unavailable(format!(
        "generator id {generator_id} is not of this store's range: give one from {first} to {last}"
    ))
}

/// A cell as it may be shown.
pub fn entry(generator_id: u64, cell: Cell) -> LeaseEntry {
    LeaseEntry {
        generator_id,
        from: cell.from,
        until: cell.until,
        seq: cell.seq,
        held: cell.is_held(),
        draining: cell.draining,
        granted_at_ms: cell.granted_at_ms,
        holder: cell.holder,
    }
}

fn why_not(cell: &Cell) -> &'static str {
    if cell.is_held() { TAKEN } else { GIVEN_BACK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_forgotten_window_reaches_past_a_quarantine_whatever_the_tick() {
        let longest_ms = Terms::DEFAULT.window().as_millis() + Terms::SKEW_LIMIT.as_millis() * 2;
        let longest_ms = i64::try_from(longest_ms).unwrap();
        for tick_ms in [1, 7, 10, 1_000, 59_999, 60_000, 61_000, 3_600_000] {
            let epoch_ms = Format::DEFAULT.epoch_ms();
            let format = Format::new(Format::DEFAULT.layout(), tick_ms, epoch_ms).unwrap();
            let range = (0, 1);
            let meta = Meta::new(format, range);
            let start_ms = format.unix_ms(Tick(100_000));
            for into_ms in (0..i64::from(tick_ms)).step_by(1 + tick_ms as usize / 1_000) {
                let now_ms = start_ms + into_ms;
                let until = format.first_tick_from_ms(now_ms + longest_ms);
                let floor = past_every_window(&meta, format.tick_at_ms(now_ms).unwrap());
                assert!(until <= floor, "{until} is past {floor}: {tick_ms} ms, {into_ms} ms into");
            }
        }
    }
}
