//! One contender that issues single ids: what is timed, and what is asked of its ids.

use std::fmt;
use std::hint::black_box;

use snowlease_bench::{pace, prove, timed};
use snowlease_core::Id;
use snowlease_lease::os;

use crate::ROUNDS;
use crate::row::{Row, Table};

/// The versions that were built.
const LOCK: &str = include_str!("../Cargo.lock");

/// Where the time of an id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Each call reads a clock, or the processor's counter.
    EachCall,
    /// A thread publishes it.
    Thread,
    /// From no clock: it is counted on, or was read once, or there is none.
    None,
}

/// What is known of a contender before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) package: &'static str,
    /// Which of its ways to make ids.
    pub(crate) how: &'static str,
    pub(crate) time: Time,
    pub(crate) stamp: Stamp,
}

impl About {
    /// Package and way.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.package, self.how)
    }

    /// As [`name`](Self::name), with the version of what is not ours.
    pub(crate) fn named(&self) -> String {
        match self.version() {
            _ if self.is_ours() => format!("Snowlease {}", self.how),
            Some(version) => format!("{} {version} {}", self.package, self.how),
            None => self.name(),
        }
    }

    /// Whether it is what this project makes.
    pub(crate) fn is_ours(&self) -> bool {
        self.package == "snowlease"
    }

    /// The version that was built; the standard library has none here.
    pub(crate) fn version(&self) -> Option<&'static str> {
        let package = if self.is_ours() { "snowlease-core" } else { self.package };
        let named = format!("name = \"{package}\"\nversion = \"");
        let (_, rest) = LOCK.split_once(&named)?;
        rest.split_once('"').map(|(version, _)| version)
    }
}

/// How an id tells its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) shift: u32,
    pub(crate) unit_ms: u64,
    pub(crate) epoch_ms: u64,
}

impl Stamp {
    /// The tick of an id.
    fn tick<T: Value>(self, id: T) -> u64 {
        u64::try_from(id.wide() >> self.shift).unwrap_or(u64::MAX)
    }

    /// By how many milliseconds an id that was issued just now is ahead of the wall clock.
    pub(crate) fn ahead_ms<T: Value>(self, id: T) -> i64 {
        let ms = self.tick(id) * self.unit_ms + self.epoch_ms;
        i64::try_from(ms).unwrap_or(i64::MAX) - os::wall_ms()
    }
}

/// An id as a contender returns it.
pub(crate) trait Value: Copy + Ord + Send {
    /// Written to memory before anything is timed; no id.
    fn blank() -> Self;

    /// All its bits.
    fn wide(self) -> u128;
}

impl Value for u64 {
    fn blank() -> u64 {
        u64::MAX
    }

    fn wide(self) -> u128 {
        u128::from(self)
    }
}

impl Value for u128 {
    fn blank() -> u128 {
        u128::MAX
    }

    fn wide(self) -> u128 {
        self
    }
}

impl Value for Id {
    fn blank() -> Id {
        Id::MAX
    }

    fn wide(self) -> u128 {
        u128::from(self.get())
    }
}

/// What was found about what a contender wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proof {
    /// Ids: how many, how many of them were seen before, and how far the time of one was ahead of
    /// the wall clock at most, and of the last one.
    Ids { count: usize, repeats: usize, ahead_ms: i64, last_ms: i64 },
    /// Text that was read back, and was the id it was written of.
    ReadBack,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Proof::ReadBack => f.write_str("read back"),
            Proof::Ids { repeats: repeats @ 1.., .. } => write!(f, "{repeats} REPEATS"),
            // A clock that a library keeps for itself is within a few milliseconds of the wall's.
            Proof::Ids { ahead_ms: ahead_ms @ 10.., .. } => {
                write!(f, "distinct, {ahead_ms} ms ahead")
            }
            Proof::Ids { last_ms: last_ms @ ..=-1_000, .. } => {
                write!(f, "distinct, {} ms old", -last_ms)
            }
            Proof::Ids { .. } => f.write_str("distinct"),
        }
    }
}

