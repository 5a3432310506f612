//! The URL of a store: where its servers are, how to come in, and in which schema it lives.
//!
//! ```text
//! postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?schema=NAME&sslmode=MODE&sslrootcert=FILE
//! ```
//!
//! What is ours is taken out first; the rest is what every client of PostgreSQL knows. The password
//! is in nothing that is shown.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

const SCHEMA: &str = "snowlease";
const PORT: u16 = 5432;

/// A text that is never shown: not by `Debug`, not in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Where a store is.
///
/// # Promise
///
/// Neither `Debug` nor `Display` shows the password.
#[derive(Clone)]
pub struct Address {
    /// One for each server, in the order of the URL.
    pub(crate) servers: Vec<Server>,
    pub(crate) schema: Schema,
    pub(crate) roots: Option<PathBuf>,
    user: String,
    database: String,
}

/// One of the servers.
#[derive(Clone)]
pub(crate) struct Server {
    /// With its port, for people.
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) encryption: Encryption,
}

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encryption {
    /// Not at all.
    None,
    /// Against those who listen, not against those who pretend to be the server.
    Unverified,
    /// The server shows a certificate of a known authority, for whatever name.
    Authority,
    /// The server shows a certificate for its name.
    Name,
}

/// The name of a schema, safe to be put into SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema(String);

/// Why a text is no address of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no URL of a PostgreSQL store: {0}")]
pub struct AddressError(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Address {
    /// The same address with a password that was kept elsewhere; one in the address goes before it.
    ///
    /// # Example
    ///
    /// ```
    /// # use snowlease_store_postgres::{Address, Secret};
    /// let address: Address = "postgres://ids@db-1/ids".parse()?;
    /// let address = address.or_password(Some(Secret::new("s3cret")));
    /// assert_eq!(address.to_string(), "postgres://ids@db-1:5432/ids");
    /// # Ok::<(), snowlease_store_postgres::AddressError>(())
    /// ```
    #[must_use]
    pub fn or_password(mut self, password: Option<Secret>) -> Address {
        if let Some(Secret(password)) = password {
            for server in &mut self.servers {
                if server.config.get_password().is_none() {
                    server.config.password(&password);
                }
            }
        }
        self
    }
}

impl Address {
    /// What an operator sets for sessions that our settings do not reach.
    pub(crate) fn isolation(&self) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        format!(
            "ALTER ROLE {} IN DATABASE {} SET default_transaction_isolation = 'read committed'",
            quoted(&self.user),
            quoted(&self.database)
        )
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Address, AddressError> {
        let wrong = |what: &str| AddressError(what.to_owned());
        let known = ["postgres://", "postgresql://"].iter().any(|start| url.starts_with(start));
        if !known {
            return Err(wrong("begin it with postgres://"));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut mode, mut roots) = (Schema(SCHEMA.to_owned()), None, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "schema" => schema = Schema::named(value)?,
                "sslmode" => mode = Some(Encryption::named(value)?),
                "sslrootcert" => roots = Some(PathBuf::from(decoded(value)?)),
                "channel_binding" | "options" | "sslnegotiation" => rest.push(pair),
                // Not named: it may be the rest of a password with a `?` in it.
                _ => {
                    return Err(wrong(
                        "after the ? it takes schema, sslmode, sslrootcert, sslnegotiation, \
                         channel_binding and options, and nothing else; write %3F for a ? inside \
                         a password",
                    ));
                }
            }
        }
        let mut config: Config = format!("{base}?{}", rest.join("&")).parse().map_err(|_| {
            wrong(
                "write postgres://USER:PASSWORD@HOST/DATABASE, with %40, %2F, %3A and %3F for \
                 @, /, : and ? inside a name or password",
            )
        })?;
        let Some(user) = config.get_user().map(str::to_owned) else {
            return Err(wrong("name the user: postgres://USER:PASSWORD@HOST/DATABASE"));
        };
        let database = config.get_dbname().unwrap_or(&user).to_owned();
        config.dbname(&*database).application_name("snowlease");
        let servers = servers(&config, mode, roots.is_some())?;
        Ok(Address { servers, schema, roots, user, database })
    }
}

