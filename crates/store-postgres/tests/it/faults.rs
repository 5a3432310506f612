//! What goes wrong between a store and its server: each loses nothing, is told in time, and says
//! whether anything may have been changed.

use std::thread;

use snowlease_lease::{AcquireError, Administer, Mode, Outage, RenewError};
use snowlease_store_postgres::testing::{PASSWORD, Passage, Proxy, wait};

use super::*;

const ATTEMPT: Duration = Duration::from_millis(800);

/// What a call answers, which has to be there within an attempt and a little.
fn in_time<T>(call: impl FnOnce() -> T) -> T {
    let begun = os::boot_ns();
    let answer = call();
    let took = Duration::from_nanos(os::boot_ns() - begun);
    assert!(took < ATTEMPT + Duration::from_millis(300), "it took {took:?}");
    answer
}

fn outage_of(answer: Result<Grant, AcquireError>) -> Outage {
    match answer {
        Err(AcquireError::Outage(outage)) => outage,
        other => panic!("{other:?}"),
    }
}

/// The outage of an acquire, which has to have changed nothing.
fn refused(store: &PostgresStore) -> String {
    let ask = ask_now(&RequestKey::random());
    let outage = outage_of(in_time(|| store.acquire(&ask)));
    assert!(!outage.unknown, "{outage}");
    outage.detail
}

fn open_error(url: &str) -> String {
    let error = PostgresStore::open(&address(url), &within(ATTEMPT)).unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
    error
}

#[test]
fn an_unreachable_server_is_told_and_found_again() {
    let mut server = server(Kind::default(), 8);
    let (store, _) = open_as(&server.url(), &within(ATTEMPT));
    assert!(!format!("{store:?}").contains("hunter2"), "{store:?}");
    let mut first = lease(&store);
    server.stop();
    let detail = refused(&store);
    assert!(detail.contains("cannot be reached") && detail.contains("127.0.0.1"), "{detail}");
    let error = open_error(&server.url());
    assert!(error.contains("cannot be reached"), "{error}");
    server.run();
    // By the same store, at the next call.
    first.adopt(&store.renew(&first.renewal(0)).unwrap());
    // A loss of power of the server loses nothing that was answered.
    let second = lease(&store);
    server.kill();
    server.run();
    assert_eq!(held(&server), 2);
    store.renew(&second.renewal(0)).unwrap();
    store.renew(&first.renewal(0)).unwrap();
}

/// Packets are dropped and nobody is told: the connection looks alive on both sides.
#[test]
fn a_half_open_connection_is_noticed_and_an_answer_that_was_lost_is_given_again() {
    let server = server(Kind::default(), 8);
    let proxy = Proxy::to(server.port());
    let url = format!("postgres://owner:{PASSWORD}@127.0.0.1:{}/ids", proxy.port());
    let (store, _) = open_as(&url, &within(ATTEMPT));
    let mut known = lease(&store);
    for passage in [Passage::SwallowsAnswers, Passage::Hangs] {
        let before = held(&server);
        proxy.set(passage);
        let key = RequestKey::random();
        let ask = ask_now(&key);
        let outage = outage_of(in_time(|| store.acquire(&ask)));
        assert!(outage.unknown, "{outage}");
        // The next one cannot connect, and says so in time too.
        assert!(!outage_of(in_time(|| store.acquire(&ask_now(&key)))).unknown);
        proxy.set(Passage::Open);
        let grant = wait_for(|| store.acquire(&ask_now(&key)).ok());
        assert_eq!(held(&server), before + 1, "a second id was taken");
        assert_eq!(store.acquire(&ask_now(&key)).unwrap().generator_id, grant.generator_id);
        known.adopt(&store.renew(&known.renewal(0)).unwrap());
    }
    // A connection that is cut between two calls is no reason to trouble anybody.
    proxy.cut();
    pause_for_the_cut(&store);
    store.renew(&known.renewal(0)).unwrap();
}

/// Until the store has heard that its connection was cut; a call right before may be one whose
/// outcome is unknown.
fn pause_for_the_cut(store: &PostgresStore) {
    assert!(wait(Duration::from_secs(5), || store.status().is_ok()));
}

fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    assert!(wait(Duration::from_secs(20), || {
        found = what();
        found.is_some()
    }));
    found.unwrap()
}

