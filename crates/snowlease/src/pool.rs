//! Several leased generator ids in one process, for one that needs more ids than one of them gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use snowlease_core::{Id, Refusal};
use snowlease_lease::NotReleased;

use crate::{ConnectError, Connector, Ids};

/// Issues ids from several connections, each with a generator id of its own: as many times the ids
/// of a tick, and threads that do not wait for each other's. Made by [`Connector::connect_pool`].
///
/// Cloning gives another handle on the same connections.
///
/// # Promise
///
/// Ids are unique as those of [`Ids`] (G1), and each lies within the bound of order (G3). Between
/// calls there is no order finer than that: two members have two clocks, and in one tick the
/// generator id decides. Ids of one batch ascend.
///
/// For single ids, a member whose tick is full or whose lease is lost is passed over while another
/// one has some. A batch waits for this thread's member, and goes to the next one if that refuses.
///
/// # Example
///
/// ```
/// let pool = snowlease::Connector::new("memory:events").connect_pool_blocking(2)?;
/// let (id, many) = (pool.next_id()?, pool.next_ids(1000)?);
/// assert!(!many.contains(&id));
/// pool.shutdown_blocking()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    members: Arc<[Ids]>,
}

/// Threads are spread over members in the order in which they first ask.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // ORDERING: Relaxed; a number of its own for each thread.
    static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

impl Connector {
    /// Makes `members` connections with these settings, blocking until all can issue ids. Each
    /// leases a generator id: a fleet needs that many times as many.
    ///
    /// # Errors
    ///
    /// As [`connect_blocking`](Connector::connect_blocking); what was connected by then is given
    /// back. [`ConnectError::Members`] for none.
    pub fn connect_pool_blocking(self, members: usize) -> Result<Pool, ConnectError> {
        if members == 0 {
            return Err(ConnectError::Members);
        }
        let mut connected = Vec::new();
        for _ in 0..members {
            match self.clone().connect_blocking() {
                Ok(member) => connected.push(member),
                Err(error) => {
                    // Nothing more can be said of those that are not released than of this.
                    let _ = Pool { members: connected.into() }.shutdown_blocking();
                    return Err(error);
                }
            }
        }
        Ok(Pool { members: connected.into() })
    }

    /// As [`connect_pool_blocking`](Connector::connect_pool_blocking), without blocking the
    /// executor.
    ///
    /// # Errors
    ///
    /// As [`connect_pool_blocking`](Connector::connect_pool_blocking).
    pub async fn connect_pool(self, members: usize) -> Result<Pool, ConnectError> {
        if members == 0 {
            return Err(ConnectError::Members);
        }
        let mut connected = Vec::new();
        for _ in 0..members {
            match self.clone().connect().await {
                Ok(member) => connected.push(member),
                Err(error) => {
                    let _ = Pool { members: connected.into() }.shutdown().await;
                    return Err(error);
                }
            }
        }
        Ok(Pool { members: connected.into() })
    }
}

impl Pool {
    /// Issues one id; if every member's tick is full it waits for one, as [`Ids::next_id`] does.
    ///
    /// # Errors
    ///
    /// As [`Ids::next_id`]: no member has an id now.
    #[inline(always)]
    pub fn next_id(&self) -> Result<Id, Refusal> {
        self.tried().or_else(|(member, _)| {
            // Refused while it waits, another one may have some by then.
            member.next_id().or_else(|_| self.try_next_id())
        })
    }

    /// Issues one id and never waits.
    ///
    /// # Errors
    ///
    /// As [`Ids::try_next_id`]: no member has an id now.
    #[inline(always)]
    pub fn try_next_id(&self) -> Result<Id, Refusal> {
        self.tried().map_err(|(_, refusal)| refusal)
    }

    /// Issues one id without blocking an executor: see [`Ids::next_id_async`].
    ///
    /// # Errors
    ///
    /// As [`next_id`](Pool::next_id).
    pub async fn next_id_async(&self) -> Result<Id, Refusal> {
        match self.tried() {
            Ok(id) => Ok(id),
            Err((member, _)) => match member.next_id_async().await {
                Ok(id) => Ok(id),
                Err(_) => self.try_next_id(),
            },
        }
    }

