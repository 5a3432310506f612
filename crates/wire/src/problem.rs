//! Problems: every error of the service is a document of RFC 9457 with a stable code.
//!
//! [`Code::ALL`] is the one table of codes. Programs decide by the code and the members, people
//! read the detail. Nothing of a request's secrets is ever repeated in a problem.

use serde::{Deserialize, Serialize};

use crate::FormatDoc;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $title:literal;)*) => {
        /// What went wrong; stable for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[$doc])* $name,)*
        }

        impl Code {
            /// Every code, by status.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// Its name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// The HTTP status it is sent with.
            pub const fn status(self) -> u16 {
                match self { $(Code::$name => $status,)* }
            }

            /// What it means, the same words each time.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }
        }
    };
}

codes! {
    /// Correct the body as the detail says.
    BadBody = "bad-body", 400, "The body is not what this call takes";
    /// Correct the query as the detail says.
    BadQuery = "bad-query", 400, "The query is not what this call takes";
    /// Correct the id; the detail says what it may look like.
    BadId = "bad-id", 400, "The text is no id";
    /// Write the time with its zone.
    BadTime = "bad-time", 400, "The text is no time";
    /// Give times that ids can carry, the earlier one first.
    BadSpan = "bad-span", 400, "The times bound no ids";
    /// Correct the holder's label.
    BadHolder = "bad-holder", 400, "The holder's label is not possible";
    /// Send token, next and request key as they were made.
    BadToken = "bad-token", 400, "A token or key is malformed";
    /// Ask for a window of `min_ms` or more.
    BadWindow = "bad-window", 400, "The window is not possible";
    /// Ask for 1 to `limit` ids.
    BatchSize = "batch-size", 400, "The batch is empty or too large";
    /// Check the path.
    NotFound = "not-found", 404, "There is nothing here";
    /// Use a generator id that the service granted.
    NoGenerator = "no-generator", 404, "The generator id is not of this service";
    /// Use a method that the `Allow` header names.
    MethodNotAllowed = "method-not-allowed", 405, "The method is not for this path";
    /// Accept one of the types that the detail names.
    NotAcceptable = "not-acceptable", 406, "No accepted type is on offer";
    /// Send the request faster, or in fewer bytes.
    RequestTimeout = "request-timeout", 408, "The request took too long to arrive";
    /// Stop issuing at once and lease anew.
    NotYours = "not-yours", 409, "The lease is not yours";
    /// Give the first unused tick, inside `from` and `until`.
    OutsideWindow = "outside-window", 409, "The tick is not inside the window";
    /// Issue by the format of the member `format`.
    FormatMismatch = "format-mismatch", 409, "The format is not the service's";
    /// Lease from the store of the holder's own environment and plan.
    RealmMismatch = "realm-mismatch", 409, "The holder belongs to another environment or plan";
    /// Stop issuing at once and lease anew, from `floor` on.
    RolledBack = "rolled-back", 409, "The store was put back to an older state";
    /// Set the clock; it is off by `ahead_ms`.
    ClockSkew = "clock-skew", 409, "The holder's clock is too far off";
    /// Send a smaller body.
    BodyTooLarge = "body-too-large", 413, "The body is too large";
    /// Send `application/json`.
    UnsupportedMediaType = "unsupported-media-type", 415, "The body is of another type";
    /// Report it.
    Internal = "internal", 500, "The service made a mistake";
    /// Retry after `retry_after_ms`, or lease from a store with a range of its own.
    Exhausted = "exhausted", 503, "Every generator id is in use";
    /// Retry once an operator has unfrozen the store.
    Frozen = "frozen", 503, "The store is frozen";
    /// Retry after `retry_after_ms`.
    Quarantined = "quarantined", 503, "The store is in quarantine after a rollback";
    /// Nothing was changed: retry.
    StoreUnavailable = "store-unavailable", 503, "The store cannot be reached";
    /// It may have taken effect: retry with the same secrets.
    StoreUnknown = "store-unknown", 503, "The store did not say what it did";
    /// Retry after `retry_after_ms`, or elsewhere.
    NotReady = "not-ready", 503, "The service may not issue now";
    /// Nothing was done: retry after `retry_after_ms`, or elsewhere.
    Overloaded = "overloaded", 503, "The service is doing all it can";
    /// It may have taken effect: retry with the same secrets.
    Timeout = "timeout", 503, "The answer took too long";
    /// Retry after `retry_after_ms`.
    TickFull = "tick-full", 503, "Every id of this tick is taken";
    /// Retry after `retry_after_ms`.
    ClockBehind = "clock-behind", 503, "The clock is behind ids already issued";
    /// Retry after `retry_after_ms`.
    ClockStepped = "clock-stepped", 503, "The clock was set, and that is being confirmed";
    /// Look at the host.
    ClockStalled = "clock-stalled", 503, "The clock stands still";
    /// Retry after `retry_after_ms`.
    WindowNotYet = "window-not-yet", 503, "The leased window has not begun";
    /// Retry after `retry_after_ms`, or elsewhere.
    WindowEnd = "window-end", 503, "The leased window is used up";
    /// Retry after `retry_after_ms`, or elsewhere.
    NoLease = "no-lease", 503, "The service has no lease";
    /// Ask another service: this one is stopping.
    ShutDown = "shut-down", 503, "The service is stopping";
    /// Set the service's clock.
    BeforeEpoch = "before-epoch", 503, "The clock is before the epoch";
    /// Migrate to another format.
    TimeEnd = "time-end", 503, "The format has no more time";
    /// Retry after `retry_after_ms`, or elsewhere.
    Restored = "restored", 503, "The machine was restored from a snapshot";
    /// Refused until the host's clock is synchronised: lease elsewhere.
    ClockUntrusted = "clock-untrusted", 503, "The clock is not known to be right";
    /// Report it.
    Forked = "forked", 503, "The process is a fork of the holder";
}

