//! How an id clock stands, for people and metrics.

use std::fmt;
use std::time::Duration;

use snowlease_core::Gauge;

use super::Gauged;
use super::discipline::{Counts, Discipline, Mover, Step, Verdict};
use crate::os::KernelTime;

/// How the id clock stands against the other clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockStatus {
    /// Wall clock minus id clock when last looked at, in ns.
    pub offset_ns: i64,
    /// Reference clock minus id clock, in ns, and how far off that may be, if the store has a clock
    /// of its own and has answered.
    pub reference_ahead_ns: Option<(i64, u64)>,
    /// How far the id clock was ahead of the reference clock at worst in the last minute or two, in
    /// ns; of the wall clock, where there is no reference.
    pub lead_ns: u64,
    /// As `lead_ns`, behind.
    pub lag_ns: u64,
    /// The wall clock stands apart, and what is known of it.
    pub step: Option<Step>,
    /// How often what was seen.
    pub counts: Counts,
    /// What the kernel says of the wall clock.
    pub kernel: Option<KernelTime>,
    /// How far the tick of an id may be from the host's disciplined time (G3), or why nobody can
    /// say.
    pub bound: Result<Duration, Unbounded>,
    /// The reference clock is further off than is worth a warning.
    pub skewed: bool,
    /// What calls check the time by, and what that costs.
    pub gauged: Gauged,
}

/// Why the order of ids among hosts has no bound for now. They are unique all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbounded {
    /// The kernel does not say how good the wall clock is.
    Untold,
    /// Nothing keeps the wall clock synchronised, as far as the kernel knows. Run chrony, or
    /// another daemon that does.
    Unsynchronised,
    /// The kernel's estimate of its error is too large. Look at the daemon that synchronises it.
    Error(Duration),
    /// The wall clock was set, and stands apart from the id clock.
    Stepped,
    /// The id clock is being slewed and still further off than the bound.
    Slewing(Duration),
}

impl ClockStatus {
    /// What `discipline` has found.
    pub(super) fn of(discipline: &Discipline, gauged: Gauged) -> ClockStatus {
        let (lead_ns, lag_ns) = discipline.worst_ns();
        let warn_ns = snowlease_core::clock::nanos(discipline.terms().warn);
        let reference_ahead_ns = discipline.reference_ahead_ns();
        ClockStatus {
            offset_ns: discipline.wall_ahead_ns(),
            reference_ahead_ns,
            lead_ns,
            lag_ns,
            step: discipline.step(),
            counts: discipline.counts(),
            kernel: discipline.kernel(),
            bound: bound(discipline),
            skewed: reference_ahead_ns.is_some_and(|(ahead_ns, error_ns)| {
                ahead_ns.unsigned_abs() > warn_ns.saturating_add(error_ns)
            }),
            gauged,
        }
    }

    /// Nothing is known.
    pub(crate) fn untold() -> ClockStatus {
        ClockStatus {
            offset_ns: 0,
            reference_ahead_ns: None,
            lead_ns: 0,
            lag_ns: 0,
            step: None,
            counts: Counts::default(),
            kernel: None,
            bound: Err(Unbounded::Untold),
            skewed: false,
            gauged: Gauged { gauge: Gauge::BOOTTIME, boot_read_ns: 0 },
        }
    }

    /// What a person should know, in words with what to do; `None` if all is well.
    pub fn alarm(&self) -> Option<String> {
        if let Some(step) = self.step {
            return Some(told(&step));
        }
        let (ahead_ns, _) = self.reference_ahead_ns.filter(|_| self.skewed)?;
        let (ms, way) =
            (ahead_ns.unsigned_abs() / 1_000_000, if ahead_ns > 0 { "behind" } else { "ahead of" });
        Some(format!(
            "the clock of this host is {ms} ms {way} the reference clock: check what synchronises \
             it; beyond 2 s no lease is granted"
        ))
    }
}

/// Why a wall clock that the kernel says this of is not known to be right; `None` if it is.
///
/// `max_error` is [`ClockTerms::max_error`](crate::ClockTerms::max_error).
pub fn distrust(kernel: Option<KernelTime>, max_error: Duration) -> Option<Unbounded> {
    let Some(kernel) = kernel else { return Some(Unbounded::Untold) };
    if !kernel.synchronised {
        return Some(Unbounded::Unsynchronised);
    }
    let us = u64::try_from(kernel.max_error_us).unwrap_or(u64::MAX);
    (!kernel.is_sure(max_error)).then(|| Unbounded::Error(Duration::from_micros(us)))
}

/// The bound in force. Against the wall clock, since that is the host's disciplined time.
fn bound(discipline: &Discipline) -> Result<Duration, Unbounded> {
    let terms = discipline.terms();
    if discipline.step().is_some() {
        return Err(Unbounded::Stepped);
    }
    if let Some(why) = distrust(discipline.kernel(), terms.max_error) {
        return Err(why);
    }
    let away = Duration::from_nanos(discipline.wall_ahead_ns().unsigned_abs());
    if away > terms.bound { Err(Unbounded::Slewing(away)) } else { Ok(terms.bound) }
}

fn told(step: &Step) -> String {
    let (ms, way) = (step.by_ns.unsigned_abs() / 1_000_000, way(step.by_ns));
    let what = match step.mover {
        Mover::Wall => format!("the clock of this host was set: it is {ms} ms {way} its ids"),
        Mover::Boot => format!(
            "the boot clock of this host moved without its wall clock, which is {ms} ms {way} its \
             ids now"
        ),
        Mover::Drift => format!("the clock of this host has run off: it is {ms} ms {way} its ids"),
    };
    let rest = match step.verdict {
        Verdict::Asking => "the lease store is being asked whether it is right",
        Verdict::Confirmed => "the reference clock, or the kernel, confirms it: ids will follow",
        Verdict::Contradicted => {
            "the reference clock contradicts it: ids go on by the reference; set the clock right"
        }
        Verdict::Unanswered => {
            "no reference clock says whether it is right: ids go on by the old time and are \
             unique; if it is right, restart this process, else set it right"
        }
    };
    format!("{what}; {rest}")
}

fn way(ahead_ns: i64) -> &'static str {
    if ahead_ns < 0 { "behind" } else { "ahead of" }
}

impl fmt::Display for Unbounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unbounded::Untold => f.write_str("the kernel does not say how good the clock is"),
            Unbounded::Unsynchronised => f.write_str(
                "the kernel says that nothing synchronises the clock: run chrony, or another \
                 daemon that does",
            ),
            Unbounded::Error(error) => {
                write!(f, "the clock may be off by {error:?}, by the kernel's estimate")
            }
            Unbounded::Stepped => f.write_str("the clock was set, and ids have not followed"),
            Unbounded::Slewing(away) => {
                write!(f, "the clock is {away:?} from the ids, which are following it slowly")
            }
        }
    }
}
