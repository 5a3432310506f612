//! A blocking call as a future: it runs on a thread of its own and wakes whoever awaits it.
//!
//! For the few calls of a connection's life that wait for a store. Needs no runtime.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

/// The answer of a call that runs elsewhere. Dropping it does not stop the call.
#[derive(Debug)]
pub(crate) struct Offload<T> {
    slot: Arc<Mutex<Slot<T>>>,
}

#[derive(Debug)]
struct Slot<T> {
    answer: Option<T>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Offload<T> {
    /// Starts the call.
    ///
    /// # Errors
    ///
    /// The system's, if it gives no thread.
    pub(crate) fn start(call: impl FnOnce() -> T + Send + 'static) -> io::Result<Offload<T>> {
        let slot = Arc::new(Mutex::new(Slot { answer: None, waker: None }));
        let ours = Arc::clone(&slot);
        thread::Builder::new().name("snowlease-connect".to_owned()).spawn(move || {
            let answer = call();
            let mut slot = ours.lock().unwrap_or_else(PoisonError::into_inner);
            slot.answer = Some(answer);
            let waker = slot.waker.take();
            drop(slot);
            waker.into_iter().for_each(Waker::wake);
        })?;
        Ok(Offload { slot })
    }
}

impl<T> Future for Offload<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
