//! `/generators` and `/store`: leases asked for, renewed, given back and listed.

use axum::http::StatusCode;
use serde_json::{Value, json};
use snowlease_core::{Format, Layout, Tick};
use snowlease_lease::{Administer, Mode, Token};
use snowlease_service::Limits;
use snowlease_wire::{Code, FormatDoc};

use crate::support::{START, World};

pub(crate) fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} of {value}"))
}

#[tokio::test]
async fn a_lease_says_all_that_a_holder_needs() {
    let world = World::new();
    let answer = world.post("/generators/lease", json!({ "holder": "web-7f9c" })).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let lease: Value = answer.json();
    assert_eq!(number(&lease, "from"), START);
    assert_eq!(number(&lease, "until"), START + 60_000);
    assert_eq!((number(&lease, "window_ms"), number(&lease, "renew_after_ms")), (60_000, 20_000));
    assert_eq!((number(&lease, "seq"), &lease["reference_ms"]), (1, &json!(world.now_ms())));
    assert!(number(&lease, "generator_id") <= 3);
    assert!(Token::from_text(lease["token"].as_str().unwrap()).is_some());
    let format: FormatDoc = serde_json::from_value(lease["format"].clone()).unwrap();
    assert_eq!(format, Format::DEFAULT.into());
}

#[tokio::test]
async fn a_fifth_holder_of_four_ids_is_told_when_to_come_again() {
    let world = World::new();
    let mut ids = Vec::new();
    for holder in ["a", "b", "c", "d"] {
        ids.push(number(&world.lease(holder).await, "generator_id"));
        world.pass_ms(1_000);
    }
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3]);
    let ask = json!({ "holder": "e" });
    let problem = world.post("/generators/lease", ask.clone()).await.problem(Code::Exhausted);
    assert_eq!(problem.total, Some(4));
    assert_eq!(problem.earliest, Some(START + 60_000));
    assert_eq!(problem.earliest_expiry_ms, Some(Format::DEFAULT.unix_ms(Tick(START + 60_000))));
    assert_eq!(problem.retry_after_ms, Some(56_000));
    let told = format!("tick {} (2024-01-31T00:01:00.000Z);", START + 60_000);
    assert!(problem.detail.contains(&told), "{}", problem.detail);
    world.pass_ms(56_000);
    world.lease("e").await;
}

#[tokio::test]
async fn the_same_request_key_gives_the_same_lease_and_the_same_name_another() {
    let world = World::new();
    let ask = json!({ "holder": "web-0", "request_key": "0123456789abcdef0123456789abcdef" });
    let first: Value = world.post("/generators/lease", ask.clone()).await.json();
    world.pass_ms(500);
    let again: Value = world.post("/generators/lease", ask).await.json();
    for name in ["generator_id", "token", "seq", "from", "until"] {
        assert_eq!(first[name], again[name], "{name}");
    }
    // Less of the window is left now.
    assert_eq!(number(&again, "renew_after_ms"), 19_833);
    let other = world.lease("web-0").await;
    assert_ne!(other["generator_id"], first["generator_id"]);
    assert_ne!(other["token"], first["token"]);
}

#[tokio::test]
async fn windows_are_capped_by_the_terms_and_nonsense_is_refused() {
    let world = World::new();
    for (asked, given) in [(1_000u64, 1_000), (60_000, 60_000), (2_147_483_648, 60_000)] {
        let ask = json!({ "holder": "w", "window_ms": asked });
        let lease: Value = world.post("/generators/lease", ask).await.json();
        assert_eq!(number(&lease, "window_ms"), given);
        assert_eq!(number(&lease, "until") - number(&lease, "from"), given);
        assert_eq!(number(&lease, "renew_after_ms"), given / 3);
    }
    for asked in [0, 1, 999] {
        let ask = json!({ "holder": "w", "window_ms": asked });
        let problem = world.post("/generators/lease", ask).await.problem(Code::BadWindow);
        assert_eq!(problem.min_ms, Some(1_000));
    }
    for asked in [json!(-1), json!(1.5), json!("60000"), json!(true), json!([1])] {
        let ask = json!({ "holder": "w", "window_ms": asked });
        world.post("/generators/lease", ask).await.problem(Code::BadBody);
    }
}

