//! Many holders' asks in few calls of the store.
//!
//! An ask waits while others are being answered, and goes to the store together with all that came
//! meanwhile. Under light load each has a call of its own and waits for nothing; under heavy load
//! a call of the store answers many. Nothing runs in the background: whoever comes to a free place
//! makes the call for everyone who waits.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, oneshot};

/// The most asks in one call: what a store settles in one transaction, or a few.
const MOST: usize = 256;

/// Gathers asks of one kind.
pub(crate) struct Coalescer<A, T> {
    waiting: Arc<Waiting<A, T>>,
    calls: Arc<Semaphore>,
}

struct Waiting<A, T> {
    queue: Mutex<VecDeque<Asked<A, T>>>,
    /// Whether two asks may not be in one call, as two of one generator id.
    same: fn(&A, &A) -> bool,
}

struct Asked<A, T> {
    ask: A,
    answer: oneshot::Sender<T>,
}

impl<A: Send + 'static, T: Send + 'static> Coalescer<A, T> {
    /// Makes as many calls at once as `calls`; asks that are the `same` come into separate ones.
    pub(crate) fn new(calls: usize, same: fn(&A, &A) -> bool) -> Coalescer<A, T> {
        let queue = Mutex::new(VecDeque::new());
        let waiting = Arc::new(Waiting { queue, same });
        Coalescer { waiting, calls: Arc::new(Semaphore::new(calls)) }
    }

    /// Has `call` answer the ask, with others or alone; `call` may block. `None`: the call failed
    /// to answer, and it is not known what it did.
    ///
    /// If the caller goes away before the ask is sent, it is not sent.
    pub(crate) async fn ask(
        &self,
        ask: A,
        call: impl Fn(&[A]) -> Vec<T> + Send + 'static,
    ) -> Option<T> {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().push_back(Asked { ask, answer });
        let calls = Arc::clone(&self.calls);
        let permit = tokio::select! {
            biased;
            // Somebody else's call took it along.
            answer = &mut answered => return answer.ok(),
            permit = calls.acquire_owned() => permit.ok()?,
        };
        let waiting = Arc::clone(&self.waiting);
        drop(tokio::task::spawn_blocking(move || {
            let _permit = permit;
            while let Some((asks, answers)) = waiting.next() {
                for (answer, to) in call(&asks).into_iter().zip(answers) {
                    // Who has gone away needs no answer.
                    drop(to.send(answer));
                }
            }
        }));
        answered.await.ok()
    }
}

impl<A, T> Waiting<A, T> {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Asked<A, T>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The asks for one call, with those who wait for the answers; `None` if nobody waits.
    fn next(&self) -> Option<(Vec<A>, Vec<oneshot::Sender<T>>)> {
        let mut queue = self.lock();
        let (mut asks, mut answers) = (Vec::new(), Vec::new());
        let mut later = VecDeque::new();
        while let Some(asked) = queue.pop_front() {
            if asked.answer.is_closed() {
                continue;
            }
            if asks.len() == MOST || asks.iter().any(|other| (self.same)(other, &asked.ask)) {
                later.push_back(asked);
                if asks.len() == MOST {
                    break;
                }
                continue;
            }
            asks.push(asked.ask);
            answers.push(asked.answer);
        }
        later.append(&mut queue);
        *queue = later;
        (!asks.is_empty()).then_some((asks, answers))
    }
}

impl<A, T> fmt::Debug for Coalescer<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalescer").field("waiting", &self.waiting.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    type Numbers = Coalescer<u32, u32>;

    fn doubled(asks: &[u32]) -> Vec<u32> {
        asks.iter().map(|ask| ask * 2).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_comes_during_a_call_goes_into_the_next_one_together() {
        let numbers = Arc::new(Numbers::new(1, |a, b| a == b));
        let calls = Arc::new(AtomicUsize::new(0));
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let ask = |number: u32| {
            let (numbers, calls, wait) =
                (Arc::clone(&numbers), Arc::clone(&calls), Arc::clone(&wait));
            tokio::spawn(async move {
                let call = move |asks: &[u32]| {
                    // ORDERING: SeqCst; a test's counter needs no cleverness.
                    if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                        wait.lock().unwrap().recv().unwrap();
                    }
                    doubled(asks)
                };
                numbers.ask(number, call).await
            })
        };
        let first = ask(0);
        while calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (1..=100).map(&ask).collect();
        while numbers.waiting.lock().len() < 100 {
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Some(0));
        for (number, other) in (1..).zip(others) {
            assert_eq!(other.await.unwrap(), Some(number * 2));
        }
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn the_same_asks_come_into_separate_calls() {
        let numbers = Numbers::new(1, |a, b| a == b);
        let alone = |asks: &[u32]| {
            assert_eq!(asks.iter().filter(|ask| **ask == 7).count(), 1, "{asks:?}");
            doubled(asks)
        };
        let (a, b, c) =
            tokio::join!(numbers.ask(7, alone), numbers.ask(7, alone), numbers.ask(7, alone));
        assert_eq!([a, b, c], [Some(14); 3]);
    }

    #[tokio::test]
    async fn a_call_that_panics_answers_nobody_and_the_next_one_goes_on() {
        let numbers = Numbers::new(1, |_, _| false);
        assert_eq!(numbers.ask(1, |_| panic!("of the driver")).await, None);
        assert_eq!(numbers.ask(1, doubled).await, Some(2));
        // Nor does one that answers too few.
        let numbers = Numbers::new(1, |_, _| false);
        assert_eq!(numbers.ask(1, |_| Vec::new()).await, None);
    }

    #[tokio::test]
    async fn who_has_gone_away_is_not_asked_for() {
        let numbers = Arc::new(Numbers::new(1, |_, _| false));
        let place = Arc::clone(&numbers.calls).acquire_owned().await.unwrap();
        let gone = tokio::time::timeout(Duration::from_millis(5), numbers.ask(1, doubled)).await;
        assert!(gone.is_err());
        drop(place);
        let only = |asks: &[u32]| {
            assert_eq!(asks, [2]);
            doubled(asks)
        };
        assert_eq!(numbers.ask(2, only).await, Some(4));
    }
}