#[test]
fn a_server_that_stands_still_is_waited_for_an_attempt_and_no_longer() {
    let mut server = server(Kind::default(), 8);
    let (store, _) = open_as(&server.url(), &within(ATTEMPT));
    let known = lease(&store);
    server.pause(true);
    let key = RequestKey::random();
    assert!(outage_of(in_time(|| store.acquire(&ask_now(&key)))).unknown);
    let late = in_time(|| store.renew(&known.renewal(0)));
    assert!(matches!(late, Err(RenewError::Outage(_))), "{late:?}");
    server.pause(false);
    let grant = wait_for(|| store.acquire(&ask_now(&key)).ok());
    assert_eq!(held(&server), 2);
    assert_ne!(grant.generator_id, known.grant.generator_id);
    // What was stuck on the way has come to its end, whichever, and nothing of it is left over.
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' \
                AND application_name = 'snowlease'";
    assert!(wait(Duration::from_secs(10), || server.ask("ids", busy) == "0"));
    // Whoever has the patience is granted a lease: that the server was slow is no fault of the
    // holder's clock.
    let (patient, _) = open_as(&server.url(), &within(Duration::from_secs(10)));
    server.pause(true);
    let asked = thread::spawn(move || patient.acquire(&ask_now(&RequestKey::random())));
    let begun = os::boot_ns();
    assert!(wait(Duration::from_secs(5), || os::boot_ns() - begun > 2_300_000_000));
    server.pause(false);
    asked.join().unwrap().unwrap();
}

/// A statement that takes longer than an attempt is stopped at the server too.
#[test]
fn a_slow_server_is_asked_again_and_takes_no_second_id() {
    let server = server(Kind::default(), 8);
    let (store, _) = open_as(&server.url(), &within(ATTEMPT));
    server.sql(
        "ids",
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_sleep(2); RETURN NEW; END'",
    );
    server.sql(
        "ids",
        "CREATE TRIGGER slow BEFORE UPDATE ON snowlease.cells FOR EACH ROW EXECUTE FUNCTION slow()",
    );
    let key = RequestKey::random();
    assert!(outage_of(in_time(|| store.acquire(&ask_now(&key)))).unknown);
    server.sql("ids", "DROP TRIGGER slow ON snowlease.cells");
    wait_for(|| store.acquire(&ask_now(&key)).ok());
    assert_eq!(held(&server), 1);
}

#[test]
fn refusals_say_what_to_do_and_change_nothing() {
    let server = server(Kind::default(), 8);
    // Who it is.
    let error = open_error(&server.url_as("owner", "hunter2-wrong"));
    assert!(error.contains("28P01") && error.contains("user and password"), "{error}");
    let error = open_error(&server.url_as("nobody", PASSWORD));
    assert!(error.contains("check the user and password"), "{error}");
    let error = open_error(&server.url().replace("/ids", "/other"));
    assert!(error.contains("create the database"), "{error}");
    let error = open_error(&server.url().replace(&format!(":{PASSWORD}"), ""));
    assert!(error.contains("add the password"), "{error}");
    server.sql("ids", &format!("CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'"));
    let error = open_error(&server.url_as("guest", PASSWORD));
    assert!(error.contains("42501") && error.contains("grant the user"), "{error}");
    // Whoever may use the tables needs no more than that.
    server.sql("ids", "GRANT USAGE ON SCHEMA snowlease TO guest");
    server.sql("ids", "GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA snowlease TO guest");
    let (store, _) = open_as(&server.url_as("guest", PASSWORD), &within(ATTEMPT));
    lease(&store);
    store.set_mode(Mode::Frozen).unwrap();
    store.set_mode(Mode::Open).unwrap();

    // What runs out while the store is open.
    server.sql("ids", "ALTER ROLE guest VALID UNTIL '2001-01-01'");
    cut_off(&server);
    let detail = wait_for(|| Some(store.status().err()?.detail).filter(|d| d.contains("28P01")));
    assert!(detail.contains("user and password"), "{detail}");
    server.sql("ids", "ALTER ROLE guest VALID UNTIL 'infinity'");
    lease(&store);

    // What the database does not take.
    server.set("default_transaction_read_only = on");
    server.reload();
    let detail = wait_for(|| Some(outage_of_acquire(&store)?.detail));
    assert!(detail.contains("25006") && detail.contains("writable"), "{detail}");
    assert!(store.status().is_ok());
    server.set("default_transaction_read_only = off");
    server.reload();
    wait_for(|| store.acquire(&ask_now(&RequestKey::random())).ok());

    let before = held(&server);
    server.sql(
        "ids",
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN RAISE ''no space left on device'' USING ERRCODE = ''53100''; END'",
    );
    server.sql(
        "ids",
        "CREATE TRIGGER full_disk BEFORE UPDATE ON snowlease.cells FOR EACH ROW \
         EXECUTE FUNCTION full_disk()",
    );
    let detail = refused(&store);
    assert!(detail.contains("53100") && detail.contains("make room"), "{detail}");
    assert_eq!(held(&server), before);
    server.sql("ids", "DROP TRIGGER full_disk ON snowlease.cells");
    lease(&store);
}

