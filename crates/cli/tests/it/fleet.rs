//! What an operator of a fleet does: plans, drains, freezes, checks.

use std::fs;

use serde_json::Value;

use crate::run::{command, finish, run};
use crate::serve::folder;
use crate::service::{Service, eventually};

const PLAN: &str = "environment = \"production\"\nlayout = \"t41g13s9\"\n\
    [range.eu]\ngenerators = \"0-4095\"\nstore = \"sqlite:eu.db\"\n\
    [range.us]\ngenerators = \"4096-8191\"\n";

fn in_folder(folder: &std::path::Path, arguments: &[&str]) -> crate::run::Run {
    finish(command(arguments).current_dir(folder))
}

#[test]
fn a_plan_is_checked_with_the_stores_it_names() {
    let folder = folder();
    fs::write(folder.path().join("plan.toml"), PLAN).expect("it is ours");
    let check = |arguments: &[&str]| {
        in_folder(folder.path(), &[&["plan", "check", "plan.toml"], arguments].concat())
    };
    let offline = check(&["--offline"]).answer();
    assert!(offline.contains("eu  0-4095") && offline.contains("production"), "{offline}");
    // Its store is not there yet.
    check(&[]).fails(1, &["range eu: sqlite:eu.db", "store init --plan"]);
    let init = ["store", "init", "--plan", "plan.toml", "--range", "eu"];
    let made = in_folder(folder.path(), &init).answer();
    for part in ["created sqlite:eu.db", "0-4095", "production", "region         eu", "t41g13s9"] {
        assert!(made.contains(part), "{part}: {made}");
    }
    assert!(check(&[]).answer().contains("sqlite:eu.db agrees"));
    // The plan grows by a range: the store is told, and its own range stays.
    let grown =
        PLAN.replace("4096-8191", "4096-6000") + "[range.asia]\ngenerators = \"6001-8191\"\n";
    fs::write(folder.path().join("plan.toml"), &grown).expect("it is ours");
    check(&[]).fails(1, &["sqlite:eu.db: it goes by another plan", "store adopt"]);
    let adopt = ["store", "adopt", "--plan", "plan.toml", "--range", "eu"];
    assert!(in_folder(folder.path(), &adopt).answer().contains("goes by the plan"));
    assert!(check(&[]).answer().contains("agrees"));
    let shrunk = grown.replace("0-4095", "0-4000");
    fs::write(folder.path().join("plan.toml"), &shrunk).expect("it is ours");
    in_folder(folder.path(), &adopt).fails(1, &["0-4095", "0-4000", "never changes"]);
}

#[test]
fn plans_that_would_issue_the_same_ids_are_refused() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("ours");
    write("overlap.toml", &PLAN.replace("4096-8191", "4095-8191"));
    let check = |files: &[&str]| {
        in_folder(folder.path(), &[&["plan", "check", "--offline"], files].concat())
    };
    check(&["overlap.toml"]).fails(2, &["overlap.toml", "eu (0-4095)", "us (4095-8191)"]);
    write("one.toml", PLAN);
    write(
        "other.toml",
        "environment = \"production\"\nlayout = \"t41g13s9\"\n[range.x]\ngenerators = \"8191\"\n",
    );
    check(&["one.toml", "other.toml"]).fails(1, &["one.toml", "other.toml", "in common"]);
    write("format.toml", "environment = \"production\"\n[range.x]\ngenerators = \"9\"\n");
    check(&["one.toml", "format.toml"]).fails(1, &["one format"]);
    // Another environment issues ids that never meet these.
    write("staging.toml", &PLAN.replace("production", "staging"));
    check(&["one.toml", "staging.toml"]).answer();
    write("typo.toml", &PLAN.replace("generators", "generator"));
    check(&["typo.toml"]).fails(2, &["typo.toml", "line 4", "unknown field"]);
    check(&["missing.toml"]).fails(2, &["plan missing.toml", "No such file"]);
}

