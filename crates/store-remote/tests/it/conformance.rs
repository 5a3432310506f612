//! The suite that every store passes, through a service over HTTP.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::testing::suite::{Made, Setup};
use snowlease_lease::{
    Acquire, AcquireError, Grant, LeaseEntry, LeaseStore, Outage, Release, ReleaseError, Renew,
    RenewError, Renewal, StoreStatus,
};
use snowlease_store_remote::RemoteStore;

use crate::support::Served;

const ATTEMPT: Duration = Duration::from_secs(20);

/// The remote store without the time of its service, which differs between answers that the suite
/// compares.
#[derive(Debug)]
struct Timeless {
    remote: RemoteStore,
    served: Arc<Clock>,
}

struct Clock(Served);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.url)
    }
}

impl LeaseStore for Timeless {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.remote.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        self.remote.acquire(ask).map(|grant| Grant { reference_ms: None, ..grant })
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        self.remote.renew(ask).map(|renewal| Renewal { reference_ms: None, ..renewal })
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.remote.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.remote.list()
    }
}

fn made(format: Format, range: (u64, u64)) -> (Arc<Clock>, Timeless) {
    let clock = Arc::new(Clock(Served::new(format, range)));
    let remote = RemoteStore::new(&clock.0.url, ATTEMPT).unwrap();
    let store = Timeless { remote, served: Arc::clone(&clock) };
    (clock, store)
}

struct OverHttp;

impl Setup for OverHttp {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        let (clock, store) = made(format, range);
        Made {
            admin: Arc::clone(&clock.0.store) as _,
            store: Arc::new(store),
            set_now: Box::new(move |now_ms| clock.0.set_now(now_ms)),
            keep: Box::new(()),
        }
    }

    fn histories(&self) -> u64 {
        25
    }
}

/// Each ask with the service's clock at its own time, one after the other: asks that come late, or
/// of many holders with times of their own, would be off by more than a service tolerates.
struct OneAtATime;

#[derive(Debug)]
struct Queued {
    store: Timeless,
    turn: Mutex<()>,
}

impl Setup for OneAtATime {
    fn make(&self, format: Format, range: (u64, u64)) -> Made {
        let (clock, store) = made(format, range);
        Made {
            admin: Arc::clone(&clock.0.store) as _,
            store: Arc::new(Queued { store, turn: Mutex::new(()) }),
            set_now: Box::new(|_| {}),
            keep: Box::new(clock),
        }
    }
}

impl LeaseStore for Queued {
    fn status(&self) -> Result<StoreStatus, Outage> {
        self.store.status()
    }

    fn acquire(&self, ask: &Acquire) -> Result<Grant, AcquireError> {
        let _turn = self.turn.lock().unwrap();
        self.store.served.0.set_now(ask.now_ms);
        self.store.acquire(ask)
    }

    fn renew(&self, ask: &Renew) -> Result<Renewal, RenewError> {
        let _turn = self.turn.lock().unwrap();
        self.store.served.0.set_now(ask.now_ms);
        self.store.renew(ask)
    }

    fn release(&self, ask: &Release) -> Result<(), ReleaseError> {
        self.store.release(ask)
    }

    fn list(&self) -> Result<Vec<LeaseEntry>, Outage> {
        self.store.list()
    }
}

mod plain {
    snowlease_lease::conformance! { super::OverHttp =>
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
        a_frozen_store_renews_and_grants_nothing
        a_draining_id_is_renewed_and_not_granted
        draining_crosses_a_renewal_without_a_loss
        all_draining_is_told_apart_from_all_held
        quarantine_blocks_grants_and_renewals_below_the_floor
        the_floor_never_falls_and_is_at_least_every_until
        the_list_shows_every_cell_that_was_granted
        the_status_tells_what_the_store_is_for
        two_hundred_at_once_get_distinct_ids
        random_histories_break_no_promise
    }
}

mod one_at_a_time {
    snowlease_lease::conformance! { super::OneAtATime =>
        nothing_late_revives_a_released_lease
        holders_at_once_keep_their_windows_apart
    }
}

mod under_faults {
    use snowlease_lease::testing::suite::UnderFaults;

    snowlease_lease::conformance! { UnderFaults { setup: super::OverHttp, seed: 7 } =>
        grants_are_distinct_until_none_is_left
        asking_again_with_the_same_key_gives_the_same_lease
        a_renewal_whose_answer_was_lost_is_answered_again
        a_stale_owner_does_not_touch_its_successor
        a_release_takes_place_once
    }
}