fn outage_of_acquire(store: &PostgresStore) -> Option<Outage> {
    match store.acquire(&ask_now(&RequestKey::random())) {
        Err(AcquireError::Outage(outage)) => Some(outage),
        _ => None,
    }
}

/// Ends the sessions of the store, as an operator does.
fn cut_off(server: &Server) {
    server.sql(
        "ids",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
          WHERE application_name = 'snowlease'",
    );
}

/// Another session holds a row: its holder is told in time, everybody else goes on, and when it is
/// over the window is as long as if nothing had been.
#[test]
fn a_locked_row_keeps_nobody_else_waiting() {
    let server = server(Kind::default(), 3);
    let (store, _) = open_as(&server.url(), &within(ATTEMPT));
    let (mut locked, mut other) = (lease(&store), lease(&store));
    let lock = format!(
        "BEGIN; SELECT 1 FROM snowlease.cells WHERE generator_id = {} FOR UPDATE; \
         SELECT pg_sleep(60)",
        locked.grant.generator_id
    );
    let session = server.begin("ids", &lock);
    let locks = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FOR UPDATE; %' \
                 AND wait_event = 'PgSleep'";
    assert!(wait(Duration::from_secs(10), || server.ask("ids", locks) == "1"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| in_time(|| store.renew(&locked.renewal(0))));
        for _ in 0..20 {
            let begun = os::boot_ns();
            other.adopt(&store.renew(&other.renewal(0)).unwrap());
            assert!(os::boot_ns() - begun < 300_000_000, "a renewal waited for another's row");
        }
        let Err(RenewError::Outage(outage)) = waiting.join().unwrap() else { panic!("renewed") };
        assert!(!outage.unknown && outage.detail.contains("locked"), "{outage}");
    });
    // A free row that is locked is none: another one is taken, or it is waited for.
    lease(&store);
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    server.sql("ids", end);
    drop(session);
    let grant = wait_for(|| store.renew(&locked.renewal(0)).ok());
    locked.adopt(&grant);
    let left = locked.grant.until.0 - locked.format.tick_at_ms(os::wall_ms()).unwrap().0;
    assert!((59_000..=60_100).contains(&left), "{left} ms are left of the window");
}

/// The clock of the server judges, not that of the holder.
#[test]
fn a_holder_whose_clock_is_off_gets_no_lease_and_no_longer_window() {
    let server = server(Kind::default(), 8);
    let store = open(&server.url());
    for off_ms in [-3 * 3_600_000, -3_000, 3_000, 3 * 3_600_000] {
        let key = RequestKey::random();
        match store.acquire(&ask_ahead(&store, &key, off_ms)) {
            Err(AcquireError::Skew { ahead_ms }) => {
                assert!((ahead_ms - off_ms).abs() < 500, "{ahead_ms} for {off_ms}");
            }
            other => panic!("{off_ms}: {other:?}"),
        }
    }
    let key = RequestKey::random();
    let grant = store.acquire(&ask_ahead(&store, &key, 1_500)).unwrap();
    assert!((grant.reference_ms.unwrap() - os::wall_ms()).abs() < 500);
    let mut held = lease(&store);
    let now = |lease: &Lease| lease.format.tick_at_ms(os::wall_ms()).unwrap().0;
    let renewal = store.renew(&held.renewal(3 * 3_600_000)).unwrap();
    let left = renewal.until.0 - now(&held);
    assert!((61_000..=62_100).contains(&left), "{left}");
    held.adopt(&renewal);
    // One who is behind loses nothing that it has.
    let renewal = store.renew(&held.renewal(-3 * 3_600_000)).unwrap();
    assert_eq!(renewal.until, held.grant.until);
    assert_eq!(store.status().unwrap().meta.longest_window, 60_000);
}

