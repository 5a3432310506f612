//! Addresses of etcd clusters:
//! `etcd://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PREFIX]`, and `etcds://` with `?ca=FILE`,
//! and perhaps `&cert=FILE&key=FILE&server_name=NAME`, for TLS.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of etcd if none is given.
const PORT: u16 = 2379;

/// The prefix of keys if none is given.
const PREFIX: &str = "snowlease";

/// A text that is never shown: not by `Debug`, not in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// Where a cluster is, and as whom to speak to it.
///
/// # Promise
///
/// Neither `Debug` nor `Display` shows the password.
///
/// # Example
///
/// ```
/// # use snowlease_store_etcd::Address;
/// let address: Address = "etcd://ids:s3cret@a.example,b.example:23790/eu/ids".parse()?;
/// assert_eq!(address.hosts(), ["a.example:2379", "b.example:23790"]);
/// assert_eq!(address.prefix(), "eu/ids");
/// assert_eq!(address.to_string(), "etcd://ids@a.example:2379,b.example:23790/eu/ids");
/// # Ok::<(), snowlease_store_etcd::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    hosts: Vec<String>,
    prefix: String,
    user: Option<String>,
    password: Option<Secret>,
    tls: Option<Tls>,
}

/// Files for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// Certificates of the authorities that servers are checked against, PEM.
    pub(crate) authority: PathBuf,
    /// This client's own certificate and key, PEM.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// The name in the servers' certificates, if it is not that of the host.
    pub(crate) server_name: Option<String>,
}

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl Address {
    /// The endpoints, each with its port.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// What the keys of the store begin with, without a slash at either end.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The user to authenticate as.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The same address with a password that was kept elsewhere; one in the address goes before it.
    #[must_use]
    pub fn or_password(mut self, password: Option<Secret>) -> Address {
        self.password = self.password.or(password);
        self
    }

    pub(crate) fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Address, AddressError> {
        let (rest, secure) = match (url.strip_prefix("etcd://"), url.strip_prefix("etcds://")) {
            (Some(rest), _) => (rest, false),
            (_, Some(rest)) => (rest, true),
            _ => return Err(AddressError::Scheme),
        };
        if rest.contains('#') {
            return Err(AddressError::Malformed);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let (user, password) = match login.map(|login| login.split_once(':')) {
            None => (None, None),
            Some(None) => (Some(decoded(login.unwrap_or_default())?), None),
            Some(Some((user, password))) => {
                (Some(decoded(user)?), Some(Secret(decoded(password)?)))
            }
        };
        if user.as_ref().is_some_and(String::is_empty) {
            return Err(AddressError::User);
        }
        let hosts = hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?;
        if (1..hosts.len()).any(|index| hosts[..index].contains(&hosts[index])) {
            return Err(AddressError::Host);
        }
        let path = decoded(path)?;
        let prefix = path.trim_matches('/');
        if prefix.chars().any(char::is_control) {
            return Err(AddressError::Prefix);
        }
        let prefix = if prefix.is_empty() { PREFIX } else { prefix }.to_owned();
        let tls = tls(query, secure)?;
        Ok(Address { hosts, prefix, user, password, tls })
    }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { "etcds://" } else { "etcd://" })?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        write!(f, "{}/{}", self.hosts.join(","), self.prefix)
    }
}

fn host(text: &str) -> Result<String, AddressError> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or(AddressError::Host)?;
            name.parse::<std::net::Ipv6Addr>().map_err(|_| AddressError::Host)?;
            (format!("[{name}]"), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (name.to_owned(), port)
        }
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => port.is_empty().then_some(PORT),
    };
    match port {
        Some(port) if !name.is_empty() && name.chars().all(plain) => Ok(format!("{name}:{port}")),
        _ => Err(AddressError::Host),
    }
}

fn tls(query: &str, secure: bool) -> Result<Option<Tls>, AddressError> {
    let (mut authority, mut certificate, mut key, mut server_name) = (None, None, None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(AddressError::Parameter)?;
        let value = decoded(value)?;
        let place = match name {
            "ca" => &mut authority,
            "cert" => &mut certificate,
            "key" => &mut key,
            "server_name" => &mut server_name,
            _ => return Err(AddressError::Parameter),
        };
        if value.is_empty() || place.replace(value).is_some() {
            return Err(AddressError::Parameter);
        }
    }
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => return Err(AddressError::Identity),
    };
    match (authority, secure) {
        (Some(authority), true) => {
            Ok(Some(Tls { authority: authority.into(), identity, server_name }))
        }
        (None, true) => Err(AddressError::Authority),
        (None, false) if identity.is_none() && server_name.is_none() => Ok(None),
        _ => Err(AddressError::Plain),
    }
}

/// Takes percent signs for what they mean.
fn decoded(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(AddressError::Percent)?;
        let digits = std::str::from_utf8(digits).map_err(|_| AddressError::Percent)?;
        if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(AddressError::Percent);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| AddressError::Percent)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Percent)
}

