//! The configuration of `serve`: where each value comes from, and what is refused.

use std::fs;

use crate::run::{Run, command, finish};

/// `serve --print-config` with these arguments and variables, beside a file `f.toml` of this text.
fn print_config(arguments: &[&str], variables: &[(&str, &str)], file: Option<&str>) -> Run {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut command = command(&["serve", "--print-config"]);
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder.path());
    if let Some(text) = file {
        fs::write(folder.path().join("f.toml"), text).expect("it is ours");
        command.args(["--config", "f.toml"]);
    }
    finish(&mut command)
}

#[test]
fn each_value_is_shown_with_its_origin() {
    let file = "listen = \"127.0.0.1:1\"\ntick = \"2ms\"\nlease = \"30s\"\nrenew = \"10s\"\n";
    let said = print_config(
        &["--listen", "127.0.0.1:3", "--region", "eu"],
        &[("SNOWLEASE_LISTEN", "127.0.0.1:2"), ("SNOWLEASE_TICK", "3ms")],
        Some(file),
    )
    .answer();
    let line = |key: &str| {
        let line = said.lines().find(|line| line.starts_with(key)).expect("every key is shown");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("listen"), "listen = \"127.0.0.1:3\" # flag");
    assert_eq!(line("tick"), "tick = \"3ms\" # environment");
    assert_eq!(line("lease"), "lease = \"30s\" # file f.toml");
    // A store that is there has its own, and a line of a file would insist on another.
    assert_eq!(line("# layout"), "# layout = \"t41g10s12\" # default, or the store's own");
    assert_eq!(line("# generators"), "# generators = \"0-1023\" # default, or the store's own");
    assert_eq!(line("# environment"), "# environment = # not set");
    // What is printed is a file.
    let again = print_config(&[], &[], Some(&said)).answer();
    assert!(again.contains("127.0.0.1:3"), "{again}");
}

#[test]
fn a_lease_is_renewed_after_a_third_of_it_unless_said_otherwise() {
    let renew = |arguments: &[&str]| {
        print_config(&[arguments, &["--json"]].concat(), &[], None).json()["renew"].clone()
    };
    assert_eq!(renew(&[])["value"], "20s");
    assert_eq!(renew(&["--lease", "10s"])["value"], "3333ms");
    assert_eq!(renew(&["--lease", "10s"])["origin"], "default");
    assert_eq!(renew(&["--lease", "10s", "--renew", "2s"])["value"], "2s");
}

#[test]
fn the_clock_gate_is_enforced_where_only_the_clocks_of_the_holders_count_unless_said_otherwise() {
    let gate = |arguments: &[&str]| {
        print_config(&[arguments, &["--json"]].concat(), &[], None).json()["clock_gate"].clone()
    };
    for store in ["sqlite:ids.db", "memory:", "postgres://me@db/ids"] {
        assert_eq!(gate(&["--store", store])["value"], "warn", "{store}");
    }
    let etcd = ["--store", "etcd://h:2379/ids"];
    assert_eq!(gate(&etcd)["value"], "enforce");
    assert_eq!(gate(&[&etcd[..], &["--clock-gate", "warn"]].concat())["value"], "warn");
    assert_eq!(gate(&["--clock-gate", "enforce"])["value"], "enforce");
    let said = print_config(&[], &[("SNOWLEASE_CLOCK_STEP", "100ms")], None).answer();
    assert!(said.contains("clock_step = \"100ms\""), "{said}");
    assert!(said.contains("ordering_bound = \"5ms\""), "{said}");
}

#[test]
fn json_says_the_same() {
    let facts = print_config(&["--json"], &[("SNOWLEASE_NAME", "web")], None).json();
    assert_eq!(facts["name"]["value"], "web");
    assert_eq!(facts["name"]["origin"], "environment");
    assert_eq!(facts["region"]["value"], serde_json::Value::Null);
}

#[test]
fn passwords_are_not_shown() {
    let run = print_config(&["--store", "sqlite://me:secret@x/ids"], &[], None);
    assert!(!format!("{run:?}").contains("secret"), "{run:?}");
}

