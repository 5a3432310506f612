//! What is found in the place of a store's tables.

use snowlease_lease::{Administer, ReleaseError, RenewError};
use snowlease_store_postgres::OpenError;

use super::*;

fn refused(url: &str) -> OpenError {
    PostgresStore::open(&address(url), &Open::default()).unwrap_err()
}

#[test]
fn a_schema_is_a_store_or_says_what_it_is() {
    let server = Server::start(Kind::default());
    let url = server.url();
    let of = |schema: &str| format!("{url}?schema={schema}");
    let error = refused(&url);
    assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("snowlease store init"), "{error}");

    init(&url, 8);
    let store = open(&url);
    lease(&store);
    // Made again it stays what it is, and for something else it is refused.
    let format = store.status().unwrap().meta.format;
    let same = Init { format, range: Some((0, 7)), ..Init::default() };
    assert_eq!(PostgresStore::init(&address(&url), &same), Ok(Initialised::UpToDate));
    assert_eq!(store.list().unwrap().len(), 1);
    let other = Init { range: Some((0, 8)), ..same.clone() };
    let error = PostgresStore::init(&address(&url), &other).unwrap_err();
    assert_eq!(error, OpenError::Range { stored: (0, 7), given: (0, 8) });
    let other = Init { format: Format::DEFAULT, ..same.clone() };
    let error = PostgresStore::init(&address(&url), &other).unwrap_err();
    assert!(matches!(error, OpenError::Format { .. }), "{error}");

    // A second one beside it, in a schema that somebody has prepared.
    server.sql("ids", "CREATE SCHEMA second");
    init(&of("second"), 4);
    assert_eq!(open(&of("second")).status().unwrap().meta.range, (0, 3));

    server.sql("ids", "CREATE SCHEMA theirs; CREATE TABLE theirs.cells (generator_id int)");
    for error in
        [refused(&of("theirs")), PostgresStore::init(&address(&of("theirs")), &same).unwrap_err()]
    {
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    }
    server.sql("ids", "INSERT INTO second.migrations VALUES ('snowlease', 2)");
    for error in
        [refused(&of("second")), PostgresStore::init(&address(&of("second")), &same).unwrap_err()]
    {
        assert!(matches!(error, OpenError::Newer { version: 2, .. }), "{error}");
        assert!(error.to_string().contains("update this program"), "{error}");
    }
    server.sql("ids", "UPDATE second.migrations SET version = -version");
    assert!(matches!(refused(&of("second")), OpenError::Older { version: -1, .. }));

    server.sql("ids", "DELETE FROM snowlease.meta");
    let error = refused(&url).to_string();
    assert!(error.contains("lost the row about itself"), "{error}");
}

#[test]
fn a_store_made_twice_at_once_is_made_once() {
    let server = Server::start(Kind::default());
    let url = server.url();
    let init = Init { range: Some((0, 99)), ..Init::default() };
    let made: Vec<_> = std::thread::scope(|scope| {
        let make = |_| scope.spawn(|| PostgresStore::init(&address(&url), &init).unwrap());
        let makers: Vec<_> = (0..6).map(make).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made == Initialised::Made).count(), 1, "{made:?}");
    assert_eq!(open(&url).verify().unwrap().findings, []);
}

#[test]
fn damage_is_told_and_nothing_is_decided_from_it() {
    let server = server(Kind::default(), 8);
    let store = open(&server.url());
    let (gone, bad) = (lease(&store), lease(&store));
    let verified = store.verify().unwrap();
    assert_eq!((verified.cells, verified.findings), (8, Vec::new()));

    server.sql(
        "ids",
        &format!(
            "DELETE FROM snowlease.cells WHERE generator_id IN ({}, 5)",
            gone.grant.generator_id
        ),
    );
    let Err(RenewError::Outage(outage)) = store.renew(&gone.renewal(0)) else { panic!("renewed") };
    assert!(!outage.unknown && outage.detail.contains("missing"), "{outage}");
    let release = snowlease_lease::Release {
        generator_id: gone.grant.generator_id,
        token: gone.key.token(),
        next: None,
        seq: gone.grant.seq,
        unused_from: gone.grant.from,
    };
    assert!(matches!(store.release(&release), Err(ReleaseError::Outage(_))));
    // The row of a foreign format, and one whose window ends before it begins.
    let spoil = format!(
        "UPDATE snowlease.cells SET format = 1, from_tick = until_tick + 1 \
          WHERE generator_id = {}",
        bad.grant.generator_id
    );
    server.sql("ids", &spoil);
    server.sql("ids", "INSERT INTO snowlease.cells (generator_id, format) VALUES (4000, 0)");
    let verified = store.verify().unwrap();
    let found: Vec<_> = verified.findings.iter().map(ToString::to_string).collect();
    let has =
        |what: &str| assert!(found.iter().any(|found| found.contains(what)), "{what}: {found:?}");
    has("format is not the store's");
    has("begins at tick");
    has("generator id 4000: it is not of the store's range");
    has(&format!("generator ids {0} to {0} are missing", gone.grant.generator_id));
    has("generator ids 5 to 5 are missing");
    // Whoever leases meanwhile does so from what is sound.
    lease(&store);
}
