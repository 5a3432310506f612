//! Probes, metrics and the description of the service.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use snowlease_lease::LeaseStore;
use snowlease_service::{ClockStanding, Limits, Standing, openapi_json};
use snowlease_wire::Code;

use crate::support::World;

#[tokio::test]
async fn life_does_not_depend_on_the_store_or_the_load() {
    let world = World::with_limits(Limits { requests: 0, ..Limits::DEFAULT });
    world.store.fail(true);
    assert_eq!(world.get("/livez").await.status, StatusCode::OK);
    assert_eq!(world.get("/readyz").await.status, StatusCode::OK);
    assert_eq!(world.method("HEAD", "/livez").await.status, StatusCode::OK);
    assert_eq!(world.store.calls(), 0);
    world.get("/ids").await.problem(Code::Overloaded);
}

#[tokio::test]
async fn a_query_where_there_is_none_is_refused() {
    let world = World::new();
    for path in ["/livez", "/readyz", "/metrics", "/store", "/generators", "/openapi.json"] {
        world.get(&format!("{path}?x=1")).await.problem(Code::BadQuery);
        assert_eq!(world.get(&format!("{path}?")).await.status, StatusCode::OK, "{path}");
    }
    let body = json!({ "holder": "w" });
    for path in ["/generators/lease", "/generators/1/renew", "/generators/1/release"] {
        world.post(&format!("{path}?n=1"), body.clone()).await.problem(Code::BadQuery);
    }
    assert_eq!(world.store.memory.list().unwrap(), []);
}

#[tokio::test]
async fn readiness_is_the_right_to_issue_and_says_why_not() {
    let world = World::new();
    let ready: Value = world.get("/readyz").await.json();
    assert_eq!(ready, json!({ "ready": true, "generator_id": 9, "remaining_ms": 60_000 }));
    *world.standing.lock().unwrap() = Standing {
        reason: "all 4 generator ids are in use: the first becomes free at tick 5".to_owned(),
        retry_after: Some(Duration::from_millis(12_300)),
        ..Standing::default()
    };
    let answer = world.get("/readyz").await;
    assert_eq!(answer.header("retry-after"), "13");
    let problem = answer.problem(Code::NotReady);
    let told = "all 4 generator ids are in use: the first becomes free at tick 5 \
                (2024-01-01T00:00:00.005Z)";
    assert_eq!(problem.reason.as_deref(), Some(told));
    assert!(problem.detail.ends_with(told));
    assert_eq!(world.store.calls(), 0);
}

#[tokio::test]
async fn readiness_tells_what_is_amiss_with_the_clock_whether_or_not_ids_can_be_had() {
    let world = World::new();
    let alarm = "the clock of this host was set: check what sets it";
    let clock = ClockStanding { alarm: Some(alarm.to_owned()), ..ClockStanding::default() };
    world.standing.lock().unwrap().clock = Some(clock);
    assert_eq!(world.get("/readyz").await.json::<Value>()["clock"], alarm);
    world.standing.lock().unwrap().ready = false;
    let problem = world.get("/readyz").await.problem(Code::NotReady);
    assert!(problem.detail.ends_with(alarm), "{}", problem.detail);
}

