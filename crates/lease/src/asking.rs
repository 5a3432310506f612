//! Ids for callers that may not block, under any executor.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use snowlease_core::{Asked, Asking, Generator, Id, Refusal};

use crate::alarm;

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

async fn answered(
    generator: &Generator,
    mut asking: Asking,
    ids: &mut [Id],
) -> Result<(), Refusal> {
    poll_fn(|context| match generator.answer(&mut asking, ids) {
        Ok(Asked::Done) => Poll::Ready(Ok(())),
        Ok(Asked::Again { at_boot_ns }) => {
            let waker = context.waker().clone();
            if alarm::at(at_boot_ns, waker).is_err() {
                // No thread to wake it: it asks again as often as it is polled.
                Waker::wake_by_ref(context.waker());
            }
            Poll::Pending
        }
        Err(refusal) => Poll::Ready(Err(refusal)),
    })
    .await
}
