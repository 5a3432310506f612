//! Standbys: which server is asked, and what a commit is worth.

use std::thread;

use snowlease_lease::{AcquireError, Outage, RenewError};
use snowlease_store_postgres::testing::{PASSWORD, wait};

use super::*;

const ATTEMPT: Duration = Duration::from_millis(1_500);

#[test]
fn the_primary_is_found_among_the_servers_and_a_standby_is_refused() {
    let mut primary = server(Kind::default(), 8);
    let standby = primary.standby();
    let error = PostgresStore::open(&address(&standby.url()), &within(ATTEMPT)).unwrap_err();
    assert!(error.to_string().contains("is a standby"), "{error}");
    let hosts = format!("127.0.0.1:{},127.0.0.1:1,127.0.0.1:{}", standby.port(), primary.port());
    let all = format!("postgres://owner:{PASSWORD}@{hosts}/ids?sslmode=disable");
    let (store, _) = open_as(&all, &within(ATTEMPT));
    let known = lease(&store);
    // The stream is whole: the standby knows what was granted when it takes over.
    let rows = "SELECT count(*) FROM snowlease.cells WHERE token IS NOT NULL";
    assert!(wait(Duration::from_secs(20), || standby.ask("ids", rows) == "1"));
    primary.stop();
    let answer = store.renew(&known.renewal(0));
    assert!(matches!(answer, Err(RenewError::Outage(Outage { unknown: false, .. }))), "{answer:?}");
    standby.promote();
    // Nobody can tell that nothing was lost, so what might have been is waited for.
    let answer = store.renew(&known.renewal(0));
    assert!(matches!(answer, Err(RenewError::Quarantined { .. })), "{answer:?}");
}

/// "Committed locally but might not be replicated" is no grant, and asking again for it waits for
/// the standby again.
#[test]
fn a_grant_counts_only_when_the_synchronous_standby_has_it() {
    let primary = server(Kind::default(), 8);
    let mut standby = primary.standby();
    // What a user has set for himself does not count either.
    primary.sql("ids", "ALTER ROLE owner IN DATABASE ids SET synchronous_commit = off");
    primary.set("synchronous_standby_names = '*'");
    primary.reload();
    let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    assert!(wait(Duration::from_secs(20), || primary.ask("ids", state) == "1"));
    let (store, _) = open_as(&primary.url(), &within(ATTEMPT));
    let mut known = lease(&store);
    standby.stop();
    let unknown = |answer: Result<Grant, AcquireError>| match answer {
        Err(AcquireError::Outage(outage)) if outage.unknown => outage.detail,
        other => panic!("{other:?}"),
    };
    let key = RequestKey::random();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let detail = thread::scope(|scope| {
        let asked = scope.spawn(|| unknown(store.acquire(&ask_now(&key))));
        assert!(wait(Duration::from_secs(20), || primary.ask("ids", waits) == "1"));
        primary.sql(
            "postgres",
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        );
        asked.join().unwrap()
    });
    assert!(detail.contains("synchronous standby"), "{detail}");
    // It is in the table by now, and still nobody's.
    let rows = "SELECT count(*) FROM snowlease.cells WHERE token IS NOT NULL";
    assert_eq!(primary.ask("postgres", "SELECT 1"), "1");
    assert_eq!(primary.ask("ids", rows), "2");
    unknown(store.acquire(&ask_now(&key)));
    let answer = store.renew(&known.renewal(0));
    assert!(matches!(answer, Err(RenewError::Outage(Outage { unknown: true, .. }))), "{answer:?}");
    // What waits at the server is ended when nobody waits for it any more.
    assert!(wait(Duration::from_secs(20), || primary.ask("ids", waits) == "0"));
    standby.run();
    assert!(wait(Duration::from_secs(20), || primary.ask("ids", state) == "1"));
    assert!(wait(Duration::from_secs(20), || store.acquire(&ask_now(&key)).is_ok()));
    let renewal = store.renew(&known.renewal(0)).unwrap();
    known.adopt(&renewal);
    store.renew(&known.renewal(0)).unwrap();
    assert_eq!(primary.ask("ids", rows), "2");
}
