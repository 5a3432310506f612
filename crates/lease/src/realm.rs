//! The realm: to which environment and plan a store, and whoever leases from it, belongs.
//!
//! A holder states its realm inside every ask, and a store grants only within its own. So a staging
//! box that is pointed at the production store is refused with the reason, and so is a region whose
//! plan of ranges is not the one that the store was made under.

use std::fmt;

use sha2::{Digest, Sha256};

/// Where a store or a holder belongs. What is not stated is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Realm {
    environment: String,
    plan: Option<PlanHash>,
}

/// Tells one version of a plan from every other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlanHash([u8; 32]);

impl Realm {
    /// The longest name of an environment, in bytes.
    pub const MAX_BYTES: usize = 64;

    /// A realm; an empty environment is one that is not stated.
    ///
    /// # Errors
    ///
    /// [`RealmError`]: give a name of at most 64 ASCII letters, digits, `-`, `_` and `.`.
    pub fn new(
        environment: impl Into<String>,
        plan: Option<PlanHash>,
    ) -> Result<Realm, RealmError> {
        let environment = environment.into();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if environment.len() > Realm::MAX_BYTES || !environment.chars().all(plain) {
            return Err(RealmError);
        }
        Ok(Realm { environment, plan })
    }

    /// The environment, such as `production`; empty if none is stated.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// The plan, if one is stated.
    pub fn plan(&self) -> Option<PlanHash> {
        self.plan
    }

    /// The same environment under another version of the plan.
    #[must_use]
    pub fn with_plan(self, plan: Option<PlanHash>) -> Realm {
        Realm { plan, ..self }
    }

    /// Why a holder that states `asked` does not belong to a store of this realm, under whose
    /// `previous` plan holders may still be started; `None` if it does.
    pub fn mismatch(&self, previous: Option<PlanHash>, asked: &Realm) -> Option<RealmMismatch> {
        if !asked.environment.is_empty() && asked.environment != self.environment {
            return Some(RealmMismatch::Environment {
                store: self.environment.clone(),
                asked: asked.environment.clone(),
            });
        }
        let plan = asked.plan?;
        let known = self.plan == Some(plan) || previous == Some(plan);
        (!known).then_some(RealmMismatch::Plan { store: self.plan, asked: plan })
    }
}

/// Why a holder does not belong to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealmMismatch {
    /// It is of another environment. Point it at its own store.
    Environment {
        /// The store's; empty if it has none.
        store: String,
        /// The holder's.
        asked: String,
    },
    /// It was started with another plan. Give it the store's, or tell the store of the new one.
    Plan {
        /// The store's, if it was made under one.
        store: Option<PlanHash>,
        /// The holder's.
        asked: PlanHash,
    },
}

impl fmt::Display for RealmMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RealmMismatch::Environment { store, asked } if store.is_empty() => write!(
                f,
                "this store is of no environment, and {asked} was asked for: use the store of \
                 {asked}, or ask without an environment"
            ),
            RealmMismatch::Environment { store, asked } => write!(
                f,
                "this store is of the environment {store}, not {asked}: use the store of {asked}"
            ),
            RealmMismatch::Plan { store: Some(store), asked } => write!(
                f,
                "this store is of the plan {store}, not {asked}: start with the plan file of the \
                 store, or give it the new one by `snowlease store adopt`"
            ),
            RealmMismatch::Plan { store: None, asked } => write!(
                f,
                "this store was made without a plan, and {asked} was asked for: give it the plan \
                 by `snowlease store adopt`"
            ),
        }
    }
}

impl PlanHash {
    /// The hash of the canonical text of a plan.
    pub fn of(text: &str) -> PlanHash {
        let mut hash = Sha256::new();
        hash.update(b"snowlease plan\n");
        hash.update(text.as_bytes());
        PlanHash(hash.finalize().into())
    }

    /// Reads 64 lower-case hex digits. `None` for anything else.
    pub fn from_text(text: &str) -> Option<PlanHash> {
        crate::token::from_hex(text).map(PlanHash)
    }

    /// 64 hex digits.
    pub fn to_text(self) -> String {
        crate::token::to_hex(&self.0)
    }
}

/// The first twelve hex digits: enough for people to tell two plans apart.
impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text()[..12])
    }
}

impl fmt::Debug for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanHash({self})")
    }
}

/// A text that is no name of an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an environment is at most 64 ASCII letters, digits, `-`, `_` and `.`: choose another name"
)]
pub struct RealmError;

#[cfg(test)]
mod tests {
    use super::*;

    fn realm(environment: &str, plan: Option<&str>) -> Realm {
        Realm::new(environment, plan.map(PlanHash::of)).unwrap()
    }

    #[test]
    fn what_is_stated_has_to_be_the_stores() {
        let store = realm("production", Some("a"));
        let old = Some(PlanHash::of("old"));
        for fine in [
            realm("", None),
            realm("production", None),
            realm("", Some("a")),
            realm("production", Some("a")),
            realm("", Some("old")),
        ] {
            assert_eq!(store.mismatch(old, &fine), None, "{fine:?}");
        }
        for wrong in [
            realm("staging", None),
            realm("Production", None),
            realm("staging", Some("a")),
            realm("production", Some("b")),
        ] {
            assert!(store.mismatch(old, &wrong).is_some(), "{wrong:?}");
        }
        assert!(store.mismatch(None, &realm("", Some("old"))).is_some());
    }

    #[test]
    fn a_store_of_no_realm_admits_only_those_who_state_none() {
        let store = Realm::default();
        assert_eq!(store.mismatch(None, &Realm::default()), None);
        assert!(store.mismatch(None, &realm("staging", None)).is_some());
        assert!(store.mismatch(None, &realm("", Some("a"))).is_some());
    }

    #[test]
    fn names_are_plain_and_hashes_round_trip() {
        for wrong in ["a b", "a/b", "prod\n", "ä", &"x".repeat(65)] {
            assert_eq!(Realm::new(wrong, None), Err(RealmError), "{wrong:?}");
        }
        let hash = PlanHash::of("any");
        assert_eq!(PlanHash::from_text(&hash.to_text()), Some(hash));
        assert_eq!(PlanHash::from_text(&hash.to_text().to_uppercase()), None);
        assert_ne!(PlanHash::of("any"), PlanHash::of("any "));
    }
}
