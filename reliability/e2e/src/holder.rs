//! A holder that issues ids, and somebody who draws from it all the time.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use snowlease::{Connector, Ids};
use snowlease_lease::{Terms, os};
use ureq::Agent;

use crate::format;
use crate::gate::free_port;
use crate::process::{Folder, Process};
use crate::time::{pause, wait_for};
use crate::tools::Tools;

/// Short, so that a scenario is mostly the quarantine; long enough that the window of a holder that
/// is cut off outlasts the restore, which is when ids could repeat.
pub(crate) const WINDOW: Duration = Duration::from_secs(12);
pub(crate) const RENEW: Duration = Duration::from_secs(4);

/// Ids per draw: as many ticks are full as a draw takes, so that no two holders of one generator id
/// get by each other.
const BATCH: usize = 200;

/// What was drawn from one holder.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    pub(crate) ids: Vec<u64>,
    /// What was said instead of ids: when first and how often.
    pub(crate) refusals: BTreeMap<String, (i64, u64)>,
}

#[derive(Debug, Default)]
struct Shared {
    drawn: Mutex<Drawn>,
    /// The largest tick of all ids so far.
    newest: AtomicU64,
    done: AtomicBool,
}

/// One holder: a `snowlease serve`, or a program with the library.
pub(crate) struct Holder {
    pub(crate) name: String,
    /// Of its `serve`.
    server: Option<String>,
    process: Option<Process>,
    shared: Arc<Shared>,
    drawing: Option<JoinHandle<()>>,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("name", &self.name).field("server", &self.server).finish()
    }
}

impl Holder {
    /// Starts a service on this store, and draws ids over HTTP.
    pub(crate) fn serve(
        tools: &Tools,
        folder: &Folder,
        name: &str,
        port: Option<u16>,
        arguments: &[&str],
    ) -> Result<Holder> {
        let port = port.map_or_else(free_port, Ok)?;
        let listen = format!("127.0.0.1:{port}");
        let mut serve = tools.snowlease();
        serve.args(["serve", "--listen", &listen, "--name", name]);
        serve.args(["--lease", &seconds(WINDOW), "--renew", &seconds(RENEW)]);
        serve.args(arguments);
        let mut process = folder.start(name, serve, libc::SIGKILL)?;
        let server = format!("http://{listen}");
        let agent = agent();
        let lives = || agent.get(format!("{server}/livez")).call().is_ok();
        if !wait_for(Duration::from_secs(20), || process.has_ended() || lives())
            || process.has_ended()
        {
            bail!("{name} does not serve: {}", folder.last_words(name));
        }
        let url = format!("{server}/ids?n={BATCH}");
        let mut holder = Holder::drawing(name, move || over_http(&agent, &url))?;
        (holder.server, holder.process) = (Some(server), Some(process));
        Ok(holder)
    }

    /// A program with the library that leases from a service, now or as soon as it may.
    pub(crate) fn library(name: &str, server: &str) -> Result<Holder> {
        let terms = Terms::new(WINDOW, RENEW).context("the terms")?;
        let connector = Connector::new(server).name(name).terms(terms);
        let connector =
            connector.max_wait(Duration::from_millis(100)).ready_within(Duration::from_secs(5));
        let mut connected = None;
        Holder::drawing(name, move || {
            if connected.is_none() {
                let ids = connector.clone().connect_blocking();
                connected = Some(ids.map_err(|error| error.to_string())?);
            }
            connected.as_ref().map_or_else(|| Err(String::new()), by_library)
        })
    }

    fn drawing(
        name: &str,
        mut draw: impl FnMut() -> Result<Vec<u64>, String> + Send + 'static,
    ) -> Result<Holder> {
        let shared = Arc::new(Shared::default());
        let to = Arc::clone(&shared);
        let drawing = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // ORDERING: Relaxed, here and below: a flag and a figure that nothing else hangs on.
            while !to.done.load(Ordering::Relaxed) {
                match draw() {
                    Ok(ids) => to.keep(&ids),
                    Err(why) => {
                        to.refused(&why);
                        pause(Duration::from_millis(50));
                    }
                }
            }
        })?;
        let (name, drawing) = (name.to_owned(), Some(drawing));
        Ok(Holder { name, server: None, process: None, shared, drawing })
    }

    /// The base URL of its service.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// The largest tick of the ids drawn so far; 0 if there are none.
    pub(crate) fn newest(&self) -> u64 {
        self.shared.newest.load(Ordering::Relaxed)
    }

    /// Waits for its first ids.
    pub(crate) fn is_issuing(&self, folder: &Folder) -> Result<()> {
        if wait_for(Duration::from_secs(20), || self.newest() > 0) {
            return Ok(());
        }
        let said = self.drawn().refusals.keys().cloned().collect::<Vec<_>>().join(" | ");
        bail!("{} issues no ids: {said} {}", self.name, folder.last_words(&self.name))
    }

    /// Ends the process at once, as `kill -9` does; what is drawn meanwhile counts.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
        self.draw_no_more();
    }

    /// Ends it in order.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let stopped = self.process.take().map_or(Ok(()), |mut process| process.stop(libc::SIGTERM));
        self.draw_no_more();
        stopped
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| !process.has_ended()) && self.drawing.is_some()
    }

    pub(crate) fn draw_no_more(&mut self) {
        self.shared.done.store(true, Ordering::Relaxed);
        if let Some(drawing) = self.drawing.take() {
            drop(drawing.join());
        }
    }

    pub(crate) fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.shared.drawn()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.process = None;
        self.draw_no_more();
    }
}

impl Shared {
    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, ids: &[u64]) {
        self.drawn().ids.extend_from_slice(ids);
        if let Some(id) = ids.last() {
            self.newest.fetch_max(format::parts(*id).0, Ordering::Relaxed);
        }
    }

    fn refused(&self, why: &str) {
        let now_ms = os::wall_ms();
        // Times and ticks differ each time.
        let why = why.replace(|c: char| c.is_ascii_digit(), "");
        self.drawn().refusals.entry(why).or_insert((now_ms, 0)).1 += 1;
    }
}

/// A client of services of this machine; what is no success is an answer too.
pub(crate) fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(5)))
        .build()
        .new_agent()
}

fn over_http(agent: &Agent, url: &str) -> Result<Vec<u64>, String> {
    let asked = agent.get(url).header("accept", "application/octet-stream").call();
    let mut answer = asked.map_err(|error| error.to_string())?;
    if answer.status() != 200 {
        let body = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        return Err(format!("{} {}", answer.status().as_u16(), problem["reason"]));
    }
    let bytes = answer.body_mut().read_to_vec().map_err(|error| error.to_string())?;
    let (ids, rest) = bytes.as_chunks::<8>();
    if ids.len() != BATCH || !rest.is_empty() {
        return Err(format!("{} bytes in place of {BATCH} ids", bytes.len()));
    }
    Ok(ids.iter().map(|id| u64::from_be_bytes(*id)).collect())
}

fn by_library(ids: &Ids) -> Result<Vec<u64>, String> {
    let drawn = ids.next_ids(BATCH).map_err(|refusal| refusal.code().to_owned())?;
    Ok(drawn.into_iter().map(snowlease::Id::get).collect())
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}

/// The command of an operator against this store.
pub(crate) fn operator(tools: &Tools, verb: &[&str], place: &[&str]) -> Command {
    let mut command = tools.snowlease();
    command.args(verb).args(place);
    command
}
