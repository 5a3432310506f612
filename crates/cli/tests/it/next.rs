//! `snowlease next` and `snowlease lease list`, from a service and from a store.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;

use crate::run::{command, finish, run};
use crate::service::Service;

#[test]
fn ids_come_from_a_service_in_the_form_asked_for() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let service = Service::start(folder.path(), &["--max-ids-per-request", "10"]);
    let next = |arguments: &[&str]| {
        run(&[&["next", "--server", &service.url][..], arguments].concat()).answer()
    };
    assert_eq!(next(&[]).lines().count(), 1);
    // More than the service gives at once.
    let ids = next(&["-n", "25"]);
    let ids: Vec<u64> = ids.lines().map(|line| line.parse().expect("an id")).collect();
    assert_eq!((ids.len(), ids.is_sorted_by(|a, b| a < b)), (25, true));
    for (form, length) in [("crockford", 13), ("base62", 11), ("hex", 16)] {
        let ids = next(&["-n", "3", "--as", form]);
        assert!(ids.lines().all(|line| line.len() == length), "{form}: {ids}");
    }
    let leases = run(&["lease", "list", "--server", &service.url]).answer();
    assert_eq!(leases.lines().count(), 2, "{leases}");
    assert!(leases.contains("generator") && leases.contains("held"), "{leases}");
    let variable = finish(command(&["next"]).env("SNOWLEASE_SERVER", &service.url));
    assert_eq!(variable.answer().lines().count(), 1);
    let facts = run(&["lease", "list", "--server", &service.url, "--json"]).json();
    assert_eq!(facts["leases"][0]["state"], "held");
    assert!(facts["leases"][0].get("token").is_none());
}

#[test]
fn ids_come_from_a_store_and_the_lease_is_given_back() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let next = |arguments: &[&str]| {
        let mut command = command(&["next", "--store", "sqlite:ids.db"]);
        finish(command.args(arguments).current_dir(folder.path()))
    };
    let mut ids = HashSet::new();
    for said in ["created the store sqlite:ids.db\n", ""] {
        let run = next(&["-n", "20000"]);
        assert_eq!((run.code, run.err.as_str()), (0, said));
        ids.extend(run.out.lines().map(str::to_owned));
    }
    assert_eq!(ids.len(), 40_000);
    let mut list = command(&["lease", "list", "--store", "sqlite:ids.db", "--json"]);
    let facts = finish(list.current_dir(folder.path())).json();
    let leases = facts["leases"].as_array().expect("a list");
    assert!(leases.iter().all(|lease| lease["state"] == "free"), "{facts}");
}

#[test]
fn a_narrow_format_gives_less_at_once_and_any_number_in_the_end() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let format = ["--layout", "t51g6s6", "--tick", "10ms"];
    let batch = ["--max-ids-per-request", "10000"];
    let mut service = Service::start(folder.path(), &[&format[..], &batch].concat());
    let ids = run(&["next", "-n", "7000", "--server", &service.url]).answer();
    assert_eq!(ids.lines().collect::<HashSet<_>>().len(), 7_000);
    service.signal("TERM");
    service.wait();
    let said = service.said();
    let told = "warning: --max-ids-per-request 10000: a request gets 6464 ids of this format";
    assert!(said.contains(told), "{said}");
    // Nobody is bothered with a default.
    let mut service = Service::start(folder.path(), &[]);
    service.signal("TERM");
    service.wait();
    assert!(!service.said().contains("a request gets"));
    let mut next = command(&["next", "-n", "7000", "--store", "sqlite:snowlease.db"]);
    let ids = finish(next.current_dir(folder.path())).answer();
    assert_eq!(ids.lines().collect::<HashSet<_>>().len(), 7_000);
}

#[test]
fn a_store_that_grants_nothing_says_from_when_it_does() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let mut quarantine = ["store init", "store quarantine"].into_iter().map(|verb| {
        let words: Vec<&str> = verb.split(' ').collect();
        finish(command(&words).current_dir(folder.path())).answer()
    });
    quarantine.next();
    let told = quarantine.next().expect("both ran");
    let time = told.split("again from ").nth(1).and_then(|rest| rest.split(' ').next());
    let time = time.expect("it says from when");
    let mut next = command(&["next", "--store", "sqlite:snowlease.db"]);
    finish(next.current_dir(folder.path())).fails(1, &["quarantine", time]);
    let mut service = Service::start(folder.path(), &[]);
    let line = service.lines_so_far();
    assert!(line.contains("no ids yet") && line.contains(time), "{line}");
}

#[test]
fn where_nobody_listens_it_says_what_to_start() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", free.local_addr().expect("it has one"));
    drop(free);
    for verb in [&["next"][..], &["lease", "list"]] {
        let words = [url.as_str(), "nothing listens", "snowlease serve", "--store"];
        run(&[verb, &["--server", &url]].concat()).fails(1, &words);
    }
}

#[test]
fn an_answer_of_something_else_is_never_taken_for_ids() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"ids\":[\"-1\"]}",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{\"ids\":[]}",
        "HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n",
    ] {
        let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", other.local_addr().expect("it has one"));
        let server = std::thread::spawn(move || {
            let (mut peer, _) = other.accept().expect("it is asked");
            let _ = peer.read(&mut [0; 4096]);
            let _ = peer.write_all(answer.as_bytes());
        });
        run(&["next", "--server", &url]).fails(1, &["is this a Snowlease service?"]);
        server.join().expect("no panic");
    }
}

