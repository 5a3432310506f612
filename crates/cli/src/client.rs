//! Asks a running service over HTTP; its problems become errors with their detail.

use std::fmt;
use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use snowlease_wire::Problem;
use ureq::Agent;

use crate::settings::hide_secrets;
use crate::usage::Usage;

/// Where `snowlease serve` listens unless told otherwise.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8700";

/// A list of a million leases fits; an answer without end does not.
const LARGEST_ANSWER: u64 = 512 << 20;

/// What became of a request.
type Asked = Result<ureq::http::Response<ureq::Body>, ureq::Error>;

/// A service at a base URL.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
}

/// The service answered, and the answer is an error.
#[derive(Debug)]
pub(crate) struct Refused {
    base: String,
    pub(crate) problem: Problem,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answers: {}", self.base, self.problem.detail)?;
        match &self.problem.reason {
            Some(reason) if !self.problem.detail.contains(reason) => write!(f, " ({reason})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Refused {}

impl Client {
    /// A client; nothing is sent yet.
    pub(crate) fn new(server: &str) -> Result<Client, Usage> {
        let base = server.trim_end_matches('/');
        let (scheme, host) = base.split_once("://").unwrap_or((base, ""));
        // A scheme may be in either case (RFC 3986).
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "https" {
            let text = "this build speaks http only: give an http:// URL of the service";
            return Err(Usage(text.to_owned()));
        }
        if scheme != "http" || !is_host(host) {
            let text = format!("{:?} is no service: write http://HOST:PORT", hide_secrets(server));
            return Err(Usage(text));
        }
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // A proxy for the web outside does not know the services inside.
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(Duration::from_secs(3)))
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .new_agent();
        Ok(Client { agent, base: format!("http://{host}") })
    }

    /// The answer of `GET` on this path and query.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.answer(self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// The answer of `POST` on this path and query, which nothing in between may keep or repeat.
    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.answer(self.agent.post(format!("{}{path}", self.base)).send_empty())
    }

    /// The answer to what an operator asks for on this path.
    pub(crate) fn command<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.agent.post(format!("{}{path}", self.base));
        self.answer(request.content_type("application/json").send("{}"))
    }

    fn answer<T: DeserializeOwned>(&self, asked: Asked) -> Result<T> {
        let mut answer = asked.map_err(|error| self.unreachable(error))?;
        let body = answer.body_mut().with_config().limit(LARGEST_ANSWER).read_to_string();
        let body = body.map_err(|error| self.unreachable(error))?;
        if !answer.status().is_success() {
            let problem = serde_json::from_str::<Problem>(&body).with_context(|| {
                format!("{} answers {}: is this a Snowlease service?", self.base, answer.status())
            })?;
            return Err(Refused { base: self.base.clone(), problem }.into());
        }
        serde_json::from_str(&body).with_context(|| {
            format!("{} answers something else: is this a Snowlease service?", self.base)
        })
    }

    fn unreachable(&self, error: ureq::Error) -> anyhow::Error {
        let base = &self.base;
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                anyhow::anyhow!(
                    "nothing listens at {base}: start `snowlease serve`, or name another \
                     service with --server or a store with --store"
                )
            }
            ureq::Error::HostNotFound => {
                anyhow::anyhow!("the host of {base} is not known: correct --server")
            }
            ureq::Error::Timeout(_) => {
                anyhow::anyhow!("{base} does not answer in time: try again, or ask another service")
            }
            error => anyhow::Error::new(error).context(format!("{base} cannot be asked")),
        }
    }
}

/// Whether this is a host with an optional port, and nothing else.
fn is_host(text: &str) -> bool {
    if text.contains(['/', '?', '#', '@']) {
        return false;
    }
    let Ok(authority) = text.parse::<ureq::http::uri::Authority>() else { return false };
    let (host, port) = (authority.host(), &text[authority.host().len()..]);
    let bracketed = host.starts_with('[');
    let known = if bracketed {
        host.trim_matches(['[', ']']).parse::<Ipv6Addr>().is_ok()
    } else {
        !host.is_empty() && !host.contains([':', '[', ']'])
    };
    known && (port.is_empty() || authority.port_u16().is_some_and(|port| port > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_base_urls_are_services() {
        for good in [
            "http://127.0.0.1:8700",
            "http://[::1]:8700/",
            "http://[::1]",
            "http://ids.internal",
            "HTTP://ids:8700",
        ] {
            assert!(Client::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ids:8700",
            "http://",
            "https://ids",
            "HTTPS://ids",
            "http://a/b",
            "http://me:x@ids",
            "http://ids:",
            "http://ids:0",
            "http://ids:65536",
            "http://ids:x",
            "http://ids:1:2",
            "http://:8700",
            "http://[::1",
            "http://[x]:1",
            "http://[::1]x",
            "http://::1:8700",
            "http://i ds",
            "http://ids\u{7}",
            "http://<ids>",
        ] {
            assert!(Client::new(bad).is_err(), "{bad}");
        }
        assert_eq!(Client::new("Http://ids:1/").unwrap().base, "http://ids:1");
    }
}
