//! `/ids/{id}/decode` and `/ids/range`.

use serde_json::{Value, json};
use snowlease_core::{Format, Id, IdParts, TextForm, Tick};
use snowlease_service::Limits;
use snowlease_wire::{Code, FormatDoc};

use crate::support::World;

fn id(tick: u64, generator_id: u64, sequence: u64) -> Id {
    Format::DEFAULT.compose(IdParts { tick: Tick(tick), generator_id, sequence }).unwrap()
}

#[tokio::test]
async fn an_id_is_taken_apart_and_its_time_has_a_zone() {
    let world = World::new();
    let decoded: Value = world.get("/ids/20987903/decode").await.json();
    assert_eq!(decoded["id"], "20987903");
    assert_eq!((&decoded["tick"], &decoded["sequence"]), (&json!(5), &json!(4095)));
    assert_eq!((&decoded["generator_id"], &decoded["region"]), (&json!(3), &json!("eu")));
    assert_eq!(decoded["time"], "2024-01-01T00:00:00.005Z");
    assert_eq!(decoded["unix_ms"], 1_704_067_200_005i64);
    assert_eq!((&decoded["in_future"], &decoded["form"]), (&json!(false), &json!("decimal")));
    let format: FormatDoc = serde_json::from_value(decoded["format"].clone()).unwrap();
    assert_eq!(format, Format::DEFAULT.into());
    assert_eq!(decoded["texts"]["base62"], "0000001Q3uZ");
    // The region of a generator id that is of another store is not known.
    let decoded: Value = world.get(&format!("/ids/{}/decode", id(5, 10, 0))).await.json();
    assert_eq!(decoded["region"], Value::Null);
}

#[tokio::test]
async fn the_ends_of_the_ids_decode() {
    let world = World::new();
    let zero: Value = world.get("/ids/0/decode").await.json();
    assert_eq!((&zero["tick"], &zero["in_future"]), (&json!(0), &json!(false)));
    let last: Value = world.get(&format!("/ids/{}/decode", i64::MAX)).await.json();
    assert_eq!(last["time"], "2093-09-06T15:47:35.551Z");
    assert_eq!(last["in_future"], true);
    world.get("/ids/9223372036854775808/decode").await.problem(Code::BadId);
}

#[tokio::test]
async fn every_form_is_read_and_gives_the_same_id() {
    let world = World::new();
    let id = id(2_147_483_648, 17, 42);
    for form in TextForm::ALL {
        let text = form.encode(id);
        for query in [String::new(), format!("?form={form}")] {
            let decoded: Value = world.get(&format!("/ids/{text}/decode{query}")).await.json();
            assert_eq!(decoded["id"], id.to_string());
            assert_eq!(decoded["form"], form.name());
            assert_eq!(decoded["texts"][form.name()], text.as_str());
        }
    }
}

#[tokio::test]
async fn one_id_has_one_text_and_all_others_are_refused() {
    let world = World::new();
    for text in [
        "+42",
        "%2B42",
        "%2042",
        "42%20",
        "42%0A",
        "4_2",
        "042",
        "00",
        "-0",
        "-1",
        "0x2A",
        "4.2e1",
        "%EF%BC%91",
        "%D9%A1%D9%A4",
        "%C2%B2",
        "1%C2%B2",
        "42%E2%80%8B",
        "42%00",
        "%ff",
        "8000000000000",
        "FZZZZZZZZZZZZ",
        "ZZZZZZZZZZZZZ",
        "7zzzzzzzzzzzz",
        "7ZZZZZZZZZZZO",
        "AzL8n0Y58m8",
        "LygHa16AHYF",
        "zzzzzzzzzzz",
        "0AzL8n0Y58m7",
        "AzL8n0Y58m70",
        "00000000014O3fff",
        "0000000001403FFF",
        "12345678901234567890",
        "null",
        "NaN",
    ] {
        let expected = if text == "8000000000000" { None } else { Some(Code::BadId) };
        let answer = world.get(&format!("/ids/{text}/decode")).await;
        match expected {
            Some(code) => drop(answer.problem(code)),
            // Thirteen decimal digits are a decimal id, unless the form is named.
            None => {
                assert_eq!(answer.json::<Value>()["form"], "decimal");
                let named = format!("/ids/{text}/decode?form=crockford");
                world.get(&named).await.problem(Code::BadId);
            }
        }
    }
    world.get("/ids//decode").await.problem(Code::BadId);
    world.get("/ids/42/decode?form=roman").await.problem(Code::BadQuery);
    world.get("/ids/42/decode?from=hex").await.problem(Code::BadQuery);
    world.get("/ids/42/decode?form=hex").await.problem(Code::BadId);
}

