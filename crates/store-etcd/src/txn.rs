//! Transactions of etcd in few words.

use crate::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::request_op::Request;
use crate::proto::response_op::Response;
use crate::proto::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseOp,
    TxnRequest, TxnResponse,
};

pub(crate) fn value_is(key: Vec<u8>, value: &[u8]) -> Compare {
    compare(key, CompareResult::Equal, TargetUnion::Value(value.to_vec()))
}

pub(crate) fn value_is_not(key: Vec<u8>, value: &[u8]) -> Compare {
    compare(key, CompareResult::NotEqual, TargetUnion::Value(value.to_vec()))
}

/// Byte by byte; false for a key that is not there.
pub(crate) fn value_is_below(key: Vec<u8>, bound: &[u8]) -> Compare {
    compare(key, CompareResult::Less, TargetUnion::Value(bound.to_vec()))
}

/// Byte by byte; false for a key that is not there.
pub(crate) fn value_is_above(key: Vec<u8>, bound: &[u8]) -> Compare {
    compare(key, CompareResult::Greater, TargetUnion::Value(bound.to_vec()))
}

/// How often the key was put; 0 if it is not there.
pub(crate) fn version_is(key: Vec<u8>, version: i64) -> Compare {
    compare(key, CompareResult::Equal, TargetUnion::Version(version))
}

/// For a key that is always there, if the store is: this never holds. What is then read in a
/// transaction that would have put something is ordered with all that is put.
pub(crate) fn never(key: Vec<u8>) -> Compare {
    version_is(key, -1)
}

pub(crate) fn put(key: Vec<u8>, value: Vec<u8>) -> RequestOp {
    op(Request::RequestPut(PutRequest { key, value, prev_kv: false }))
}

/// Puts, and answers what was there before.
pub(crate) fn replace(key: Vec<u8>, value: Vec<u8>) -> RequestOp {
    op(Request::RequestPut(PutRequest { key, value, prev_kv: true }))
}

pub(crate) fn get(key: Vec<u8>) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key, ..RangeRequest::default() }))
}

pub(crate) fn delete(key: Vec<u8>) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest { key }))
}

pub(crate) fn nested(txn: TxnRequest) -> RequestOp {
    op(Request::RequestTxn(txn))
}

/// The first key of an answer to [`get`]; `None` if it is not there, or this is another answer.
pub(crate) fn found(answer: Option<&ResponseOp>) -> Option<&KeyValue> {
    match answer?.response.as_ref()? {
        Response::ResponseRange(range) => range.kvs.first(),
        _ => None,
    }
}

/// What was there before, of an answer to [`replace`].
pub(crate) fn replaced(answer: Option<&ResponseOp>) -> Option<&KeyValue> {
    match answer?.response.as_ref()? {
        Response::ResponsePut(put) => put.prev_kv.as_ref(),
        _ => None,
    }
}

/// The answer to [`nested`].
pub(crate) fn inner(answer: Option<&ResponseOp>) -> Option<&TxnResponse> {
    match answer?.response.as_ref()? {
        Response::ResponseTxn(txn) => Some(txn),
        _ => None,
    }
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn compare(key: Vec<u8>, result: CompareResult, union: TargetUnion) -> Compare {
    let target = match union {
        TargetUnion::Version(_) => CompareTarget::Version,
        TargetUnion::CreateRevision(_) => CompareTarget::Create,
        TargetUnion::ModRevision(_) => CompareTarget::Mod,
        TargetUnion::Value(_) => CompareTarget::Value,
    };
    Compare {
        result: result.into(),
        target: target.into(),
        key,
        target_union: Some(union),
        range_end: Vec::new(),
    }
}
