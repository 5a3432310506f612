//! The plan: which generator ids are whose, in one place for a whole environment.
//!
//! Stores of different regions know nothing of each other. That they never grant the same generator
//! id follows from one plan, whose ranges are disjoint, and from its hash, which every store keeps
//! and every holder that was started with a plan states inside each ask.

use std::fmt;

use snowlease_core::Format;

use crate::range::{RangeError, check_range};
use crate::realm::{PlanHash, Realm, RealmError};

/// The generator ids of all regions of one environment.
///
/// # Promise
///
/// Its ranges are disjoint and fit the one format (I5), checked where it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    environment: String,
    format: Format,
    ranges: Vec<PlannedRange>,
}

/// The generator ids of one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRange {
    /// What it is called in the plan: at most 64 ASCII letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The first and the last generator id.
    pub ids: (u64, u64),
}

impl Plan {
    /// A plan of these ranges, in any order.
    ///
    /// # Errors
    ///
    /// [`PlanError`] names the range and says what is wrong with it.
    pub fn new(
        environment: impl Into<String>,
        format: Format,
        mut ranges: Vec<PlannedRange>,
    ) -> Result<Plan, PlanError> {
        let environment = environment.into();
        Realm::new(environment.as_str(), None)?;
        if ranges.is_empty() {
            return Err(PlanError::Empty);
        }
        for range in &ranges {
            if range.name.is_empty() || Realm::new(range.name.as_str(), None).is_err() {
                return Err(PlanError::Name { name: range.name.clone() });
            }
            check_range(format, range.ids)
                .map_err(|error| PlanError::Range { name: range.name.clone(), error })?;
        }
        ranges.sort_by_key(|range| range.ids);
        for pair in ranges.windows(2) {
            if pair[1].ids.0 <= pair[0].ids.1 {
                let [first, second] = [&pair[0], &pair[1]].map(Clone::clone);
                return Err(PlanError::Overlap { first, second });
            }
        }
        for (place, range) in ranges.iter().enumerate() {
            if ranges[..place].iter().any(|other| other.name == range.name) {
                return Err(PlanError::Twice { name: range.name.clone() });
            }
        }
        Ok(Plan { environment, format, ranges })
    }

    /// The environment it is for; empty if none was named.
    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// The one format of all its stores.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its ranges, by generator id.
    pub fn ranges(&self) -> &[PlannedRange] {
        &self.ranges
    }

    /// The range of this name.
    pub fn range(&self, name: &str) -> Option<&PlannedRange> {
        self.ranges.iter().find(|range| range.name == name)
    }

    /// Where its stores and holders belong.
    pub fn realm(&self) -> Realm {
        // The name was checked where the plan was made.
        let realm = Realm::new(self.environment.as_str(), None).unwrap_or_default();
        realm.with_plan(Some(self.hash()))
    }

    /// Tells this version of the plan from every other: the same for the same environment, format
    /// and ranges, in whatever order and with whatever comments they are written.
    pub fn hash(&self) -> PlanHash {
        PlanHash::of(&self.to_string())
    }

    /// A generator id that both plans grant, as the two ranges that do; `None` if there is none. A
    /// range that both have alike is one and the same store's, in two versions of a plan.
    pub fn overlap<'a>(&'a self, other: &'a Plan) -> Option<(&'a PlannedRange, &'a PlannedRange)> {
        let pairs = self
            .ranges
            .iter()
            .flat_map(|mine| other.ranges.iter().map(move |theirs| (mine, theirs)));
        pairs
            .into_iter()
            .filter(|(mine, theirs)| mine != theirs)
            .find(|(mine, theirs)| mine.ids.0 <= theirs.ids.1 && theirs.ids.0 <= mine.ids.1)
    }
}

/// The canonical text, of which the hash is made.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "environment {}", self.environment)?;
        writeln!(f, "format {}", self.format)?;
        for range in &self.ranges {
            writeln!(f, "range {} {}-{}", range.name, range.ids.0, range.ids.1)?;
        }
        Ok(())
    }
}

