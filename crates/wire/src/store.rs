//! How the store and the service stand, on the wire.

use serde::{Deserialize, Serialize};

use crate::FormatDoc;

/// `GET /store`: what the store behind the service was made for, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoreDoc {
    /// What sort of store: `sqlite`, `memory`, …
    pub kind: String,
    /// The one format of every id issued under it.
    pub format: FormatDoc,
    /// The generator ids it grants, first and last: `0-1023`.
    pub generators: String,
    /// The region they are for; empty if none was named.
    #[serde(default)]
    pub region: String,
    /// The environment it belongs to; empty if none was named.
    #[serde(default)]
    pub environment: String,
    /// Hash of the plan it was made under, 64 hex digits; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Hash of the plan before, which holders may state still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_plan: Option<String>,
    /// Whether it grants.
    pub mode: Mode,
    /// No window begins below this tick.
    pub floor: u64,
    /// The longest window ever granted, in ticks.
    pub longest_window: u64,
    /// How many generator ids cannot be granted now.
    pub used: u64,
    /// How many generator ids there are.
    pub total: u64,
    /// When the first window in use ends, in Unix ms; absent if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest_expiry_ms: Option<i64>,
    /// When a lease was last granted or renewed, in Unix ms; absent if the store does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulse_ms: Option<i64>,
    /// Findings a person should know of, in words.
    pub alarms: Vec<String>,
    /// The longest window a lease gets, in ms.
    pub window_ms: u64,
    /// The service's clock, in Unix ms.
    pub reference_ms: i64,
}

/// Whether a store grants leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Mode {
    /// It does.
    Open,
    /// An operator has stopped it; renewals go on.
    Frozen,
}

/// `GET /readyz`, 200: the service may issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ready {
    /// Always true: the answer is a problem otherwise.
    pub ready: bool,
    /// The generator id the service issues under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_id: Option<u64>,
    /// Time until its window ends, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// What is amiss with the host's clock, in words with what to do; absent if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
}
