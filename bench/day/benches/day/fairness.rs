//! Fairness: many threads wait on one generator at its cap, while its keeper renews the lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use snowlease_bench_day::Report;
use snowlease_core::{Format, Generator, Id, Refusal};
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{
    Acquire, AcquireError, Grant, Holder, IdClock, Keeper, LeaseEntry, LeaseStore, Outage, Realm,
    Release, ReleaseError, Renew, RenewError, Renewal, StoreStatus, Terms, os,
};

use crate::{Extent, grouped};

const THREADS: usize = 64;
const LEAST_SHARE: f64 = 99.5;

/// The shortest windows there are: a renewal about every 300 ms.
const WINDOW: Duration = Duration::from_secs(1);
const RENEW: Duration = Duration::from_millis(300);

pub(crate) fn run(report: &mut Report, extent: Extent) {
    let format = Format::DEFAULT;
    let store = Arc::new(Watched::new(MemoryStore::new(format, (0, 3)).unwrap()));
    let clock = IdClock::start();
    let generator = Generator::new(format, Arc::clone(&clock) as Arc<_>);
    let generator = Arc::new(generator.with_fork_guard(os::fork_guard()));
    let terms = Terms::new(WINDOW, RENEW).unwrap();
    let holder = Holder::new("fairness", "", "", "").unwrap();
    let lent = Arc::clone(&store) as Arc<dyn LeaseStore>;
    let keeper =
        Keeper::start(lent, Arc::clone(&generator), clock, terms, holder, Realm::default());
    let keeper = keeper.unwrap();
    keeper.wait_ready(Duration::from_secs(5)).unwrap();

    let marks = Marks::new(generator.next_id().unwrap(), extent.fairness_s);
    let before = keeper.status().outcomes;
    let mut counts = crowd(&generator, &marks, extent.fairness_s);
    let after = keeper.status().outcomes;
    keeper.stop().unwrap();
    counts.sort_unstable();

    let total: u64 = counts.iter().sum();
    println!("{THREADS} threads on one generator, {} ids, each checked", grouped(total));
    let share = marks.share();
    report.line("fairness: of the cap, together", share, "%", "at least 99.5");
    report.hold(share >= LEAST_SHARE, "64 threads get at least 99.5 % of the cap together");
    let each = total as f64 / THREADS as f64;
    for (name, place) in [("least", 0), ("median", THREADS / 2), ("most", THREADS - 1)] {
        let note = format!("{:.3} of an even share", counts[place] as f64 / each);
        report.line(&format!("fairness: {name} of a thread"), counts[place] as f64, "ids", &note);
    }
    let squares: f64 = counts.iter().map(|count| (*count as f64).powi(2)).sum();
    let jain = (total as f64).powi(2) / (THREADS as f64 * squares);
    report.line("fairness: Jain's index", jain, "", "1 is even");
    report.hold(counts[0] > 0, "no thread goes without ids");

    let gaps_ms = store.gaps_ms();
    let renewed = after.renewed - before.renewed;
    let longest = gaps_ms.iter().copied().fold(0.0, f64::max);
    report.line("fairness: renewals meanwhile", renewed as f64, "", "");
    let late = (longest - RENEW.as_secs_f64() * 1e3).max(0.0);
    report.line("fairness: the latest renewal was late by", late, "ms", "of 300");
    let refusals = generator.refusals();
    let of = |refusal: Refusal| refusals[refusal.index()];
    let lost = of(Refusal::NoLease) + of(Refusal::WindowEnd);
    let others: u64 = refusals.iter().sum::<u64>() - lost;
    report.line("fairness: refusals for want of a lease", lost as f64, "", "none");
    report.line("fairness: other refusals", others as f64, "", "a full tick");
    report.hold(lost == 0, "no call is refused for want of a lease");
    let kept = after.not_renewed == 0 && after.lost == 0 && after.granted == 1;
    report.hold(kept, "no renewal fails and no lease is lost");
    let least = extent.fairness_s * 1_000 / 300 - 1;
    report.hold(renewed >= least, format!("there are at least {least} renewals"));
}

