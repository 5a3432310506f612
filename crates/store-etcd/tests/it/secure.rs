//! Users with passwords, and TLS with certificates on both sides.

use snowlease_store_etcd::testing::Certificates;

use super::*;

const SECRET: &str = "s3cret-word";

fn address(cluster: &Cluster, login: &str, prefix: &str) -> Address {
    format!("etcd://{login}@{}/{prefix}", cluster.hosts().join(",")).parse().unwrap()
}

#[test]
fn a_token_that_is_spent_is_replaced() {
    for version in ["3.4", "3.7"] {
        let more = ["--auth-token-ttl=1"];
        let mut cluster = Cluster::start(&Options { more: &more, ..Options::single(version) });
        cluster.enable_auth("ids", SECRET, "ids/");
        let time = Time::at(START);
        let address = address(&cluster, &format!("ids:{SECRET}"), "ids");
        let store = open(&address, &time.how());
        let (key, mut grant) = lease(&store, START);
        // Users change: every token of before is of an old revision.
        let root = cluster.root_token();
        cluster.post("auth/user/add", &root, r#"{"name":"new","password":"x"}"#);
        renew(&store, &key, &mut grant, START + 1);
        // It expires, as it is not used.
        let begun = os::boot_ns();
        cluster.until("waits", |_| os::boot_ns() - begun > 2_500_000_000);
        renew(&store, &key, &mut grant, START + 2);
        // The member that gave it forgets it when it is restarted.
        cluster.stop(0);
        cluster.launch(0);
        cluster.wait();
        renew(&store, &key, &mut grant, START + 3);
        lease(&store, START + 3);
        assert!(!format!("{store:?}").contains(SECRET));
    }
}

#[test]
fn who_may_not_is_told_what_to_do() {
    let cluster = Cluster::start(&Options::single("3.7"));
    let time = Time::at(START);
    // Where users are not checked, one that is given does no harm.
    open(&address(&cluster, &format!("ids:{SECRET}"), "open"), &time.how());
    cluster.enable_auth("ids", SECRET, "ids/");
    let told = |login: &str, prefix: &str| {
        let (error, took) = timed(|| refused(&address(&cluster, login, prefix), &time.how()));
        assert!(took < Duration::from_secs(4), "{took:?}");
        assert!(!error.to_string().contains(SECRET) && !format!("{error:?}").contains(SECRET));
        error.to_string()
    };
    assert!(told("ids:wrong", "ids").contains("password is wrong"));
    assert!(told(&format!("nobody:{SECRET}"), "ids").contains("password is wrong"));
    assert!(told(&format!("ids:{SECRET}"), "other").contains("grant-permission"));
    assert!(told("ids", "ids").contains("no password"));
    let error = refused(&cluster.address("ids"), &time.how()).to_string();
    assert!(error.contains("etcd://USER:PASSWORD@"), "{error}");
    let beside = address(&cluster, "ids", "ids")
        .or_password(Some(snowlease_store_etcd::Secret::new(SECRET)));
    lease(&open(&beside, &time.how()), START);
}

#[test]
fn both_sides_show_their_certificates() {
    let (ours, theirs) = (Certificates::new(), Certificates::new());
    let cluster = Cluster::start(&Options { tls: Some(&ours), ..Options::single("3.7") });
    let time = Time::at(START);
    let how = Open { attempt: Duration::from_millis(1_500), ..time.how() };
    let host = cluster.hosts()[0];
    let at = |scheme: &str, query: String| {
        format!("{scheme}://{host}/ids?{query}").parse::<Address>().unwrap()
    };
    let ca = |of: &Certificates| format!("ca={}", of.authority().display());
    let identity = |of: &Certificates| {
        let (certificate, key) = of.client();
        format!("cert={}&key={}", certificate.display(), key.display())
    };
    let both = format!("{}&{}", ca(&ours), identity(&ours));
    let store = open(&at("etcds", both.clone()), &how);
    lease(&store, START);
    open(&at("etcds", format!("{both}&server_name=etcd.test")), &how);
    for (what, address) in [
        ("no certificate", at("etcds", ca(&ours))),
        ("a foreign one", at("etcds", format!("{}&{}", ca(&ours), identity(&theirs)))),
        ("a foreign server", at("etcds", format!("{}&{}", ca(&theirs), identity(&ours)))),
        ("another name", at("etcds", format!("{both}&server_name=elsewhere.test"))),
        ("no TLS", format!("etcd://{host}/ids").parse().unwrap()),
    ] {
        let error = refused(&address, &how);
        assert!(matches!(error, OpenError::Cluster(_)), "{what}: {error}");
    }
    let error = refused(&at("etcds", "ca=/nowhere".to_owned()), &how);
    assert!(matches!(error, OpenError::TlsFile { .. }), "{error}");
    let (certificate, _) = ours.client();
    let (_, key) = theirs.client();
    let crossed = format!("{}&cert={}&key={}", ca(&ours), certificate.display(), key.display());
    let error = refused(&at("etcds", crossed), &how);
    assert!(matches!(error, OpenError::Tls { .. }), "{error}");
}
