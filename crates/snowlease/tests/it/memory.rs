//! Connections to a store in memory: everything but the disk and the wire.

use std::collections::HashSet;
use std::time::Duration;

use snowlease::{ClockGate, ClockTerms, Connector, Id, Refusal, State, Terms};
use snowlease_lease::{id_clock, os};

fn connector(name: &str) -> Connector {
    Connector::new(format!("memory:{name}")).name("test")
}

fn short() -> Terms {
    Terms::new(Duration::from_secs(2), Duration::from_millis(600)).unwrap()
}

#[test]
fn two_connections_to_one_store_never_share_an_id() {
    let first = connector("two").connect_blocking().unwrap();
    let second = connector("two").connect_blocking().unwrap();
    let mut seen = HashSet::new();
    for _ in 0..100_000 {
        assert!(seen.insert(first.next_id().unwrap()));
        assert!(seen.insert(second.next_id().unwrap()));
    }
    let generator_id = |ids: &snowlease::Ids| ids.status().window.unwrap().generator_id();
    assert_ne!(generator_id(&first), generator_id(&second));
}

#[test]
fn a_lease_is_renewed_and_ids_flow_past_its_first_window() {
    let ids = connector("renewed").terms(short()).connect_blocking().unwrap();
    let first = ids.status().window.unwrap();
    let began = ids.next_id().unwrap();
    std::thread::park_timeout(Duration::from_millis(2_600));
    let status = ids.status();
    assert!(status.outcomes.renewed >= 2, "{status:?}");
    assert_eq!(status.window.unwrap().generator_id(), first.generator_id());
    let later = ids.next_id().unwrap();
    assert!(ids.format().decode(later).tick >= first.until());
    assert!(later > began);
}

#[test]
fn shutting_down_frees_the_generator_id_and_refuses_from_then_on() {
    let ids = connector("freed").connect_blocking().unwrap();
    let other = ids.clone();
    let generator_id = ids.status().window.unwrap().generator_id();
    let before: HashSet<Id> = ids.next_ids(5_000).unwrap().into_iter().collect();
    // Somebody keeps the store alive, as a lease service would.
    let keeps_store = connector("freed").connect_blocking().unwrap();
    ids.shutdown_blocking().unwrap();
    assert_eq!(other.next_id(), Err(Refusal::ShutDown));
    assert_eq!(Refusal::ShutDown.retry_after(), None, "a loop that retries would never end");
    assert_eq!(other.status().state, State::Idle);
    assert!(other.ready_blocking(Duration::from_secs(1)).is_err());
    // Among 1,024 the freed one has been free for the shortest time; take them all to see it again.
    let mut again = Vec::new();
    while !again
        .iter()
        .any(|ids: &snowlease::Ids| ids.status().window.unwrap().generator_id() == generator_id)
    {
        again.push(connector("freed").connect_blocking().unwrap());
        assert!(again.len() <= 1_024);
    }
    let after = again.last().unwrap().next_ids(5_000).unwrap();
    assert!(after.iter().all(|id| !before.contains(id)));
    drop(keeps_store);
}

#[test]
fn async_connections_need_no_particular_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ids = connector("async").connect().await.unwrap();
        ids.ready().await.unwrap();
        assert!(ids.next_id().is_ok());
        let other = ids.clone();
        ids.shutdown().await.unwrap();
        assert!(other.ready().await.is_err());
    });
}

#[test]
fn mistakes_in_a_url_say_what_to_write() {
    for url in ["", "orders", "redis://user:secret@host", "mysql://x", "sqlite", "//"] {
        let error = snowlease::blocking::connect(url).unwrap_err().to_string();
        assert!(error.contains("names no store"), "{url}: {error}");
        let printed_by_main = format!("{:?}", snowlease::blocking::connect(url).unwrap_err());
        assert_eq!(printed_by_main, error);
        assert!(!error.contains("secret"), "{error}");
    }
    let error = snowlease::blocking::connect("etcd://:secret@").unwrap_err().to_string();
    let told = if cfg!(feature = "etcd") { "write USER@" } else { "enable the feature `etcd`" };
    assert!(error.contains(told) && !error.contains("secret"), "{error}");
}

