//! Arbitrary clocks under arbitrary calls: a million ids and more, each of them once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use snowlease_core::{Format, Id, Refusal};
use snowlease_lease::machine::{Event, State};
use snowlease_lease::os::KernelTime;
use snowlease_lease::testing::{
    FaultyStore, Guard, Host, MemoryStore, Random, Rates, Referenced, ScriptedTime,
};
use snowlease_lease::{LeaseStore, Terms};

use super::START_MS;

/// Hosts of a script, each with its own clocks.
const HOSTS: u64 = 3;

/// One script: a store, and hosts whose clocks do what they like.
struct Script {
    random: Random,
    store: Arc<dyn LeaseStore>,
    memory: Arc<MemoryStore>,
    reference: ScriptedTime,
    hosts: Vec<Playing>,
    seen: HashSet<Id>,
    refused: u64,
}

struct Playing {
    host: Host,
    /// The last id, and its generator id: order begins anew with another one, if the clock was
    /// seeded anew in between.
    last: Option<(Id, u64, u64)>,
}

impl Script {
    fn new(seed: u64) -> Script {
        let mut random = Random::new(seed);
        let memory = Arc::new(MemoryStore::new(Format::DEFAULT, (0, 1_023)).unwrap());
        let reference = ScriptedTime::at_ms(START_MS);
        let rates = if random.chance(50) { Rates::MILD } else { Rates::WILD };
        let store: Arc<dyn LeaseStore> = match random.below(3) {
            // One machine, or etcd: no clock but the hosts'.
            0 => Arc::new(FaultyStore::seeded(Arc::clone(&memory) as Arc<_>, seed, rates)),
            _ => {
                let store = Referenced::new(Arc::clone(&memory), reference.clone(), Terms::DEFAULT);
                Arc::new(FaultyStore::seeded(Arc::new(store), seed, rates))
            }
        };
        let mut script = Script {
            random,
            store,
            memory,
            reference,
            hosts: Vec::new(),
            seen: HashSet::new(),
            refused: 0,
        };
        for _ in 0..HOSTS {
            let playing = script.start(&ScriptedTime::at_ms(START_MS));
            script.hosts.push(playing);
        }
        script
    }

    fn start(&mut self, time: &ScriptedTime) -> Playing {
        let guard = if self.random.chance(30) { Guard::Ticking } else { Guard::Precise };
        let store = Arc::clone(&self.store);
        let host = Host::start(store, time, Format::DEFAULT, Terms::DEFAULT, guard);
        Playing { host, last: None }
    }

    /// Something happens to the clocks of one host, or of all.
    fn trouble(&mut self, n: usize) {
        let random = &mut self.random;
        let ms = match random.below(5) {
            0 => random.below(20),
            1 => random.below(1_000),
            2 => random.below(10_000),
            3 => random.below(7_200_000),
            _ => random.below(86_400_000 * 400),
        };
        let signed = if random.chance(50) { ms.cast_signed() } else { -ms.cast_signed() };
        let time = self.hosts[n].host.time().clone();
        match random.below(20) {
            0..5 => time.set_wall_ms(signed),
            5..7 => {
                // The reference agrees, and so do the others, or some of them.
                self.reference.set_wall_ms(signed);
                for playing in &self.hosts {
                    if random.chance(70) {
                        playing.host.time().set_wall_ms(signed);
                    }
                }
            }
            7 => self.reference.set_wall_ms(signed),
            8 => time.suspend_ms(ms.min(7_200_000)),
            // The boot clock alone; the wall clock alone for a while, at another rate.
            9 => time.pass_apart_ns(0, ms.min(7_200_000) * 1_000_000, 0, 0),
            10 => {
                let boot_ns = random.below(2_000) * 1_000_000;
                let rate = i128::from(random.below(4));
                time.pass_apart_ns(i128::from(boot_ns) * rate, boot_ns, boot_ns, boot_ns);
            }
            11 => time.set_counter(random.draw()),
            12 => {
                let synchronised = random.chance(50);
                time.set_kernel(Some(KernelTime { max_error_us: 1_000, synchronised }));
            }
            13 => time.set_kernel(None),
            14 => time.restore(),
            15 => {
                // A crash, and a new process on the same host.
                self.hosts[n] = self.start(&time);
            }
            16 => {
                self.hosts[n].host.tell(Event::Stop);
                self.hosts[n] = self.start(&time);
            }
            17 => {
                let seed = random.draw();
                let host = &mut self.hosts[n].host;
                host.tell(Event::Suspend);
                host.settle();
                self.calls(n);
                self.hosts[n].host.tell(Event::Start { seed });
            }
            // Right again, everywhere.
            _ => self.set_right(),
        }
    }