fn servers(
    config: &Config,
    mode: Option<Encryption>,
    roots: bool,
) -> Result<Vec<Server>, AddressError> {
    let ports = config.get_ports();
    let hosts = config.get_hosts();
    if hosts.is_empty() || (ports.len() > 1 && ports.len() != hosts.len()) {
        return Err(AddressError("name a host, and one port or none for each".to_owned()));
    }
    let each = hosts.iter().enumerate().map(|(index, host)| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
        let (text, local) = match host {
            Host::Tcp(name) => {
                if name.contains('@') {
                    let what = "write %40 for an @ inside a user name or password";
                    return Err(AddressError(what.to_owned()));
                }
                let local = matches!(&**name, "localhost" | "::1") || name.starts_with("127.");
                (name.clone(), local)
            }
            Host::Unix(path) => (path.display().to_string(), true),
        };
        let encryption = match (mode, host) {
            // Nobody listens in between, and there is no TLS over a socket of the machine.
            (_, Host::Unix(_)) => Encryption::None,
            // As every client of PostgreSQL has it: whoever names authorities wants them asked.
            (Some(Encryption::Unverified), _) if roots => Encryption::Authority,
            (Some(mode), _) => mode,
            (None, _) if roots || !local => Encryption::Name,
            (None, _) => Encryption::None,
        };
        Ok(Server {
            name: format!("{text}:{port}"),
            config: one(config, host, port, encryption),
            encryption,
        })
    });
    each.collect()
}

/// The settings for this host alone.
fn one(all: &Config, host: &Host, port: u16, encryption: Encryption) -> Config {
    let mut config = Config::new();
    if let Some(user) = all.get_user() {
        config.user(user);
    }
    if let Some(password) = all.get_password() {
        config.password(password);
    }
    if let Some(database) = all.get_dbname() {
        config.dbname(database);
    }
    if let Some(options) = all.get_options() {
        config.options(options);
    }
    if let Some(name) = all.get_application_name() {
        config.application_name(name);
    }
    match host {
        Host::Tcp(name) => config.host(name),
        Host::Unix(path) => config.host_path(path),
    };
    config.port(port).ssl_negotiation(all.get_ssl_negotiation());
    config.channel_binding(all.get_channel_binding());
    let encrypted = encryption != Encryption::None;
    config.ssl_mode(if encrypted { SslMode::Require } else { SslMode::Disable });
    config
}

impl Encryption {
    fn named(name: &str) -> Result<Encryption, AddressError> {
        match name {
            "disable" => Ok(Encryption::None),
            "require" => Ok(Encryption::Unverified),
            "verify-ca" => Ok(Encryption::Authority),
            "verify-full" => Ok(Encryption::Name),
            _ => Err(AddressError(
                "sslmode is disable, require, verify-ca or verify-full: a mode that may or may \
                 not encrypt protects nothing"
                    .to_owned(),
            )),
        }
    }
}

impl Schema {
    fn named(name: &str) -> Result<Schema, AddressError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        // PostgreSQL cuts longer names, and keeps those that begin with pg_ for itself.
        if !begins || !name.chars().all(plain) || name.len() > 63 || name.starts_with("pg_") {
            return Err(AddressError(
                "a schema is named by up to 63 small letters, digits and underscores, not \
                 beginning with a digit or pg_"
                    .to_owned(),
            ));
        }
        Ok(Schema(name.to_owned()))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn decoded(text: &str) -> Result<String, AddressError> {
    let wrong =
        || AddressError("a % is followed by two hex digits: write %25 for itself".to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong()) };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Everything but the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<_> = self.servers.iter().map(|server| &*server.name).collect();
        write!(f, "postgres://{}@{}/{}", self.user, hosts.join(","), self.database)?;
        if self.schema.0 == SCHEMA { Ok(()) } else { write!(f, "?schema={}", self.schema) }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::ChannelBinding;

    use super::*;

    fn address(url: &str) -> Address {
        url.parse().unwrap()
    }

