//! The conformance suite on the oldest and the newest etcd, plain and while calls are lost, late
//! and repeated: one cluster for all checks, since a cluster takes longer to start than a check.

use snowlease_lease::testing::suite::{UnderFaults, run_all};
use snowlease_store_etcd::testing::{Cluster, NewPrefix, Options};

fn plain(version: &str) {
    let cluster = Cluster::start(&Options::single(version));
    run_all(&NewPrefix::of(&cluster));
}

fn under_faults(version: &str) {
    let cluster = Cluster::start(&Options::single(version));
    run_all(&UnderFaults { setup: NewPrefix::of(&cluster), seed: 17 });
}

#[test]
fn etcd_3_4_conforms() {
    plain("3.4");
}

#[test]
fn etcd_3_4_conforms_under_faults() {
    under_faults("3.4");
}

#[test]
fn etcd_3_7_conforms() {
    plain("3.7");
}

#[test]
fn etcd_3_7_conforms_under_faults() {
    under_faults("3.7");
}
