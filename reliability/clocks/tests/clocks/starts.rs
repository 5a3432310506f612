//! Processes that start under a clock that no id can be made of, and come up by themselves once it
//! is set right.

use std::process::Command;

use snowlease_clocks::true_ns;
use snowlease_core::Format;

use crate::fakes::Fakes;
use crate::holder::Holder;
use crate::judge::{Log, unique};
use crate::process::snowlease;
use crate::scene::{LEFT_ALONE_MS, judged, no_panic};
use crate::service::{RENEW, Service, WINDOW};
use crate::time::{TrueTime, eventually, ms, pause};

/// The last second before 1970.
const BEFORE_1970_MS: i64 = -1_000;
const EPOCH_MS: i64 = Format::DEFAULT.epoch_ms();
const ALONE: (i64, i64) = (LEFT_ALONE_MS, LEFT_ALONE_MS);

/// A service that is started like this on the store it has had says why there are no ids, lives,
/// and serves once the clock is right: a host without a battery starts in 1970 each time.
#[track_caller]
fn a_service_comes_up(set: impl FnOnce(&Fakes)) {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "service");
    let before = Service::start(folder.path(), Some(&fakes), &[]);
    before.becomes_ready();
    drop(before);
    set(&fakes);
    let mut service = Service::start(folder.path(), Some(&fakes), &[]);
    service.draw(1);
    pause(ms(1_500));
    assert_eq!(service.get("/livez").0, 200);
    let (status, told) = service.get("/readyz");
    assert_eq!(status, 503, "{told}");
    assert!(told.contains("clock"), "it does not say that it is the clock: {told}");
    let (status, told) = service.get("/ids?n=1");
    assert_eq!(status, 503, "{told}");
    for path in ["/metrics", "/store", "/generators", "/ids/20987903/decode"] {
        let (status, told) = service.get(path);
        assert!(status == 200 || status == 503, "{path}: {status} {told}");
    }
    let early = service.log();
    assert_eq!(early.ids().len(), 0);
    assert_eq!(early.codes().iter().filter(|code| **code == "other").count(), 0);

    fakes.wall_by_ms(0);
    service.becomes_ready();
    let time = TrueTime::look();
    let ready_ns = true_ns();
    pause(ms(1_000));
    let ended_ns = true_ns();
    let log = judged(&service, false);
    log.is_near((ready_ns, ended_ns), |ns| time.unix_ms(ns), ALONE);
}

#[test]
fn a_service_started_before_1970_comes_up_once_the_clock_is_set() {
    a_service_comes_up(|fakes| fakes.wall_at_ms(BEFORE_1970_MS));
}

#[test]
fn a_service_started_before_the_epoch_comes_up_once_the_clock_is_set() {
    a_service_comes_up(|fakes| fakes.wall_at_ms(EPOCH_MS - 3_600_000));
}

#[test]
fn a_service_whose_clock_stands_at_1970_comes_up_once_it_is_set() {
    a_service_comes_up(|fakes| fakes.wall_stands_at_ms(0));
}

/// A store is made for good: with a clock that its first id could not be made by, it is not made,
/// and what is said names the clock.
#[test]
fn a_new_store_before_the_epoch_is_refused_in_words() {
    for set_ms in [BEFORE_1970_MS, EPOCH_MS - 1_000_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let fakes = Fakes::true_ones(folder.path(), "service");
        fakes.wall_at_ms(set_ms);
        let mut serve = snowlease();
        serve.args(["serve", "--listen", "127.0.0.1:0"]).current_dir(folder.path());
        let (code, out, err) = output(&mut serve, &fakes);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.contains("clock"), "it does not say that it may be the clock: {err}");
        assert!(!folder.path().join("snowlease.db").exists());
    }
}

