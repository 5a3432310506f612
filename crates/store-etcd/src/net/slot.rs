//! One endpoint: its connection, and one try of a call on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use snowlease_lease::os;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::call::Call;
use super::once;
use super::trouble::{Kind, Trouble, innermost, of_status};
use crate::address::Secret;
use crate::proto::AuthenticateRequest;

/// The most bytes of one answer: a page of cells has some two of its megabytes.
const MOST_BYTES: usize = 32 << 20;

/// To have waited in vain for less proves nothing about a connection.
const PROOF: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Slot {
    host: String,
    endpoint: Endpoint,
    live: Mutex<Option<Live>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    channel: Channel,
    /// Counts connections of the whole client, from 1.
    pub(crate) number: u64,
    signs: Arc<Signs>,
}

/// Signs of life of a connection, each in nanoseconds since boot; 0 for never.
#[derive(Debug, Default)]
struct Signs {
    /// The last answer, whatever it was.
    answered: AtomicU64,
    /// When a call that had seen no sign of life first gave up, since the last answer.
    gave_up: AtomicU64,
}

impl Signs {
    fn answered(&self) {
        // ORDERING: SeqCst, here and below, as all that is no hot path.
        self.answered.store(os::boot_ns(), Ordering::SeqCst);
        self.gave_up.store(0, Ordering::SeqCst);
    }

    fn verdict(&self, sent_ns: u64, waited: Duration) -> Verdict {
        if waited < PROOF || self.answered.load(Ordering::SeqCst) >= sent_ns {
            return Verdict::Slow;
        }
        let now_ns = os::boot_ns();
        let first = self.gave_up.compare_exchange(0, now_ns, Ordering::SeqCst, Ordering::SeqCst);
        match first {
            // Those that wait at once give up at once, and are one sign together.
            Err(gave_up_ns) if sent_ns >= gave_up_ns => Verdict::Dead,
            _ => Verdict::Silent,
        }
    }
}

/// What it says of a connection that a call was not answered on in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It answers others, or the time was too short to tell.
    Slow,
    /// There was no sign of life.
    Silent,
    /// There was none a second time.
    Dead,
}

/// A try that came to nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) trouble: Trouble,
    /// The endpoint took what was asked, and did not answer in time.
    pub(crate) slow: bool,
    /// The connection that gave no sign of life meanwhile.
    pub(crate) silent: Option<u64>,
}

/// As whom to ask, and the token that says so.
#[derive(Debug)]
pub(crate) struct Login {
    user: String,
    password: Secret,
    token: Mutex<Option<AsciiMetadataValue>>,
}

impl Login {
    pub(crate) fn new(user: String, password: Secret) -> Login {
        Login { user, password, token: Mutex::new(None) }
    }

    /// The token; one is asked for if there is none. `None`: etcd asks for none.
    async fn token(&self, channel: &Channel) -> Result<Option<AsciiMetadataValue>, Trouble> {
        // Held while asking: callers at once ask once.
        let mut token = self.token.lock().await;
        if token.is_none() {
            let name = self.user.clone();
            let password = self.password.reveal().to_owned();
            match send(channel, AuthenticateRequest { name, password }, None).await {
                Ok(answer) => {
                    let text = answer.token.parse::<AsciiMetadataValue>();
                    let mut text = text.map_err(|_| {
                        Trouble::new(Kind::Final, false, "etcd gave a token that is no text")
                    })?;
                    // Not to be shown, nor kept by what compresses headers.
                    text.set_sensitive(true);
                    *token = Some(text);
                }
                Err(status) if status.message().contains("authentication is not enabled") => {
                    return Ok(None);
                }
                // Whatever became of it, what was asked for was not sent.
                Err(status) => return Err(Trouble { unknown: false, ..of_status(&status) }),
            }
        }
        Ok(token.clone())
    }

    /// Forgets a token that is not good any more.
    async fn forget(&self, spent: Option<&AsciiMetadataValue>) {
        let mut token = self.token.lock().await;
        if token.as_ref() == spent {
            *token = None;
        }
    }
}

impl Slot {
    pub(crate) fn new(host: String, endpoint: Endpoint) -> Slot {
        Slot { host, endpoint, live: Mutex::new(None) }
    }

