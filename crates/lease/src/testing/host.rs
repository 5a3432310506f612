//! A holder by plain calls, on a host whose clocks are scripted: the machine, the generator and the
//! id clock that run for real, and the hands that the keeper has. Whoever calls is its threads.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use snowlease_core::{Clock, Format, Generator, Id, Refusal};

use crate::id_clock::{ClockStatus, Time};
use crate::keeper::hands::Hands;
use crate::machine::{Event, Machine, State};
use crate::testing::ScriptedTime;
use crate::{ClockTerms, Holder, IdClock, LeaseStore, Terms};

/// Which guard the generator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Each call checks the time.
    Precise,
    /// A thread publishes the ticks: here, [`Host::tick`].
    Ticking,
}

/// A process that holds leases, or wants to.
#[derive(Debug)]
pub struct Host {
    time: ScriptedTime,
    machine: Machine,
    hands: Hands,
}

impl Host {
    /// A process that is started on a host with these clocks, and has asked for a lease.
    ///
    /// # Panics
    ///
    /// Never: the label is one.
    pub fn start(
        store: Arc<dyn LeaseStore>,
        time: &ScriptedTime,
        format: Format,
        terms: Terms,
        guard: Guard,
    ) -> Host {
        let clock = IdClock::with_time(Box::new(time.clone()), ClockTerms::DEFAULT);
        let generator =
            Generator::new(format, Arc::clone(&clock) as Arc<_>).with_max_wait(Duration::ZERO);
        let generator = match guard {
            Guard::Precise => generator,
            Guard::Ticking => generator.with_ticker(Waker::noop().clone()),
        };
        let machine = Machine::new(terms, format, Holder::nobody());
        let hands = Hands::new(store, Arc::new(generator), clock);
        let mut host = Host { time: time.clone(), machine, hands };
        host.tell(Event::Start { seed: 7 });
        host.settle();
        host
    }

    /// Tells the machine something, and does what it says; that it was restored comes first, as in
    /// the keeper.
    pub fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        events.extend(self.hands.restored());
        while let Some(event) = events.pop() {
            for command in self.machine.step(&self.hands.clock.now(), event) {
                events.extend(self.hands.execute(command));
            }
        }
    }

    /// The keeper's thread: does all that is due now.
    ///
    /// # Panics
    ///
    /// If that does not end: a loop without a pause.
    #[expect(clippy::panic, reason = "a test stops at a loop without a pause")]
    pub fn settle(&mut self) {
        for _ in 0..100 {
            let event = match self.hands.look() {
                Some(event) => event,
                None if self.machine.wake_ns().is_some_and(|ns| ns <= self.time.boot_ns()) => {
                    Event::Wake
                }
                None => return,
            };
            self.tell(event);
        }
        panic!("a loop without a pause: {:?}", self.machine);
    }

    /// The housekeeper, who looks at the clocks, and the keeper, who is woken if there is news.
    pub fn look(&mut self) {
        self.hands.clock.look();
        self.settle();
    }

    /// The ticker.
    pub fn tick(&self) {
        let _ = self.hands.generator.tick();
    }

    /// Time passes as it should, and everybody does what they do meanwhile.
    pub fn pass_ms(&mut self, ms: u64) {
        let mut left_ms = ms;
        while left_ms > 0 {
            let step_ms = left_ms.min(250);
            self.time.pass_ms(step_ms);
            left_ms -= step_ms;
            self.look();
        }
    }

    /// The generator.
    pub fn generator(&self) -> &Generator {
        &self.hands.generator
    }

    /// An id, as a caller asks for it.
    ///
    /// # Errors
    ///
    /// The generator's.
    pub fn next_id(&self) -> Result<Id, Refusal> {
        self.hands.generator.next_id()
    }

    /// How the clocks stand.
    pub fn clock(&self) -> ClockStatus {
        self.hands.clock.status()
    }

    /// What the id clock shows, in Unix ms.
    pub fn id_ms(&self) -> i64 {
        self.hands.clock.now().unix_ms
    }

    /// Where the holder stands.
    pub fn state(&self) -> State {
        self.machine.state()
    }

    /// The clocks of its host.
    pub fn time(&self) -> &ScriptedTime {
        &self.time
    }

    /// Another copy of the same machine: its clocks, its secrets, its lease. Only its generator is
    /// made anew, and opened for the same window.
    ///
    /// # Panics
    ///
    /// Never: the window is the one that is open.
    pub fn copy(&self, store: Arc<dyn LeaseStore>, time: &ScriptedTime) -> Host {
        let clock = IdClock::with_time(Box::new(time.clone()), ClockTerms::DEFAULT);
        let format = self.hands.generator.format();
        let generator =
            Generator::new(format, Arc::clone(&clock) as Arc<_>).with_max_wait(Duration::ZERO);
        if let Some(window) = self.hands.generator.window() {
            let _ = generator.open(window, u64::MAX);
        }
        let hands = Hands::new(store, Arc::new(generator), clock);
        Host { time: time.clone(), machine: self.machine.clone(), hands }
    }
}
