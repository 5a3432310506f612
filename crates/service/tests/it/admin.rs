//! What an operator may do, and that no page in a browser can.

use axum::http::StatusCode;
use serde_json::{Value, json};
use snowlease_lease::Administer;
use snowlease_wire::Code;

use crate::leases::number;
use crate::support::{START, World};

#[tokio::test]
async fn a_draining_id_says_so_at_the_next_renewal_and_is_not_granted() {
    let world = World::new();
    let lease = world.lease("w").await;
    let id = number(&lease, "generator_id");
    for _ in 0..2 {
        let answer: Value = world.post(&format!("/generators/{id}/drain"), json!({})).await.json();
        assert_eq!(answer, json!({ "generator_id": id, "draining": true }));
    }
    let ask = json!({ "token": lease["token"], "seq": number(&lease, "seq") + 1 });
    let renewed: Value = world.post(&format!("/generators/{id}/renew"), ask).await.json();
    assert_eq!(renewed["draining"], true);
    let listed: Value = world.get("/generators").await.json();
    assert_eq!(listed["leases"][0]["state"], "draining");
    let answer: Value = world.post(&format!("/generators/{id}/undrain"), json!({})).await.json();
    assert_eq!(answer["draining"], false);
    for path in ["/generators/99/drain", "/generators/x/drain", "/generators/01/undrain"] {
        world.post(path, json!({})).await.problem(Code::NoGenerator);
    }
}

#[tokio::test]
async fn a_frozen_store_grants_again_once_that_is_undone() {
    let world = World::new();
    let ask = || json!({ "holder": "w" });
    let answer: Value = world.post("/store/freeze", json!({})).await.json();
    assert_eq!(answer, json!({ "mode": "frozen" }));
    world.post("/generators/lease", ask()).await.problem(Code::Frozen);
    world.post("/store/unfreeze", json!({})).await;
    assert_eq!(world.post("/generators/lease", ask()).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_quarantine_tells_when_it_ends_and_the_check_of_a_sound_store_finds_nothing() {
    let world = World::new();
    world.lease("w").await;
    let answer: Value = world.post("/store/quarantine", json!({})).await.json();
    assert_eq!(number(&answer, "floor"), START + 64_000);
    assert!(answer["floor_time"].as_str().unwrap().ends_with('Z'), "{answer}");
    world.post("/generators/lease", json!({ "holder": "x" })).await.problem(Code::Quarantined);
    let verified: Value = world.get("/store/verify").await.json();
    assert_eq!(verified["sound"], true, "{verified}");
    assert_eq!(number(&verified, "cells"), 4);
}

/// A form or a script of another site can send neither this type nor read what is answered.
#[tokio::test]
async fn a_simple_request_of_a_browser_changes_nothing() {
    let world = World::new();
    for path in ["/store/freeze", "/store/quarantine", "/generators/0/drain"] {
        let simple = axum::http::Request::post(path).header("content-type", "text/plain");
        let answer = world.send(simple.body("{}".into()).unwrap()).await;
        answer.problem(Code::UnsupportedMediaType);
        let bare = axum::http::Request::post(path).body(axum::body::Body::empty()).unwrap();
        world.send(bare).await.problem(Code::UnsupportedMediaType);
    }
    let meta = snowlease_lease::LeaseStore::status(&*world.store).unwrap().meta;
    assert_eq!((meta.mode, meta.floor.0), (snowlease_lease::Mode::Open, 0));
}

/// A hundred holders at once: the store is called far less often, and each has an id of its own.
#[tokio::test(flavor = "multi_thread")]
async fn holders_that_ask_at_once_are_answered_each() {
    let world = std::sync::Arc::new(World::new());
    let asks = (0..100).map(|holder| {
        let world = std::sync::Arc::clone(&world);
        tokio::spawn(async move {
            world.post("/generators/lease", json!({ "holder": format!("w{holder}") })).await
        })
    });
    let mut granted = std::collections::BTreeSet::new();
    for ask in asks.collect::<Vec<_>>() {
        let answer = ask.await.unwrap();
        if answer.status == StatusCode::CREATED {
            let lease: Value = answer.json();
            assert!(granted.insert(number(&lease, "generator_id")));
        } else {
            answer.problem(Code::Exhausted);
        }
    }
    assert_eq!(granted.len(), 4);
}

/// The realm is checked inside the grant.
#[tokio::test]
async fn a_holder_of_another_environment_or_plan_is_told_whose_store_it_is() {
    let world = World::new();
    let plan = snowlease_lease::PlanHash::of("the plan");
    world.store.adopt_plan(Some(plan)).unwrap();
    let ask = |member: &str, value: &str| json!({ "holder": "w", member: value });
    let staging = world.post("/generators/lease", ask("environment", "staging")).await;
    let problem = staging.problem(Code::RealmMismatch);
    assert_eq!(problem.environment.as_deref(), Some(""));
    let other = snowlease_lease::PlanHash::of("another").to_text();
    let problem = world.post("/generators/lease", ask("plan", &other)).await;
    let problem = problem.problem(Code::RealmMismatch);
    assert_eq!(problem.plan, Some(plan.to_text()));
    for (member, wrong) in [("plan", "x"), ("environment", "a b")] {
        world.post("/generators/lease", ask(member, wrong)).await.problem(Code::BadBody);
    }
    let fine = world.post("/generators/lease", ask("plan", &plan.to_text())).await;
    assert_eq!(fine.status, StatusCode::CREATED);
    let store: Value = world.get("/store").await.json();
    assert_eq!(store["plan"], plan.to_text());
}
