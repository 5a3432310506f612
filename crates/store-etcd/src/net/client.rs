//! A cluster: one call at a time for each operation, over whichever endpoint answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::call::Call;
use super::deadline::Deadline;
use super::io::{Io, NoAnswer};
use super::seen::{Newest, Seen};
use super::slot::{Login, Slot};
use super::trouble::{Kind, Trouble};
use crate::OpenError;
use crate::address::{Address, Tls};
use crate::proto::{RangeRequest, RangeResponse, ResponseHeader, TxnRequest, TxnResponse};

/// How much longer than a deadline a caller waits for the thread that keeps to it.
const GRACE: Duration = Duration::from_millis(250);

/// With less time than this nothing is sent: it could not be answered.
const SHORTEST: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Client {
    io: Io,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    slots: Vec<Slot>,
    /// The endpoint that answered last.
    current: AtomicUsize,
    login: Option<Login>,
    connections: AtomicU64,
    seen: Seen,
}

/// The answer to a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) answer: TxnResponse,
    /// The same bytes were sent before, and it is unknown what became of them.
    pub(crate) repeated: bool,
    /// Why the cluster is an older copy of itself, if it is.
    pub(crate) went_back: Option<String>,
}

impl Client {
    /// Nothing is sent before the first call.
    pub(crate) fn new(address: &Address) -> Result<Client, OpenError> {
        let tls = address.tls().map(read_tls).transpose()?;
        let slot = |host: &String| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))
                .and_then(|endpoint| match &tls {
                    Some(tls) => endpoint.tls_config(tls.clone()),
                    None => Ok(endpoint),
                })
                .map_err(|error| OpenError::Tls { what: super::trouble::innermost(&error) })?
                // etcd takes more than one ping in 5 s, or any on an idle connection, for abuse.
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(Duration::from_secs(3));
            Ok(Slot::new(host.clone(), endpoint))
        };
        let slots = address.hosts().iter().map(slot).collect::<Result<Vec<_>, OpenError>>()?;
        let login = match (address.user(), address.password()) {
            (Some(user), Some(password)) => Some(Login::new(user.to_owned(), password.clone())),
            (Some(user), None) => {
                return Err(OpenError::NoPassword { user: user.to_owned() });
            }
            _ => None,
        };
        let shared = Shared {
            current: AtomicUsize::new(anywhere(slots.len())),
            slots,
            login,
            connections: AtomicU64::new(0),
            seen: Seen::default(),
        };
        let io = Io::start().map_err(|error| OpenError::System { what: error.to_string() })?;
        Ok(Client { io, shared: Arc::new(shared) })
    }

    /// Asks for what changes nothing, whatever becomes of it.
    pub(crate) fn read<C: Call>(
        &self,
        request: &C,
        deadline: Deadline,
    ) -> Result<C::Answer, Trouble> {
        match self.call(request, deadline, u64::MAX) {
            Ok((answer, _)) => Ok(answer),
            Err(trouble) => Err(Trouble { unknown: false, ..trouble }),
        }
    }

    pub(crate) fn range(
        &self,
        request: &RangeRequest,
        deadline: Deadline,
    ) -> Result<RangeResponse, Trouble> {
        self.read(request, deadline)
    }

    /// Makes a transaction with a put in it, which etcd therefore orders with all others.
    ///
    /// It is sent only on connections not newer than `newest`. While its outcome is unknown and
    /// there is time, the same bytes are sent again.
    pub(crate) fn write(
        &self,
        request: &TxnRequest,
        deadline: Deadline,
        newest: u64,
    ) -> Result<Written, Trouble> {
        let before = self.shared.seen.newest();
        let (answer, repeated) = self.call(request, deadline, newest)?;
        let went_back =
            answer.header.as_ref().and_then(|header| self.shared.seen.note(before, header));
        Ok(Written { answer, repeated, went_back })
    }

    /// Makes sure that there is a connection, and answers how many there have been.
    pub(crate) fn connected(&self, deadline: Deadline) -> Result<u64, Trouble> {
        let shared = Arc::clone(&self.shared);
        let work = async move { shared.connect(deadline).await };
        self.io.run(deadline.left() + GRACE, work).unwrap_or_else(|why| Err(gone(why, false)))
    }

    /// Begins with this state: what is older went back.
    pub(crate) fn begin_at(&self, header: &ResponseHeader) {
        self.shared.seen.note(Newest::default(), header);
    }

    /// The newest state of the cluster that was seen.
    pub(crate) fn newest(&self) -> Newest {
        self.shared.seen.newest()
    }

    fn call<C: Call>(
        &self,
        request: &C,
        deadline: Deadline,
        newest: u64,
    ) -> Result<(C::Answer, bool), Trouble> {
        let (shared, request) = (Arc::clone(&self.shared), request.clone());
        let work = async move { shared.call(&request, deadline, newest).await };
        self.io.run(deadline.left() + GRACE, work).unwrap_or_else(|why| Err(gone(why, true)))
    }
}

impl Shared {
    /// Each endpoint once, and the first once more: its connection may have been a dead one. Each
    /// with the time it gets of what is left: the larger share, and the last one all of it.
    fn order(&self) -> impl Iterator<Item = (usize, &Slot, Share)> {
        let count = self.slots.len();
        // ORDERING: SeqCst, here and below; any endpoint will do.
        let first = self.current.load(Ordering::SeqCst);
        (0..=count).filter_map(move |step| {
            let index = (first + step) % count;
            let share = if step == count { Share::All } else { Share::Most };
            Some((index, self.slots.get(index)?, share))
        })
    }

