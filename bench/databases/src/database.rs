//! PostgreSQL, as the benchmark starts it: safe settings, and memory as a small server has.

use postgres::{Client, NoTls};
use snowlease_store_postgres::testing::{Kind, Server};

/// What differs from what PostgreSQL comes with.
const SETTINGS: &str = "shared_buffers = 512MB\nautovacuum_naptime = 1min\n";

/// What a reader must know to repeat the figures.
const TOLD: &[&str] = &[
    "shared_buffers",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_compression",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
];

/// A server of its own in a folder of its own, gone with this value.
#[derive(Debug)]
pub(crate) struct Database(Server);

impl Database {
    pub(crate) fn start() -> Database {
        let mut server = Server::start(Kind { fsync: true, ..Kind::default() });
        server.set(SETTINGS);
        server.stop();
        server.run();
        Database(server)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.0.url(), NoTls).expect("a connection")
    }

    /// Its version and settings, in lines.
    pub(crate) fn settings(&self) -> String {
        let mut client = self.connect();
        let version: String = one(&mut client, "SELECT current_setting('server_version')");
        let version = version.split_whitespace().next().unwrap_or_default();
        let settings = TOLD.iter().map(|name| {
            let value: String = one(&mut client, &format!("SELECT current_setting('{name}')"));
            format!("{name}={value}")
        });
        let settings: Vec<String> = settings.collect();
        let (first, second) = settings.split_at(settings.len() / 2);
        let (first, second) = (first.join(" "), second.join(" "));
        format!("PostgreSQL {version} over loopback TCP\n{first}\n{second}")
    }
}

/// The one value of the one row that a query answers.
pub(crate) fn one<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, sql: &str) -> T {
    client.query_one(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error}")).get(0)
}
