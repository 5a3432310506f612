//! What a store is for, as it is kept in one key: every transaction compares all of it.

use serde::{Deserialize, Serialize};
use snowlease_core::{Format, Tick};
use snowlease_lease::range::check_range;
use snowlease_lease::{Meta, Mode, PlanHash, Realm};

/// The newest schema that this program knows.
pub(crate) const SCHEMA: u64 = 1;

/// What is kept in the key `meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) meta: Meta,
    /// Its cells are being made: nothing is granted yet.
    pub(crate) creating: bool,
    /// The cluster it was used in last.
    pub(crate) cluster_id: u64,
    /// When it was made, in Unix ms on the clock of who made it.
    pub(crate) created_ms: i64,
}

/// A record with the very bytes that it was read from.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) record: Record,
    pub(crate) bytes: Vec<u8>,
}

/// When a lease was last granted or renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pulse {
    /// Unix ms, on the clock of who granted.
    pub(crate) ms: i64,
    /// The largest term of the cluster's raft that the granter had seen.
    pub(crate) term: u64,
    /// How many entries more than revisions the cluster had; see [`Core::lead`].
    ///
    /// [`Core::lead`]: crate::core::Core::lead
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lead: Option<i64>,
}

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRecord {
    Newer(u64),
    Damaged(String),
}

/// The one part that is read of every schema.
#[derive(Deserialize)]
struct Schema {
    schema: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: u64,
    state: State,
    layout: String,
    tick_ms: u32,
    epoch_ms: i64,
    first: u64,
    last: u64,
    frozen: bool,
    floor: u64,
    longest_window: u64,
    region: String,
    environment: String,
    plan: Option<String>,
    previous_plan: Option<String>,
    cluster: String,
    created_ms: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Creating,
    Ready,
}

impl Record {
    pub(crate) fn known(self) -> Known {
        let bytes = self.encode();
        Known { record: self, bytes }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let meta = &self.meta;
        let stored = Stored {
            schema: SCHEMA,
            state: if self.creating { State::Creating } else { State::Ready },
            layout: meta.format.layout().to_string(),
            tick_ms: meta.format.tick_ms(),
            epoch_ms: meta.format.epoch_ms(),
            first: meta.range.0,
            last: meta.range.1,
            frozen: meta.mode == Mode::Frozen,
            floor: meta.floor.0,
            longest_window: meta.longest_window,
            region: meta.region.clone(),
            environment: meta.realm.environment().to_owned(),
            plan: meta.realm.plan().map(PlanHash::to_text),
            previous_plan: meta.previous_plan.map(PlanHash::to_text),
            cluster: format!("{:016x}", self.cluster_id),
            created_ms: self.created_ms,
        };
        // Numbers, texts and nothing else: this cannot fail, and no bytes would be refused later.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record, NoRecord> {
        let damaged = |what: String| NoRecord::Damaged(format!("its meta: {what}"));
        let Schema { schema } =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if schema > SCHEMA {
            return Err(NoRecord::Newer(schema));
        }
        let stored: Stored =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        let layout = stored.layout.parse().map_err(|_| damaged("no layout".to_owned()))?;
        let format = Format::new(layout, stored.tick_ms, stored.epoch_ms)
            .map_err(|error| damaged(error.to_string()))?;
        let range = (stored.first, stored.last);
        check_range(format, range).map_err(|error| damaged(error.to_string()))?;
        let plan = |text: Option<String>| match text {
            None => Ok(None),
            Some(text) => PlanHash::from_text(&text)
                .map(Some)
                .ok_or_else(|| damaged("no hash of a plan".to_owned())),
        };
        let meta = Meta {
            mode: if stored.frozen { Mode::Frozen } else { Mode::Open },
            floor: Tick(stored.floor),
            longest_window: stored.longest_window,
            region: stored.region,
            realm: Realm::new(stored.environment, plan(stored.plan)?)
                .map_err(|error| damaged(error.to_string()))?,
            previous_plan: plan(stored.previous_plan)?,
            ..Meta::new(format, range)
        };
        Ok(Record {
            meta,
            creating: stored.state == State::Creating,
            cluster_id: u64::from_str_radix(&stored.cluster, 16)
                .map_err(|_| damaged("no cluster id".to_owned()))?,
            created_ms: stored.created_ms,
        })
    }
}

impl Pulse {
    pub(crate) fn encode(self) -> Vec<u8> {
        serde_json::to_vec(&self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Pulse> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let meta = Meta {
            mode: Mode::Frozen,
            floor: Tick(5),
            longest_window: 60_000,
            region: "eu \"north\"".to_owned(),
            realm: Realm::new("production", Some(PlanHash::of("a"))).unwrap(),
            previous_plan: Some(PlanHash::of("b")),
            ..Meta::new(Format::DEFAULT, (5, 9))
        };
        Record { meta, creating: true, cluster_id: u64::MAX, created_ms: -7 }
    }

    #[test]
    fn a_record_survives_its_bytes() {
        let record = record();
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        assert_eq!(record.encode(), record.clone().known().bytes);
        let pulse = Pulse { ms: -1, term: 7, lead: Some(-3) };
        assert_eq!(Pulse::decode(&pulse.encode()), Some(pulse));
    }

    #[test]
    fn what_is_no_record_is_not_taken_for_one() {
        let text = String::from_utf8(record().encode()).unwrap();
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from), "{text}");
            Record::decode(text.replace(from, to).as_bytes())
        };
        assert_eq!(changed("\"schema\":1", "\"schema\":2,\"new\":1"), Err(NoRecord::Newer(2)));
        for (from, to) in [
            ("\"schema\":1", "\"schema\":1,\"new\":1"),
            ("\"state\":\"creating\"", "\"state\":\"x\""),
            ("\"last\":9", "\"last\":4"),
            ("\"last\":9", "\"last\":9999"),
            ("\"tick_ms\":1", "\"tick_ms\":0"),
            ("\"floor\":5", "\"floor\":-5"),
            ("production", "a b"),
            ("ffffffffffffffff", "g"),
            ("{", "["),
        ] {
            assert!(matches!(changed(from, to), Err(NoRecord::Damaged(_))), "{from} {to}");
        }
        assert!(Record::decode(b"").is_err());
        assert!(Pulse::decode(b"{}").is_none());
    }
}
