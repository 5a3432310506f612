//! `snowlease store`: init, status and quarantine.

use std::fs;
use std::path::Path;

use crate::run::{Run, command, finish, run};
use crate::service::{Service, serve};

fn store(folder: &Path, arguments: &[&str]) -> Run {
    finish(command(&["store"]).args(arguments).current_dir(folder))
}

#[test]
fn a_store_is_made_once_and_looked_at() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let made = store(folder.path(), &["init", "--layout", "t41g13s9", "--generators", "16-31"]);
    let said = made.answer();
    assert!(said.starts_with("created sqlite:snowlease.db\n"), "{said}");
    assert!(said.contains("t41g13s9") && said.contains("16-31"), "{said}");
    store(folder.path(), &["init"]).fails(1, &["snowlease.db"]);
    store(folder.path(), &["init", "--layout", "t41g13s9", "--generators", "16-31"])
        .fails(1, &["already"]);
    let status = ["status", "--store", "sqlite:snowlease.db"];
    let said = store(folder.path(), &status).answer();
    assert!(said.contains("in use         0 of 16") && said.contains("open"), "{said}");
    let facts = store(folder.path(), &[&status[..], &["--json"]].concat()).json();
    assert_eq!(facts["format"]["layout"], "t41g13s9");
    assert_eq!((&facts["generators"], &facts["total"]), (&"16-31".into(), &16.into()));
    let by_variable = finish(
        command(&["store", "init", "--json"])
            .env("SNOWLEASE_STORE", "sqlite:other.db")
            .current_dir(folder.path()),
    );
    assert_eq!(by_variable.json()["generators"], "0-1023");
    assert!(folder.path().join("other.db").is_file());
}

#[test]
fn a_service_tells_of_its_store() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let service = Service::start(folder.path(), &["--generators", "5-8"]);
    let said = store(folder.path(), &["status", "--server", &service.url]).answer();
    assert!(said.contains("in use         1 of 4"), "{said}");
    assert!((5..=8).contains(&service.generator_id()));
    store(folder.path(), &["status", "--store", "sqlite:snowlease.db"]).fails(1, &["--server"]);
    store(folder.path(), &["quarantine"]).fails(1, &["snowlease.db", "stop it"]);
}

#[test]
fn quarantine_holds_until_every_forgotten_lease_is_over() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    store(folder.path(), &["init"]).answer();
    let facts = store(folder.path(), &["quarantine", "--json"]).json();
    let floor = facts["floor"].as_u64().expect("a tick");
    let time = facts["floor_time"].as_str().expect("a time");
    let again = store(folder.path(), &["quarantine"]).answer();
    assert!(again.contains("grants again from"), "{again}");
    let facts =
        store(folder.path(), &["status", "--store", "sqlite:snowlease.db", "--json"]).json();
    assert!(facts["floor"].as_u64().is_some_and(|later| later >= floor), "{facts}");
    let said = store(folder.path(), &["status", "--store", "sqlite:snowlease.db"]).answer();
    assert!(said.contains("in quarantine: it grants again from 20"), "{said}");
    assert!(time.ends_with('Z'), "{time}");
    // A service on it runs, says that it has no ids yet and why, and never gives one.
    let service = Service::start(folder.path(), &[]);
    run(&["next", "--server", &service.url]).fails(1, &["quarantine"]);
    assert!(service.said().contains("no ids yet"));
}

/// Case: a copied folder gives two machines one identity.
#[test]
fn a_copy_is_refused_until_it_is_quarantined() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    store(folder.path(), &["init"]).answer();
    let copy = tempfile::tempdir().expect("a folder for the copy");
    for entry in fs::read_dir(folder.path()).expect("it is there") {
        let entry = entry.expect("it is readable");
        fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("it is copied");
    }
    let words = ["is a copy", "store quarantine"];
    finish(&mut serve(copy.path(), &[])).fails(1, &words);
    store(copy.path(), &["status", "--store", "sqlite:snowlease.db"]).fails(1, &words);
    let adopted = store(copy.path(), &["quarantine"]);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    let status = store(copy.path(), &["status", "--store", "sqlite:snowlease.db"]);
    assert_eq!(status.code, 0, "{}", status.err);
}

#[test]
fn wrong_calls_are_refused_with_the_right_one() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let store = |arguments: &[&str]| store(folder.path(), arguments);
    store(&["init", "--store", "memory:"]).fails(2, &["sqlite:PATH"]);
    store(&["init", "--store", "ids.db"]).fails(2, &["--store", "names no store"]);
    store(&["init", "--generators", "0-4096"]).fails(2, &["--generators"]);
    store(&["status", "--store", "sqlite:none.db"])
        .fails(1, &["no store at none.db", "store init"]);
    store(&["quarantine"]).fails(1, &["no store at snowlease.db"]);
    store(&["quarantine", "--server", "x"]).fails(2, &["write http://HOST:PORT"]);
    store(&["stat"]).fails(2, &["'stat'", "'status'"]);
    store(&[]).fails(2, &["subcommand"]);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
