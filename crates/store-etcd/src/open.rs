//! Opening: everything is checked before anything is granted.

use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::range::{check_range, default_range};
use snowlease_lease::{Meta, Outage, Realm, RollbackGuard, Terms, os};

use crate::address::Address;
use crate::core::Core;
use crate::create::Making;
use crate::error::OpenError;
use crate::keys::Keys;
use crate::net::{Client, Deadline, Kind};
use crate::proto::StatusRequest;
use crate::record::{Known, Record};
use crate::{Clock, EtcdStore};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Open {
    /// The format it has to have, and is made with; `None` takes what is stored, or the default.
    pub format: Option<Format>,
    /// The generator ids it has to have, first and last, and is made with; `None` takes what is
    /// stored, or all of the layout up to [`DEFAULT_IDS`](snowlease_lease::range::DEFAULT_IDS).
    pub range: Option<(u64, u64)>,
    /// Make the store if there is none, and finish one that was not finished.
    pub create: bool,
    /// The region that a store is made for, for people.
    pub region: String,
    /// The realm that a store is made for.
    pub realm: Realm,
    /// How long a call may take, whatever the network does; opening may take three times as long.
    pub attempt: Duration,
    /// The terms that all who lease from the store use.
    pub terms: Terms,
    /// What to do about a store that nobody has used for long.
    pub rollback_guard: RollbackGuard,
    /// Look at the cluster, its version and all keys, and raise alarms. A fleet of holders that
    /// start at once may leave that to others.
    pub inspect: bool,
    /// The host's wall clock.
    pub now: Clock,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The store was made, or finished, just now.
    pub created: bool,
    /// What a person should know of; also in the store's status.
    pub alarms: Vec<String>,
}

impl Default for Open {
    /// Opens an existing store whatever it is for, by the host's clock.
    fn default() -> Open {
        Open {
            format: None,
            range: None,
            create: false,
            region: String::new(),
            realm: Realm::default(),
            attempt: Terms::DEFAULT.attempt(),
            terms: Terms::DEFAULT,
            rollback_guard: RollbackGuard::Enforce,
            inspect: true,
            now: Clock::new(os::wall_ms),
        }
    }
}

impl EtcdStore {
    /// Opens the store at an address, and makes it if asked to.
    ///
    /// # Promise
    ///
    /// Whatever the cluster shows that it is an older copy of itself, it is in quarantine before
    /// anything is granted. While that is not certain, asks for leases are refused.
    ///
    /// # Errors
    ///
    /// [`OpenError`] says for each what to do. Nothing was changed, but for a store that was not
    /// made to its end: that is finished by opening it again.
    ///
    /// # Cost
    ///
    /// Three round trips, and seven more to [inspect](Open::inspect) it. Making a store takes two
    /// more and one for each hundred generator ids.
    pub fn open(address: &Address, open: &Open) -> Result<(EtcdStore, Opened), OpenError> {
        if let (Some(format), Some(range)) = (open.format, open.range) {
            check_range(format, range)?;
        }
        let client = Client::new(address)?;
        // Who opens has no lease to lose by waiting.
        let deadline = || Deadline::within(open.attempt * 3);
        let status = match client.read(&StatusRequest {}, deadline()) {
            Ok(status) => Some(status),
            // Some versions tell root only, where users are checked.
            Err(trouble) if trouble.kind == Kind::Denied => None,
            Err(trouble) => return Err(Outage::from(trouble).into()),
        };
        let newer = match &status {
            Some(status) => version(&status.version)?,
            None => None,
        };
        let keys = Keys::under(address.prefix());
        let making = Making { client: &client, keys: &keys, attempt: open.attempt * 3 };
        let found = making.find()?;
        let cluster_id = client.newest().cluster_id;
        let (known, created) = match found {
            Some(known) if !known.record.creating => (known, false),
            Some(known) if open.create => {
                fits(&keys, &known, open)?;
                (making.finish(known)?, true)
            }
            Some(_) => return Err(OpenError::Unfinished { prefix: keys.prefix().to_owned() }),
            None if open.create => (making.make(new_record(open, cluster_id)?)?, true),
            None => return Err(OpenError::Missing { prefix: keys.prefix().to_owned() }),
        };
        fits(&keys, &known, open)?;
        let lineage = known.record.cluster_id;
        let core = Core::new(
            client,
            keys,
            known,
            (open.attempt, open.now.clone()),
            (open.rollback_guard, open.terms),
        );
        if let Some(version) = newer {
            core.alarm(format!(
                "etcd {version} is newer than any that this program was tested with (3.4 to 3.7)"
            ));
        }
        if lineage != cluster_id {
            core.distrust(&format!(
                "the cluster ({cluster_id:016x}) is not the one that the store was used in last \
                 ({lineage:016x}), so it was restored from a backup"
            ));
        }
        let connections = core.client.connected(deadline()).map_err(Outage::from)?;
        // Before a floor is set, so that no clock behind those who used the store sets it.
        let pulse = core.read_pulse(core.lead(status.as_ref()), deadline())?;
        core.settle().map_err(Outage::from)?;
        if open.inspect {
            core.inspect(status.as_ref(), deadline)?;
        }
        // What is to be said of a silent pulse is told here once, and refuses asks for leases
        // later.
        let silence = core.judge(connections, pulse).err();
        let mut alarms = core.alarms();
        alarms.extend(silence.map(|error| error.to_string()));
        if open.inspect {
            alarms.extend(core.alarms_of_etcd(deadline())?);
        }
        let opened = Opened { created, alarms };
        Ok((EtcdStore::new(core), opened))
    }
}

fn new_record(open: &Open, cluster_id: u64) -> Result<Record, OpenError> {
    let format = open.format.unwrap_or(Format::DEFAULT);
    let range = open.range.unwrap_or_else(|| default_range(format));
    check_range(format, range)?;
    let meta =
        Meta { region: open.region.clone(), realm: open.realm.clone(), ..Meta::new(format, range) };
    Ok(Record { meta, creating: true, cluster_id, created_ms: (open.now)() })
}

/// Whether what is stored is what is asked for.
fn fits(keys: &Keys, known: &Known, open: &Open) -> Result<(), OpenError> {
    let (prefix, meta) = (keys.prefix().to_owned(), &known.record.meta);
    if let Some(given) = open.format.filter(|given| *given != meta.format) {
        return Err(OpenError::Format { prefix, stored: meta.format, given });
    }
    if let Some(given) = open.range.filter(|given| *given != meta.range) {
        return Err(OpenError::Range { prefix, stored: meta.range, given });
    }
    Ok(())
}

/// Refuses what is too old; answers the version if it is newer than all that were tried.
fn version(text: &str) -> Result<Option<String>, OpenError> {
    let mut parts = text.split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (3, 4) => {
            Err(OpenError::Version { version: text.to_owned() })
        }
        (Some(Ok(3)), Some(Ok(4..=7))) => Ok(None),
        _ => Ok(Some(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_too_old_known_or_newer() {
        for old in ["3.3.27", "2.3.8", "3.0.0"] {
            assert!(version(old).is_err(), "{old}");
        }
        for known in ["3.4.0", "3.4.45", "3.5.0-rc.1", "3.6.15", "3.7.2"] {
            assert_eq!(version(known), Ok(None), "{known}");
        }
        for newer in ["3.8.0", "4.0.0", "unknown", ""] {
            assert_eq!(version(newer), Ok(Some(newer.to_owned())), "{newer}");
        }
    }
}