    /// Issues exactly `n` ids of one member, strictly ascending, or none.
    ///
    /// # Errors
    ///
    /// As [`Ids::next_ids`].
    pub fn next_ids(&self, n: usize) -> Result<Vec<Id>, Refusal> {
        self.batch(|member| member.next_ids(n))
    }

    /// Fills `ids` as [`next_ids`](Pool::next_ids) would, without allocating.
    ///
    /// # Errors
    ///
    /// As [`Ids::next_ids_into`].
    pub fn next_ids_into(&self, ids: &mut [Id]) -> Result<(), Refusal> {
        self.batch(|member| member.next_ids_into(ids))
    }

    /// One id of the first member that has one; else the member to wait for, and its refusal: the
    /// first whose tick is full, if there is any.
    #[inline]
    fn tried(&self) -> Result<Id, (&Ids, Refusal)> {
        let mut best = None;
        for member in self.own_first() {
            match member.try_next_id() {
                Ok(id) => return Ok(id),
                Err(refusal) => best = Some(better(best, (member, refusal))),
            }
        }
        Err(best.unwrap_or((&self.members[0], Refusal::NoLease)))
    }

    /// The answer of the first member that serves a batch, or of the last; a size that one refuses
    /// all would.
    fn batch<T>(&self, mut ask: impl FnMut(&Ids) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut answer = Err(Refusal::NoLease);
        for member in self.own_first() {
            answer = ask(member);
            if matches!(answer, Ok(_) | Err(Refusal::BatchSize { .. })) {
                break;
            }
        }
        answer
    }

    /// All members, this thread's first.
    #[inline]
    fn own_first(&self) -> impl Iterator<Item = &Ids> {
        // A thread that is ending has no number left.
        let thread = THREAD.try_with(|thread| *thread).unwrap_or(0);
        let (others, own) = self.members.split_at(thread % self.members.len());
        own.iter().chain(others)
    }

    /// As [`next_ids`](Pool::next_ids), and never blocks the executor.
    ///
    /// # Errors
    ///
    /// As [`next_ids`](Pool::next_ids).
    pub async fn next_ids_async(&self, n: usize) -> Result<Vec<Id>, Refusal> {
        let mut answer = Err(Refusal::NoLease);
        for member in self.own_first() {
            answer = member.next_ids_async(n).await;
            if matches!(answer, Ok(_) | Err(Refusal::BatchSize { .. })) {
                break;
            }
        }
        answer
    }

    /// As [`next_ids_into`](Pool::next_ids_into), and never blocks the executor.
    ///
    /// # Errors
    ///
    /// As [`next_ids_into`](Pool::next_ids_into).
    pub async fn next_ids_into_async(&self, ids: &mut [Id]) -> Result<(), Refusal> {
        let mut answer = Err(Refusal::NoLease);
        for member in self.own_first() {
            answer = member.next_ids_into_async(ids).await;
            if matches!(answer, Ok(()) | Err(Refusal::BatchSize { .. })) {
                break;
            }
        }
        answer
    }

    /// The connections, for their status and for handles of threads.
    pub fn members(&self) -> &[Ids] {
        &self.members
    }

    /// Stops issuing, for every handle, and gives all leases back.
    ///
    /// # Errors
    ///
    /// As [`Ids::shutdown`], of the last member that was not released; all were asked.
    pub async fn shutdown(self) -> Result<(), NotReleased> {
        self.members.iter().for_each(Ids::ask_to_stop);
        let mut answer = Ok(());
        for member in self.members.iter() {
            answer = member.clone().shutdown().await.and(answer);
        }
        answer
    }

    /// As [`shutdown`](Pool::shutdown), blocking.
    ///
    /// # Errors
    ///
    /// As [`shutdown`](Pool::shutdown).
    pub fn shutdown_blocking(self) -> Result<(), NotReleased> {
        self.members.iter().for_each(Ids::ask_to_stop);
        let mut answer = Ok(());
        for member in self.members.iter() {
            answer = member.clone().shutdown_blocking().and(answer);
        }
        answer
    }
}

/// Of two members that refused, the one to wait for.
fn better<'a>(best: Option<(&'a Ids, Refusal)>, other: (&'a Ids, Refusal)) -> (&'a Ids, Refusal) {
    let is_full = |refusal| matches!(refusal, Refusal::TickFull { .. });
    match best {
        Some(best) if is_full(best.1) || !is_full(other.1) => best,
        _ => other,
    }
}
