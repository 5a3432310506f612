//! The hot path, by itself: `cargo bench -p snowlease-bench`.
//!
//! Three settings are kept apart, for they answer different questions: *paced* below the cap (what
//! a call costs), a layout that is *never exhausted* (the same without any tick filling up), and
//! *at the cap* (what a generator id gives at most). Rounds are interleaved, so that a slow moment
//! of the machine falls on all figures alike.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at a surprise")]
#![allow(clippy::cast_precision_loss, reason = "figures are for people")]

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use snowlease_bench::{
    CAP_ROUND, Figure, Guard, Stolen, counter_is_used, generator, pace, prove, tickers, timed,
};
use snowlease_core::clock::read_counter;
use snowlease_core::{Generator, Id, Layout};
use snowlease_lease::os;

const ROUNDS: usize = 41;
const BURST: usize = 1_000;
const BURSTS: usize = 20;

/// Batches in a tick: 4,000 ids, just below the cap.
const BATCHES: usize = 4;

fn main() {
    let stolen = Stolen::watch();
    let never_exhausted = Layout::new(41, 2, 20).unwrap();
    let guard = if counter_is_used() { "counter" } else { "counter (not trusted here: vDSO)" };
    println!(
        "{ROUNDS} interleaved rounds; median, [middle half]; ids are first proved distinct and \
         ascending"
    );
    let mut contenders = contenders(guard);
    let mut two =
        Figure::new(format!("next_id, {guard}, 2 threads on one, never exhausted"), "ns/id");
    let shared = generator(never_exhausted, Guard::Counter);
    let mut two_ticking =
        Figure::new("next_id, ticking, 2 threads on one, never exhausted", "ns/id");
    let shared_ticking = generator(never_exhausted, Guard::Ticking);
    for _ in 0..ROUNDS {
        for contender in &mut contenders {
            contender.round();
        }
        two.add(two_threads(&shared));
        two_ticking.add(two_threads(&shared_ticking));
    }
    for contender in &mut contenders {
        println!("{}", contender.figure.line());
    }
    println!("{}", two.line());
    println!("{}", two_ticking.line());
    drop((contenders, shared_ticking));
    for mut figure in one_ticker() {
        println!("{}", figure.line());
    }
    for threads in [1, 8, 64] {
        println!("{}", at_the_cap(threads).line());
    }
    println!("{}", stolen.line());
}

/// Every figure that is one call repeated, on one thread.
fn contenders(guard: &str) -> Vec<Contender> {
    let never_exhausted = Layout::new(41, 2, 20).unwrap();
    let mut contenders = vec![
        Contender::clock("clock: processor's counter", || read_counter().unwrap_or(0)),
        Contender::clock("clock: CLOCK_BOOTTIME through the vDSO", os::boot_ns),
    ];
    contenders.push(Contender::first_write());
    contenders.push(Contender::addition());
    let paced = |name: String, guard, layout, kind| {
        let generator = generator(layout, guard);
        Contender::proved(name, generator, kind, true)
    };
    let default = Layout::DEFAULT;
    for (kind, what) in [
        (Kind::Next, "next_id"),
        (Kind::TryNext, "try_next_id"),
        (Kind::Batch, "next_ids_into, 4 batches of 1000"),
    ] {
        contenders.push(paced(
            format!("{what}, {guard}, paced t41g10s12"),
            Guard::Counter,
            default,
            kind,
        ));
    }
    contenders.push(paced(
        "next_id, vDSO, paced t41g10s12".into(),
        Guard::Boottime,
        default,
        Kind::Next,
    ));
    contenders.push(paced(
        "next_id, ticking, paced t41g10s12".into(),
        Guard::Ticking,
        default,
        Kind::Next,
    ));
    contenders.push(paced(
        "next_id, ticking, never exhausted t41g2s20".into(),
        Guard::Ticking,
        never_exhausted,
        Kind::Next,
    ));
    contenders.push(paced(
        format!("next_id, {guard}, never exhausted t41g2s20"),
        Guard::Counter,
        never_exhausted,
        Kind::Next,
    ));
    contenders.push(paced(
        format!("first id of a tick, {guard}, t41g10s12"),
        Guard::Counter,
        default,
        Kind::First,
    ));
    let batches = generator(never_exhausted, Guard::Counter);
    let name = format!("next_ids_into, batches of 1000, {guard}, never exhausted");
    contenders.push(Contender::proved(name, batches, Kind::Batch, false));
    contenders
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Next,
    TryNext,
    Batch,
    First,
}

struct Contender {
    figure: Figure,
    work: Box<dyn FnMut() -> f64>,
}

impl Contender {
    fn clock(name: &str, read: fn() -> u64) -> Contender {
        let work = move || {
            let ns = timed(|| {
                for _ in 0..BURST * BURSTS {
                    black_box(read());
                }
            });
            ns as f64 / (BURST * BURSTS) as f64
        };
        Contender { figure: Figure::new(name, "ns"), work: Box::new(work) }
    }

    /// What this machine takes for any first write in a millisecond: the floor of a tick's first
    /// id.
    fn first_write() -> Contender {
        let memory = Box::new(std::sync::atomic::AtomicU64::new(0));
        let work = move || {
            let mut ns = 0;
            for _ in 0..BURSTS {
                pace();
                ns += timed(|| {
                    memory.fetch_add(1, Ordering::Relaxed);
                });
            }
            ns as f64 / BURSTS as f64
        };
        let name = "memory: one write, the first in a millisecond";
        Contender { figure: Figure::new(name, "ns"), work: Box::new(work) }
    }