#[tokio::test]
async fn ids_of_other_systems_are_read_by_their_preset() {
    let world = World::new();
    let path = "/ids/1541815603606036480/decode?preset=twitter";
    let tweet: Value = world.get(path).await.json();
    assert_eq!(tweet["time"], "2022-06-28T16:07:40.105Z");
    assert_eq!((&tweet["preset"], &tweet["in_future"]), (&json!("twitter"), &json!(false)));
    assert_eq!(tweet["parts"], json!({ "machine": 378, "sequence": 0 }));
    assert_eq!(tweet["format"]["epoch_ms"], 1_288_834_974_657i64);
    assert_eq!(tweet["region"], Value::Null);
    let path = "/ids/175928847299117063/decode?preset=discord";
    let other: Value = world.get(path).await.json();
    assert_eq!(other["time"], "2016-04-30T11:18:25.796Z");
    assert_eq!(other["parts"], json!({ "worker": 1, "process": 0, "increment": 7 }));
    assert_eq!((&other["generator_id"], &other["format"]), (&Value::Null, &Value::Null));
    let unknown = world.get("/ids/1/decode?preset=twiter").await.problem(Code::BadQuery);
    assert!(unknown.detail.contains("did you mean twitter?"));
    let large = format!("/ids/{}/decode?preset=js53", i64::MAX);
    world.get(&large).await.problem(Code::BadId);
}

#[tokio::test]
async fn a_span_of_time_is_a_half_open_span_of_ids() {
    let world = World::new();
    let minute = json!({ "first": "0", "end": "251658240000" });
    for (from, to) in [
        ("2024-01-01T00:00:00Z", "2024-01-01T00:01:00Z"),
        ("2024-01-01T05:45:00%2B05:45", "2024-01-01T05:46:00+05:45"),
        ("2024-01-01T00%3A00%3A00.000Z", "1704067260000"),
        ("2020-01-01T00:00:00Z", "1704067260000"),
    ] {
        let range: Value = world.get(&format!("/ids/range?from={from}&to={to}")).await.json();
        assert_eq!(range, minute, "{from} {to}");
    }
    let empty: Value = world.get("/ids/range?from=1704067200005&to=1704067200005").await.json();
    assert_eq!(empty["first"], empty["end"]);
}

#[tokio::test]
async fn times_that_are_not_exact_are_refused() {
    let world = World::new();
    let with = |from: &str, to: &str| format!("/ids/range?from={from}&to={to}");
    let good = "2024-01-01T00:00:00Z";
    for bad in ["2024-01-01T00:00:00", "2024-01-01", "1704067200", "now", "", "-1", "1e12"] {
        let problem = world.get(&with(bad, good)).await.problem(Code::BadTime);
        assert!(problem.detail.starts_with("from: "), "{}", problem.detail);
        world.get(&with(good, bad)).await.problem(Code::BadTime);
    }
    let seconds = world.get(&with("1704067200", good)).await.problem(Code::BadTime);
    assert!(seconds.detail.contains("seconds"));
    let naive = world.get(&with("2024-01-01T00:00:00", good)).await.problem(Code::BadTime);
    assert!(naive.detail.contains("zone"));
    world.get(&with("2024-01-02T00:00:00Z", good)).await.problem(Code::BadSpan);
    world.get(&with(good, "2093-09-06T15:47:35.552Z")).await.problem(Code::BadSpan);
    world.get("/ids/range").await.problem(Code::BadQuery);
    world.get(&format!("/ids/range?from={good}")).await.problem(Code::BadQuery);
    world.get(&format!("{}&n=1", with(good, good))).await.problem(Code::BadQuery);
    world.get(&format!("{}&to={good}", with(good, good))).await.problem(Code::BadQuery);
}

#[tokio::test]
async fn reading_ids_never_touches_the_store() {
    let world = World::new();
    world.store.fail(false);
    world.get("/ids/42/decode").await;
    world.get("/ids/range?from=1704067200005&to=1704067200005").await;
    world.get("/ids").await.ids();
    assert_eq!(world.store.calls(), 0);
}

/// Case: the last id of a format with ticks of a day was said to be of the end of `i64`.
#[tokio::test]
async fn a_time_that_cannot_be_told_is_an_error() {
    let format = Format::new("t53g5s5".parse().unwrap(), 86_400_000, 0).unwrap();
    let world = World::of(format, Limits::DEFAULT);
    let problem = world.get(&format!("/ids/{}/decode", i64::MAX)).await.problem(Code::BadId);
    assert!(problem.detail.contains("past all time"), "{}", problem.detail);
    world.get("/ids/1/decode").await.json::<Value>();
}
