//! `snowlease range`.

use crate::run::run;

#[test]
fn a_span_is_half_open_and_ready_for_sql() {
    let span = ["range", "--from", "2024-01-01T00:00:00Z", "--to", "2024-01-01T00:01:00.000Z"];
    let end = 60_000u64 << 22;
    assert_eq!(
        run(&span).answer(),
        format!("first  0\nend    {end}\nsql    id >= 0 AND id < {end}\n")
    );
    let facts = run(&[&span[..], &["--json", "--column", "order_id"]].concat()).json();
    assert_eq!((&facts["first"], &facts["end"]), (&"0".into(), &end.to_string().into()));
    assert_eq!(facts["sql"], format!("order_id >= 0 AND order_id < {end}"));
    assert_eq!(facts["format"], "t41g10s12/1ms/1704067200000");
}

#[test]
fn offsets_and_milliseconds_name_the_same_instants() {
    let utc = run(&["range", "--from", "2024-01-01T00:00:00Z", "--to", "2024-01-02T00:00:00Z"]);
    let nepal =
        run(&["range", "--from", "2024-01-01T05:45:00+05:45", "--to", "2024-01-02T05:45:00+05:45"]);
    let digits = run(&["range", "--from", "1704067200000", "--to", "1704153600000"]);
    let utc = utc.answer();
    assert_eq!(utc, nepal.answer());
    assert_eq!(utc, digits.answer());
}

#[test]
fn a_preset_with_our_fields_gives_bounds_and_another_does_not() {
    let span = ["--from", "1656432460105", "--to", "1656432460106"];
    let facts = run(&[&["range", "--json", "--preset", "twitter"][..], &span].concat()).json();
    let bound = |name: &str| facts[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!((bound("first")..bound("end")).contains(&1_541_815_603_606_036_480));
    run(&[&["range", "--preset", "discord"][..], &span].concat()).fails(2, &["preset discord"]);
}

#[test]
fn times_that_say_no_instant_are_refused_with_the_remedy() {
    let range = |from: &str, to: &str| run(&["range", "--from", from, "--to", to]);
    let day = "2026-01-01T00:00:00Z";
    range("2026-01-01T00:00:00", day).fails(2, &["--from", "no zone", "2026-05-01T12:00:00Z"]);
    range("2026-01-01", day).fails(2, &["--from", "no zone"]);
    range(day, "1704067200").fails(2, &["--to", "seconds", "add 000"]);
    range(day, "-5").fails(2, &["--to", "negative"]);
    range("", day).fails(2, &["--from"]);
    range("yesterday", day).fails(2, &["--from", "malformed"]);
    range("2026-01-02T00:00:00Z", day).fails(1, &["2026-01-02T00:00:00.000Z is after", "exchange"]);
    range(day, "2094-01-01T00:00:00Z").fails(1, &["end at 2093-09-06T15:47:35.552Z"]);
}
