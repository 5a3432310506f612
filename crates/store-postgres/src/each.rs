//! Many asks in one statement; those that it leaves out are asked one by one, all at once. The
//! answers of all are given at once, so none of these waits long for a row that somebody holds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use snowlease_lease::{Acquire, AcquireError, Grant, Meta, Outage, Renew, RenewError, Renewal};
use tokio::task::JoinSet;

use crate::fault::{Fault, Remedy};
use crate::link::{Call, Link};
use crate::{grant, renew};

/// The most asks in one statement.
const BATCH: usize = 512;

/// What can be asked in numbers.
pub(crate) trait Ask: Clone + Send + Sync + 'static {
    type Answer: Send + 'static;
    type Error: From<Outage> + Send + 'static;

    /// Whether it belongs into a statement at all; those that do not are refused one by one.
    fn is_for(&self, meta: &Meta) -> bool;

    /// One statement for all; an ask that it left out has no answer.
    fn many(
        call: &Call,
        meta: &Meta,
        asks: &[Self],
    ) -> impl Future<Output = Result<Vec<Option<Self::Answer>>, Fault>> + Send;

    /// As the store answers a single one.
    fn one(
        self,
        call: Call,
        meta: Arc<Meta>,
    ) -> impl Future<Output = Result<Self::Answer, Self::Error>> + Send;
}

type Answers<A> = Arc<Mutex<Vec<Option<Result<<A as Ask>::Answer, <A as Ask>::Error>>>>>;

/// The answers in the order of the asks.
pub(crate) fn each<A: Ask>(
    link: &Link,
    meta: &Meta,
    asks: &[A],
) -> Vec<Result<A::Answer, A::Error>> {
    let answers: Answers<A> = Arc::new(Mutex::new(asks.iter().map(|_| None).collect()));
    let (asked, answered, meta) = (asks.to_vec(), Arc::clone(&answers), Arc::new(meta.clone()));
    let outcome: Result<(), Outage> = link.call(|call| async move {
        for (index, chunk) in asked.chunks(BATCH).enumerate() {
            batch::<A>(&call, &meta, index * BATCH, chunk, &answered).await;
        }
        Ok(())
    });
    // Those that the time did not suffice for.
    let outage = outcome.err().unwrap_or_else(|| Outage::unknown("the answer was lost: ask again"));
    let answers = std::mem::take(&mut *lock(&answers));
    answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|| Err(A::Error::from(outage.clone()))))
        .collect()
}

async fn batch<A: Ask>(
    call: &Call,
    meta: &Arc<Meta>,
    first: usize,
    asks: &[A],
    answers: &Answers<A>,
) {
    let numbers: Vec<usize> = (0..asks.len()).filter(|n| asks[*n].is_for(meta)).collect();
    let chosen: Vec<A> = numbers.iter().map(|n| asks[*n].clone()).collect();
    if chosen.len() > 1 {
        match A::many(call, meta, &chosen).await {
            Ok(found) => {
                let mut answers = lock(answers);
                for (n, answer) in numbers.iter().zip(found) {
                    answers[first + n] = answer.map(Ok);
                }
            }
            Err(fault) if fault.remedy == Remedy::Tell => {
                let mut answers = lock(answers);
                for n in &numbers {
                    answers[first + n] = Some(Err(fault.outage.clone().into()));
                }
            }
            // One of them was in the way of all.
            Err(_) => {}
        }
    }
    let call = call.hurried();
    let mut left = JoinSet::new();
    for (n, ask) in asks.iter().enumerate() {
        if lock(answers)[first + n].is_none() {
            let (ask, call, meta) = (ask.clone(), call.apart(), Arc::clone(meta));
            left.spawn(async move { (n, ask.one(call, meta).await) });
        }
    }
    while let Some(done) = left.join_next().await {
        if let Ok((n, answer)) = done {
            lock(answers)[first + n] = Some(answer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ask for Acquire {
    type Answer = Grant;
    type Error = AcquireError;

    fn is_for(&self, meta: &Meta) -> bool {
        grant::is_possible(meta.format, self)
    }

    async fn many(call: &Call, _: &Meta, asks: &[Acquire]) -> Result<Vec<Option<Grant>>, Fault> {
        call.settle().await.map_err(Fault::tell)?;
        if call.watch().await?.is_some() {
            return Ok(asks.iter().map(|_| None).collect());
        }
        grant::try_grant(call, asks).await
    }

    async fn one(self, call: Call, _: Arc<Meta>) -> Result<Grant, AcquireError> {
        grant::acquire(&call, &self).await
    }
}

impl Ask for Renew {
    type Answer = Renewal;
    type Error = RenewError;

    fn is_for(&self, meta: &Meta) -> bool {
        (meta.range.0..=meta.range.1).contains(&self.generator_id)
    }

    async fn many(call: &Call, meta: &Meta, asks: &[Renew]) -> Result<Vec<Option<Renewal>>, Fault> {
        // If that fails, some may have to be told that the store was put back.
        let some = |outage| Fault { outage, remedy: Remedy::Again };
        call.settle().await.map_err(some)?;
        renew::try_renew(call, meta.format, asks).await
    }

    async fn one(self, call: Call, meta: Arc<Meta>) -> Result<Renewal, RenewError> {
        if !self.is_for(&meta) {
            return Err(RenewError::OutOfRange);
        }
        renew::renew(&call, meta.format, &self).await
    }
}
