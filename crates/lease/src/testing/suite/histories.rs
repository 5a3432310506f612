//! Random histories: many holders, an operator and a bad network, against the oracle of windows.
//!
//! After every step: no two windows that were confirmed and not given back meet (I2, and with it
//! I3); no cell ends below a tick that may have been used (I1); `seq` grows with each change, the
//! floor never falls (I6), no cell is forgotten. When faults stop, every generator id is granted
//! again.

use std::collections::BTreeMap;
use std::sync::Arc;

use snowlease_core::Tick;

use super::Setup;
use super::bench::{Bench, FIRST, Lease, START};
use crate::testing::{FaultyStore, Random, Rates, Windows};
use crate::{
    Acquire, Carries, LeaseEntry, LeaseStore, Mode, Release, ReleaseError, Renew, RenewError,
    RequestKey, Token,
};

const POOL: u64 = 4;
const PLAYERS: usize = 5;
const STEPS: usize = 70;

/// Runs [`Setup::histories`] histories, each from its own seed. A failure names the seed.
pub fn random_histories_break_no_promise(setup: &dyn Setup) {
    for seed in 0..setup.histories() {
        if let Err(breach) = history(setup, seed) {
            panic!("seed {seed}: {breach}");
        }
    }
}

/// One history from its seed; what was broken, in words.
///
/// # Errors
///
/// The first promise that was seen broken.
pub fn history(setup: &dyn Setup, seed: u64) -> Result<(), String> {
    let mut world = World::new(setup, seed);
    for step in 0..STEPS {
        world.step().and_then(|()| world.audit()).map_err(|what| format!("step {step}: {what}"))?;
    }
    world.settle()
}

struct World {
    bench: Bench,
    network: Arc<FaultyStore>,
    random: Random,
    now: u64,
    players: Vec<Player>,
    grants: u64,
    windows: Windows,
    cells: BTreeMap<u64, LeaseEntry>,
    floor: Tick,
}

#[derive(Default)]
enum Player {
    #[default]
    Idle,
    /// Asked for a lease and did not hear the answer.
    Asking(Acquire),
    Holding(Held),
    /// Has closed its gate, asked to give the lease back, and did not hear the answer.
    Leaving(Release),
}

struct Held {
    grant: u64,
    lease: Lease,
    /// The token of the next renewal, shown in every attempt from one base.
    next: Token,
    /// A renewal that was asked for and not answered, to be repeated byte for byte.
    sent: Option<Renew>,
}