    fn set_right(&mut self) {
        use snowlease_lease::id_clock::Time;
        let right_ns = self.reference.wall_ns();
        for playing in &self.hosts {
            let time = playing.host.time();
            let by_ms = (right_ns - time.wall_ns()) / 1_000_000;
            time.set_wall_ms(i64::try_from(by_ms).unwrap());
        }
    }

    /// A few calls of any sort.
    fn calls(&mut self, n: usize) {
        for _ in 0..self.random.below(5) {
            let ids = {
                let generator = self.hosts[n].host.generator();
                match self.random.below(20) {
                    0..8 => generator.next_id().map(|id| vec![id]),
                    8..12 => generator.try_next_id().map(|id| vec![id]),
                    12..19 => {
                        generator.next_ids(1 + usize::try_from(self.random.below(20)).unwrap())
                    }
                    _ => generator.next_ids(1_000),
                }
            };
            match ids {
                Ok(ids) => self.take(n, &ids),
                Err(refusal) => self.refuse(refusal),
            }
        }
    }

    fn take(&mut self, n: usize, ids: &[Id]) {
        let reseeds = self.hosts[n].host.clock().counts.reseeds;
        let cells = if self.random.chance(2) { self.memory.list().unwrap() } else { Vec::new() };
        for id in ids {
            assert!(self.seen.insert(*id), "{id:?} was issued twice");
            let parts = Format::DEFAULT.decode(*id);
            if let Some((last, generator_id, then)) = self.hosts[n].last {
                let begins_anew = then != reseeds && generator_id != parts.generator_id;
                assert!(*id > last || begins_anew, "{id:?} after {last:?}");
            }
            self.hosts[n].last = Some((*id, parts.generator_id, reseeds));
            let cell = cells.iter().find(|cell| cell.generator_id == parts.generator_id);
            assert!(cell.is_none_or(|cell| parts.tick < cell.until), "{id:?} in {cell:?}");
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        match refusal {
            Refusal::ClockStepped { retry_after, .. } => {
                assert!(retry_after <= Duration::from_secs(3), "{refusal:?}");
            }
            // Reserved ahead by others at most: no clock may send a caller away for hours.
            Refusal::ClockBehind { retry_after, .. } => {
                assert!(retry_after <= Duration::from_secs(5), "{refusal:?}");
            }
            _ => {}
        }
    }

    fn run(mut self, steps: u32) -> (usize, u64) {
        for _ in 0..steps {
            let n = usize::try_from(self.random.below(HOSTS)).unwrap();
            if self.random.chance(8) {
                self.trouble(n);
            }
            let ns = match self.random.below(10) {
                0..7 => self.random.below(2_000_000),
                7..9 => self.random.below(250_000_000),
                _ => self.random.below(20_000_000_000),
            };
            self.reference.pass_ns(ns);
            for playing in &self.hosts {
                playing.host.time().pass_ns(ns);
            }
            self.calls(n);
            for m in 0..self.hosts.len() {
                // A process may not run for a while.
                if self.random.chance(80) {
                    self.hosts[m].host.tick();
                    self.hosts[m].host.look();
                }
            }
            self.calls(n);
        }
        self.end();
        (self.seen.len(), self.refused)
    }

    /// Once clocks are right and stay so, ids flow again within two windows.
    fn end(&mut self) {
        self.set_right();
        for _ in 0..4 * 150 {
            self.reference.pass_ms(250);
            for playing in &mut self.hosts {
                playing.host.time().pass_ms(250);
                playing.host.look();
            }
        }
        for n in 0..self.hosts.len() {
            self.hosts[n].host.tick();
            let id = self.hosts[n].host.next_id();
            let state = self.hosts[n].host.state();
            assert!(matches!(state, State::Held | State::Draining), "{state:?} {id:?}");
            let clock = self.hosts[n].host.clock();
            self.take(n, &[id.unwrap_or_else(|refusal| panic!("{refusal:?} {clock:?}"))]);
        }
    }
}

#[test]
fn no_script_of_clocks_makes_a_duplicate_or_stops_ids_for_good() {
    let (mut ids, mut refused, mut seed) = (0, 0, 0);
    while ids < 1_500_000 {
        let run = std::panic::catch_unwind(|| Script::new(seed).run(400));
        let (issued, sent_away) = run.unwrap_or_else(|_| panic!("seed {seed}"));
        (ids, refused, seed) = (ids + issued, refused + sent_away, seed + 1);
    }
    assert!(seed >= 10 && refused > 1_000, "{ids} ids, {refused} refusals, {seed} scripts");
}
