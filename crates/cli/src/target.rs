//! What a verb asks: a running service, or a store without one.

use std::env::VarError;

use clap::Args;

use crate::client::{Client, DEFAULT_SERVER};
use crate::settings::keys;
use crate::stores;
use crate::usage::Usage;

/// The flags that name it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Ask the service at this URL [env: SNOWLEASE_SERVER] [default: http://127.0.0.1:8700]
    #[arg(long, value_name = "URL", conflicts_with = "store")]
    server: Option<String>,
    /// Open this store instead: one of a fleet, or a file that no service has open
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

/// What to ask.
#[derive(Debug)]
pub(crate) enum Asked {
    Service(Client),
    Store(String),
}

impl Target {
    /// The one named. A variable names a service only: the store of `SNOWLEASE_STORE` is that of a
    /// service on this machine, which has it open.
    pub(crate) fn asked(self) -> Result<Asked, Usage> {
        if let Some(store) = self.store {
            return match store.as_str() {
                "" => Err(Usage(format!("--{} is empty: give it a URL", keys::STORE.flag))),
                url if is_service(url) => Client::new(url).map(Asked::Service),
                url => stores::check(url).map(|()| Asked::Store(store)),
            };
        }
        if let Some(server) = self.server {
            return Client::new(&server).map(Asked::Service);
        }
        let server = match std::env::var("SNOWLEASE_SERVER") {
            Ok(server) => server,
            Err(VarError::NotPresent) => DEFAULT_SERVER.to_owned(),
            Err(VarError::NotUnicode(_)) => {
                return Err(Usage("SNOWLEASE_SERVER is not UTF-8 text: set it anew".to_owned()));
            }
        };
        Client::new(&server)
            .map(Asked::Service)
            .map_err(|error| Usage(format!("SNOWLEASE_SERVER: {error}")))
    }
}

fn is_service(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}
