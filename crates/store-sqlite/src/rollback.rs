//! Whether the store was put back to an older state, and how long nothing may then be granted.
//!
//! Pure: from what the store says and what the witness says to an alarm and a floor.

use snowlease_core::{Tick, TickError};
use snowlease_lease::rules;

use crate::schema::Record;
use crate::witness::{Reading, Slot};

/// Why the store cannot be trusted to know every window, in words; `None` if it can.
pub(crate) fn judge(record: &Record, reading: &Reading) -> Option<String> {
    let slot = match reading {
        Reading::Missing => return Some("the witness file beside the store is missing".to_owned()),
        Reading::Unreadable => {
            return Some("the witness file beside the store is damaged".to_owned());
        }
        Reading::Slot(slot) => slot,
    };
    if slot.store_id != record.store_id {
        Some("the witness file beside the store is of another store".to_owned())
    } else if slot.changes > record.changes {
        let missing = slot.changes - record.changes;
        Some(format!("the store was put back to an older state: {missing} changes are missing"))
    } else if slot.changes == record.changes && slot.until != record.until {
        Some("the store and its witness file disagree: one of them was put back".to_owned())
    } else {
        None
    }
}

/// The first tick that may be granted again: no window that was granted and forgotten reaches it.
///
/// # Errors
///
/// [`TickError`]: the clock cannot be right, so there is no telling how long to wait.
pub(crate) fn at_least(record: &Record, reading: &Reading, now_ms: i64) -> Result<Tick, TickError> {
    let now = record.meta.format.tick_at_ms(now_ms)?;
    let floor = rules::past_every_window(&record.meta, now).max(record.until);
    Ok(match witnessed(record, reading) {
        Some(slot) => floor.max(slot.until),
        None => floor,
    })
}

/// The change counter from which to go on: above every one that was ever witnessed.
pub(crate) fn next_changes(record: &Record, reading: &Reading) -> u64 {
    let seen = match reading {
        Reading::Slot(slot) => slot.changes,
        Reading::Missing | Reading::Unreadable => 0,
    };
    record.changes.max(seen) + 1
}

/// The witness, if its ticks are ticks of this store.
fn witnessed<'a>(record: &Record, reading: &'a Reading) -> Option<&'a Slot> {
    match reading {
        Reading::Slot(slot) if slot.format == record.meta.format.to_string() => Some(slot),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use snowlease_core::Format;
    use snowlease_lease::Meta;

    fn record() -> Record {
        let meta = Meta { longest_window: 90_000, ..Meta::new(Format::DEFAULT, (0, 1)) };
        let identity = Identity { machine: String::new(), inode: 1 };
        Record { meta, store_id: [1; 16], changes: 10, until: Tick(500), pulse_ms: 0, identity }
    }

    fn slot(store_id: [u8; 16], changes: u64, until: u64) -> Reading {
        let format = Format::DEFAULT.to_string();
        Reading::Slot(Slot { store_id, changes, until: Tick(until), format })
    }

    #[test]
    fn behind_is_normal_and_ahead_is_the_alarm() {
        let alarm = |reading| judge(&record(), &reading);
        assert_eq!(alarm(slot([1; 16], 10, 500)), None);
        assert_eq!(alarm(slot([1; 16], 9, 400)), None);
        assert!(alarm(slot([1; 16], 12, 500)).is_some_and(|what| what.contains("2 changes")));
        assert!(alarm(slot([1; 16], 10, 501)).is_some());
        assert!(alarm(slot([2; 16], 3, 1)).is_some());
        assert!(alarm(Reading::Missing).is_some());
        assert!(alarm(Reading::Unreadable).is_some());
    }

    #[test]
    fn the_floor_is_past_every_window_that_may_have_been_forgotten() {
        let now_ms = Format::DEFAULT.unix_ms(Tick(1_000_000));
        let floor = |record: &Record, reading| at_least(record, &reading, now_ms);
        let mut record = record();
        assert_eq!(floor(&record, Reading::Missing), Ok(Tick(1_000_000 + 90_000 + 4_000)));
        record.meta.longest_window = 0;
        assert_eq!(floor(&record, Reading::Missing), Ok(Tick(1_000_000 + 60_000 + 4_000)));
        assert_eq!(floor(&record, slot([1; 16], 11, 2_000_000)), Ok(Tick(2_000_000)));
        record.until = Tick(3_000_000);
        assert_eq!(floor(&record, slot([1; 16], 11, 2_000_000)), Ok(Tick(3_000_000)));
        assert!(at_least(&record, &Reading::Missing, 0).is_err());
        assert_eq!(next_changes(&record, &slot([1; 16], 70, 1)), 71);
        assert_eq!(next_changes(&record, &Reading::Missing), 11);
    }
}
