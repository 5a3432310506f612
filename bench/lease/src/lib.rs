//! The parts of a benchmark of leases: many holders that start at once, and what they were told.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::{
    Acquire, AcquireError, Grant, Holder, LeaseStore, Realm, Renew, RequestKey, Terms, Token, os,
};

/// Enough for a call of a store; thousands of threads have one each.
const STACK_BYTES: usize = 512 << 10;

/// A holder that starts may pause for so long before it asks again, as the keeper does.
const MOST_PAUSE: Duration = Duration::from_secs(2);

/// A lease that a holder of the benchmark has.
#[derive(Clone, Debug)]
pub struct Lease {
    /// What was granted, and what the last renewal has made of it.
    pub grant: Grant,
    /// Shown to renew.
    pub token: Token,
}

/// What became of holders that started at once.
#[derive(Debug, Default)]
pub struct Herd {
    /// Their leases, with the seconds after the start at which each was had.
    pub leases: Vec<(Lease, f64)>,
    /// Those that were told that every generator id is in use.
    pub exhausted: usize,
    /// Asks that failed and were made again.
    pub repeated: usize,
}

impl Herd {
    /// Starts this many holders at once, each with the store that `connect` gives it, and waits
    /// until each has a lease or was told that there is none.
    ///
    /// # Panics
    ///
    /// If two have one generator id: the figures would be worth nothing.
    #[expect(clippy::expect_used, reason = "a benchmark stops at the first surprise")]
    pub fn start<S: LeaseStore>(
        holders: usize,
        format: Format,
        connect: impl Fn(usize) -> Option<S> + Sync,
    ) -> Herd {
        let herd = Mutex::new(Herd::default());
        let gate = Barrier::new(holders + 1);
        thread::scope(|scope| {
            for number in 0..holders {
                let (herd, gate, connect) = (&herd, &gate, &connect);
                let holder = move || {
                    gate.wait();
                    let began_ns = os::boot_ns();
                    let mut repeated = 0;
                    let outcome = first_lease(number, format, connect, &mut repeated);
                    let took = seconds(os::boot_ns() - began_ns);
                    let mut herd = herd.lock().unwrap_or_else(PoisonError::into_inner);
                    herd.repeated += repeated;
                    match outcome {
                        Some(lease) => herd.leases.push((lease, took)),
                        None => herd.exhausted += 1,
                    }
                };
                let builder = thread::Builder::new().stack_size(STACK_BYTES);
                builder.spawn_scoped(scope, holder).expect("a thread");
            }
            gate.wait();
        });
        let herd = herd.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ids: BTreeSet<u64> =
            herd.leases.iter().map(|(lease, _)| lease.grant.generator_id).collect();
        assert_eq!(ids.len(), herd.leases.len(), "a generator id was granted twice");
        herd
    }

    /// When this share of the leases was had, in seconds after the start.
    pub fn had(&self, share: f64) -> f64 {
        let mut times: Vec<f64> = self.leases.iter().map(|(_, took)| *took).collect();
        times.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "figures are for people"
        )]
        let place = (times.len() as f64 * share) as usize;
        times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

/// Asks until there is an answer; `None`: every generator id is in use.
fn first_lease<S: LeaseStore>(
    number: usize,
    format: Format,
    connect: &impl Fn(usize) -> Option<S>,
    repeated: &mut usize,
) -> Option<Lease> {
    let key = RequestKey::random();
    let mut store = None;
    let mut bound = MOST_PAUSE / 16;
    loop {
        if store.is_none() {
            store = connect(number);
        }
        let answer = store.as_ref().map(|store| store.acquire(&ask(format, &key)));
        match answer {
            Some(Ok(grant)) => return Some(Lease { grant, token: key.token() }),
            Some(Err(AcquireError::Exhausted { .. })) => return None,
            _ => {
                *repeated += 1;
                thread::park_timeout(bound.mul_f64(share_of(number, *repeated)));
                bound = (bound * 2).min(MOST_PAUSE);
            }
        }
    }
}

/// An ask for a lease of the usual terms, from now.
///
/// # Panics
///
/// If the format has no tick for now.
#[expect(clippy::expect_used, reason = "a benchmark stops at the first surprise")]
pub fn ask(format: Format, key: &RequestKey) -> Acquire {
    let now_ms = os::wall_ms();
    let window_ms = i64::try_from(Terms::DEFAULT.window().as_millis()).expect("a window");
    Acquire {
        request_key: key.clone(),
        from: format.tick_at_ms(now_ms).expect("a tick"),
        until: format.first_tick_from_ms(now_ms + window_ms),
        format,
        realm: Realm::default(),
        holder: Holder::new("bench", "host", "1", "").expect("a label"),
        patience: Terms::DEFAULT.attempt() * 3,
        now_ms,
    }
}

/// An ask to renew a lease from now.
///
/// # Panics
///
/// If the window does not fit a number.
#[expect(clippy::expect_used, reason = "a benchmark stops at the first surprise")]
pub fn renewal(format: Format, lease: &Lease) -> Renew {
    let now_ms = os::wall_ms();
    let window_ms = i64::try_from(Terms::DEFAULT.window().as_millis()).expect("a window");
    Renew {
        generator_id: lease.grant.generator_id,
        token: lease.token.clone(),
        seq: lease.grant.seq,
        next: lease.token.hash(),
        until: format.first_tick_from_ms(now_ms + window_ms),
        now_ms,
    }
}

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// A share from an eighth to one that differs from holder to holder.
fn share_of(number: usize, attempt: usize) -> f64 {
    let mixed = number.wrapping_mul(0x9e37_79b9).wrapping_add(attempt.wrapping_mul(0x85eb_ca6b));
    #[expect(clippy::cast_precision_loss, reason = "spread is all that is asked of it")]
    let share = (mixed % 1_000) as f64 / 1_000.0;
    share.max(0.125)
}
