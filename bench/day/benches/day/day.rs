//! The day: every id that a fleet issues in one, at the pace that this machine can check.

use std::hint::black_box;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use snowlease_bench_day::{Checker, Fleet, Leased, Memory, Report, Ticks, processor_ns};
use snowlease_core::{Format, Id, Layout, Tick};
use snowlease_lease::{Terms, os};

use crate::{Extent, MOST_MEMORY, grouped, mib};

/// Each fleet has to be through its day within this.
const MOST_SECONDS: f64 = 60.0;

/// Windows so short that each lease is renewed several times in a run.
const WINDOW: Duration = Duration::from_secs(6);
const RENEW: Duration = Duration::from_secs(2);

/// A generator, what has been seen of it, and how many ids it is to issue still.
struct Post {
    leased: Leased,
    checker: Checker,
    left: u64,
}

/// What a run took of the time, and of the processors.
struct Took {
    ns: u64,
    processor_ns: u64,
}

/// Both fleets of the stated load: wide sequences, and many generator ids.
pub(crate) fn both(report: &mut Report, extent: Extent) {
    for layout in [Layout::DEFAULT, Layout::FLEET] {
        one(report, extent, layout);
    }
}

fn one(report: &mut Report, extent: Extent, layout: Layout) {
    let format = Format::new(layout, 1, Format::DEFAULT.epoch_ms()).unwrap();
    let terms = Terms::new(WINDOW, RENEW).unwrap();
    let fleet = Fleet::new(format, terms);
    let generators = layout.generator_ids();
    let before = Memory::now();
    let mut posts: Vec<Post> = (0..generators)
        .map(|number| {
            let leased = fleet.lease();
            let checker = Checker::new(layout, leased.generator_id());
            let left = extent.ids / generators + u64::from(number < extent.ids % generators);
            Post { leased, checker, left }
        })
        .collect();
    let after = Memory::now();
    let memory = |after: u64, before: u64| after.saturating_sub(before) as f64 / generators as f64;

    // What the same ids cost unchecked, from the same generators; they are no part of the day.
    let batch = layout.ids_per_tick();
    let each = (extent.ids / 20 / generators / batch).max(1) * batch;
    let unchecked_ids = each * generators;
    let quotas: Vec<u64> = posts.iter().map(|post| post.left).collect();
    posts.iter_mut().for_each(|post| post.left = each);
    let unchecked = run(&fleet, &mut posts, extent, layout, unchecked_ids, false);
    for (post, quota) in posts.iter_mut().zip(quotas) {
        post.left = quota;
    }
    let took = run(&fleet, &mut posts, extent, layout, extent.ids, true);

    let checked: u64 = posts.iter().map(|post| post.checker.checked()).sum();
    assert_eq!(checked, extent.ids, "not every id was issued and checked");
    let ids: std::collections::BTreeSet<u64> =
        posts.iter().map(|post| post.leased.generator_id()).collect();
    assert_eq!(ids.len() as u64, generators, "a generator id was granted twice");
    let renewals: u64 = posts.iter().map(|post| post.leased.renewals()).sum();
    let waits: u64 = posts.iter().map(|post| post.leased.generator.waits()).sum();
    let seconds = took.ns as f64 / 1e9;
    let what = |what: &str| format!("{layout}: {what}");
    println!("{} ids under {} generator ids, each checked", grouped(checked), grouped(generators));
    report.line(&what("the whole of it took"), seconds, "s", "at most 60");
    let rate = checked as f64 / seconds / 1e6;
    report.line(&what("ids a second"), rate, "M/s", &format!("on {} threads", extent.threads));
    for (name, took, ids) in
        [("an id with its check", &took, checked), ("an id without", &unchecked, unchecked_ids)]
    {
        let threads_ns = took.ns * extent.threads as u64;
        let note = format!("{:.2} of a thread's time", threads_ns as f64 / ids.max(1) as f64);
        let spent = took.processor_ns as f64 / ids.max(1) as f64;
        report.line(&what(name), spent, "ns", &note);
    }
    let batch =
        batch_of(layout) as f64 * unchecked.processor_ns as f64 / unchecked_ids.max(1) as f64;
    let note = format!("{} ids", grouped(batch_of(layout) as u64));
    report.line(&what("a batch without"), batch, "ns", &note);
    report.line(&what("renewals meanwhile"), renewals as f64, "", "windows of 6 s");
    report.line(&what("batches that waited for a tick"), waits as f64, "", "");
    let resident = memory(after.resident, before.resident);
    report.line(&what("resident for a generator and its lease"), resident, "bytes", "");
    let reserved = memory(after.reserved, before.reserved);
    report.line(&what("address space for the same"), reserved, "bytes", "");
    let tables = memory(after.tables, before.tables);
    report.line(&what("page tables for the same"), tables, "bytes", "");
    let most = Memory::now().most;
    report.line(&what("most memory so far"), mib(most), "MiB", "at most 1,024");
    report.hold(seconds <= MOST_SECONDS, format!("{layout}: a day takes at most 60 s"));
    report.hold(most < MOST_MEMORY, format!("{layout}: a day has less than 1 GiB of memory"));
}