/// Why these ranges are no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It has no range. Add one.
    #[error("the plan has no range: add one for each store")]
    Empty,
    /// The environment cannot be called so.
    #[error(transparent)]
    Environment(#[from] RealmError),
    /// A range cannot be called so. Rename it.
    #[error(
        "a range cannot be called {name:?}: use at most 64 ASCII letters, digits, `-`, `_` and `.`"
    )]
    Name {
        /// The name given.
        name: String,
    },
    /// Two ranges have one name. Rename one.
    #[error("two ranges are called {name}: rename one")]
    Twice {
        /// The name.
        name: String,
    },
    /// A range does not fit the format or one store.
    #[error("range {name}: {error}")]
    Range {
        /// Its name.
        name: String,
        /// What is wrong with it.
        error: RangeError,
    },
    /// Two ranges have generator ids in common. Move one.
    #[error(
        "the ranges {} ({}-{}) and {} ({}-{}) have generator ids in common, and would issue the \
         same ids: move one of them",
        first.name, first.ids.0, first.ids.1, second.name, second.ids.0, second.ids.1
    )]
    Overlap {
        /// The one that begins first.
        first: PlannedRange,
        /// The other.
        second: PlannedRange,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, first: u64, last: u64) -> PlannedRange {
        PlannedRange { name: name.to_owned(), ids: (first, last) }
    }

    fn plan(ranges: Vec<PlannedRange>) -> Result<Plan, PlanError> {
        Plan::new("production", Format::DEFAULT, ranges)
    }

    #[test]
    fn ranges_that_touch_are_fine_and_ranges_that_share_one_id_are_not() {
        let fine = plan(vec![range("us", 512, 1023), range("eu", 0, 511)]).unwrap();
        assert_eq!(fine.ranges()[0].name, "eu");
        assert_eq!(fine.range("us").unwrap().ids, (512, 1023));
        assert_eq!(fine.range("asia"), None);
        let overlap = plan(vec![range("us", 511, 1023), range("eu", 0, 511)]);
        assert!(matches!(overlap, Err(PlanError::Overlap { .. })), "{overlap:?}");
        // One inside another, with a third between them in the order of their ends.
        let inside = plan(vec![range("a", 0, 900), range("b", 10, 20), range("c", 30, 40)]);
        assert!(matches!(inside, Err(PlanError::Overlap { .. })), "{inside:?}");
    }

    #[test]
    fn what_is_no_plan_is_named() {
        assert_eq!(plan(vec![]), Err(PlanError::Empty));
        assert!(matches!(plan(vec![range("", 0, 1)]), Err(PlanError::Name { .. })));
        assert!(matches!(plan(vec![range("a b", 0, 1)]), Err(PlanError::Name { .. })));
        assert!(matches!(plan(vec![range("a", 5, 4)]), Err(PlanError::Range { .. })));
        assert!(matches!(plan(vec![range("a", 0, 1024)]), Err(PlanError::Range { .. })));
        let twice = plan(vec![range("a", 0, 1), range("a", 2, 3)]);
        assert!(matches!(twice, Err(PlanError::Twice { .. })));
        assert!(Plan::new("a b", Format::DEFAULT, vec![range("a", 0, 1)]).is_err());
    }

    #[test]
    fn the_hash_is_of_what_matters_and_not_of_how_it_is_written() {
        let one = plan(vec![range("us", 512, 1023), range("eu", 0, 511)]).unwrap();
        let same = plan(vec![range("eu", 0, 511), range("us", 512, 1023)]).unwrap();
        assert_eq!(one.hash(), same.hash());
        assert_eq!(one.realm().plan(), Some(one.hash()));
        let other_format = Format::new(Format::DEFAULT.layout(), 1, 0).unwrap();
        for other in [
            plan(vec![range("us", 512, 1022), range("eu", 0, 511)]).unwrap(),
            plan(vec![range("us", 512, 1023), range("de", 0, 511)]).unwrap(),
            plan(vec![range("us", 512, 1023)]).unwrap(),
            Plan::new("staging", Format::DEFAULT, one.ranges().to_vec()).unwrap(),
            Plan::new("production", other_format, one.ranges().to_vec()).unwrap(),
        ] {
            assert_ne!(one.hash(), other.hash(), "{other}");
        }
        // Kept by stores: it must not change from one version of this program to the next.
        assert_eq!(one.hash().to_string(), "8308106adb8f");
    }

    #[test]
    fn plans_of_two_files_are_compared_range_by_range() {
        let one = plan(vec![range("eu", 0, 511)]).unwrap();
        let apart = plan(vec![range("us", 512, 1023)]).unwrap();
        assert_eq!(one.overlap(&apart), None);
        let shared = plan(vec![range("us", 511, 1023)]).unwrap();
        // The next version of a plan has another range beside those that stay.
        let grown = plan(vec![range("eu", 0, 511), range("us", 512, 1023)]).unwrap();
        assert_eq!(one.overlap(&grown), None);
        let handed_on = plan(vec![range("de", 0, 511)]).unwrap();
        assert!(one.overlap(&handed_on).is_some());
        let (mine, theirs) = one.overlap(&shared).unwrap();
        assert_eq!((mine.name.as_str(), theirs.name.as_str()), ("eu", "us"));
    }
}
