//! Processes that fork and go on without an exec: a child leases for itself, and nothing that it
//! does or leaves undone touches its parent's lease.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper fails as its test does")]

use std::collections::HashSet;
use std::io::{Read, Write, pipe};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use snowlease::{ConnectError, Connector, Id, Ids, Refusal};
use snowlease_lease::{LeaseStore, os};

use crate::forked::{Forked, Side, fork};
use crate::served::{Served, draw, pass, short};

fn try_to_connect(url: &str) -> Result<Ids, ConnectError> {
    let ids = Connector::new(url).name("forks").terms(short());
    ids.ready_within(Duration::from_secs(10)).connect_blocking()
}

fn connect(url: &str) -> Ids {
    try_to_connect(url).unwrap()
}

/// All that can be asked of a handle that was inherited: each is refused at once.
fn is_refused(inherited: &Ids) {
    let began_ns = os::boot_ns();
    assert_eq!(inherited.next_id(), Err(Refusal::Forked));
    assert_eq!(inherited.try_next_id(), Err(Refusal::Forked));
    assert_eq!(inherited.next_ids(10), Err(Refusal::Forked));
    // What it says of a lease that is not this process's is of no matter; that it says it is.
    drop(inherited.status());
    let outage = inherited.store_status().unwrap_err();
    assert!(!outage.unknown && outage.detail.contains("connect anew"), "{outage}");
    assert!(inherited.ready_blocking(Duration::from_secs(10)).is_err());
    let another = inherited.clone();
    assert_eq!(another.next_id(), Err(Refusal::Forked));
    assert!(!format!("{another:?}").is_empty());
    drop(another);
    assert!(inherited.clone().shutdown_blocking().is_err());
    assert!(os::boot_ns() - began_ns < 2_000_000_000, "it took its time");
}

/// The lease of `ids` as the store has it: its generator id, and its `seq` less its renewals.
fn lease(served: &Served, ids: &Ids) -> (u64, u64) {
    // A renewal is in the store before it is on the board: read until nothing moves.
    loop {
        let before = ids.status();
        let generator_id = before.window.unwrap().generator_id();
        let leases = served.store.list().unwrap();
        let lease = leases.iter().find(|lease| lease.generator_id == generator_id).unwrap();
        pass(50);
        if ids.status().outcomes.renewed == before.outcomes.renewed {
            assert!(lease.held, "{lease:?}");
            return (generator_id, lease.seq - before.outcomes.renewed);
        }
    }
}

/// As often as a lease is renewed twice, and the parent still has it from its first grant.
fn goes_on(served: &Served, ids: &Ids, first: (u64, u64)) {
    let renewed = ids.status().outcomes.renewed;
    while ids.status().outcomes.renewed < renewed + 2 {
        ids.next_id().unwrap();
        pass(20);
    }
    assert_eq!(lease(served, ids), first, "somebody else moved the parent's lease");
    assert_eq!((ids.status().outcomes.granted, ids.status().outcomes.lost), (1, 0));
}

/// Ends the other threads of a test, however it goes.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn all_distinct(ids: impl IntoIterator<Item = u64>) -> usize {
    let mut seen = HashSet::new();
    for id in ids {
        assert!(seen.insert(id), "{id} was drawn twice");
    }
    seen.len()
}

fn numbers(ids: &[Id]) -> impl Iterator<Item = u64> {
    ids.iter().map(|id| id.get())
}

/// Case: a program drew an id and forked, and all children drew those of their parent.
#[test]
fn four_children_lease_for_themselves_and_their_parents_lease_is_its_own() {
    let served = Served::start(15, short());
    let ids = connect(&served.url());
    let first = lease(&served, &ids);
    let mut all: Vec<u64> = numbers(&draw(&ids, 1)).collect();
    let children: Vec<Forked> = (0..4)
        .map(|_| {
            Forked::running(|| {
                is_refused(&ids);
                let own = connect(&served.url());
                let drawn = (0..10).flat_map(|_| draw(&own, 100)).collect();
                is_refused(&ids);
                // Its own lease is left to run out, and the handle to the end of the process.
                std::mem::forget(own);
                drawn
            })
        })
        .collect();
    for _ in 0..10 {
        all.extend(numbers(&draw(&ids, 100)));
    }
    for child in children {
        let drawn = child.end();
        assert_eq!(drawn.len(), 1_000);
        all.extend(drawn);
    }
    goes_on(&served, &ids, first);
    all.extend(numbers(&draw(&ids, 1_000)));
    assert_eq!(all_distinct(all), 6_001);
    ids.shutdown_blocking().unwrap();
}

