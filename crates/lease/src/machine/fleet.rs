//! A small fleet by plain calls: real machines, real generators and the store in memory, behind a
//! network that loses, delays and repeats, under clocks that step and pause. Every id goes into one
//! set.
//!
//! Ticks are long and hold four ids, and the clocks run nearly together: two holders of one
//! generator id would issue the same ids at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use snowlease_core::clock::ScriptedClock;
use snowlease_core::{Clock, Generator, Id};

use super::*;
use crate::LeaseStore;
use crate::testing::{FaultyStore, MemoryStore, Random, Rates};

const START_MS: i64 = Format::DEFAULT.epoch_ms() + 1_000_000;

fn format() -> Format {
    Format::new("t59g2s2".parse().unwrap(), 50, Format::DEFAULT.epoch_ms()).unwrap()
}

/// One host: a holder with its own clock.
struct Host {
    clock: Arc<ScriptedClock>,
    generator: Generator,
    machine: Machine,
    issued: Vec<Id>,
    /// For so many steps the process does not run; its clock does.
    paused: u32,
}

impl Host {
    fn new(unix_ms: i64) -> Host {
        let clock = ScriptedClock::at_ms(unix_ms);
        let generator = Generator::new(format(), clock.clone()).with_max_wait(Duration::ZERO);
        let terms = Terms::new(Duration::from_secs(3), Duration::from_secs(1)).unwrap();
        let holder = Holder::new("host", "", "", "").unwrap();
        let machine = Machine::new(terms, format(), holder);
        Host { clock, generator, machine, issued: Vec::new(), paused: 0 }
    }

    /// Runs the machine until it waits; answers may come after the clock has moved on.
    fn run(&mut self, store: &FaultyStore, event: Event, random: &mut Random) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for command in self.machine.step(&self.clock.now(), event) {
                let answer = match command {
                    Command::Acquire(ask) => Some(Event::Acquired(store.acquire(&ask))),
                    Command::Renew(ask) => Some(Event::Renewed(store.renew(&ask))),
                    Command::Release(ask) => Some(Event::Released(store.release(&ask))),
                    Command::Open { window, deadline_ns, .. } => {
                        self.generator.open(window, deadline_ns).unwrap().map(Event::Closed)
                    }
                    Command::Extend { until, deadline_ns } => {
                        self.generator.extend(until, deadline_ns);
                        None
                    }
                    Command::Follow { .. } => unreachable!("no clock event was given"),
                    Command::Close => self.generator.close().map(Event::Closed),
                };
                if matches!(answer, Some(Event::Acquired(_) | Event::Renewed(_)))
                    && random.chance(10)
                {
                    self.clock.advance_ms(random.below(100));
                }
                events.extend(answer);
            }
            // Callers go on all the time, in whatever state the lease is.
            self.issue(random.below(3));
        }
    }

    fn issue(&mut self, calls: u64) {
        for _ in 0..calls {
            self.issued.extend(self.generator.next_id());
        }
    }
}

/// How many ids were issued, and in how many lives of hosts.
fn run_fleet(seed: u64, steps: u32, rates: Rates) -> (usize, u64) {
    let mut random = Random::new(seed);
    let memory = Arc::new(MemoryStore::new(format(), (0, 2)).unwrap());
    let store = FaultyStore::seeded(memory, seed, rates);
    let mut now_ms = START_MS;
    let mut hosts: Vec<Host> = (0..4).map(|_| Host::new(now_ms)).collect();
    for (host, n) in hosts.iter_mut().zip(0..) {
        host.run(&store, Event::Start { seed: seed ^ n }, &mut random);
    }
    let (mut seen, mut lives) = (HashSet::new(), 0);
    for _ in 0..steps {
        let passed_ms = random.below(120);
        now_ms += i64::try_from(passed_ms).unwrap();
        for host in &mut hosts {
            host.clock.advance_ms(passed_ms);
            host.paused = host.paused.saturating_sub(1);
        }
        let host = &mut hosts[usize::try_from(random.below(4)).unwrap()];
        if host.paused > 0 {
            continue;
        }
        match random.below(100) {
            // Longer than a window, as a rule; it goes on where it was.
            0..3 => host.paused = u32::try_from(random.below(120)).unwrap(),
            3..6 => {
                let step_ms = i64::try_from(random.below(400)).unwrap() - 200;
                host.clock.step_id_clock_ms(step_ms);
            }
            6..10 => {
                host.run(&store, Event::Stop, &mut random);
                lives += end(host, seed, &mut seen);
                *host = Host::new(now_ms);
                let seed = random.draw();
                host.run(&store, Event::Start { seed }, &mut random);
            }
            // A crash: nothing is released, and nothing is remembered.
            10..12 => {
                lives += end(host, seed, &mut seen);
                *host = Host::new(now_ms);
                let seed = random.draw();
                host.run(&store, Event::Start { seed }, &mut random);
            }
            // Callers that were paused may be the first to run.
            12..60 => host.issue(random.below(6)),
            _ => {}
        }
        host.run(&store, Event::Wake, &mut random);
        host.issue(random.below(6));
    }
    for host in &mut hosts {
        lives += end(host, seed, &mut seen);
    }
    (seen.len(), lives)
}

/// Takes account of what a process issued in its life.
fn end(host: &mut Host, seed: u64, seen: &mut HashSet<Id>) -> u64 {
    let issued = std::mem::take(&mut host.issued);
    let lived = u64::from(!issued.is_empty());
    for id in issued {
        assert!(seen.insert(id), "{id:?} was issued twice, seed {seed}");
    }
    lived
}

#[test]
fn no_id_is_issued_twice_whatever_happens_to_hosts_and_messages() {
    let (mut ids, mut lives) = (0, 0);
    for seed in 0..200 {
        let rates = if seed % 3 == 0 { Rates::MILD } else { Rates::WILD };
        let (issued, lived) = run_fleet(seed, 1_000, rates);
        ids += issued;
        lives += lived;
    }
    // A run in which nobody gets a lease proves nothing.
    assert!(ids > 100_000 && lives > 5_000, "{ids} ids in {lives} lives");
}