#[tokio::test]
async fn a_clock_that_is_off_gets_no_lease() {
    let world = World::new();
    let ask = |ahead: i64| json!({ "holder": "w", "now_ms": world.now_ms() + ahead });
    for ahead in [-2_001, 2_001, -(1 << 53), 100_000_000] {
        let problem = world.post("/generators/lease", ask(ahead)).await.problem(Code::ClockSkew);
        assert_eq!((problem.ahead_ms, problem.reference_ms), (Some(ahead), Some(world.now_ms())));
    }
    for ahead in [-2_000, 0, 2_000] {
        let lease: Value = world.post("/generators/lease", ask(ahead)).await.json();
        assert_eq!(number(&lease, "from"), START.checked_add_signed(ahead).unwrap());
    }
    let now_ms = json!({ "holder": "w", "now_ms": i64::MIN });
    world.post("/generators/lease", now_ms).await.problem(Code::ClockSkew);
}

#[tokio::test]
async fn a_format_that_is_given_must_be_the_services() {
    let world = World::new();
    let ask = |format: Value| json!({ "holder": "w", "format": format });
    let fleet = Format::new(Layout::FLEET, 1, Format::DEFAULT.epoch_ms()).unwrap();
    let fleet: FormatDoc = fleet.into();
    for format in [
        json!({ "layout": fleet.layout }),
        json!({ "tick_ms": 10 }),
        json!({ "epoch_ms": 0 }),
        json!({ "fingerprint": fleet.fingerprint }),
    ] {
        let answer = world.post("/generators/lease", ask(format)).await;
        assert_eq!(answer.problem(Code::FormatMismatch).format, Some(Format::DEFAULT.into()));
    }
    let own = serde_json::to_value(FormatDoc::from(Format::DEFAULT)).unwrap();
    assert_eq!(world.post("/generators/lease", ask(own)).await.status, StatusCode::CREATED);
    world.post("/generators/lease", ask(json!({ "ticks": 1 }))).await.problem(Code::BadBody);
}

#[tokio::test]
async fn a_renewal_moves_the_end_by_default_and_at_most_by_the_terms() {
    let world = World::new();
    let lease = world.lease("w").await;
    let path = format!("/generators/{}/renew", lease["generator_id"]);
    world.pass_ms(20_000);
    let ask = json!({ "token": lease["token"], "seq": 1, "now_ms": world.now_ms() + 300 });
    let renewed: Value = world.post(&path, ask.clone()).await.json();
    assert_eq!((number(&renewed, "until"), number(&renewed, "seq")), (START + 80_000, 2));
    assert_eq!((&renewed["draining"], &renewed["carries"]), (&json!(false), &json!("next")));
    assert_eq!(number(&renewed, "renew_after_ms"), 20_000);
    // The same bytes again find their own work: the cell has moved on, and is still mine.
    let again: Value = world.post(&path, ask).await.json();
    assert_eq!((number(&again, "until"), number(&again, "seq")), (START + 80_000, 2));
    // A holder that runs fast runs dry; one that asks for nothing gets nothing, and no error.
    let ask = |seq, until| json!({ "token": lease["token"], "seq": seq, "until": until });
    let fast: Value = world.post(&path, ask(2, START + 900_000)).await.json();
    assert_eq!((number(&fast, "until"), number(&fast, "seq")), (START + 82_000, 3));
    let nothing: Value = world.post(&path, ask(3, START)).await.json();
    assert_eq!((number(&nothing, "until"), number(&nothing, "seq")), (START + 82_000, 3));
    assert_eq!(world.lease("other").await["seq"], 1);
    let listed: Value = world.get("/generators").await.json();
    let mine = &listed["leases"][0];
    assert_eq!((&mine["skew_ms"], number(mine, "until")), (&json!(300), START + 82_000));
}

