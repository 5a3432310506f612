//! Networks that drop, hold back and cut: every call ends in time, and what is unknown is told.

use std::net::TcpListener;

use snowlease_lease::{LeaseStore, RequestKey};
use snowlease_store_etcd::testing::Proxy;

use super::*;

const ATTEMPT: Duration = Duration::from_millis(600);

/// What a call may take beyond its attempt on a machine that is busy.
const LATE: Duration = Duration::from_millis(900);

fn quick(time: &Time) -> Open {
    Open { attempt: ATTEMPT, ..time.how() }
}

fn address(hosts: &[&str]) -> Address {
    format!("etcd://{}/ids", hosts.join(",")).parse().unwrap()
}

/// One that listens, and answers nothing for ever.
fn black_hole() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    (listener, host)
}

/// A port that nobody listens at.
fn nobody() -> String {
    black_hole().1
}

#[test]
fn nobody_and_nothing_are_told_in_time() {
    let time = Time::at(START);
    let (_hole, hole) = black_hole();
    for (host, what) in [(nobody(), "refused"), (hole, "no answer within")] {
        let (error, took) = timed(|| refused(&address(&[&host]), &quick(&time)));
        let OpenError::Cluster(outage) = &error else { panic!("{error}") };
        assert!(!outage.unknown && outage.detail.contains(what), "{outage}");
        assert!(outage.detail.contains("check that a majority"), "{outage}");
        // Who opens has no lease to lose by waiting.
        assert!(took < ATTEMPT * 3 + LATE, "{took:?}");
    }
    // A server of another kind.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        use std::io::Write;
        for stream in listener.incoming().take(4) {
            drop(stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let error = refused(&address(&[&host]), &quick(&time));
    assert!(matches!(error, OpenError::Cluster(_)), "{error}");
}

/// Wherever the first call goes, one endpoint that is silent does not cost the whole attempt.
#[test]
fn a_silent_endpoint_is_passed_by() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let (_hole, hole) = black_hole();
    let (real, nobody) = (cluster.hosts()[0], nobody());
    for hosts in [[hole.as_str(), real], [real, hole.as_str()], [nobody.as_str(), real]] {
        for _ in 0..2 {
            let store = open(&address(&hosts), &quick(&time));
            let (granted, took) = timed(|| store.acquire(&ask(&RequestKey::random(), START)));
            assert!(granted.is_ok() || matches!(granted, Err(AcquireError::Exhausted { .. })));
            assert!(took < ATTEMPT, "{took:?}");
        }
    }
}

/// The answer to an acquire is lost: it is unknown, and asking again gives the same lease.
#[test]
fn a_lost_answer_costs_no_second_id() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    let proxy = Proxy::to(cluster.hosts()[0]);
    let store = open(&address(&[proxy.host()]), &quick(&time));
    let key = RequestKey::random();
    proxy.swallow_answers(true);
    let (asked, took) = timed(|| store.acquire(&ask(&key, START)));
    let lost = outage(asked);
    assert!(lost.unknown, "{lost}");
    assert!(took < ATTEMPT + LATE, "{took:?}");
    proxy.swallow_answers(false);
    let grant = store.acquire(&ask(&key, START)).unwrap();
    assert_eq!(grant.seq, 1);
    assert_eq!(store.list().unwrap().len(), 1);
    // The same of a renewal and of a release.
    let mut lease = grant.clone();
    proxy.swallow_answers(true);
    let Err(RenewError::Outage(lost)) = store.renew(&renewal(&key, &lease, START + 1)) else {
        panic!("renewed")
    };
    assert!(lost.unknown, "{lost}");
    proxy.swallow_answers(false);
    let renewed = store.renew(&renewal(&key, &lease, START + 1)).unwrap();
    assert_eq!(
        (renewed.seq, renewed.until, renewed.token),
        (2, Tick(START + 1 + WINDOW), Carries::Next)
    );
    lease.seq = renewed.seq;
    // What was never delivered is as unknown, and asking again does it.
    proxy.swallow_requests(true);
    let Err(RenewError::Outage(lost)) = store.renew(&renewal(&key, &lease, START + 2)) else {
        panic!("renewed")
    };
    assert!(lost.unknown, "{lost}");
    proxy.swallow_requests(false);
    let renewed = store.renew(&renewal(&key, &lease, START + 2)).unwrap();
    assert_eq!(renewed.seq, 3);
}

