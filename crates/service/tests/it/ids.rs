//! `/ids`: exactly as many as asked for, strictly ascending, or an error.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use snowlease_core::{Format, Id, Tick, Window};
use snowlease_service::{Limits, Standing};
use snowlease_wire::Code;
use tokio::task::JoinHandle;

use crate::support::{OWN, START, World};

#[tokio::test]
async fn one_id_is_a_string_that_no_cache_keeps() {
    let world = World::new();
    let answer = world.get("/ids").await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("etag"), "");
    let ids = answer.ids();
    let [id] = ids[..] else { panic!("{ids:?}") };
    assert!(id > 1 << 53, "so that a number would lose digits");
    let parts = Format::DEFAULT.decode(Id::new(id).unwrap());
    assert_eq!((parts.tick, parts.generator_id, parts.sequence), (Tick(START), OWN, 0));
    assert_ne!(world.get("/ids").await.ids(), ids);
}

#[tokio::test]
async fn batches_of_every_size_ascend_and_are_exact() {
    let world = World::new();
    world.clock.advance_at_each_reading_ns(100_000);
    let mut last = 0;
    for (n, method) in [(1, "GET"), (2, "POST"), (1000, "GET"), (1001, "POST"), (10_000, "GET")] {
        let ids = world.method(method, &format!("/ids?n={n}")).await.ids();
        assert_eq!(ids.len(), n);
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids[0] > last, "after all that was issued before");
        last = ids[n - 1];
    }
}

#[tokio::test]
async fn a_small_batch_that_crosses_a_tick_waits_and_is_exact() {
    let world = World::new();
    world.clock.advance_at_each_reading_ns(10_000);
    let mut all = BTreeSet::new();
    for _ in 0..12 {
        let ids = world.get("/ids?n=999").await.ids();
        assert!(ids.is_sorted_by(|a, b| a < b));
        all.extend(ids);
    }
    assert_eq!(all.len(), 12 * 999);
    // Nobody was refused, whatever the generator saw on the way.
    let metrics = world.get("/metrics").await;
    assert!(metrics.text().contains("snowlease_refusals_total{reason=\"tick-full\"} 0"));
    assert!(metrics.text().contains("snowlease_ids_issued_total 11988"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_once_get_distinct_ids() {
    let world = Arc::new(World::new());
    world.clock.advance_at_each_reading_ns(50_000);
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                loop {
                    let answer = world.get("/ids?n=1500").await;
                    if answer.status == StatusCode::OK {
                        break answer.ids();
                    }
                    // Behind too many others for one wait: refused whole, and asked again.
                    answer.problem(Code::TickFull);
                }
            })
        })
        .collect();
    let mut all = BTreeSet::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all.len(), 20 * 1500);
}

