//! Real clusters for tests, and a store under a prefix of its own for each check of the
//! conformance suite.
//!
//! `cargo xtask setup` puts the programs in place. Every process started here ends with the one
//! that started it, however that ends.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "helpers of tests fail as tests do: by panicking"
)]

mod cluster;
mod gateway;
mod process;
mod proxy;
mod setup;
mod tls;

pub use cluster::{Cluster, Options};
pub use proxy::Proxy;
pub use setup::NewPrefix;
pub use tls::Certificates;
