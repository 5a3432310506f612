//! Connections to a file: the embedded store, without a service.

use std::collections::HashSet;
use std::time::Duration;

use snowlease::{ConnectError, Connector, Format, Id};

fn connector(url: &str) -> Connector {
    Connector::new(url).name("test").ready_within(Duration::from_secs(5))
}

#[test]
fn ids_stay_unique_from_one_run_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("ids.db").display());
    let mut seen: HashSet<Id> = HashSet::new();
    let mut last = Id::MIN;
    for run in 0..5 {
        let ids = connector(&url).connect_blocking().unwrap();
        for id in ids.next_ids(10_000).unwrap() {
            assert!(seen.insert(id), "{id} was issued twice");
            assert!(id > last, "run {run} gave a smaller id than the one before");
            last = id;
        }
        if run % 2 == 0 {
            ids.shutdown_blocking().unwrap();
        }
    }
}

#[test]
fn two_connections_of_one_process_share_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ids.db");
    let first = connector(&format!("sqlite:{}", path.display())).connect_blocking().unwrap();
    let other_spelling = folder.path().join(".").join("ids.db");
    let second =
        connector(&format!("sqlite:{}", other_spelling.display())).connect_blocking().unwrap();
    let mut all = first.next_ids(1_000).unwrap();
    all.extend(second.next_ids(1_000).unwrap());
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 2_000);
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "these are notes, and no database at all").unwrap();
    let error = connector(&format!("sqlite:{}", path.display())).connect_blocking().unwrap_err();
    assert!(matches!(error, ConnectError::Store(_)), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "these are notes, and no database at all");
    let error = connector("sqlite:").connect_blocking().unwrap_err().to_string();
    assert!(error.contains("names no file"), "{error}");
}

#[test]
fn a_new_file_takes_the_format_asked_for_and_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("ids.db").display());
    let fleet = Format::new("t41g13s9".parse().unwrap(), 1, 1_704_067_200_000).unwrap();
    connector(&url).format(fleet).connect_blocking().unwrap().shutdown_blocking().unwrap();
    let error = connector(&url).format(Format::DEFAULT).connect_blocking().unwrap_err();
    assert!(error.to_string().contains("t41g13s9"), "{error}");
    assert_eq!(connector(&url).connect_blocking().unwrap().format(), fleet);
}
