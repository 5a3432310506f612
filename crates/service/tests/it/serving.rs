//! Over a socket: connections that are kept, limits on them, and an end that is bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;
use snowlease_service::{Drained, Limits};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::support::World;

struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<std::io::Result<Drained>>,
}

async fn serve(world: &World) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let ended = tokio::spawn(world.service.clone().serve(listener, shutdown));
    Served { address, stop, ended }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

fn send(stream: &mut TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).unwrap();
}

/// What comes until `end` is in it or the connection is closed.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while !text.contains(end) {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(read) => text.push_str(std::str::from_utf8(&bytes[..read]).unwrap()),
        }
    }
    text
}

const IDS: &str = "GET /ids HTTP/1.1\r\nHost: x\r\n\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_serves_many_requests_and_ends_when_the_service_does() {
    let world = World::new();
    let served = serve(&world).await;
    let address = served.address;
    let mut stream = spawn_blocking(move || {
        let mut stream = connect(address);
        let mut seen = Vec::new();
        for _ in 0..3 {
            send(&mut stream, IDS);
            let answer = read_until(&mut stream, "]}");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains("cache-control: no-store\r\n"), "{answer}");
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(!seen.contains(&body.to_owned()));
            seen.push(body.to_owned());
        }
        // A request whose head never ends does not hold up the end of the service for long.
        send(&mut stream, "GET /ids HTT");
        stream
    })
    .await
    .unwrap();
    served.stop.send(()).unwrap();
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
    spawn_blocking(move || assert_eq!(read_until(&mut stream, "HTTP"), "")).await.unwrap();
    assert!(TcpStream::connect(address).is_err());
}