/// The epoch passes while the service waits for it: its first ids have the first ticks there are.
#[test]
fn a_service_started_right_before_the_epoch_issues_from_its_first_ticks() {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "service");
    let time = TrueTime::look();
    // The store is made at the epoch itself. The lease of that start is not given back, and there
    // are others.
    fakes.wall_stands_at_ms(EPOCH_MS);
    let before = Service::start(folder.path(), Some(&fakes), &[]);
    drop(before);
    let off_ms = EPOCH_MS - 3_000 - time.now_ms();
    fakes.wall_by_ms(off_ms);
    let mut service = Service::start(folder.path(), Some(&fakes), &[]);
    service.draw(1);
    service.becomes_ready();
    pause(ms(1_000));
    let ended_ns = true_ns();
    let log = judged(&service, false);
    log.is_near((0, ended_ns), |ns| time.unix_ms(ns) + off_ms, ALONE);
    let first = log.ids()[0];
    let late_ms = log.unix_ms(first.id) - EPOCH_MS;
    // Not a whole attempt late: it knows when the epoch is.
    assert!((0..5_000).contains(&late_ms), "{late_ms} ms after the epoch");
}

/// A holder of a service whose clock is right.
#[track_caller]
fn a_holder_comes_up(set: impl FnOnce(&Fakes)) {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start(folder.path(), None, &[]);
    service.becomes_ready();
    let fakes = Fakes::true_ones(folder.path(), "holder");
    set(&fakes);
    let mut holder = Holder::start_with(folder.path(), "a", &fakes, &service, (WINDOW, RENEW), 2);
    eventually("it says why it has no lease", || !holder.connecting().is_empty());
    let why = holder.connecting();
    assert!(why.contains("clock"), "it does not say that it is the clock: {why}");
    assert!(holder.log().ids().is_empty());
    fakes.wall_by_ms(0);
    let time = TrueTime::look();
    holder.issues();
    pause(ms(1_000));
    assert!(holder.process.runs());
    assert_eq!(holder.errors(), "");
    let log = holder.log();
    unique(&[&log]);
    log.ascends(false);
    log.is_near((0, true_ns()), |ns| time.unix_ms(ns), ALONE);
    log.refuses_only(&[], ms(0));
}

#[test]
fn a_holder_started_before_1970_comes_up_once_the_clock_is_set() {
    a_holder_comes_up(|fakes| fakes.wall_at_ms(BEFORE_1970_MS));
}

#[test]
fn a_holder_started_before_the_epoch_comes_up_once_the_clock_is_set() {
    a_holder_comes_up(|fakes| fakes.wall_at_ms(EPOCH_MS - 1));
}

#[test]
fn a_holder_started_an_hour_ahead_comes_up_once_the_clock_is_set() {
    a_holder_comes_up(|fakes| fakes.wall_by_ms(3_600_000));
}

/// A crash loop under a clock that is set to and fro: whatever each start finds, no id comes twice.
#[test]
fn restarts_under_a_clock_that_jumps_repeat_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "service");
    let mut logs: Vec<Log> = Vec::new();
    for off_ms in [0, 3_600_000, -3_600_000, 500, 0, -1_000] {
        fakes.wall_by_ms(off_ms);
        let mut service = Service::start(folder.path(), Some(&fakes), &["--generators", "0-63"]);
        service.draw(2);
        pause(ms(700));
        no_panic(&service);
        let log = service.log();
        log.ascends(false);
        logs.push(log);
    }
    unique(&logs.iter().collect::<Vec<_>>());
    assert!(logs.iter().filter(|log| !log.ids().is_empty()).count() >= 2);
}

/// `snowlease next` and its like: one line on stderr, and an exit code that is no panic's.
#[test]
fn commands_before_1970_and_before_the_epoch_say_so() {
    for set_ms in [BEFORE_1970_MS, EPOCH_MS - 3_600_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let fakes = Fakes::true_ones(folder.path(), "any");
        fakes.wall_at_ms(set_ms);
        let mut next = snowlease();
        next.args(["next", "--store", "sqlite:ids.db"]).current_dir(folder.path());
        let ran = output(&mut next, &fakes);
        assert_eq!((ran.0, ran.1.as_str()), (Some(2), ""), "{}", ran.2);
        assert!(ran.2.contains("clock"), "{}", ran.2);
        // What needs no clock works as ever.
        let ran = output(snowlease().args(["decode", "20987903"]), &fakes);
        assert_eq!(ran.0, Some(0), "{}", ran.2);
    }
}

/// Runs it to its end: the exit code, stdout and stderr.
fn output(command: &mut Command, fakes: &Fakes) -> (Option<i32>, String, String) {
    let ran = fakes.dress(command).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (ran.status.code(), text(ran.stdout), text(ran.stderr))
}