/// The connection is half open: the call finds out, and is answered on a new one.
#[test]
fn a_half_open_connection_is_replaced_within_one_call() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let proxy = Proxy::to(cluster.hosts()[0]);
    // A third of it is for the new connection, and for judging what answers there.
    let attempt = Duration::from_millis(1_500);
    let store = open(&address(&[proxy.host()]), &Open { attempt, ..quick(&time) });
    let (key, mut grant) = lease(&store, START);
    for (round, lose_answers_only) in [(1, true), (2, false)] {
        let before = proxy.connections();
        proxy.forsake(lose_answers_only);
        let (_, took) = timed(|| renew(&store, &key, &mut grant, START + round));
        assert!(took < attempt, "{took:?}");
        assert_eq!(grant.seq, 1 + round);
        assert_eq!(proxy.connections(), before + 1);
    }
    // A release that took place, and whose answer was lost, is one that took place.
    proxy.forsake(true);
    let release = snowlease_lease::Release {
        generator_id: grant.generator_id,
        token: key.token(),
        next: None,
        seq: grant.seq,
        unused_from: Tick(START + 3),
    };
    assert_eq!(store.release(&release), Ok(()));
    // An acquire too.
    proxy.forsake(true);
    let grant = store.acquire(&ask(&key, START + 3)).unwrap();
    assert_eq!(store.acquire(&ask(&key, START + 3)), Ok(grant));
    assert_eq!(store.list().unwrap().iter().filter(|entry| entry.held).count(), 1);
}

#[test]
fn a_restarted_member_is_found_again() {
    let mut cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let store = open(&cluster.address("ids"), &quick(&time));
    let (key, mut grant) = lease(&store, START);
    cluster.kill(0);
    let gone = outage(store.acquire(&ask(&RequestKey::random(), START)));
    assert!(gone.detail.contains("majority"), "{gone}");
    let again = outage(store.acquire(&ask(&RequestKey::random(), START)));
    assert!(!again.unknown && again.detail.contains("refused"), "{again}");
    cluster.launch(0);
    cluster.wait();
    renew(&store, &key, &mut grant, START + 1);
    lease(&store, START + 1);
}

#[test]
fn many_threads_share_a_store_and_it_may_live_in_a_runtime() {
    let cluster = Cluster::start(&Options::single("3.4"));
    let time = Time::at(START);
    let how = Open { range: Some((0, 511)), ..time.how() };
    let store = open(&cluster.address("ids"), &how);
    let ids: std::collections::BTreeSet<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..64).map(|_| scope.spawn(|| lease(&store, START).1.generator_id)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 64);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        lease(&store, START);
        let inside = open(&cluster.address("ids"), &how);
        lease(&inside, START);
        drop(inside);
        drop(store);
    });
}

/// A full database says what to do. It may have made what it refuses: etcd answers so after the
/// fact.
#[test]
fn a_full_database_refuses_and_loses_nothing() {
    let more = ["--quota-backend-bytes=8000000"];
    let cluster = Cluster::start(&Options { more: &more, ..Options::single("3.7") });
    let time = Time::at(START);
    let address = cluster.address("ids");
    let store = open(&address, &time.how());
    let (key, mut grant) = lease(&store, START);
    while cluster.try_put("fill", &vec![7; 500_000]).is_ok() {}
    let full = outage(store.acquire(&ask(&RequestKey::random(), START)));
    assert!(full.unknown && full.detail.contains("alarm disarm"), "{full}");
    let Err(RenewError::Outage(full)) = store.renew(&renewal(&key, &grant, START + 1)) else {
        panic!("renewed")
    };
    assert!(full.unknown && full.detail.contains("quota-backend-bytes"), "{full}");
    assert_eq!(store.list().unwrap().len(), 1);
    let (_, opened) = EtcdStore::open(&address, &time.how()).unwrap();
    let told = |alarms: &[String]| alarms.iter().any(|alarm| alarm.contains("is full"));
    assert!(told(&opened.alarms), "{:?}", opened.alarms);
    assert!(told(&store.status().unwrap().alarms));
    cluster.delete("fill");
    cluster.make_room();
    assert!(!told(&store.status().unwrap().alarms));
    renew(&store, &key, &mut grant, START + 1);
    lease(&store, START + 1);
}
