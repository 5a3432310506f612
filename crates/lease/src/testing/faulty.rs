//! A store behind a bad network: calls are refused, delayed, lost, or delivered long after.
//!
//! It wraps any store. What happens to each call is written in a script or drawn from a seed, so a
//! run that fails can be run again. Nothing here waits; a test that wants delays passes a function.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Random;
use crate::{
    Acquire, AcquireError, Grant, LeaseEntry, LeaseStore, Outage, Release, ReleaseError, Renew,
    RenewError, Renewal, StoreStatus,
};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is delivered and answered.
    None,
    /// It is not delivered; the caller learns that nothing was changed.
    Refuse,
    /// It is delivered, and its answer is lost: the caller knows nothing.
    LoseAnswer,
    /// It is under way for long: the caller knows nothing, and it is delivered late.
    Postpone,
    /// It is delivered and answered, and delivered once more late.
    Repeat,
}

/// How often each fault happens, in percent of the calls.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Of [`Fault::Refuse`].
    pub refuse: u8,
    /// Of [`Fault::LoseAnswer`].
    pub lose_answer: u8,
    /// Of [`Fault::Postpone`].
    pub postpone: u8,
    /// Of [`Fault::Repeat`].
    pub repeat: u8,
    /// How often one late call is delivered before another call.
    pub deliver: u8,
    /// Whether an acquire may be delivered late too. If its lease is over by then, it costs an
    /// idle generator id for one window, which a test that counts them has to expect.
    pub late_acquires: bool,
}

impl Rates {
    /// Every third call meets a fault, acquires are never late: for tests that count generator ids.
    pub const MILD: Rates = Rates {
        refuse: 10,
        lose_answer: 10,
        postpone: 5,
        repeat: 10,
        deliver: 30,
        late_acquires: false,
    };

    /// Every second call meets a fault.
    pub const WILD: Rates = Rates {
        refuse: 10,
        lose_answer: 15,
        postpone: 15,
        repeat: 15,
        deliver: 25,
        late_acquires: true,
    };
}

/// Wraps a store and gets in the way of calls to it.
pub struct FaultyStore {
    inner: Arc<dyn LeaseStore>,
    state: Mutex<State>,
    delay: Box<dyn Fn(u64) + Send + Sync>,
}

struct State {
    calls: u64,
    script: VecDeque<Fault>,
    seeded: Option<(Random, Rates)>,
    down: bool,
    late: Vec<Late>,
}

enum Late {
    Acquire(Acquire),
    Renew(Renew),
    Release(Release),
}

impl FaultyStore {
    /// The n-th call meets the n-th fault of the script, and the calls after its end meet none.
    pub fn scripted(
        inner: Arc<dyn LeaseStore>,
        script: impl IntoIterator<Item = Fault>,
    ) -> FaultyStore {
        FaultyStore::new(inner, script.into_iter().collect(), None)
    }

    /// Call number `call`, counted from 1, meets `fault`; all others meet none.
    pub fn failing_once(inner: Arc<dyn LeaseStore>, call: usize, fault: Fault) -> FaultyStore {
        let before = std::iter::repeat_n(Fault::None, call.saturating_sub(1));
        FaultyStore::scripted(inner, before.chain([fault]))
    }

    /// Faults are drawn at these rates from a generator with this seed.
    pub fn seeded(inner: Arc<dyn LeaseStore>, seed: u64, rates: Rates) -> FaultyStore {
        FaultyStore::new(inner, VecDeque::new(), Some((Random::new(seed), rates)))
    }

    fn new(
        inner: Arc<dyn LeaseStore>,
        script: VecDeque<Fault>,
        seeded: Option<(Random, Rates)>,
    ) -> FaultyStore {
        let state = State { calls: 0, script, seeded, down: false, late: Vec::new() };
        FaultyStore { inner, state: Mutex::new(state), delay: Box::new(|_| {}) }
    }

    /// Calls `delay` with the number of each call, from 1, before the call is delivered. It may
    /// move a scripted clock, or wait at a barrier.
    #[must_use]
    pub fn with_delay(mut self, delay: impl Fn(u64) + Send + Sync + 'static) -> FaultyStore {
        self.delay = Box::new(delay);
        self
    }

    /// While it is down, every call is refused.
    pub fn set_down(&self, down: bool) {
        self.lock().down = down;
    }