#[tokio::test]
async fn the_three_types_say_the_same() {
    let world = World::new();
    let lines = world.accept("/ids?n=3", "text/plain").await;
    assert_eq!(lines.header("content-type"), "text/plain; charset=utf-8");
    let read: Vec<u64> = lines.text().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(read.len(), 3);
    assert!(lines.text().ends_with('\n'));
    let bytes = world.accept("/ids?n=3", "application/octet-stream").await;
    assert_eq!(bytes.header("content-type"), "application/octet-stream");
    assert_eq!(bytes.header("content-length"), "24");
    let (words, rest) = bytes.body.as_chunks::<8>();
    assert!(rest.is_empty());
    let more: Vec<u64> = words.iter().map(|word| u64::from_be_bytes(*word)).collect();
    assert_eq!(more, [read[2] + 1, read[2] + 2, read[2] + 3]);
    for answer in [&lines, &bytes] {
        assert_eq!(answer.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn what_cannot_be_answered_issues_nothing() {
    let world = World::new();
    world.accept("/ids", "text/html").await.problem(Code::NotAcceptable);
    for path in ["/ids?n=", "/ids?n=-1", "/ids?n=+5", "/ids?n=1e3", "/ids?n=0x10", "/ids?n=01"] {
        assert_eq!(world.get(path).await.problem(Code::BadQuery).limit, Some(10_000), "{path}");
    }
    for path in ["/ids?n=%EF%BC%91", "/ids?n=1%00", "/ids?n=%201", "/ids?n=1.0"] {
        world.get(path).await.problem(Code::BadQuery);
    }
    for path in ["/ids?n=1&n=1", "/ids?n=1&count=2", "/ids?N=1", "/ids?n=%zz", "/ids?x"] {
        world.get(path).await.problem(Code::BadQuery);
    }
    for n in ["0", "10001", "4294967296", "18446744073709551616", "2305843009213693952"] {
        let problem = world.get(&format!("/ids?n={n}")).await.problem(Code::BatchSize);
        assert_eq!(problem.limit, Some(10_000));
        assert!(problem.detail.contains("10000"));
    }
    let first = world.get("/ids").await.ids()[0];
    assert_eq!(Format::DEFAULT.decode(Id::new(first).unwrap()).sequence, 0);
}

#[tokio::test]
async fn only_get_and_post_issue() {
    let world = World::new();
    for method in ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let answer = world.method(method, "/ids?n=5").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(answer.header("allow"), "GET, POST");
        if method != "HEAD" {
            answer.problem(Code::MethodNotAllowed);
        }
    }
    let first = world.get("/ids").await.ids()[0];
    assert_eq!(Format::DEFAULT.decode(Id::new(first).unwrap()).sequence, 0);
}

#[tokio::test]
async fn each_refusal_is_a_problem_with_its_code() {
    let world = World::new();
    // The clock fell behind what was issued.
    world.get("/ids").await.ids();
    world.clock.set_ms(Format::DEFAULT.unix_ms(Tick(START - 1)));
    let answer = world.get("/ids").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
    world.clock.set_ms(Format::DEFAULT.unix_ms(Tick(START + 60_000)));
    let problem = world.get("/ids").await.problem(Code::WindowEnd);
    assert_eq!(problem.retry_after_ms, Some(100));
    world.clock.set_ms(Format::DEFAULT.epoch_ms() - 1);
    world.get("/ids").await.problem(Code::BeforeEpoch);
    world.get("/ids?n=5000").await.problem(Code::BeforeEpoch);
    // The lease is gone: the reason is told.
    world.generator.close();
    world.clock.set_ms(Format::DEFAULT.unix_ms(Tick(START)));
    *world.standing.lock().unwrap() =
        Standing { reason: "the store cannot be reached".to_owned(), ..Standing::default() };
    for path in ["/ids", "/ids?n=5000"] {
        let problem = world.get(path).await.problem(Code::NoLease);
        assert_eq!(problem.reason.as_deref(), Some("the store cannot be reached"));
    }
    let metrics = world.get("/metrics").await;
    assert!(metrics.text().contains("snowlease_refusals_total{reason=\"no-lease\"} 2"));
    assert!(metrics.text().contains("snowlease_refusals_total{reason=\"before-epoch\"} 2"));
}

#[tokio::test]
async fn a_window_that_begins_later_is_told_from_one_that_has_ended() {
    let world = World::new();
    let format = Format::DEFAULT;
    let window = Window::new(format.layout(), 1, Tick(START + 500), Tick(START + 900)).unwrap();
    world.generator.open(window, u64::MAX).unwrap();
    let problem = world.get("/ids").await.problem(Code::WindowNotYet);
    assert_eq!(problem.retry_after_ms, Some(500));
    // A batch that cannot end inside the window is refused whole.
    world.clock.advance_ms(899);
    world.get("/ids?n=10000").await.problem(Code::WindowEnd);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_that_wait_are_refused_at_once() {
    let limits = Limits { waiters: 0, ..Limits::DEFAULT };
    let world = World::with_limits(limits);
    let problem = world.get("/ids?n=5000").await.problem(Code::Overloaded);
    assert_eq!(problem.retry_after_ms, Some(1000));
    // What needs no waiting is not affected.
    assert_eq!(world.get("/ids?n=1000").await.ids().len(), 1000);
    assert!(Limits::DEFAULT.request_timeout > Duration::from_secs(3));
}

#[tokio::test]
async fn a_narrow_format_bounds_the_batch() {
    // 64 ids in 10 ms: those of a second and of the tick it begins in can be waited for.
    let format = Format::new("t51g6s6".parse().unwrap(), 10, Format::DEFAULT.epoch_ms()).unwrap();
    let world = World::of(format, Limits::DEFAULT);
    world.clock.advance_at_each_reading_ns(1_000_000);
    for n in ["6465", "10000", "10001"] {
        let problem = world.get(&format!("/ids?n={n}")).await.problem(Code::BatchSize);
        assert_eq!(problem.limit, Some(6464), "{n}");
        assert!(problem.detail.contains("1 to 6464"), "{}", problem.detail);
    }
    assert_eq!(world.get("/ids?n=6464").await.ids().len(), 6464);
    // The service's own limit holds where it is the lower one.
    let world = World::of(format, Limits { batch: 100, ..Limits::DEFAULT });
    assert_eq!(world.get("/ids?n=101").await.problem(Code::BatchSize).limit, Some(100));
}

/// Case: a queue of large batches made the clock look as if it had fallen back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn large_batches_in_a_row_do_not_look_like_a_clock_that_fell_back() {
    let format = Format::new("t41g13s9".parse().unwrap(), 1, Format::DEFAULT.epoch_ms()).unwrap();
    let request_timeout = Duration::from_secs(60);
    let world =
        Arc::new(World::of(format, Limits { batch: 1 << 20, request_timeout, ..Limits::DEFAULT }));
    world.clock.advance_at_each_reading_ns(50_000);
    let ask = |n: usize| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let answer = world.get(&format!("/ids?n={n}")).await;
            if answer.status == StatusCode::OK {
                return answer.ids();
            }
            let problem = answer.problem(Code::TickFull);
            assert!(problem.retry_after_ms.is_some());
            Vec::new()
        })
    };
    // Nearly a second of ids, and all the others behind them.
    let first = ask(500_000);
    while world.generator.waits() == 0 {
        tokio::task::yield_now().await;
    }
    let behind: Vec<_> = [1, 512_000, 1, 1001, 1, 300_000, 5_000, 1].into_iter().map(ask).collect();
    // Time passes with each look at the clock, so who is served in time is left open.
    let mut all = first.await.unwrap();
    for task in behind {
        all.extend(task.await.unwrap());
    }
    let count = all.len();
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), count);
    let metrics = world.get("/metrics").await;
    assert!(metrics.text().contains("snowlease_refusals_total{reason=\"clock-behind\"} 0"));
}

