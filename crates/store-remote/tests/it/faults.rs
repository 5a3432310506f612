//! Peers that misbehave: every call returns within its attempt, and says whether it may have
//! landed.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use snowlease_core::{Format, Tick};
use snowlease_lease::{
    Acquire, AcquireError, Holder, LeaseStore, Outage, Realm, Release, ReleaseError, Renew,
    RenewError, RequestKey, Token, os, rules,
};
use snowlease_store_remote::{RemoteStore, StatusError};

use crate::support::Served;

const ATTEMPT: Duration = Duration::from_millis(600);
const START: u64 = 1_000_000_000;

/// How a peer treats a connection once it has read the head of a request, and bodies as they come.
type Manner = fn(&mut TcpStream);

/// A peer of this manner, for as long as the test runs; its URL.
fn peer(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                manner(&mut stream);
            });
        }
    });
    url
}

fn says(stream: &mut TcpStream, answer: &str) {
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.flush();
    // Whatever else was sent is read, so that the answer is not lost to a reset.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let mut rest = [0; 4096];
    while matches!(stream.read(&mut rest), Ok(1..)) {}
}

fn html(stream: &mut TcpStream, status: &str) {
    let body = "<html><body>Bad Gateway</body></html>";
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close");
    says(stream, &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"));
}

fn json(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close");
    says(stream, &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"));
}

fn acquire() -> Acquire {
    Acquire {
        request_key: RequestKey::random(),
        from: Tick(START),
        until: Tick(START + 60_000),
        format: Format::DEFAULT,
        realm: Realm::default(),
        holder: Holder::new("web-0", "host-a", "1", "eu").unwrap(),
        patience: Duration::ZERO,
        now_ms: Format::DEFAULT.unix_ms(Tick(START)),
    }
}

fn renew() -> Renew {
    let token = Token::random();
    let next = token.hash();
    Renew { generator_id: 1, token, seq: 1, next, until: Tick(START), now_ms: 0 }
}

fn release() -> Release {
    let (token, next) = (Token::random(), Some(Token::random()));
    Release { generator_id: 1, token, next, seq: 1, unused_from: Tick(START) }
}

/// What each of the five calls says of a peer, each within its attempt.
fn outages(url: &str) -> Vec<Outage> {
    let store = RemoteStore::new(url, ATTEMPT).unwrap();
    let calls: [&dyn Fn() -> Outage; 5] = [
        &|| store.status().unwrap_err(),
        &|| match store.acquire(&acquire()) {
            Err(AcquireError::Outage(outage)) => outage,
            other => panic!("{other:?}"),
        },
        &|| match store.renew(&renew()) {
            Err(RenewError::Outage(outage)) => outage,
            other => panic!("{other:?}"),
        },
        &|| match store.release(&release()) {
            Err(ReleaseError::Outage(outage)) => outage,
            other => panic!("{other:?}"),
        },
        &|| store.list().unwrap_err(),
    ];
    let timed = calls.map(|call| {
        let started_ns = os::boot_ns();
        let outage = call();
        let took = Duration::from_nanos(os::boot_ns() - started_ns);
        // The rest is for a busy machine.
        assert!(took < ATTEMPT + Duration::from_millis(400), "took {took:?}");
        outage
    });
    timed.into()
}

fn all_unknown(manner: Manner) {
    for outage in outages(&peer(manner)) {
        assert!(outage.unknown, "{outage}");
    }
}

#[test]
fn a_refused_connection_changed_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for outage in outages(&url) {
        assert!(!outage.unknown && outage.detail.contains("refuses"), "{outage}");
    }
}

#[test]
fn a_name_that_is_not_known_changed_nothing() {
    for outage in outages("http://no-such-host.invalid:8700") {
        assert!(!outage.unknown, "{outage}");
    }
}

#[test]
fn a_peer_that_never_answers_is_left_in_time() {
    all_unknown(|stream| {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
}

#[test]
fn a_peer_that_answers_byte_by_byte_is_left_in_time() {
    all_unknown(|stream| {
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n";
        let mut slow = answer.iter().chain(b"\r\n{").chain(std::iter::repeat(&b' '));
        let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
        while slow.next().is_some_and(|byte| stream.write_all(&[*byte]).is_ok()) {
            // The time-out of the read is the pause between two bytes.
            let _ = stream.read(&mut [0; 64]);
        }
    });
}

#[test]
fn garbage_is_no_answer() {
    all_unknown(|stream| says(stream, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n"));
    all_unknown(|stream| json(stream, "200 OK", "<html>"));
    all_unknown(|stream| json(stream, "200 OK", "{}"));
    all_unknown(|stream| json(stream, "201 Created", r#"{"generator_id":"1"}"#));
}

#[test]
fn a_connection_closed_in_the_middle_leaves_the_outcome_open() {
    all_unknown(|_| {});
    all_unknown(|stream| says(stream, "HTTP/1.1 200"));
    all_unknown(|stream| {
        says(stream, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"generator_id\":1");
    });
}

#[test]
fn a_proxy_that_gave_up_may_have_passed_the_request_on() {
    all_unknown(|stream| html(stream, "500 Internal Server Error"));
    all_unknown(|stream| html(stream, "502 Bad Gateway"));
    all_unknown(|stream| html(stream, "504 Gateway Timeout"));
}

#[test]
fn another_server_does_nothing() {
    for manner in [
        (|stream| html(stream, "404 Not Found")) as Manner,
        |stream| html(stream, "403 Forbidden"),
        |stream| {
            says(stream, "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nConnection: close\r\n\r\n");
        },
    ] {
        for outage in outages(&peer(manner)) {
            assert!(!outage.unknown && outage.detail.contains("check the URL"), "{outage}");
        }
    }
}

#[test]
fn a_url_at_which_there_is_no_service_is_told_from_one_that_is_away() {
    let inquire = |url: &str| RemoteStore::new(url, ATTEMPT).unwrap().inquire().unwrap_err();
    for manner in [
        (|stream| html(stream, "404 Not Found")) as Manner,
        |stream| html(stream, "200 OK"),
        |stream| html(stream, "403 Forbidden"),
        |stream| {
            says(stream, "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nConnection: close\r\n\r\n");
        },
        |stream| json(stream, "200 OK", "{}"),
        |stream| says(stream, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n"),
    ] {
        let error = inquire(&peer(manner));
        let StatusError::NoService(detail) = error else { panic!("{error:?}") };
        assert!(detail.contains("check the URL"), "{detail}");
    }
    for manner in [
        (|stream| html(stream, "502 Bad Gateway")) as Manner,
        |stream| html(stream, "429 Too Many Requests"),
        |_| {},
        |stream| {
            let problem = r#"{"type":"","title":"","status":503,"detail":"d","code":"overloaded"}"#;
            json(stream, "503 No", problem);
        },
    ] {
        let error = inquire(&peer(manner));
        assert!(matches!(error, StatusError::Outage(_)), "{error:?}");
    }
    // A path that is not the service's own, where a proxy adds or drops a part.
    let served = Served::new(Format::DEFAULT, (0, 7));
    let error = inquire(&format!("{}/prefix", served.url));
    assert!(matches!(error, StatusError::NoService(_)), "{error:?}");
    served.set_now(Format::DEFAULT.epoch_ms());
    let remote = RemoteStore::new(&served.url, Duration::from_secs(5)).unwrap();
    assert_eq!(remote.inquire().unwrap().meta.format, Format::DEFAULT);
}

#[test]
fn the_code_of_a_problem_says_whether_it_may_have_landed() {
    let unknown = outages(&peer(|stream| {
        json(
            stream,
            "503 No",
            r#"{"type":"","title":"","status":503,"detail":"d","code":"timeout"}"#,
        );
    }));
    assert!(unknown.iter().all(|outage| outage.unknown && outage.detail == "d"));
    let unavailable = outages(&peer(|stream| {
        let problem = r#"{"type":"","title":"","status":503,"detail":"d","code":"overloaded"}"#;
        json(stream, "503 No", problem);
    }));
    assert!(unavailable.iter().all(|outage| !outage.unknown));
    // A code of a newer service: the status decides.
    let newer = outages(&peer(|stream| {
        json(stream, "503 No", r#"{"type":"","title":"","status":503,"detail":"d","code":"new"}"#);
    }));
    assert!(newer.iter().all(|outage| outage.unknown));
}

#[test]
fn a_service_of_another_format_grants_nothing_that_is_used() {
    let store = Format::new("t41g13s9".parse().unwrap(), 1, Format::DEFAULT.epoch_ms()).unwrap();
    let asked = Format::DEFAULT;
    // One that checks.
    let served = Served::new(store, (0, 7));
    let ask = acquire();
    served.set_now(ask.now_ms);
    let remote = RemoteStore::new(&served.url, Duration::from_secs(5)).unwrap();
    assert_eq!(remote.acquire(&ask), Err(AcquireError::Format { store, asked }));
    assert_eq!(remote.status().unwrap().meta.format, store);
    // One that does not.
    let careless = peer(|stream| {
        let format =
            r#"{"layout":"t41g13s9","tick_ms":1,"epoch_ms":1704067200000,"fingerprint":""}"#;
        let lease = r#"{"generator_id":1,"token":"","seq":1,"from":1,"until":2,"window_ms":1"#;
        let rest = r#""renew_after_ms":1,"reference_ms":1"#;
        json(stream, "201 Created", &format!("{lease},\"format\":{format},{rest}}}"));
    });
    let remote = RemoteStore::new(&careless, Duration::from_secs(5)).unwrap();
    assert_eq!(remote.acquire(&ask), Err(AcquireError::Format { store, asked }));
}

#[test]
fn a_lease_that_is_not_of_this_key_or_makes_no_sense_is_not_used() {
    let foreign = peer(|stream| {
        let format =
            r#"{"layout":"t41g10s12","tick_ms":1,"epoch_ms":1704067200000,"fingerprint":""}"#;
        let lease = r#"{"generator_id":1,"token":"ff","seq":1,"from":1,"until":2,"window_ms":1"#;
        let rest = r#""renew_after_ms":1,"reference_ms":1"#;
        json(stream, "201 Created", &format!("{lease},\"format\":{format},{rest}}}"));
    });
    let remote = RemoteStore::new(&foreign, Duration::from_secs(5)).unwrap();
    let refused = remote.acquire(&acquire());
    assert!(matches!(refused, Err(AcquireError::Outage(Outage { unknown: true, .. }))));
}

#[test]
fn a_service_whose_clock_is_not_trusted_is_told_apart_from_one_that_is_away() {
    const REASON: &str = "nothing synchronises it";
    let distrusted = peer(|stream| {
        let head = r#"{"type":"","title":"","status":503,"detail":"d","code":"clock-untrusted""#;
        json(stream, "503 No", &format!(r#"{head},"reason":"{REASON}"}}"#));
    });
    let remote = RemoteStore::new(&distrusted, Duration::from_secs(5)).unwrap();
    let refused = AcquireError::ClockUntrusted { reason: REASON.to_owned() };
    assert_eq!(remote.acquire(&acquire()), Err(refused));
}

#[test]
fn the_service_refuses_a_clock_that_is_off_and_tells_why_a_lease_is_lost() {
    let served = Served::new(Format::DEFAULT, (0, 7));
    let remote = RemoteStore::new(&served.url, Duration::from_secs(5)).unwrap();
    let ask = acquire();
    served.set_now(ask.now_ms - 2_001);
    assert_eq!(remote.acquire(&ask), Err(AcquireError::Skew { ahead_ms: 2_001 }));
    served.set_now(ask.now_ms);
    let grant = remote.acquire(&ask).unwrap();
    assert_eq!(grant.reference_ms, Some(ask.now_ms));
    let (id, token) = (grant.generator_id, ask.request_key.token());
    let stranger = remote.renew(&Renew { generator_id: id, ..renew() });
    let Err(RenewError::NotYours { reason }) = stranger else { panic!("{stranger:?}") };
    assert_eq!(reason, rules::TAKEN);
    let give_back =
        Release { generator_id: id, token, next: None, seq: 1, unused_from: grant.from };
    assert_eq!(remote.release(&give_back), Ok(()));
    let again = remote.release(&give_back);
    let Err(ReleaseError::NotYours { reason }) = again else { panic!("{again:?}") };
    assert_eq!(reason, rules::GIVEN_BACK);
}

#[test]
fn a_connection_is_kept_and_its_end_is_an_outage() {
    let served = Served::new(Format::DEFAULT, (0, 7));
    let remote = RemoteStore::new(&served.url, Duration::from_secs(5)).unwrap();
    let ask = acquire();
    served.set_now(ask.now_ms);
    let grant = remote.acquire(&ask).unwrap();
    for _ in 0..3 {
        assert_eq!(remote.acquire(&ask).unwrap().generator_id, grant.generator_id);
    }
    drop(served);
    let gone = remote.acquire(&ask).unwrap_err();
    assert!(matches!(gone, AcquireError::Outage(_)), "{gone}");
}
