//! The holders of a scenario, and what becomes of them.

#![allow(clippy::print_stderr, reason = "tells the person who waits")]

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::format::{self, LAYOUT, RANGE, now};
use crate::holder::{Holder, WINDOW, agent, operator};
use crate::judge::{Judged, judge};
use crate::process::Folder;
use crate::report::Row;
use crate::scenarios::How;
use crate::time::{Since, pause};
use crate::tools::Tools;

/// What the services are told to do about a store that may have been put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    Enforce,
    /// A scenario has to fail with this: see the crate's page.
    Warn,
}

/// Quarantine is found within: the time after which a silent store is suspected, and some.
const DETECTION: Duration = Duration::from_secs(30);

/// Everybody issues again within: a quarantine, the longest window of one that notices later, the
/// longest pause between two attempts, and some.
const RETURN: Duration = Duration::from_secs(130);

/// In ticks: a window may have been granted just after that moment.
const UNDER_WAY: u64 = 1_000;

pub(crate) struct Fleet<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) folder: &'a Folder,
    name: &'a str,
    guard: Guard,
    /// Nothing keeps the starters from generator ids in use.
    unguarded: bool,
    pub(crate) holders: Vec<Holder>,
    facts: Facts,
}

/// What is known of the rollback.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// When the store served again.
    back: Option<Since>,
    /// The tick when it began, and the last one that a window from before reaches.
    rollback: (u64, u64),
    /// Those of now that were started afterwards.
    new: BTreeSet<String>,
    detected: Option<Duration>,
    how: BTreeSet<String>,
    in_service: Option<Duration>,
    verified: String,
    /// In words, for people.
    wrong: Vec<String>,
}

