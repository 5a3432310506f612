//! The suite on the store in memory; and that the suite finds a store that is wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use snowlease_core::{Format, Tick};

use super::suite::{self, Made, Setup};
use super::{Fault, FaultyStore, MemoryStore, Random, Windows};
use crate::{
    Acquire, AcquireError, Administer, Grant, Holder, LeaseEntry, LeaseStore, Mode, Outage,
    PlanHash, Realm, Release, ReleaseError, Renew, RenewError, Renewal, RequestKey, StoreStatus,
    Verified,
};

struct Memory;

impl Setup for Memory {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        Made::new(MemoryStore::new(format, range).unwrap())
    }
}

mod plain {
    crate::conformance!(super::Memory);
}

mod under_faults {
    use crate::testing::suite::UnderFaults;

    crate::conformance!(UnderFaults { setup: super::Memory, seed: 7 });
}

/// A store with one mistake.
#[derive(Debug)]
struct Wrong {
    store: MemoryStore,
    mistake: Mistake,
    random: Mutex<Random>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    /// Takes an id one tick before it is free.
    Early,
    /// Tells a holder that more was stored than was.
    Optimist,
    /// Now and then an old copy is put back, and nobody is told.
    RolledBack,
    /// Whatever `seq` is shown, the token is enough, and an old ask is done again.
    TokenIsEnough,
    /// Asked again with the same key, it grants another id.
    Forgetful,
}

impl LeaseStore for Wrong {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.store.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        let before = self.store.snapshot();
        let mut ask = ask.clone();
        match self.mistake {
            Mistake::Early => {
                ask.from.0 += 1;
                let mut grant = self.store.acquire(&ask)?;
                grant.from.0 -= 1;
                Ok(grant)
            }
            Mistake::Forgetful => {
                ask.request_key = RequestKey::random();
                self.store.acquire(&ask)
            }
            Mistake::RolledBack if self.random.lock().unwrap().chance(10) => {
                let grant = self.store.acquire(&ask);
                self.store.restore(&before);
                grant
            }
            _ => self.store.acquire(&ask),
        }
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        let mut ask = ask.clone();
        if self.mistake == Mistake::TokenIsEnough {
            let entries = self.store.list()?;
            let cell = entries.iter().find(|entry| entry.generator_id == ask.generator_id);
            ask.seq = cell.map_or(ask.seq, |cell| cell.seq);
        }
        let mut renewal = self.store.renew(&ask)?;
        if self.mistake == Mistake::Optimist {
            renewal.until = ask.until;
        }
        Ok(renewal)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.store.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.store.list()
    }
}

impl Administer for Wrong {
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

impl Setup for Mistake {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        let store = MemoryStore::new(format, range).unwrap();
        let random = Mutex::new(Random::new(1));
        Made::new(Wrong { store, mistake: *self, random })
    }
}

fn fails(check: fn(&dyn Setup), mistake: Mistake) -> bool {
    catch_unwind(AssertUnwindSafe(|| check(&mistake))).is_err()
}

#[test]
fn random_histories_find_stores_that_duplicate() {
    for mistake in [Mistake::Early, Mistake::Optimist, Mistake::RolledBack] {
        let found = (0..300).find(|seed| suite::history(&mistake, *seed).is_err());
        assert!(found.is_some(), "{mistake:?} was not found");
    }
}

#[test]
fn named_checks_find_their_mistakes() {
    assert!(fails(suite::an_id_is_free_at_until_and_not_one_tick_before, Mistake::Early));
    assert!(fails(suite::a_renewal_ends_with_the_time_field, Mistake::Optimist));
    assert!(fails(suite::late_and_repeated_renewals_change_nothing, Mistake::TokenIsEnough));
    assert!(fails(suite::asking_again_with_the_same_key_gives_the_same_lease, Mistake::Forgetful));
}

fn ask(key: &RequestKey, from: u64) -> Acquire {
    Acquire {
        request_key: key.clone(),
        from: Tick(from),
        until: Tick(from + 60_000),
        format: Format::DEFAULT,
        realm: Realm::default(),
        holder: Holder::new("a", "", "", "").unwrap(),
        patience: std::time::Duration::ZERO,
        now_ms: Format::DEFAULT.unix_ms(Tick(from)),
    }
}

/// A store rolled back duplicates; a quarantine over every forgotten window keeps it from that, and
/// one tick less does not.
#[test]
fn a_quarantine_covers_what_a_rollback_forgot() {
    for (short, safe) in [(0, true), (1, false)] {
        let store = MemoryStore::new(Format::DEFAULT, (3, 3)).unwrap();
        let mut windows = Windows::default();
        let backup = store.snapshot();
        let forgotten = store.acquire(&ask(&RequestKey::random(), 1_000)).unwrap();
        windows.confirm(1, 3, forgotten.from, forgotten.until).unwrap();
        store.restore(&backup);
        let floor = store.quarantine(Tick(forgotten.until.0 - short)).unwrap();
        let early = store.acquire(&ask(&RequestKey::random(), floor.0 - 1));
        assert_eq!(early, Err(AcquireError::Quarantined { floor }));
        let next = store.acquire(&ask(&RequestKey::random(), floor.0)).unwrap();
        assert_eq!(windows.confirm(2, 3, next.from, next.until).is_ok(), safe);
    }
}

#[test]
fn a_script_of_faults_is_followed_to_the_letter() {
    let memory = Arc::new(MemoryStore::new(Format::DEFAULT, (0, 7)).unwrap());
    let script = [Fault::Refuse, Fault::LoseAnswer, Fault::None, Fault::Postpone, Fault::Repeat];
    let faulty = FaultyStore::scripted(memory.clone(), script);
    let held = || memory.list().unwrap().len();
    let key = RequestKey::random();
    let unknown = |answer: Result<Grant, AcquireError>| match answer {
        Err(AcquireError::Outage(outage)) => Some(outage.unknown),
        _ => None,
    };
    assert_eq!((unknown(faulty.acquire(&ask(&key, 10))), held()), (Some(false), 0));
    assert_eq!((unknown(faulty.acquire(&ask(&key, 10))), held()), (Some(true), 1));
    assert_eq!((unknown(faulty.acquire(&ask(&key, 10))), held()), (None, 1));
    let late = RequestKey::random();
    assert_eq!((unknown(faulty.acquire(&ask(&late, 10))), held()), (Some(true), 1));
    assert_eq!((unknown(faulty.acquire(&ask(&key, 10))), held()), (None, 1));
    assert_eq!((faulty.late(), faulty.calls()), (2, 5));
    assert!(faulty.deliver_late(0) && held() == 2);
    faulty.deliver_all_late();
    assert_eq!((faulty.late(), held()), (0, 2));
    faulty.set_down(true);
    assert_eq!(unknown(faulty.acquire(&ask(&key, 10))), Some(false));
    assert!(faulty.list().is_err());
    faulty.heal();
    assert!(faulty.list().is_ok());
}

#[test]
fn the_chosen_call_fails_after_its_delay() {
    let memory = Arc::new(MemoryStore::new(Format::DEFAULT, (0, 7)).unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let calls = Arc::clone(&seen);
    let faulty = FaultyStore::failing_once(memory, 2, Fault::Refuse)
        .with_delay(move |call| calls.lock().unwrap().push(call));
    let answers: Vec<_> = (0..3).map(|_| faulty.status().is_ok()).collect();
    assert_eq!(answers, [true, false, true]);
    assert_eq!(*seen.lock().unwrap(), [1, 2, 3]);
}