    /// Draws no more faults and forgets the script; what is late stays to be delivered.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.script.clear();
        state.seeded = None;
        state.down = false;
    }

    /// How many calls there have been, those of [`status`](LeaseStore::status) included.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// How many calls wait to be delivered late.
    pub fn late(&self) -> usize {
        self.lock().late.len()
    }

    /// Delivers the late call at this place in the order they were made, if there is one. Nobody
    /// hears the answer.
    pub fn deliver_late(&self, place: usize) -> bool {
        let late = {
            let mut state = self.lock();
            if place >= state.late.len() {
                return false;
            }
            state.late.remove(place)
        };
        self.deliver(&late);
        true
    }

    /// Delivers all late calls in the order they were made.
    pub fn deliver_all_late(&self) {
        while self.deliver_late(0) {}
    }

    fn deliver(&self, late: &Late) {
        match late {
            Late::Acquire(ask) => drop(self.inner.acquire(ask)),
            Late::Renew(ask) => drop(self.inner.renew(ask)),
            Late::Release(ask) => drop(self.inner.release(ask)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next call meets. Something late may arrive just before it.
    fn meet(&self) -> Fault {
        let mut state = self.lock();
        state.calls += 1;
        let (call, late) = (state.calls, state.draw_late());
        let fault = state.draw();
        drop(state);
        if let Some(late) = late {
            self.deliver(&late);
        }
        (self.delay)(call);
        fault
    }

    fn call<A: Clone, T, E: From<Outage>>(
        &self,
        ask: &A,
        late: fn(A) -> Late,
        deliver: impl Fn(&A) -> Result<T, E>,
    ) -> Result<T, E> {
        let keep = || self.lock().keep(late(ask.clone()));
        match self.meet() {
            Fault::None => deliver(ask),
            Fault::Refuse => Err(refused().into()),
            Fault::LoseAnswer => {
                drop(deliver(ask));
                Err(lost().into())
            }
            Fault::Postpone => {
                keep();
                Err(lost().into())
            }
            Fault::Repeat => {
                let answer = deliver(ask);
                keep();
                answer
            }
        }
    }

    fn read<T>(&self, deliver: impl Fn() -> Result<T, Outage>) -> Result<T, Outage> {
        match self.meet() {
            Fault::None | Fault::Repeat => deliver(),
            Fault::Refuse | Fault::LoseAnswer | Fault::Postpone => Err(refused()),
        }
    }
}

impl State {
    fn draw(&mut self) -> Fault {
        if self.down {
            return Fault::Refuse;
        }
        if let Some(fault) = self.script.pop_front() {
            return fault;
        }
        let Some((random, rates)) = &mut self.seeded else { return Fault::None };
        let mut drawn = random.below(100);
        let faults = [
            (rates.refuse, Fault::Refuse),
            (rates.lose_answer, Fault::LoseAnswer),
            (rates.postpone, Fault::Postpone),
            (rates.repeat, Fault::Repeat),
        ];
        for (rate, fault) in faults {
            if drawn < u64::from(rate) {
                return fault;
            }
            drawn -= u64::from(rate);
        }
        Fault::None
    }

    fn draw_late(&mut self) -> Option<Late> {
        let (random, rates) = self.seeded.as_mut()?;
        if self.down || self.late.is_empty() || !random.chance(rates.deliver) {
            return None;
        }
        let end = u64::try_from(self.late.len()).unwrap_or(u64::MAX);
        let place = usize::try_from(random.below(end)).unwrap_or(0);
        Some(self.late.swap_remove(place))
    }

    fn keep(&mut self, late: Late) {
        let allowed = self.seeded.as_ref().is_none_or(|(_, rates)| rates.late_acquires);
        if allowed || !matches!(late, Late::Acquire(_)) {
            self.late.push(late);
        }
    }
}

fn refused() -> Outage {
    Outage::unavailable("injected: the call was refused; try again")
}

fn lost() -> Outage {
    Outage::unknown("injected: the answer was lost; ask again with the same secrets")
}

impl LeaseStore for FaultyStore {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.read(|| self.inner.status())
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        self.call(ask, Late::Acquire, |ask| self.inner.acquire(ask))
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.call(ask, Late::Renew, |ask| self.inner.renew(ask))
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.call(ask, Late::Release, |ask| self.inner.release(ask))
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.read(|| self.inner.list())
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("FaultyStore")
            .field("inner", &self.inner)
            .field("calls", &state.calls)
            .field("down", &state.down)
            .field("late", &state.late.len())
            .finish_non_exhaustive()
    }
}