/// Case: the handle that a child had inherited went out of scope in it, and with it the lease of
/// its parent. And a thread that is gone must not be taken for one that the child has made since.
#[test]
fn a_child_may_drop_all_that_it_inherited() {
    let served = Served::start(7, short());
    let ids = connect(&served.url());
    let first = lease(&served, &ids);
    let url = &served.url();
    for drops_first in [true, false] {
        let child = match fork() {
            Side::Child(child) => child.tell(move || {
                let mut inherited = Some(ids);
                inherited.take_if(|_| drops_first);
                let own = connect(url);
                drop(inherited);
                let drawn = draw(&own, 100);
                own.shutdown_blocking().unwrap();
                drawn
            }),
            Side::Parent(child) => child,
        };
        let mut all = child.end();
        all.extend(numbers(&draw(&ids, 1_000)));
        assert_eq!(all_distinct(all), 1_100);
        assert_eq!(served.held(), 1, "the child gave its own lease back");
        goes_on(&served, &ids, first);
    }
}

/// The same of a handle that the parent has shut down: none of its threads has it any more.
#[test]
fn a_child_may_drop_what_its_parent_has_shut_down() {
    let served = Served::start(7, short());
    let (ids, other) = (connect(&served.url()), connect(&served.url()));
    ids.clone().shutdown_blocking().unwrap();
    let url = &served.url();
    let child = match fork() {
        Side::Child(child) => child.tell(move || {
            is_refused(&other);
            drop((ids, other));
            draw(&connect(url), 10)
        }),
        Side::Parent(child) => child,
    };
    assert_eq!(child.end().len(), 10);
    assert!(ids.next_id().is_err());
    assert!(other.next_id().is_ok());
}

/// Case: a thread of the parent was in the middle of connecting, and what it held at the fork was
/// held in the child for ever.
#[test]
fn a_child_connects_though_its_parent_is_in_the_middle_of_it() {
    let served = Served::start(15, short());
    // Takes connections, and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&done);
        scope.spawn(|| try_to_connect(&nowhere).unwrap_err());
        for n in 0..2 {
            let url = format!("sqlite:{}", folder.path().join(format!("{n}.db")).display());
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    connect(&url).shutdown_blocking().unwrap();
                    connect("memory:busy").shutdown_blocking().unwrap();
                }
            });
        }
        pass(100);
        let mut all = Vec::new();
        for n in 0..20 {
            let child = Forked::running(|| {
                let file = format!("sqlite:{}", folder.path().join(format!("own{n}.db")).display());
                connect(&file).next_id().unwrap();
                connect("memory:busy").next_id().unwrap();
                draw(&connect(&served.url()), 10)
            });
            all.extend(child.end());
        }
        drop(ends);
        assert_eq!(all_distinct(all), 200);
    });
}

/// The first connection of a process takes its time, to measure the processor's counter.
#[test]
fn a_child_connects_though_its_parent_was_connecting_for_the_first_time() {
    thread::scope(|scope| {
        let connects = scope.spawn(|| connect("memory:first"));
        let children: Vec<Forked> = (0..10)
            .map(|_| {
                thread::park_timeout(Duration::from_millis(1));
                Forked::running(|| draw(&connect("memory:first"), 10))
            })
            .collect();
        children.into_iter().for_each(|child| assert_eq!(child.end().len(), 10));
        connects.join().unwrap().next_id().unwrap();
    });
}

/// A child is a parent too.
#[test]
fn the_child_of_a_child_is_refused_both_their_handles() {
    let served = Served::start(7, short());
    let ids = connect(&served.url());
    let first = lease(&served, &ids);
    let child = Forked::running(|| {
        let own = connect(&served.url());
        let grandchild = Forked::running(|| {
            is_refused(&ids);
            is_refused(&own);
            draw(&connect(&served.url()), 100)
        });
        let mut drawn = draw(&own, 100);
        let theirs = grandchild.end();
        drawn.extend(theirs.iter().map(|id| id.to_string().parse::<Id>().unwrap()));
        drawn.extend(draw(&own, 100));
        own.shutdown_blocking().unwrap();
        drawn
    });
    let mut all = child.end();
    // And one whose parent never asked for anything.
    let child = Forked::running(|| {
        let grandchild = Forked::running(|| {
            is_refused(&ids);
            draw(&connect(&served.url()), 100)
        });
        grandchild.end().iter().map(|id| id.to_string().parse().unwrap()).collect()
    });
    all.extend(child.end());
    all.extend(numbers(&draw(&ids, 100)));
    assert_eq!(all_distinct(all), 500);
    goes_on(&served, &ids, first);
}