/// A lease that the store does not answer yet, on a connection of its own.
async fn pending_lease(world: &World, address: SocketAddr) -> TcpStream {
    world.store.hang(true);
    let stream = spawn_blocking(move || {
        let mut stream = connect(address);
        let body = json!({ "holder": "w" }).to_string();
        let head = "POST /generators/lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json";
        let length = body.len();
        send(&mut stream, &format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}"));
        stream
    })
    .await
    .unwrap();
    while world.store.calls() == 0 {
        tokio::task::yield_now().await;
    }
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_under_way_is_finished_before_the_service_ends() {
    let world = World::new();
    let served = serve(&world).await;
    let mut stream = pending_lease(&world, served.address).await;
    served.stop.send(()).unwrap();
    // Readiness ends first, and nobody new is let in.
    let problem = loop {
        let answer = world.get("/readyz").await;
        if !answer.status.is_success() {
            break answer.problem(snowlease_wire::Code::NotReady);
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(problem.reason.as_deref(), Some("the service is stopping"));
    assert!(!served.ended.is_finished());
    world.store.hang(false);
    // To the end of the connection, which the service closes after the answer.
    let read_all = move || {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let answer = spawn_blocking(read_all).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.contains("\"token\""), "{answer}");
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_is_bounded_whatever_a_request_does() {
    let world = World::with_limits(Limits {
        drain: Duration::from_millis(50),
        request_timeout: Duration::from_secs(60),
        ..Limits::DEFAULT
    });
    let served = serve(&world).await;
    let mut stream = pending_lease(&world, served.address).await;
    served.stop.send(()).unwrap();
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 1 });
    assert_eq!(spawn_blocking(move || read_until(&mut stream, "}")).await.unwrap(), "");
    world.store.hang(false);
}

/// Case: one client that sends nothing, or half a head, and every restart takes the whole drain.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_has_not_asked_does_not_hold_up_the_end() {
    let world = World::with_limits(Limits { drain: Duration::from_secs(3600), ..Limits::DEFAULT });
    let served = serve(&world).await;
    let address = served.address;
    let peers = spawn_blocking(move || {
        let starts = ["", "GET", "GET /ids HTTP/1.1\r\nHost: x\r\n"];
        let peers = starts.map(|start| {
            let mut stream = connect(address);
            send(&mut stream, start);
            stream
        });
        // Accepted in turn, so that those before it are, too.
        let mut last = connect(address);
        send(&mut last, IDS);
        assert!(read_until(&mut last, "]}").starts_with("HTTP/1.1 200 OK"));
        send(&mut last, "GET /i");
        (peers, last)
    })
    .await
    .unwrap();
    served.stop.send(()).unwrap();
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
    drop(peers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_request_makes_room_soon_and_a_kept_one_stays() {
    let first_head_timeout = Duration::from_millis(100);
    let world =
        World::with_limits(Limits { connections: 2, first_head_timeout, ..Limits::DEFAULT });
    let served = serve(&world).await;
    let address = served.address;
    spawn_blocking(move || {
        let mut kept = connect(address);
        send(&mut kept, IDS);
        assert!(read_until(&mut kept, "]}").starts_with("HTTP/1.1 200 OK"));
        for start in ["", "GET /livez HTTP/1.1\r\n"] {
            let mut idle = connect(address);
            send(&mut idle, start);
            let mut next = connect(address);
            send(&mut next, IDS);
            assert!(read_until(&mut next, "]}").starts_with("HTTP/1.1 200 OK"));
        }
        send(&mut kept, IDS);
        assert!(read_until(&mut kept, "]}").starts_with("HTTP/1.1 200 OK"));
    })
    .await
    .unwrap();
    drop(served.stop);
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_too_many_waits_for_its_turn() {
    let world = World::with_limits(Limits { connections: 1, ..Limits::DEFAULT });
    let served = serve(&world).await;
    let address = served.address;
    spawn_blocking(move || {
        let mut first = connect(address);
        send(&mut first, IDS);
        assert!(read_until(&mut first, "]}").starts_with("HTTP/1.1 200 OK"));
        let mut second = connect(address);
        send(&mut second, IDS);
        second.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(read_until(&mut second, "]}"), "");
        drop(first);
        second.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(read_until(&mut second, "]}").starts_with("HTTP/1.1 200 OK"));
    })
    .await
    .unwrap();
    drop(served.stop);
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
}

/// Case: enough peers that ask and never read, and not even `/livez` is let in any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_loses_its_connection() {
    let write_timeout = Duration::from_millis(100);
    let world = World::with_limits(Limits { connections: 1, write_timeout, ..Limits::DEFAULT });
    let served = serve(&world).await;
    let address = served.address;
    spawn_blocking(move || {
        let mut deaf = connect(address);
        // Far more answers than the buffers in between hold, from few bytes of requests.
        send(&mut deaf, &"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000));
        let mut next = connect(address);
        send(&mut next, IDS);
        assert!(read_until(&mut next, "]}").starts_with("HTTP/1.1 200 OK"));
        drop(deaf);
    })
    .await
    .unwrap();
    drop(served.stop);
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_reads_slowly_gets_its_whole_answer() {
    let write_timeout = Duration::from_millis(500);
    let world = World::with_limits(Limits { write_timeout, ..Limits::DEFAULT });
    let served = serve(&world).await;
    let address = served.address;
    spawn_blocking(move || {
        let mut slow = connect(address);
        let ask = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
        let last = "GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        send(&mut slow, &format!("{}{last}", ask.repeat(299)));
        let (mut bytes, mut heads) = (vec![0; 1 << 20], 0);
        loop {
            // Longer than the limit altogether, and never without taking something.
            std::thread::park_timeout(Duration::from_millis(50));
            match slow.read(&mut bytes).unwrap() {
                0 => break,
                read => heads += count(&bytes[..read], b"HTTP/1.1 200 OK"),
            }
        }
        // A head may lie across the end of what was read at once.
        assert!((280..=300).contains(&heads), "{heads}");
    })
    .await
    .unwrap();
    drop(served.stop);
    assert_eq!(served.ended.await.unwrap().unwrap(), Drained { cut: 0 });
}

fn count(bytes: &[u8], word: &[u8]) -> usize {
    bytes.windows(word.len()).filter(|found| *found == word).count()
}
