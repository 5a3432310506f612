//! One request and its answer, in bounded time.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use snowlease_lease::os;
use snowlease_wire::Problem;
use ureq::http::Response;
use ureq::{Agent, Body, Timeout};

/// The longest answer: a list of a million generator ids.
const MOST_BYTES: u64 = 512 << 20;

/// Idle connections are closed before the service closes them, which a request could run into.
const IDLE: Duration = Duration::from_secs(25);

/// Makes requests to one service.
pub(crate) struct Caller {
    base: String,
    agent: Agent,
    attempt: Duration,
}

/// Why there is no answer to go by.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was sent.
    Unsent(String),
    /// It was sent, and what became of it is not known.
    Lost(String),
    /// It was sent, and what answers does not talk as a lease service does.
    Senseless(String),
    /// The service says no.
    Refused(Box<Problem>),
    /// Something that is no service of ours answers with this status.
    Foreign(u16),
}

impl Caller {
    pub(crate) fn new(base: String, attempt: Duration) -> Caller {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            // Leases go to the service that was named, not where the environment points.
            .proxy(None)
            .user_agent(concat!("snowlease/", env!("CARGO_PKG_VERSION")))
            .max_idle_age(IDLE)
            .timeout_resolve(Some(attempt / 3))
            .timeout_connect(Some(attempt / 3))
            .timeout_global(Some(attempt))
            .build()
            .new_agent();
        Caller { base, agent, attempt }
    }

    /// The reading of the boot clock at which an attempt that begins now is over.
    pub(crate) fn deadline_ns(&self) -> u64 {
        let attempt_ns = u64::try_from(self.attempt.as_nanos()).unwrap_or(u64::MAX);
        os::boot_ns().saturating_add(attempt_ns)
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.agent.get(format!("{}{path}", self.base));
        self.read(request.header("Accept", "application/json").call())
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        deadline_ns: u64,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(|_| self.unsent("cannot be asked this"))?;
        let left = Duration::from_nanos(deadline_ns.saturating_sub(os::boot_ns()));
        if left.is_zero() {
            return Err(self.unsent("did not answer in time"));
        }
        let request = self.agent.post(format!("{}{path}", self.base));
        let request = request.config().timeout_global(Some(left)).build();
        self.read(request.header("Content-Type", "application/json").send(&body[..]))
    }

    fn read<T: DeserializeOwned>(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<T, Failure> {
        let mut answer = answer.map_err(|error| self.failed(&error))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(MOST_BYTES).read_to_vec();
        let body = body.map_err(|_| self.lost("broke off in the middle of its answer"))?;
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|_| self.senseless("gave an answer that makes no sense: check the URL"));
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(Failure::Refused(Box::new(problem))),
            Err(_) => Err(Failure::Foreign(status.as_u16())),
        }
    }

    /// Sorts out whether anything can have been sent.
    fn failed(&self, error: &ureq::Error) -> Failure {
        match error {
            ureq::Error::Timeout(Timeout::Resolve) => {
                self.unsent("has a name that no one resolves")
            }
            ureq::Error::HostNotFound => self.unsent("has a name that is not known"),
            ureq::Error::Timeout(Timeout::Connect) | ureq::Error::ConnectionFailed => {
                self.unsent("cannot be reached")
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => self.unsent("has a URL of no use"),
            // These kinds are of connecting alone: a connection that stands is never refused.
            ureq::Error::Io(error) => match error.kind() {
                ErrorKind::ConnectionRefused => self.unsent("refuses connections: is it running?"),
                ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::AddrNotAvailable => self.unsent("cannot be reached"),
                // The standard library has no kind for a name that was not found.
                _ if error.to_string().starts_with("failed to lookup address") => {
                    self.unsent("has a name that is not known")
                }
                _ => self.lost("closed the connection before it answered"),
            },
            ureq::Error::Timeout(_) => self.lost("did not answer in time"),
            _ => self.senseless("did not answer as a service does: check the URL"),
        }
    }

    fn unsent(&self, what: &str) -> Failure {
        Failure::Unsent(format!("the lease service at {} {what}", self.base))
    }

    fn lost(&self, what: &str) -> Failure {
        Failure::Lost(format!("the lease service at {} {what}", self.base))
    }

    fn senseless(&self, what: &str) -> Failure {
        Failure::Senseless(format!("the lease service at {} {what}", self.base))
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("base", &self.base)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