/// Has the threads issue for so long; how many ids each had.
fn crowd(generator: &Generator, marks: &Marks, seconds: u64) -> Vec<u64> {
    let (ready, over) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut count) = (Id::MIN, 0);
                    ready.wait();
                    // ORDERING: Relaxed, here and below; it only ends the loop.
                    while !over.load(Ordering::Relaxed) {
                        let Ok(id) = generator.next_id() else { continue };
                        assert!(id > last, "{id} does not ascend");
                        marks.mark(id);
                        last = id;
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        ready.wait();
        marks.begin(generator);
        let until_ns = os::boot_ns() + seconds * 1_000_000_000;
        while let left @ 1.. = until_ns.saturating_sub(os::boot_ns()) {
            thread::park_timeout(Duration::from_nanos(left));
        }
        marks.end(generator);
        over.store(true, Ordering::Relaxed);
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A bit for every id there can be under one generator id while the crowd runs: a second mark is a
/// duplicate, and what is marked in whole ticks is the share of the cap.
struct Marks {
    generator_id: u64,
    first_tick: u64,
    words: Vec<AtomicU64>,
    began: AtomicU64,
    ended: AtomicU64,
}

impl Marks {
    /// For ids from this one on, for so many seconds and some more.
    fn new(first: Id, seconds: u64) -> Marks {
        let layout = Format::DEFAULT.layout();
        let parts = first.parts(layout);
        let ids = (seconds + 5) * 1_000 * layout.ids_per_tick();
        // Written once, so that no page is new to the crowd.
        let words: Vec<AtomicU64> = (0..ids / 64).map(|_| AtomicU64::new(u64::MAX)).collect();
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed)); // ORDERING: not yet shared
        Marks {
            generator_id: parts.generator_id,
            first_tick: parts.tick.0,
            words,
            began: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        }
    }

    fn mark(&self, id: Id) {
        let layout = Format::DEFAULT.layout();
        let parts = id.parts(layout);
        assert_eq!(parts.generator_id, self.generator_id, "the lease was lost");
        let bit = (parts.tick.0 - self.first_tick) * layout.ids_per_tick() + parts.sequence;
        let word = &self.words[usize::try_from(bit / 64).unwrap()];
        // ORDERING: Relaxed; of two marks on one word the later sees the earlier.
        let before = word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        assert_eq!(before >> (bit % 64) & 1, 0, "{id} was issued twice");
    }

    /// The crowd is complete: whole ticks count from the next on. The id drawn for that is dropped,
    /// one of 4,096.
    fn begin(&self, generator: &Generator) {
        self.began.store(self.tick(generator) + 1, Ordering::Relaxed); // ORDERING: read after all
    }

    /// The crowd is about to go.
    fn end(&self, generator: &Generator) {
        self.ended.store(self.tick(generator), Ordering::Relaxed); // ORDERING: read after all
    }

    /// The tick that runs now, from the first.
    fn tick(&self, generator: &Generator) -> u64 {
        let layout = Format::DEFAULT.layout();
        loop {
            if let Ok(id) = generator.next_id() {
                return id.parts(layout).tick.0 - self.first_tick;
            }
        }
    }

    /// Ids issued in the whole ticks, in percent of those there were.
    fn share(&self) -> f64 {
        // ORDERING: Relaxed; all threads are joined.
        let (began, ended) =
            (self.began.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed));
        let words_a_tick = Format::DEFAULT.layout().ids_per_tick() / 64;
        let place = |tick: u64| usize::try_from(tick * words_a_tick).unwrap();
        let words = &self.words[place(began)..place(ended)];
        // ORDERING: Relaxed; as above.
        let marked = words.iter().map(|word| word.load(Ordering::Relaxed).count_ones());
        let marked: u64 = marked.map(u64::from).sum();
        marked as f64 / (words.len() as f64 * 64.0) * 100.0
    }
}

/// The store in memory, with the times at which it was asked for the lease.
#[derive(Debug)]
struct Watched {
    store: MemoryStore,
    asked_ns: Mutex<Vec<u64>>,
}

impl Watched {
    fn new(store: MemoryStore) -> Watched {
        Watched { store, asked_ns: Mutex::new(Vec::new()) }
    }

    fn note(&self) {
        self.asked_ns.lock().unwrap().push(os::boot_ns());
    }

    /// Milliseconds from each ask to the next.
    fn gaps_ms(&self) -> Vec<f64> {
        let asked = self.asked_ns.lock().unwrap();
        asked.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect()
    }
}

impl LeaseStore for Watched {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.store.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        self.note();
        self.store.acquire(ask)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.note();
        self.store.renew(ask)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.store.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.store.list()
    }
}