#[tokio::test]
async fn the_dangerous_states_have_metrics() {
    let world = World::new();
    world.standing.lock().unwrap().clock = Some(ClockStanding {
        offset_s: -0.002,
        max_error_s: Some(0.001),
        synchronised: Some(true),
        steps: 2,
        pauses: 1,
        reseeds: 3,
        lead_s: 0.25,
        lag_s: 0.5,
        skew_s: Some(-0.75),
        ordering_bound_s: Some(0.005),
        alarm: Some("the clock of this host was set".to_owned()),
        read_s: 3e-8,
        gauge: "counter",
    });
    world.lease("w").await;
    world.get("/ids?n=3").await.ids();
    world.get("/nowhere/at/all").await.problem(Code::NotFound);
    let answer = world.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    let text = answer.text();
    assert!(text.ends_with("# EOF\n"));
    for line in [
        "snowlease_ids_issued_total 3",
        "snowlease_refusals_total{reason=\"tick-full\"} 0",
        "snowlease_waits_total 0",
        "snowlease_ready 1.0",
        "snowlease_lease_remaining_seconds{generator_id=\"9\"} 60.0",
        "snowlease_renewals_total{outcome=\"renewed\"} 3",
        "snowlease_renewals_total{outcome=\"lost\"} 1",
        "snowlease_store_up 1.0",
        "snowlease_pool_used 1.0",
        "snowlease_pool_total 4.0",
        "snowlease_clock_offset_seconds -0.002",
        "snowlease_clock_max_error_seconds 0.001",
        "snowlease_clock_synchronised 1.0",
        "snowlease_clock_lead_seconds 0.25",
        "snowlease_clock_lag_seconds 0.5",
        "snowlease_clock_alarm 1.0",
        "snowlease_clock_skew_seconds -0.75",
        "snowlease_clock_read_seconds 3e-8",
        "snowlease_clock_gauge{kind=\"counter\"} 1.0",
        "snowlease_clock_reseeds_total 3",
        "snowlease_ordering_bound_seconds 0.005",
        "snowlease_ordering_bounded 1.0",
        "snowlease_clock_steps_total 2",
        "snowlease_clock_pauses_total 1",
        "snowlease_http_requests_total{route=\"/ids\",status=\"200\"} 1",
        "snowlease_http_requests_total{route=\"none\",status=\"404\"} 1",
        "snowlease_store_latency_seconds_count{operation=\"acquire\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("snowlease_days_left 2542"), "{text}");
    let named: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    let distinct: BTreeSet<_> = named.iter().collect();
    assert_eq!(named.len(), distinct.len(), "each metric once");
    let page = include_str!("../../../../docs/operating/metrics.md");
    for line in named {
        let name = line.split(' ').nth(2).expect("a type is of a name");
        assert!(page.contains(name), "docs/operating/metrics.md has no {name}");
    }
}

#[tokio::test]
async fn gauges_of_what_is_gone_disappear() {
    let world = World::new();
    *world.standing.lock().unwrap() = Standing::default();
    world.store.fail(true);
    let answer = world.get("/metrics").await;
    let text = answer.text();
    assert!(text.contains("snowlease_ready 0.0"));
    assert!(text.contains("snowlease_store_up 0.0"));
    for gone in ["lease_remaining", "generator_id", "pool_used", "pool_total", "clock_"] {
        assert!(!text.contains(gone), "{gone}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_hangs_does_not_hang_the_metrics_or_pile_up() {
    let world = World::new();
    world.store.hang(true);
    for _ in 0..3 {
        let answer = world.get("/metrics").await;
        assert!(answer.text().contains("snowlease_store_up 0.0"));
    }
    assert_eq!(world.store.calls(), 1);
    world.store.hang(false);
}

#[tokio::test]
async fn the_description_names_every_route_and_resolves() {
    let world = World::new();
    let answer = world.get("/openapi.json").await;
    assert_eq!(answer.text(), openapi_json());
    let description: Value = answer.json();
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = description["paths"].as_object().unwrap();
    let mut operations = BTreeSet::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let path = path.replace("{id}", "1");
            let status = world.method(&method.to_uppercase(), &path).await.status;
            assert!(status != StatusCode::NOT_FOUND || path.contains("/1/"), "{method} {path}");
            assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert!(operations.insert(operation["operationId"].to_string()), "{operation}");
        }
    }
    assert_eq!(operations.len(), 19);
    let id = &description["components"]["schemas"]["Ids"]["properties"]["ids"]["items"]["type"];
    assert_eq!(*id, "string");
    let text = answer.text();
    for part in text.split("\"$ref\": \"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(description["components"]["schemas"][name].is_object(), "{name}");
    }
}
