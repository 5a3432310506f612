//! The wall clock is set: by what nobody sees, by seconds and by an hour, rightly and wrongly.

use snowlease_clocks::true_ns;

use crate::fakes::Fakes;
use crate::scene::{LEFT_ALONE_MS, LOADED, SETTLED, SLEW_MS, Scene, judged, kernel_vouches};
use crate::service::Service;
use crate::time::{TrueTime, ms, ns, pause};

const HOUR_MS: i64 = 3_600_000;

/// The longest pause that a caller may be told of.
const PAUSE: std::time::Duration = ms(3_000);

/// After this nothing of a step is left.
const CALM: std::time::Duration = ms(2_000);

#[test]
fn five_ms_either_way_are_made_up_for_unseen() {
    let mut scene = Scene::on_two_hosts();
    for off_ms in [5, -5, 0] {
        scene.fakes().wall_by_ms(off_ms);
        pause(ms(1_500));
    }
    let ended_ns = true_ns();
    let log = scene.judged(false);
    assert_eq!(scene.holder.steps(), 0);
    log.refuses_only(&[], ms(0));
    log.flows(scene.begun_ns, ended_ns, LOADED);
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), (5, 5));
}

/// The reference confirms the wall clock: whoever was ahead of it goes on under another generator
/// id, whoever was behind under a longer lease.
#[track_caller]
fn a_confirmed_step_is_followed(step_ms: i64) {
    let mut scene = Scene::on_one_host();
    pause(ms(500));
    let stepped_ns = true_ns();
    scene.fakes().wall_by_ms(step_ms);
    pause(SETTLED);
    let settled_ns = true_ns();
    pause(CALM);
    let ended_ns = true_ns();

    let back = step_ms < 0;
    let log = scene.judged(back);
    assert!(scene.holder.steps() >= 1);
    log.refuses_only(&["clock-stepped"], PAUSE);
    log.flows(scene.begun_ns, ended_ns, SETTLED);
    log.flows(settled_ns, ended_ns, LOADED);
    let alone = (LEFT_ALONE_MS, LEFT_ALONE_MS);
    log.is_near((scene.begun_ns, stepped_ns), scene.true_wall(), alone);
    log.is_near((settled_ns, ended_ns), scene.wall_off(step_ms), alone);
    if back {
        // One generator id cannot have both times.
        let before = log.generator_ids(scene.begun_ns, stepped_ns);
        let since = log.generator_ids(settled_ns, ended_ns);
        assert!(before.is_disjoint(&since), "{before:?} and {since:?}");
    }
}

#[test]
fn two_seconds_back_that_the_reference_confirms_are_followed() {
    a_confirmed_step_is_followed(-2_000);
}

#[test]
fn two_seconds_ahead_that_the_reference_confirms_are_followed() {
    a_confirmed_step_is_followed(2_000);
}

#[test]
fn an_hour_back_that_the_reference_confirms_is_followed() {
    a_confirmed_step_is_followed(-HOUR_MS);
}

#[test]
fn an_hour_ahead_that_the_reference_confirms_is_followed() {
    a_confirmed_step_is_followed(HOUR_MS);
}

/// The reference contradicts the wall clock: ids keep the true time, and go on.
#[track_caller]
fn a_contradicted_step_is_not_followed(step_ms: i64) {
    let mut scene = Scene::on_two_hosts();
    pause(ms(500));
    scene.fakes().wall_by_ms(step_ms);
    pause(SETTLED);
    let settled_ns = true_ns();
    pause(CALM);
    assert!(scene.holder.steps() >= 1);
    // And back: the clock is right again, and nothing is left of it.
    scene.fakes().wall_by_ms(0);
    pause(SETTLED);
    let righted_ns = true_ns();
    pause(CALM);
    let ended_ns = true_ns();

    let log = scene.judged(false);
    log.refuses_only(&["clock-stepped"], PAUSE);
    log.flows(scene.begun_ns, ended_ns, SETTLED);
    log.flows(settled_ns, settled_ns + ns(CALM), LOADED);
    log.flows(righted_ns, ended_ns, LOADED);
    let alone = (LEFT_ALONE_MS, LEFT_ALONE_MS);
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), alone);
}

