//! A process whose generator nobody uses: how often it wakes, and what that costs.

use std::time::Duration;

use crate::holder::Holder;
use crate::process::Process;
use crate::service::Service;
use crate::time::{eventually, ms, pause};

/// The terms of the promise: those that an application has.
const WINDOW: Duration = Duration::from_secs(60);
const RENEW: Duration = Duration::from_secs(20);

const WATCHED: Duration = Duration::from_secs(10);
const MOST_WAKES_PER_SECOND: u64 = 5;
/// 0.1 % of a core.
const MOST_SHARE: u64 = 1_000;

/// All threads together. A wake is a voluntary switch away, so a loaded machine adds none; what a
/// core is taken away for is not counted against the process either.
#[allow(clippy::print_stdout, reason = "the figures, for who wants more than the verdict")]
#[track_caller]
fn is_idle(process: &Process, what: &str) {
    // What starting has left to do is done.
    pause(ms(2_000));
    let watch = || {
        let (wakes, ran_ns) = process.toil();
        pause(WATCHED);
        let (wakes_then, ran_then_ns) = process.toil();
        (ran_then_ns - ran_ns, wakes_then - wakes)
    };
    // The better of two: what a hypervisor takes away may be counted against whoever ran.
    let (ran_ns, wakes) = watch().min(watch());
    let most_ns = u64::try_from(WATCHED.as_nanos()).expect("it is short") / MOST_SHARE;
    println!("{what}: {wakes} wakes and {} µs in 10 s", ran_ns / 1_000);
    assert!(wakes > 0, "it was not looked at");
    assert!(
        wakes <= MOST_WAKES_PER_SECOND * WATCHED.as_secs(),
        "{what}: {wakes} wakes in 10 s, at most 5 a second are right"
    );
    // Built for tests, this costs more than what is shipped; the bound is the same.
    assert!(ran_ns < most_ns, "{what}: {} µs in 10 s, of {} µs", ran_ns / 1_000, most_ns / 1_000);
}

#[test]
fn an_idle_holder_wakes_at_most_five_times_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start_with_terms(folder.path(), None, (WINDOW, RENEW), &[]);
    service.becomes_ready();
    // Under true clocks, and without the libraries that fake them: their cost is not its own.
    let holder = Holder::start_bare(folder.path(), "a", &service, (WINDOW, RENEW), 0);
    eventually("it has a lease", || holder.status("granted") == Some(1));
    is_idle(&holder.process, "an idle holder");
}

#[test]
fn an_idle_service_wakes_at_most_five_times_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start_with_terms(folder.path(), None, (WINDOW, RENEW), &[]);
    service.becomes_ready();
    is_idle(&service.process, "an idle service");
}
