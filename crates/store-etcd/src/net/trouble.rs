//! What a failed call means: whether it may have taken effect all the same, and what to do.
//!
//! Told from etcd's own codes and words. Whatever is not known for certain to have changed nothing
//! counts as unknown; asking again with the same bytes is always safe.

use snowlease_lease::Outage;
use tonic::{Code, Status};

use super::once;

/// What sort of failure it is, as far as code has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// This endpoint is no use now; another one may be.
    Endpoint,
    /// The connection is no use: make a new one.
    Connection,
    /// The token is not good any more: authenticate and ask again.
    Token,
    /// A revision was asked for that is not kept any more.
    Compacted,
    /// The call was to be made on a connection that was there before, and there is a newer one.
    Reconnected,
    /// The user may not do this.
    Denied,
    /// No endpoint would answer otherwise.
    Final,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) kind: Kind,
    /// Whether what was asked may have taken effect.
    pub(crate) unknown: bool,
    /// What happened and what to do, in words.
    pub(crate) detail: String,
}

impl Trouble {
    pub(crate) fn new(kind: Kind, unknown: bool, detail: impl Into<String>) -> Trouble {
        Trouble { kind, unknown, detail: detail.into() }
    }

    /// It was never sent.
    pub(crate) fn unsent(detail: impl Into<String>) -> Trouble {
        Trouble::new(Kind::Connection, false, detail)
    }

    /// Whether other endpoints need not be asked.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self.kind, Kind::Endpoint | Kind::Connection)
    }
}

impl From<Trouble> for Outage {
    fn from(trouble: Trouble) -> Outage {
        Outage { unknown: trouble.unknown, detail: trouble.detail }
    }
}

/// Words of etcd that are known, what sort of trouble they tell of, and what to do. All but
/// [`FULL`] say that nothing was changed.
const KNOWN: &[(&str, Kind, &str)] = &[
    (
        FULL,
        Kind::Final,
        "etcd's database is full: compact and defragment it, or raise --quota-backend-bytes, then \
         clear the alarm with `etcdctl alarm disarm`; turn auto-compaction on",
    ),
    (
        "too many requests",
        Kind::Endpoint,
        "etcd is overloaded: its disk is too slow for its load; try again",
    ),
    (
        "permission denied",
        Kind::Denied,
        "etcd's user may not read and write the prefix: grant it with \
         `etcdctl role grant-permission --prefix=true ROLE readwrite PREFIX/`",
    ),
    (
        "invalid user ID or password",
        Kind::Final,
        "etcd does not know the user, or the password is wrong: correct the address, or the secret \
         beside it",
    ),
    (
        "user name is empty",
        Kind::Final,
        "etcd wants a user: give one as etcd://USER:PASSWORD@HOST:PORT/PREFIX",
    ),
    (
        "request is too large",
        Kind::Final,
        "etcd takes no request of this size: raise --max-request-bytes to its default",
    ),
    (
        "too many operations in txn request",
        Kind::Final,
        "etcd takes fewer operations in a transaction than it does by default: set --max-txn-ops \
         to 128 or more",
    ),
    (
        "corrupt cluster",
        Kind::Final,
        "etcd's members disagree on their data: restore the cluster from a backup, and tell the \
         store by `snowlease store quarantine`",
    ),
    ("no leader", Kind::Endpoint, "this member of etcd knows no leader: try again"),
    ("rpc not supported for learner", Kind::Endpoint, "this member of etcd is a learner"),
    ("member is unhealthy", Kind::Endpoint, "this member of etcd is not healthy"),
];

/// etcd makes a transaction that no longer fits, and says this of it; only the later ones it
/// leaves.
const FULL: &str = "database space exceeded";