/// Judges everything that a contender issued in a setting.
///
/// # Panics
///
/// If a contender of this project repeated an id; `in_order`, if any is not above the one before.
pub(crate) fn judge<T: Value>(about: &About, ids: &mut [T], in_order: bool) -> (usize, usize) {
    if about.is_ours() && in_order {
        assert!(ids.is_sorted_by(|a, b| a < b), "{}: ids repeat or fall", about.how);
    }
    ids.sort_unstable();
    let repeats = ids.windows(2).filter(|pair| pair[0] == pair[1]).count();
    if about.is_ours() {
        let ids: Vec<Id> =
            ids.iter().map(|id| Id::new(u64::try_from(id.wide()).unwrap()).unwrap()).collect();
        prove(about.how, &ids);
    }
    (ids.len(), repeats)
}

/// What a round of a contender does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    /// `bursts` times `ids`; the value is nanoseconds an id. Paced bursts begin with a millisecond,
    /// `apart_ms` after the last; others at once.
    Bursts { ids: usize, bursts: usize, apart_ms: u64 },
    /// As fast as ids come, from the first id of a tick over `ticks` of them; the value is the
    /// percentage of the cap that was reached.
    Cap { ticks: u64, a_tick: u64 },
}

/// One contender in one setting.
pub(crate) trait Lane {
    /// One round: its value.
    fn round(&mut self) -> f64;

    /// What it was and what it issued, when all rounds are over.
    fn end(self: Box<Self>) -> (About, Proof);
}

/// Runs contenders in turn and makes the table.
pub(crate) fn compare(
    setting: &'static str,
    title: impl Into<String>,
    unit: &'static str,
    mut lanes: Vec<Box<dyn Lane>>,
) -> Table {
    let mut rounds = vec![Vec::with_capacity(ROUNDS); lanes.len()];
    // One more, first: what is cold then is nobody's cost.
    for round in 0..=ROUNDS {
        for (lane, values) in lanes.iter_mut().zip(&mut rounds) {
            let value = lane.round();
            if round > 0 {
                values.push(value);
            }
        }
    }
    let rows = lanes.into_iter().zip(rounds).map(|(lane, rounds)| {
        let (about, proof) = lane.end();
        Row::new(about, rounds, proof)
    });
    Table { setting, title: title.into(), unit, rows: rows.collect() }
}

/// A contender that gives one id a call.
#[derive(Debug)]
pub(crate) struct Single<T, F> {
    about: About,
    plan: Plan,
    next: F,
    out: Vec<T>,
    issued: Vec<T>,
    ahead_ms: i64,
    last_ms: i64,
}

impl<T: Value + 'static, F: FnMut() -> T + 'static> Single<T, F> {
    /// A lane for [`compare`].
    pub(crate) fn lane(about: About, plan: Plan, next: F) -> Box<dyn Lane> {
        let (room, all) = match plan {
            Plan::Bursts { ids, bursts, .. } => (ids, ids * bursts * (ROUNDS + 1)),
            Plan::Cap { ticks, a_tick } => {
                // As much again, for what comes before the first tick and for a slow machine.
                let room = usize::try_from((ticks + 2) * a_tick * 2).unwrap();
                (room, room * ROUNDS / 2)
            }
        };
        Box::new(Single {
            about,
            plan,
            next,
            out: vec![T::blank(); room],
            issued: Vec::with_capacity(all),
            ahead_ms: i64::MIN,
            last_ms: 0,
        })
    }

    /// Keeps what was just issued.
    fn keep(&mut self, count: usize) {
        self.last_ms = self.about.stamp.ahead_ms(self.out[count - 1]);
        self.ahead_ms = self.ahead_ms.max(self.last_ms);
        self.issued.extend_from_slice(&self.out[..count]);
    }

