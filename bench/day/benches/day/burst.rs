//! The burst: a million ids a second spread over a thousand generators, one call each.
//!
//! Calls have a time at which they are due, whether the one before is done or not. The latency from
//! there is what a caller would wait; the one from the beginning of the call is what the call
//! itself took.

use std::sync::Barrier;
use std::thread;

use snowlease_bench_day::{Fleet, Histogram, Leased, Report};
use snowlease_core::{Format, Id};
use snowlease_lease::{Terms, os};

use crate::{Extent, grouped};

const GENERATORS: usize = 1_000;
const RATE: u64 = 1_000_000;
const LEAST_RATE: f64 = 990_000.0;

/// What one thread did.
struct Part {
    ids: Vec<Id>,
    from_call: Histogram,
    from_due: Histogram,
    began_ns: u64,
    ended_ns: u64,
}

pub(crate) fn run(report: &mut Report, extent: Extent) {
    // Windows of 60 s: no renewal falls in the time.
    let fleet = Fleet::new(Format::DEFAULT, Terms::DEFAULT);
    let leased: Vec<Leased> = (0..GENERATORS).map(|_| fleet.lease()).collect();
    let threads = extent.threads as u64;
    let calls = RATE * extent.burst_s / threads;
    let start = Barrier::new(extent.threads + 1);
    let parts: Vec<Part> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (leased, start) = (&leased, &start);
                scope.spawn(move || part(leased, calls, thread, threads, start))
            })
            .collect();
        start.wait();
        running.into_iter().map(|part| part.join().unwrap()).collect()
    });
    let began_ns = parts.iter().map(|part| part.began_ns).min().unwrap();
    let ended_ns = parts.iter().map(|part| part.ended_ns).max().unwrap();
    for (thread, part) in (0..).zip(&parts) {
        check(&leased, thread, &part.ids);
    }
    let (mut from_call, mut from_due) = (Histogram::new(), Histogram::new());
    let mut ids = Vec::new();
    for part in parts {
        from_call.merge(&part.from_call);
        from_due.merge(&part.from_due);
        ids.extend(part.ids);
    }
    ids.sort_unstable();
    assert!(ids.is_sorted_by(|a, b| a < b), "an id was issued twice");
    let rate = ids.len() as f64 / ((ended_ns - began_ns) as f64 / 1e9);
    println!(
        "{} single calls over {} generators, each id checked",
        grouped(ids.len() as u64),
        grouped(GENERATORS as u64)
    );
    report.line("burst: ids a second", rate, "/s", "at least 990,000");
    report.hold(rate >= LEAST_RATE, "a burst reaches at least 990,000 ids/s");
    report.line("burst: two readings of the clock alone", clock_ns(), "ns", "part of each");
    for (name, histogram) in [("call", &from_call), ("due", &from_due)] {
        for (share, millionths) in [("p50", 500_000), ("p99", 990_000), ("p99.99", 999_900)] {
            let what = format!("burst: {share} from its {name}");
            report.line(&what, histogram.at(millionths) as f64 / 1e3, "µs", "");
        }
        let what = format!("burst: max from its {name}");
        report.line(&what, histogram.max() as f64 / 1e3, "µs", "");
    }
}

fn part(leased: &[Leased], calls: u64, thread: u64, threads: u64, start: &Barrier) -> Part {
    // Written beforehand, and not with zeros: a first write to a page is a call of the kernel.
    let mut ids = vec![Id::MAX; usize::try_from(calls).unwrap()];
    let (mut from_call, mut from_due) = (Histogram::new(), Histogram::new());
    let mut choice = Choice::of(thread);
    start.wait();
    let began_ns = os::boot_ns();
    let mut ended_ns = began_ns;
    for (number, id) in (0..calls).zip(&mut ids) {
        let leased = &leased[choice.next()];
        let due_ns = began_ns + (number * threads + thread) * 1_000_000_000 / RATE;
        let mut call_ns = os::boot_ns();
        while call_ns < due_ns {
            std::hint::spin_loop();
            call_ns = os::boot_ns();
        }
        *id = leased.generator.next_id().unwrap();
        ended_ns = os::boot_ns();
        from_call.add(ended_ns - call_ns);
        from_due.add(ended_ns - due_ns);
    }
    Part { ids, from_call, from_due, began_ns, ended_ns }
}

/// That each id is of the generator that was called, and of its window.
fn check(leased: &[Leased], thread: u64, ids: &[Id]) {
    let mut choice = Choice::of(thread);
    for id in ids {
        let leased = &leased[choice.next()];
        let parts = id.parts(Format::DEFAULT.layout());
        let (from, until) = leased.window();
        assert_eq!(parts.generator_id, leased.generator_id(), "{id}");
        assert!(from <= parts.tick && parts.tick < until, "{id} is outside of its window");
    }
}

/// Which generator is called next: callers know nothing of each other.
struct Choice(u64);

impl Choice {
    fn of(thread: u64) -> Choice {
        Choice(thread << 32)
    }

    fn next(&mut self) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut hash = self.0;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        usize::try_from(hash % GENERATORS as u64).unwrap()
    }
}

/// What an empty call would show.
fn clock_ns() -> f64 {
    let mut none = Histogram::new();
    for _ in 0..100_000 {
        let began_ns = os::boot_ns();
        none.add(os::boot_ns() - began_ns);
    }
    none.at(500_000) as f64
}
