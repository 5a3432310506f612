//! `snowlease decode`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::Value;

use crate::run::{command, finish, run, run_with_input};

#[test]
fn ids_of_twitter_and_discord_come_out_as_their_makers_say() {
    let said = run(&["decode", "--preset", "twitter", "1541815603606036480"]).answer();
    for row in [
        "time          2022-06-28T16:07:40.105Z",
        "unix_ms       1656432460105",
        "machine       378",
        "sequence      0",
        "read as       preset twitter, tick 1 ms, epoch 2010-11-04T01:42:54.657Z",
    ] {
        assert!(said.lines().any(|line| line == row), "{row}: {said}");
    }
    let said = run(&["decode", "--preset", "discord", "175928847299117063"]).answer();
    for row in [
        "time          2016-04-30T11:18:25.796Z",
        "worker        1",
        "process       0",
        "increment     7",
    ] {
        assert!(said.lines().any(|line| line == row), "{row}: {said}");
    }
}

#[test]
fn json_has_ids_as_strings_and_all_forms() {
    let facts = run(&["decode", "--json", "20987903"]).json();
    assert_eq!(facts["id"], "20987903");
    assert_eq!(facts["time"], "2024-01-01T00:00:00.005Z");
    assert_eq!(facts["unix_ms"], 1_704_067_200_005_i64);
    assert_eq!((&facts["tick"], &facts["generator_id"]), (&Value::from(5), &Value::from(3)));
    assert_eq!(facts["sequence"], 4095);
    assert_eq!(facts["texts"]["hex"], "0000000001403fff");
    assert_eq!(facts["format"]["layout"], "t41g10s12");
    assert_eq!(facts["epoch"], "2024-01-01T00:00:00.000Z");
    assert_eq!(facts["in_future"], false);
    let facts = run(&["decode", "--json", "--preset", "discord", "175928847299117063"]).json();
    assert_eq!(facts["id"], "175928847299117063");
    assert_eq!(facts["parts"]["increment"], 7);
    assert_eq!((&facts["preset"], &facts["form"]), (&"discord".into(), &"decimal".into()));
}

#[test]
fn every_text_form_gives_the_same_id() {
    for text in ["20987903", "0000000001403fff", "00000000M0FZZ"] {
        assert_eq!(run(&["decode", "--json", text]).json()["id"], "20987903", "{text}");
    }
    let named = run(&["decode", "--json", "--form", "hex", "1000000000000000"]).json();
    assert_eq!(named["id"], (1u64 << 60).to_string());
    let detected = run(&["decode", "--json", "1000000000000000"]).json();
    assert_eq!(detected["id"], "1000000000000000");
    let largest = run(&["decode", "--json", "AzL8n0Y58m7"]).json();
    assert_eq!(
        (&largest["id"], &largest["in_future"]),
        (&i64::MAX.to_string().into(), &true.into())
    );
}

#[test]
fn the_zone_of_the_host_does_not_matter() {
    let here = run(&["decode", "20987903"]).answer();
    let there = finish(command(&["decode", "20987903"]).env("TZ", "Asia/Kathmandu")).answer();
    assert_eq!(here, there);
}

#[test]
fn only_canonical_texts_are_ids() {
    for text in [
        "+42",
        " 42",
        "42 ",
        "42\n",
        "4_2",
        "042",
        "00",
        "-0",
        "-1",
        "",
        "0x2A",
        "4.2e1",
        "１２３",
        "١٤",
        "²",
        "7zzzzzzzzzzzz",
        "AzL8n0Y58m8",
        "zzzzzzzzzzz",
        "LygHa16AHYF",
        "9223372036854775808",
        "\u{200b}1",
        "%2B42",
    ] {
        run(&["decode", text]).fails(1, &["is no id"]);
    }
}

#[test]
fn one_bad_argument_and_nothing_is_printed() {
    run(&["decode", "1", "2", "x", "3"]).fails(1, &["\"x\" is no id"]);
    run(&["decode", "--form", "crockford", "8000000000000"]).fails(1, &["is no id"]);
    run(&["decode", "1", "-"]).fails(2, &["stands alone"]);
    run(&["decode", "--preset", "js53", &(1u64 << 60).to_string()]).fails(1, &["js53"]);
}

