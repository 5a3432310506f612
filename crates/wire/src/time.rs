//! Instants as text: one way to write them, and strict reading.
//!
//! Text without a zone means another instant on every machine, and ten digits are seconds to one
//! reader and milliseconds to the next. Both are refused with a hint, never guessed.

use std::fmt;

use jiff::Timestamp;
use snowlease_core::{Format, Tick};

/// 2000-01-01T00:00:00Z: fewer milliseconds are seconds, or a mistake.
const EARLIEST_DIGITS_MS: i64 = 946_684_800_000;

/// 9999-12-30T00:00:00Z: more milliseconds are microseconds or nanoseconds. The last day is left
/// out because not every zone has it.
const LATEST_MS: i64 = 253_402_128_000_000;

/// 0000-01-01T00:00:00Z.
const FIRST_TEXT_MS: i64 = -62_167_219_200_000;

/// The RFC 3339 text of a Unix millisecond: in UTC, with `Z` and exactly 3 decimals.
///
/// `None` before the year 0 or past the year 9999, which the text cannot say.
///
/// # Example
///
/// ```
/// # use snowlease_wire::time::text;
/// assert_eq!(text(1_704_067_200_005).as_deref(), Some("2024-01-01T00:00:00.005Z"));
/// assert_eq!(text(i64::MAX), None);
/// ```
pub fn text(unix_ms: i64) -> Option<String> {
    if !(FIRST_TEXT_MS..=LATEST_MS).contains(&unix_ms) {
        return None;
    }
    Timestamp::from_millisecond(unix_ms).ok().map(|time| format!("{time:.3}"))
}

/// The instant at which a tick begins, in Unix ms.
///
/// # Errors
///
/// [`PastAllTime`]: it is later than a number of ms can say.
pub fn of_tick(format: Format, tick: Tick) -> Result<i64, PastAllTime> {
    let unix_ms = i128::from(format.epoch_ms()) + i128::from(tick.0) * i128::from(format.tick_ms());
    i64::try_from(unix_ms).map_err(|_| PastAllTime { tick })
}

/// A tick begins later than a number of ms can say. Read the id by the format it was made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastAllTime {
    /// The tick.
    pub tick: Tick,
}

impl fmt::Display for PastAllTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tick(tick) = self.tick;
        write!(
            f,
            "its time field, {tick}, is past all time that can be told: read it by the format it \
             was made by"
        )
    }
}

impl std::error::Error for PastAllTime {}

/// A text for people in which each `tick N` has its instant beside it, where the calendar has one.
///
/// Doing it twice does no harm.
///
/// # Example
///
/// ```
/// # use snowlease_core::Format;
/// # use snowlease_wire::time::beside_ticks;
/// let text = beside_ticks("it grants again from tick 5", Format::DEFAULT);
/// assert_eq!(text, "it grants again from tick 5 (2024-01-01T00:00:00.005Z)");
/// ```
pub fn beside_ticks(words: &str, format: Format) -> String {
    const WORD: &str = "tick ";
    let mut told = String::with_capacity(words.len() + 32);
    let mut rest = words;
    while let Some(at) = rest.find(WORD) {
        let (before, after) = rest.split_at(at + WORD.len());
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (number, left) = after.split_at(digits);
        told.push_str(before);
        told.push_str(number);
        if let Ok(tick) = number.parse()
            && !left.starts_with(" (")
            && let Some(instant) = text(format.unix_ms(Tick(tick)))
        {
            told.push_str(" (");
            told.push_str(&instant);
            told.push(')');
        }
        rest = left;
    }
    told.push_str(rest);
    told
}

