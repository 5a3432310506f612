//! One client on connections that are slow, silent or not there.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use snowlease_lease::os;

use super::{Client, Deadline};
use crate::Address;
use crate::proto::StatusRequest;
use crate::testing::{Certificates, Cluster, Options, Proxy};

fn client(address: &str) -> Client {
    Client::new(&address.parse::<Address>().unwrap()).unwrap()
}

/// Why there was no answer, and how long that took.
fn failed(client: &Client, within: Duration) -> (String, Duration) {
    let begun_ns = os::boot_ns();
    let trouble = client.read(&StatusRequest {}, Deadline::within(within)).unwrap_err();
    (trouble.detail, Duration::from_nanos(os::boot_ns() - begun_ns))
}

fn answered(client: &Client) {
    client.read(&StatusRequest {}, Deadline::within(Duration::from_secs(30))).unwrap();
}

#[test]
fn without_time_nothing_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let client = client(&format!("etcd://{}/ids", listener.local_addr().unwrap()));
    for within in [Duration::ZERO, Duration::from_millis(5)] {
        let (detail, _) = failed(&client, within);
        assert!(detail.contains("no time left"), "{detail}");
    }
    assert!(listener.accept().is_err(), "it was connected to");
}

/// All callers share the connection: one that was in a hurry does not take it from the others.
#[test]
fn a_short_wait_proves_nothing_and_a_long_one_does() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let proxy = Proxy::to(cluster.hosts()[0]);
    let client = client(&format!("etcd://{}/ids", proxy.host()));
    answered(&client);
    proxy.hold_answers(true);
    for _ in 0..3 {
        let (detail, _) = failed(&client, Duration::from_millis(150));
        assert!(detail.contains("no answer within"), "{detail}");
    }
    proxy.hold_answers(false);
    answered(&client);
    assert_eq!(proxy.connections(), 1);
    proxy.forsake(false);
    failed(&client, Duration::from_millis(300));
    answered(&client);
    assert_eq!(proxy.connections(), 2);
}

/// One that waits for a connection holds up nobody who has less time.
#[test]
fn whoever_connects_does_not_hold_up_others() {
    let certificates = Certificates::new();
    // It takes connections and says nothing, so that the handshake of TLS never ends.
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = hole.local_addr().unwrap();
    let client = client(&format!("etcds://{host}/ids?ca={}", certificates.authority().display()));
    thread::scope(|scope| {
        scope.spawn(|| failed(&client, Duration::from_secs(4)));
        // It has begun.
        let _connection = hole.accept().unwrap();
        let (detail, took) = failed(&client, Duration::from_millis(300));
        assert!(detail.contains("no connection in time"), "{detail}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn a_forked_child_is_told_at_once() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = client(&format!("etcd://{}/ids", hole.local_addr().unwrap()));
    let long = Duration::from_secs(60);
    // SAFETY: the child makes calls that take no lock that another thread of the parent could have
    // held at the fork, drops nothing of the parent's and leaves at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (read, connected) = (failed(&client, long), client.connected(Deadline::within(long)));
        let told = read.0.contains("forked child") && read.1 < Duration::from_secs(5);
        let told = told && connected.is_err_and(|trouble| trouble.detail.contains("forked child"));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!told)) };
    }
    let mut status = -1;
    // SAFETY: `child` is the process made above, and `status` a valid place for its end.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
}
