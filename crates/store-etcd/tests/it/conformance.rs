//! The conformance suite on the oldest and the newest etcd, plain and while calls are lost, late
//! and repeated: one cluster for all checks, since a cluster takes longer to start than a check.

use std::panic::{AssertUnwindSafe, catch_unwind};

use snowlease_lease::testing::suite::{self, Setup, UnderFaults};
use snowlease_store_etcd::testing::{Cluster, NewPrefix, Options};

type Check = (&'static str, fn(&dyn Setup));

macro_rules! checks {
    ($($check:ident)*) => {
        &[$((stringify!($check), suite::$check)),*]
    };
}

const CHECKS: &[Check] = checks! {
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
};

/// The list above is the suite's own.
#[test]
fn no_check_is_left_out() {
    let suite = include_str!("../../../lease/src/testing/suite/mod.rs");
    let (_, list) = suite.split_once("$crate::conformance! { $setup =>").unwrap();
    let (list, _) = list.split_once('}').unwrap();
    let ours: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(list.split_whitespace().collect::<Vec<_>>(), ours);
}

/// Runs every check, and names those that fail.
fn conforms(setup: &dyn Setup) {
    let failed: Vec<_> = CHECKS
        .iter()
        .filter(|(_, check)| catch_unwind(AssertUnwindSafe(|| check(setup))).is_err())
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(failed, [""; 0]);
}

fn plain(version: &str) {
    let cluster = Cluster::start(&Options::single(version));
    conforms(&NewPrefix::of(&cluster));
}

fn under_faults(version: &str) {
    let cluster = Cluster::start(&Options::single(version));
    conforms(&UnderFaults { setup: NewPrefix::of(&cluster), seed: 17 });
}

#[test]
fn etcd_3_4_conforms() {
    plain("3.4");
}

#[test]
fn etcd_3_4_conforms_under_faults() {
    under_faults("3.4");
}

#[test]
fn etcd_3_7_conforms() {
    plain("3.7");
}

#[test]
fn etcd_3_7_conforms_under_faults() {
    under_faults("3.7");
}
