//! Making a store: what it is for, then its cells, then that it is ready.
//!
//! Each cell is put only if it is not there, and only while the store is being made. So two that
//! make it at once make one store, and one that was interrupted is finished by the next.

use snowlease_lease::{Cell, Outage, TokenHash};

use crate::core::stored;
use crate::error::OpenError;
use crate::keys::{Family, Keys};
use crate::net::{Client, Deadline};
use crate::proto::{KeyValue, RangeRequest, TxnRequest};
use crate::record::{Known, NoRecord, Record, SCHEMA};
use crate::txn;

/// How many cells are put together: with their requests, and along any path, below 128 operations.
const TOGETHER: usize = 100;

pub(crate) struct Making<'a> {
    pub(crate) client: &'a Client,
    pub(crate) keys: &'a Keys,
    pub(crate) attempt: std::time::Duration,
}

impl Making<'_> {
    fn deadline(&self) -> Deadline {
        Deadline::within(self.attempt)
    }

    fn prefix(&self) -> String {
        self.keys.prefix().to_owned()
    }

    /// What is stored, whether it is ready or not; `None` if there is nothing under the prefix.
    pub(crate) fn find(&self) -> Result<Option<Known>, OpenError> {
        let request = RangeRequest { key: self.keys.meta(), ..RangeRequest::default() };
        let answer = self.client.range(&request, self.deadline()).map_err(Outage::from)?;
        if let Some(header) = &answer.header {
            self.client.begin_at(header);
        }
        match answer.kvs.first() {
            Some(kv) => self.read(kv).map(Some),
            None => {
                let revision = answer.header.map_or(0, |header| header.revision);
                self.nothing(revision).map(|()| None)
            }
        }
    }

    fn read(&self, kv: &KeyValue) -> Result<Known, OpenError> {
        let record = Record::decode(&kv.value).map_err(|error| match error {
            NoRecord::Newer(schema) => {
                OpenError::Newer { prefix: self.prefix(), schema, known: SCHEMA }
            }
            NoRecord::Damaged(what) => OpenError::Damaged { prefix: self.prefix(), what },
        })?;
        Ok(Known { record, bytes: kv.value.clone() })
    }

    /// Without a meta there has to be nothing at all, at the revision that it was not there.
    fn nothing(&self, revision: i64) -> Result<(), OpenError> {
        let (key, range_end) = self.keys.all();
        let request = RangeRequest {
            key,
            range_end,
            limit: 1,
            keys_only: true,
            revision,
            ..RangeRequest::default()
        };
        let answer = self.client.range(&request, self.deadline()).map_err(Outage::from)?;
        let Some(kv) = answer.kvs.first() else { return Ok(()) };
        Err(match self.keys.family(&kv.key) {
            Some(Family::Cell(_) | Family::Request(_)) => {
                OpenError::Headless { prefix: self.prefix() }
            }
            _ => OpenError::Foreign {
                prefix: self.prefix(),
                key: String::from_utf8_lossy(&kv.key).into_owned(),
            },
        })
    }

    /// Makes the store, or takes part in it: what is stored decides.
    pub(crate) fn make(&self, record: Record) -> Result<Known, OpenError> {
        let new = Record { creating: true, ..record }.known();
        let request = TxnRequest {
            compare: vec![txn::version_is(self.keys.meta(), 0)],
            success: vec![txn::put(self.keys.meta(), new.bytes.clone())],
            failure: vec![txn::get(self.keys.meta())],
        };
        match self.put(&request)? {
            None => self.finish(new),
            Some(found) if found.record.creating => self.finish(found),
            Some(found) => Ok(found),
        }
    }

    /// Puts the cells that are missing and says that the store is ready.
    pub(crate) fn finish(&self, creating: Known) -> Result<Known, OpenError> {
        let meta = &creating.record.meta;
        let vacant = stored(&Cell::vacant(meta.format.fingerprint()));
        let ids: Vec<u64> = (meta.range.0..=meta.range.1).collect();
        let while_making = || txn::value_is(self.keys.meta(), &creating.bytes);
        for part in ids.chunks(TOGETHER) {
            let one = |id: &u64| {
                txn::nested(TxnRequest {
                    compare: vec![txn::version_is(self.keys.cell(*id), 0)],
                    success: vec![
                        txn::put(self.keys.cell(*id), vacant.clone()),
                        txn::put(self.keys.request(*id), TokenHash::NOBODY.as_bytes().to_vec()),
                    ],
                    failure: Vec::new(),
                })
            };
            let request = TxnRequest {
                compare: vec![while_making()],
                success: part.iter().map(one).collect(),
                failure: vec![txn::get(self.keys.meta())],
            };
            if let Some(found) = self.put(&request)? {
                return self.made_by_another(found);
            }
        }
        let ready = Record { creating: false, ..creating.record.clone() }.known();
        let request = TxnRequest {
            compare: vec![while_making()],
            success: vec![txn::put(self.keys.meta(), ready.bytes.clone())],
            failure: vec![txn::get(self.keys.meta())],
        };
        match self.put(&request)? {
            None => Ok(ready),
            Some(found) => self.made_by_another(found),
        }
    }

    /// Whoever was faster has made all of it.
    fn made_by_another(&self, found: Known) -> Result<Known, OpenError> {
        if found.record.creating {
            let what = "two are making it for different things".to_owned();
            return Err(OpenError::Damaged { prefix: self.prefix(), what });
        }
        Ok(found)
    }

    /// Makes a transaction that compares the meta; answers what is stored if that is another.
    fn put(&self, request: &TxnRequest) -> Result<Option<Known>, OpenError> {
        let written = self.client.write(request, self.deadline(), u64::MAX);
        let answer = written.map_err(Outage::from)?.answer;
        if answer.succeeded {
            return Ok(None);
        }
        match txn::found(answer.responses.first()) {
            Some(kv) => self.read(kv).map(Some),
            None => Err(OpenError::Headless { prefix: self.prefix() }),
        }
    }
}
