//! What callers were given, judged by the true time.
//!
//! Slack, where a bound has some, is for one thing: a thread of a loaded machine may lose its core
//! at any instruction. Where that matters a bound is taken from both ends of a call instead, which
//! needs no slack: an id was made between the two.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use snowlease_clocks::record::{Record, Said};
use snowlease_core::{Format, Id};

use crate::time::ns;

/// The comparison of wall and boot clock: three pairs are read, and the tightest may still be torn.
const TORN_MS: i64 = 3;

/// The calls to one handle, a line for each thread that made them.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) name: String,
    pub(crate) format: Format,
    pub(crate) lines: Vec<Vec<Record>>,
}

/// An id and the call that returned it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawn {
    pub(crate) id: u64,
    pub(crate) begun_ns: u64,
    pub(crate) ended_ns: u64,
}

impl Log {
    /// All ids, by when their calls returned.
    pub(crate) fn ids(&self) -> Vec<Drawn> {
        let mut ids: Vec<Drawn> = self.lines.iter().flatten().filter_map(drawn).collect();
        ids.sort_by_key(|drawn| (drawn.ended_ns, drawn.id));
        ids
    }

    /// Those whose calls began at or after `from_ns` and returned before `to_ns`.
    pub(crate) fn ids_within(&self, from_ns: u64, to_ns: u64) -> Vec<Drawn> {
        let within = |drawn: &Drawn| drawn.begun_ns >= from_ns && drawn.ended_ns < to_ns;
        self.ids().into_iter().filter(within).collect()
    }

    pub(crate) fn generator_id(&self, id: u64) -> u64 {
        self.format.decode(Id::new(id).expect("it is an id")).generator_id
    }

    /// The instant at which the tick of this id begins.
    pub(crate) fn unix_ms(&self, id: u64) -> i64 {
        self.format.unix_ms(self.format.decode(Id::new(id).expect("it is an id")).tick)
    }

    /// The generator ids of what was issued from then on.
    pub(crate) fn generator_ids(&self, from_ns: u64, to_ns: u64) -> BTreeSet<u64> {
        self.ids_within(from_ns, to_ns).iter().map(|drawn| self.generator_id(drawn.id)).collect()
    }

    /// Whoever returned before another call began has the smaller id: under one generator id, and
    /// unless the clock was seeded anew, under all of them.
    #[track_caller]
    pub(crate) fn ascends(&self, seeded_anew: bool) {
        for line in &self.lines {
            assert!(
                line.is_sorted_by_key(|record| record.begun_ns),
                "{}: a line is mixed",
                self.name
            );
        }
        let ids = self.ids();
        if !seeded_anew {
            self.ascends_within(ids);
            return;
        }
        let generators: BTreeSet<u64> =
            ids.iter().map(|drawn| self.generator_id(drawn.id)).collect();
        for generator in generators {
            let own = ids.iter().filter(|drawn| self.generator_id(drawn.id) == generator);
            self.ascends_within(own.copied().collect());
        }
    }

    fn ascends_within(&self, mut ids: Vec<Drawn>) {
        // The ids of a batch have one beginning and one end, and come in their order.
        ids.sort_by_key(|drawn| (drawn.begun_ns, drawn.id));
        let mut running: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
        let mut highest = None;
        for drawn in ids {
            while let Some(Reverse((ended_ns, id))) = running.peek().copied() {
                if ended_ns >= drawn.begun_ns {
                    break;
                }
                running.pop();
                highest = highest.max(Some(id));
            }
            let (name, id) = (&self.name, drawn.id);
            assert!(Some(id) > highest, "{name}: {id} was issued after {highest:?} had been");
            running.push(Reverse((drawn.ended_ns, id)));
        }
    }

    /// From one instant to another, no longer than `gap` passed without an id.
    #[track_caller]
    pub(crate) fn flows(&self, from_ns: u64, to_ns: u64, gap: Duration) {
        let (longest_ns, at_ns) = self.longest_gap(from_ns, to_ns);
        let (name, codes) = (&self.name, self.codes());
        let at_ms = (at_ns - from_ns) / 1_000_000;
        assert!(
            longest_ns <= ns(gap),
            "{name}: no id for {} ms, from {at_ms} ms on; refusals of all the run: {codes:?}",
            longest_ns / 1_000_000
        );
    }

    /// The longest time without an id, in ns, and when it began.
    pub(crate) fn longest_gap(&self, from_ns: u64, to_ns: u64) -> (u64, u64) {
        let within = |at: &u64| (from_ns..to_ns).contains(at);
        let ids = self.ids();
        let ends = ids.iter().map(|drawn| drawn.ended_ns).filter(within);
        let mut last = from_ns;
        let gaps = ends.chain([to_ns]).map(|at| {
            let gap = (at - last, last);
            last = at;
            gap
        });
        gaps.max().expect("there is one")
    }

    /// From one instant to another, nothing at all was issued.
    #[track_caller]
    pub(crate) fn is_silent(&self, from_ns: u64, to_ns: u64) {
        let late = self.ids_within(from_ns, to_ns);
        assert!(late.is_empty(), "{}: {} ids, the first {:?}", self.name, late.len(), late[0]);
    }