/// What a status means.
pub(crate) fn of_status(status: &Status) -> Trouble {
    let words = status.message();
    if innermost(status) == once::GONE {
        return Trouble::unsent("the connection was lost: try again");
    }
    let token =
        ["invalid auth token", "auth token is not provided", "revision of auth store is old"];
    if token.iter().any(|said| words.contains(said)) || status.code() == Code::Unauthenticated {
        return Trouble::new(
            Kind::Token,
            false,
            "etcd takes no token of this user any more: check the user and its password",
        );
    }
    if words.contains("required revision has been compacted") {
        return Trouble::new(Kind::Compacted, false, "the revision is not kept any more");
    }
    if let Some((said, kind, what)) = KNOWN.iter().find(|(said, _, _)| words.contains(said)) {
        return Trouble::new(*kind, *said == FULL, *what);
    }
    let said = format!("etcd answered `{words}`");
    match status.code() {
        // What etcd says of a request before it does anything about it.
        Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::NotFound
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::Unimplemented
            if words.starts_with("etcdserver:") || words.starts_with("mvcc:") =>
        {
            Trouble::new(Kind::Final, false, format!("{said}: check the version of etcd"))
        }
        Code::Unimplemented => Trouble::new(
            Kind::Endpoint,
            false,
            format!("{said}: this is not etcd 3.4 or newer; check the address"),
        ),
        // In every other case it may have gone on after this was said.
        _ if words.starts_with("etcdserver:") => {
            Trouble::new(Kind::Endpoint, true, format!("{said}: try again"))
        }
        _ => Trouble::new(
            Kind::Connection,
            true,
            format!("the connection broke ({}): try again", innermost(status)),
        ),
    }
}

/// The cause at the root of an error: the outer ones only say that something failed.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &[(Code, &str, Kind, bool, &str)] = &[
        (
            Code::ResourceExhausted,
            "etcdserver: mvcc: database space exceeded",
            Kind::Final,
            true,
            "alarm disarm",
        ),
        (
            Code::ResourceExhausted,
            "etcdserver: too many requests",
            Kind::Endpoint,
            false,
            "overloaded",
        ),
        (
            Code::PermissionDenied,
            "etcdserver: permission denied",
            Kind::Denied,
            false,
            "grant-permission",
        ),
        (Code::Unauthenticated, "etcdserver: invalid auth token", Kind::Token, false, "password"),
        (
            Code::InvalidArgument,
            "etcdserver: revision of auth store is old",
            Kind::Token,
            false,
            "password",
        ),
        (
            Code::InvalidArgument,
            "etcdserver: authentication failed, invalid user ID or password",
            Kind::Final,
            false,
            "password is wrong",
        ),
        (Code::InvalidArgument, "etcdserver: user name is empty", Kind::Final, false, "USER"),
        (
            Code::InvalidArgument,
            "etcdserver: duplicate key given in txn request",
            Kind::Final,
            false,
            "version",
        ),
        (
            Code::OutOfRange,
            "etcdserver: mvcc: required revision has been compacted",
            Kind::Compacted,
            false,
            "not kept",
        ),
        (Code::Unavailable, "etcdserver: no leader", Kind::Endpoint, false, "try again"),
        (Code::Unavailable, "etcdserver: request timed out", Kind::Endpoint, true, "try again"),
        (Code::Unavailable, "etcdserver: leader changed", Kind::Endpoint, true, "try again"),
        (Code::Unavailable, "etcdserver: server stopped", Kind::Endpoint, true, "try again"),
        (Code::Unavailable, "error reading a body", Kind::Connection, true, "try again"),
        (Code::DeadlineExceeded, "context deadline exceeded", Kind::Connection, true, "try again"),
        (Code::Unknown, "h2 protocol error", Kind::Connection, true, "try again"),
        (
            Code::Unimplemented,
            "unknown service etcdserverpb.KV",
            Kind::Endpoint,
            false,
            "check the address",
        ),
    ];

    /// etcd's own words, with the code it says them with.
    #[test]
    fn each_answer_is_certain_or_unknown_and_says_what_to_do() {
        for (code, words, kind, unknown, remedy) in SAID {
            let trouble = of_status(&Status::new(*code, *words));
            assert_eq!((trouble.kind, trouble.unknown), (*kind, *unknown), "{words}");
            assert!(trouble.detail.contains(remedy), "{words}: {}", trouble.detail);
        }
    }
}