#[test]
fn two_seconds_back_that_the_reference_contradicts_are_not_followed() {
    a_contradicted_step_is_not_followed(-2_000);
}

#[test]
fn two_seconds_ahead_that_the_reference_contradicts_are_not_followed() {
    a_contradicted_step_is_not_followed(2_000);
}

#[test]
fn an_hour_back_that_the_reference_contradicts_is_not_followed() {
    a_contradicted_step_is_not_followed(-HOUR_MS);
}

#[test]
fn an_hour_ahead_that_the_reference_contradicts_is_not_followed() {
    a_contradicted_step_is_not_followed(HOUR_MS);
}

/// An embedded store has no clock of its own. What the kernel says decides: where it holds its
/// wall clock to be synchronised, a step is followed; elsewhere ids go on, and an alarm stands.
#[track_caller]
fn a_step_without_a_reference(step_ms: i64) {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "service");
    let mut service = Service::start(folder.path(), Some(&fakes), &[]);
    service.becomes_ready();
    let time = TrueTime::look();
    let begun_ns = true_ns();
    service.draw(2);
    pause(ms(500));
    let stepped_ns = true_ns();
    fakes.wall_by_ms(step_ms);
    pause(SETTLED);
    let settled_ns = true_ns();
    // Longer than a window: what is in force was renewed since.
    pause(ms(4_000));
    let ended_ns = true_ns();

    let log = judged(&service, step_ms < 0 && kernel_vouches());
    assert!(service.steps() >= 1.0);
    log.refuses_only(&["clock-stepped"], PAUSE);
    log.flows(begun_ns, ended_ns, SETTLED);
    log.flows(settled_ns, ended_ns, LOADED);
    let alone = (LEFT_ALONE_MS, LEFT_ALONE_MS);
    log.is_near((begun_ns, stepped_ns), |ns| time.unix_ms(ns), alone);
    if kernel_vouches() {
        log.is_near((settled_ns, ended_ns), |ns| time.unix_ms(ns) + step_ms, alone);
    } else {
        // Nobody can say, so ids go on, and go towards the wall clock as slowly as ever.
        let all_ms = i64::try_from((ended_ns - stepped_ns) / 1_000_000).expect("it is short");
        let slewed = LEFT_ALONE_MS + all_ms * SLEW_MS / 1_000;
        let bounds = if step_ms < 0 { (slewed, LEFT_ALONE_MS) } else { (LEFT_ALONE_MS, slewed) };
        log.is_near((begun_ns, ended_ns), |ns| time.unix_ms(ns), bounds);
    }
    let alarm = service.metric("snowlease_clock_alarm");
    assert_eq!(alarm.map(|alarm| alarm > 0.0), Some(!kernel_vouches()));
}

#[test]
fn an_embedded_store_alone_outlives_two_seconds_back() {
    a_step_without_a_reference(-2_000);
}

#[test]
fn an_embedded_store_alone_outlives_two_seconds_ahead() {
    a_step_without_a_reference(2_000);
}

#[test]
fn an_embedded_store_alone_outlives_an_hour_back() {
    a_step_without_a_reference(-HOUR_MS);
}

#[test]
fn an_embedded_store_alone_outlives_an_hour_ahead() {
    a_step_without_a_reference(HOUR_MS);
}

/// A service that is wrong alone takes no id of its holders along. They cannot know who is wrong:
/// their own wall clock stands where it stood.
#[test]
fn a_service_that_is_set_alone_takes_nobody_along() {
    let mut scene = Scene::on_two_hosts();
    pause(ms(500));
    scene.of_service.wall_by_ms(HOUR_MS);
    // The service's own ids are not judged here: it has no reference.
    pause(SETTLED + CALM);
    let ended_ns = true_ns();
    let log = scene.judged(false);
    let alone = (LEFT_ALONE_MS, LEFT_ALONE_MS);
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), alone);
    assert_eq!(scene.holder.steps(), 0);
}
