//! All scenarios, by name: a store and how it is put back, and who is running then.

use anyhow::Result;

use crate::etcd::{self, Etcd};
use crate::fleet::{Fleet, Guard};
use crate::postgres::{self, Postgres};
use crate::report::Row;
use crate::rollback::{self, Holders};
use crate::sqlite;

/// A store and how it is put back.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Etcd(etcd::Kind),
    Postgres(postgres::Kind),
    Sqlite(sqlite::Kind),
}

/// What a run may change, to show that it can fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) guard: Guard,
    /// Whether the operator tells a store in a file that it was put back, where only he can.
    pub(crate) told: bool,
}

#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    kind: Kind,
    holders: Holders,
}

const fn etcd(version: &'static str, new_token: bool) -> Kind {
    Kind::Etcd(etcd::Kind { version, new_token })
}

const KINDS: &[(&str, Kind)] = &[
    ("etcd-3.4-same-token", etcd("3.4", false)),
    ("etcd-3.7-same-token", etcd("3.7", false)),
    ("etcd-3.4-new-token", etcd("3.4", true)),
    ("etcd-3.7-new-token", etcd("3.7", true)),
    ("postgres-promoted", Kind::Postgres(postgres::Kind::Promoted)),
    ("postgres-point-in-time", Kind::Postgres(postgres::Kind::PointInTime)),
    ("postgres-file-copy", Kind::Postgres(postgres::Kind::FileCopy)),
    ("sqlite-witness-kept", Kind::Sqlite(sqlite::Kind::WitnessKept)),
    ("sqlite-witness-too", Kind::Sqlite(sqlite::Kind::WitnessToo)),
    ("sqlite-volume", Kind::Sqlite(sqlite::Kind::Volume)),
];

/// Every one, with each sort of holders.
pub(crate) fn all() -> Vec<Scenario> {
    let each = KINDS.iter().flat_map(|(name, kind)| {
        // What is told to a file, and when, is said by how it is put back.
        let holders = Holders::ALL
            .into_iter()
            .filter(|holders| *holders != Holders::Told || !matches!(kind, Kind::Sqlite(_)));
        holders.map(move |holders| {
            let name = format!("{name}-{}", holders.word());
            Scenario { name, kind: *kind, holders }
        })
    });
    each.collect()
}

impl Scenario {
    pub(crate) fn run(&self, fleet: &mut Fleet<'_>, how: How) -> Result<Row> {
        let (tools, folder) = (fleet.tools, fleet.folder);
        match self.kind {
            Kind::Etcd(kind) => {
                rollback::run(fleet, &mut Etcd::start(tools, folder, kind)?, self.holders, how.told)
            }
            Kind::Postgres(kind) => {
                rollback::run(fleet, &mut Postgres::start(folder, kind)?, self.holders, how.told)
            }
            Kind::Sqlite(kind) => sqlite::run(fleet, kind, self.holders, how.told),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let names: std::collections::BTreeSet<String> =
            all().into_iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), 7 * 4 + 3 * 3);
    }
}
