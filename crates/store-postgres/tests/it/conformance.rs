//! The conformance suite, plain and while calls are lost, late and repeated: all checks in turn
//! over one server, since each test is a process of its own and a server takes a second to make.

use snowlease_lease::testing::suite::{UnderFaults, run_all};
use snowlease_store_postgres::testing::{Kind, NewSchema, Server};

#[test]
fn all_checks_hold() {
    let server = Server::start(Kind { fsync: true, ..Kind::default() });
    run_all(&NewSchema::on(&server));
}

#[test]
fn all_checks_hold_under_faults() {
    let server = Server::start(Kind { fsync: true, ..Kind::default() });
    run_all(&UnderFaults { setup: NewSchema::on(&server), seed: 11 });
}