/// Reads an instant: RFC 3339 text with a zone, or Unix milliseconds from the year 2000 on.
///
/// # Shape and units
///
/// Text is `YYYY-MM-DDTHH:MM:SS`, optionally `.` and decimals, then `Z` or `+HH:MM` or `-HH:MM`.
/// The answer is in Unix ms.
///
/// # Errors
///
/// A [`TimeError`] that says how to write it.
///
/// # Example
///
/// ```
/// # use snowlease_wire::{TimeError, time::parse};
/// assert_eq!(parse("2024-01-01T05:45:00+05:45"), Ok(1_704_067_200_000));
/// assert_eq!(parse("1704067200000"), Ok(1_704_067_200_000));
/// assert_eq!(parse("1704067200"), Err(TimeError::Seconds));
/// assert_eq!(parse("2024-01-01T00:00:00"), Err(TimeError::NoZone));
/// ```
pub fn parse(text: &str) -> Result<i64, TimeError> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return digits(text);
    }
    if let Some(digits) = text.strip_prefix('-')
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(TimeError::Negative);
    }
    check_shape(text)?;
    let time: Timestamp = text.parse().map_err(|_| TimeError::NoSuchTime)?;
    let unix_ms = time.as_millisecond();
    if time.subsec_nanosecond() % 1_000_000 != 0 {
        return Err(TimeError::TooFine);
    }
    if unix_ms > LATEST_MS {
        return Err(TimeError::NoSuchTime);
    }
    Ok(unix_ms)
}

fn digits(text: &str) -> Result<i64, TimeError> {
    match text.parse::<i64>() {
        Ok(unix_ms) if unix_ms < EARLIEST_DIGITS_MS => Err(TimeError::Seconds),
        Ok(unix_ms) if unix_ms <= LATEST_MS && !text.starts_with('0') => Ok(unix_ms),
        _ => Err(TimeError::TooManyDigits),
    }
}

/// Byte by byte, so that the lenient forms of the reader below never get to it.
fn check_shape(text: &str) -> Result<(), TimeError> {
    const PATTERN: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    const DATE: usize = 10;
    let bytes = text.as_bytes();
    let fits = |bytes: &[u8], pattern: &[u8]| {
        bytes.len() == pattern.len()
            && bytes.iter().zip(pattern).all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                other => byte == other,
            })
    };
    if fits(bytes, &PATTERN[..DATE]) {
        return Err(TimeError::NoZone);
    }
    let Some((head, rest)) = bytes.split_at_checked(PATTERN.len()) else {
        return Err(TimeError::Malformed);
    };
    // A leap second has no Unix time; the reader would take it for the second before.
    if !fits(head, PATTERN) || head.ends_with(b"60") {
        return Err(TimeError::Malformed);
    }
    let zone = match rest {
        [b'.', decimals @ ..] => {
            let length = decimals.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if length == 0 || length > 9 {
                return Err(TimeError::Malformed);
            }
            &decimals[length..]
        }
        zone => zone,
    };
    match zone {
        [] => Err(TimeError::NoZone),
        b"Z" => Ok(()),
        zone if fits(zone, b"+dd:dd") || fits(zone, b"-dd:dd") => Ok(()),
        _ => Err(TimeError::Malformed),
    }
}

/// Why a text is no instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// There is no zone. Add `Z`, or an offset.
    NoZone,
    /// The number would be before the year 2000 in milliseconds: seconds were meant. Add `000`, or
    /// write an early time in RFC 3339.
    Seconds,
    /// The number is negative. Write times before 1970 in RFC 3339.
    Negative,
    /// The number is past the year 9999 in milliseconds: it is in a finer unit. Divide it.
    TooManyDigits,
    /// Finer than a millisecond. Round it.
    TooFine,
    /// The calendar or the clock has no such time. Correct it.
    NoSuchTime,
    /// Neither RFC 3339 nor digits. Write it as the message says.
    Malformed,
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeError::NoZone => {
                "the time has no zone: write it as 2026-05-01T12:00:00Z or with an offset, +02:00"
            }
            TimeError::Seconds => {
                "the number looks like seconds: times are in milliseconds since 1970, add 000; one \
                 before the year 2000 is written as 1999-12-31T23:59:59Z"
            }
            TimeError::Negative => {
                "the number is negative: a time before 1970 is written as 1969-12-31T23:59:59Z"
            }
            TimeError::TooManyDigits => {
                "the number is past the year 9999: times are in milliseconds since 1970, \
                 not in microseconds or nanoseconds"
            }
            TimeError::TooFine => "the time is finer than a millisecond: give at most 3 decimals",
            TimeError::NoSuchTime => "there is no such time: check month, day, hour and offset",
            TimeError::Malformed => {
                "the time is malformed: write it as 2026-05-01T12:00:00.000Z, \
                 or in milliseconds since 1970"
            }
        })
    }
}

