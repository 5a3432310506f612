//! `snowlease serve`, as a process among others.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::{id_clock, os};
use snowlease_store_sqlite::{Open, SqliteStore};
use snowlease_wire::{Ids, Leases, State};

use crate::run::{command, finish, run};
use crate::service::{Service, serve};

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

#[test]
fn a_bare_serve_creates_its_store_and_serves_at_once() {
    let folder = folder();
    let begun_ns = os::boot_ns();
    let service = Service::start(folder.path(), &[]);
    let ids = service.get::<Ids>("/ids?n=100").ids;
    let elapsed = Duration::from_nanos(os::boot_ns() - begun_ns);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 100);
    // A second where nothing else runs; the tests beside this one do.
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    assert!(service.resident_kib() < 40 * 1024, "{} KiB", service.resident_kib());
    assert!(folder.path().join("snowlease.db").is_file());
    let said = service.said();
    assert!(said.lines().next().is_some_and(|line| line.contains("snowlease.db")), "{said}");
    assert!(said.contains("(store sqlite:snowlease.db, generator ids 0-1023)"), "{said}");
}

/// G1 and the order of the end: what was asked for before the signal is answered whole or not at
/// all.
#[test]
fn sigterm_finishes_requests_and_gives_the_lease_back() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &[]);
    let answers = AtomicUsize::new(0);
    let url = service.url.clone();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let ask = || {
            let mut ids = Vec::new();
            // Until nobody answers any more.
            while let Ok(mut answer) = ureq::get(format!("{url}/ids?n=500")).call() {
                let text = answer.body_mut().read_to_string().expect("an answer begun is finished");
                let batch: Ids = serde_json::from_str(&text).expect("it is whole");
                assert_eq!(batch.ids.len(), 500);
                ids.extend(batch.ids);
                answers.fetch_add(1, Ordering::Relaxed);
            }
            ids
        };
        let askers: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        // Well under way; a slow machine is not waited for without end.
        for _ in 0..10_000 {
            if answers.load(Ordering::Relaxed) >= 40 {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        service.signal("TERM");
        assert_eq!(service.wait().code(), Some(0), "{}", service.lines_so_far());
        askers.into_iter().flat_map(|asker| asker.join().expect("no panic")).collect()
    });
    assert!(!ids.is_empty());
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    let store = format!("sqlite:{}", folder.path().join("snowlease.db").display());
    let leases = run(&["lease", "list", "--store", &store, "--json"]).json();
    let leases: Leases = serde_json::from_value(leases).expect("it is that of the service");
    assert!(leases.leases.iter().all(|lease| lease.state == State::Free), "{leases:?}");
}

/// G1 across a crash: the next process takes another generator id and need not wait.
#[test]
fn killed_and_restarted_at_once_it_serves_other_ids() {
    let folder = folder();
    let mut ids = HashSet::new();
    let mut generators = HashSet::new();
    for _ in 0..3 {
        let mut service = Service::start(folder.path(), &[]);
        generators.insert(service.generator_id());
        for id in service.get::<Ids>("/ids?n=10000").ids {
            assert!(ids.insert(id));
        }
        service.signal("KILL");
        service.wait();
    }
    assert_eq!((ids.len(), generators.len()), (30_000, 3));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &[]);
    // A body that does not arrive keeps its request under way.
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut peer = TcpStream::connect(address).expect("it listens");
    let head = "POST /generators/lease HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    peer.write_all(head.as_bytes()).expect("it reads");
    service.get::<Leases>("/generators");
    service.signal("TERM");
    service.line_with("stopping");
    // Sooner it would be the first one once more.
    pass(Duration::from_millis(1_200));
    service.signal("INT");
    assert_eq!(service.wait().code(), Some(1));
    drop(peer);
    assert!(service.said().contains("stopped at once"));
}

/// Case: a service had lost its lease for an hour, and its log said nothing.
#[test]
fn a_lease_that_is_lost_is_told() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &[]);
    service.signal("STOP");
    // Longer than the leases of these tests.
    pass(Duration::from_secs(4));
    service.signal("CONT");
    service.line_with("lease lost");
    if !service.lines_so_far().contains("serving again under generator id") {
        service.line_with("serving again under generator id");
    }
    assert_eq!(service.get::<Ids>("/ids").ids.len(), 1);
}

fn pass(time: Duration) {
    let until_ns = os::boot_ns() + u64::try_from(time.as_nanos()).expect("it is short");
    while os::boot_ns() < until_ns {
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Case: `timeout` signals twice, and the lease was not given back.
#[test]
fn signals_in_a_row_are_one() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &[]);
    for name in ["TERM", "INT", "TERM"] {
        service.signal(name);
    }
    assert_eq!(service.wait().code(), Some(0), "{}", service.lines_so_far());
    assert!(!service.said().contains("stopped at once"));
    let store = format!("sqlite:{}", folder.path().join("snowlease.db").display());
    let leases = run(&["lease", "list", "--store", &store, "--json"]).json();
    assert_eq!(leases["leases"][0]["state"], "free");
}

