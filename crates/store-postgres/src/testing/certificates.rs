//! An authority of the test's own, and a server's certificate by it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

/// Files in PEM: whom to trust, whom not, and what the server shows.
#[derive(Clone, Debug)]
pub struct Certificates {
    authority: PathBuf,
    stranger: PathBuf,
    server: PathBuf,
    server_key: PathBuf,
}

impl Certificates {
    /// A certificate for `127.0.0.1`, but not for `localhost`, and its authority.
    pub(super) fn make(folder: &Path) -> Certificates {
        let files = Certificates {
            authority: folder.join("authority.pem"),
            stranger: folder.join("stranger.pem"),
            server: folder.join("server.pem"),
            server_key: folder.join("server.key"),
        };
        let authority = authority();
        let key = KeyPair::generate().unwrap();
        let names = vec!["127.0.0.1".to_owned()];
        let server = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        fs::write(&files.authority, authority.pem()).unwrap();
        fs::write(&files.stranger, self::authority().pem()).unwrap();
        fs::write(&files.server, server.pem()).unwrap();
        fs::write(&files.server_key, key.serialize_pem()).unwrap();
        fs::set_permissions(&files.server_key, fs::Permissions::from_mode(0o600)).unwrap();
        files
    }

    /// The authority that has signed the server's certificate.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// An authority that has not.
    pub fn stranger(&self) -> &Path {
        &self.stranger
    }

    pub(super) fn server(&self) -> &Path {
        &self.server
    }

    pub(super) fn server_key(&self) -> &Path {
        &self.server_key
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}