    /// Issues over some ticks; how many ids came in how many nanoseconds.
    fn sustain(&mut self, ticks: u64) -> (usize, u64) {
        let (stamp, next) = (self.about.stamp, &mut self.next);
        burst(&mut self.out[..1], None, next);
        let following = stamp.tick(self.out[0]) + 1;
        let before = 1 + burst(&mut self.out[1..], Some((stamp, following)), next);
        let end = stamp.tick(self.out[before - 1]) + ticks;
        let mut count = before;
        let ns = timed(|| count += burst(&mut self.out[before..], Some((stamp, end)), next));
        self.keep(count);
        (count - before, ns)
    }
}

impl<T: Value + 'static, F: FnMut() -> T + 'static> Lane for Single<T, F> {
    fn round(&mut self) -> f64 {
        match self.plan {
            Plan::Bursts { ids, bursts, apart_ms } => {
                let mut ns = 0;
                for _ in 0..bursts {
                    (0..apart_ms).for_each(|_| pace());
                    ns += timed(|| _ = burst(&mut self.out, None, &mut self.next));
                    self.keep(ids);
                }
                ns as f64 / (ids * bursts) as f64
            }
            Plan::Cap { ticks, a_tick } => {
                let (count, ns) = self.sustain(ticks);
                let seconds = ns as f64 / 1e9;
                let cap = a_tick as f64 * 1_000.0 / self.about.stamp.unit_ms as f64;
                count as f64 / seconds / cap * 100.0
            }
        }
    }

    fn end(mut self: Box<Self>) -> (About, Proof) {
        let (count, repeats) = judge(&self.about, &mut self.issued, true);
        let (ahead_ms, last_ms) = (self.ahead_ms, self.last_ms);
        (self.about, Proof::Ids { count, repeats, ahead_ms, last_ms })
    }
}

/// What is timed, up to the first id of a tick if one is named; how many ids that were.
///
/// There is one copy of this for each contender, and the only call of `next` is in it: so the
/// compiler has the same reason to inline each of them.
#[inline(never)]
pub(crate) fn burst<T: Value>(
    out: &mut [T],
    up_to: Option<(Stamp, u64)>,
    next: &mut impl FnMut() -> T,
) -> usize {
    let mut count = 0;
    for slot in out {
        let id = black_box(next());
        *slot = id;
        count += 1;
        if let Some((stamp, end)) = up_to
            && stamp.tick(id) >= end
        {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::about;

    #[test]
    fn repeats_of_a_peer_are_counted_and_said() {
        let peer = about("ferroid", "basic", Time::Thread, 0);
        let (count, repeats) = judge(&peer, &mut [4_u64, 1, 4, 4], true);
        assert_eq!((count, repeats), (4, 2));
        let proof = Proof::Ids { count, repeats, ahead_ms: 20, last_ms: 0 };
        assert_eq!(proof.to_string(), "2 REPEATS");
        let proof = Proof::Ids { count, repeats: 0, ahead_ms: 20, last_ms: 0 };
        assert_eq!(proof.to_string(), "distinct, 20 ms ahead");
    }

    #[test]
    #[should_panic(expected = "ids repeat or fall")]
    fn an_id_of_ours_out_of_order_ends_the_run() {
        judge(&about("snowlease", "counter", Time::EachCall, 0), &mut [2_u64, 1], true);
    }

    #[test]
    #[should_panic(expected = "ids repeat or fall")]
    fn a_repeat_of_ours_between_threads_ends_the_run() {
        judge(&about("snowlease", "counter", Time::EachCall, 0), &mut [2_u64, 1, 2], false);
    }

    #[test]
    fn the_versions_are_those_that_were_built() {
        assert!(about("ferroid", "basic", Time::Thread, 0).version().unwrap().starts_with("2."));
        assert_eq!(about("std", "parse", Time::None, 0).version(), None);
    }
}
