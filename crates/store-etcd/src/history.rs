//! Verifying: every cell as it stands, and every step of it that etcd still keeps.
//!
//! etcd keeps old versions of a key until they are compacted, so the history of a cell is read
//! backwards, from the revision before each change.

use snowlease_lease::verify::{self, History};
use snowlease_lease::{Finding, Outage, Verified};

use crate::core::{Core, View};
use crate::keys::Family;
use crate::net::Kind;
use crate::proto::{KeyValue, RangeRequest};

impl Core {
    /// Holds one page of cells at a time, and of one cell the tokens it had.
    pub(crate) fn verify(&self) -> Result<Verified, Outage> {
        let deadline = || self.deadline();
        let known = self.refresh(deadline())?;
        let (first, last) = known.record.meta.range;
        let mut verified = Verified::default();
        let mut next = first;
        let mut cut = 0_u64;
        let missing = |verified: &mut Verified, ids: std::ops::Range<u64>| {
            let finding = |id| Finding::of_cell(id, "its cell is missing");
            verified.findings.extend(ids.map(finding));
        };
        self.pages(self.keys.cells(), 0, deadline, |kvs| {
            for kv in &kvs {
                let Some(Family::Cell(id)) = self.keys.family(&kv.key) else {
                    verified.findings.push(foreign(&kv.key));
                    continue;
                };
                if !(first..=last).contains(&id) {
                    verified.findings.push(foreign(&kv.key));
                    continue;
                }
                missing(&mut verified, next..id);
                next = id + 1;
                verified.cells += 1;
                cut += u64::from(self.verify_cell(id, kv, &mut verified)?);
            }
            Ok(())
        })?;
        missing(&mut verified, next..last + 1);
        self.pages(self.keys.all(), 0, deadline, |kvs| {
            let others = kvs.iter().filter(|kv| self.keys.family(&kv.key).is_none());
            verified.findings.extend(others.map(|kv| foreign(&kv.key)));
            Ok(())
        })?;
        verified.history = if cut == 0 {
            "etcd keeps the whole history".to_owned()
        } else {
            format!(
                "etcd has compacted the older history of {cut} of {} cells; looked at all that is \
                 kept",
                verified.cells
            )
        };
        Ok(verified)
    }

    /// One cell and its history; whether some of that is not kept any more.
    fn verify_cell(
        &self,
        generator_id: u64,
        newest: &KeyValue,
        verified: &mut Verified,
    ) -> Result<bool, Outage> {
        let meta = &self.known().record.meta;
        let cell = match View::of(newest).cell() {
            Ok(cell) => cell,
            Err(outage) => {
                verified.findings.push(Finding::of_cell(generator_id, outage.detail));
                return Ok(false);
            }
        };
        let wrong = verify::cell(meta, &cell);
        let finding = |what| Finding::of_cell(generator_id, what);
        verified.findings.extend(wrong.into_iter().map(finding));
        let mut history = History::of(cell);
        let mut revision = newest.mod_revision - 1;
        let mut version = newest.version;
        while version > 1 {
            let request =
                RangeRequest { key: newest.key.clone(), revision, ..RangeRequest::default() };
            let older = match self.client.range(&request, self.deadline()) {
                Ok(answer) => answer.kvs.into_iter().next(),
                Err(trouble) if trouble.kind == Kind::Compacted => return Ok(true),
                Err(trouble) => return Err(trouble.into()),
            };
            let Some(older) = older else {
                let what = "its key was deleted and made anew (I1)";
                verified.findings.push(Finding::of_cell(generator_id, what));
                return Ok(false);
            };
            verified.steps += 1;
            match View::of(&older).cell() {
                Ok(cell) => {
                    let wrong = history.before(cell);
                    verified.findings.extend(wrong.into_iter().map(finding));
                }
                Err(outage) => verified.findings.push(finding(outage.detail)),
            }
            (revision, version) = (older.mod_revision - 1, older.version);
        }
        if newest.version == 1 && newest.create_revision != newest.mod_revision {
            verified.findings.push(finding("etcd contradicts itself".to_owned()));
        }
        Ok(false)
    }
}

fn foreign(key: &[u8]) -> Finding {
    let key = String::from_utf8_lossy(key);
    Finding::of_store(format!(
        "the key {key} is not of this store: remove it, or use another prefix"
    ))
}