/// A whole tick: a batch begins where the one before has ended, so none has to wait for the next.
fn batch_of(layout: Layout) -> usize {
    usize::try_from(layout.ids_per_tick()).unwrap()
}

/// Has every post issue what it has left, a thread for each core; how long that took.
fn run(
    fleet: &Fleet,
    posts: &mut [Post],
    extent: Extent,
    layout: Layout,
    ids: u64,
    checked: bool,
) -> Took {
    let issued = AtomicU64::new(0);
    let share = posts.len().div_ceil(extent.threads);
    let (began_ns, spent_ns) = (os::boot_ns(), processor_ns());
    thread::scope(|scope| {
        let threads: Vec<_> = posts
            .chunks_mut(share)
            .map(|posts| scope.spawn(|| work(fleet, posts, layout, &issued, checked)))
            .collect();
        while checked && !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
            progress(layout, &issued, ids, began_ns);
            thread::park_timeout(Duration::from_millis(100));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    Took { ns: os::boot_ns() - began_ns, processor_ns: processor_ns() - spent_ns }
}

fn work(fleet: &Fleet, posts: &mut [Post], layout: Layout, issued: &AtomicU64, checked: bool) {
    let mut ids = vec![Id::MIN; batch_of(layout)];
    let ticking = Running::start();
    loop {
        let mut round = 0;
        for post in posts.iter_mut().filter(|post| post.left > 0) {
            let n = post.left.min(ids.len() as u64);
            let batch = &mut ids[..usize::try_from(n).unwrap()];
            let began_ns = os::boot_ns();
            fleet.renew_if_due(&mut post.leased, began_ns);
            if let Err(refusal) = post.leased.generator.next_ids_into(batch) {
                panic!("generator id {}: {refusal}", post.leased.generator_id());
            }
            if checked {
                let call = ticking.between(began_ns, os::boot_ns());
                let ticks = Ticks { window: post.leased.window(), call };
                if let Err(fault) = post.checker.check(batch, ticks) {
                    panic!("generator id {}: {fault}: {ticks:?}", post.leased.generator_id());
                }
            } else {
                black_box(batch);
            }
            post.left -= n;
            round += n;
        }
        if round == 0 {
            return;
        }
        // ORDERING: Relaxed; a number for the eye.
        issued.fetch_add(round, Ordering::Relaxed);
    }
}

/// Which ticks ran when, by the wall clock at the start and the boot clock since: not by the clock
/// that the generators go by.
struct Running {
    wall_ns: i64,
    boot_ns: u64,
}

impl Running {
    fn start() -> Running {
        Running { wall_ns: i64::try_from(os::wall_ns()).unwrap(), boot_ns: os::boot_ns() }
    }

    /// The ticks of a call. Two clocks that were seeded one after the other differ by less than a
    /// tick, so one more at each end may be.
    fn between(&self, began_ns: u64, ended_ns: u64) -> (Tick, Tick) {
        let tick = |boot_ns: u64| {
            let since_ns = boot_ns - self.boot_ns;
            let unix_ms = self.wall_ns.saturating_add_unsigned(since_ns).div_euclid(1_000_000);
            Format::DEFAULT.tick_at_ms(unix_ms).unwrap().0
        };
        (Tick(tick(began_ns) - 1), Tick(tick(ended_ns) + 1))
    }
}

/// A bar for whoever waits at a terminal.
fn progress(layout: Layout, issued: &AtomicU64, ids: u64, began_ns: u64) {
    let mut terminal = std::io::stderr();
    if !terminal.is_terminal() {
        return;
    }
    // ORDERING: Relaxed; a number for the eye.
    let done = issued.load(Ordering::Relaxed).min(ids);
    let percent = usize::try_from(done * 100 / ids.max(1)).unwrap_or(0);
    let seconds = (os::boot_ns() - began_ns) as f64 / 1e9;
    let bar = "#".repeat(percent / 2);
    let end = if done == ids { "\n" } else { "" };
    // Whether the terminal takes it is nobody's concern.
    let _ = write!(terminal, "\r{layout} [{bar:<50}] {percent:>3} % {seconds:>5.1} s{end}");
}
