//! Leases on the wire: asking for one, renewing, giving back, listing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{FormatAsk, FormatDoc};

/// A secret on its way: a token or a request key. Never to be logged.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = Password))]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret to send it.
    pub fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    /// The secret itself: never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// `POST /generators/lease`: asks for a generator id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseAsk {
    /// Who asks, for people: 1 to 128 bytes. Two holders may have the same name.
    pub holder: String,
    /// The machine it runs on, at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The process, usually its number, at most 128 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The region it runs in, at most 128 bytes; the service's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The format it issues by; the service's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatAsk>,
    /// The environment it belongs to, such as `production`; not compared if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Hash of the plan it was started with, 64 hex digits; not compared if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The holder's wall clock, in Unix ms; the service's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<i64>,
    /// Length of the window wanted, in ms; the service's own if absent, and never more than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// A secret of at least 128 random bits, 16 to 128 bytes, made by the holder: asking again with
    /// it gives the same lease. Without one, a lost answer costs an idle generator id for one
    /// window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_key: Option<Secret>,
}

/// 201: a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// The generator id that was granted.
    pub generator_id: u64,
    /// Shown to renew or release: 64 hex digits, a secret.
    pub token: Secret,
    /// Number of changes, shown at the renewal.
    pub seq: u64,
    /// First tick that may be used.
    pub from: u64,
    /// First tick that may not be used.
    pub until: u64,
    /// Length of the window in ms.
    pub window_ms: u64,
    /// When to renew, in ms from now.
    pub renew_after_ms: u64,
    /// The format to issue by.
    pub format: FormatDoc,
    /// The service's clock, in Unix ms.
    pub reference_ms: i64,
    /// Whether the generator id is being drained: move to another one.
    #[serde(default)]
    pub draining: bool,
}

/// `POST /generators/{id}/renew`: asks for a longer window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenewAsk {
    /// The token that is valid now.
    pub token: Secret,
    /// The `seq` of the last answer.
    pub seq: u64,
    /// Hash of the token from now on, 64 hex digits; the same in every attempt from one `seq`. The
    /// token stays if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// First tick not wanted; a window from the service's now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// The holder's wall clock, in Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<i64>,
}

/// 200: the lease as it stands, extended or not. The holder adopts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Renewed {
    /// First tick that may not be used.
    pub until: u64,
    /// Shown at the next renewal.
    pub seq: u64,
    /// Which token is valid now.
    pub carries: Carries,
    /// When to renew, in ms from now.
    pub renew_after_ms: u64,
    /// The service's clock, in Unix ms.
    pub reference_ms: i64,
    /// Whether the generator id is being drained: move to another one.
    pub draining: bool,
}

/// Which token is valid after a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Carries {
    /// The one that was shown: this renewal has not taken place (yet).
    Token,
    /// The one whose hash was `next`: it has, now or at an earlier attempt.
    Next,
}

/// `POST /generators/{id}/release`: gives a lease back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseAsk {
    /// The token that is valid now.
    pub token: Secret,
    /// The `seq` of the last answer.
    pub seq: u64,
    /// First tick that was not used; nothing from here on ever will be.
    pub until: u64,
}

/// 200: the generator id is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Released {
    /// The generator id that was given back.
    pub generator_id: u64,
    /// First tick that others may use.
    pub until: u64,
}

/// `GET /generators`: every generator id that was ever granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Leases {
    /// By generator id.
    pub leases: Vec<LeaseLine>,
    /// The service's clock, in Unix ms.
    pub reference_ms: i64,
}

/// One generator id; its token is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseLine {
    /// The generator id.
    pub generator_id: u64,
    /// Who holds it; empty if nobody does.
    pub holder: String,
    /// The machine of the holder.
    pub machine: String,
    /// The process of the holder.
    pub process: String,
    /// The region of the holder.
    pub region: String,
    /// Number of changes.
    pub seq: u64,
    /// First tick of the window.
    pub from: u64,
    /// First tick after the window.
    pub until: u64,
    /// The instant of `from`, as RFC 3339; absent past the year 9999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_time: Option<String>,
    /// The instant of `until`, as RFC 3339; absent past the year 9999.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_time: Option<String>,
    /// When it was granted, in Unix ms.
    pub granted_at_ms: i64,
    /// Time since it was granted, in ms.
    pub age_ms: u64,
    /// How far the holder's clock was ahead of the service's when it was last heard, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew_ms: Option<i64>,
    /// How it stands.
    pub state: State,
}

/// How a generator id stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum State {
    /// Somebody holds it.
    Held,
    /// Its window is over, and it was not given back: it can be granted.
    Expired,
    /// An operator has it drained: it is not granted, and its holder should move.
    Draining,
    /// It was given back: it can be granted.
    Free,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_refuse_members_they_do_not_know() {
        let lease = |text: &str| serde_json::from_str::<LeaseAsk>(text);
        assert!(lease(r#"{"holder":"web"}"#).is_ok());
        let error = lease(r#"{"holder":"web","windows_ms":1}"#).unwrap_err().to_string();
        assert!(error.contains("windows_ms"), "{error}");
        for text in ["{}", r#"{"holder":null}"#, r#"{"holder":"a","holder":"b"}"#] {
            assert!(lease(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_whole_and_not_negative() {
        for window in ["-1", "1.5", "1e3", "\"60000\"", "18446744073709551616", "true"] {
            let text = format!(r#"{{"holder":"web","window_ms":{window}}}"#);
            assert!(serde_json::from_str::<LeaseAsk>(&text).is_err(), "{window}");
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let ask = ReleaseAsk { token: Secret::new("hunter2"), seq: 1, until: 2 };
        assert!(!format!("{ask:?}").contains("hunter2"));
        assert!(serde_json::to_string(&ask).unwrap().contains("hunter2"));
    }
}
