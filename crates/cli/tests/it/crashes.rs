//! Faults of processes that end badly, start at once, or start together.

use std::collections::HashSet;

use serde_json::Value;
use snowlease_core::Tick;
use snowlease_wire::{Ids, Leases};

use crate::run::run;
use crate::serve::folder;
use crate::service::{Service, eventually};

/// How `/readyz` answers: the status and the document.
fn readiness(service: &Service) -> (u16, Value) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut answer = agent.get(format!("{}/readyz", service.url)).call().expect("it answers");
    let text = answer.body_mut().read_to_string().expect("the answer is whole");
    (answer.status().as_u16(), serde_json::from_str(&text).expect("it is JSON"))
}

/// Case: a process that had crashed waited for its own old lease, did not say so, and was killed
/// for it by whoever watched over it.
#[test]
fn after_a_crash_over_one_id_it_says_what_it_waits_for_and_comes_up_by_itself() {
    let folder = folder();
    let one = ["--generators", "5"];
    let mut first = Service::start(folder.path(), &one);
    let ids = first.get::<Ids>("/ids?n=1000").ids;
    first.signal("KILL");
    first.wait();
    let service = Service::start(folder.path(), &one);
    // Its lines may have come after the lease of 3 s was over.
    let (status, told) = readiness(&service);
    if status != 200 {
        assert_eq!(status, 503, "{told}");
        let detail = told["detail"].as_str().expect("it says why");
        assert!(detail.contains("all 1 generator ids are in use"), "{told}");
        assert!(detail.contains("becomes free at tick"), "{told}");
        let wait_ms = told["retry_after_ms"].as_u64().expect("it says when");
        assert!((1..=3_000).contains(&wait_ms), "{told}");
        // It lives meanwhile.
        let life = ureq::get(format!("{}/livez", service.url)).call().expect("it answers");
        assert_eq!(life.status(), 200);
    }
    eventually(|| readiness(&service).0 == 200);
    let later = service.get::<Ids>("/ids?n=1000").ids;
    let seen: HashSet<_> = ids.iter().chain(&later).collect();
    assert_eq!(seen.len(), 2_000);
    assert_eq!(service.generator_id(), 5);
}

/// Case: each restart took one more id for good, and a crash loop ended the service.
#[test]
fn a_crash_loop_over_two_ids_does_not_use_them_up() {
    let folder = folder();
    let mut ids = HashSet::new();
    for _ in 0..6 {
        let mut service = Service::start(folder.path(), &["--generators", "0-1"]);
        eventually(|| readiness(&service).0 == 200);
        for id in service.get::<Ids>("/ids?n=1000").ids {
            assert!(ids.insert(id));
        }
        service.signal("KILL");
        service.wait();
    }
    assert_eq!(ids.len(), 6_000);
}

/// Case: nothing was given back at the end of a process, and its successor waited for a lease that
/// nobody used.
#[test]
fn a_signal_to_end_frees_the_only_id_at_once() {
    let folder = folder();
    let one = ["--generators", "7"];
    let mut last: Option<u64> = None;
    for signal in ["TERM", "INT", "TERM", "INT"] {
        let mut service = Service::start(folder.path(), &one);
        let said = service.lines_so_far();
        assert!(!said.contains("no ids yet"), "{said}");
        let ids = service.get::<Ids>("/ids?n=10").ids;
        let first: u64 = ids[0].parse().expect("an id");
        assert!(Some(first) > last, "{first} came after {last:?}");
        last = ids.last().map(|id| id.parse().expect("an id"));
        service.signal(signal);
        assert_eq!(service.wait().code(), Some(0), "{}", service.lines_so_far());
        // Free from where it stopped, and not from where its window would have ended.
        let store = format!("sqlite:{}", folder.path().join("snowlease.db").display());
        let leases = run(&["lease", "list", "--store", &store, "--json"]).json();
        let leases: Leases = serde_json::from_value(leases).expect("it lists them");
        let now = snowlease_core::Format::DEFAULT.tick_at_ms(snowlease_lease::os::wall_ms());
        let until = Tick(leases.leases[0].until);
        assert!(until <= now.expect("it is after the epoch"), "{leases:?}");
    }
}