/// Wherever the other threads of the parent stand at that moment.
#[test]
fn forks_amid_batches_and_right_after_connecting_repeat_no_id() {
    let served = Served::start(63, short());
    let ids = connect(&served.url());
    let done = AtomicBool::new(false);
    let mut all = Vec::new();
    thread::scope(|scope| {
        let ends = Ends(&done);
        let batches: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut drawn = Vec::new();
                    while !done.load(Ordering::SeqCst) {
                        drawn.extend(numbers(&draw(&ids, 500)));
                        drop(ids.status());
                    }
                    drawn
                })
            })
            .collect();
        for n in 0..20 {
            let fresh = (n % 4 == 0).then(|| connect(&served.url()));
            let child = Forked::running(|| {
                is_refused(&ids);
                fresh.iter().for_each(is_refused);
                draw(&connect(&served.url()), 100)
            });
            fresh.iter().for_each(|fresh| all.extend(numbers(&draw(fresh, 100))));
            all.extend(child.end());
        }
        drop(ends);
        batches.into_iter().for_each(|thread| all.extend(thread.join().unwrap()));
    });
    assert!(all_distinct(all) > 2_500);
    assert_eq!(ids.status().outcomes.granted, 1, "{:?}", ids.status());
}

/// Case: a child that ended gave up the lock on the file that its parent had open.
#[test]
fn a_file_stays_its_parents_when_a_child_is_done_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("ids.db").display());
    let ids = connect(&url);
    let granted = ids.status().window.unwrap().generator_id();
    let mut all: Vec<u64> = numbers(&draw(&ids, 100)).collect();
    for drops in [false, true] {
        let url = &url;
        let refused = |inherited: &Ids| {
            is_refused(inherited);
            for _ in 0..2 {
                let error = try_to_connect(url).unwrap_err();
                assert!(matches!(error, ConnectError::Store(_)), "{error}");
                assert!(error.to_string().contains("in use"), "{error}");
            }
        };
        let child = match fork() {
            Side::Child(child) => child.tell(move || {
                refused(&ids);
                if drops {
                    drop(ids);
                    assert!(try_to_connect(url).unwrap_err().to_string().contains("in use"));
                }
                Vec::new()
            }),
            Side::Parent(child) => child,
        };
        child.end();
        // The next one is refused as well, so the lock is held; and the file is written to still.
        Forked::running(|| {
            refused(&ids);
            Vec::new()
        })
        .end();
        let renewed = ids.status().outcomes.renewed;
        while ids.status().outcomes.renewed < renewed + 2 {
            all.extend(numbers(&draw(&ids, 10)));
            pass(20);
        }
    }
    let status = ids.status();
    assert_eq!((status.outcomes.granted, status.outcomes.lost), (1, 0), "{status:?}");
    assert_eq!(status.window.unwrap().generator_id(), granted);
    assert!(ids.store_status().unwrap().alarms.is_empty());
    ids.shutdown_blocking().unwrap();
    // What it wrote is there, and it is the file that it was.
    let again = connect(&url);
    assert!(again.store_status().unwrap().alarms.is_empty());
    all.extend(numbers(&draw(&again, 100)));
    all_distinct(all);
}

/// A child that waits until its parent has closed the file has waited in vain: to SQLite it is open
/// still, in the memory that the child has from its parent.
#[test]
fn a_child_is_told_why_a_file_that_its_parent_has_closed_is_no_use_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("ids.db").display());
    let ids = connect(&url);
    let (mut closed, mut closes) = pipe().unwrap();
    let child = Forked::running(|| {
        closed.read_exact(&mut [0]).unwrap();
        let error = try_to_connect(&url).unwrap_err().to_string();
        assert!(error.contains("started anew"), "{error}");
        Vec::new()
    });
    ids.shutdown_blocking().unwrap();
    closes.write_all(&[0]).unwrap();
    child.end();
    // What the child tried has changed nothing for anybody else.
    connect(&url).next_id().unwrap();
}
