//! Which of the types on offer a request wants.

use axum::http::{HeaderMap, header};
use snowlease_wire::Code;

use crate::reply::Failure;

/// A way to send a batch of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `{"ids":["…"]}`.
    Json,
    /// One id in decimal a line.
    Lines,
    /// Eight bytes an id, big-endian.
    Bytes,
}

impl Wanted {
    const ALL: [Wanted; 3] = [Wanted::Json, Wanted::Lines, Wanted::Bytes];

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Wanted::Json => "application/json",
            Wanted::Lines => "text/plain; charset=utf-8",
            Wanted::Bytes => "application/octet-stream",
        }
    }

    const fn halves(self) -> (&'static str, &'static str) {
        match self {
            Wanted::Json => ("application", "json"),
            Wanted::Lines => ("text", "plain"),
            Wanted::Bytes => ("application", "octet-stream"),
        }
    }
}

/// The type with the highest weight, JSON first among equals; JSON if nothing is said.
///
/// # Errors
///
/// `not-acceptable`: every type on offer has weight 0 or is not named.
pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Wanted, Failure> {
    let mut ranges = Vec::new();
    for value in headers.get_all(header::ACCEPT) {
        let text = value.to_str().unwrap_or_default();
        ranges.extend(text.split(',').filter_map(range));
    }
    if !headers.contains_key(header::ACCEPT) {
        return Ok(Wanted::Json);
    }
    let mut best = None;
    for wanted in Wanted::ALL {
        let weight = weight(&ranges, wanted);
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((wanted, weight));
        }
    }
    best.map(|(wanted, _)| wanted).ok_or_else(|| {
        let detail = "ids are sent as application/json, text/plain or application/octet-stream";
        Failure::new(Code::NotAcceptable, detail)
    })
}

/// A range of types with its weight in thousandths.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    weight: u16,
}

/// Reads one member of the header; `None` if it is malformed, which matches nothing.
fn range(text: &str) -> Option<Range<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    let mut weight = 1000;
    for parameter in parts {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if name.trim().eq_ignore_ascii_case("q") {
            weight = thousandths(value.trim())?;
        }
    }
    Some(Range { kind, subtype, weight })
}

/// The weight as RFC 9110 writes it: `0` or `1`, and up to three decimals.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let decimals: u16 = format!("{decimals:0<3}").parse().ok()?;
    match whole {
        "0" => Some(decimals),
        "1" if decimals == 0 => Some(1000),
        _ => None,
    }
}

/// The weight of the most specific range that covers the type.
fn weight(ranges: &[Range<'_>], wanted: Wanted) -> u16 {
    let (kind, subtype) = wanted.halves();
    let specificity = |range: &Range<'_>| match (range.kind, range.subtype) {
        ("*", "*") => Some(0),
        (of, "*") if of.eq_ignore_ascii_case(kind) => Some(1),
        (of, sub) if of.eq_ignore_ascii_case(kind) && sub.eq_ignore_ascii_case(subtype) => Some(2),
        _ => None,
    };
    ranges
        .iter()
        .filter_map(|range| specificity(range).map(|specific| (specific, range.weight)))
        .max()
        .map_or(0, |(_, weight)| weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_most_specific_range_decides_and_json_wins_a_tie() {
        let negotiated = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            negotiate(&headers).ok()
        };
        assert_eq!(negotiate(&HeaderMap::new()).ok(), Some(Wanted::Json));
        for (accept, wanted) in [
            ("*/*", Some(Wanted::Json)),
            ("application/*", Some(Wanted::Json)),
            ("text/*", Some(Wanted::Lines)),
            ("text/plain", Some(Wanted::Lines)),
            ("TEXT/Plain; charset=utf-8", Some(Wanted::Lines)),
            ("application/octet-stream", Some(Wanted::Bytes)),
            ("application/json;q=0.5, text/plain", Some(Wanted::Lines)),
            ("application/json;q=0, */*", Some(Wanted::Lines)),
            ("text/html, */*;q=0.1", Some(Wanted::Json)),
            ("text/html", None),
            ("*/*;q=0", None),
            ("application/json;q=2", None),
            ("", None),
            ("json", None),
        ] {
            assert_eq!(negotiated(accept), wanted, "{accept}");
        }
    }
}
