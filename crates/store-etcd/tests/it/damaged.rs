//! Cells that are none, and keys that are gone: nothing is granted by them, and nobody waits for
//! nothing.

use snowlease_lease::{LeaseStore, RequestKey};
use snowlease_store_etcd::testing::Proxy;

use super::*;

const CELL: &str = "ids/cells/00000000000000000000";
const LATER: u64 = START + 2 * WINDOW;

fn one_id(time: &Time) -> Open {
    Open { range: Some((0, 0)), inspect: false, ..time.how() }
}

/// What was cut or emptied sorts as if it were free. It is not, however often it is asked for.
#[test]
fn what_is_no_cell_is_never_granted() {
    for version in ["3.4", "3.7"] {
        let cluster = Cluster::start(&Options::single(version));
        let time = Time::at(START);
        let store = open(&cluster.address("ids"), &one_id(&time));
        let vacant = cluster.get(CELL).unwrap();
        lease(&store, START);
        let whole = cluster.get(CELL).unwrap();
        let mut longer = whole.clone();
        longer.push(0);
        time.set(LATER);
        // Not even tried: it cannot be a cell.
        for bytes in [&[][..], &[0; 3], &[0; 8], &vacant[..9], &vacant[..30]] {
            cluster.put(CELL, bytes);
            let key = RequestKey::random();
            for _ in 0..2 {
                let before = cluster.revision();
                let refused = outage(store.acquire(&ask(&key, LATER)));
                assert!(!refused.unknown && refused.detail.contains("quarantine"), "{refused}");
                assert_eq!(cluster.revision(), before);
            }
        }
        // Found out, and put back.
        for bytes in [&whole[..5], &whole[..8], &whole[..50], &whole[..73], &vacant[..76], &longer]
        {
            cluster.put(CELL, bytes);
            let key = RequestKey::random();
            for store in [&store, &open(&cluster.address("ids"), &one_id(&time))] {
                let refused = outage(store.acquire(&ask(&key, LATER)));
                assert!(refused.unknown, "{refused}");
                assert!(refused.detail.contains("id 0 cannot be read"), "{refused}");
                assert!(refused.detail.contains("restore a backup"), "{refused}");
                assert_eq!(cluster.get(CELL).as_deref(), Some(bytes));
            }
        }
        cluster.put(CELL, &whole);
        assert_eq!(store.acquire(&ask(&RequestKey::random(), LATER)).unwrap().generator_id, 0);
    }
}

/// Whoever granted over it had no time to find out.
#[test]
fn a_grant_over_what_is_no_cell_is_not_found_again() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let proxy = Proxy::to(cluster.hosts()[0]);
    let how = Open { attempt: Duration::from_millis(600), ..one_id(&time) };
    let address: Address = format!("etcd://{}/ids", proxy.host()).parse().unwrap();
    let store = open(&address, &how);
    lease(&store, START);
    let whole = cluster.get(CELL).unwrap();
    time.set(LATER);
    cluster.put(CELL, &whole[..50]);
    let key = RequestKey::random();
    proxy.hold_answers(true);
    assert!(outage(store.acquire(&ask(&key, LATER))).unknown);
    assert!(cluster.get(CELL).unwrap().len() > 50, "it was granted");
    let direct = open(&cluster.address("ids"), &one_id(&time));
    let refused = outage(direct.acquire(&ask(&key, LATER)));
    assert!(refused.unknown && refused.detail.contains("id 0 cannot be read"), "{refused}");
    assert_eq!(cluster.get(CELL).as_deref(), Some(&whole[..50]));
}

/// One that is damaged costs nobody else's lease.
#[test]
fn a_grant_beside_what_is_no_cell_is_found_again() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let how = Open { range: Some((0, 7)), ..one_id(&time) };
    let store = open(&cluster.address("ids"), &how);
    let (key, grant) = lease(&store, START);
    for id in (0..8).filter(|id| *id != grant.generator_id) {
        cluster.put(&format!("ids/cells/{id:020}"), b"x");
    }
    let other = open(&cluster.address("ids"), &how);
    assert_eq!(other.acquire(&ask(&key, START)), Ok(grant));
}

/// A comparison with a key that is gone never holds: that is told at once.
#[test]
fn a_lost_request_is_told_and_not_waited_for() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    let store = open(&cluster.address("ids"), &one_id(&time));
    cluster.delete("ids/requests/00000000000000000000");
    let (refused, took) = timed(|| outage(store.acquire(&ask(&RequestKey::random(), START))));
    assert!(!refused.unknown && refused.detail.contains("is damaged"), "{refused}");
    assert!(refused.detail.contains("restore a backup"), "{refused}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}
