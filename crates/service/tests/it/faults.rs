//! Faults seen in services of this kind, over the contract; docs/faults.md lists them.

use axum::http::StatusCode;
use serde_json::{Value, json};
use snowlease_core::{Format, Tick};
use snowlease_lease::Administer;
use snowlease_wire::Code;

use crate::leases::number;
use crate::support::{START, World};

/// Case: when all generator ids were in use, the count began again at the first one.
#[tokio::test]
async fn a_pool_that_is_used_up_does_not_wrap_around() {
    let world = World::new();
    let mut held = Vec::new();
    for holder in ["a", "b", "c", "d"] {
        held.push(world.lease(holder).await);
    }
    let before: Value = world.get("/generators").await.json();
    for n in 0..20 {
        let ask = json!({ "holder": format!("late-{n}") });
        let problem = world.post("/generators/lease", ask).await.problem(Code::Exhausted);
        assert_eq!((problem.total, problem.earliest), (Some(4), Some(START + 60_000)));
    }
    assert_eq!(world.get("/generators").await.json::<Value>(), before);
    // The one that is given back is the one that is granted, from where it was given back.
    let back = &held[2];
    let ask = json!({ "token": back["token"], "seq": 1, "until": START + 10 });
    let path = format!("/generators/{}/release", back["generator_id"]);
    assert_eq!(world.post(&path, ask).await.status, StatusCode::OK);
    world.pass_ms(10);
    let heir = world.lease("heir").await;
    assert_eq!(heir["generator_id"], back["generator_id"]);
    assert_eq!(number(&heir, "from"), START + 10);
    // Nor is one granted that rests.
    world.pass_ms(70_000);
    world.store.memory.quarantine(Tick(START + 200_000)).unwrap();
    world.post("/generators/lease", json!({ "holder": "e" })).await.problem(Code::Quarantined);
}

/// Case: a host that nobody synchronised leased generator ids far into the future.
#[tokio::test]
async fn a_clock_that_is_not_trusted_grants_nothing_and_goes_on_renewing() {
    let world = World::new();
    let lease = world.lease("web").await;
    world.store.distrust_clock();
    let refused = world.post("/generators/lease", json!({ "holder": "late" })).await;
    let problem = refused.problem(Code::ClockUntrusted);
    assert_eq!(problem.reason.as_deref(), Some("nothing synchronises it"));
    assert!(problem.detail.contains("nothing synchronises it"));
    assert!(problem.retry_after_ms.is_some());
    let ask = json!({ "token": lease["token"], "seq": 1, "until": START + 61_000 });
    let renewal = world.post(&format!("/generators/{}/renew", lease["generator_id"]), ask).await;
    assert_eq!(number(&renewal.json(), "until"), START + 61_000);
}

/// Case: a length of time far out of range was rounded, wrapped or taken for another unit.
#[tokio::test]
async fn a_nonsense_window_never_becomes_a_lease_longer_than_the_terms() {
    let world = World::new();
    let ask = |window: Value| json!({ "holder": "w", "window_ms": window });
    // 2^31 s, and what a number of 64 bits can hold.
    for window in [json!(2_147_483_648_000_u64), json!(u64::MAX), json!(i64::MAX)] {
        let lease: Value = world.post("/generators/lease", ask(window)).await.json();
        assert_eq!(number(&lease, "window_ms"), 60_000);
        assert_eq!(number(&lease, "until"), number(&lease, "from") + 60_000);
    }
    for window in [0, 1, 999] {
        world.post("/generators/lease", ask(json!(window))).await.problem(Code::BadWindow);
    }
    for text in ["-1", "1.5", "1e400", "18446744073709551616", "\"60s\"", "\"60000\""] {
        let body = format!("{{\"holder\":\"w\",\"window_ms\":{text}}}");
        world.post_text("/generators/lease", &body).await.problem(Code::BadBody);
    }
    // None of the refused took a generator id: one of four is left.
    world.lease("last").await;
    let full = world.post("/generators/lease", json!({ "holder": "e" })).await;
    full.problem(Code::Exhausted);
}

/// Case: ids were made in advance and kept, and given out an hour later with the time of their
/// making, or after the lease that they were made under.
#[tokio::test]
async fn an_id_after_an_idle_hour_carries_the_present_tick() {
    let world = World::new();
    let tick_of = |id: u64| id >> 22;
    let early = world.get("/ids?n=1000").await.ids();
    assert!(early.iter().all(|id| tick_of(*id) <= START + 1));
    // Renewed all the while.
    let hour = 3_600_000;
    world.clock.advance_ms(hour);
    world.generator.extend(Tick(START + hour + 60_000), u64::MAX);
    let late = world.get("/ids?n=10").await.ids();
    assert!(late.iter().all(|id| tick_of(*id) >= START + hour), "{late:?}");
    let decode = format!("/ids/{}/decode", late[0]);
    let told: snowlease_wire::Decoded = world.get(&decode).await.json();
    assert!(told.unix_ms >= Format::DEFAULT.unix_ms(Tick(START + hour)), "{told:?}");
    // Not renewed: none is left over from the time before.
    world.clock.advance_ms(hour);
    world.get("/ids").await.problem(Code::WindowEnd);
}
