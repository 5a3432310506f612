//! Ids on the wire: batches, ids taken apart, and the ids of a span of time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use snowlease_core::{Id, TextForm};

use crate::FormatDoc;

/// `GET /ids` and `POST /ids`: exactly as many ids as were asked for, strictly ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ids {
    /// The ids in decimal.
    #[cfg_attr(feature = "openapi", schema(examples(json!(["20987903", "25178112"]))))]
    pub ids: Vec<String>,
}

/// `GET /ids/{id}/decode`: an id taken apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decoded {
    /// The id in decimal.
    pub id: String,
    /// The form the id was given in: `decimal`, `hex`, `crockford` or `base62`.
    pub form: String,
    /// The id in every form.
    pub texts: Texts,
    /// The time field.
    pub tick: u64,
    /// The instant at which that tick begins, as RFC 3339 with 3 decimals in UTC; absent past the
    /// year 9999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(examples("2026-05-01T12:00:00.000Z")))]
    pub time: Option<String>,
    /// The same instant in Unix ms.
    pub unix_ms: i64,
    /// The generator id; absent if ids of the preset have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_id: Option<u64>,
    /// The sequence; absent if ids of the preset have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The region of the generator id, if the service knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The format the id was read by; absent if the preset has fields of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatDoc>,
    /// The preset the id was read by, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// With a preset: every field but the time, as its system calls it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, u64>,
    /// Whether that instant is after the service's clock; often a sign of a wrong format.
    pub in_future: bool,
}

/// An id in every form; in each form an id has one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Texts {
    /// `0`, or up to 19 digits.
    pub decimal: String,
    /// 16 lower-case hex digits.
    pub hex: String,
    /// 13 digits of Crockford's base 32; for places that ignore case.
    pub crockford: String,
    /// 11 digits; for places that keep case.
    pub base62: String,
}

impl From<Id> for Texts {
    fn from(id: Id) -> Texts {
        let text = |form: TextForm| form.encode(id).to_string();
        Texts {
            decimal: text(TextForm::Decimal),
            hex: text(TextForm::Hex),
            crockford: text(TextForm::Crockford),
            base62: text(TextForm::Base62),
        }
    }
}

/// `GET /ids/range`: the ids of a span of time, half-open: `first <= id < end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdRange {
    /// The smallest id of the span, in decimal.
    pub first: String,
    /// The smallest id after the span, in decimal.
    pub end: String,
}
