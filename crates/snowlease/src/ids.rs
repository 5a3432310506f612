//! The handle an application keeps: ids by function call, from a generator id leased in the
//! background.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use snowlease_core::{Format, Generator, Id, Refusal};
use snowlease_lease::{
    Keeper, LeaseStore, NotReady, NotReleased, Outage, Status, StoreStatus, asking,
};

use crate::LocalIds;
use crate::offload::Offload;
use crate::own::Own;

/// Issues ids.
///
/// Cloning gives another handle on the same generator; all of them share one order (G2). When the
/// last one is dropped the lease is given back, best effort; [`shutdown`](Ids::shutdown) waits for
/// that.
///
/// # Promise
///
/// Ids are unique among all processes that lease from the same store (G1) and ascend for calls that
/// happen one after the other (G2). If the store is away, ids flow until the window ends (at least
/// 37 s with default terms) and again as soon as it is back, under another generator id: nothing
/// needs to be restarted (G5).
///
/// # Forks
///
/// In a forked child every call of an inherited handle is refused at once
/// ([`Refusal::Forked`](snowlease_core::Refusal::Forked), or an error that says so), and dropping
/// it does nothing: the lease and the connection are the parent's. Connect anew in the child.
#[derive(Clone, Debug)]
pub struct Ids {
    generator: Arc<Generator>,
    keeper: Own<Arc<Keeper>>,
    store: Arc<dyn LeaseStore>,
}

impl Ids {
    pub(crate) fn new(keeper: Keeper, store: Arc<dyn LeaseStore>) -> Ids {
        let generator = Arc::clone(keeper.generator());
        Ids { generator, keeper: Own::new(Arc::new(keeper)), store }
    }

    /// Issues one id; inside a full tick it waits, at most 10 ms unless set otherwise.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] says why there is no id now and what to do; [`Refusal::retry_after`] when to
    /// retry.
    ///
    /// # Cost
    ///
    /// A reading of the processor's counter where the kernel trusts it, of the boot clock
    /// elsewhere, and an atomic addition; `docs/compare.md` has figures. Never blocks on the
    /// store.
    #[inline(always)]
    pub fn next_id(&self) -> Result<Id, Refusal> {
        self.generator.next_id()
    }

    /// Issues one id and never waits: the one to call where blocking for milliseconds is not
    /// allowed.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Ids::next_id), and [`Refusal::TickFull`] wherever that would have waited.
    #[inline(always)]
    pub fn try_next_id(&self) -> Result<Id, Refusal> {
        self.generator.try_next_id()
    }

    /// Issues exactly `n` ids, strictly ascending, or none.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Ids::next_id), and [`Refusal::BatchSize`] if `n` is 0 or above a million.
    pub fn next_ids(&self, n: usize) -> Result<Vec<Id>, Refusal> {
        self.generator.next_ids(n)
    }

    /// Fills `ids` as [`next_ids`](Ids::next_ids) would, without allocating.
    ///
    /// # Errors
    ///
    /// As [`next_ids`](Ids::next_ids); what is in `ids` then are no ids to use.
    pub fn next_ids_into(&self, ids: &mut [Id]) -> Result<(), Refusal> {
        self.generator.next_ids_into(ids)
    }

    /// Issues one id; inside a full tick the future waits, as long as [`next_id`](Ids::next_id)
    /// would, and the executor's thread does not. Under any executor.
    ///
    /// Dropped while it waits, it leaves a gap and nothing else.
    ///
    /// # Errors
    ///
    /// As [`next_id`](Ids::next_id).
    ///
    /// # Cost
    ///
    /// As [`next_id`](Ids::next_id) if there is an id. While somebody waits, a thread of the
    /// process is awake for the last millisecond before the next tick.
    pub async fn next_id_async(&self) -> Result<Id, Refusal> {
        asking::next_id(&self.generator).await
    }

    /// Issues exactly `n` ids as [`next_ids`](Ids::next_ids) does, and never blocks the executor.
    ///
    /// # Errors
    ///
    /// As [`next_ids`](Ids::next_ids).
    pub async fn next_ids_async(&self, n: usize) -> Result<Vec<Id>, Refusal> {
        asking::next_ids(&self.generator, n).await
    }

    /// Fills `ids` as [`next_ids_into`](Ids::next_ids_into) does, and never blocks the executor.
    /// Dropped before it is done it leaves a gap, and what is in `ids` are no ids to use.
    ///
    /// # Errors
    ///
    /// As [`next_ids_into`](Ids::next_ids_into).
    pub async fn next_ids_into_async(&self, ids: &mut [Id]) -> Result<(), Refusal> {
        asking::next_ids_into(&self.generator, ids).await
    }

