//! Reading all cells, page by page, as they stood at one revision.

use snowlease_core::Tick;
use snowlease_lease::{Cell, Outage};

use crate::core::{Core, View};
use crate::keys::Family;
use crate::net::{Deadline, Kind, Trouble};
use crate::proto::{KeyValue, RangeRequest};

/// A page of cells has some two megabytes.
pub(crate) const PAGE: i64 = 10_000;

impl Core {
    /// Calls `take` with each page of a range at one revision, the newest if `revision` is 0, and
    /// answers which that was.
    pub(crate) fn pages(
        &self,
        (first, end): (Vec<u8>, Vec<u8>),
        mut revision: i64,
        deadline: impl Fn() -> Deadline,
        mut take: impl FnMut(Vec<KeyValue>) -> Result<(), Outage>,
    ) -> Result<i64, Trouble> {
        let mut from = first;
        loop {
            let request = RangeRequest {
                key: from.clone(),
                range_end: end.clone(),
                limit: PAGE,
                revision,
                ..RangeRequest::default()
            };
            let answer = self.client.range(&request, deadline())?;
            if revision == 0 {
                revision = answer.header.map_or(0, |header| header.revision);
            }
            let next = answer.kvs.last().filter(|_| answer.more).map(|last| {
                // The smallest key after the last one.
                let mut key = last.key.clone();
                key.push(0);
                key
            });
            take(answer.kvs)
                .map_err(|outage| Trouble::new(Kind::Final, outage.unknown, outage.detail))?;
            match next {
                Some(next) => from = next,
                None => return Ok(revision),
            }
        }
    }

    /// Calls `take` with each cell, by generator id, and checks that none is missing.
    pub(crate) fn each_cell(
        &self,
        revision: i64,
        deadline: impl Fn() -> Deadline,
        mut take: impl FnMut(u64, View) -> Result<(), Outage>,
    ) -> Result<(), Trouble> {
        let (first, last) = self.known().record.meta.range;
        let mut next = first;
        let missing = |id: u64| self.damaged(format!("the cell of generator id {id} is missing"));
        self.pages(self.keys.cells(), revision, deadline, |kvs| {
            for kv in &kvs {
                match self.keys.family(&kv.key) {
                    Some(Family::Cell(id)) if id == next => take(id, View::of(kv))?,
                    Some(Family::Cell(id)) if id > next && next <= last => {
                        return Err(missing(next));
                    }
                    _ => {
                        let key = String::from_utf8_lossy(&kv.key).into_owned();
                        return Err(self.damaged(format!("the key {key} is no cell of it")));
                    }
                }
                next += 1;
            }
            Ok(())
        })?;
        if next <= last {
            let outage = missing(next);
            return Err(Trouble::new(Kind::Final, outage.unknown, outage.detail));
        }
        Ok(())
    }

    /// The largest `until` of all cells at a revision that may be granted once they are free.
    pub(crate) fn largest(
        &self,
        revision: i64,
        deadline: impl Fn() -> Deadline,
    ) -> Result<Tick, Trouble> {
        let mut largest = Tick(0);
        self.each_cell(revision, deadline, |_, view| {
            let cell = Cell::decode(&view.bytes)?;
            if !cell.draining {
                largest = largest.max(cell.until);
            }
            Ok(())
        })?;
        Ok(largest)
    }
}
