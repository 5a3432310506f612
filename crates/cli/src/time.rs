//! Instants as people read them, and spans as they speak of them.

pub(crate) use snowlease_wire::time::{parse, text};

/// Milliseconds in a year of the calendar, on average.
pub(crate) const YEAR_MS: i64 = 31_556_952_000;

/// The instant in UTC; in words where the calendar of RFC 3339 ends.
pub(crate) fn told(unix_ms: i64) -> String {
    text(unix_ms).unwrap_or_else(|| {
        let side = if unix_ms < 0 { "before the year 0" } else { "after the year 9999" };
        side.to_owned()
    })
}

/// A length in years with one decimal, rounded down: `69.6 years`.
pub(crate) fn years(ms: i128) -> String {
    let tenths = ms * 10 / i128::from(YEAR_MS);
    format!("{}.{} years", grouped((tenths / 10).unsigned_abs()), tenths % 10)
}

/// A number with its thousands set apart: `4,096`.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1 << 20, "1,048,576")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(u128::MAX).matches(',').count(), 12);
    }

    #[test]
    fn what_the_calendar_cannot_say_is_said_in_words() {
        assert_eq!(told(1_704_067_200_000), "2024-01-01T00:00:00.000Z");
        assert_eq!(told(i64::MAX), "after the year 9999");
        assert_eq!(told(i64::MIN), "before the year 0");
        assert_eq!(years(i128::from(YEAR_MS) * 3 / 2), "1.5 years");
    }
}