    /// Asks one endpoint after the other. One that is merely slow is left for one other and no
    /// more: if the whole cluster is overloaded, to ask all of it makes it worse. If there is no
    /// other, it is asked once more, on a new connection if there was no sign of life on this one.
    async fn call<C: Call>(
        &self,
        request: &C,
        deadline: Deadline,
        newest: u64,
    ) -> Result<(C::Answer, bool), Trouble> {
        let mut tries = Tries::default();
        let mut silent = Vec::new();
        for (index, slot, share) in self.order() {
            let share = if tries.slow == 0 { share } else { Share::All };
            let within = share.of(deadline.left());
            if within < SHORTEST {
                break;
            }
            let connections = (&self.connections, newest);
            match slot.ask(request, self.login.as_ref(), connections, within).await {
                Ok(answer) => {
                    self.current.store(index, Ordering::SeqCst);
                    return Ok((answer, tries.unknown));
                }
                Err(failed) => {
                    match failed.silent {
                        Some(number) if self.slots.len() == 1 => slot.disconnect(number),
                        Some(number) => silent.push((slot, number)),
                        None => {}
                    }
                    tries.add(failed.trouble)?;
                    if failed.slow {
                        self.begin_after(index);
                        tries.slow += 1;
                    }
                    if tries.slow == 2 {
                        break;
                    }
                }
            }
        }
        // Nobody answered: the next call finds out on new connections.
        for (slot, number) in silent {
            slot.disconnect(number);
        }
        Err(tries.end())
    }

    /// The next call does not begin with this endpoint.
    fn begin_after(&self, index: usize) {
        let next = (index + 1) % self.slots.len().max(1);
        let (set, get) = (Ordering::SeqCst, Ordering::SeqCst);
        // If another call has found one that answers, that is where the next one begins.
        let _ = self.current.compare_exchange(index, next, set, get);
    }

    async fn connect(&self, deadline: Deadline) -> Result<u64, Trouble> {
        let mut tries = Tries::default();
        for (index, slot, share) in self.order() {
            let within = share.of(deadline.left());
            match tokio::time::timeout(within, slot.connect(&self.connections)).await {
                Ok(Ok(_)) => {
                    self.current.store(index, Ordering::SeqCst);
                    return Ok(self.connections.load(Ordering::SeqCst));
                }
                Ok(Err(trouble)) => tries.add(trouble)?,
                Err(_) => tries.add(Trouble::unsent("no connection in time"))?,
            }
        }
        Err(tries.end())
    }
}

/// How much of the time that is left an endpoint gets.
#[derive(Clone, Copy, Debug)]
enum Share {
    /// Two thirds: one that is silent leaves enough for another, and one that is slow is not left
    /// too soon.
    Most,
    All,
}

impl Share {
    fn of(self, left: Duration) -> Duration {
        match self {
            Share::Most => left / 3 * 2,
            Share::All => left,
        }
    }
}

/// What the tries of one call came to so far.
#[derive(Default)]
struct Tries {
    unknown: bool,
    /// How many endpoints took what was asked, and did not answer in time.
    slow: u32,
    details: Vec<String>,
}

impl Tries {
    /// Fails if no other endpoint need be asked.
    fn add(&mut self, trouble: Trouble) -> Result<(), Trouble> {
        self.unknown |= trouble.unknown;
        if trouble.is_final() {
            return Err(Trouble { unknown: self.unknown, ..trouble });
        }
        if !self.details.contains(&trouble.detail) {
            self.details.push(trouble.detail);
        }
        Ok(())
    }

    fn end(self) -> Trouble {
        if self.details.is_empty() {
            let detail = "there was no time left to ask etcd: try again";
            return Trouble::new(Kind::Endpoint, false, detail);
        }
        let tried = self.details.join("; ");
        let detail = format!("etcd gave no answer ({tried}): check that a majority of it runs");
        Trouble::new(Kind::Endpoint, self.unknown, detail)
    }
}

/// The thread gave no answer at all.
fn gone(why: NoAnswer, unknown: bool) -> Trouble {
    match why {
        NoAnswer::Forked => Trouble::new(
            Kind::Final,
            false,
            "this process is a forked child of the one that opened the store, and does not reach \
             etcd: open the store in the child itself",
        ),
        NoAnswer::Late => Trouble::new(
            Kind::Final,
            unknown,
            "the thread that speaks to etcd did not end a call in time: try again; if that goes \
             on, this process is starved of processor time",
        ),
    }
}

/// Where to begin, so that a fleet is spread over the endpoints.
fn anywhere(count: usize) -> usize {
    let mut bytes = [0; 8];
    // Without randomness all begin at the first, which is as good.
    let _ = getrandom::fill(&mut bytes);
    usize::try_from(u64::from_le_bytes(bytes) >> 1).unwrap_or(0) % count.max(1)
}

fn read_tls(tls: &Tls) -> Result<ClientTlsConfig, OpenError> {
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path)
            .map_err(|error| OpenError::TlsFile { path: path.clone(), what: error.to_string() })
    };
    let authority = Certificate::from_pem(read(&tls.authority)?);
    let mut config = ClientTlsConfig::new().ca_certificate(authority);
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name.clone());
    }
    Ok(config)
}
