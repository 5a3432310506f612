//! Queries, read strictly: a misspelt or repeated name is an error, never a default.

use std::str;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use snowlease_wire::Code;

use crate::reply::Failure;

/// The values of `names` in the query of a request, in the order of `names`.
///
/// # Errors
///
/// `bad-query`: a name that is not asked for, one that occurs twice, or text that is not well
/// encoded.
pub(crate) fn read<const N: usize>(
    query: Option<&str>,
    names: [&'static str; N],
) -> Result<[Option<String>; N], Failure> {
    let mut values = [const { None }; N];
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(place) = names.iter().position(|known| *known == name) else {
            return Err(Failure::new(Code::BadQuery, unknown(name, &names)));
        };
        let value = decoded(value).ok_or_else(|| {
            Failure::new(
                Code::BadQuery,
                format!("the value of {} is not well encoded", names[place]),
            )
        })?;
        if values[place].replace(value).is_some() {
            let detail = format!("{} occurs twice: give it once", names[place]);
            return Err(Failure::new(Code::BadQuery, detail));
        }
    }
    Ok(values)
}

/// The query of a call that takes none.
#[derive(Debug)]
pub(crate) struct NoQuery;

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<NoQuery, Failure> {
        read(parts.uri.query(), []).map(|[]| NoQuery)
    }
}

fn unknown(name: &str, names: &[&str]) -> String {
    // The name comes from outside: it is cut, and its encoding is left as it is.
    let name: String = name.chars().take(32).collect();
    if names.is_empty() {
        format!("this call takes no query, and there is `{name}`")
    } else {
        format!("this call takes {}, and there is `{name}`", names.join(" and "))
    }
}

/// Percent-decodes; `+` stays, as RFC 3986 has it and offsets of times need it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let ([high, low], others) = rest.split_first_chunk()?;
        bytes.push(hex(*high)? << 4 | hex(*low)?);
        rest = others;
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_once_and_no_other() {
        let one = |query| read(Some(query), ["n"]).map(|[n]| n).map_err(|failure| failure.0.detail);
        assert_eq!(one(""), Ok(None));
        assert_eq!(one("n="), Ok(Some(String::new())));
        assert_eq!(one("n"), Ok(Some(String::new())));
        assert_eq!(one("n=+5"), Ok(Some("+5".to_owned())));
        assert_eq!(one("n=%2B5"), Ok(Some("+5".to_owned())));
        for wrong in ["n=1&n=1", "N=1", "count=1", "n=1&m=2", "n=%", "n=%4", "n=%zz", "n=%ff"] {
            assert!(one(wrong).is_err(), "{wrong}");
        }
        assert!(read(Some("a=1"), []).is_err());
    }
}
