//! A store in a file that is replaced by an older copy of itself, under the service that grants
//! from it to programs with the library.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::fleet::Fleet;
use crate::format::now;
use crate::gate::{Gate, free_port};
use crate::holder::{WINDOW, agent, operator};
use crate::report::Row;
use crate::rollback::{AFTER_BACKUP, Holders};
use crate::time::pause;

/// How the older copy gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Over the file, and the witness stays: it shows what is missing.
    WitnessKept,
    /// As another file, with the witness of that time: it is refused as a copy.
    WitnessToo,
    /// Over the file and over the witness, as if the volume had been put back: nothing can tell,
    /// and the operator has to.
    Volume,
}

struct Files {
    folder: PathBuf,
    copy: PathBuf,
}

const DATABASE: &str = "snowlease.db";
const WITNESS: &str = "snowlease.db-witness";

impl Files {
    fn url(&self) -> String {
        format!("sqlite:{}", self.folder.join(DATABASE).display())
    }

    /// Of a service that is stopped: there is no log beside the file.
    fn back_up(&self, fleet: &Fleet<'_>) -> Result<()> {
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&self.folder).arg(&self.copy);
        fleet.folder.run(&mut copy).map(drop)
    }

    fn put_back(&self, fleet: &Fleet<'_>, kind: Kind) -> Result<()> {
        let run = |program: &str, arguments: &[PathBuf]| {
            fleet.folder.run(Command::new(program).args(arguments)).map(drop)
        };
        let log = self.folder.join("snowlease.db-wal");
        if log.exists() {
            run("rm", &[log])?;
        }
        let names: &[&str] =
            if kind == Kind::WitnessKept { &[DATABASE] } else { &[DATABASE, WITNESS] };
        for name in names {
            let (from, to) = (self.copy.join(name), self.folder.join(name));
            if kind == Kind::WitnessToo {
                // The old one is kept, so that its number is not given to the new one.
                run("mv", &[to.clone(), self.folder.join(format!("old-{name}"))])?;
            }
            run("cp", &[from, to])?;
        }
        Ok(())
    }
}

pub(crate) fn run(fleet: &mut Fleet<'_>, kind: Kind, holders: Holders, told: bool) -> Result<Row> {
    let folder = fleet.folder.file("store");
    std::fs::create_dir_all(&folder)?;
    let files = Files { folder, copy: fleet.folder.file("backup") };
    let (url, port) = (files.url(), free_port()?);
    let server = format!("http://127.0.0.1:{port}");
    fleet.init(&url)?;
    fleet.say("holders start");
    fleet.serve_on("service-1", &url, Some(port))?;
    fleet.library("known", &server)?;
    fleet.all_issue()?;
    pause(Duration::from_secs(2));
    fleet.say("backup");
    fleet.stop("service-1")?;
    files.back_up(fleet)?;
    fleet.serve_on("service-2", &url, Some(port))?;
    fleet.library("forgotten", &server)?;
    let gate = Gate::to(port)?;
    if holders != Holders::None {
        fleet.library("cut-off", &format!("http://127.0.0.1:{}", gate.port()))?;
    }
    fleet.all_issue()?;
    pause(AFTER_BACKUP);
    fleet.say("the file is put back");
    let begun = now();
    match holders {
        Holders::Warm => fleet.kill("service-2"),
        Holders::Cold | Holders::Told => {
            fleet.kill("service-2");
            fleet.kill_all_but("cut-off");
        }
        Holders::None => {
            fleet.stop("known")?;
            fleet.stop("forgotten")?;
            fleet.stop("service-2")?;
        }
    }
    gate.cut();
    files.put_back(fleet, kind)?;
    fleet.was_put_back(begun);
    if kind != Kind::WitnessKept && told {
        tell(fleet, kind, &url)?;
    }
    fleet.start_new_on("service-3", &url, Some(port))?;
    fleet.new_library("starter", &server)?;
    let silent = kind != Kind::WitnessKept && !told;
    let floor = fleet.watch_for_quarantine(silent, || floor_of(&server))?;
    fleet.status_says(&["--server", &server])?;
    pause(WINDOW);
    gate.open(port);
    fleet.say(&format!("in quarantine for {} s more", floor.saturating_sub(now()) / 1_000));
    fleet.is_back(&[], || floor_of(&server))?;
    fleet.new_library("starter-after", &server)?;
    let last = fleet.is_back(&[], || floor_of(&server))?;
    for library in ["known", "forgotten", "cut-off", "starter", "starter-after"] {
        fleet.stop(library)?;
    }
    fleet.stop_all()?;
    fleet.verify(&["--store", &url])?;
    Ok(fleet.judge(last))
}

/// What the runbook says: the store is told while no service uses it.
fn tell(fleet: &mut Fleet<'_>, kind: Kind, url: &str) -> Result<()> {
    if kind == Kind::WitnessToo {
        let status = &mut operator(fleet.tools, &["store", "status"], &["--store", url]);
        let (opened, _, said) = fleet.folder.try_run(status)?;
        if opened || !said.contains("is a copy") {
            bail!("a copy is not refused: {said}");
        }
    }
    fleet.tell(url)
}

/// Only the service can look into its file.
fn floor_of(server: &str) -> Result<u64> {
    let mut answer = agent().get(format!("{server}/store")).call()?;
    let doc: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
    doc["floor"].as_u64().context("no floor")
}