#[test]
fn a_format_that_is_not_the_stores_is_refused() {
    let _ids = connector("format").connect_blocking().unwrap();
    let layout = "t41g13s9".parse().unwrap();
    let other = snowlease::Format::new(layout, 1, 1_704_067_200_000).unwrap();
    let error = connector("format").format(other).connect_blocking().unwrap_err().to_string();
    assert!(error.contains("t41g10s12") && error.contains("t41g13s9"), "{error}");
}

#[test]
fn a_suspended_handle_has_no_lease_until_it_is_resumed() {
    let ids = connector("suspended").connect_blocking().unwrap();
    let other = connector("suspended").connect_blocking().unwrap();
    let before = ids.next_id().unwrap();
    for _ in 0..100 {
        ids.suspend_blocking().unwrap();
        assert!(ids.next_id().is_err());
        assert_eq!(ids.status().window, None);
        let why = ids.ready_blocking(Duration::from_secs(10)).unwrap_err();
        assert!(why.reason.contains("resume"), "{why}");
    }
    assert!(other.next_id().is_ok(), "others are not concerned");
    ids.resume();
    ids.ready_blocking(Duration::from_secs(10)).unwrap();
    assert!(ids.next_id().unwrap() > before);
    assert_eq!(ids.status().outcomes.granted, 2);
    // What was never suspended is not disturbed.
    other.resume();
    assert_eq!(other.status().outcomes.granted, 1);
    assert!(other.next_id().is_ok());
}

#[test]
fn suspending_needs_no_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let ids = connector("suspended-async").connect().await.unwrap();
        ids.suspend().await.unwrap();
        assert!(ids.next_id().is_err());
        ids.resume();
        ids.ready().await.unwrap();
        assert!(ids.next_id().is_ok());
    });
}

#[test]
fn a_ticking_connection_issues_what_a_precise_one_does() {
    let ids = connector("ticking").ticking().terms(short()).connect_blocking().unwrap();
    let precise = connector("ticking").connect_blocking().unwrap();
    let mut seen = HashSet::new();
    let mut last = Id::MIN;
    for _ in 0..50_000 {
        let id = ids.next_id().unwrap();
        assert!(id > last && seen.insert(id));
        last = id;
        assert!(seen.insert(precise.next_id().unwrap()));
    }
    // After a rest its time is right again.
    std::thread::park_timeout(Duration::from_millis(100));
    let times = [&ids, &precise]
        .map(|ids| ids.format().unix_ms(ids.format().decode(ids.next_id().unwrap()).tick));
    assert!(times[0].abs_diff(times[1]) < 50, "{times:?}");
}

#[test]
fn lengths_that_do_not_go_together_are_refused() {
    let terms = ClockTerms { step: Duration::from_millis(1), ..ClockTerms::DEFAULT };
    let error = connector("terms").clock_terms(terms).unwrap_err();
    assert!(error.to_string().contains("step"), "{error}");
}

#[test]
fn behind_the_gate_the_kernel_has_to_call_the_clock_right() {
    // The least that goes: few kernels claim as much.
    let terms = ClockTerms { max_error: Duration::from_millis(1), ..ClockTerms::DEFAULT };
    let connector = || connector("gate").clock_terms(terms).unwrap();
    let distrust = id_clock::distrust(os::kernel_time(), terms.max_error);
    let soon = connector().ready_within(Duration::from_millis(300));
    match (soon.clock_gate(ClockGate::Enforce).connect_blocking(), distrust) {
        (Ok(ids), None) => assert!(ids.next_id().is_ok()),
        (Err(error), Some(_)) => assert!(error.to_string().contains("clock"), "{error}"),
        (connected, distrust) => panic!("{:?}, {distrust:?}", connected.map(|_| ())),
    }
    assert!(connector().clock_gate(ClockGate::Warn).connect_blocking().is_ok());
    // A store in memory is for one machine, which has nobody to disagree with.
    assert!(connector().connect_blocking().is_ok());
}