    /// What this machine takes for one locked addition whose result is kept: the floor of a call.
    fn addition() -> Contender {
        let memory = Box::new(std::sync::atomic::AtomicU64::new(0));
        let work = move || {
            let ns = timed(|| {
                for _ in 0..BURST * BURSTS {
                    black_box(memory.fetch_add(1, Ordering::Relaxed));
                }
            });
            ns as f64 / (BURST * BURSTS) as f64
        };
        Contender { figure: Figure::new("memory: one locked addition", "ns"), work: Box::new(work) }
    }

    fn proved(name: String, generator: Arc<Generator>, kind: Kind, paced: bool) -> Contender {
        let mut ids = Vec::new();
        for _ in 0..200 {
            pace();
            issue(&generator, kind, &mut |id| ids.push(id));
        }
        prove(&name, &ids);
        let mut batch = [Id::MIN; BURST];
        let ids_a_burst = match kind {
            Kind::First => 1,
            Kind::Batch => BATCHES * BURST,
            Kind::Next | Kind::TryNext => BURST,
        };
        let work = move || {
            let mut ns = 0;
            for _ in 0..BURSTS {
                if paced {
                    pace();
                }
                ns += timed(|| match kind {
                    Kind::Batch => {
                        for _ in 0..BATCHES {
                            generator.next_ids_into(black_box(&mut batch)).unwrap();
                        }
                    }
                    kind => issue(&generator, kind, &mut |id| {
                        black_box(id);
                    }),
                });
            }
            ns as f64 / (BURSTS * ids_a_burst) as f64
        };
        Contender { figure: Figure::new(name, "ns/id"), work: Box::new(work) }
    }

    fn round(&mut self) {
        let value = (self.work)();
        self.figure.add(value);
    }
}

#[inline(always)]
fn issue(generator: &Generator, kind: Kind, take: &mut impl FnMut(Id)) {
    match kind {
        Kind::Next => (0..BURST).for_each(|_| take(generator.next_id().unwrap())),
        Kind::TryNext => (0..BURST).for_each(|_| take(generator.try_next_id().unwrap())),
        Kind::First => take(generator.next_id().unwrap()),
        Kind::Batch => {
            let mut ids = [Id::MIN; BURST];
            generator.next_ids_into(&mut ids).unwrap();
            black_box(&ids).iter().for_each(|id| take(*id));
        }
    }
}

fn two_threads(generator: &Generator) -> f64 {
    const CALLS: u64 = 100_000;
    let start = Barrier::new(3);
    let ns = thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut last = Id::MIN;
                start.wait();
                for _ in 0..CALLS {
                    let id = generator.next_id().unwrap();
                    assert!(id > last);
                    last = id;
                }
            })
        });
        start.wait();
        timed(|| threads.into_iter().for_each(|thread| thread.join().unwrap()))
    });
    ns as f64 / (2 * CALLS) as f64
}

/// What the thread of one ticking generator costs while one caller issues, and at rest; and the
/// call that ends its rest.
fn one_ticker() -> [Figure; 3] {
    let mut busy = Figure::new("ticker of one generator, an id each 100 µs", "% of a core");
    let mut rest = Figure::new("ticker of one generator at rest: wakes", "a second");
    let mut first = Figure::new("first id after its rest, t41g10s12", "ns/id");
    let generator = generator(Layout::DEFAULT, Guard::Ticking);
    for _ in 0..5 {
        let (before_ns, began_ns) = (tickers().0, os::boot_ns());
        while os::boot_ns() < began_ns + 200_000_000 {
            generator.next_id().unwrap();
            thread::park_timeout(Duration::from_micros(50));
        }
        let took_ns = os::boot_ns() - began_ns;
        busy.add((tickers().0 - before_ns) as f64 / took_ns as f64 * 100.0);
        thread::park_timeout(Duration::from_millis(200));
        let before = tickers().1;
        thread::park_timeout(Duration::from_secs(1));
        rest.add((tickers().1 - before) as f64);
        first.add(timed(|| {
            black_box(generator.next_id().unwrap());
        }) as f64);
    }
    [busy, rest, first]
}

/// The share of the cap that `threads` get together out of one generator.
fn at_the_cap(threads: usize) -> Figure {
    let mut figure =
        Figure::new(format!("at the cap of 4,096,000 ids/s, {threads} threads"), "% of it");
    let generator = generator(Layout::DEFAULT, Guard::Counter);
    for _ in 0..5 {
        let (ready, go) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
        let until_ns = std::sync::atomic::AtomicU64::new(u64::MAX);
        let began_ns = std::cell::Cell::new(0);
        let issued: Vec<Vec<Id>> = thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        // Written beforehand, and not with zeros, which are only promised: a fresh
                        // page of 2 MiB takes the kernel two ticks.
                        let mut ids = vec![Id::MAX; 5_000_000 / threads];
                        ids.clear();
                        ready.wait();
                        go.wait();
                        while os::boot_ns() < until_ns.load(Ordering::Relaxed) {
                            for _ in 0..64 {
                                ids.extend(generator.next_id());
                            }
                        }
                        ids
                    })
                })
                .collect();
            ready.wait();
            began_ns.set(os::boot_ns());
            let round_ns = u64::try_from(CAP_ROUND.as_nanos()).unwrap();
            until_ns.store(began_ns.get() + round_ns, Ordering::Relaxed);
            go.wait();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let seconds = Duration::from_nanos(os::boot_ns() - began_ns.get()).as_secs_f64();
        let mut all: Vec<Id> = issued.into_iter().flatten().collect();
        let count = all.len();
        all.sort_unstable();
        prove("at the cap", &all);
        figure.add(count as f64 / seconds / 4_096_000.0 * 100.0);
    }
    figure
}
