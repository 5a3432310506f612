//! A small fleet by plain calls: real machines, real generators and the store in memory, behind a
//! network that loses, delays and repeats, under clocks that step and pause. Every id goes into one set.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use snowlease_core::clock::ScriptedClock;
use snowlease_core::{Clock, Generator, Id};

use super::*;
use crate::LeaseStore;
use crate::testing::{FaultyStore, MemoryStore, Random, Rates};

const EPOCH: i64 = Format::DEFAULT.epoch_ms();

/// One host: a holder with its own clock.
struct Host {
    clock: Arc<ScriptedClock>,
    generator: Generator,
    machine: Machine,
    issued: Vec<Id>,
}

impl Host {
    fn new(seed: u64, skew_ms: i64) -> Host {
        let clock = ScriptedClock::at_ms(EPOCH + 1_000_000 + skew_ms);
        let generator =
            Generator::new(Format::DEFAULT, clock.clone()).with_max_wait(Duration::ZERO);
        let terms = Terms::new(Duration::from_secs(3), Duration::from_secs(1)).unwrap();
        let holder = Holder::new("host", "", "", "").unwrap();
        let machine = Machine::new(terms, Format::DEFAULT, holder, seed);
        Host { clock, generator, machine, issued: Vec::new() }
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
                    Command::Open { window, deadline_ns } => {
                        self.generator.open(window, deadline_ns).unwrap().map(Event::Closed)
                    }
                    Command::Extend { until, deadline_ns } => {
                        self.generator.extend(until, deadline_ns);
                        None
                    }
                    Command::Close => self.generator.close().map(Event::Closed),
                };
                if matches!(answer, Some(Event::Acquired(_) | Event::Renewed(_)))
                    && random.chance(20)
                {
                    self.clock.advance_ms(random.below(3_000));
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

/// How often each host came to have a lease, over all of its lives.
fn run_fleet(seed: u64, steps: u32, rates: Rates) -> (usize, u64) {
    let mut random = Random::new(seed);
    let memory = Arc::new(MemoryStore::new(Format::DEFAULT, (0, 2)).unwrap());
    let store = FaultyStore::seeded(memory, seed, rates);
    let skew = |random: &mut Random| i64::try_from(random.below(3_000)).unwrap() - 1_500;
    let mut hosts: Vec<Host> = (0..3).map(|n| Host::new(seed ^ n, skew(&mut random))).collect();
    for host in &mut hosts {
        host.run(&store, Event::Start, &mut random);
    }
    let mut seen = HashSet::new();
    let mut leases = 0;
    for _ in 0..steps {
        let n = usize::try_from(random.below(3)).unwrap();
        let host = &mut hosts[n];
        match random.below(100) {
            0..70 => host.clock.advance_ms(random.below(400)),
            // A pause of the whole process, up to twice a window.
            70..75 => host.clock.suspend_ms(random.below(6_000)),
            75..77 => {
                host.clock.step_id_clock_ms(i64::try_from(random.below(4_000)).unwrap() - 2_000)
            }
            77..79 => {
                host.run(&store, Event::Stop, &mut random);
                leases += restart(host, seed, &mut seen);
                host.run(&store, Event::Start, &mut random);
            }
            // A crash: nothing is released, and nothing is remembered.
            79..81 => {
                leases += restart(host, seed, &mut seen);
                host.run(&store, Event::Start, &mut random);
            }
            _ => host.issue(5),
        }
        host.run(&store, Event::Wake, &mut random);
    }
    for host in &mut hosts {
        leases += restart(host, seed, &mut seen);
    }
    (seen.len(), leases)
}

/// Puts a fresh process in the host's place and takes account of what the old one issued.
fn restart(host: &mut Host, seed: u64, seen: &mut HashSet<Id>) -> u64 {
    let issued = std::mem::take(&mut host.issued);
    let held = u64::from(!issued.is_empty());
    for id in issued {
        assert!(seen.insert(id), "{id:?} was issued twice, seed {seed}");
    }
    let moment = host.clock.now();
    let fresh = Host::new(seed ^ moment.boot_ns, 0);
    fresh.clock.set_ms(moment.unix_ms);
    *host = fresh;
    held
}

#[test]
fn no_id_is_issued_twice_whatever_happens_to_hosts_and_messages() {
    let (mut ids, mut leases) = (0, 0);
    for seed in 0..150 {
        let rates = if seed % 3 == 0 { Rates::MILD } else { Rates::WILD };
        let (issued, held) = run_fleet(seed, 400, rates);
        ids += issued;
        leases += held;
    }
    // Proof that the fleet did something: a run in which nobody gets a lease proves nothing.
    assert!(ids > 50_000 && leases > 500, "{ids} ids, {leases} lives with a lease");
}
