//! The parts of a benchmark: generators as they run in production, proof first, medians after.
//!
//! A figure is printed only for ids that were shown distinct and ascending in the same setting; a
//! benchmark that times a constant measures something else.

use std::sync::Arc;
use std::time::Duration;

use snowlease_core::{Clock, Format, Gauge, Generator, Id, Layout, Moment, Tick, Window};
use snowlease_lease::{IdClock, os, ticking};

/// Which guard a generator uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The processor's counter, if this machine's kernel trusts it.
    Counter,
    /// A read of the boot clock, through the kernel's shared page.
    Boottime,
    /// None in a call: a thread publishes the ticks.
    Ticking,
}

/// The host's id clock, with the counter hidden.
#[derive(Debug)]
struct WithoutCounter(Arc<IdClock>);

impl Clock for WithoutCounter {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn boot_ns(&self) -> u64 {
        self.0.boot_ns()
    }
}

/// A generator on this host's clock, opened for all of its time field under generator id 3, or the
/// highest below it.
///
/// # Panics
///
/// If the layout has no room for the present, which the callers' layouts have.
pub fn generator(layout: Layout, guard: Guard) -> Arc<Generator> {
    generator_of(layout, guard, 3 & layout.max_generator_id())
}

/// The same under this generator id.
///
/// # Panics
///
/// As [`generator`], or if the layout has no such generator id.
#[expect(clippy::expect_used, reason = "a benchmark stops at the first surprise")]
pub fn generator_of(layout: Layout, guard: Guard, generator_id: u64) -> Arc<Generator> {
    let format = Format::new(layout, 1, Format::DEFAULT.epoch_ms()).expect("a format");
    let clock = IdClock::start();
    let generator = match guard {
        Guard::Counter => Arc::new(Generator::new(format, clock)),
        Guard::Boottime => Arc::new(Generator::new(format, Arc::new(WithoutCounter(clock)))),
        Guard::Ticking => {
            ticking(Generator::new(format, Arc::clone(&clock) as Arc<_>), clock).expect("a thread")
        }
    };
    let end = Tick(layout.max_tick() + 1);
    let window = Window::new(layout, generator_id, Tick(0), end).expect("a window");
    generator.open(window, u64::MAX).expect("an open generator");
    generator
}

/// Whether the counter is what [`Guard::Counter`] gets here.
pub fn counter_is_used() -> bool {
    matches!(IdClock::start().gauge(), Gauge::Counter { .. })
}

/// Spins until the next millisecond of the boot clock begins, outside of what is timed.
pub fn pace() {
    let millisecond = os::boot_ns() / 1_000_000;
    while os::boot_ns() / 1_000_000 == millisecond {
        std::hint::spin_loop();
    }
}

/// Nanoseconds that `work` takes.
pub fn timed(work: impl FnOnce()) -> u64 {
    let began_ns = os::boot_ns();
    work();
    os::boot_ns() - began_ns
}

/// Shows that ids are distinct and ascending.
///
/// # Panics
///
/// If they are not.
pub fn prove(what: &str, ids: &[Id]) {
    assert!(ids.len() > 1, "{what}: nothing was issued");
    assert!(ids.is_sorted_by(|a, b| a < b), "{what}: ids repeat or fall");
}

/// Median and spread of a figure over rounds.
#[derive(Debug)]
pub struct Figure {
    name: String,
    unit: &'static str,
    rounds: Vec<f64>,
}

impl Figure {
    /// A figure without rounds yet.
    pub fn new(name: impl Into<String>, unit: &'static str) -> Figure {
        Figure { name: name.into(), unit, rounds: Vec::new() }
    }

    /// Adds the result of a round.
    pub fn add(&mut self, value: f64) {
        self.rounds.push(value);
    }

    /// The median over the rounds.
    pub fn median(&mut self) -> f64 {
        self.rounds.sort_by(f64::total_cmp);
        self.rounds.get(self.rounds.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// One line: name, median, and the middle half of the rounds.
    pub fn line(&mut self) -> String {
        let median = self.median();
        let quarter = self.rounds.len() / 4;
        let (low, high) = (self.rounds[quarter], self.rounds[self.rounds.len() - 1 - quarter]);
        format!("{:<58} {median:>12.2} {:<7} [{low:.2} … {high:.2}]", self.name, self.unit)
    }
}

/// How long a round at the cap lasts.
pub const CAP_ROUND: Duration = Duration::from_secs(1);

/// Processor time so far, in clock ticks of the kernel: all of it, and what other guests of the
/// host took ("steal").
fn processor_time() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let fields: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    (fields.iter().take(8).sum(), fields.get(7).copied().unwrap_or(0))
}

/// What the threads of generators with the ticking guard have done so far: nanoseconds on a
/// processor, and how often they went to sleep.
pub fn tickers() -> (u64, u64) {
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let first = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let (mut ran_ns, mut sleeps) = (0, 0);
    for task in tasks.map(|task| task.path()) {
        if read(task.join("comm")).trim() != "snowlease-ticke" {
            continue; // the kernel keeps 15 letters
        }
        ran_ns += first(&read(task.join("schedstat"))).unwrap_or(0);
        let status = read(task.join("status"));
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sleeps += line.and_then(first).unwrap_or(0);
    }
    (ran_ns, sleeps)
}

/// How much of the machine was not there, for the reader of a figure.
#[derive(Debug)]
pub struct Stolen {
    before: (u64, u64),
}

impl Stolen {
    /// Starts to watch.
    pub fn watch() -> Stolen {
        Stolen { before: processor_time() }
    }

    /// One line: the share of the processors' time that went to other guests of the host.
    pub fn line(&self) -> String {
        let (all, stolen) = processor_time();
        let all = all.saturating_sub(self.before.0).max(1);
        #[expect(clippy::cast_precision_loss, reason = "figures are for people")]
        let share = stolen.saturating_sub(self.before.1) as f64 / all as f64 * 100.0;
        format!("{:<58} {share:>12.2} %", "processor time taken by other guests of the host")
    }
}
