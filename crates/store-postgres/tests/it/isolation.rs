//! Sessions that our settings have not reached, as a pooler may hand them out.

use std::thread;

use snowlease_lease::{AcquireError, Administer, Mode, Outage, RenewError};
use snowlease_store_postgres::testing::wait;

use super::*;

/// Has the sessions of the store begin their transactions at another isolation from now on,
/// whatever was set when they were made.
fn turn(server: &Server, store: &PostgresStore, isolation: &str) {
    server.sql(
        "ids",
        &format!(
            "CREATE FUNCTION turn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM set_config('default_transaction_isolation', '{isolation}', false); \
             RETURN NEW; END $$"
        ),
    );
    server.sql(
        "ids",
        "CREATE TRIGGER turn BEFORE UPDATE ON snowlease.cells FOR EACH ROW EXECUTE FUNCTION turn()",
    );
    lease(store);
    server.sql("ids", "DROP FUNCTION turn CASCADE");
}

fn sleeps(server: &Server) {
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert!(wait(Duration::from_secs(10), || server.ask("ids", sleeps) == "1"));
}

fn told(outage: &Outage) {
    assert!(!outage.unknown, "{outage}");
    let remedy = "ALTER ROLE \"owner\" IN DATABASE \"ids\" SET default_transaction_isolation = \
                  'read committed'";
    assert!(outage.detail.contains(remedy), "{outage}");
}

#[test]
fn a_session_that_would_not_see_a_freeze_it_waited_for_grants_nothing() {
    for isolation in ["repeatable read", "serializable"] {
        let server = server(Kind::default(), 8);
        let store = open(&server.url());
        let known = lease(&store);
        turn(&server, &store, isolation);
        assert_eq!(held(&server), 2);
        let change = "BEGIN; LOCK TABLE snowlease.cells IN SHARE MODE; \
                      UPDATE snowlease.meta SET mode = 'frozen', floor_tick = (1::bigint << 40); \
                      SELECT pg_sleep(0.7); COMMIT";
        let session = server.begin("ids", change);
        sleeps(&server);
        thread::scope(|scope| {
            let granted = scope.spawn(|| store.acquire(&ask_now(&RequestKey::random())));
            let renewed = scope.spawn(|| store.renew(&known.renewal(0)));
            let granted = granted.join().unwrap();
            let outage = matches!(&granted, Err(AcquireError::Outage(_)));
            assert!(outage || granted == Err(AcquireError::Frozen), "{granted:?}");
            let renewed = renewed.join().unwrap();
            let refused =
                matches!(renewed, Err(RenewError::Outage(_) | RenewError::Quarantined { .. }));
            assert!(refused, "{renewed:?}");
        });
        session.finish();
        server.sql("ids", "UPDATE snowlease.meta SET mode = 'open', floor_tick = 0");
        // Whatever was in the way, the remedy is told.
        match store.acquire(&ask_now(&RequestKey::random())) {
            Err(AcquireError::Outage(outage)) => told(&outage),
            other => panic!("{other:?}"),
        }
        match store.renew(&known.renewal(0)) {
            Err(RenewError::Outage(outage)) => told(&outage),
            other => panic!("{other:?}"),
        }
        told(&store.drain(7, true).unwrap_err());
        assert_eq!(held(&server), 2);
        // What an operator changes says itself how it is to be judged.
        store.set_mode(Mode::Frozen).unwrap();
        assert_eq!(store.status().unwrap().meta.mode, Mode::Frozen);
    }
}

/// The other way round: a grant that the operator had to wait for is under the floor.
#[test]
fn an_operator_sees_the_grants_that_were_waited_for_whatever_the_isolation() {
    let server = server(Kind::default(), 8);
    let (store, _) = open_as(&server.url(), &within(Duration::from_secs(20)));
    turn(&server, &store, "repeatable read");
    let grant = "BEGIN; UPDATE snowlease.cells SET until_tick = 1::bigint << 40 \
                  WHERE generator_id = 3; SELECT pg_sleep(0.9); COMMIT";
    let session = server.begin("ids", grant);
    sleeps(&server);
    assert_eq!(store.quarantine(Tick(5)), Ok(Tick(1 << 40)));
    session.finish();
}
