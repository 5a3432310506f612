//! Bodies of requests: JSON of one type, of bounded length, in bounded time.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use snowlease_wire::Code;

use crate::reply::Failure;
use crate::shared::Shared;

/// The body of a request, read as JSON.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Json<T>, Failure> {
        if !is_json(request.headers()) {
            let detail = "send the body with Content-Type: application/json";
            return Err(Failure::new(Code::UnsupportedMediaType, detail));
        }
        if is_encoded(request.headers()) {
            let detail = "send the body as it is, without Content-Encoding";
            return Err(Failure::new(Code::UnsupportedMediaType, detail));
        }
        let limits = shared.parts.limits;
        let body = Limited::new(request.into_body(), limits.body).collect();
        let collected = tokio::time::timeout(limits.body_timeout, body).await.map_err(|_| {
            Failure::new(Code::RequestTimeout, "the body did not arrive in time: send it again")
        })?;
        let bytes = match collected {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large(limits.body)),
            Err(_) => return Err(Failure::new(Code::BadBody, "the body ends early or is damaged")),
        };
        parse(&bytes).map(Json)
    }
}

/// Reads a JSON object. (The reader would take a list for one, too, by the order of its members.)
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Failure::new(Code::BadBody, "the body is no JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|error| Failure::new(Code::BadBody, explain(&error)))
}

pub(crate) fn too_large(limit: usize) -> Failure {
    Failure::new(Code::BodyTooLarge, format!("a body has at most {limit} bytes"))
        .with(|problem| problem.limit = u64::try_from(limit).ok())
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return false };
    let media_type = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

/// Whether the bytes of the body are another form of it, such as a compressed one.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().any(|value| {
        let names = value.to_str().unwrap_or("?").split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).any(|name| !name.eq_ignore_ascii_case("identity"))
    })
}

/// The reader's message without the value it found, which may be a secret.
fn explain(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if error.classify() != Category::Data {
        return format!("the body is no JSON: {message}");
    }
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let name: String = rest.split('`').next().unwrap_or_default().chars().take(32).collect();
        return format!("there is no member `{name}` here");
    }
    if message.starts_with("missing field") || message.starts_with("duplicate field") {
        return message;
    }
    // What was found comes before the last "expected", and what is expected after it.
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("a value is of the wrong type: expected {expected}"),
        None => format!("a value is wrong at line {} column {}", error.line(), error.column()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_wire::{LeaseAsk, RenewAsk};

    fn why(text: &str) -> String {
        parse::<RenewAsk>(text.as_bytes()).unwrap_err().0.detail
    }

    #[test]
    fn the_member_is_named_and_no_value_is_repeated() {
        assert_eq!(why(r#"{"token":"hunter2","sec":1}"#), "there is no member `sec` here");
        assert_eq!(why(r#"{"token":"hunter2"}"#), "missing field `seq` at line 1 column 19");
        for text in [
            r#"{"token":"t","seq":"hunter2"}"#,
            r#"{"token":"t","seq":"hunter2, expected u64 hunter2"}"#,
            r#"{"token":["hunter2"],"seq":1}"#,
            r#"{"token":{"hunter2":1},"seq":1}"#,
            r#"{"token":"hunter2","seq":1} hunter2"#,
            r#"{"token":"hunter2","seq":-1}"#,
            r#"{"token":"hunter2"#,
            r#"["hunter2",1]"#,
            r#""hunter2""#,
        ] {
            assert!(!why(text).contains("hunter2"), "{text}: {}", why(text));
        }
    }

    #[test]
    fn only_an_object_is_a_body() {
        for text in ["", " ", "[]", r#"["web"]"#, "null", "1", "{", "{}x", "\u{feff}{}", "{]"] {
            assert!(parse::<LeaseAsk>(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(parse::<LeaseAsk>(b" {\"holder\":\"web\"} ").is_ok());
    }
}
