//! A connection that can be cut or left hanging: between the store and its server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How a [`Proxy`] treats what passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Passage {
    /// It goes on at once.
    Open,
    /// It goes no further, in neither direction; no connection is cut or refused.
    Hangs,
    /// What the client sends goes on; what the server answers does not.
    SwallowsAnswers,
}

/// Forwards connections to a port of this machine.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    passage: Arc<AtomicU8>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// A proxy in front of this port.
    pub fn to(target: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let passage = Arc::new(AtomicU8::new(Passage::Open as u8));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (passed, kept) = (Arc::clone(&passage), Arc::clone(&streams));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)) else {
                    continue;
                };
                for stream in [&client, &server] {
                    drop(stream.set_nodelay(true));
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push(stream.try_clone().unwrap());
                }
                let (there, back) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let passage = Arc::clone(&passed);
                thread::spawn(move || forward(there, server, &passage, Passage::Hangs));
                let passage = Arc::clone(&passed);
                thread::spawn(move || forward(back, client, &passage, Passage::SwallowsAnswers));
            }
        });
        Proxy { port, passage, streams }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What becomes of the bytes that come from now on.
    pub fn set(&self, passage: Passage) {
        // ORDERING: SeqCst; a switch of a test needs no cleverness.
        self.passage.store(passage as u8, Ordering::SeqCst);
    }

    /// Cuts all connections that there are.
    pub fn cut(&self) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in streams.drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Passes bytes on, unless everything hangs or what hangs is this direction.
fn forward(mut from: TcpStream, mut to: TcpStream, passage: &AtomicU8, held_by: Passage) {
    let mut bytes = [0; 16_384];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 {
            break;
        }
        let held = || {
            // ORDERING: as in `Proxy::set`.
            let now = passage.load(Ordering::SeqCst);
            now == Passage::Hangs as u8 || now == held_by as u8
        };
        // What was held goes on when the passage is opened, as packets sent again do.
        while held() {
            super::pause(Duration::from_millis(5));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}
