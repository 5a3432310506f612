//! A gate between one holder and its store: cut, the holder is alone with the window it has.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Result, bail};

/// Forwards connections to a port of this machine as long as it is open.
#[derive(Debug)]
pub(crate) struct Gate {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// `None`: cut.
    target: Option<u16>,
    streams: Vec<TcpStream>,
}

impl Gate {
    pub(crate) fn to(target: u16) -> Result<Gate> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(State { target: Some(target), streams: Vec::new() }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be forwarded is closed, as by a port nobody listens on.
                let _ = pass(&shared, client);
            }
        });
        Ok(Gate { port, state })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Ends all connections, and takes none.
    pub(crate) fn cut(&self) {
        let mut state = lock(&self.state);
        state.target = None;
        for stream in state.streams.drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Takes connections again.
    pub(crate) fn open(&self, target: u16) {
        lock(&self.state).target = Some(target);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.cut();
    }
}

fn pass(state: &Mutex<State>, client: TcpStream) -> std::io::Result<()> {
    let Some(target) = lock(state).target else { return Ok(()) };
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
    let (there, back) = (client.try_clone()?, server.try_clone()?);
    {
        let mut state = lock(state);
        if state.target != Some(target) {
            // Cut meanwhile.
            return Ok(());
        }
        state.streams.extend([client.try_clone()?, server.try_clone()?]);
    }
    thread::spawn(move || copy(there, server));
    thread::spawn(move || copy(back, client));
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16_384];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port of this machine that nobody listens on, and that the system gives to nobody who asks for
/// any port: a server that is down for a while finds its port free again.
pub(crate) fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    // Far from where another runner begins, whose number is often the next one.
    let runner = u16::try_from(std::process::id() % 40 * 300).unwrap_or(0);
    for _ in 0..COUNT {
        // ORDERING: Relaxed: only that no number comes twice.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + runner.saturating_add(number) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port from {FIRST} on is free: end what listens there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_gate_ends_what_there_is_and_takes_nothing() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let target = server.local_addr().unwrap().port();
        let gate = Gate::to(target).unwrap();
        let ask = || TcpStream::connect((Ipv4Addr::LOCALHOST, gate.port())).unwrap();
        let mut client = ask();
        client.write_all(b"a").unwrap();
        let (mut at_server, _) = server.accept().unwrap();
        let mut byte = [0];
        at_server.read_exact(&mut byte).unwrap();
        at_server.write_all(b"b").unwrap();
        client.read_exact(&mut byte).unwrap();
        gate.cut();
        assert_eq!(client.read(&mut byte).unwrap(), 0);
        assert!(matches!(ask().read(&mut byte), Ok(0) | Err(_)));
        gate.open(target);
        ask().write_all(b"c").unwrap();
        let (mut again, _) = server.accept().unwrap();
        again.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"c");
    }
}
