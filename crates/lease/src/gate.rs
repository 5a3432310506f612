//! The clock gate: no new lease by a clock that is not known to be right.
//!
//! Where a store has a clock of its own, as a lease service and a database have, that is the
//! reference of all its holders, and one machine alone has nobody to disagree with. Machines that
//! lease from etcd directly have only their own clocks: the order of their ids among each other is
//! as good as these are, and a machine that is days ahead pushes the windows of its generator ids
//! days ahead. Ids are unique all the same.
//!
//! Leases that are held go on: refusing to renew them would turn a clock that lost its daemon into
//! an outage.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use snowlease_core::Tick;

use crate::id_clock::distrust;
use crate::os::{self, KernelTime};
use crate::store::{
    Acquire, AcquireError, Administer, Grant, LeaseEntry, LeaseStore, Mode, Outage, Release,
    ReleaseError, Renew, RenewError, Renewal, StoreStatus,
};
use crate::{PlanHash, Verified};

/// What to do about a wall clock that is not known to be right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockGate {
    /// Lease nothing anew by it; see [`Gated`].
    #[default]
    Enforce,
    /// Say so and go on. For who has a fleet whose clocks nobody synchronises, and needs no order
    /// of ids among its machines.
    Warn,
}

impl FromStr for ClockGate {
    type Err = String;

    fn from_str(text: &str) -> Result<ClockGate, String> {
        match text {
            "enforce" => Ok(ClockGate::Enforce),
            "warn" => Ok(ClockGate::Warn),
            _ => Err("a clock gate is `enforce` or `warn`".to_owned()),
        }
    }
}

impl fmt::Display for ClockGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClockGate::Enforce => "enforce",
            ClockGate::Warn => "warn",
        })
    }
}

/// A store that grants no new leases while the kernel does not call the wall clock right. All else
/// goes through.
///
/// Cost: a call to the kernel for each acquire, about 1 µs.
pub struct Gated<S: ?Sized> {
    store: Arc<S>,
    max_error: Duration,
    kernel: Box<dyn Fn() -> Option<KernelTime> + Send + Sync>,
}

impl<S: LeaseStore + ?Sized> Gated<S> {
    /// `store` behind the word of this host's kernel.
    pub fn new(store: Arc<S>, max_error: Duration) -> Gated<S> {
        Gated::by(store, max_error, os::kernel_time)
    }

    /// `store` behind the word of another kernel, which is asked at each acquire.
    pub fn by(
        store: Arc<S>,
        max_error: Duration,
        kernel: impl Fn() -> Option<KernelTime> + Send + Sync + 'static,
    ) -> Gated<S> {
        Gated { store, max_error, kernel: Box::new(kernel) }
    }

    fn pass(&self) -> Result<(), AcquireError> {
        match distrust((self.kernel)(), self.max_error) {
            Some(why) => Err(AcquireError::ClockUntrusted {
                reason: format!("{why}; or set the clock gate to `warn`"),
            }),
            None => Ok(()),
        }
    }
}

