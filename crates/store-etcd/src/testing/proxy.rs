//! A proxy in front of an endpoint that can be told to swallow everything, as a network does that
//! drops packets: connections stay open, and nothing comes back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Forwards connections until it is told not to.
#[derive(Debug)]
pub struct Proxy {
    host: String,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    swallow_requests: AtomicBool,
    swallow_answers: AtomicBool,
    hold_answers: AtomicBool,
    closed: AtomicBool,
    connections: AtomicUsize,
    /// Of the connections up to this one, answers are lost, or what is asked as well.
    answers_lost: AtomicUsize,
    requests_lost: AtomicUsize,
}

impl Proxy {
    /// A proxy in front of this endpoint.
    pub fn to(endpoint: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State::default());
        let (shared, endpoint) = (Arc::clone(&state), endpoint.to_owned());
        thread::spawn(move || {
            for client in listener.incoming() {
                // ORDERING: SeqCst, here and below; a test needs no cleverness.
                if shared.closed.load(Ordering::SeqCst) {
                    return;
                }
                let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&endpoint)) else {
                    continue;
                };
                let copies = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let state = Arc::clone(&shared);
                thread::spawn(move || {
                    forward(copies.0, copies.1, || {
                        state.swallow_requests.load(Ordering::SeqCst)
                            || number <= state.requests_lost.load(Ordering::SeqCst)
                    });
                });
                let state = Arc::clone(&shared);
                thread::spawn(move || {
                    forward(server, client, || {
                        while state.hold_answers.load(Ordering::SeqCst) {
                            // Nothing is lost, it only takes as long as it takes.
                            thread::park_timeout(Duration::from_millis(2));
                        }
                        state.swallow_answers.load(Ordering::SeqCst)
                            || number <= state.answers_lost.load(Ordering::SeqCst)
                    });
                });
            }
        });
        Proxy { host, state }
    }

    /// Where it listens.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether what is sent to the endpoint is lost.
    pub fn swallow_requests(&self, swallow: bool) {
        self.state.swallow_requests.store(swallow, Ordering::SeqCst);
    }

    /// Whether what the endpoint answers is lost.
    pub fn swallow_answers(&self, swallow: bool) {
        self.state.swallow_answers.store(swallow, Ordering::SeqCst);
    }

    /// Whether what the endpoint answers is held back, as if it were overloaded.
    pub fn hold_answers(&self, hold: bool) {
        self.state.hold_answers.store(hold, Ordering::SeqCst);
    }

    /// The connections there are lose every answer from now on, or whatever is sent either way; new
    /// ones are fine.
    pub fn forsake(&self, answers_only: bool) {
        let last = self.connections();
        self.state.answers_lost.store(last, Ordering::SeqCst);
        if !answers_only {
            self.state.requests_lost.store(last, Ordering::SeqCst);
        }
    }

    /// How many connections it was asked for.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::SeqCst);
        self.state.hold_answers.store(false, Ordering::SeqCst);
        // Has it look.
        drop(TcpStream::connect(&self.host));
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, swallow: impl Fn() -> bool) {
    let mut bytes = [0; 1 << 16];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 {
            break;
        }
        if !swallow() && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
