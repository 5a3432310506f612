//! Texts of the configuration become values here; each function says in its fault what to write.

use std::net::SocketAddr;
use std::time::Duration;

use snowlease_core::{Format, Generator};
use snowlease_lease::range::check_range;

use crate::time;

/// A length of time with its unit, in whole milliseconds: `1ms`, `60s`, `5m`, `1h`.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let number: u64 = whole(digits).ok_or("write a whole number and a unit, such as 1ms or 60s")?;
    let ms = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "" => return Err(format!("the unit is missing: write {number}ms or {number}s")),
        other if other.trim() != other => {
            return Err("leave the spaces out: write it as 1ms or 60s".to_owned());
        }
        other => return Err(format!("{other} is no unit: use ms, s, m or h")),
    };
    ms.map(Duration::from_millis).ok_or_else(|| "this is too long".to_owned())
}

/// The length of a tick in milliseconds.
pub(super) fn tick_ms(text: &str) -> Result<u32, String> {
    let ms = length(text)?.as_millis();
    u32::try_from(ms).map_err(|_| format!("choose 1ms to {}ms (a day)", Format::MAX_TICK_MS))
}

/// An epoch in Unix ms: RFC 3339 with a zone, or a number that cannot be one of seconds.
pub(super) fn epoch_ms(text: &str) -> Result<i64, String> {
    time::parse(text).map_err(|error| error.to_string())
}

/// Generator ids, first and last, that a store of this format can hold.
pub(super) fn generators(text: &str, format: Format) -> Result<(u64, u64), String> {
    let range = match text.split_once('-') {
        Some((first, last)) => whole(first).zip(whole(last)),
        None => whole(text).map(|only| (only, only)),
    };
    let range = range.ok_or("write the first and the last generator id, such as 0-1023")?;
    check_range(format, range).map_err(|error| error.to_string())?;
    Ok(range)
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "write an IP address and a port, such as 127.0.0.1:8700 or [::1]:8700".to_owned()
    })
}

pub(super) fn max_ids(text: &str) -> Result<usize, String> {
    whole(text)
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| (1..=Generator::MAX_BATCH).contains(count))
        .ok_or_else(|| format!("write a whole number from 1 to {}", Generator::MAX_BATCH))
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// A number as it prints: no sign, space or leading zero.
fn whole(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        assert_eq!(length("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(length("60s"), Ok(Duration::from_mins(1)));
        assert_eq!(length("1h"), Ok(Duration::from_hours(1)));
        assert_eq!(length("60").unwrap_err(), "the unit is missing: write 60ms or 60s");
        for text in ["", "s", "1.5s", "-1s", "+1s", " 1s", "1s ", "01s", "1 s", "1S", "1d", "１s"]
        {
            assert!(length(text).is_err(), "{text}");
        }
        assert!(length("1 ms").unwrap_err().contains("leave the spaces out"));
        assert!(length("18446744073709551615h").is_err());
        assert!(tick_ms("4294967296ms").is_err());
    }

    #[test]
    fn an_epoch_in_seconds_is_not_taken_for_milliseconds() {
        let fault = epoch_ms("1704067200").unwrap_err();
        assert!(fault.contains("looks like seconds"), "{fault}");
        assert_eq!(epoch_ms("1704067200000"), Ok(1_704_067_200_000));
        assert_eq!(epoch_ms("1970-01-01T00:00:00Z"), Ok(0));
        assert!(epoch_ms("0").is_err());
        let fault = epoch_ms("-1000").unwrap_err();
        assert!(fault.contains("1969-12-31T23:59:59Z"), "{fault}");
        assert_eq!(epoch_ms("1969-12-31T23:59:59Z"), Ok(-1_000));
        assert!(epoch_ms("2024-01-01T00:00:00").is_err());
    }

    #[test]
    fn generator_ids_are_a_range_of_plain_numbers() {
        let read = |text| generators(text, Format::DEFAULT);
        assert_eq!(read("0-1023"), Ok((0, 1023)));
        assert_eq!(read("7"), Ok((7, 7)));
        for text in ["", "-", "7-", "-7", "5-4", "0-1-2", " 7", "07", "+7", "a", "0-1024"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_and_switches() {
        assert_eq!(max_ids("10000"), Ok(10_000));
        for text in ["0", "-1", "1e3", "1048577", "99999999999999999999"] {
            assert!(max_ids(text).is_err(), "{text}");
        }
        assert_eq!(switch("true"), Ok(true));
        assert!(switch("1").is_err());
        assert!(listen("localhost:8700").is_err() && listen("8700").is_err());
    }
}
