//! `snowlease serve` on an embedded store, under clocks of its own, and somebody who draws from it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use snowlease_clocks::record::{NO_ANSWER, Record, Said};
use snowlease_clocks::true_ns;
use snowlease_core::Format;
use ureq::Agent;

use crate::fakes::Fakes;
use crate::judge::Log;
use crate::process::{Process, snowlease};
use crate::time::{PATIENCE, after, eventually, ms, pause};

/// Short terms, so that no scenario waits long for a lease to end.
pub(crate) const WINDOW: Duration = Duration::from_secs(3);
pub(crate) const RENEW: Duration = Duration::from_secs(1);

/// Ids of one request, and how long a drawer rests after it.
const BATCH: usize = 10;
const REST: Duration = Duration::from_millis(10);

/// A service; killed when the test is over, however it went.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) process: Process,
    pub(crate) url: String,
    said: Arc<Mutex<String>>,
    agent: Agent,
    drawing: Vec<Drawing>,
}

impl Service {
    /// Starts one in this folder and waits until it listens; whether it is ready is another matter.
    pub(crate) fn start(folder: &Path, fakes: Option<&Fakes>, arguments: &[&str]) -> Service {
        Service::start_with_terms(folder, fakes, (WINDOW, RENEW), arguments)
    }

    pub(crate) fn start_with_terms(
        folder: &Path,
        fakes: Option<&Fakes>,
        terms: (Duration, Duration),
        arguments: &[&str],
    ) -> Service {
        Service::spawn(folder, fakes, terms, arguments, None)
    }

    /// The zone is that of its environment.
    pub(crate) fn start_in_zone(folder: &Path, fakes: &Fakes, zone: &str) -> Service {
        Service::spawn(folder, Some(fakes), (WINDOW, RENEW), &[], Some(zone))
    }

    fn spawn(
        folder: &Path,
        fakes: Option<&Fakes>,
        (window, renew): (Duration, Duration),
        arguments: &[&str],
        zone: Option<&str>,
    ) -> Service {
        let mut command = snowlease();
        if let Some(zone) = zone {
            command.env("TZ", zone);
        }
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        for (flag, time) in [("--lease", window), ("--renew", renew)] {
            command.args([flag, &format!("{}ms", time.as_millis())]);
        }
        command.args(arguments).current_dir(folder);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(fakes) = fakes {
            fakes.dress(&mut command);
        }
        let mut process = Process::start(&mut command);
        let stderr = BufReader::new(process.child.stderr.take().expect("stderr is piped"));
        let said = Arc::new(Mutex::new(String::new()));
        let to = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut said = to.lock().expect("nobody panics with it");
                said.push_str(&line);
                said.push('\n');
            }
        });
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(ms(2_000)))
            .build()
            .new_agent();
        let drawing = Vec::new();
        let mut service = Service { process, url: String::new(), said, agent, drawing };
        let until_ns = after(PATIENCE);
        while service.url.is_empty() {
            let said = service.said();
            assert!(service.process.runs() && true_ns() < until_ns, "it does not serve: {said}");
            let place = said.split("serving ids on ").nth(1);
            let place = place.and_then(|rest| rest.split_whitespace().next());
            service.url = place.unwrap_or_default().to_owned();
            pause(ms(10));
        }
        service
    }

    /// What it has said on stderr until now.
    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("nobody panics with it").clone()
    }

    /// The status and the body of an answer.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let mut answer =
            self.agent.get(format!("{}{path}", self.url)).call().expect("the service answers");
        let text = answer.body_mut().read_to_string().expect("the answer is whole");
        (answer.status().as_u16(), text)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.get("/readyz").0 == 200
    }

    #[track_caller]
    pub(crate) fn becomes_ready(&self) {
        eventually("the service is ready", || self.is_ready());
    }

    /// A figure of `GET /metrics`, if it is there.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.find_map(|line| {
            let rest = line.strip_prefix(name)?;
            let value = rest.strip_prefix(' ').or_else(|| Some(rest.split_once("} ")?.1))?;
            value.split_whitespace().next()?.parse().ok()
        })
    }

    /// How often its clock was seen set.
    pub(crate) fn steps(&self) -> f64 {
        self.metric("snowlease_clock_steps_total").expect("it counts them")
    }

    /// Begins to draw ids from it, by as many clients.
    pub(crate) fn draw(&mut self, clients: usize) {
        self.drawing.extend((0..clients).map(|_| Drawing::start(&self.agent, &self.url)));
    }

    /// What was drawn until now.
    pub(crate) fn log(&self) -> Log {
        let lines = self.drawing.iter();
        let lines = lines.map(|drawing| drawing.records.lock().expect("nobody panics").clone());
        Log { name: "the service".to_owned(), format: Format::DEFAULT, lines: lines.collect() }
    }
}

/// Somebody who asks a service for ids all the time.
#[derive(Debug)]
struct Drawing {
    records: Arc<Mutex<Vec<Record>>>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drawing {
    fn start(agent: &Agent, url: &str) -> Drawing {
        let records = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::new(AtomicBool::new(false));
        let (to, stop) = (Arc::clone(&records), Arc::clone(&done));
        let (agent, url) = (agent.clone(), format!("{url}/ids?n={BATCH}"));
        let thread = std::thread::spawn(move || {
            // ORDERING: Relaxed, here and below: a flag that nothing else hangs on.
            while !stop.load(Ordering::Relaxed) {
                let begun_ns = true_ns();
                let said = ask(&agent, &url).unwrap_or_else(|said| vec![said]);
                let ended_ns = true_ns();
                let said = said.into_iter().map(|said| Record { begun_ns, ended_ns, said });
                to.lock().expect("nobody panics with it").extend(said);
                pause(REST);
            }
        });
        Drawing { records, done, thread: Some(thread) }
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        // ORDERING: Relaxed; see above.
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The ids of one request, or what was said in place of them.
fn ask(agent: &Agent, url: &str) -> Result<Vec<Said>, Said> {
    let no_answer = |_| Said::refused(NO_ANSWER, None);
    let asked = agent.get(url).header("accept", "application/octet-stream").call();
    let mut answer = asked.map_err(no_answer)?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().read_to_vec().map_err(no_answer)?;
    if status != 200 {
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = problem["code"].as_str().unwrap_or_default();
        return Err(Said::refused(code, problem["retry_after_ms"].as_u64()));
    }
    let (ids, _) = body.as_chunks::<8>();
    Ok(ids.iter().map(|id| Said::Id(u64::from_be_bytes(*id))).collect())
}
