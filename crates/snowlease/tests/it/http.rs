//! Connections to a lease service: leases over the wire, ids in the process.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use snowlease::{ConnectError, Connector, Format, Id, Ids, Terms};
use snowlease_core::Generator;
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{Administer, IdClock, LeaseStore, os};
use snowlease_service::{Limits, Parts, Service, Standing};

fn terms() -> Terms {
    Terms::new(Duration::from_millis(1_500), Duration::from_millis(500)).unwrap()
}

/// A lease service of this process; dropping it ends it like a crash.
struct Served {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

fn serve(store: &Arc<MemoryStore>, at: Option<SocketAddr>) -> Served {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let at = at.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
    let listener = runtime.block_on(async {
        // The port of the service before may take a moment to be free.
        loop {
            match tokio::net::TcpListener::bind(at).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    let address = listener.local_addr().unwrap();
    let format = Format::DEFAULT;
    let service = Service::new(Parts {
        store: Arc::clone(store) as Arc<dyn Administer>,
        generator: Arc::new(Generator::new(format, IdClock::start())),
        standing: Arc::new(Standing::default),
        terms: terms(),
        range: (0, 7),
        region: "test".to_owned(),
        realm: snowlease_lease::Realm::default(),
        wall_ms: Arc::new(os::wall_ms),
        limits: Limits::DEFAULT,
    });
    runtime.spawn(service.serve(listener, std::future::pending()));
    Served { address, _runtime: runtime }
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Format::DEFAULT, (0, 7)).unwrap())
}

fn connect(served: &Served) -> Ids {
    Connector::new(format!("http://{}", served.address))
        .name("http-test")
        .terms(terms())
        .connect_blocking()
        .unwrap()
}

#[test]
fn the_wire_is_not_on_the_way_of_an_id() {
    let (store, mut seen) = (memory(), HashSet::new());
    let served = serve(&store, None);
    let (first, second) = (connect(&served), connect(&served));
    for _ in 0..50_000 {
        assert!(seen.insert(first.next_id().unwrap()));
        assert!(seen.insert(second.next_id().unwrap()));
    }
    let held = || store.list().unwrap().iter().filter(|lease| lease.held).count();
    assert_eq!(held(), 2);
    first.shutdown_blocking().unwrap();
    second.shutdown_blocking().unwrap();
    assert_eq!(held(), 0);
}

#[test]
fn a_service_that_crashes_and_comes_back_costs_no_restart() {
    let store = memory();
    let served = serve(&store, None);
    let address = served.address;
    let ids = connect(&served);
    let mut seen: HashSet<Id> = ids.next_ids(1_000).unwrap().into_iter().collect();
    let generator_id = |ids: &Ids| ids.status().window.map(snowlease_core::Window::generator_id);
    let first = generator_id(&ids);

    // Away for less than a window: nobody notices.
    drop(served);
    std::thread::park_timeout(Duration::from_millis(300));
    seen.extend(ids.next_ids(1_000).unwrap());
    let served = serve(&store, Some(address));
    std::thread::park_timeout(Duration::from_millis(1_800));
    seen.extend(ids.next_ids(1_000).unwrap());
    assert_eq!(generator_id(&ids), first, "{:?}", ids.status());

    // Away for longer: issuing stops, and resumes by itself.
    drop(served);
    while ids.next_id().is_ok_and(|id| seen.insert(id)) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert!(ids.next_id().is_err());
    std::thread::park_timeout(Duration::from_millis(700));
    let _served = serve(&store, Some(address));
    ids.ready_blocking(Duration::from_secs(10)).unwrap();
    let after = ids.next_ids(1_000).unwrap();
    assert!(after.iter().all(|id| seen.insert(*id)));
    assert_eq!(ids.status().outcomes.granted, 2);
}

#[test]
fn a_service_that_is_not_there_is_named_in_the_error() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Connector::new(format!("http://{unused}"))
        .ready_within(Duration::from_millis(500))
        .connect_blocking()
        .unwrap_err();
    assert!(matches!(error, ConnectError::NotReady(_)), "{error}");
    assert!(error.to_string().contains(&unused.to_string()), "{error}");
    let error = snowlease::blocking::connect("https://ids.internal").unwrap_err().to_string();
    assert!(error.contains("TLS"), "{error}");
}

#[test]
fn a_url_at_which_there_is_no_lease_service_is_refused_at_once() {
    use std::io::{Read, Write};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n";
        write!(stream, "{head}Content-Length: 6\r\n\r\n<html>").unwrap();
    });
    let began_ns = os::boot_ns();
    let error = snowlease::blocking::connect(&url).unwrap_err();
    assert!(matches!(error, ConnectError::Store(_)), "{error}");
    assert!(os::boot_ns() - began_ns < 5_000_000_000, "it went on asking");
    other.join().unwrap();
}
