//! The script of a rollback: a fleet that issues all the time, a backup, holders that the backup
//! does not know, and the backup put back under them.
//!
//! The holder that could do harm is the one that the backup has forgotten and that cannot reach the
//! store: it issues to the end of its window, and nobody but the quarantine keeps its generator id
//! from another one. Every scenario with holders has one such.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::fleet::Fleet;
use crate::format::now;
use crate::gate::Gate;
use crate::holder::{RENEW, WINDOW};
use crate::report::Row;
use crate::time::pause;

/// A store of a fleet that can be put back.
pub(crate) trait Store {
    /// Its URL, for whoever is not cut off.
    fn url(&self) -> String;
    /// Where it can be reached.
    fn port(&self) -> u16;
    /// Its URL through a gate that listens on this port.
    fn url_through(&self, port: u16) -> String;
    /// Keeps the state of now.
    fn back_up(&mut self) -> Result<()>;
    /// Stops it, and starts it in the state that was kept.
    fn put_back(&mut self) -> Result<()>;
    /// The floor, read by the store's own tools, so that looking at it helps nobody to notice.
    fn floor(&self) -> Result<u64>;
}

/// Who is running when the store is put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// They run on.
    Warm,
    /// They are killed in that moment, and others are started.
    Cold,
    /// Nobody; others are started afterwards.
    None,
    /// As cold, of a backup so young that its pulse is not silent yet: nobody can notice, and the
    /// operator tells the store, as the runbook says.
    Told,
}

impl Holders {
    pub(crate) const ALL: [Holders; 4] =
        [Holders::Warm, Holders::Cold, Holders::None, Holders::Told];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Holders::Warm => "warm",
            Holders::Cold => "cold",
            Holders::None => "none",
            Holders::Told => "told",
        }
    }
}

/// The pulse is older than two renewals by then: a younger backup cannot be told from the truth by
/// somebody who knows nothing of it.
pub(crate) const AFTER_BACKUP: Duration =
    RENEW.saturating_mul(2).saturating_add(Duration::from_secs(2));

pub(crate) fn run(
    fleet: &mut Fleet<'_>,
    store: &mut dyn Store,
    holders: Holders,
    told: bool,
) -> Result<Row> {
    fleet.init(&store.url())?;
    let (gate, far_gate) = (Gate::to(store.port())?, Gate::to(store.port())?);
    let url = store.url();
    fleet.say("holders start");
    for name in ["known-1", "known-2"] {
        fleet.serve(name, &url)?;
    }
    fleet.all_issue()?;
    pause(Duration::from_secs(2));
    fleet.say("backup");
    store.back_up()?;
    fleet.serve("forgotten", &url)?;
    if holders != Holders::None {
        fleet.serve("cut-off", &store.url_through(gate.port()))?;
    }
    if holders == Holders::Warm {
        fleet.serve("away", &store.url_through(far_gate.port()))?;
    }
    fleet.all_issue()?;
    pause(if holders == Holders::Told { Duration::from_secs(1) } else { AFTER_BACKUP });
    fleet.say("the store is put back");
    match holders {
        Holders::Warm => {}
        Holders::Cold | Holders::Told => fleet.kill_all_but("cut-off"),
        Holders::None => fleet.stop_all()?,
    }
    gate.cut();
    far_gate.cut();
    let begun = now();
    store.put_back()?;
    fleet.was_put_back(begun);
    if holders == Holders::Told && told {
        fleet.tell(&store.url())?;
    }
    for number in 1..=fleet.starters() {
        fleet.start_new(&format!("starter-{number}"), &store.url())?;
    }
    let silent = holders == Holders::Told && !told;
    let floor = fleet.watch_for_quarantine(silent, || store.floor())?;
    fleet.status_says(&["--store", &store.url()])?;
    if holders == Holders::None {
        pause(Duration::from_secs(15));
        fleet.start_new("starter-late", &store.url())?;
        let wrong = "a service that was started in the quarantine began it anew";
        fleet.is_left_alone(|| store.floor(), wrong)?;
    } else {
        // The window of who is cut off is over by then: it comes back to a store that has
        // forgotten it.
        pause(WINDOW);
    }
    gate.open(store.port());
    fleet.say(&format!("in quarantine for {} s more", floor.saturating_sub(now()) / 1_000));
    let floor = fleet.is_back(&["away"], || store.floor())?;
    if holders == Holders::Warm {
        far_gate.open(store.port());
        let wrong = "a holder that was away for all of it began the quarantine anew";
        fleet.is_left_alone(|| store.floor(), wrong)?;
    }
    fleet.start_new("starter-after", &store.url())?;
    fleet.is_back(&[], || store.floor())?;
    fleet.stop_all()?;
    fleet.verify(&["--store", &store.url()])?;
    let row = fleet.judge(floor);
    if row.ids == 0 {
        bail!("nothing was drawn");
    }
    Ok(row)
}