/// What the generator refuses on the way to a wait is no refusal of a call, and no count falls.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn refusals_are_those_of_callers_and_never_fall() {
    // 64 ids a tick, so that ten ticks are taken by each call and the others are behind it.
    let format = Format::new("t41g16s6".parse().unwrap(), 1, Format::DEFAULT.epoch_ms()).unwrap();
    let world = Arc::new(World::of(format, Limits::DEFAULT));
    world.clock.advance_at_each_reading_ns(5_000);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let mut refused = 0;
                for _ in 0..50 {
                    let answer = world.get("/ids?n=640").await;
                    if answer.status != StatusCode::OK {
                        let problem: snowlease_wire::Problem = answer.json();
                        refused += u64::from(problem.code == "tick-full");
                    }
                }
                refused
            })
        })
        .collect();
    let mut last = 0;
    while !tasks.iter().all(JoinHandle::is_finished) {
        let now = tick_full(&world).await;
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
    let mut refused = 0;
    for task in tasks {
        refused += task.await.unwrap();
    }
    assert_eq!(tick_full(&world).await, refused);
}

/// The count of refusals for full ticks.
async fn tick_full(world: &World) -> u64 {
    let metrics = world.get("/metrics").await;
    let name = "snowlease_refusals_total{reason=\"tick-full\"} ";
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}