#[test]
fn what_is_wrong_is_refused_where_it_was_said() {
    let flags = |arguments: &[&str]| print_config(arguments, &[], None);
    flags(&["--tick", "1"]).fails(2, &["--tick", "write 1ms or 1s"]);
    flags(&["--tick", "1 ms"]).fails(2, &["--tick \"1 ms\"", "leave the spaces out"]);
    flags(&["--lease", "2h"]).fails(2, &["--lease 7200s: choose 1s to 3600s"]);
    flags(&["--lease", "1s", "--renew", "900ms"]).fails(2, &["--renew 900ms", "renew every 333ms"]);
    flags(&["--lease", "1s", "--renew", "333ms"]).answer();
    for (flag, text) in [("--region", "x".repeat(129)), ("--name", "a\u{202e}".into())] {
        let run = flags(&[flag, &text]);
        run.fails(2, &[flag, "give 1 to 128 bytes"]);
    }
    flags(&["--environment", "a b"]).fails(2, &["--environment", "64 ASCII letters"]);
    flags(&["--bridge", "59s"]).fails(2, &["--bridge 59s: choose 60s (the lease) to 3600s"]);
    flags(&["--rollback-guard", "off"]).fails(2, &["--rollback-guard", "`enforce` or `warn`"]);
    flags(&["--clock-gate", "off"]).fails(2, &["--clock-gate", "`enforce` or `warn`"]);
    flags(&["--clock-guard", "fast"]).fails(2, &["--clock-guard", "`precise` or `ticking`"]);
    flags(&["--clock-step", "10ms"]).fails(2, &["--clock-step 10ms: choose 50ms to 60s"]);
    let ignore = flags(&["--clock-ignore", "300ms"]);
    ignore.fails(2, &["--clock-ignore 300ms: choose 0s to 250ms"]);
    // What does not go with another value is told by its own name, wherever it comes from.
    let step = flags(&["--clock-step", "60ms", "--ordering-bound", "61ms"]);
    step.fails(2, &["--ordering-bound 61ms: choose 2ms to 60ms"]);
    flags(&["--lease", "60"]).fails(2, &["--lease", "60s"]);
    flags(&["--epoch", "1704067200"]).fails(2, &["--epoch", "looks like seconds"]);
    flags(&["--epoch", "-1000"]).fails(2, &["--epoch", "before 1970", "1969-12-31T23:59:59Z"]);
    flags(&["--generators", "0-1024"]).fails(2, &["--generators", "1023"]);
    flags(&["--layout", "t41g6s16", "--generators", "64"]).fails(2, &["--generators", "63"]);
    flags(&["--renew", "58s"]).fails(2, &["--renew", "every 20s"]);
    flags(&["--max-ids-per-request", "0"]).fails(2, &["--max-ids-per-request", "from 1"]);
    flags(&["--max-ids-per-request", "-5"]).fails(2, &["--max-ids-per-request", "from 1"]);
    flags(&["--log", "a=b=c"]).fails(2, &["--log"]);
    flags(&["--name", "a\u{7}b"]).fails(2, &["--name", "control characters"]);
    flags(&["--store", "ids.db"]).fails(2, &["--store", "names no store"]);
    flags(&["--plan", "x"]).fails(2, &["the plan x cannot be read"]);
    flags(&["--lisen", "x"]).fails(2, &["'--lisen'", "'--listen'"]);

    let variable = |name: &str, value: &str| print_config(&[], &[(name, value)], None);
    variable("SNOWLEASE_GENERATORS", "").fails(2, &["SNOWLEASE_GENERATORS is empty"]);
    variable("SNOWLEASE_GENERATORS", " 7").fails(2, &["SNOWLEASE_GENERATORS"]);
    variable("SNOWLEASE_STORE", "").fails(2, &["SNOWLEASE_STORE is empty"]);
    variable("SNOWLEASE_CONFIG", "").fails(2, &["SNOWLEASE_CONFIG is empty"]);
    variable("SNOWLEASE_CONFIG", "none.toml").fails(2, &["none.toml", "cannot be read"]);
    variable("SNOWLEASE_CLOCK_MAX_ERROR", "17s").fails(2, &["SNOWLEASE_CLOCK_MAX_ERROR 17s"]);
    variable("SNOWLEASE_TICK", "1").fails(2, &["SNOWLEASE_TICK", "1ms"]);

    let file = |text: &str| print_config(&[], &[], Some(text));
    file("lisen = \"x\"").fails(2, &["f.toml", "lisen", "did you mean listen?"]);
    file("tick = \"1\"").fails(2, &["tick in f.toml", "1ms"]);
    file("tick = \"\"").fails(2, &["tick in f.toml is empty"]);
    file("tick = [1]").fails(2, &["f.toml", "in quotes"]);
    file("tick = \"1ms\"\nlisten").fails(2, &["f.toml", "line 2"]);
}

#[test]
fn a_misspelt_variable_is_pointed_out_and_a_flag_is_no_value() {
    let run = print_config(&[], &[("SNOWLEASE_LISTN", "127.0.0.1:1")], None);
    assert_eq!(run.code, 0);
    assert!(run.err.contains("did you mean SNOWLEASE_LISTEN?"), "{}", run.err);
    print_config(&["--region", "--insecure"], &[], None).fails(2, &["--region <NAME>"]);
}

#[test]
fn zero_is_a_generator_id_when_it_is_said() {
    let said = print_config(&["--generators", "0"], &[], None).answer();
    assert!(said.contains("generators = \"0\""), "{said}");
}
