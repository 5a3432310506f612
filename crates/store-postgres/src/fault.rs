//! What an error of the driver means: whether anything may have been changed, and what to do.

use std::error::Error as _;
use std::io;

use snowlease_lease::Outage;
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Why a statement, or the connection it needs, did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What the caller is told.
    pub(crate) outage: Outage,
    pub(crate) remedy: Remedy,
}

/// What helps before anyone is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The same again, in a moment: nothing was changed.
    Again,
    /// The same again, over another connection: nothing was changed.
    Reconnect,
    /// Asking otherwise: a row has the token already.
    LookAgain,
    /// Nothing here.
    Tell,
}

impl Fault {
    pub(crate) fn tell(outage: Outage) -> Fault {
        Fault { outage, remedy: Remedy::Tell }
    }

    /// Of a statement that was sent.
    pub(crate) fn of_statement(error: &Error, server: &str) -> Fault {
        let Some(said) = error.as_db_error() else {
            return Fault::tell(Outage::unknown(format!(
                "the connection to PostgreSQL at {server} was lost while it worked ({}): ask \
                 again with the same secrets",
                reason(error)
            )));
        };
        // A backend that is ended may have committed before; whatever else is said with ERROR has
        // undone its transaction.
        if said.parsed_severity() != Some(Severity::Error) {
            return Fault::tell(Outage::unknown(format!(
                "PostgreSQL at {server} ended the connection ({}): ask again with the same \
                 secrets",
                words(said)
            )));
        }
        let remedy = match *said.code() {
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE
            | SqlState::QUERY_CANCELED => Remedy::Again,
            // Behind a pooler, another server may be at the other end than the one it was prepared
            // on; and a migration changes what is answered.
            SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::FEATURE_NOT_SUPPORTED => {
                Remedy::Reconnect
            }
            SqlState::UNIQUE_VIOLATION => Remedy::LookAgain,
            _ => Remedy::Tell,
        };
        Fault { outage: Outage::unavailable(refusal(said, server)), remedy }
    }

    /// Of an attempt to connect.
    pub(crate) fn of_connecting(error: &Error, server: &str) -> Fault {
        let (detail, remedy) = match error.as_db_error() {
            Some(said) => {
                let soon = matches!(
                    *said.code(),
                    SqlState::CANNOT_CONNECT_NOW
                        | SqlState::TOO_MANY_CONNECTIONS
                        | SqlState::ADMIN_SHUTDOWN
                        | SqlState::CRASH_SHUTDOWN
                );
                (refusal(said, server), if soon { Remedy::Again } else { Remedy::Tell })
            }
            None => unreachable(error, server),
        };
        Fault { outage: Outage::unavailable(detail), remedy }
    }
}

/// Why no connection came about, and whether it may in a moment.
fn unreachable(error: &Error, server: &str) -> (String, Remedy) {
    let why = reason(error);
    let refused = certificate(error);
    if refused {
        let detail = format!(
            "PostgreSQL at {server} shows a certificate that is not good ({why}): give \
             sslrootcert=FILE with its authority and the name that the certificate is for, or \
             sslmode=require to go without knowing whom you talk to"
        );
        return (detail, Remedy::Tell);
    }
    if why.contains("does not support TLS") {
        let detail = format!(
            "PostgreSQL at {server} speaks no TLS: switch it on there (ssl = on), or add \
             sslmode=disable to the URL to send everything in the clear"
        );
        return (detail, Remedy::Tell);
    }
    if why.contains("password missing") || why.contains("authentication") {
        let detail = format!(
            "PostgreSQL at {server} asks for what the URL does not give ({why}): add the \
             password, as postgres://USER:PASSWORD@HOST/DATABASE or in SNOWLEASE_STORE_PASSWORD"
        );
        return (detail, Remedy::Tell);
    }
    let detail = format!(
        "PostgreSQL at {server} cannot be reached ({why}): check that it runs and that the \
         network lets us through"
    );
    (detail, Remedy::Again)
}

/// Whether the server's certificate is the reason.
fn certificate(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(rustls::Error::InvalidCertificate(_)) = inner.downcast_ref() {
            return true;
        }
        // An error of input and output shows as its source what its inside has as source, not the
        // inside.
        if let Some(inside) = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(rustls::Error::InvalidCertificate(_)) = inside.downcast_ref()
        {
            return true;
        }
        source = inner.source();
    }
    false
}

/// The innermost reason, which is the one that tells.
fn reason(error: &Error) -> String {
    let mut reason = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        reason = inner.to_string();
        source = inner.source();
    }
    reason
}

/// What the server says no with, and what to do. Its details may quote values, so they are left
/// out.
fn refusal(said: &DbError, server: &str) -> String {
    let remedy = match *said.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and password of the store's URL, and the server's pg_hba.conf"
        }
        SqlState::INVALID_CATALOG_NAME => {
            "create the database (createdb), or name another one in the store's URL"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "grant the user of the store's URL USAGE on the schema and SELECT and UPDATE on its \
             tables"
        }
        SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN | SqlState::INVALID_SCHEMA_NAME => {
            "run `snowlease store init`; nothing was changed"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the database takes no changes: make it writable again, or name the primary in the \
             store's URL; nothing was changed"
        }
        SqlState::INVALID_SQL_STATEMENT_NAME => {
            "a pooler in between does not keep prepared statements: connect to the server itself, \
             or set max_prepared_statements (PgBouncer 1.21 or later); nothing was changed"
        }
        SqlState::LOCK_NOT_AVAILABLE => {
            "another session holds the table cells: end its transaction (see pg_stat_activity), \
             and try again; nothing was changed"
        }
        SqlState::DISK_FULL => "its disk is full: make room; nothing was changed or lost",
        SqlState::TOO_MANY_CONNECTIONS => "raise max_connections, or end connections of others",
        SqlState::CANNOT_CONNECT_NOW => "wait until it has started",
        _ => "nothing was changed; look into the server's log",
    };
    format!("PostgreSQL at {server} refuses ({}): {remedy}", words(said))
}

fn words(said: &DbError) -> String {
    format!("{}, SQLSTATE {}", said.message(), said.code().code())
}
