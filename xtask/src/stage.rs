//! Stages: chores run one after another, each timed, all told in a table at the end.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// One step of a longer chore.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// Whether the stages after this one make no sense when it fails.
    pub(crate) gate: bool,
    pub(crate) run: fn() -> Result<()>,
}

/// How one stage ended.
struct Ended {
    name: &'static str,
    took: Duration,
    failure: Option<String>,
}

/// Runs `stages` (of them, `only` one if that is said) and prints what each took.
///
/// A failed stage does not end the run unless it is a gate: one run tells everything that is wrong.
/// Fails if a stage failed, or if together they took longer than `budget`.
pub(crate) fn run_all(
    stages: &[Stage],
    only: Option<&str>,
    budget: Option<Duration>,
) -> Result<()> {
    let mut ended = Vec::new();
    for stage in stages.iter().filter(|stage| only.is_none_or(|name| name == stage.name)) {
        println!("\n== {} ==", stage.name);
        let started = now();
        let failure = (stage.run)().err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            eprintln!("{}: {failure}", stage.name);
        }
        let stop = failure.is_some() && stage.gate;
        ended.push(Ended { name: stage.name, took: started.elapsed(), failure });
        if stop || over(&ended, budget) {
            break;
        }
    }
    print!("\n{}", table(&ended, budget));
    verdict(&ended, budget)
}

/// This is the one place in the project's own tools that reads a clock.
#[allow(clippy::disallowed_methods, reason = "times a chore of minutes; no promise rests on it")]
fn now() -> Instant {
    Instant::now()
}

fn total(ended: &[Ended]) -> Duration {
    ended.iter().map(|stage| stage.took).sum()
}

fn over(ended: &[Ended], budget: Option<Duration>) -> bool {
    budget.is_some_and(|budget| total(ended) > budget)
}

fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}.{}", seconds / 60, seconds % 60, duration.subsec_millis() / 100)
}

/// Minutes for each stage, then all of them against the budget.
fn table(ended: &[Ended], budget: Option<Duration>) -> String {
    let mut text = format!("{:12} {:>9}\n", "stage", "minutes");
    for stage in ended {
        let mark = if stage.failure.is_some() { "  FAILED" } else { "" };
        text += &format!("{:12} {:>9}{mark}\n", stage.name, minutes(stage.took));
    }
    let limit = budget.map(|budget| format!("  of {}", minutes(budget))).unwrap_or_default();
    text + &format!("{:12} {:>9}{limit}\n", "total", minutes(total(ended)))
}

fn verdict(ended: &[Ended], budget: Option<Duration>) -> Result<()> {
    let failed: Vec<_> = ended.iter().filter(|stage| stage.failure.is_some()).collect();
    println!("stages: {} passed, {} failed", ended.len() - failed.len(), failed.len());
    if over(ended, budget) {
        bail!("over its budget of time: make the slowest stage of the table faster");
    }
    if !failed.is_empty() {
        let told = failed
            .iter()
            .map(|stage| format!("  {}: {}", stage.name, stage.failure.as_deref().unwrap_or("")));
        bail!("these stages failed\n{}", told.collect::<Vec<_>>().join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Result<()> {
        Ok(())
    }

    fn broken() -> Result<()> {
        bail!("broken")
    }

    fn unreachable_stage() -> Result<()> {
        panic!("must not run")
    }

    fn stage(name: &'static str, gate: bool, run: fn() -> Result<()>) -> Stage {
        Stage { name, gate, run }
    }

    #[test]
    fn a_failure_fails_the_run_and_a_gate_ends_it() {
        let later = [stage("a", false, broken), stage("b", false, fine)];
        assert!(run_all(&later, None, None).unwrap_err().to_string().contains("a: broken"));
        let gated = [stage("a", true, broken), stage("b", false, unreachable_stage)];
        assert!(run_all(&gated, None, None).is_err());
    }

    #[test]
    fn only_runs_one() {
        let stages = [stage("a", false, unreachable_stage), stage("b", false, fine)];
        assert!(run_all(&stages, Some("b"), None).is_ok());
    }

    #[test]
    fn over_budget_fails_though_every_stage_passed() {
        let slow = [Ended { name: "a", took: Duration::from_secs(61), failure: None }];
        assert!(verdict(&slow, Some(Duration::from_secs(60))).is_err());
        assert!(verdict(&slow, Some(Duration::from_secs(61))).is_ok());
    }

    #[test]
    fn the_table_shows_minutes() {
        let ended = [Ended { name: "loom", took: Duration::from_millis(83_450), failure: None }];
        assert_eq!(
            table(&ended, Some(Duration::from_secs(1500))),
            "stage          minutes\nloom            1:23.4\ntotal           1:23.4  of 25:00.0\n"
        );
    }
}
