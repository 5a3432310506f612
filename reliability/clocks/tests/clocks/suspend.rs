//! The host sleeps, or the process stands still: on the boot clock with and without the wall clock,
//! and by SIGSTOP.

use std::time::Duration;

use snowlease_clocks::true_ns;

use crate::fakes::Fakes;
use crate::holder::Holder;
use crate::scene::{LEFT_ALONE_MS, LOADED, SETTLED, Scene};
use crate::service::{Service, WINDOW};
use crate::time::{TrueTime, ms, ns, pause};

const TEN_MINUTES_MS: i64 = 600_000;
const ALONE: (i64, i64) = (LEFT_ALONE_MS, LEFT_ALONE_MS);

/// What a holder may say while it has no window, or is asking.
const WITHOUT_WINDOW: [&str; 3] = ["window-end", "no-lease", "clock-stepped"];

/// Until ids flow again where the window was over: a look at the clock, a lease, the longest pause.
const BACK: Duration = ms(250 + 3_000 + 3_000 + 1_500);

/// A suspend that both clocks of a host have counted: the window is over, and nothing is issued
/// until somebody has confirmed another.
#[test]
fn after_a_suspend_of_ten_minutes_nothing_is_issued_before_a_renewal() {
    let mut scene = Scene::on_one_host();
    pause(ms(500));
    // So that nobody renews at once.
    scene.service.process.stop();
    let slept_ns = true_ns();
    scene.fakes().boot_by_ms(TEN_MINUTES_MS);
    scene.fakes().wall_by_ms(TEN_MINUTES_MS);
    // A tick that was running may end first: the processor's counter is no part of this suspend.
    pause(ms(2));
    let woken_ns = true_ns();
    pause(ms(1_500));
    let answered_ns = true_ns();
    scene.service.process.go_on();
    pause(BACK);
    let back_ns = true_ns();
    pause(ms(1_500));
    let ended_ns = true_ns();
    // Ids keep the clock of their host: the old one until it slept, the new one ever since.
    let log = scene.judged(false);
    log.is_near((scene.begun_ns, slept_ns), scene.true_wall(), ALONE);
    log.is_silent(woken_ns, answered_ns);
    log.is_near((answered_ns, ended_ns), scene.wall_off(TEN_MINUTES_MS), ALONE);
    log.refuses_only(&WITHOUT_WINDOW, ms(3_000));
    log.flows(back_ns, ended_ns, LOADED);
}

/// The boot clock alone: the reference confirms the wall clock, so the id clock was wrong.
#[test]
fn a_suspend_that_only_the_boot_clock_saw_moves_no_id() {
    let mut scene = Scene::on_two_hosts();
    pause(ms(500));
    scene.fakes().boot_by_ms(TEN_MINUTES_MS);
    pause(BACK);
    let back_ns = true_ns();
    pause(ms(1_500));
    let ended_ns = true_ns();
    let log = scene.judged(true);
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), ALONE);
    log.refuses_only(&WITHOUT_WINDOW, ms(3_000));
    log.flows(scene.begun_ns, ended_ns, BACK);
    log.flows(back_ns, ended_ns, LOADED);
    assert!(scene.holder.steps() >= 1);
}

/// G4: a call that begins after the lease's real time returns nothing late; the tick of each id is
/// the one of its call, however long the process stood still before.
#[track_caller]
fn a_process_that_stood_still(window: Duration, renew: Duration, still: Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "any");
    let service = Service::start_with_terms(folder.path(), None, (window, renew), &[]);
    service.becomes_ready();
    let mut holder = Holder::start_with(folder.path(), "a", &fakes, &service, (window, renew), 3);
    holder.issues();
    let time = TrueTime::look();
    let begun_ns = true_ns();
    pause(ms(300));
    holder.process.stop();
    let stopped_ns = true_ns();
    pause(still);
    let woken_ns = true_ns();
    holder.process.go_on();
    pause(ms(2_500));
    let ended_ns = true_ns();

    assert!(holder.process.runs());
    assert_eq!(holder.errors(), "");
    let log = holder.log();
    log.ascends(false);
    crate::judge::unique(&[&log]);
    log.is_near((begun_ns, ended_ns), |ns| time.unix_ms(ns), ALONE);
    // No more than one call of each thread was under way.
    let during = log
        .ids()
        .into_iter()
        .filter(|drawn| (stopped_ns + ns(ms(100))..woken_ns).contains(&drawn.ended_ns));
    assert_eq!(during.count(), 0, "it did not stand still");
    log.refuses_only(&WITHOUT_WINDOW, ms(3_000));
    // A renewal is one call to a service that answers.
    log.flows(woken_ns, ended_ns, LOADED);
    assert_eq!(holder.steps(), 0);
    // Beyond the window, the first call is refused or comes after a renewal: whichever thread is
    // given a core first. That nothing is issued without one is judged where nobody answers.
    if still + renew < window {
        assert_eq!(log.codes().len(), 0, "{:?}", log.codes());
    }
}

#[test]
fn fifteen_seconds_still_under_a_window_of_ten_issue_nothing_late() {
    a_process_that_stood_still(ms(10_000), ms(3_000), ms(15_000));
}

#[test]
fn five_seconds_still_under_a_window_of_three_issue_nothing_late() {
    a_process_that_stood_still(ms(3_000), ms(1_000), ms(5_000));
}

#[test]
fn half_a_second_still_is_not_even_refused() {
    a_process_that_stood_still(ms(3_000), ms(1_000), ms(500));
}

/// The service stands still: holders go on to the end of what was confirmed, and not beyond.
#[test]
fn a_service_that_stands_still_lets_no_holder_past_its_window() {
    let mut scene = Scene::on_two_hosts();
    pause(ms(500));
    scene.service.process.stop();
    let stopped_ns = true_ns();
    pause(WINDOW + ms(3_000));
    let woken_ns = true_ns();
    scene.service.process.go_on();
    pause(ms(4_500));
    let ended_ns = true_ns();
    let log = scene.judged(false);
    // The last renewal was answered before; its time is counted from before it was sent.
    log.is_silent(stopped_ns + ns(WINDOW), woken_ns);
    // It was renewed at most a second and a bit before; one attempt of 712 ms may be under way.
    log.flows(stopped_ns, stopped_ns + ns(ms(1_000)), LOADED);
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), ALONE);
    log.refuses_only(&WITHOUT_WINDOW, ms(3_000));
    log.flows(woken_ns + ns(ms(3_000)), ended_ns, LOADED);
}

/// Both stand still, and the holder wakes up first: with nobody to ask, it issues nothing.
#[test]
fn a_holder_that_wakes_before_its_service_issues_nothing() {
    let mut scene = Scene::on_two_hosts();
    pause(ms(300));
    scene.service.process.stop();
    scene.holder.process.stop();
    pause(WINDOW + ms(500));
    let woken_ns = true_ns();
    scene.holder.process.go_on();
    pause(ms(2_000));
    let answered_ns = true_ns();
    scene.service.process.go_on();
    pause(SETTLED);
    let ended_ns = true_ns();
    let log = scene.judged(false);
    log.is_silent(woken_ns, answered_ns);
    log.refuses_only(&WITHOUT_WINDOW, ms(3_000));
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), ALONE);
    log.flows(answered_ns + ns(ms(3_000)), ended_ns, LOADED);
    assert!(!log.codes().is_empty(), "nobody asked meanwhile");
}
