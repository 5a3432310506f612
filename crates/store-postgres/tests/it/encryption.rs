//! TLS: whom a store talks to, and what it says if it does not.

use super::*;

#[test]
fn every_mode_does_what_it_says() {
    let server = Server::start(Kind { tls: true, ..Kind::default() });
    let at = |host: &str, options: &str| server.url().replace("127.0.0.1", host) + "?" + options;
    let authority = format!("sslrootcert={}", server.certificates().authority().display());
    let stranger = format!("sslrootcert={}", server.certificates().stranger().display());
    init(&at("127.0.0.1", &authority), 8);
    for fine in [
        at("127.0.0.1", &authority),
        at("127.0.0.1", &format!("sslmode=verify-full&{authority}")),
        at("localhost", &format!("sslmode=verify-ca&{authority}")),
        at("localhost", &format!("sslmode=require&{authority}")),
        at("localhost", "sslmode=require"),
    ] {
        lease(&open(&fine));
        let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                         WHERE application_name = 'snowlease'";
        assert_ne!(server.ask("ids", encrypted), "f");
    }
    let refused = |url: &str| {
        PostgresStore::open(&address(url), &within(Duration::from_secs(2))).unwrap_err().to_string()
    };
    for wrong in [
        at("127.0.0.1", &stranger),
        at("127.0.0.1", "sslmode=verify-full"),
        at("localhost", &authority),
        at("127.0.0.1", &format!("sslmode=verify-ca&{stranger}")),
        at("127.0.0.1", &format!("sslmode=require&{stranger}")),
    ] {
        let error = refused(&wrong);
        assert!(error.contains("certificate"), "{wrong}: {error}");
        assert!(error.contains("sslrootcert=FILE"), "{error}");
    }
    let error = refused(&at("127.0.0.1", "sslmode=disable"));
    assert!(error.contains("pg_hba.conf"), "{error}");
    let error = refused(&at("127.0.0.1", "sslrootcert=%2Fnowhere.pem"));
    assert!(error.contains("/nowhere.pem"), "{error}");

    let plain = Server::start(Kind::default());
    let error = refused(&(plain.url() + "?sslmode=require"));
    assert!(error.contains("speaks no TLS"), "{error}");
}
