//! A lease service of this process, and what stands between it and its holders.

#![allow(clippy::unwrap_used, reason = "a helper fails as its test does")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use snowlease::{Format, Id, Ids, Refusal, Terms};
use snowlease_core::Generator;
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{Administer, IdClock, LeaseStore, os};
use snowlease_service::{Limits, Parts, Service, Standing};

/// Windows of 1.5 s, so that no test waits long for one to end.
pub(crate) fn short() -> Terms {
    Terms::new(Duration::from_millis(1_500), Duration::from_millis(500)).unwrap()
}

/// A lease service over a store in memory; it ends with this value.
pub(crate) struct Served {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    /// Of the generator ids from 0 to `last`.
    pub(crate) fn start(last: u64, terms: Terms) -> Served {
        let store = Arc::new(MemoryStore::new(Format::DEFAULT, (0, last)).unwrap());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let service = Service::new(Parts {
            store: Arc::clone(&store) as Arc<dyn Administer>,
            generator: Arc::new(Generator::new(Format::DEFAULT, IdClock::start())),
            standing: Arc::new(Standing::default),
            terms,
            range: (0, last),
            region: String::new(),
            realm: snowlease_lease::Realm::default(),
            wall_ms: Arc::new(os::wall_ms),
            limits: Limits::DEFAULT,
        });
        runtime.spawn(service.serve(listener, std::future::pending()));
        Served { store, address, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many generator ids are held.
    pub(crate) fn held(&self) -> usize {
        self.store.list().unwrap().iter().filter(|lease| lease.held).count()
    }
}

/// Stands before a service and, once told to, swallows all that is sent to it: nothing is refused,
/// nothing is answered.
pub(crate) struct Swallows {
    pub(crate) address: SocketAddr,
    silent: Arc<AtomicBool>,
    swallowed: Arc<AtomicUsize>,
}

impl Swallows {
    pub(crate) fn before(service: SocketAddr) -> Swallows {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let swallows = Swallows {
            address: listener.local_addr().unwrap(),
            silent: Arc::default(),
            swallowed: Arc::default(),
        };
        let (silent, swallowed) = (Arc::clone(&swallows.silent), Arc::clone(&swallows.swallowed));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(service).unwrap();
                let ends = [(near.try_clone(), far.try_clone(), true), (Ok(far), Ok(near), false)];
                for (from, to, counted) in ends {
                    let (silent, swallowed) = (Arc::clone(&silent), Arc::clone(&swallowed));
                    let (from, to) = (from.unwrap(), to.unwrap());
                    thread::spawn(move || {
                        pass_on(from, to, &silent, counted.then_some(&swallowed));
                    });
                }
            }
        });
        swallows
    }

    pub(crate) fn be_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    /// How many requests were swallowed.
    pub(crate) fn swallowed(&self) -> usize {
        self.swallowed.load(Ordering::SeqCst)
    }
}

fn pass_on(
    mut from: TcpStream,
    mut to: TcpStream,
    silent: &AtomicBool,
    count: Option<&AtomicUsize>,
) {
    let mut bytes = [0; 8192];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if !silent.load(Ordering::SeqCst) {
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        } else if let Some(swallowed) = count {
            // Only what begins one: a request may come in parts.
            let begins = bytes[..read].starts_with(b"POST ");
            swallowed.fetch_add(usize::from(begins), Ordering::SeqCst);
        }
    }
}

/// Exactly `n` ids, however long a busy machine takes for a tick.
pub(crate) fn draw(ids: &Ids, n: usize) -> Vec<Id> {
    loop {
        match ids.next_ids(n) {
            Err(Refusal::TickFull { .. }) => {}
            answer => break answer.unwrap(),
        }
    }
}

/// Waits for at least this long.
pub(crate) fn pass(ms: u64) {
    let until_ns = os::boot_ns() + ms * 1_000_000;
    while os::boot_ns() < until_ns {
        thread::park_timeout(Duration::from_millis(5));
    }
}