    /// A handle for one thread, the fastest way to single ids: see [`LocalIds`].
    pub fn local(&self) -> LocalIds {
        LocalIds::new(self.generator.local(), self.clone())
    }

    /// The format of the ids: how to read them.
    pub fn format(&self) -> Format {
        self.generator.format()
    }

    /// How the lease and the clock stand, and what went wrong last.
    pub fn status(&self) -> Status {
        self.keeper.status()
    }

    /// Asks the store how it stands: what a person should know of (a file put back to an older
    /// state, say) is in its `alarms`. Blocks for one attempt at the store at most.
    ///
    /// # Errors
    ///
    /// [`Outage`]: the store does not answer; try again.
    pub fn store_status(&self) -> Result<StoreStatus, Outage> {
        self.store.status()
    }

    /// Completes when ids can be issued.
    ///
    /// # Errors
    ///
    /// [`NotReady`] if this was shut down; otherwise it waits for as long as it takes.
    pub async fn ready(&self) -> Result<(), NotReady> {
        poll_fn(|context| match self.keeper.poll_ready(context.waker()) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Blocks until ids can be issued.
    ///
    /// # Errors
    ///
    /// [`NotReady`], with the reason, after `timeout` or if this was shut down.
    pub fn ready_blocking(&self, timeout: Duration) -> Result<(), NotReady> {
        self.keeper.wait_ready(timeout)
    }

    /// Before a snapshot of this process or its machine is taken: closes the gate, for every
    /// handle, and gives the lease back. Nothing is issued until [`resume`](Ids::resume).
    ///
    /// Two copies of a holder with a lease would issue the same ids until one of them is found out
    /// at a renewal; copies of one without a lease have nothing to share. Not needed where only the
    /// memory of the machine is moved, to be used once.
    ///
    /// Completes when the store has answered, or after three attempts at it.
    ///
    /// # Errors
    ///
    /// [`NotReleased`]: the store did not take the lease back; it ends by itself with its window.
    /// Nothing is issued all the same, and the snapshot may be taken.
    pub async fn suspend(&self) -> Result<(), NotReleased> {
        let keeper = Arc::clone(&self.keeper);
        match Offload::start(move || keeper.suspend()) {
            Ok(suspended) => suspended.await,
            Err(error) => Err(NotReleased { reason: error.to_string() }),
        }
    }

    /// As [`suspend`](Ids::suspend), blocking.
    ///
    /// # Errors
    ///
    /// As [`suspend`](Ids::suspend).
    ///
    /// # Example
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let ids = snowlease::blocking::connect("memory:orders")?;
    /// ids.suspend_blocking()?;
    /// assert!(ids.next_id().is_err());
    /// // The snapshot is taken here, and resumed, once or many times.
    /// ids.resume();
    /// ids.ready_blocking(Duration::from_secs(10))?;
    /// let id = ids.next_id()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn suspend_blocking(&self) -> Result<(), NotReleased> {
        self.keeper.suspend()
    }

    /// After [`suspend`](Ids::suspend), in the original and in each copy: leases anew, with fresh
    /// randomness. [`ready`](Ids::ready) tells when there is a lease. Without a `suspend` before it
    /// does nothing.
    pub fn resume(&self) {
        self.keeper.resume();
    }

    /// Stops issuing, for every handle, and gives the lease back: its generator id is free at once.
    ///
    /// Completes when the store has answered, or after three attempts at it.
    ///
    /// # Errors
    ///
    /// [`NotReleased`]: nothing is issued any more, but the store did not take the lease back.
    /// Nothing needs to be done: it ends by itself with its window.
    pub async fn shutdown(self) -> Result<(), NotReleased> {
        let keeper = Arc::clone(&self.keeper);
        keeper.ask_to_stop();
        match Offload::start(move || keeper.stop()) {
            Ok(stopped) => stopped.await,
            // No thread to wait on: the keeper's own is on its way all the same.
            Err(error) => Err(NotReleased { reason: error.to_string() }),
        }
    }

    /// Begins to shut down, for those who shut down several.
    pub(crate) fn ask_to_stop(&self) {
        self.keeper.ask_to_stop();
    }

    /// As [`shutdown`](Ids::shutdown), blocking.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Ids::shutdown).
    pub fn shutdown_blocking(self) -> Result<(), NotReleased> {
        self.keeper.stop()
    }
}