    #[test]
    fn every_host_is_a_server_of_its_own_and_the_password_does_not_show() {
        let address = address("postgres://me:s%40crt@db-1,db-2:6000/ids?schema=fleet_2");
        assert_eq!(address.to_string(), "postgres://me@db-1:5432,db-2:6000/ids?schema=fleet_2");
        assert!(!format!("{address:?}").contains("crt"));
        assert_eq!(address.servers[1].config.get_ports(), [6000]);
        assert_eq!(address.servers[0].config.get_password(), Some(&b"s@crt"[..]));
        let bare = "postgresql://me@db/".parse::<Address>().unwrap();
        assert_eq!(bare.to_string(), "postgres://me@db:5432/me");
        let options = "postgres://me@db/ids?options=-c%20jit%3Doff&channel_binding=require";
        let config = &options.parse::<Address>().unwrap().servers[0].config;
        assert_eq!(config.get_options(), Some("-c jit=off"));
        assert_eq!(config.get_channel_binding(), ChannelBinding::Require);
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_told_otherwise() {
        let encryption = |url: &str| address(url).servers[0].encryption;
        assert_eq!(encryption("postgres://me@localhost/ids"), Encryption::None);
        assert_eq!(encryption("postgres://me@127.0.0.1/ids"), Encryption::None);
        assert_eq!(encryption("postgres://me@%2Frun%2Fpostgresql/ids"), Encryption::None);
        assert_eq!(encryption("postgres://me@db/ids"), Encryption::Name);
        assert_eq!(encryption("postgres://me@db/ids?sslmode=disable"), Encryption::None);
        assert_eq!(encryption("postgres://me@db/ids?sslmode=require"), Encryption::Unverified);
        assert_eq!(encryption("postgres://me@db/ids?sslmode=verify-ca"), Encryption::Authority);
        let roots = "postgres://me@127.0.0.1/ids?sslrootcert=%2Fetc%2Fca.pem";
        assert_eq!(encryption(roots), Encryption::Name);
        assert_eq!(encryption(&format!("{roots}&sslmode=require")), Encryption::Authority);
        assert_eq!(address(roots).roots, Some("/etc/ca.pem".into()));
    }

    #[test]
    fn a_password_that_is_kept_elsewhere_is_taken_by_every_server_and_never_shown() {
        let passwords = |address: &Address| -> Vec<Option<Vec<u8>>> {
            let each = address.servers.iter();
            each.map(|server| server.config.get_password().map(<[u8]>::to_vec)).collect()
        };
        let kept = || Some(Secret::new("k:pt@"));
        assert!(!format!("{:?}", kept()).contains("pt"));
        let bare = address("postgres://me@db-1,db-2/ids").or_password(kept());
        assert_eq!(passwords(&bare), vec![Some(b"k:pt@".to_vec()); 2]);
        assert!(!format!("{bare:?} {bare}").contains("pt@"));
        let own = address("postgres://me:own@db/ids").or_password(kept());
        assert_eq!(passwords(&own), [Some(b"own".to_vec())]);
        assert_eq!(passwords(&address("postgres://me@db/ids").or_password(None)), [None]);
    }

    #[test]
    fn nonsense_is_refused_without_telling_secrets() {
        for url in [
            "mysql://me:hidden@db/ids",
            "postgres://db/ids",
            "postgres://me:hidden@db/ids?sslmode=prefer",
            "postgres://me:hidden@db/ids?schema=Fleet",
            "postgres://me:hidden@db/ids?schema=a\"b",
            "postgres://me:hidden@db/ids?schema=pg_catalog",
            "postgres://me:hidden@db/ids?schema=",
            "postgres://me:hidden@db/ids?sslrootcert=%2",
            "postgres://me:hidden@db/ids?unknown=1",
            "postgres://me:secret?hidden=1@db/ids",
            "postgres://me:hidden@db/ids?hostaddr=10.0.0.1",
            "postgres://me:hid@hidden@db/ids",
            "postgres://me:hidden@db:port/ids",
        ] {
            let error = url.parse::<Address>().expect_err(url).to_string();
            assert!(!error.contains("hid"), "{url}: {error}");
        }
    }
}
