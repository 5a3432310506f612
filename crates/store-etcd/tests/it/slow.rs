//! Endpoints that live and are slow: they are not made slower by what is asked of them.

use snowlease_lease::{LeaseStore, RequestKey};
use snowlease_store_etcd::testing::Proxy;

use super::*;

fn proxies<const N: usize>(cluster: &Cluster) -> ([Proxy; N], Address) {
    let proxies = std::array::from_fn(|_| Proxy::to(cluster.hosts()[0]));
    let hosts: Vec<&str> = proxies.iter().map(Proxy::host).collect();
    let address = format!("etcd://{}/ids", hosts.join(",")).parse().unwrap();
    (proxies, address)
}

fn connections(proxies: &[Proxy]) -> usize {
    proxies.iter().map(Proxy::connections).sum()
}

/// Each in turn is slow, the other one answers, and nobody has to set up a connection anew.
#[test]
fn one_that_was_slow_keeps_its_connection() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    let (proxies, address) = proxies::<2>(&cluster);
    let store = open(&address, &time.how());
    let (key, mut grant) = lease(&store, START);
    let mut now = START;
    for _ in 0..2 {
        for proxy in &proxies {
            proxy.hold_answers(true);
            now += 1;
            renew(&store, &key, &mut grant, now);
            proxy.hold_answers(false);
        }
    }
    assert_eq!(proxies.each_ref().map(Proxy::connections), [1, 1]);
}

/// All are slow: a call asks one other, and no more, and ends in time.
#[test]
fn an_overloaded_cluster_is_asked_twice_and_no_more() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let (proxies, address) = proxies::<3>(&cluster);
    let attempt = Duration::from_millis(1_500);
    let store = open(&address, &Open { attempt, ..time.how() });
    let (key, mut grant) = lease(&store, START);
    let before = connections(&proxies);
    proxies.iter().for_each(|proxy| proxy.hold_answers(true));
    let (asked, took) = timed(|| store.renew(&renewal(&key, &grant, START + 1)));
    assert!(matches!(asked, Err(RenewError::Outage(Outage { unknown: true, .. }))), "{asked:?}");
    assert!(took < attempt + Duration::from_secs(1), "{took:?}");
    assert_eq!(connections(&proxies), before + 1);
    proxies.iter().for_each(|proxy| proxy.hold_answers(false));
    renew(&store, &key, &mut grant, START + 1);
}

/// The first answer is slow, and meanwhile the store becomes another: what was asked first may have
/// been done.
#[test]
fn what_was_sent_before_the_store_changed_is_unknown() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let ([first, second], address) = proxies::<2>(&cluster);
    let store = open(&address, &time.how());
    // Both have a connection that was judged, and the first one is asked next.
    for proxy in [&first, &second] {
        proxy.hold_answers(true);
        lease(&store, START);
        proxy.hold_answers(false);
    }
    let meta = String::from_utf8(cluster.get("ids/meta").unwrap()).unwrap();
    let before = cluster.revision();
    first.hold_answers(true);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| store.acquire(&ask(&RequestKey::random(), START)));
        while cluster.revision() == before {
            assert!(!asked.is_finished(), "{:?}", store.list());
        }
        cluster.put("ids/meta", meta.replace("\"ready\"", "\"creating\"").as_bytes());
        let lost = outage(asked.join().unwrap());
        assert!(lost.unknown && lost.detail.contains("being made"), "{lost}");
    });
}
