//! How the cells of a store stand at a tick: one judgement for every list, count and gauge.
//!
//! Pure functions of what a store lists and of the running tick. Nothing is granted by them: that
//! is decided by [`rules`](crate::rules) alone, of which these tell beforehand what it would say.

use snowlease_core::{Format, Tick, TickError};

use crate::rules::{may_be_granted, past_every_window};
use crate::{LeaseEntry, Meta};

/// How a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellState {
    /// Somebody has it, and its window is not over.
    Held,
    /// Its window is over and it was not given back: it can be granted.
    Expired,
    /// It is not granted again; its holder, if it has one, moves away.
    Draining,
    /// It was given back.
    Free,
}

impl CellState {
    /// How this cell stands at the tick `now`.
    pub fn of(entry: &LeaseEntry, now: Tick) -> CellState {
        match (entry.draining, entry.held) {
            (true, _) => CellState::Draining,
            (false, false) => CellState::Free,
            (false, true) if entry.until > now => CellState::Held,
            (false, true) => CellState::Expired,
        }
    }
}

/// How full the range of a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Generator ids that cannot be granted now.
    pub used: u64,
    /// All of them.
    pub total: u64,
    /// The end of the window in use that ends first; `None` if nothing becomes free by waiting.
    pub earliest: Option<Tick>,
}

impl Pool {
    /// How full the range is at the tick `now`, given all that the store lists.
    pub fn of(meta: &Meta, entries: &[LeaseEntry], now: Tick) -> Pool {
        let (first, last) = meta.range;
        let total = last.saturating_sub(first).saturating_add(1);
        let mut pool = Pool { used: 0, total, earliest: None };
        for entry in entries {
            if may_be_granted(entry.draining, entry.until, now) {
                continue;
            }
            pool.used += 1;
            if !entry.draining {
                pool.earliest = Some(pool.earliest.map_or(entry.until, |at| at.min(entry.until)));
            }
        }
        pool
    }

    /// What a person should know of, in words: a range that is nearly used up, and marks that lie
    /// so far ahead that the clock of whoever left them cannot have been right.
    pub fn alarms(&self, meta: &Meta, entries: &[LeaseEntry], now: Tick) -> Vec<String> {
        let mut alarms = Vec::new();
        if self.total >= SMALLEST_WATCHED && self.used * 5 >= self.total * 4 {
            alarms.push(format!(
                "{} of {} generator ids are in use: plan another range before they are used up",
                self.used, self.total
            ));
        }
        let latest = past_every_window(meta, now);
        let far = |entry: &&LeaseEntry| !entry.draining && entry.until > latest;
        let marks: Vec<&LeaseEntry> = entries.iter().filter(far).collect();
        if let Some(first) = marks.first() {
            let (count, id, until) = (marks.len(), first.generator_id, first.until);
            let whose = if count == 1 {
                format!("the mark of generator id {id} lies")
            } else {
                format!("{count} marks lie")
            };
            alarms.push(format!(
                "{whose} far ahead, that of {id} at tick {until}: the clock of its holder was \
                 wrong. It is granted again from there on; `snowlease lease drain {id}` keeps it \
                 from holding up the others after a rollback"
            ));
        }
        alarms
    }
}

/// A range of fewer generator ids is often meant to be used up.
const SMALLEST_WATCHED: u64 = 5;

/// The tick to judge cells by, whatever the clock shows: before the epoch every window is yet to
/// come, and past the time field all are over.
pub fn judging_tick(format: Format, now_ms: i64) -> Tick {
    format.tick_at_ms(now_ms).unwrap_or_else(|error| match error {
        TickError::BeforeEpoch { .. } => Tick(0),
        TickError::TimeEnd { .. } => Tick(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Holder;

    fn entry(held: bool, draining: bool, until: u64) -> LeaseEntry {
        LeaseEntry {
            generator_id: 7,
            from: Tick(1),
            until: Tick(until),
            seq: 1,
            held,
            draining,
            granted_at_ms: 0,
            holder: Holder::nobody(),
        }
    }

    #[test]
    fn states_follow_from_the_cell_and_the_whole_tick() {
        let state = |entry| CellState::of(&entry, Tick(1_000));
        assert_eq!(state(entry(true, false, 1_001)), CellState::Held);
        assert_eq!(state(entry(true, false, 1_000)), CellState::Expired);
        assert_eq!(state(entry(false, false, 1_001)), CellState::Free);
        assert_eq!(state(entry(true, true, 1_001)), CellState::Draining);
        assert_eq!(state(entry(false, true, 1_000)), CellState::Draining);
    }

    #[test]
    fn what_rests_or_drains_is_in_use_and_only_windows_become_free() {
        let meta = Meta::new(Format::DEFAULT, (4, 9));
        let pool = |entries: &[LeaseEntry]| Pool::of(&meta, entries, Tick(1_000));
        assert_eq!(pool(&[]), Pool { used: 0, total: 6, earliest: None });
        let draining = entry(true, true, 1_001);
        let over = entry(true, false, 1_000);
        assert_eq!(pool(&[draining.clone(), over.clone()]).earliest, None);
        let resting = entry(false, false, 1_001);
        let all = pool(&[draining, over, entry(true, false, 1_500), resting]);
        assert_eq!(all, Pool { used: 3, total: 6, earliest: Some(Tick(1_001)) });
    }

    #[test]
    fn a_range_that_runs_out_and_a_mark_far_ahead_are_alarms() {
        let meta = Meta::new(Format::DEFAULT, (0, 9));
        let alarms = |count: usize, last: LeaseEntry| {
            let mut entries = vec![entry(true, false, 1_500); count - 1];
            entries.push(last);
            Pool::of(&meta, &entries, Tick(1_000)).alarms(&meta, &entries, Tick(1_000))
        };
        assert_eq!(alarms(7, entry(true, false, 65_000)), [""; 0]);
        assert!(alarms(8, entry(true, false, 65_000))[0].starts_with("8 of 10"));
        let far = alarms(1, entry(true, false, 65_001));
        assert!(far[0].contains("lease drain 7"), "{far:?}");
        assert_eq!(alarms(1, entry(true, true, 65_001)), [""; 0]);
        let one = Meta::new(Format::DEFAULT, (0, 0));
        let entries = [entry(true, false, 1_500)];
        let pool = Pool::of(&one, &entries, Tick(1_000));
        assert_eq!(pool.alarms(&one, &entries, Tick(1_000)), [""; 0]);
    }

    #[test]
    fn outside_of_time_windows_are_yet_to_come_or_over() {
        let format = Format::DEFAULT;
        assert_eq!(judging_tick(format, format.epoch_ms() + 5), Tick(5));
        assert_eq!(judging_tick(format, format.epoch_ms() - 1), Tick(0));
        assert_eq!(judging_tick(format, format.end_ms()), Tick(u64::MAX));
    }
}
