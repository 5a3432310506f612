//! The calls of etcd's interface that are made: each a message with its path and its answer.

use crate::proto::{
    AlarmRequest, AlarmResponse, AuthenticateRequest, AuthenticateResponse, MemberListRequest,
    MemberListResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest,
    TxnResponse,
};

/// A message that asks for something.
pub(crate) trait Call: prost::Message + Clone + 'static {
    type Answer: prost::Message + Default + 'static;
    const PATH: &'static str;
}

macro_rules! calls {
    ($($request:ident -> $answer:ident = $path:literal;)*) => {
        $(impl Call for $request {
            type Answer = $answer;
            const PATH: &'static str = $path;
        })*
    };
}

calls! {
    RangeRequest -> RangeResponse = "/etcdserverpb.KV/Range";
    TxnRequest -> TxnResponse = "/etcdserverpb.KV/Txn";
    AuthenticateRequest -> AuthenticateResponse = "/etcdserverpb.Auth/Authenticate";
    StatusRequest -> StatusResponse = "/etcdserverpb.Maintenance/Status";
    AlarmRequest -> AlarmResponse = "/etcdserverpb.Maintenance/Alarm";
    MemberListRequest -> MemberListResponse = "/etcdserverpb.Cluster/MemberList";
}
