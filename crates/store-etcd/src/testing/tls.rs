//! A certificate authority of a test, with a server's and a client's certificate.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

/// Files of certificates and keys, in PEM. The server's is for `127.0.0.1` and `etcd.test`.
#[derive(Debug)]
pub struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// Makes an authority and what it signs.
    pub fn new() -> Certificates {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates { folder };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "tests");
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        fs::write(certificates.authority(), authority.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for (name, usage) in [
            (
                "server",
                vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            ),
            ("client", vec![ExtendedKeyUsagePurpose::ClientAuth]),
        ] {
            let hosts = vec!["127.0.0.1".to_owned(), "etcd.test".to_owned()];
            let mut params = CertificateParams::new(hosts).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params.extended_key_usages = usage;
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(certificates.file(&format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(certificates.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        certificates
    }

    /// The file of the authority.
    pub fn authority(&self) -> PathBuf {
        self.file("authority.pem")
    }

    /// The certificate and key of a client.
    pub fn client(&self) -> (PathBuf, PathBuf) {
        (self.file("client.pem"), self.file("client.key"))
    }

    /// The certificate and key of a server.
    pub fn server(&self) -> (PathBuf, PathBuf) {
        (self.file("server.pem"), self.file("server.key"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Default for Certificates {
    fn default() -> Certificates {
        Certificates::new()
    }
}
