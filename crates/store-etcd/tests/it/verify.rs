//! What `verify` sees: cells as they stand, and their history as far as it is kept.

use snowlease_core::Tick;
use snowlease_lease::{Administer, Cell};

use super::*;

#[test]
fn every_step_that_is_kept_is_looked_at() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    let store = open(&cluster.address("ids"), &time.how());
    let (key, mut grant) = lease(&store, START);
    for round in 1..=5 {
        renew(&store, &key, &mut grant, START + 1_000 * round);
    }
    let verified = store.verify().unwrap();
    assert_eq!((verified.cells, verified.steps, verified.findings), (8, 6, vec![]));
    assert!(verified.history.contains("whole"), "{}", verified.history);
    // A window over another, put by hand and covered up by a sound step.
    let path = format!("ids/cells/{:020}", grant.generator_id);
    let sound = cluster.get(&path).unwrap();
    let cell = Cell::decode(&sound).unwrap();
    let stolen = Cell { from: Tick(START), granted_at_ms: 7, ..cell.clone() };
    let other = snowlease_lease::Token::random().hash();
    cluster.put(&path, &Cell { token: other, until: Tick(START + 9), ..stolen }.encode());
    cluster.put(&path, &sound);
    let found = store.verify().unwrap().findings;
    assert!(found.iter().all(|finding| finding.generator_id == Some(grant.generator_id)));
    assert!(found.iter().any(|finding| finding.what.contains("(I2)")), "{found:?}");
    // What is compacted is not seen, and that is said.
    cluster.compact();
    let verified = store.verify().unwrap();
    assert_eq!(verified.findings, []);
    assert!(verified.history.contains("compacted"), "{}", verified.history);
    // What stands is seen all the same.
    let broken = Cell { from: Tick(START + 99 * WINDOW), ..cell };
    cluster.put(&path, &broken.encode());
    let found = store.verify().unwrap().findings;
    assert!(found.iter().any(|finding| finding.what.contains("(I1)")), "{found:?}");
    cluster.put(&path, b"x");
    let found = store.verify().unwrap().findings;
    assert!(found.iter().any(|finding| finding.what.contains("damaged")), "{found:?}");
}
