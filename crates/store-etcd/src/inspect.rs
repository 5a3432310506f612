//! Looking at the cluster and at all keys when a store is opened: what a person should know of.

use snowlease_lease::Outage;

use crate::core::Core;
use crate::error::OpenError;
use crate::net::{Deadline, Kind};
use crate::proto::{AlarmRequest, MemberListRequest, RangeRequest, StatusResponse};

/// A store older than this, or as many revisions on, shows whether history is ever let go.
const DAY_MS: u64 = 86_400_000;
const MANY_REVISIONS: i64 = 100_000;

/// The size of a database that is worth a word: half of etcd's default quota.
const LARGE: i64 = 1 << 30;

/// Alarms of etcd, by their numbers.
const ALARMS: &[(i32, &str)] = &[
    (
        1,
        "etcd's database is full and takes nothing more: compact and defragment it, or raise \
         --quota-backend-bytes, then `etcdctl alarm disarm`",
    ),
    (2, "etcd's members disagree on their data: restore the cluster from a backup"),
];

impl Core {
    pub(crate) fn inspect(
        &self,
        status: Option<&StatusResponse>,
        deadline: impl Fn() -> Deadline,
    ) -> Result<(), OpenError> {
        self.check_keys(&deadline)?;
        self.inspect_members(deadline())?;
        self.inspect_compaction(deadline())?;
        if let Some(size) = status.map(|status| status.db_size).filter(|size| *size > LARGE) {
            self.alarm(format!(
                "etcd's database has {} MiB: turn auto-compaction on, and defragment it",
                size >> 20
            ));
        }
        Ok(())
    }

    /// One cell and one request for each generator id, and nothing else.
    fn check_keys(&self, deadline: &impl Fn() -> Deadline) -> Result<(), OpenError> {
        let range = self.known().record.meta.range;
        let ids = i64::try_from(range.1 - range.0 + 1).unwrap_or(i64::MAX);
        let count = |(key, range_end): (Vec<u8>, Vec<u8>)| {
            let request =
                RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
            self.client.range(&request, deadline()).map(|answer| answer.count)
        };
        let cells = count(self.keys.cells()).map_err(Outage::from)?;
        let requests = count(self.keys.requests()).map_err(Outage::from)?;
        let damaged =
            |what: String| OpenError::Damaged { prefix: self.keys.prefix().to_owned(), what };
        for (found, what) in [(cells, "cells"), (requests, "requests")] {
            if found < ids {
                return Err(damaged(format!("{} of its {ids} {what} are missing", ids - found)));
            }
        }
        let all = count(self.keys.all()).map_err(Outage::from)?;
        let moved = count(self.keys.all_moved()).map_err(Outage::from)?;
        let (first, mut end) = (self.keys.pulse(), self.keys.pulse());
        end.push(0);
        let pulse = count((first, end)).map_err(Outage::from)?;
        // Besides these there is the meta. What seems too much may have come between two counts, so
        // that all are looked at one by one.
        if cells > ids || requests > ids || all - cells - requests - moved - pulse > 1 {
            self.find_foreign(deadline)?;
        }
        Ok(())
    }

    fn find_foreign(&self, deadline: &impl Fn() -> Deadline) -> Result<(), OpenError> {
        use crate::keys::Family;

        let (first, last) = self.known().record.meta.range;
        let mut foreign = None;
        self.pages(self.keys.all(), 0, deadline, |kvs| {
            let ours = |key: &[u8]| match self.keys.family(key) {
                Some(Family::Cell(id) | Family::Request(id)) => (first..=last).contains(&id),
                family => family.is_some(),
            };
            foreign = foreign.take().or_else(|| kvs.into_iter().find(|kv| !ours(&kv.key)));
            Ok(())
        })
        .map_err(Outage::from)?;
        match foreign {
            None => Ok(()),
            Some(kv) => Err(OpenError::Foreign {
                prefix: self.keys.prefix().to_owned(),
                key: String::from_utf8_lossy(&kv.key).into_owned(),
            }),
        }
    }

    fn inspect_members(&self, deadline: Deadline) -> Result<(), OpenError> {
        let answer = match self.client.read(&MemberListRequest {}, deadline) {
            Ok(answer) => answer,
            // Newer ones tell root only, where users are checked.
            Err(trouble) if trouble.kind == Kind::Denied => return Ok(()),
            Err(trouble) => return Err(Outage::from(trouble).into()),
        };
        let voters = answer.members.iter().filter(|member| !member.is_learner).count();
        if voters == 1 {
            self.alarm(
                "etcd has one member: the store is gone if that is; run three or five".to_owned(),
            );
        } else if voters % 2 == 0 {
            self.alarm(format!(
                "etcd has {voters} members, which bear no more failures than {}: run an odd number",
                voters.saturating_sub(1)
            ));
        }
        Ok(())
    }

    /// What etcd itself raises an alarm for now.
    pub(crate) fn alarms_of_etcd(&self, deadline: Deadline) -> Result<Vec<String>, Outage> {
        let answer = match self.client.read(&AlarmRequest::default(), deadline) {
            Ok(answer) => answer,
            // Only for root, where users are checked.
            Err(trouble) if trouble.kind == Kind::Denied => return Ok(Vec::new()),
            Err(trouble) => return Err(trouble.into()),
        };
        let known = |alarm: i32| ALARMS.iter().find(|(number, _)| *number == alarm);
        let mut alarms: Vec<_> = answer
            .alarms
            .iter()
            .filter_map(|alarm| known(alarm.alarm))
            .map(|(_, what)| (*what).to_owned())
            .collect();
        // Each member raises it for itself.
        alarms.dedup();
        Ok(alarms)
    }

    /// No call tells whether etcd lets its history go, but an old revision that it still has does.
    fn inspect_compaction(&self, deadline: Deadline) -> Result<(), OpenError> {
        let request = RangeRequest { key: self.keys.meta(), ..RangeRequest::default() };
        let answer = self.client.range(&request, deadline).map_err(Outage::from)?;
        let Some((header, meta)) = answer.header.zip(answer.kvs.into_iter().next()) else {
            return Ok(());
        };
        let age_ms = (self.now)().saturating_sub(self.known().record.created_ms);
        let old = u64::try_from(age_ms).is_ok_and(|age| age > DAY_MS)
            || header.revision - meta.create_revision > MANY_REVISIONS;
        if !old {
            return Ok(());
        }
        let then = RangeRequest {
            key: self.keys.meta(),
            revision: meta.create_revision,
            count_only: true,
            ..RangeRequest::default()
        };
        match self.client.range(&then, deadline) {
            Ok(_) => {
                self.alarm(
                    "etcd keeps the whole history of its keys, until its database is full: start \
                     it with --auto-compaction-mode=periodic --auto-compaction-retention=1h"
                        .to_owned(),
                );
                Ok(())
            }
            Err(trouble) if trouble.kind == Kind::Compacted => Ok(()),
            Err(trouble) => Err(Outage::from(trouble).into()),
        }
    }
}