/// Answers each request with the next of `answers`, one connection each.
fn serve_answers(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", other.local_addr().expect("it has one"));
    let server = std::thread::spawn(move || {
        let answer = |answer: String| {
            let (mut peer, _) = other.accept().expect("it is asked");
            let mut bytes = [0; 4096];
            let read = peer.read(&mut bytes).expect("it is asked");
            let head = "content-type: application/json\r\nconnection: close";
            let length = answer.len();
            let whole =
                format!("HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {length}\r\n\r\n{answer}");
            peer.write_all(whole.as_bytes()).expect("it reads");
            String::from_utf8_lossy(&bytes[..read]).into_owned()
        };
        answers.into_iter().map(answer).collect()
    });
    (url, server)
}

/// Case: a proxy kept the answer and gave it to every batch.
#[test]
fn an_answer_that_is_repeated_is_an_error() {
    let ids: Vec<String> = (1..=10_000).map(|id| format!("\"{id}\"")).collect();
    let batch = format!("{{\"ids\":[{}]}}", ids.join(","));
    let (url, server) = serve_answers(vec![batch.clone(), batch]);
    let run = run(&["next", "-n", "20000", "--server", &url]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.err.contains("do not come after"), "{}", run.err);
    assert_eq!(run.out.lines().count(), 10_000);
    for request in server.join().expect("no panic") {
        assert!(request.starts_with("POST /ids?n=10000 "), "{request}");
    }
}

/// Case: the name of a holder cleared the screen of whoever listed the leases.
#[test]
fn what_a_service_says_does_not_drive_the_terminal() {
    let evil = "\\u001b[2Jweb\\u009b1m\\u202e\\n\\u2028";
    let line = format!(
        r#"{{"generator_id":1,"holder":"{evil}","machine":"{evil}","process":"{evil}",
        "region":"{evil}","seq":1,"from":1,"until":2,"until_time":"{evil}","granted_at_ms":1,
        "age_ms":1,"state":"held"}}"#
    );
    let leases = format!(r#"{{"leases":[{line}],"reference_ms":1}}"#);
    let store = format!(
        r#"{{"kind":"{evil}","format":{{"layout":"{evil}","tick_ms":1,"epoch_ms":0,
        "fingerprint":"{evil}"}},"generators":"{evil}","mode":"open","floor":0,
        "longest_window":1,"used":0,"total":1,"alarms":["{evil}"],"window_ms":1,
        "reference_ms":1}}"#
    );
    for (verb, answer) in [(["lease", "list"], leases), (["store", "status"], store)] {
        let (url, server) = serve_answers(vec![answer.clone(), answer]);
        for json in [&[][..], &["--json"]] {
            let said = run(&[&verb[..], &["--server", &url], json].concat()).answer();
            let hidden = |c: char| c != '\n' && snowlease_lease::Holder::is_hidden(c);
            assert!(said.contains("web") && !said.contains(hidden), "{said:?}");
        }
        server.join().expect("no panic");
    }
}

#[test]
fn wrong_calls_are_refused_with_the_right_one() {
    run(&["next", "-n", "0"]).fails(2, &["-n"]);
    run(&["next", "-n", "-1"]).fails(2, &["-1"]);
    run(&["next", "-n", "ten"]).fails(2, &["ten"]);
    run(&["next", "-n", "+5"]).fails(2, &["+5", "-n"]);
    run(&["next", "-n", "01"]).fails(2, &["01", "-n"]);
    for server in ["http://ids:x", "http://ids:70000", "http://[::1", "http://i ds"] {
        run(&["next", "--server", server]).fails(2, &[server, "write http://HOST:PORT"]);
    }
    run(&["next", "--store", "HTTPS://ids"]).fails(2, &["http only"]);
    run(&["next", "--as", "uuid"]).fails(2, &["uuid", "--as"]);
    run(&["next", "--server", "ids:8700"]).fails(2, &["write http://HOST:PORT"]);
    run(&["next", "--server", "https://ids"]).fails(2, &["http only"]);
    run(&["next", "--server", ""]).fails(2, &["write http://HOST:PORT"]);
    run(&["next", "--store", ""]).fails(2, &["--store is empty"]);
    run(&["next", "--store", "x", "--server", "y"]).fails(2, &["--server", "--store"]);
    run(&["next", "--store", "etcd://h:x"]).fails(2, &["etcd://h:x"]);
    let gate = ["next", "--store", "sqlite:ids.db", "--clock-gate", "off"];
    run(&gate).fails(2, &["--clock-gate", "`enforce` or `warn`"]);
    run(&["next", "--store", "ids.db"]).fails(2, &["names no store"]);
    finish(command(&["next"]).env("SNOWLEASE_SERVER", "")).fails(2, &["SNOWLEASE_SERVER"]);
    run(&["lease"]).fails(2, &["subcommand"]);
    run(&["lease", "lst"]).fails(2, &["'lst'", "'list'"]);
}