    /// The tick of each id of a time is what `wall_ms` shows at the true time of its call, within
    /// so many ms before and after it.
    #[track_caller]
    pub(crate) fn is_near(
        &self,
        (from_ns, to_ns): (u64, u64),
        wall_ms: impl Fn(u64) -> i64,
        (lag_ms, lead_ms): (i64, i64),
    ) {
        let ids = self.ids_within(from_ns, to_ns);
        assert!(!ids.is_empty(), "{}: there is no id to judge", self.name);
        for drawn in ids {
            let ms = self.unix_ms(drawn.id);
            let least_ms = wall_ms(drawn.begun_ns) - lag_ms - TORN_MS;
            let most_ms = wall_ms(drawn.ended_ns) + lead_ms + TORN_MS;
            assert!(
                (least_ms..=most_ms).contains(&ms),
                "{}: the tick of {drawn:?}, {} ms after the time began, is {} ms from {least_ms}, \
                 and at most {} are right",
                self.name,
                (drawn.ended_ns - from_ns) / 1_000_000,
                ms - least_ms,
                most_ms - least_ms
            );
        }
    }

    /// What was said in place of ids.
    pub(crate) fn codes(&self) -> BTreeSet<&'static str> {
        self.refusals().map(|(code, _)| code).collect()
    }

    /// Nothing but these was said in place of ids, and nobody was told to wait for longer.
    #[track_caller]
    pub(crate) fn refuses_only(&self, codes: &[&str], longest: Duration) {
        for (code, after_ms) in self.refusals() {
            assert!(codes.contains(&code), "{}: {code}, and {codes:?} are right", self.name);
            let after = Duration::from_millis(after_ms.unwrap_or(0));
            assert!(after <= longest, "{}: {code} with {after:?}", self.name);
        }
    }

    fn refusals(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        self.lines.iter().flatten().filter_map(|record| match record.said {
            Said::Refused { code, retry_after_ms } => Some((code, retry_after_ms)),
            Said::Id(_) => None,
        })
    }
}

fn drawn(record: &Record) -> Option<Drawn> {
    let Record { begun_ns, ended_ns, said: Said::Id(id) } = *record else { return None };
    Some(Drawn { id, begun_ns, ended_ns })
}

/// G1: the ids of all handles and incarnations in one set.
#[track_caller]
pub(crate) fn unique(logs: &[&Log]) {
    let mut all: Vec<(u64, &str)> = Vec::new();
    for log in logs {
        all.extend(log.ids().iter().map(|drawn| (drawn.id, log.name.as_str())));
    }
    all.sort_unstable();
    let twice = all.windows(2).find(|pair| pair[0].0 == pair[1].0);
    assert!(twice.is_none(), "issued twice: {twice:?}");
    assert!(!all.is_empty(), "nothing was issued");
}

mod tests {
    use snowlease_clocks::record::{Record, Said};
    use snowlease_core::Format;

    use super::{Log, unique};
    use crate::time::ms;

    const MS: u64 = 1_000_000;

    fn log(calls: &[(u64, u64, u64)]) -> Log {
        let record = |&(begun, ended, id): &(u64, u64, u64)| Record {
            begun_ns: begun * MS,
            ended_ns: ended * MS,
            said: Said::Id(id),
        };
        let lines = vec![calls.iter().map(record).collect()];
        Log { name: "any".to_owned(), format: Format::DEFAULT, lines }
    }

    fn id(tick: u64, generator: u64, sequence: u64) -> u64 {
        tick << 22 | generator << 12 | sequence
    }

    fn found(judge: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(judge).is_err()
    }

    #[test]
    fn what_is_right_is_found_right() {
        let right = log(&[(0, 1, id(100, 5, 0)), (2, 3, id(102, 5, 0)), (4, 5, id(104, 6, 1))]);
        right.ascends(false);
        right.flows(0, 6 * MS, ms(2));
        right.is_silent(10 * MS, 20 * MS);
        let epoch_ms = Format::DEFAULT.epoch_ms();
        right.is_near((0, 9 * MS), |ns| epoch_ms + 100 + i64::try_from(ns / MS).unwrap(), (0, 0));
        right.refuses_only(&[], ms(0));
        unique(&[&right, &log(&[(0, 1, id(100, 6, 0))])]);
        // Calls at the same time may have any order, and so may those under a clock seeded anew.
        log(&[(0, 9, id(104, 5, 0)), (2, 3, id(102, 5, 0))]).ascends(false);
        log(&[(0, 1, id(104, 5, 0)), (2, 3, id(102, 6, 0))]).ascends(true);
    }

    #[test]
    fn everything_that_must_not_be_is_found() {
        let back = log(&[(0, 1, id(104, 5, 0)), (2, 3, id(102, 6, 0))]);
        assert!(found(|| back.ascends(false)));
        assert!(found(|| log(&[(0, 1, id(104, 5, 0)), (2, 3, id(102, 5, 0))]).ascends(true)));
        assert!(found(
            || log(&[(0, 5, id(1, 5, 1)), (2, 3, id(1, 5, 0)), (6, 7, id(0, 5, 9))]).ascends(true)
        ));
        assert!(found(|| unique(&[&back, &log(&[(0, 1, id(102, 6, 0))])])));
        assert!(found(|| back.flows(0, 6 * MS, ms(2))));
        assert!(found(|| back.is_silent(2 * MS, 4 * MS)));
        let off = |by: i64| move |_| Format::DEFAULT.epoch_ms() + 103 + by;
        assert!(!found(|| back.is_near((0, 4 * MS), off(0), (0, 0))));
        assert!(found(|| back.is_near((0, 4 * MS), off(5), (0, 0))));
        assert!(found(|| back.is_near((0, 4 * MS), off(-5), (0, 0))));
        let mut refused = back.clone();
        refused.lines[0][0].said = Said::refused("no-lease", Some(100));
        assert!(!found(|| refused.refuses_only(&["no-lease"], ms(100))));
        assert!(found(|| refused.refuses_only(&["no-lease"], ms(99))));
        assert!(found(|| refused.refuses_only(&["window-end"], ms(100))));
    }
}
