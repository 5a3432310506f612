//! The conformance suite: what a store promises, as checks that run on any store.
//!
//! A store's tests implement [`Setup`] and write `conformance!(TheirSetup);` in a module of its
//! own: it becomes one `#[test]` for each check, so that a failure has the name of the promise. A
//! second module with [`UnderFaults`] around the setup runs the same checks while calls are lost,
//! late and repeated.
//!
//! Time is a number here. Each check chooses the ticks it asks with, and sets the store's clock by
//! [`Made::set_now`] if the store has one; nothing ever waits.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a check fails as a test does: by panicking"
)]

mod administering;
mod bench;
mod crowds;
mod granting;
mod histories;
mod releasing;
mod renewing;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use snowlease_core::Format;

pub use self::administering::*;
pub use self::crowds::*;
pub use self::granting::*;
pub use self::histories::*;
pub use self::releasing::*;
pub use self::renewing::*;
use super::{FaultyStore, InsistentStore, Rates};
use crate::{Administer, LeaseStore};

/// Makes stores to be checked.
pub trait Setup {
    /// A new, empty, open store of this format and range, independent of all made before.
    fn make(&self, format: Format, range: (u64, u64)) -> Made;

    /// Whether the id that has been free longest is always taken first. A store that tries a few
    /// drawn ones says `false`.
    fn longest_free_first(&self) -> bool {
        true
    }

    /// How many random histories to run; fewer for a store whose calls take long.
    fn histories(&self) -> u64 {
        300
    }
}

/// A store to be checked.
pub struct Made {
    /// The store, as holders see it.
    pub store: Arc<dyn LeaseStore>,
    /// The operator's side of the same store; of a remote store, that of the store behind it.
    pub admin: Arc<dyn Administer>,
    /// Sets the store's clock to this Unix ms, before every ask; for a store that has no clock,
    /// and so judges by the ticks of the ask alone, it does nothing.
    pub set_now: Box<dyn Fn(i64) + Send + Sync>,
    /// Whatever has to live as long as the store: a folder, a process.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Made {
    /// A store without a clock of its own that needs nothing beside it.
    pub fn new<S: Administer + 'static>(store: S) -> Made {
        let store = Arc::new(store);
        let admin = Arc::clone(&store);
        Made { store, admin, set_now: Box::new(|_| {}), keep: Box::new(()) }
    }

    /// Keeps a value for as long as the store is used.
    #[must_use]
    pub fn keeping(self, keep: impl Any + Send + Sync) -> Made {
        Made { keep: Box::new((self.keep, keep)), ..self }
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The same stores behind a bad network, asked by a caller that insists. All checks hold there as
/// well.
#[derive(Clone, Copy, Debug)]
pub struct UnderFaults<S> {
    /// Makes the stores.
    pub setup: S,
    /// Decides the faults.
    pub seed: u64,
}

impl<S: Setup> Setup for UnderFaults<S> {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        let made = self.setup.make(format, range);
        let faulty = FaultyStore::seeded(Arc::clone(&made.store), self.seed, Rates::MILD);
        Made { store: Arc::new(InsistentStore::new(Arc::new(faulty))), ..made }
    }

    fn longest_free_first(&self) -> bool {
        self.setup.longest_free_first()
    }

    fn histories(&self) -> u64 {
        self.setup.histories()
    }
}

/// Expands to one `#[test]` for each check of the suite, run on stores made by the given
/// [`Setup`](crate::testing::suite::Setup).
///
/// ```
/// # use snowlease_core::Format;
/// # use snowlease_lease::testing::{MemoryStore, suite::{Made, Setup}};
/// struct Mine;
///
/// impl Setup for Mine {
///     fn make(&self, format: Format, range: (u64, u64)) -> Made {
///         Made::new(MemoryStore::new(format, range).unwrap())
///     }
/// }
///
/// mod plain {
///     snowlease_lease::conformance!(super::Mine);
/// }
///
/// mod under_faults {
///     use snowlease_lease::testing::suite::UnderFaults;
///     snowlease_lease::conformance!(UnderFaults { setup: super::Mine, seed: 1 });
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance {
    (@tests $setup:expr => $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $crate::testing::suite::$check(&$setup);
            }
        )*
    };
    (@table $setup:expr => $($check:ident)*) => {
        &[$((stringify!($check), $crate::testing::suite::$check)),*]
    };
    (@all $what:ident $setup:expr) => {
        $crate::conformance! { @$what $setup =>
            a_grant_is_what_was_asked_for
            grants_are_distinct_until_none_is_left
            an_id_is_free_at_until_and_not_one_tick_before
            the_longest_free_is_taken_first
            asking_again_with_the_same_key_gives_the_same_lease
            two_holders_with_one_label_get_two_ids
            another_format_is_refused
            a_window_has_ticks_and_ends_in_the_time_field
            ids_outside_the_range_are_refused
            ticks_are_ticks_and_not_milliseconds
            a_renewal_moves_until_and_nothing_else
            a_renewal_may_change_the_token
            a_foreign_token_renews_nothing
            nothing_is_renewed_that_was_never_granted
            a_renewal_never_lowers_until
            late_and_repeated_renewals_change_nothing
            a_renewal_whose_answer_was_lost_is_answered_again
            a_changed_cell_that_is_still_mine_is_adopted
            a_renewal_ends_with_the_time_field
            a_stale_owner_does_not_touch_its_successor
            a_release_cuts_at_the_first_unused_tick
            a_release_may_give_back_all_or_nothing
            a_release_takes_place_once
            a_release_outside_the_window_changes_nothing
            a_release_needs_the_token
            a_release_needs_no_current_seq
            a_release_may_show_the_next_token
            nothing_late_revives_a_released_lease
            a_frozen_store_renews_and_grants_nothing
            a_draining_id_is_renewed_and_not_granted
            draining_crosses_a_renewal_without_a_loss
            all_draining_is_told_apart_from_all_held
            quarantine_blocks_grants_and_renewals_below_the_floor
            the_floor_never_falls_and_is_at_least_every_until
            the_list_shows_every_cell_that_was_granted
            the_status_tells_what_the_store_is_for
            a_holder_of_another_plan_is_refused
            a_cell_older_than_its_holder_remembers_quarantines_the_store
            a_draining_mark_far_ahead_does_not_raise_the_floor
            a_sound_store_is_found_sound
            asks_of_one_call_are_answered_each
            two_hundred_at_once_get_distinct_ids
            holders_at_once_keep_their_windows_apart
            random_histories_break_no_promise
        }
    };
    ($setup:expr) => {
        $crate::conformance! { @all tests $setup }
    };
    ($setup:expr => $($check:ident)*) => {
        $crate::conformance! { @tests $setup => $($check)* }
    };
}

/// A check with its name.
pub type Check = (&'static str, fn(&dyn Setup));

/// Every check: what [`conformance!`](crate::conformance) makes tests of.
pub const CHECKS: &[Check] = crate::conformance! { @all table () };

/// Runs every check in turn, for stores that take longer to start than a check takes.
///
/// # Panics
///
/// With the names of those that failed; what they found is on stderr.
pub fn run_all(setup: &dyn Setup) {
    let fails = |check: fn(&dyn Setup)| catch_unwind(AssertUnwindSafe(|| check(setup))).is_err();
    let failed = CHECKS.iter().filter(|(_, check)| fails(*check));
    let failed: Vec<_> = failed.map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}