/// Case: one peer that had asked for nothing made each stop take 10 s and fail.
#[test]
fn a_peer_with_half_a_request_does_not_hold_up_the_end() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &[]);
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut peer = TcpStream::connect(address).expect("it listens");
    peer.write_all(b"GET /ids HT").expect("it reads");
    service.get::<Leases>("/generators");
    let begun_ns = os::boot_ns();
    service.signal("TERM");
    assert_eq!(service.wait().code(), Some(0), "{}", service.lines_so_far());
    let elapsed = Duration::from_nanos(os::boot_ns() - begun_ns);
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    drop(peer);
}

#[test]
fn a_second_service_on_one_store_is_refused() {
    let folder = folder();
    let service = Service::start(folder.path(), &[]);
    finish(&mut serve(folder.path(), &[])).fails(1, &["snowlease.db", "is in use by process"]);
    assert_eq!(service.get::<Ids>("/ids").ids.len(), 1);
    let store = format!("sqlite:{}", folder.path().join("snowlease.db").display());
    run(&["lease", "list", "--store", &store]).fails(1, &["--server"]);
    run(&["next", "--store", &store]).fails(1, &["snowlease.db"]);
}

#[test]
fn a_port_in_use_is_named_and_no_store_is_made() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it has one").to_string();
    let mut command = command(&["serve", "--listen", &address]);
    finish(command.current_dir(folder.path())).fails(1, &[&address, "in use", "--listen"]);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

#[test]
fn addresses_beyond_this_machine_need_a_word() {
    let folder = folder();
    let serve = |address: &str| {
        let mut command = command(&["serve", "--store", "memory:", "--listen", address]);
        finish(command.current_dir(folder.path()))
    };
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8700"] {
        serve(address).fails(2, &[address, "access control", "--insecure"]);
    }
    serve("localhost:8700").fails(2, &["--listen", "127.0.0.1:8700"]);
    let mut open = Service::start(folder.path(), &["--insecure", "--store", "memory:"]);
    open.signal("TERM");
    assert_eq!(open.wait().code(), Some(0));
}

#[test]
fn a_store_that_cannot_be_had_is_one_clear_line() {
    let folder = folder();
    let serve = |store: &str| finish(&mut serve(folder.path(), &["--store", store]));
    serve("sqlite:missing/ids.db").fails(1, &["missing"]);
    // No user may make a file there, not even root.
    serve("sqlite:/sys/ids.db").fails(1, &["/sys/ids.db"]);
    fs::write(folder.path().join("corrupt.db"), "no database ".repeat(1000)).expect("it is ours");
    serve("sqlite:corrupt.db").fails(1, &["corrupt.db"]);
    serve("sqlite:").fails(2, &["sqlite:snowlease.db"]);
    serve("snowlease.db").fails(2, &["names no store", "sqlite:PATH"]);
    serve("http://ids.internal:8700").fails(2, &["store of its own"]);
    // Nothing listens there.
    for store in ["etcd://me:secret@127.0.0.1:1/x", "postgres://me:secret@127.0.0.1:1/ids"] {
        let run = serve(store);
        assert!(!run.err.contains("secret"), "{}", run.err);
        run.fails(1, &["127.0.0.1:1"]);
    }
}

#[test]
fn a_store_of_another_format_is_refused() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &["--layout", "t41g13s9"]);
    service.signal("TERM");
    service.wait();
    let other = finish(&mut serve(folder.path(), &["--layout", "t41g12s10"]));
    other.fails(1, &["t41g13s9", "t41g12s10"]);
    let same = Service::start(folder.path(), &[]);
    assert!(same.said().contains("generator ids 0-8191"));
}

/// Case: 28 bits of seconds ran out in production, and nobody had been told.
#[test]
fn the_end_of_a_format_is_told_at_each_start() {
    let folder = folder();
    let now_ms = os::wall_ms();
    // 2^36 ms are 795 days: as many ago as leave a bit less than a year.
    let epoch = (now_ms - (1 << 36) + 300 * 86_400_000).to_string();
    let format = ["--layout", "t36g10s17", "--epoch", &epoch, "--store", "memory:"];
    let said = Service::start(folder.path(), &format).said();
    assert!(said.contains("warning: the ids of this format end at 20"), "{said}");
    // Over: a store that is there runs and refuses, so that old ids can still be decoded.
    let layout = format[1].parse().expect("it is a layout");
    let ended = Format::new(layout, 1, now_ms - (1 << 36) - 1000).expect("it is a format");
    let open = Open { create: true, format: Some(ended), ..Open::default() };
    drop(SqliteStore::open(&folder.path().join("snowlease.db"), &open).expect("it is made"));
    let service = Service::start(folder.path(), &[]);
    run(&["next", "--server", &service.url]).fails(1, &["time field"]);
    let decoded: snowlease_wire::Decoded = service.get("/ids/1/decode");
    assert!(!decoded.in_future);
    assert!(service.said().contains("warning: the ids of this format ended at 20"));
}

