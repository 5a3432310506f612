//! Asks a running service over HTTP; its problems become errors with their detail.

use std::fmt;
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use snowlease_wire::Problem;
use ureq::Agent;

use crate::usage::Usage;

/// Where `snowlease serve` listens unless told otherwise.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:8700";

/// A list of a million leases fits; an answer without end does not.
const LARGEST_ANSWER: u64 = 512 << 20;

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
        if scheme == "https" {
            let text = "this build speaks http only: give an http:// URL of the service";
            return Err(Usage(text.to_owned()));
        }
        if scheme != "http" || host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
            let text = format!("{server:?} is no service: write http://HOST:PORT");
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
        Ok(Client { agent, base: base.to_owned() })
    }

    /// The answer of `GET` on this path and query.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let asked = self.agent.get(format!("{}{path}", self.base)).call();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_base_urls_are_services() {
        for good in ["http://127.0.0.1:8700", "http://[::1]:8700/", "http://ids.internal"] {
            assert!(Client::new(good).is_ok(), "{good}");
        }
        for bad in ["", "ids:8700", "http://", "https://ids", "http://a/b", "http://me:x@ids"] {
            assert!(Client::new(bad).is_err(), "{bad}");
        }
    }
}