impl std::error::Error for TimeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_past_all_time_is_an_error_and_never_another_time() {
        let format = Format::new("t53g5s5".parse().unwrap(), 86_400_000, 0).unwrap();
        let last = (i64::MAX / 86_400_000).cast_unsigned();
        assert_eq!(of_tick(format, Tick(last)), Ok(format.unix_ms(Tick(last))));
        assert_eq!(of_tick(format, Tick(last + 1)), Err(PastAllTime { tick: Tick(last + 1) }));
        assert_eq!(of_tick(Format::DEFAULT, Tick(5)), Ok(1_704_067_200_005));
    }

    #[test]
    fn text_is_in_utc_with_three_decimals() {
        for (unix_ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (3_735_380_855_551, "2088-05-14T13:47:35.551Z"),
            (FIRST_TEXT_MS, "0000-01-01T00:00:00.000Z"),
            (LATEST_MS, "9999-12-30T00:00:00.000Z"),
        ] {
            assert_eq!(text(unix_ms).as_deref(), Some(expected));
            assert_eq!(parse(expected), Ok(unix_ms));
        }
        for beyond in [FIRST_TEXT_MS - 1, LATEST_MS + 1, i64::MIN, i64::MAX] {
            assert_eq!(text(beyond), None);
        }
    }

    #[test]
    fn ticks_have_their_instant_beside_them_once() {
        let beside = |words| beside_ticks(words, Format::DEFAULT);
        let told = "all 4 are in use: the first becomes free at tick 60000; widen the range";
        let expected = "all 4 are in use: the first becomes free at tick 60000 \
                        (2024-01-01T00:01:00.000Z); widen the range";
        assert_eq!(beside(told), expected);
        assert_eq!(beside(expected), expected);
        assert_eq!(beside("tick 0"), "tick 0 (2024-01-01T00:00:00.000Z)");
        for none in [
            "",
            "tick ",
            "every id of this tick is taken",
            "tick 18446744073709551615",
            "tick 99999999999999999999999",
        ] {
            assert_eq!(beside(none), none);
        }
    }

    #[test]
    fn what_is_not_exact_is_refused() {
        use TimeError::{Malformed, Negative, NoSuchTime, NoZone, Seconds, TooFine, TooManyDigits};
        for (text, error) in [
            ("", Malformed),
            ("now", Malformed),
            ("-1704067200000", Negative),
            ("-1", Negative),
            ("-99999999999999999999", Negative),
            ("-", Malformed),
            ("--1", Malformed),
            ("-+1", Malformed),
            ("-1s", Malformed),
            ("+1704067200000", Malformed),
            ("１７０４０６７２０００００", Malformed),
            ("0", Seconds),
            ("1704067200", Seconds),
            ("946684799999", Seconds),
            ("01704067200000", TooManyDigits),
            ("1704067200000000", TooManyDigits),
            ("99999999999999999999", TooManyDigits),
            ("2024-01-01", NoZone),
            ("2024-01-01T00:00:00", NoZone),
            ("2024-01-01T00:00:00.000", NoZone),
            ("2024-01-01 00:00:00Z", Malformed),
            ("2024-01-01T00:00:00z", Malformed),
            ("2024-01-01T00:00Z", Malformed),
            ("2024-01-01T00:00:00,5Z", Malformed),
            ("2024-01-01T00:00:00.Z", Malformed),
            ("2024-01-01T00:00:00Z ", Malformed),
            ("2024-01-01T00:00:00+0200", Malformed),
            ("2024-01-01T00:00:00+02:00[Europe/Berlin]", Malformed),
            ("2016-12-31T23:59:60Z", Malformed),
            ("2024-02-30T00:00:00Z", NoSuchTime),
            ("2024-01-01T24:00:00Z", NoSuchTime),
            ("2024-01-01T00:00:00+99:00", NoSuchTime),
            ("2024-01-01T00:00:00.0001Z", TooFine),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
        assert_eq!(parse("946684800000"), Ok(EARLIEST_DIGITS_MS));
        assert_eq!(parse("2024-01-01T00:00:00.000000000Z"), Ok(1_704_067_200_000));
    }
}
