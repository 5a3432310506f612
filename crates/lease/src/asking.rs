//! Ids for callers that may not block, under any executor.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use snowlease_core::{Asked, Asking, Generator, Id, Refusal};

use crate::{alarm, os};

/// Two reckonings of when one tick begins may differ by this, as the clock is slewed.
const SAME_NS: u64 = 100_000;

/// Issues one id. Inside a full tick the future waits, as long as [`Generator::next_id`] would, and
/// the thread does not. Dropped while it waits, it leaves a gap and nothing else.
///
/// # Errors
///
/// As [`Generator::next_id`].
///
/// # Cost
///
/// That of [`Generator::next_id`] if there is an id; a wait costs an entry in a list, and the
/// process a thread that is awake during the last millisecond before somebody's tick.
pub async fn next_id(generator: &Generator) -> Result<Id, Refusal> {
    match generator.ask_one() {
        Ok(id) => Ok(id),
        Err(asking) => {
            let mut id = [Id::MIN];
            answered(generator, asking, &mut id).await?;
            Ok(id[0])
        }
    }
}

/// Fills `ids` as [`Generator::next_ids_into`] would, without blocking. Dropped before it is done,
/// it leaves a gap, and what is in `ids` are no ids to use.
///
/// # Errors
///
/// As [`Generator::next_ids_into`].
pub async fn next_ids_into(generator: &Generator, ids: &mut [Id]) -> Result<(), Refusal> {
    let asking = generator.ask(ids.len())?;
    answered(generator, asking, ids).await
}

/// As [`next_ids_into`], into a vector, for which there is no room before `n` is known to be right.
///
/// # Errors
///
/// As [`Generator::next_ids`].
pub async fn next_ids(generator: &Generator, n: usize) -> Result<Vec<Id>, Refusal> {
    let asking = generator.ask(n)?;
    let mut ids = vec![Id::MIN; n];
    answered(generator, asking, &mut ids).await?;
    Ok(ids)
}

async fn answered(
    generator: &Generator,
    mut asking: Asking,
    ids: &mut [Id],
) -> Result<(), Refusal> {
    // Polled for another reason, it is not to be woken twice for this one.
    let mut set: Option<(u64, Waker)> = None;
    poll_fn(|context| match generator.answer(&mut asking, ids) {
        Ok(Asked::Done) => Poll::Ready(Ok(())),
        Ok(Asked::Again { at_boot_ns }) => {
            let waker = context.waker();
            let is_set = set.as_ref().is_some_and(|(set_ns, set)| {
                at_boot_ns.abs_diff(*set_ns) < SAME_NS
                    && *set_ns > os::boot_ns()
                    && set.will_wake(waker)
            });
            if !is_set {
                set = Some((at_boot_ns, waker.clone()));
                if alarm::at(at_boot_ns, waker.clone()).is_err() {
                    // No thread to wake it: it asks again as often as it is polled.
                    waker.wake_by_ref();
                }
            }
            Poll::Pending
        }
        Err(refusal) => Poll::Ready(Err(refusal)),
    })
    .await
}
