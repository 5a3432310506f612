//! Ids for a span of time: half-open bounds, ready for an index scan.

use std::fmt;

use crate::{Format, Id};

/// `[first, end)`: every id whose time lies in a half-open span of time, and no other.
///
/// # Example
///
/// ```
/// # use snowlease_core::{Format, IdSpan};
/// let epoch = Format::DEFAULT.epoch_ms();
/// let minute = IdSpan::of_ms(Format::DEFAULT, epoch, epoch + 60_000)?;
/// assert_eq!(minute.first.get(), 0);
/// assert_eq!(minute.end.get(), 60_000 << 22); // WHERE id >= 0 AND id < 251658240000
/// # Ok::<(), snowlease_core::SpanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdSpan {
    /// The smallest id of the span.
    pub first: Id,
    /// The smallest id after the span.
    pub end: Id,
}

impl IdSpan {
    /// The ids whose time, as decoded, is at or after `from_ms` and before `to_ms` (Unix ms).
    ///
    /// An id's time is the beginning of its tick, so a bound inside a tick is rounded up to the
    /// next tick; neighbouring spans of time therefore give neighbouring spans of ids. Times
    /// before the epoch are taken as the epoch: no id is older.
    ///
    /// # Errors
    ///
    /// * [`SpanError::Reversed`]: `from_ms` is after `to_ms`.
    /// * [`SpanError::TimeEnd`]: a bound lies past the time field, so no id marks it.
    pub fn of_ms(format: Format, from_ms: i64, to_ms: i64) -> Result<IdSpan, SpanError> {
        if from_ms > to_ms {
            return Err(SpanError::Reversed { from_ms, to_ms });
        }
        Ok(IdSpan { first: first_id_at(format, from_ms)?, end: first_id_at(format, to_ms)? })
    }
}

/// The smallest id of the first tick that begins at or after `ms`.
fn first_id_at(format: Format, ms: i64) -> Result<Id, SpanError> {
    let past = SpanError::TimeEnd { end_ms: format.end_ms() };
    let tick = format.first_tick_from_ms(ms);
    format.compose(crate::IdParts { tick, generator_id: 0, sequence: 0 }).map_err(|_| past)
}

/// Why times bound no ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanError {
    /// The first time is after the second. Exchange them.
    Reversed {
        /// First bound, Unix ms.
        from_ms: i64,
        /// Second bound, Unix ms.
        to_ms: i64,
    },
    /// A bound lies past the last tick. Use one at or before its beginning.
    TimeEnd {
        /// First Unix millisecond past the time field.
        end_ms: i64,
    },
}

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpanError::Reversed { from_ms, to_ms } => {
                write!(f, "the span begins at Unix ms {from_ms}, after its end at {to_ms}")
            }
            SpanError::TimeEnd { end_ms } => write!(
                f,
                "the span reaches past the time field, which ends at Unix ms {end_ms}: use an \
                 earlier bound"
            ),
        }
    }
}

impl std::error::Error for SpanError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use proptest::prelude::*;

    #[test]
    fn bounds_outside_the_format() {
        let format = Format::DEFAULT;
        let (epoch, end) = (format.epoch_ms(), format.end_ms());
        assert_eq!(IdSpan::of_ms(format, i64::MIN, epoch).unwrap().end, Id::MIN);
        assert!(IdSpan::of_ms(format, epoch, end - 1).is_ok());
        assert_eq!(IdSpan::of_ms(format, epoch, end), Err(SpanError::TimeEnd { end_ms: end }));
        assert!(matches!(IdSpan::of_ms(format, 2, 1), Err(SpanError::Reversed { .. })));
        let empty = IdSpan::of_ms(format, epoch + 5, epoch + 5).unwrap();
        assert_eq!(empty.first, empty.end);
    }

    proptest! {
        #[test]
        fn a_span_holds_exactly_the_ids_of_its_time(
            tick_ms in 1u32..5000, from in 0i64..10_000_000, length in 0i64..10_000_000,
            value in 0..(1u64 << 46),
        ) {
            let format = Format::new(Layout::DEFAULT, tick_ms, 1_704_067_200_000).unwrap();
            let (from_ms, to_ms) = (format.epoch_ms() + from, format.epoch_ms() + from + length);
            let span = IdSpan::of_ms(format, from_ms, to_ms).unwrap();
            let id = Id::new(value).unwrap();
            let time = format.unix_ms(format.decode(id).tick);
            prop_assert_eq!(span.first <= id && id < span.end, from_ms <= time && time < to_ms);
        }
    }
}