impl<S: LeaseStore + ?Sized> LeaseStore for Gated<S> {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.store.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        self.pass()?;
        self.store.acquire(ask)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.store.renew(ask)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.store.release(ask)
    }

    fn acquire_each(&self, asks: &[Acquire]) -> Vec<Result<Grant, AcquireError>> {
        match self.pass() {
            Ok(()) => self.store.acquire_each(asks),
            Err(error) => asks.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn renew_each(&self, asks: &[Renew]) -> Vec<Result<Renewal, RenewError>> {
        self.store.renew_each(asks)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.store.list()
    }
}

impl<S: Administer + ?Sized> Administer for Gated<S> {
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage> {
        self.store.drain(generator_id, draining)
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Outage> {
        self.store.set_mode(mode)
    }

    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage> {
        self.store.quarantine(at_least)
    }

    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage> {
        self.store.adopt_plan(plan)
    }

    fn verify(&self) -> Result<Verified, Outage> {
        self.store.verify()
    }
}

impl<S: fmt::Debug + ?Sized> fmt::Debug for Gated<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gated")
            .field("store", &self.store)
            .field("max_error", &self.max_error)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use snowlease_core::Format;

    use super::*;
    use crate::id_clock::Time;
    use crate::id_clock::Unbounded;
    use crate::testing::{MemoryStore, ScriptedTime};
    use crate::{ClockTerms, Holder, Meta, Realm, RequestKey, Token};

    const MAX_ERROR: Duration = ClockTerms::DEFAULT.max_error;

    fn synchronised(max_error_us: i64) -> Option<KernelTime> {
        Some(KernelTime { max_error_us, synchronised: true })
    }

    fn ask() -> Acquire {
        let format = Format::DEFAULT;
        Acquire {
            request_key: RequestKey::random(),
            from: Tick(1_000),
            until: Tick(2_000),
            format,
            realm: Realm::default(),
            holder: Holder::nobody(),
            patience: Duration::ZERO,
            now_ms: format.unix_ms(Tick(1_000)),
        }
    }

    fn gated(time: &ScriptedTime) -> Gated<dyn Administer> {
        let store = MemoryStore::of(Meta::new(Format::DEFAULT, (0, 9))).unwrap();
        let time = time.clone();
        Gated::by(Arc::new(store), MAX_ERROR, move || time.kernel())
    }

    #[test]
    fn a_clock_is_trusted_while_it_is_synchronised_and_its_error_small() {
        assert_eq!(distrust(synchronised(2_999_999), MAX_ERROR), None);
        let error = Unbounded::Error(Duration::from_secs(3));
        assert_eq!(distrust(synchronised(3_000_000), MAX_ERROR), Some(error));
        assert_eq!(distrust(None, MAX_ERROR), Some(Unbounded::Untold));
        let kernel = Some(KernelTime { max_error_us: 0, synchronised: false });
        assert_eq!(distrust(kernel, MAX_ERROR), Some(Unbounded::Unsynchronised));
    }

    #[test]
    fn nothing_is_leased_anew_by_a_clock_that_nothing_synchronises_and_the_error_says_what_to_do() {
        let time = ScriptedTime::at_ms(0);
        let store = gated(&time);
        let errors = [store.acquire(&ask()), store.acquire_each(&[ask()]).remove(0)];
        for error in errors.map(Result::unwrap_err) {
            assert!(matches!(error, AcquireError::ClockUntrusted { .. }), "{error:?}");
            let words = error.to_string();
            assert!(words.contains("run chrony") && words.contains("`warn`"), "{words}");
        }
        assert_eq!(store.list().unwrap(), [], "the store was asked");
        time.set_kernel(synchronised(1_000));
        assert!(store.acquire(&ask()).is_ok());
        assert!(store.acquire_each(&[ask(), ask()]).iter().all(Result::is_ok));
    }

    #[test]
    fn a_lease_that_is_held_outlives_the_daemon_and_can_be_given_back() {
        let time = ScriptedTime::at_ms(0);
        time.set_kernel(synchronised(1_000));
        let store = gated(&time);
        let first = ask();
        let grant = store.acquire(&first).unwrap();
        time.set_kernel(synchronised(16_000_000));
        let token = first.request_key.token();
        let next = Token::random();
        let renew = Renew {
            generator_id: grant.generator_id,
            token: token.clone(),
            seq: grant.seq,
            next: next.hash(),
            until: Tick(3_000),
            now_ms: first.now_ms,
        };
        let renewal = store.renew_each(&[renew]).remove(0).unwrap();
        assert_eq!(renewal.until, Tick(3_000));
        let release = Release {
            generator_id: grant.generator_id,
            token: next,
            next: None,
            seq: renewal.seq,
            unused_from: Tick(1_500),
        };
        assert_eq!(store.release(&release), Ok(()));
        assert!(store.acquire(&ask()).is_err());
        store.drain(3, true).unwrap();
        store.set_mode(Mode::Frozen).unwrap();
        assert!(store.quarantine(Tick(9_000)).unwrap() >= Tick(9_000));
        assert_eq!(store.status().unwrap().meta.mode, Mode::Frozen);
    }

    #[test]
    fn what_it_is_set_to_reads_back() {
        for gate in [ClockGate::Enforce, ClockGate::Warn] {
            assert_eq!(gate.to_string().parse(), Ok(gate));
        }
        assert!("off".parse::<ClockGate>().is_err());
    }
}