/// The clock may be what is wrong: an id is read by the format that is said.
#[test]
fn an_epoch_that_has_not_begun_is_pointed_out_and_read_by() {
    let said = run(&["decode", "--epoch", "9999-01-01T00:00:00Z", "1", "--json"]).json();
    assert_eq!(said["in_future"], true, "{said}");
    assert_eq!(said["time"], "9999-01-01T00:00:00.000Z", "{said}");
}

#[test]
fn a_wrong_format_is_refused_with_the_right_way_to_write_it() {
    run(&["decode", "--preset", "twiter", "1"]).fails(2, &["did you mean twitter?"]);
    run(&["decode", "--layout", "t41g10s13", "1"]).fails(2, &["--layout", "take away 1"]);
    run(&["decode", "--tick", "1", "1"]).fails(2, &["--tick", "write 1ms or 1s"]);
    run(&["decode", "--epoch", "1704067200", "1"]).fails(2, &["--epoch", "looks like seconds"]);
    run(&["decode", "--epoch", "2024-01-01T00:00:00", "1"]).fails(2, &["--epoch", "no zone"]);
    run(&["decode", "--preset", "twitter", "--tick", "2ms", "1"]).fails(2, &["--preset", "--tick"]);
    run(&["decode", "--form", "octal", "1"]).fails(2, &["--form", "octal"]);
    run(&["decode", "--layout", "", "1"]).fails(2, &["--layout", "empty"]);
    finish(command(&["decode", "1"]).env("SNOWLEASE_EPOCH", "")).fails(2, &["SNOWLEASE_EPOCH"]);
}

#[test]
fn the_format_of_the_environment_counts() {
    let facts = finish(command(&["decode", "--json", "1"]).env("SNOWLEASE_LAYOUT", "t41g13s9"));
    assert_eq!(facts.json()["format"]["layout"], "t41g13s9");
}

#[test]
fn a_format_that_outlives_the_calendar_has_no_time() {
    let far = ["decode", "--layout", "t63g0s0", "9000000000000000000"];
    assert!(run(&far).answer().contains("time          after the year 9999"));
    assert!(run(&[&far[..], &["--json"]].concat()).json().get("time").is_none());
    assert!(run(&[&far[..], &["1"]].concat()).answer().contains(" time=- "));
}

#[test]
fn several_ids_and_streams_are_a_line_each() {
    let said = run(&["decode", "20987903", "25178112"]).answer();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("id=20987903 time=2024-01-01T00:00:00.005Z "), "{said}");
    assert!(lines[1].contains(" tick=6 generator_id=3 sequence=0 "), "{said}");
    assert_eq!(run_with_input(&["decode"], b"20987903\r\n25178112").answer(), said);
    assert_eq!(run_with_input(&["decode", "-"], b"20987903\n25178112\n").answer(), said);
    assert_eq!(run_with_input(&["decode"], b"").answer(), "");
    let objects = run_with_input(&["decode", "--json"], b"1\n2\n").answer();
    assert!(objects.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn bad_lines_of_a_stream_are_told_by_number_and_the_good_ones_answered() {
    let run = run_with_input(&["decode"], b"1\nx\n\n2\n\xff\n");
    assert_eq!(run.code, 1);
    assert_eq!(run.out.lines().count(), 2);
    let said: Vec<&str> = run.err.lines().collect();
    assert_eq!(said.len(), 4, "{}", run.err);
    assert!(said[0].starts_with("error: line 2: "), "{}", run.err);
    assert!(said[1].starts_with("error: line 3: "), "{}", run.err);
    assert!(said[2].starts_with("error: line 5: not UTF-8"), "{}", run.err);
    assert_eq!(said[3], "error: 3 of 5 lines are no ids: see above");
}

#[test]
fn a_reader_that_has_enough_ends_the_stream_without_complaint() {
    let mut child = command(&["decode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the executable starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let writer = std::thread::spawn(move || while stdin.write_all(b"1\n2\n3\n").is_ok() {});
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    stdout.read_line(&mut line).expect("a line");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic");
    assert!(line.starts_with("id=1 "));
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// Case: such an id was said to be of the end of `i64`.
#[test]
fn a_time_that_cannot_be_told_is_an_error() {
    let format = ["decode", "--layout", "t53g5s5", "--tick", "86400000ms", "--epoch"];
    let decode = |id| run(&[&format[..], &["1970-01-01T00:00:00Z", id]].concat());
    decode("9223372036854775807").fails(1, &["9223372036854775807", "past all time"]);
    assert!(decode("1").answer().contains("1970-01-01T00:00:00.000Z"));
}
