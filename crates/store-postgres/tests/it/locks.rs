//! Locks that others hold on the table or its rows, and how long is waited for them.

use std::thread;

use snowlease_lease::{AcquireError, Administer, Mode, RenewError};
use snowlease_store_postgres::testing::{Session, wait};

use super::*;

/// A session that does this and then nothing for as long.
fn hold(server: &Server, what: &str, seconds: f64) -> Session {
    let session = server.begin("ids", &format!("BEGIN; {what}; SELECT pg_sleep({seconds})"));
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert!(wait(Duration::from_secs(10), || server.ask("ids", sleeps) == "1"));
    session
}

fn let_go(server: &Server, session: Session) {
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    server.sql("ids", end);
    drop(session);
}

/// As VACUUM, ANALYZE and CREATE INDEX CONCURRENTLY do.
const VACUUM: &str = "LOCK TABLE snowlease.cells IN SHARE UPDATE EXCLUSIVE MODE";

/// A vacuum that the server runs by itself is ended by it for whoever waits for a second.
#[test]
fn a_change_of_the_store_waits_for_a_vacuum_that_is_over_in_time() {
    let server = server(Kind::default(), 8);
    let store = open(&server.url());
    let session = hold(&server, VACUUM, 0.6);
    let begun = os::boot_ns();
    store.set_mode(Mode::Frozen).unwrap();
    assert!(os::boot_ns() - begun < 1_800_000_000);
    drop(session);
    // One that is longer than what is left of the attempt is told, and what to do.
    let session = hold(&server, VACUUM, 60.0);
    let begun = os::boot_ns();
    thread::scope(|scope| {
        let refused = scope.spawn(|| store.set_mode(Mode::Open).unwrap_err());
        // It is waited for longer in one go than PostgreSQL takes to end a vacuum of its own.
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted \
                     AND clock_timestamp() - waitstart > '1 s'";
        assert!(wait(Duration::from_secs(3), || server.ask("ids", waits) == "1"));
        let refused = refused.join().unwrap();
        assert!(!refused.unknown && refused.detail.contains("pg_stat_activity"), "{refused}");
    });
    assert!(os::boot_ns() - begun < 4_000_000_000);
    assert_eq!(store.status().unwrap().meta.mode, Mode::Frozen);
    let_go(&server, session);
    store.set_mode(Mode::Open).unwrap();
}

#[test]
fn a_holder_that_knows_more_stops_at_once_and_the_floor_is_written_before_anything_is_granted() {
    let server = server(Kind::default(), 8);
    let store = open(&server.url());
    let (mut known, other) = (lease(&store), lease(&store));
    known.grant.seq += 1;
    let session = hold(&server, VACUUM, 60.0);
    for _ in 0..2 {
        let answer = store.renew(&known.renewal(0));
        assert!(matches!(answer, Err(RenewError::RolledBack { .. })), "{answer:?}");
    }
    let each = store.renew_each(&[known.renewal(0), other.renewal(0)]);
    assert!(matches!(each[1], Err(RenewError::Outage(_))), "{each:?}");
    assert_eq!(server.ask("ids", "SELECT floor_tick FROM snowlease.meta"), "0");
    // A grant needs no lock that the vacuum holds, and there is none all the same.
    let refused = store.acquire(&ask_now(&RequestKey::random()));
    assert!(
        matches!(&refused, Err(AcquireError::Outage(outage)) if !outage.unknown),
        "{refused:?}"
    );
    let refused = store.renew(&other.renewal(0));
    assert!(matches!(&refused, Err(RenewError::Outage(outage)) if !outage.unknown), "{refused:?}");
    assert_eq!(held(&server), 2);
    let_go(&server, session);
    let refused = store.acquire(&ask_now(&RequestKey::random()));
    let Err(AcquireError::Quarantined { floor }) = refused else { panic!("{refused:?}") };
    let written = server.ask("ids", "SELECT floor_tick FROM snowlease.meta");
    assert_eq!(written, floor.to_string());
    assert!(store.status().unwrap().alarms.iter().any(|alarm| alarm.contains("put back")));
}

#[test]
fn a_few_locked_rows_do_not_hold_up_the_others_of_a_batch() {
    let server = server(Kind::default(), 64);
    let store = open(&server.url());
    let leases: Vec<_> = (0..40).map(|_| lease(&store)).collect();
    let rows: Vec<_> = leases[..3].iter().map(|l| l.grant.generator_id.to_string()).collect();
    let lock = format!(
        "SELECT 1 FROM snowlease.cells WHERE generator_id IN ({}) FOR UPDATE",
        rows.join(", ")
    );
    let session = hold(&server, &lock, 60.0);
    let asks: Vec<_> = leases.iter().map(|lease| lease.renewal(0)).collect();
    let begun = os::boot_ns();
    let answers = store.renew_each(&asks);
    let took = os::boot_ns() - begun;
    assert!(took < 1_200_000_000, "{took} ns");
    for (index, answer) in answers.iter().enumerate() {
        match answer {
            Ok(renewal) if index >= 3 => assert!(renewal.until >= leases[index].grant.until),
            Err(RenewError::Outage(outage)) if index < 3 => {
                assert!(!outage.unknown && outage.detail.contains("locked"), "{outage}");
            }
            other => panic!("{index}: {other:?}"),
        }
    }
    let_go(&server, session);
    for answer in store.renew_each(&asks[..3]) {
        answer.unwrap();
    }
}
