//! Wakes futures at readings of the boot clock: one thread in a process, asleep while none waits.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Duration;

use crate::{PerProcess, os};

static ALARM: PerProcess<Alarm> = PerProcess::new();

/// How long before it is due the thread stays awake: a sleeping thread may be woken a whole tick
/// late, above all on a virtual processor that went idle meanwhile.
const WATCH_NS: u64 = 1_100_000;

/// The longest nap, so that a clock that jumps is soon seen.
const LONGEST_NAP_NS: u64 = 2_000_000;

/// A clock that stands still is looked at for this much slept time, or so often, before whoever
/// waits is woken all the same and finds out.
const STALLED_NS: u64 = 10_000_000;
const STALLED_ROUNDS: u32 = 50_000;

#[derive(Debug, Default)]
struct Alarm(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    due: BinaryHeap<Reverse<Due>>,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Due {
    boot_ns: u64,
    waker: Waker,
}

/// Wakes `waker` once the boot clock reads `boot_ns`, or soon after; early only if the clock stands
/// still.
///
/// # Errors
///
/// The system's, if it gives no thread.
pub(crate) fn at(boot_ns: u64, waker: Waker) -> io::Result<()> {
    let mut queue = ALARM.get().queue();
    let thread = match &queue.thread {
        Some(thread) => thread.clone(),
        None => {
            let started = thread::Builder::new()
                .name("snowlease-alarm".to_owned())
                .stack_size(128 * 1024)
                .spawn(|| ALARM.get().run())?;
            queue.thread.insert(started.thread().clone()).clone()
        }
    };
    let first = queue.due.peek().is_none_or(|Reverse(due)| boot_ns < due.boot_ns);
    queue.due.push(Reverse(Due { boot_ns, waker }));
    drop(queue);
    if first {
        thread.unpark();
    }
    Ok(())
}

impl Alarm {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let (mut last_ns, mut slept_ns, mut rounds) = (0, 0, 0u32);
        loop {
            let now_ns = os::boot_ns();
            if now_ns != last_ns {
                (last_ns, slept_ns, rounds) = (now_ns, 0, 0);
            }
            rounds += 1;
            let stalled = slept_ns > STALLED_NS || rounds > STALLED_ROUNDS;
            let (woken, next_ns) = self.due(if stalled { u64::MAX } else { now_ns });
            if !woken.is_empty() {
                woken.into_iter().for_each(wake);
                (slept_ns, rounds) = (0, 0);
                continue;
            }
            match next_ns.map(|next_ns| next_ns.saturating_sub(now_ns)) {
                None => {
                    thread::park();
                    (slept_ns, rounds) = (0, 0);
                }
                Some(left_ns) if left_ns > WATCH_NS => {
                    let nap_ns = (left_ns - WATCH_NS).min(LONGEST_NAP_NS);
                    thread::park_timeout(Duration::from_nanos(nap_ns));
                    slept_ns += nap_ns;
                }
                Some(_) => thread::yield_now(),
            }
        }
    }

    /// Who is due at this reading, and when the next one is.
    fn due(&self, reached_ns: u64) -> (Vec<Waker>, Option<u64>) {
        let mut queue = self.queue();
        let mut woken = Vec::new();
        while let Some(Reverse(first)) = queue.due.peek() {
            if first.boot_ns > reached_ns {
                return (woken, Some(first.boot_ns));
            }
            woken.extend(queue.due.pop().map(|Reverse(due)| due.waker));
        }
        (woken, None)
    }
}

/// Wakes one, and outlives its executor: a waker may panic, and the others wait for this thread.
fn wake(waker: Waker) {
    // The panic was told where panics are told; there is nothing here that it leaves half done.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.boot_ns == other.boot_ns
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        self.boot_ns.cmp(&other.boot_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    #[derive(Debug)]
    struct Tells(Mutex<Vec<(u64, u64)>>);

    #[derive(Debug)]
    struct One {
        due_ns: u64,
        tells: Arc<Tells>,
    }

    impl Wake for One {
        fn wake(self: Arc<Self>) {
            self.tells.0.lock().unwrap().push((self.due_ns, os::boot_ns()));
        }
    }

    #[derive(Debug)]
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("the executor is gone");
        }
    }

    #[test]
    fn a_waker_that_panics_leaves_the_others_their_turn() {
        let tells = Arc::new(Tells(Mutex::new(Vec::new())));
        for round in 1..4 {
            let due_ns = os::boot_ns() + 1_000_000;
            at(due_ns, Waker::from(Arc::new(Panics))).unwrap();
            let one = One { due_ns, tells: Arc::clone(&tells) };
            at(due_ns, Waker::from(Arc::new(one))).unwrap();
            while tells.0.lock().unwrap().len() < round {
                thread::park_timeout(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn each_is_woken_in_turn_and_none_early() {
        let tells = Arc::new(Tells(Mutex::new(Vec::new())));
        let now_ns = os::boot_ns();
        for ms in [9, 3, 20, 3, 0] {
            let one = One { due_ns: now_ns + ms * 1_000_000, tells: Arc::clone(&tells) };
            at(one.due_ns, Waker::from(Arc::new(one))).unwrap();
        }
        while tells.0.lock().unwrap().len() < 5 {
            thread::park_timeout(Duration::from_millis(1));
        }
        let told = tells.0.lock().unwrap();
        assert!(told.iter().all(|(due_ns, woken_ns)| woken_ns >= due_ns), "{told:?}");
        assert!(told.is_sorted_by_key(|(due_ns, _)| *due_ns), "{told:?}");
    }
}