impl<'a> Fleet<'a> {
    pub(crate) fn new(tools: &'a Tools, folder: &'a Folder, name: &'a str, how: How) -> Fleet<'a> {
        let (guard, unguarded) = (how.guard, how.guard == Guard::Warn || !how.told);
        Fleet {
            tools,
            folder,
            name,
            guard,
            unguarded,
            holders: Vec::new(),
            facts: Facts::default(),
        }
    }

    /// Tells the person who waits.
    pub(crate) fn say(&self, what: &str) {
        self.folder.note(&format!("# tick {}: {what}", now()));
        eprintln!("{:32} {what}", self.name);
    }

    /// How many are started at once. If nothing is to keep them, there are enough to take every
    /// generator id there is.
    pub(crate) fn starters(&self) -> u64 {
        if self.unguarded { format::GENERATORS } else { 2 }
    }

    pub(crate) fn init(&self, url: &str) -> Result<()> {
        let place = ["--store", url, "--layout", LAYOUT, "--generators", RANGE];
        self.folder.run(&mut operator(self.tools, &["store", "init"], &place)).map(drop)
    }

    /// Starts a program with the library.
    pub(crate) fn library(&mut self, name: &str, server: &str) -> Result<()> {
        self.holders.push(Holder::library(name, server)?);
        Ok(())
    }

    pub(crate) fn new_library(&mut self, name: &str, server: &str) -> Result<()> {
        self.facts.new.insert(name.to_owned());
        self.library(name, server)
    }

    pub(crate) fn serve(&mut self, name: &str, url: &str) -> Result<()> {
        self.serve_on(name, url, None)
    }

    pub(crate) fn serve_on(&mut self, name: &str, url: &str, port: Option<u16>) -> Result<()> {
        let guard = if self.guard == Guard::Warn { "warn" } else { "enforce" };
        let arguments = ["--store", url, "--rollback-guard", guard];
        self.holders.push(Holder::serve(self.tools, self.folder, name, port, &arguments)?);
        Ok(())
    }

    /// Starts one that did not run when the store was put back.
    pub(crate) fn start_new(&mut self, name: &str, url: &str) -> Result<()> {
        self.start_new_on(name, url, None)
    }

    pub(crate) fn start_new_on(&mut self, name: &str, url: &str, port: Option<u16>) -> Result<()> {
        self.facts.new.insert(name.to_owned());
        self.serve_on(name, url, port)
    }

    pub(crate) fn all_issue(&mut self) -> Result<()> {
        let folder = self.folder;
        let mut holders = self.holders.iter_mut();
        holders.try_for_each(|it| if it.runs() { it.is_issuing(folder) } else { Ok(()) })
    }

    pub(crate) fn kill(&mut self, name: &str) {
        self.holders.iter_mut().filter(|holder| holder.name == name).for_each(Holder::kill);
    }

    /// Ends this one in order, if it runs.
    pub(crate) fn stop(&mut self, name: &str) -> Result<()> {
        self.holders.iter_mut().filter(|holder| holder.name == name).try_for_each(Holder::stop)
    }

    pub(crate) fn kill_all_but(&mut self, name: &str) {
        self.holders.iter_mut().filter(|holder| holder.name != name).for_each(Holder::kill);
    }

    pub(crate) fn stop_all(&mut self) -> Result<()> {
        self.holders.iter_mut().try_for_each(Holder::stop)
    }

    /// The store was put back from this tick on, and serves again.
    pub(crate) fn was_put_back(&mut self, begun: u64) {
        self.facts.back = Some(Since::now());
        let window = u64::try_from(WINDOW.as_millis()).unwrap_or(u64::MAX);
        self.facts.rollback = (begun, begun + window + UNDER_WAY);
    }

    fn since_back(&self) -> Duration {
        self.facts.back.map_or(Duration::ZERO, Since::elapsed)
    }

    /// Waits until the store is in quarantine, and answers until which tick. `silent`: nobody can
    /// notice, and nobody was told.
    pub(crate) fn watch_for_quarantine(
        &mut self,
        silent: bool,
        floor: impl Fn() -> Result<u64>,
    ) -> Result<u64> {
        let begun = Since::now();
        let mut found = 0;
        while found <= now() {
            if begun.elapsed() > DETECTION {
                if silent || self.guard == Guard::Warn {
                    self.say("nobody has noticed, as was asked for");
                    return Ok(now());
                }
                bail!("nobody has noticed within {} s", DETECTION.as_secs());
            }
            pause(Duration::from_millis(200));
            found = floor().unwrap_or(0);
        }
        if self.facts.detected.is_some() {
            // It was told.
            return Ok(found);
        }
        self.facts.detected = Some(self.since_back());
        self.facts.how = self.alarms();
        let after = self.facts.detected.unwrap_or_default().as_millis();
        self.say(&format!("noticed after {after} ms: {}", self.how()));
        Ok(found)
    }

    /// Why, as the services say, in a few words each.
    fn alarms(&self) -> BTreeSet<String> {
        let agent = agent();
        let said =
            self.holders.iter().filter(|holder| holder.name != "cut-off").filter_map(|holder| {
                let mut answer = agent.get(format!("{}/store", holder.server()?)).call().ok()?;
                let doc: serde_json::Value =
                    serde_json::from_str(&answer.body_mut().read_to_string().ok()?).ok()?;
                let alarms = doc["alarms"].as_array()?.iter().filter_map(|alarm| alarm.as_str());
                Some(alarms.map(str::to_owned).collect::<Vec<_>>())
            });
        let all: BTreeSet<String> = said.flatten().collect();
        for alarm in &all {
            self.folder.note(&format!("# alarm: {alarm}"));
        }
        all.iter().filter_map(|alarm| sign(alarm)).map(str::to_owned).collect()
    }

    fn how(&self) -> String {
        let how: Vec<&str> = self.facts.how.iter().map(String::as_str).collect();
        if how.is_empty() { "nobody says why".to_owned() } else { how.join(", ") }
    }

    /// The operator tells the store that it was put back, before any service is started.
    pub(crate) fn tell(&mut self, url: &str) -> Result<()> {
        let place = ["--store", url];
        self.folder.run(&mut operator(self.tools, &["store", "quarantine"], &place))?;
        self.facts.detected = Some(self.since_back());
        self.facts.how = ["told".to_owned()].into();
        self.say("the store was told");
        Ok(())
    }

    /// The operator sees the quarantine too.
    pub(crate) fn status_says(&self, place: &[&str]) -> Result<()> {
        if self.facts.detected.is_none() {
            // Nobody was to notice.
            return Ok(());
        }
        let mut status = operator(self.tools, &["store", "status"], place);
        let said = self.folder.run(&mut status)?;
        if said.contains("in quarantine: it grants again from") {
            return Ok(());
        }
        bail!("`snowlease store status` does not say that it is in quarantine: {said}")
    }

    /// Waits until the floor is reached and everybody who runs issues again; answers the floor,
    /// which a holder that notices later may have raised.
    pub(crate) fn is_back(&mut self, but: &[&str], floor: impl Fn() -> Result<u64>) -> Result<u64> {
        let begun = Since::now();
        loop {
            let floor = floor()?;
            let silent = self.holders.iter_mut().filter_map(|it| {
                let expected = it.runs() && !but.contains(&&*it.name);
                (expected && it.newest() < floor).then(|| it.name.clone())
            });
            let silent: Vec<String> = silent.collect();
            if silent.is_empty() {
                if self.facts.in_service.is_none() {
                    self.facts.in_service = Some(self.since_back());
                }
                // Some more of everybody.
                pause(Duration::from_secs(2));
                return Ok(floor);
            }
            if begun.elapsed() > RETURN {
                let said = silent.iter().map(|name| self.folder.last_words(name));
                let said = said.collect::<Vec<_>>().join(" / ");
                bail!("no ids from {} after the quarantine: {said}", silent.join(", "));
            }
            pause(Duration::from_millis(500));
        }
    }

    /// Watches for as long as a window that the floor stays where it is: whoever comes with nothing
    /// that is not waited for already, or is not over, is nothing that others have to pay for.
    pub(crate) fn is_left_alone(
        &mut self,
        floor: impl Fn() -> Result<u64>,
        wrong: &str,
    ) -> Result<()> {
        let (begun, before) = (Since::now(), floor()?);
        while begun.elapsed() < WINDOW {
            let raised = floor()?.saturating_sub(before);
            if raised > 0 {
                self.facts.wrong.push(format!("{wrong}: {} s more", raised / 1_000));
                break;
            }
            pause(Duration::from_millis(500));
        }
        Ok(())
    }

    pub(crate) fn verify(&mut self, place: &[&str]) -> Result<()> {
        let mut verify = operator(self.tools, &["store", "verify"], place);
        let (sound, out, err) = self.folder.try_run(&mut verify)?;
        self.facts.verified = if sound { "sound".to_owned() } else { err.trim().to_owned() };
        if !sound {
            bail!("`snowlease store verify`: {}{}", out.trim(), err.trim());
        }
        Ok(())
    }

    /// Every id of everybody against every other one and against the quarantine.
    pub(crate) fn judge(&mut self, floor: u64) -> Row {
        self.holders.iter_mut().for_each(Holder::draw_no_more);
        for holder in &self.holders {
            let drawn = holder.drawn();
            self.folder.note(&format!("# {} issued {} ids", holder.name, drawn.ids.len()));
            for (why, (first_ms, count)) in &drawn.refusals {
                self.folder.note(&format!("#   {count} times from {first_ms} on: {why}"));
            }
        }
        let facts = &self.facts;
        let Judged { ids, duplicates, mut wrong } =
            judge(&self.holders, facts.rollback, floor, |name| facts.new.contains(name));
        wrong.extend(facts.wrong.iter().cloned());
        Row {
            how: self.how(),
            detected: facts.detected,
            until: if facts.detected.is_some() { floor } else { 0 },
            ids,
            duplicates,
            back: facts.in_service,
            verified: facts.verified.clone(),
            wrong,
        }
    }
}

/// What an alarm goes by, if it is about a rollback.
fn sign(alarm: &str) -> Option<&'static str> {
    [
        ("went back from revision", "revision"),
        ("another cluster answers", "cluster id"),
        ("the cluster", "cluster id"),
        ("from term", "raft term"),
        ("timeline", "timeline"),
        ("a holder", "a holder knew more"),
        ("nobody renewed while it was watched", "silent pulse"),
        ("no holder vouches", "silent pulse"),
        ("changes are missing", "witness"),
        ("witness", "witness"),
    ]
    .into_iter()
    .find(|(words, _)| alarm.contains(words))
    .map(|(_, sign)| sign)
}
