//! The part of etcd's gRPC interface that is called here; `etcd.proto` says what, and the code from
//! it is committed, so that nobody needs a tool to build this.

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::must_use_candidate,
    reason = "generated"
)]

include!("etcdserverpb.rs");
