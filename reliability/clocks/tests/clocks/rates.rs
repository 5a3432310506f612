//! The wall clock stands still, or runs at twice its rate, on the holder's host alone.

use snowlease_clocks::true_ns;

use crate::judge::Log;
use crate::scene::{LEFT_ALONE_MS, LOADED, SETTLED, SLEW_MS, Scene};
use crate::time::{ms, pause};

/// The longest pause that a caller may be told of.
const PAUSE: std::time::Duration = ms(3_000);

/// What slewing may do in so many ms, beside what is left alone.
fn slewed(in_ms: i64) -> i64 {
    LEFT_ALONE_MS + in_ms * SLEW_MS / 1_000
}

/// Waits until what was done to the clocks is settled, and for a while of it: what was issued, and
/// when that while began and ended.
#[track_caller]
fn settled(scene: &mut Scene) -> (Log, u64, u64) {
    pause(SETTLED);
    let settled_ns = true_ns();
    pause(ms(2_000));
    let ended_ns = true_ns();
    let log = scene.judged(false);
    log.refuses_only(&["clock-stepped"], PAUSE);
    log.flows(scene.begun_ns, ended_ns, SETTLED);
    log.flows(settled_ns, ended_ns, LOADED);
    (log, settled_ns, ended_ns)
}

/// What is made up for while the offset is below half a second is turned back again once the clock
/// is right: nothing of it is ever more than the slew of the whole time.
#[track_caller]
fn nothing_but_slewed(mut scene: Scene, off_ms: i64) {
    let (log, _, ended_ns) = settled(&mut scene);
    let all_ms = i64::try_from((ended_ns - scene.begun_ns) / 1_000_000).expect("it is short");
    let most = slewed(all_ms);
    // Only towards the wrong clock.
    let bounds = if off_ms < 0 { (most, LEFT_ALONE_MS) } else { (LEFT_ALONE_MS, most) };
    log.is_near((scene.begun_ns, ended_ns), scene.true_wall(), bounds);
}

#[test]
fn a_wall_clock_that_stands_still_stops_no_ids() {
    let scene = Scene::on_two_hosts();
    pause(ms(500));
    scene.fakes().wall_stands_at_ms(scene.time.now_ms());
    pause(ms(4_000));
    scene.fakes().wall_by_ms(0);
    nothing_but_slewed(scene, -1);
}

#[test]
fn a_wall_clock_at_twice_its_rate_is_not_followed() {
    let scene = Scene::on_two_hosts();
    let off_ms = scene.fakes().wall_gains(scene.time, 4_000, 1);
    assert_eq!(off_ms, 4_000);
    nothing_but_slewed(scene, 1);
}

#[test]
fn a_wall_clock_at_twice_its_rate_and_back_leaves_nothing() {
    let scene = Scene::on_two_hosts();
    scene.fakes().wall_gains(scene.time, 3_000, 1);
    scene.fakes().wall_by_ms(0);
    nothing_but_slewed(scene, 1);
}

/// Both at once: the reference is as wrong as the holder, and confirms what is no step but a rate.
#[test]
fn a_whole_host_at_twice_its_rate_issues_in_order() {
    let mut scene = Scene::on_one_host();
    scene.fakes().wall_gains(scene.time, 4_000, 1);
    let (log, settled_ns, ended_ns) = settled(&mut scene);
    // What is left is below a step, and on its way.
    log.is_near((settled_ns, ended_ns), scene.wall_off(4_000), (500, LEFT_ALONE_MS));
}
