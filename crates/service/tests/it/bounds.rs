//! What is too much, too slow or of the wrong kind is refused in one shape.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use hyper::body::{Body as HttpBody, Frame};
use serde_json::json;
use snowlease_service::Limits;
use snowlease_wire::Code;

use crate::support::World;

#[tokio::test]
async fn other_paths_and_methods_are_problems_too() {
    let world = World::new();
    for path in ["/", "/id", "/ids/", "/ids/1", "/generators/1", "/tickets/x", "/store/x", "/Ids"] {
        world.get(path).await.problem(Code::NotFound);
    }
    for (path, allow) in [
        ("/generators", "GET,HEAD"),
        ("/generators/lease", "POST"),
        ("/generators/1/renew", "POST"),
        ("/generators/1/release", "POST"),
        ("/ids", "GET, POST"),
        ("/ids/1/decode", "GET,HEAD"),
        ("/ids/range", "GET,HEAD"),
        ("/store", "GET,HEAD"),
        ("/livez", "GET,HEAD"),
        ("/readyz", "GET,HEAD"),
        ("/metrics", "GET,HEAD"),
        ("/openapi.json", "GET,HEAD"),
    ] {
        let answer = world.method("DELETE", path).await;
        answer.problem(Code::MethodNotAllowed);
        assert_eq!(answer.header("allow"), allow, "{path}");
    }
}

#[tokio::test]
async fn a_body_is_json_and_said_to_be() {
    let world = World::new();
    let body = json!({ "holder": "w" }).to_string();
    for kind in ["", "text/plain", "application/x-www-form-urlencoded", "json", "application/jsonp"]
    {
        let mut request = Request::post("/generators/lease");
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        let answer = world.send(request.body(Body::from(body.clone())).unwrap()).await;
        answer.problem(Code::UnsupportedMediaType);
    }
    for kind in ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8"] {
        let request = Request::post("/generators/lease").header("content-type", kind);
        let answer = world.send(request.body(Body::from(body.clone())).unwrap()).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{kind}");
    }
    for body in ["", "{", "null", "[]", "[\"w\"]", "\"w\"", "{\"holder\":\"w\"}}", "{holder:1}"] {
        world.post_text("/generators/lease", body).await.problem(Code::BadBody);
    }
    let unknown = json!({ "holder": "w", "ttl": 60 });
    let problem = world.post("/generators/lease", unknown).await.problem(Code::BadBody);
    assert!(problem.detail.contains("`ttl`"), "{}", problem.detail);
    assert_eq!(world.get("/generators").await.json::<serde_json::Value>()["leases"][2]["seq"], 1);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_and_without_its_length() {
    let world = World::new();
    let long = format!("{{\"holder\":\"{}\"}}", "x".repeat(16 * 1024));
    let answer = world.post_text("/generators/lease", &long).await;
    assert_eq!(answer.problem(Code::BodyTooLarge).limit, Some(16 * 1024));
    // In pieces, so that no header tells the length.
    let request = Request::post("/generators/lease").header("content-type", "application/json");
    let pieces = Pieces { piece: Bytes::from(vec![b' '; 1024]), left: 1000 };
    let answer = world.send(request.body(Body::new(pieces)).unwrap()).await;
    answer.problem(Code::BodyTooLarge);
    // A length that is only claimed is refused before a byte is read.
    let request = Request::post("/ids").header("content-length", "99999999999");
    world.send(request.body(Body::empty()).unwrap()).await.problem(Code::BodyTooLarge);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up() {
    let limits = Limits { body_timeout: Duration::from_millis(50), ..Limits::DEFAULT };
    let world = World::with_limits(limits);
    let request = Request::post("/generators/lease").header("content-type", "application/json");
    let answer = world.send(request.body(Body::new(Never)).unwrap()).await;
    answer.problem(Code::RequestTimeout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_comes_in_time_whatever_the_store_does() {
    let limits = Limits { request_timeout: Duration::from_millis(50), ..Limits::DEFAULT };
    let world = World::with_limits(limits);
    world.store.hang(true);
    let ask = json!({ "holder": "w" });
    let problem = world.post("/generators/lease", ask.clone()).await.problem(Code::Timeout);
    assert_eq!(problem.retry_after_ms, Some(1_000));
    // The executor is not held up.
    world.get("/ids?n=5").await.ids();
    world.store.hang(false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_to_a_store_that_hangs_are_bounded() {
    let limits =
        Limits { request_timeout: Duration::from_millis(200), store_calls: 2, ..Limits::DEFAULT };
    let world = Arc::new(World::with_limits(limits));
    world.store.hang(true);
    let tasks: Vec<_> = (0..10)
        .map(|n| {
            let world = Arc::clone(&world);
            let ask = json!({ "holder": format!("w{n}") });
            tokio::spawn(async move { world.post("/generators/lease", ask).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().problem(Code::Timeout);
    }
    let calls = world.store.calls();
    world.store.hang(false);
    // Those that came meanwhile wait for one of two, or go with it.
    assert!((1..=2).contains(&calls), "{calls}");
}

/// A body in so many equal pieces, whose length no header tells.
struct Pieces {
    piece: Bytes,
    left: usize,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}

/// A body that never comes.
struct Never;

impl HttpBody for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// Case: a compressed body was read as JSON and called malformed.
#[tokio::test]
async fn a_body_in_another_encoding_is_of_another_type() {
    let world = World::new();
    let send = async |encoding: &str| {
        let request = Request::post("/generators/lease")
            .header("content-type", "application/json")
            .header("content-encoding", encoding);
        world.send(request.body(Body::from("{\"holder\":\"w\"}")).unwrap()).await
    };
    for encoding in ["gzip", "identity, br", "GZIP", "?"] {
        send(encoding).await.problem(Code::UnsupportedMediaType);
    }
    for encoding in ["identity", "Identity", ""] {
        assert_eq!(send(encoding).await.status, StatusCode::CREATED, "{encoding}");
    }
}