impl World {
    fn new(setup: &dyn Setup, seed: u64) -> World {
        let bench = Bench::new(setup, POOL);
        let store = Arc::clone(&bench.made.store);
        let network = Arc::new(FaultyStore::seeded(store, seed, Rates::WILD));
        World {
            bench,
            network,
            random: Random::new(!seed),
            now: START,
            players: (0..PLAYERS).map(|_| Player::Idle).collect(),
            grants: 0,
            windows: Windows::default(),
            cells: BTreeMap::new(),
            floor: Tick(0),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(20) {
            0..=1 => self.now += self.random.below(self.bench.window / 2),
            2 => self.pass_to_an_edge(),
            3 => drop(self.network.deliver_late(0)),
            4 => self.operate(),
            _ => {
                let place = usize::try_from(self.random.below(PLAYERS as u64)).unwrap_or(0);
                let player = std::mem::take(&mut self.players[place]);
                self.players[place] = self.play(player)?;
            }
        }
        Ok(())
    }

    /// Mistakes live where a window ends: on the tick itself and on the one before.
    fn pass_to_an_edge(&mut self) {
        let ends = self.cells.values().map(|cell| cell.until).chain([self.floor]);
        let next = ends.filter(|end| end.0 > self.now + 1).min();
        if let Some(end) = next {
            self.now = end.0 - self.random.below(2);
        }
    }

    fn operate(&mut self) {
        let id = FIRST + self.random.below(POOL);
        let admin = Arc::clone(&self.bench.made.admin);
        match self.random.below(12) {
            0..=3 => admin.drain(id, true).unwrap(),
            4..=8 => admin.drain(id, false).unwrap(),
            9 => admin.set_mode(Mode::Frozen).unwrap(),
            10 => admin.set_mode(Mode::Open).unwrap(),
            _ => {
                let at_least = Tick(self.now + self.random.below(self.bench.window));
                assert!(admin.quarantine(at_least).unwrap() >= at_least);
            }
        }
    }

    /// A holder's clock: within the skew that a service allows.
    fn clock(&mut self) -> u64 {
        if self.random.chance(60) {
            return self.now;
        }
        self.now + self.random.below(3_000) - 1_500
    }

    fn play(&mut self, player: Player) -> Result<Player, String> {
        match player {
            Player::Idle => {
                let now = self.clock();
                let ask = self.bench.ask(&RequestKey::random(), now);
                self.acquire(ask)
            }
            // Some give up and ask with a new key; then their first ask may cost an idle id.
            Player::Asking(_) if self.random.chance(20) => Ok(Player::Idle),
            Player::Asking(mut ask) => {
                let now = self.clock();
                ask = self.bench.ask(&ask.request_key, now);
                self.acquire(ask)
            }
            Player::Holding(held) => match self.random.below(10) {
                0 => Ok(Player::Idle),
                1..=2 => Ok(self.leave(held)),
                _ => self.renew(held),
            },
            Player::Leaving(_) if self.random.chance(20) => Ok(Player::Idle),
            Player::Leaving(ask) => Ok(self.release(ask)),
        }
    }

    fn acquire(&mut self, ask: Acquire) -> Result<Player, String> {
        let Ok(grant) = self.network.acquire(&ask) else { return Ok(Player::Asking(ask)) };
        self.grants += 1;
        let lease = Lease::new(&ask.request_key, &grant);
        let held = Held { grant: self.grants, lease, next: Token::random(), sent: None };
        self.confirm(&held)?;
        Ok(Player::Holding(held))
    }

    fn confirm(&mut self, held: &Held) -> Result<(), String> {
        let lease = &held.lease;
        self.windows
            .confirm(held.grant, lease.generator_id, Tick(lease.from), Tick(lease.until))
            .map_err(|breach| format!("I2: {breach}"))
    }

    fn renew(&mut self, mut held: Held) -> Result<Player, String> {
        let now = self.clock();
        let ask = held.sent.take().unwrap_or_else(|| Renew {
            next: held.next.hash(),
            ..self.bench.renewal(&held.lease, now)
        });
        match self.network.renew(&ask) {
            Ok(renewal) => {
                if renewal.token == Carries::Next {
                    held.lease.token = std::mem::replace(&mut held.next, Token::random());
                }
                held.lease.adopt(&renewal);
                self.confirm(&held)?;
            }
            Err(RenewError::Outage(outage)) if outage.unknown => held.sent = Some(ask),
            Err(RenewError::Outage(_) | RenewError::Quarantined { .. }) => {}
            // A lease is lost only if its window is over: nobody else can release it.
            Err(RenewError::NotYours { .. }) if self.is_taken(&held) => return Ok(Player::Idle),
            Err(error) => return Err(format!("{:?} was refused: {error}", held.lease)),
        }
        Ok(Player::Holding(held))
    }

    /// Whether the cell was granted anew after the window that the holder knows of.
    fn is_taken(&self, held: &Held) -> bool {
        self.bench.entry(held.lease.generator_id).from.0 >= held.lease.until
    }

    /// Closes the gate at some tick of the window, then asks.
    fn leave(&mut self, held: Held) -> Player {
        let lease = &held.lease;
        let cut = self.random.between(lease.from, lease.until);
        self.windows.give_back(held.grant, lease.generator_id, Tick(cut));
        let next = held.sent.map(|_| held.next);
        self.release(Release { next, ..Bench::giving_back(lease, cut) })
    }

    fn release(&mut self, ask: Release) -> Player {
        match self.network.release(&ask) {
            Err(ReleaseError::Outage(_)) => Player::Leaving(ask),
            _ => Player::Idle,
        }
    }

    fn audit(&mut self) -> Result<(), String> {
        let entries = self.bench.made.admin.list().unwrap();
        let now: BTreeMap<_, _> =
            entries.into_iter().map(|entry| (entry.generator_id, entry)).collect();
        for (id, before) in &self.cells {
            let Some(after) = now.get(id) else { return Err(format!("{before:?} was forgotten")) };
            if after != before && after.seq <= before.seq {
                return Err(format!("I6: {after:?} came after {before:?}"));
            }
        }
        for (id, cell) in &now {
            if self.windows.end(*id) > Some(cell.until) {
                return Err(format!("I1: more may have been used than {cell:?} says"));
            }
        }
        self.cells = now;
        let floor = self.bench.made.admin.status().unwrap().meta.floor;
        if floor < self.floor {
            return Err(format!("I6: the floor fell from {} to {floor}", self.floor));
        }
        self.floor = floor;
        Ok(())
    }

    /// Faults stop, all windows run out: as many holders as there are ids get one each.
    fn settle(&mut self) -> Result<(), String> {
        self.network.heal();
        self.network.deliver_all_late();
        self.audit()?;
        self.bench.made.admin.set_mode(Mode::Open).unwrap();
        for id in FIRST..FIRST + POOL {
            self.bench.made.admin.drain(id, false).unwrap();
        }
        self.audit()?;
        let last = self.cells.values().map(|cell| cell.until).max().unwrap_or_default();
        self.now = last.max(self.floor).max(Tick(self.now)).0;
        for _ in 0..POOL {
            let ask = self.bench.ask(&RequestKey::random(), self.now);
            if let Player::Asking(_) = self.acquire(ask)? {
                return Err("an id that is free was not granted".to_owned());
            }
        }
        self.audit()
    }
}
