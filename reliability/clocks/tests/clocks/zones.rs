//! Time zones and their changes: nothing here reads one.

use snowlease_clocks::true_ns;

use crate::fakes::Fakes;
use crate::judge::unique;
use crate::process::snowlease;
use crate::scene::{LEFT_ALONE_MS, LOADED, no_panic};
use crate::service::Service;
use crate::time::{TrueTime, ms, pause};

const ZONES: [&str; 7] = [
    "UTC",
    "Asia/Kathmandu",
    "Europe/Berlin",
    ":::",
    "No/Such_Zone",
    "CET-1CEST,M3.5.0/25,garbage",
    "",
];

/// 2026-10-25T01:00:00Z: Berlin's clocks go back from three to two.
const BERLIN_BACK_MS: i64 = 1_792_890_000_000;
/// 2026-03-29T01:00:00Z: and from two to three.
const BERLIN_AHEAD_MS: i64 = 1_774_746_000_000;

#[test]
fn what_an_id_says_is_the_same_in_every_zone() {
    for arguments in [
        &["decode", "20987903"][..],
        &["decode", "385823092917665792", "--json"],
        &["range", "--from", "2026-10-25T00:30:00Z", "--to", "2026-10-25T02:30:00+01:00"],
        &["layout"],
    ] {
        let said = ZONES.map(|zone| {
            let mut command = snowlease();
            let ran = command.args(arguments).env("TZ", zone).output().expect("it starts");
            let text = |bytes| String::from_utf8(bytes).expect("it is text");
            (ran.status.code(), text(ran.stdout), text(ran.stderr))
        });
        assert_eq!(said[0].0, Some(0), "{}", said[0].2);
        for (zone, said_there) in ZONES.iter().zip(&said) {
            assert_eq!(said_there, &said[0], "{arguments:?} with TZ={zone}");
        }
    }
}

#[test]
fn ids_are_the_same_over_a_change_of_summer_time() {
    for (zone, change_ms) in
        [("Europe/Berlin", BERLIN_BACK_MS), ("Europe/Berlin", BERLIN_AHEAD_MS), (":::", 0)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let fakes = Fakes::true_ones(folder.path(), "service");
        let time = TrueTime::look();
        // The change comes two seconds from now.
        let off_ms = if change_ms == 0 { 0 } else { change_ms - 2_000 - time.now_ms() };
        fakes.wall_by_ms(off_ms);
        let mut service = Service::start_in_zone(folder.path(), &fakes, zone);
        service.becomes_ready();
        let begun_ns = true_ns();
        service.draw(1);
        pause(ms(3_500));
        let ended_ns = true_ns();
        no_panic(&service);
        assert_eq!(service.steps(), 0.0, "{zone}");
        let log = service.log();
        unique(&[&log]);
        log.ascends(false);
        log.refuses_only(&[], ms(0));
        log.flows(begun_ns, ended_ns, LOADED);
        let alone = (LEFT_ALONE_MS, LEFT_ALONE_MS);
        log.is_near((begun_ns, ended_ns), |ns| time.unix_ms(ns) + off_ms, alone);
    }
}
