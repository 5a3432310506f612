//! The last tick there is, and seconds that come twice or not at all.

use snowlease_clocks::true_ns;
use snowlease_core::Format;

use crate::fakes::Fakes;
use crate::holder::Holder;
use crate::judge::unique;
use crate::scene::{LEFT_ALONE_MS, LOADED, SETTLED, SLEW_MS, Scene, judged, no_panic};
use crate::service::{RENEW, Service, WINDOW};
use crate::time::{TrueTime, eventually, ms, pause};

const ALONE: (i64, i64) = (LEFT_ALONE_MS, LEFT_ALONE_MS);

/// A time field of 30 bits of ms, 12 days long.
const SHORT: &str = "t30g10s23";
const SHORT_MS: i64 = 1 << 30;

/// A format that ends at this instant, as flags and as the judge needs it.
fn ending_at(end_ms: i64) -> (Vec<String>, Format) {
    let epoch_ms = end_ms - SHORT_MS;
    let layout = SHORT.parse().expect("it is a layout");
    let format = Format::new(layout, 1, epoch_ms).expect("it is a format");
    let flags = ["--layout", SHORT, "--tick", "1ms", "--epoch"].map(str::to_owned);
    let mut flags: Vec<String> = flags.into();
    flags.push(rfc3339(epoch_ms));
    (flags, format)
}

/// The time field ends while ids are issued: the last tick is used, and then a typed refusal.
#[test]
fn ids_flow_to_the_last_tick_and_then_end_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let time = TrueTime::look();
    let end_ms = time.now_ms() + 5_000;
    let (flags, format) = ending_at(end_ms);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let fakes = Fakes::true_ones(folder.path(), "any");
    let service = Service::start(folder.path(), Some(&fakes), &flags);
    service.becomes_ready();
    let mut holder = Holder::start_with(folder.path(), "a", &fakes, &service, (WINDOW, RENEW), 3)
        .of_format(format);
    holder.issues();
    let begun_ns = true_ns();
    assert!(time.now_ms() < end_ms, "this machine is too slow to start two programs in 5 s");
    eventually("the end", || time.now_ms() > end_ms + 3_000);
    let ended_ns = true_ns();

    assert!(holder.process.runs());
    assert_eq!(holder.errors(), "");
    no_panic(&service);
    let log = holder.log();
    unique(&[&log]);
    log.ascends(false);
    log.is_near((begun_ns, ended_ns), |ns| time.unix_ms(ns), ALONE);
    let last_ms = log.ids().iter().map(|drawn| log.unix_ms(drawn.id)).max().expect("there are ids");
    assert!(last_ms < end_ms, "{} ms past the end", last_ms - end_ms);
    // Windows end with the field: nobody lost the last second to a margin that nobody needs.
    assert!(last_ms >= end_ms - 1_500, "{} ms before the end", end_ms - last_ms);
    assert!(log.codes().contains("time-end"), "{:?}", log.codes());
    log.refuses_only(&["time-end", "window-end", "no-lease"], ms(3_000));
    let (status, told) = service.get("/ids?n=1");
    assert_eq!(status, 503, "{told}");
    assert!(told.contains("\"code\":\"time-end\""), "{told}");
}

/// Started past the end on the store it has had: it says so, typed, and does not wrap to the first
/// tick; and if it was the clock, ids flow once that is set.
#[test]
fn past_the_last_tick_nothing_starts_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let time = TrueTime::look();
    let (flags, _) = ending_at(time.now_ms() + 60_000);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let fakes = Fakes::true_ones(folder.path(), "any");
    let before = Service::start(folder.path(), Some(&fakes), &flags);
    before.becomes_ready();
    drop(before);
    fakes.wall_by_ms(120_000);
    let mut service = Service::start(folder.path(), Some(&fakes), &flags);
    service.draw(1);
    pause(ms(1_500));
    let (status, told) = service.get("/readyz");
    assert_eq!(status, 503, "{told}");
    let (status, told) = service.get("/ids?n=1");
    assert_eq!(status, 503, "{told}");
    assert!(service.log().ids().is_empty());
    fakes.wall_by_ms(0);
    service.becomes_ready();
    no_panic(&service);
}

/// A leap second that is repeated: for the holder and its reference alike.
#[test]
fn a_second_that_is_repeated_everywhere_repeats_no_id() {
    let mut scene = Scene::on_one_host();
    scene.service.draw(2);
    pause(ms(500));
    scene.fakes().wall_by_ms(-1_000);
    pause(SETTLED);
    let settled_ns = true_ns();
    pause(ms(1_500));
    let ended_ns = true_ns();
    let log = scene.judged(true);
    log.refuses_only(&["clock-stepped"], ms(3_000));
    log.flows(scene.begun_ns, ended_ns, SETTLED);
    log.flows(settled_ns, ended_ns, LOADED);
    log.is_near((settled_ns, ended_ns), scene.wall_off(-1_000), ALONE);
}

/// The same on an embedded store alone, under load.
#[test]
fn a_second_that_is_repeated_under_an_embedded_store_repeats_no_id() {
    repeated_or_frozen(|fakes, _| fakes.wall_by_ms(-1_000), 1_000);
}

/// A second of which the wall clock shows only the beginning, under load.
#[test]
fn a_second_that_stands_still_under_an_embedded_store_costs_no_id() {
    let frozen = |fakes: &Fakes, time: TrueTime| {
        fakes.wall_stands_at_ms(time.now_ms());
        pause(ms(1_000));
        fakes.wall_by_ms(0);
    };
    repeated_or_frozen(frozen, 0);
}

#[track_caller]
fn repeated_or_frozen(trouble: impl FnOnce(&Fakes, TrueTime), off_ms: i64) {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "service");
    let mut service = Service::start(folder.path(), Some(&fakes), &[]);
    service.becomes_ready();
    let time = TrueTime::look();
    let begun_ns = true_ns();
    service.draw(4);
    pause(ms(500));
    trouble(&fakes, time);
    pause(SETTLED);
    let settled_ns = true_ns();
    pause(ms(1_500));
    let ended_ns = true_ns();
    let log = judged(&service, off_ms != 0);
    log.refuses_only(&["clock-stepped"], ms(3_000));
    log.flows(begun_ns, ended_ns, SETTLED);
    log.flows(settled_ns, ended_ns, LOADED);
    // Between the clock that was and the one that is, slewed at most: either may be kept, which is
    // the kernel's word where there is no reference.
    let all_ms = i64::try_from((ended_ns - begun_ns) / 1_000_000).expect("it is short");
    let lag = off_ms + LEFT_ALONE_MS + all_ms * SLEW_MS / 1_000;
    log.is_near((begun_ns, ended_ns), |ns| time.unix_ms(ns), (lag, LEFT_ALONE_MS));
}

/// An instant as flags take it, without a calendar of our own.
fn rfc3339(unix_ms: i64) -> String {
    let mut date = std::process::Command::new("date");
    let seconds = format!("@{}.{:03}", unix_ms / 1_000, unix_ms % 1_000);
    let ran = date.args(["--utc", "--date", &seconds, "+%Y-%m-%dT%H:%M:%S.%3NZ"]).output();
    let text = String::from_utf8(ran.expect("there is a date").stdout).expect("it is text");
    text.trim().to_owned()
}
