//! The store trait on etcd.

use std::fmt;

use snowlease_core::Tick;
use snowlease_lease::{
    Acquire, AcquireError, Administer, Grant, LeaseEntry, LeaseStore, Mode, Outage, PlanHash,
    Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus, Verified, rules,
};

use crate::core::Core;
use crate::net::Deadline;
use crate::record::Record;

/// A lease store in etcd. Make one with [`EtcdStore::open`](crate::EtcdStore::open).
///
/// # Promise
///
/// What was answered is on the disks of a majority of the cluster. Any number of these, in any
/// number of processes, may share one store. Each call ends within the time of one attempt, but for
/// those of an operator that read all cells: there, each page of them does.
///
/// It may be called and dropped from any thread, also inside an asynchronous runtime.
pub struct EtcdStore {
    core: Core,
}

impl EtcdStore {
    pub(crate) fn new(core: Core) -> EtcdStore {
        EtcdStore { core }
    }
}

/// Which store it is; nothing of what is in it.
impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.core.keys.prefix();
        f.debug_struct("EtcdStore").field("prefix", &prefix).finish_non_exhaustive()
    }
}

impl LeaseStore for EtcdStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        let core = &self.core;
        let deadline = core.deadline();
        let meta = core.read_meta(deadline)?.record.meta.clone();
        let status = core.status_of_member(deadline)?;
        let pulse = core.read_pulse(core.lead(status.as_ref()), deadline)?;
        let mut alarms = core.alarms();
        alarms.extend(core.alarms_of_etcd(deadline)?);
        let open_ms = meta.format.unix_ms(meta.floor);
        let left_ms = open_ms.saturating_sub((core.now)());
        if meta.floor > Tick(0) && left_ms > 0 {
            alarms
                .push(format!("in quarantine: leases are granted again in {} s", left_ms / 1_000));
        }
        Ok(StoreStatus { kind: "etcd".to_owned(), meta, pulse_ms: Some(pulse.ms), alarms })
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        one(self.acquire_each(std::slice::from_ref(ask)))
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        one(self.renew_each(std::slice::from_ref(ask)))
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.core.release(ask, self.core.deadline())
    }

    fn acquire_each(&self, asks: &[Acquire]) -> Vec<Result<Grant, AcquireError>> {
        let patience = asks.iter().map(|ask| ask.patience).max().unwrap_or_default();
        self.core.acquire_each(asks, Deadline::within(self.core.attempt.max(patience)))
    }

    fn renew_each(&self, asks: &[Renew]) -> Vec<Result<Renewal, RenewError>> {
        self.core.renew_each(asks, self.core.deadline())
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        let mut entries = Vec::new();
        self.core.each_cell(
            0,
            || self.core.deadline(),
            |id, view| {
                // One that was never changed was never granted.
                if view.version > 1 {
                    entries.push(rules::entry(id, view.cell()?));
                }
                Ok(())
            },
        )?;
        Ok(entries)
    }
}

impl Administer for EtcdStore {
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage> {
        self.core.drain(generator_id, draining, self.core.deadline())
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Outage> {
        self.core.change_meta(self.core.deadline(), |record| {
            let mut record = record.clone();
            let changes = record.meta.mode != mode;
            record.meta.mode = mode;
            changes.then_some(record)
        })
    }

    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage> {
        let floor = self.core.raise_floor(|_| Ok(at_least), || self.core.deadline())?;
        Ok(floor)
    }

    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage> {
        self.core.change_meta(self.core.deadline(), |record| {
            let meta = rules::adopt_plan(&record.meta, plan);
            (meta != record.meta).then(|| Record { meta, ..record.clone() })
        })
    }

    fn verify(&self) -> Result<Verified, Outage> {
        self.core.verify()
    }
}

/// The answer to the only ask there was.
fn one<T, E: From<Outage>>(answers: Vec<Result<T, E>>) -> Result<T, E> {
    let none = || Err(Outage::unknown("there was no answer: try again").into());
    answers.into_iter().next().unwrap_or_else(none)
}