/// A grant that was under way when the store was frozen ends before it or is refused: it waits for
/// the operator's transaction and then sees what that has changed.
#[test]
fn a_grant_under_way_sees_what_an_operator_has_changed_meanwhile() {
    let server = server(Kind::default(), 8);
    let store = open(&server.url());
    let known = lease(&store);
    let change = "BEGIN; LOCK TABLE snowlease.cells IN SHARE MODE; \
                  UPDATE snowlease.meta SET mode = 'frozen', floor_tick = (1::bigint << 40); \
                  SELECT pg_sleep(0.7); COMMIT";
    let session = server.begin("ids", change);
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert!(wait(Duration::from_secs(10), || server.ask("ids", sleeps) == "1"));
    thread::scope(|scope| {
        let granted = scope.spawn(|| store.acquire(&ask_now(&RequestKey::random())));
        let renewed = scope.spawn(|| open(&server.url()).renew(&known.renewal(0)));
        assert_eq!(granted.join().unwrap(), Err(AcquireError::Frozen));
        let renewed = renewed.join().unwrap();
        assert!(matches!(renewed, Err(RenewError::Quarantined { .. })), "{renewed:?}");
    });
    session.finish();
    assert_eq!(held(&server), 1);
}

/// The other way round: a grant that is under way when the floor is raised is under the floor.
#[test]
fn an_operator_waits_for_the_grants_under_way() {
    let server = server(Kind::default(), 8);
    let (store, _) = open_as(&server.url(), &within(Duration::from_secs(20)));
    let grant = "BEGIN; UPDATE snowlease.cells SET until_tick = 1::bigint << 40 \
                  WHERE generator_id = 3; SELECT pg_sleep(1.5); COMMIT";
    let other = open(&server.url());
    let (hasty, _) = open_as(&server.url(), &within(Duration::from_millis(400)));
    let session = server.begin("ids", grant);
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    assert!(wait(Duration::from_secs(10), || server.ask("ids", sleeps) == "1"));
    // One who has no time to wait is told what is in the way.
    let refused = hasty.set_mode(Mode::Frozen).unwrap_err();
    assert!(!refused.unknown && refused.detail.contains("end its transaction"), "{refused}");
    thread::scope(|scope| {
        let quarantined = scope.spawn(|| store.quarantine(Tick(5)));
        // Nobody else has to wait for it longer than an attempt, whether before or behind it.
        let answer = other.acquire(&ask_now(&RequestKey::random()));
        let decided = matches!(answer, Ok(_) | Err(AcquireError::Quarantined { .. }));
        assert!(decided, "{answer:?}");
        assert_eq!(quarantined.join().unwrap(), Ok(Tick(1 << 40)));
    });
    session.finish();
}

/// Whatever the server, the database or the user have set for their sessions.
#[test]
fn settings_of_others_do_not_weaken_a_grant() {
    let server = server(Kind::default(), 8);
    for setting in [
        "default_transaction_isolation = 'serializable'",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "idle_session_timeout = '100ms'",
        "search_path = 'nowhere'",
        "enable_indexscan = off",
        "datestyle = 'german'",
        "bytea_output = 'escape'",
    ] {
        server.sql("postgres", &format!("ALTER ROLE owner IN DATABASE ids SET {setting}"));
    }
    // The very statement that lifts the limits is under them still: a machine that is slow needs
    // another try, as whoever connects makes.
    let url = address(&server.url());
    let opened = (0..50).find_map(|_| PostgresStore::open(&url, &Open::default()).ok());
    let store = &opened.unwrap().0;
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(move || {
                let mut lease = lease(store);
                lease.adopt(&store.renew(&lease.renewal(0)).unwrap());
            });
        }
    });
    let last = store.list().unwrap().iter().map(|entry| entry.until).max().unwrap();
    assert!(store.quarantine(Tick(5)).unwrap() >= last);
}