/// Why a text is no address of a cluster. Never repeats the text, which may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It begins with neither `etcd://` nor `etcds://`.
    #[error(
        "the address of an etcd store is etcd://HOST:PORT,HOST:PORT/PREFIX, or etcds:// for TLS"
    )]
    Scheme,
    /// It has a fragment.
    #[error("the address has a `#`: write it as %23 if it is part of a name or password")]
    Malformed,
    /// A host is missing, given twice, or no name with a port.
    #[error(
        "a host of the address is wrong: write HOST:PORT,HOST:PORT with each endpoint once, \
        and an IPv6 address in brackets"
    )]
    Host,
    /// The user is empty.
    #[error("the address has an `@` and no user before it: write USER@ or USER:PASSWORD@")]
    User,
    /// The prefix has a character that nobody could see.
    #[error("the prefix has a control character: write etcd://HOST:PORT/PREFIX with a plain name")]
    Prefix,
    /// A percent sign is not followed by two hex digits, or what they stand for is no UTF-8.
    #[error(
        "a `%` of the address is not followed by two hex digits: write %25 for a percent sign, \
        %40 for @, %3A for : and %2F for / in a password"
    )]
    Percent,
    /// A parameter is unknown, empty, or given twice.
    #[error(
        "a parameter of the address is unknown, empty or given twice: there are ca, cert, key \
        and server_name"
    )]
    Parameter,
    /// TLS without an authority to check servers against.
    #[error("etcds:// needs ?ca=FILE, the certificates of the authority of the cluster")]
    Authority,
    /// Only one of certificate and key.
    #[error("a client certificate needs both cert=FILE and key=FILE")]
    Identity,
    /// Parameters of TLS in an address without TLS.
    #[error("ca, cert, key and server_name are for TLS: write etcds:// or leave them out")]
    Plain,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<Address, AddressError> {
        url.parse()
    }

    #[test]
    fn an_address_is_hosts_and_a_prefix() {
        for (url, hosts, prefix) in [
            ("etcd://a", vec!["a:2379"], "snowlease"),
            ("etcd://a:1,b:2/x", vec!["a:1", "b:2"], "x"),
            ("etcd://127.0.0.1:2379//x/y/", vec!["127.0.0.1:2379"], "x/y"),
            ("etcd://[::1],[::2]:7/", vec!["[::1]:2379", "[::2]:7"], "snowlease"),
            ("etcd://a/x%20y", vec!["a:2379"], "x y"),
        ] {
            let address = parsed(url).unwrap();
            assert_eq!((address.hosts().join(" "), address.prefix()), (hosts.join(" "), prefix));
            assert_eq!(parsed(&address.to_string().replace(' ', "%20")), Ok(address));
        }
    }

    #[test]
    fn what_is_no_address_is_told_without_repeating_it() {
        for (url, error) in [
            ("a:2379", AddressError::Scheme),
            ("ETCD://a", AddressError::Scheme),
            ("etcd://", AddressError::Host),
            ("etcd://a,,b", AddressError::Host),
            ("etcd://a,a:2379", AddressError::Host),
            ("etcd://a:0", AddressError::Host),
            ("etcd://a:99999", AddressError::Host),
            ("etcd://a:b:1", AddressError::Host),
            ("etcd://::1", AddressError::Host),
            ("etcd://[::1", AddressError::Host),
            ("etcd://a b", AddressError::Host),
            ("etcd://@a", AddressError::User),
            ("etcd://:hunter2@a", AddressError::User),
            ("etcd://u:hunter%2@a", AddressError::Percent),
            ("etcd://u:hunter%zz@a", AddressError::Percent),
            ("etcd://u:hunter%+2@a", AddressError::Percent),
            ("etcd://u:%ff@a", AddressError::Percent),
            ("etcd://a/x#y", AddressError::Malformed),
            ("etcd://a/x%0ay", AddressError::Prefix),
            ("etcd://a?ca=x", AddressError::Plain),
            ("etcds://a", AddressError::Authority),
            ("etcds://a?ca=", AddressError::Parameter),
            ("etcds://a?ca=x&ca=y", AddressError::Parameter),
            ("etcds://a?ca=x&cafile=y", AddressError::Parameter),
            ("etcds://a?ca=x&cert=y", AddressError::Identity),
        ] {
            assert_eq!(parsed(url), Err(error), "{url}");
            assert!(!error.to_string().contains("hunter"));
        }
    }

    #[test]
    fn secrets_are_decoded_and_never_shown() {
        let address = parsed("etcds://u%40x:p%3Aa@ss@h:1/p?ca=/c%26a&cert=c&key=k&server_name=n");
        let address = address.unwrap();
        assert_eq!(address.user(), Some("u@x"));
        assert_eq!(address.password().map(Secret::reveal), Some("p:a@ss"));
        let tls = address.tls().unwrap();
        assert_eq!(tls.authority, PathBuf::from("/c&a"));
        assert_eq!(tls.identity, Some(("c".into(), "k".into())));
        assert_eq!(tls.server_name.as_deref(), Some("n"));
        for shown in [format!("{address:?}"), address.to_string()] {
            assert!(!shown.contains("a@ss"), "{shown}");
        }
        let kept = Some(Secret::new("kept"));
        assert_eq!(
            address.or_password(kept.clone()).password().map(Secret::reveal),
            Some("p:a@ss")
        );
        let bare = parsed("etcd://u@h").unwrap().or_password(kept);
        assert_eq!(bare.password().map(Secret::reveal), Some("kept"));
    }
}
