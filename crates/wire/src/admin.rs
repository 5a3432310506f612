//! What an operator asks of a store on the wire, and what is answered.

use serde::{Deserialize, Serialize};

use crate::Mode;

/// The body of every call that changes a store: an empty object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AdminAsk {}

/// `POST /generators/{id}/drain` and `undrain`, 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Drained {
    /// The generator id.
    pub generator_id: u64,
    /// Whether it is draining now: it is not granted, and its holder moves to another one.
    pub draining: bool,
}

/// `POST /store/freeze` and `unfreeze`, 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModeSet {
    /// Whether the store grants now.
    pub mode: Mode,
}

/// `POST /store/quarantine`, 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Quarantined {
    /// The first tick that is granted again.
    pub floor: u64,
    /// The instant it begins, RFC 3339; absent if it is past what that can say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_time: Option<String>,
}

/// `GET /store/verify`, 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verified {
    /// Whether nothing is wrong.
    pub sound: bool,
    /// How many cells were looked at.
    pub cells: u64,
    /// How many steps from one version of a cell to the next.
    pub steps: u64,
    /// How far back the store keeps the history of its cells, in words.
    pub history: String,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// The generator id whose cell it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_id: Option<u64>,
    /// What is wrong, in words.
    pub what: String,
}