#[tokio::test]
async fn the_next_token_is_made_by_the_holder_and_only_its_hash_is_sent() {
    let world = World::new();
    let lease = world.lease("w").await;
    let path = format!("/generators/{}/renew", lease["generator_id"]);
    world.pass_ms(1_000);
    let next = Token::random();
    let ask = json!({ "token": lease["token"], "seq": 1, "next": next.hash().to_text() });
    for _ in 0..2 {
        let renewed: Value = world.post(&path, ask.clone()).await.json();
        assert_eq!((&renewed["carries"], number(&renewed, "seq")), (&json!("next"), 2));
    }
    let stale = json!({ "token": lease["token"], "seq": 2 });
    world.post(&path, stale).await.problem(Code::NotYours);
    world.pass_ms(1_000);
    let fresh = json!({ "token": next.reveal(), "seq": 2 });
    let renewed: Value = world.post(&path, fresh).await.json();
    assert_eq!(number(&renewed, "until"), START + 62_000);
}

#[tokio::test]
async fn a_stale_owner_gets_409_and_its_successor_is_untouched() {
    let world = World::new();
    for holder in ["a", "b", "c"] {
        world.lease(holder).await;
    }
    let stale = world.lease("web-0").await;
    world.pass_ms(60_000);
    let successor = loop {
        let lease = world.lease("web-0").await;
        if lease["generator_id"] == stale["generator_id"] {
            break lease;
        }
    };
    let path = format!("/generators/{}", stale["generator_id"]);
    let before: Value = world.get("/generators").await.json();
    for seq in [1, 2] {
        let renew = json!({ "token": stale["token"], "seq": seq });
        let problem = world.post(&format!("{path}/renew"), renew).await.problem(Code::NotYours);
        assert!(problem.reason.unwrap().contains("another holder"));
        let release = json!({ "token": stale["token"], "seq": seq, "until": START + 60_000 });
        world.post(&format!("{path}/release"), release).await.problem(Code::NotYours);
    }
    assert_eq!(world.get("/generators").await.json::<Value>(), before);
    let renew = json!({ "token": successor["token"], "seq": successor["seq"] });
    assert_eq!(world.post(&format!("{path}/renew"), renew).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_release_frees_the_id_at_once_and_once() {
    let world = World::new();
    let lease = world.lease("w").await;
    let path = format!("/generators/{}/release", lease["generator_id"]);
    let ask = |until| json!({ "token": lease["token"], "seq": 1, "until": until });
    for until in [START - 1, START + 60_001] {
        let problem = world.post(&path, ask(until)).await.problem(Code::OutsideWindow);
        assert_eq!((problem.from, problem.until), (Some(START), Some(START + 60_000)));
    }
    let answer = world.post(&path, ask(START + 10)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.json::<Value>()["until"], START + 10);
    let problem = world.post(&path, ask(START + 10)).await.problem(Code::NotYours);
    assert!(problem.reason.unwrap().contains("released"));
    let listed: Value = world.get("/generators").await.json();
    assert_eq!(listed["leases"][0]["state"], "free");
    assert_eq!(listed["leases"][0]["holder"], "");
}

#[tokio::test]
async fn generator_ids_and_tokens_have_one_text() {
    let world = World::new();
    let token = Token::random().reveal();
    for id in ["4", "1024", "18446744073709551615", "18446744073709551616", "00", "+1", "-1", "x"] {
        let renew = json!({ "token": token, "seq": 1 });
        world.post(&format!("/generators/{id}/renew"), renew).await.problem(Code::NoGenerator);
        let release = json!({ "token": token, "seq": 1, "until": START });
        let path = format!("/generators/{id}/release");
        world.post(&path, release).await.problem(Code::NoGenerator);
    }
    for token in ["", " ", "0", &"A".repeat(64), &token[1..], &format!("{token} ")] {
        let renew = json!({ "token": token, "seq": 1 });
        world.post("/generators/1/renew", renew).await.problem(Code::BadToken);
        let release = json!({ "token": token, "seq": 1, "until": START });
        world.post("/generators/1/release", release).await.problem(Code::BadToken);
    }
    for next in ["", "0", &"G".repeat(64)] {
        let renew = json!({ "token": token, "seq": 1, "next": next });
        world.post("/generators/1/renew", renew).await.problem(Code::BadToken);
    }
    let renew = json!({ "token": token, "seq": 1, "next": "0".repeat(64) });
    world.post("/generators/1/renew", renew).await.problem(Code::NotYours);
    for key in ["", "short", &"k".repeat(129)] {
        let ask = json!({ "holder": "w", "request_key": key });
        world.post("/generators/lease", ask).await.problem(Code::BadToken);
    }
}

#[tokio::test]
async fn labels_are_refused_and_never_cut() {
    let world = World::new();
    for ask in [
        json!({ "holder": "" }),
        json!({ "holder": " " }),
        json!({ "holder": "a\nb" }),
        json!({ "holder": "x".repeat(129) }),
        json!({ "holder": "w", "machine": "x".repeat(129) }),
        json!({ "holder": "w", "process": "\u{0}" }),
    ] {
        world.post("/generators/lease", ask).await.problem(Code::BadHolder);
    }
    let ask = json!({ "holder": "w", "machine": "m", "process": "1", "region": "us" });
    world.post("/generators/lease", ask).await;
    world.lease("without").await;
    let listed: Value = world.get("/generators").await.json();
    let of = |at: usize, name: &str| listed["leases"][at][name].as_str().unwrap().to_owned();
    assert_eq!([of(0, "machine"), of(0, "process"), of(0, "region")], ["m", "1", "us"]);
    assert_eq!([of(1, "machine"), of(1, "process"), of(1, "region")], ["", "", "eu"]);
}

#[tokio::test]
async fn the_list_shows_every_lease_and_no_token() {
    let world = World::new();
    let lease = world.lease("w").await;
    world.lease("x").await;
    world.store.memory.drain(1, true).unwrap();
    world.pass_ms(61_000);
    let answer = world.get("/generators").await;
    let listed: Value = answer.json();
    let (first, second) = (&listed["leases"][0], &listed["leases"][1]);
    assert_eq!((&first["state"], &second["state"]), (&json!("expired"), &json!("draining")));
    assert_eq!(number(first, "age_ms"), 61_000);
    assert_eq!(first["from_time"], "2024-01-31T00:00:00.000Z");
    assert_eq!(first["until_time"], "2024-01-31T00:01:00.000Z");
    assert_eq!(listed["reference_ms"], world.now_ms());
    assert!(!answer.text().contains("token"));
    assert!(!answer.text().contains(lease["token"].as_str().unwrap()));
    world.get("/generators?state=held").await.problem(Code::BadQuery);
}

#[tokio::test]
async fn the_store_tells_how_it_stands() {
    let world = World::new();
    let store: Value = world.get("/store").await.json();
    assert_eq!((number(&store, "used"), number(&store, "total")), (0, 4));
    assert_eq!(store["earliest_expiry_ms"], Value::Null);
    world.lease("w").await;
    world.store.memory.drain(3, true).unwrap();
    world.store.memory.set_mode(Mode::Frozen).unwrap();
    let store: Value = world.get("/store").await.json();
    assert_eq!((&store["kind"], &store["generators"]), (&json!("memory"), &json!("0-3")));
    assert_eq!((number(&store, "floor"), number(&store, "longest_window")), (0, 60_000));
    assert_eq!((&store["mode"], &store["alarms"]), (&json!("frozen"), &json!([])));
    let expiry = Format::DEFAULT.unix_ms(Tick(START + 60_000));
    assert_eq!(store["earliest_expiry_ms"], expiry);
    world.post("/generators/lease", json!({ "holder": "w" })).await.problem(Code::Frozen);
}

#[tokio::test]
async fn a_quarantine_stops_grants_and_renewals_and_says_until_when() {
    let world = World::new();
    let lease = world.lease("w").await;
    let floor = world.store.memory.quarantine(Tick(START + 90_000)).unwrap();
    let ask = json!({ "holder": "x" });
    let problem = world.post("/generators/lease", ask).await.problem(Code::Quarantined);
    assert_eq!((problem.floor, problem.retry_after_ms), (Some(floor.0), Some(90_000)));
    assert!(problem.detail.contains(" (2024-01-31T00:01:30.000Z)"), "{}", problem.detail);
    world.pass_ms(1_000);
    let renew = json!({ "token": lease["token"], "seq": 1 });
    let path = format!("/generators/{}/renew", lease["generator_id"]);
    let problem = world.post(&path, renew).await.problem(Code::Quarantined);
    assert_eq!(problem.floor, Some(floor.0));
    assert!(problem.detail.contains(" (2024-01-31T00:01:30.000Z)"), "{}", problem.detail);
}

/// Case: a window counted in ticks ended with the tick it began in, and renewals never got past it.
#[tokio::test]
async fn windows_of_long_ticks_last_past_the_end_of_a_tick() {
    let hour_ms = 3_600_000;
    let format = Format::new(Layout::DEFAULT, hour_ms, Format::DEFAULT.epoch_ms()).unwrap();
    let world = World::of(format, Limits::DEFAULT);
    let lease = world.lease("w").await;
    assert_eq!(lease["until"], START + 1);
    // Half a minute before the tick ends.
    world.pass_ms(i64::from(hour_ms) - 30_000);
    let renew = json!({ "token": lease["token"], "seq": 1 });
    let path = format!("/generators/{}/renew", lease["generator_id"]);
    let renewed: Value = world.post(&path, renew).await.json();
    assert_eq!(renewed["until"], START + 2);
    assert_eq!(world.lease("x").await["until"], START + 2);
}

#[tokio::test]
async fn an_outage_says_whether_it_may_have_landed() {
    let world = World::new();
    for (unknown, code) in [(false, Code::StoreUnavailable), (true, Code::StoreUnknown)] {
        world.store.fail(unknown);
        let token = Token::random().reveal();
        let renew = json!({ "token": token, "seq": 1 });
        let release = json!({ "token": token, "seq": 1, "until": START });
        for answer in [
            world.post("/generators/lease", json!({ "holder": "w" })).await,
            world.post("/generators/1/renew", renew).await,
            world.post("/generators/1/release", release).await,
            world.get("/generators").await,
            world.get("/store").await,
        ] {
            let problem = answer.problem(code);
            assert_eq!(problem.detail, "the disk is gone: look for it");
            assert_eq!(problem.retry_after_ms, Some(1_000));
        }
    }
}

#[tokio::test]
async fn a_service_whose_clock_is_before_the_epoch_says_so() {
    let world = World::new();
    world.pass_ms(Format::DEFAULT.epoch_ms() - 1 - world.now_ms());
    world.post("/generators/lease", json!({ "holder": "w" })).await.problem(Code::BeforeEpoch);
    world.get("/generators").await.problem(Code::BeforeEpoch);
    world.get("/store").await.problem(Code::BeforeEpoch);
    let renew = json!({ "token": Token::random().reveal(), "seq": 1 });
    world.post("/generators/1/renew", renew).await.problem(Code::BeforeEpoch);
    world.pass_ms(1);
    assert_eq!(world.lease("w").await["from"], 0);
}

/// Case: a layout that is none was answered as if it were another fleet's.
#[tokio::test]
async fn a_format_that_is_none_is_malformed() {
    let world = World::new();
    for format in [
        json!({ "layout": "xx" }),
        json!({ "layout": "t41g10s12 " }),
        json!({ "tick_ms": 0 }),
        json!({ "epoch_ms": i64::MIN }),
        json!({ "fingerprint": "xx" }),
    ] {
        let ask = json!({ "holder": "w", "format": format });
        let problem = world.post("/generators/lease", ask).await.problem(Code::BadBody);
        assert!(problem.detail.starts_with("format: "), "{}", problem.detail);
    }
}

/// Case: the skew of a nonsense clock was a number that JSON readers round.
#[tokio::test]
async fn the_skew_of_a_nonsense_clock_is_a_number_that_json_keeps() {
    let world = World::new();
    let lease = world.lease("w").await;
    let path = format!("/generators/{}/renew", number(&lease, "generator_id"));
    for (seq, now_ms, skew_ms) in [(1, i64::MAX, 1i64 << 53), (1, i64::MIN, -(1i64 << 53))] {
        let ask = json!({ "token": lease["token"], "seq": seq, "now_ms": now_ms });
        let answer = world.post(&path, ask).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let listed: Value = world.get("/generators").await.json();
        assert_eq!(listed["leases"][0]["skew_ms"], skew_ms);
    }
}