impl Code {
    /// The code of this name.
    pub fn named(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// The identifier of the kind of problem, a URI.
    pub fn uri(self) -> String {
        format!("urn:snowlease:problem:{}", self.name())
    }
}

/// An error as it is sent; absent members are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:snowlease:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the code means, the same words each time.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time and what to do, for people.
    pub detail: String,
    /// The stable name of the error; see [`Code`].
    pub code: String,
    /// Why, in words, where one code has several reasons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When to try again, in ms from now; the header `Retry-After` says it in seconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The largest value that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The shortest window that is given, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ms: Option<u64>,
    /// How many generator ids there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The end of the window that ends first, in ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest: Option<u64>,
    /// The end of the window that ends first, in Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earliest_expiry_ms: Option<i64>,
    /// The first tick that will be granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<u64>,
    /// First tick of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// First tick after the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// How far the holder's clock is ahead of the service's, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead_ms: Option<i64>,
    /// How far the service's clock is behind ids already issued, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deficit_ms: Option<u64>,
    /// By how much the service's clock was set, in ms; negative if back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<i64>,
    /// The service's clock, in Unix ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ms: Option<i64>,
    /// Time until the service's own window ends, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// The service's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatDoc>,
    /// The store's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Hash of the store's plan, 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
}

impl Problem {
    /// A problem with this code and detail, and no other members yet.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: code.uri(),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code: code.name().to_owned(),
            ..Problem::default()
        }
    }

    /// The code, if this version knows it.
    pub fn known_code(&self) -> Option<Code> {
        Code::named(&self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_core::Refusal;

    #[test]
    fn codes_are_distinct_and_every_refusal_has_one() {
        for (place, code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::named(code.name()), Some(*code));
            assert!(Code::ALL[..place].iter().all(|before| before.name() != code.name()));
            assert!(matches!(code.status(), 400..=599), "{code:?}");
        }
        for refusal in Refusal::CODES {
            assert!(Code::named(refusal).is_some(), "{refusal}");
        }
    }

    #[test]
    fn a_problem_has_the_members_of_the_standard_and_leaves_out_what_is_absent() {
        let mut problem = Problem::new(Code::NoLease, "wait");
        problem.retry_after_ms = Some(100);
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(
            text,
            "{\"type\":\"urn:snowlease:problem:no-lease\",\"title\":\"The service has no lease\",\
             \"status\":503,\"detail\":\"wait\",\"code\":\"no-lease\",\"retry_after_ms\":100}"
        );
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        let newer = text.replace("\"retry_after_ms\"", "\"of_a_newer_version\"");
        assert!(serde_json::from_str::<Problem>(&newer).is_ok());
    }
}