#[test]
fn a_service_of_a_plan_serves_its_range_and_no_other() {
    let folder = folder();
    fs::write(folder.path().join("plan.toml"), PLAN).expect("it is ours");
    let plan = ["--plan", "plan.toml"];
    let serve =
        |arguments: &[&str]| in_folder(folder.path(), &[&["serve"], &plan[..], arguments].concat());
    serve(&[]).fails(2, &["--range eu|us"]);
    serve(&["--range", "europe"]).fails(2, &["--range \"europe\"", "only eu, us"]);
    serve(&["--range", "eu", "--layout", "t41g12s10"]).fails(2, &["--layout contradicts the plan"]);
    serve(&["--range", "eu", "--generators", "0-9"]).fails(2, &["--generators contradicts"]);
    serve(&["--range", "eu", "--environment", "staging"]).fails(2, &["--environment contradicts"]);
    in_folder(folder.path(), &["serve", "--range", "eu"]).fails(2, &["--plan FILE"]);
    let shown = serve(&["--range", "us", "--print-config", "--json"]).answer();
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(shown["generators"]["value"], "4096-8191");
    assert_eq!(shown["layout"]["value"], "t41g13s9");
    let service = Service::start(folder.path(), &["--plan", "plan.toml", "--range", "eu"]);
    let said = service.said();
    assert!(said.contains("production, store sqlite:eu.db, generator ids 0-4095"), "{said}");
    // Another region's service, pointed at this store.
    serve(&["--range", "us", "--store", "sqlite:eu.db"]).fails(1, &["0-4095", "4096-8191"]);
    // A process without a word of configuration does not join production.
    in_folder(folder.path(), &["serve", "--store", "sqlite:eu.db"])
        .fails(2, &["environment production", "--environment production"]);
    in_folder(folder.path(), &["serve", "--store", "sqlite:eu.db", "--environment", "staging"])
        .fails(1, &["production", "staging"]);
}

#[test]
fn a_running_service_takes_what_its_operator_says() {
    let folder = folder();
    let service = Service::start(folder.path(), &["--generators", "0-7"]);
    let ask = |arguments: &[&str]| run(&[arguments, &["--server", &service.url]].concat());
    assert!(ask(&["store", "freeze"]).answer().contains("unfreeze"));
    assert!(ask(&["store", "status"]).answer().contains("frozen"));
    ask(&["store", "unfreeze"]).answer();
    let held = |json: &str| -> Vec<(u64, String)> {
        let leases: Value = serde_json::from_str(json).expect("it is JSON");
        let lines = leases["leases"].as_array().expect("leases").iter();
        lines
            .map(|line| {
                let id = line["generator_id"].as_u64().expect("an id");
                (id, line["state"].as_str().expect("a state").to_owned())
            })
            .collect()
    };
    let before = held(&ask(&["lease", "list", "--json"]).answer());
    let (id, _) = before[0].clone();
    let drained = ask(&["lease", "drain", &id.to_string()]).answer();
    assert!(drained.contains(&format!("undrain {id}")), "{drained}");
    // The holder, which is the service itself, moves at its next renewal.
    eventually(|| {
        let leases = held(&ask(&["lease", "list", "--json"]).answer());
        leases.iter().any(|(other, state)| *other != id && state == "held")
    });
    ask(&["next", "-n", "3"]).answer();
    ask(&["lease", "undrain", &id.to_string()]).answer();
    let sound = ask(&["store", "verify"]).answer();
    assert!(sound.starts_with("sound: 8 cells"), "{sound}");
    assert!(ask(&["store", "quarantine"]).answer().contains("grants again from"));
    ask(&["lease", "drain", "99"]).fails(1, &["range"]);
    ask(&["lease", "drain", "x"]).fails(2, &["x"]);
}

#[test]
fn ids_straight_from_a_store_of_an_environment_want_it_stated() {
    let folder = folder();
    let init = ["store", "init", "--store", "sqlite:p.db", "--environment", "production"];
    in_folder(folder.path(), &init).answer();
    let next = |more: &[&str]| {
        in_folder(folder.path(), &[&["next", "--store", "sqlite:p.db"], more].concat())
    };
    next(&[]).fails(2, &["--environment production"]);
    next(&["--environment", "staging"]).fails(1, &["production", "staging"]);
    assert_eq!(next(&["--environment", "production"]).answer().lines().count(), 1);
}

/// The next version of a plan keeps the ranges that are in use, and hands none of them on.
#[test]
fn a_plan_is_checked_against_the_version_before() {
    let folder = folder();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("ours");
    let check = |files: &[&str]| {
        in_folder(folder.path(), &[&["plan", "check", "--offline"], files].concat())
    };
    write("old.toml", &PLAN.replace("4096-8191", "4096-6000"));
    let more = "[range.asia]\ngenerators = \"6001-8191\"\n";
    write("new.toml", &(PLAN.replace("4096-8191", "4096-6000") + more));
    check(&["old.toml", "new.toml"]).answer();
    write("handed-on.toml", &PLAN.replace("range.eu", "range.de"));
    check(&["old.toml", "handed-on.toml"]).fails(1, &["eu (0-4095)", "de (0-4095)"]);
}