/// Case: a store was made for good by a slip in the epoch, and never gave an id.
#[test]
fn no_store_is_made_for_a_format_that_gives_no_ids() {
    let folder = folder();
    let now_ms = os::wall_ms();
    let ended = (now_ms - (1 << 36) - 1000).to_string();
    let future = (now_ms + 86_400_000).to_string();
    for (epoch, word) in [(&ended, "ended at 20"), (&future, "in the future")] {
        let format = ["--layout", "t36g10s17", "--epoch", epoch];
        for store in ["sqlite:ids.db", "memory:"] {
            let arguments = [&format[..], &["--store", store]].concat();
            let mut command = serve(folder.path(), &arguments);
            finish(&mut command).fails(2, &[word, "epoch"]);
        }
        let mut init = command(&["store", "init"]);
        finish(init.args(format).current_dir(folder.path())).fails(2, &[word, "epoch"]);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

/// A generator id that is given back is taken until the tick ends, and long ticks make that long.
#[test]
fn a_tick_that_is_long_for_the_lease_is_pointed_out() {
    let folder = folder();
    let tick = |tick| Service::start(folder.path(), &["--store", "memory:", "--tick", tick]).said();
    // The leases of these tests are of 3 s.
    let said = tick("301ms");
    assert!(said.contains("warning: a tick of 301 ms is long for a lease of 3000 ms"), "{said}");
    assert!(!tick("300ms").contains("is long"));
}

/// Case: whoever reads the logs of a service must not be able to renew its leases.
#[test]
fn no_secret_is_logged_even_at_trace() {
    let folder = folder();
    let mut service = Service::start(folder.path(), &["--log", "trace"]);
    let key = "a-request-key-of-this-test-0123456789";
    let ask = format!("{{\"holder\":\"web\",\"request_key\":\"{key}\"}}");
    let mut answer = ureq::post(format!("{}/generators/lease", service.url))
        .content_type("application/json")
        .send(ask.as_str())
        .expect("a lease is granted");
    let lease = answer.body_mut().read_to_string().expect("the answer is whole");
    let lease: snowlease_wire::Lease = serde_json::from_str(&lease).expect("it is a lease");
    let release = serde_json::json!({
        "token": lease.token, "seq": lease.seq, "until": lease.from,
    });
    ureq::post(format!("{}/generators/{}/release", service.url, lease.generator_id))
        .content_type("application/json")
        .send(release.to_string())
        .expect("it is given back");
    service.signal("TERM");
    service.wait();
    let said = service.said();
    assert!(said.contains("DEBUG") || said.contains("TRACE"), "it does log: {said}");
    assert!(!said.contains(key), "the request key is logged");
    assert!(!said.contains(lease.token.reveal()), "the token is logged");
}

/// On a machine whose clock is synchronised to within a millisecond there is nothing to refuse.
#[test]
fn an_enforced_clock_gate_leases_nothing_by_a_clock_that_is_not_trusted() {
    let folder = folder();
    let flags = ["--clock-max-error", "1ms", "--clock-gate"];
    let max_error = Duration::from_millis(1);
    if id_clock::distrust(os::kernel_time(), max_error).is_some() {
        let mut service = Service::start(folder.path(), &[&flags[..], &["enforce"]].concat());
        let said = service.lines_so_far();
        assert!(said.contains("no ids yet: no lease is granted by a clock"), "{said}");
        assert!(said.contains("unless --clock-gate warn is said"), "{said}");
        assert!(said.contains("chrony") || said.contains("may be off by"), "{said}");
        service.signal("TERM");
        assert_eq!(service.wait().code(), Some(0));
        let service = Service::start(folder.path(), &[&flags[..], &["warn"]].concat());
        service.get::<Ids>("/ids");
        let said = service.said();
        assert!(said.contains("ids are unique all the same"), "{said}");
    }
}

#[test]
fn with_the_ticking_guard_it_serves_ids_of_the_present() {
    let folder = folder();
    let service = Service::start(folder.path(), &["--clock-guard", "ticking"]);
    for _ in 0..3 {
        let id: u64 = service.get::<Ids>("/ids").ids[0].parse().expect("an id");
        let format = Format::DEFAULT;
        let id = snowlease_core::Id::try_from(id).expect("an id");
        let id_ms = format.unix_ms(format.decode(id).tick);
        assert!(id_ms.abs_diff(os::wall_ms()) < 1_000, "{id_ms}");
        // Long enough for the thread to go to sleep.
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// At rest it wakes for its clocks, four times a second, and for nothing else.
#[test]
fn a_service_at_rest_wakes_five_times_a_second_at_most() {
    let folder = folder();
    // By terms of which no renewal is due meanwhile.
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
    let service = Service::of(serve.current_dir(folder.path()));
    service.get::<Ids>("/ids");
    // What it began with is over.
    std::thread::park_timeout(Duration::from_secs(1));
    let (begun_ns, before) = (os::boot_ns(), service.wakes());
    std::thread::park_timeout(Duration::from_secs(4));
    let elapsed = Duration::from_nanos(os::boot_ns() - begun_ns);
    let wakes = service.wakes() - before;
    assert!(wakes > 0, "the clocks are looked at");
    let most = 5 * (elapsed.as_secs() + 1);
    assert!(wakes <= most, "{wakes} in {elapsed:?}");
}
