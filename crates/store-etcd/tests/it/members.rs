//! Three members: what one of them does is nobody's business.

use snowlease_lease::{LeaseStore, RequestKey, Terms};

use super::*;

/// One lease is held through whatever happens, and it takes no more attempts than a holder has.
struct Holder {
    store: EtcdStore,
    key: RequestKey,
    grant: Grant,
    now: u64,
}

impl Holder {
    fn new(cluster: &Cluster) -> Holder {
        let time = Time::at(START);
        let store = open(&cluster.address("ids"), &Open { inspect: false, ..time.how() });
        let (key, grant) = lease(&store, START);
        Holder { store, key, grant, now: START }
    }

    /// Renews by the same bytes until it is answered; how long that took.
    fn renew(&mut self) -> Duration {
        self.now += 10;
        let ask = renewal(&self.key, &self.grant, self.now);
        let ((), took) = timed(|| {
            loop {
                let (answer, took) = timed(|| self.store.renew(&ask));
                assert!(took < Terms::DEFAULT.attempt() + Duration::from_secs(1), "{took:?}");
                match answer {
                    Ok(renewed) => {
                        assert_eq!((renewed.until, renewed.token), (ask.until, Carries::Next));
                        (self.grant.seq, self.grant.until) = (renewed.seq, renewed.until);
                        break;
                    }
                    Err(RenewError::Outage(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        // Far below the 37 s that a holder goes on without.
        assert!(took < Duration::from_secs(15), "{took:?}");
        took
    }
}

fn three(version: &str) -> Cluster {
    Cluster::start(&Options { members: 3, ..Options::single(version) })
}

#[test]
fn the_leader_is_killed_and_comes_back() {
    let mut cluster = three("3.4");
    let mut holder = Holder::new(&cluster);
    for _ in 0..2 {
        let leader = cluster.leader();
        cluster.kill(leader);
        holder.renew();
        lease(&holder.store, holder.now);
        cluster.launch(leader);
        cluster.wait();
    }
    // All one by one, while it goes on.
    for place in 0..3 {
        cluster.stop(place);
        holder.renew();
        cluster.launch(place);
        cluster.wait();
        holder.renew();
    }
    assert_eq!(holder.grant.seq, 1 + 2 + 6);
}

/// A member that hangs keeps its connections open and answers nothing.
#[test]
fn a_member_that_hangs_is_passed_by() {
    let mut cluster = three("3.7");
    let mut holder = Holder::new(&cluster);
    let leader = cluster.leader();
    for place in [leader, (leader + 1) % 3, (leader + 2) % 3] {
        cluster.freeze(place);
        holder.renew();
        lease(&holder.store, holder.now);
        cluster.thaw(place);
        holder.renew();
    }
    // Without a majority nothing is granted, and that is told in time.
    cluster.freeze(0);
    cluster.freeze(1);
    let (asked, took) = timed(|| holder.store.acquire(&ask(&RequestKey::random(), holder.now)));
    let gone = outage(asked);
    assert!(took < Terms::DEFAULT.attempt() + Duration::from_secs(1), "{took:?}");
    assert!(gone.detail.contains("majority"), "{gone}");
    cluster.thaw(0);
    cluster.thaw(1);
    holder.renew();
}