    /// The connection, made if there is none.
    pub(crate) async fn connect(&self, connections: &AtomicU64) -> Result<Live, Trouble> {
        // Held while connecting: callers at once share one connection.
        let mut live = self.live.lock().await;
        if let Some(live) = &*live {
            return Ok(live.clone());
        }
        let connecting = self.endpoint.connect_with_connector(once::connector());
        let channel = connecting.await.map_err(|error| {
            Trouble::unsent(format!("no connection to {}: {}", self.host, innermost(&error)))
        })?;
        // ORDERING: SeqCst, as all counters that are no hot path.
        let number = connections.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(live.insert(Live { channel, number, signs: Arc::default() }).clone())
    }

    /// Drops a connection that is no use; others may have made a new one already.
    pub(crate) fn disconnect(&self, number: u64) {
        // Whoever holds the lock makes a new connection: then there is none to be dropped.
        let Ok(mut live) = self.live.try_lock() else { return };
        if live.as_ref().is_some_and(|live| live.number == number) {
            *live = None;
        }
    }

    /// Asks once, within this time, on a connection not newer than `newest`.
    ///
    /// A connection that broke is dropped, and so is one that was silent a second time. One that
    /// was silent once is kept: an endpoint that is overloaded would have to set up one connection
    /// after the other, and answer nobody.
    pub(crate) async fn ask<C: Call>(
        &self,
        request: &C,
        login: Option<&Login>,
        (connections, newest): (&AtomicU64, u64),
        within: Duration,
    ) -> Result<C::Answer, Failed> {
        let (sent, mut asked) = (AtomicBool::new(false), None);
        let work = async {
            let live = self.connect(connections).await?;
            let live = asked.insert((live, os::boot_ns())).0.clone();
            if live.number > newest {
                return Err(Trouble::new(Kind::Reconnected, false, "there is a new connection"));
            }
            let mut again = login.is_some();
            loop {
                let token = match login {
                    Some(login) => login.token(&live.channel).await?,
                    None => None,
                };
                // ORDERING: SeqCst, here and below; one task writes and reads it.
                sent.store(true, Ordering::SeqCst);
                let trouble = match send(&live.channel, request.clone(), token.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(status) => of_status(&status),
                };
                sent.store(false, Ordering::SeqCst);
                match login {
                    Some(login) if trouble.kind == Kind::Token && again => {
                        login.forget(token.as_ref()).await;
                        again = false;
                    }
                    _ => return Err(trouble),
                }
            }
        };
        let answer = timeout(within, work).await;
        let mut verdict = None;
        let trouble = match (answer, asked) {
            (Ok(Ok(answer)), asked) => {
                if let Some((live, _)) = asked {
                    live.signs.answered();
                }
                return Ok(answer);
            }
            (Ok(Err(trouble)), Some((live, _))) => {
                if trouble.kind == Kind::Connection {
                    self.disconnect(live.number);
                } else if trouble.kind != Kind::Reconnected {
                    live.signs.answered();
                }
                trouble
            }
            (Ok(Err(trouble)), None) => trouble,
            (Err(_), None) => Trouble::unsent("no connection in time"),
            (Err(_), Some((live, sent_ns))) => {
                let told = live.signs.verdict(sent_ns, within);
                if told == Verdict::Dead {
                    self.disconnect(live.number);
                }
                verdict = Some((told, live.number));
                let detail = format!("no answer within {} ms", within.as_millis());
                Trouble::new(Kind::Endpoint, sent.load(Ordering::SeqCst), detail)
            }
        };
        let named = trouble.detail.contains(&self.host) || trouble.is_final();
        let detail =
            if named { trouble.detail } else { format!("{}: {}", self.host, trouble.detail) };
        let silent = verdict.filter(|(told, _)| *told == Verdict::Silent);
        Err(Failed {
            trouble: Trouble { detail, ..trouble },
            slow: verdict.is_some(),
            silent: silent.map(|(_, number)| number),
        })
    }
}

async fn send<C: Call>(
    channel: &Channel,
    request: C,
    token: Option<AsciiMetadataValue>,
) -> Result<C::Answer, tonic::Status> {
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(MOST_BYTES);
    grpc.ready().await.map_err(|error| tonic::Status::unavailable(innermost(&error)))?;
    let mut request = tonic::Request::new(request);
    // A member that knows no leader refuses at once, instead of holding the call.
    request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    let codec = ProstCodec::default();
    let answer = grpc.unary(request, PathAndQuery::from_static(C::PATH), codec).await?;
    Ok(answer.into_inner())
}
