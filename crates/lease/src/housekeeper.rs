//! The one thread of a process that looks after its clocks: a few times a second, whatever else
//! goes on, and not at all while there is nothing to look after.
//!
//! Timers stop while a machine is suspended. This thread is the first to run again, within a
//! quarter of a second, and wakes whoever sleeps for longer.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::PerProcess;

/// Something to be looked after.
pub(crate) trait Chore: Send + Sync {
    /// Does what is due.
    fn look(&self);

    /// How long it may be left alone.
    fn period(&self) -> Duration;
}

#[derive(Default)]
struct Household {
    chores: Vec<Weak<dyn Chore>>,
    runs: bool,
}

/// A forked child has no thread, and looks after nothing of its parent's.
static HOUSEHOLD: PerProcess<Mutex<Household>> = PerProcess::new();

/// Has `chore` looked after for as long as somebody else holds it.
///
/// # Errors
///
/// The system's, if it gives no thread.
pub(crate) fn look_after(chore: &Arc<impl Chore + 'static>) -> io::Result<()> {
    let mut household = household();
    if !household.runs {
        // A process that ends does not wait for it; it holds nothing.
        thread::Builder::new()
            .name("snowlease-clock".to_owned())
            .stack_size(128 * 1024)
            .spawn(run)?;
        household.runs = true;
    }
    let chore: Weak<dyn Chore> = Arc::downgrade(chore) as Weak<_>;
    household.chores.push(chore);
    Ok(())
}

fn run() {
    loop {
        let Some(chores) = present() else { return };
        let period = chores.iter().map(|chore| chore.period()).min().unwrap_or_default();
        for chore in &chores {
            // One that panics costs a look, not all clocks of the process.
            let _ = catch_unwind(AssertUnwindSafe(|| chore.look()));
        }
        drop(chores);
        thread::park_timeout(period);
    }
}

/// Those that somebody still holds; `None`, and the thread ends, if there are none.
fn present() -> Option<Vec<Arc<dyn Chore>>> {
    let mut household = household();
    let chores: Vec<Arc<dyn Chore>> = household.chores.iter().filter_map(Weak::upgrade).collect();
    household.chores.retain(|chore| chore.strong_count() > 0);
    household.runs = !chores.is_empty();
    household.runs.then_some(chores)
}

fn household() -> MutexGuard<'static, Household> {
    HOUSEHOLD.get().lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Counted(AtomicU32);

    impl Chore for Counted {
        fn look(&self) {
            // ORDERING: Relaxed; a count of a test.
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn period(&self) -> Duration {
            Duration::from_millis(5)
        }
    }

    #[test]
    fn each_is_looked_after_while_it_is_held_and_the_thread_ends_with_the_last() {
        for _ in 0..2 {
            let chores = [Counted(AtomicU32::new(0)), Counted(AtomicU32::new(0))].map(Arc::new);
            chores.iter().for_each(|chore| look_after(chore).unwrap());
            // ORDERING: Relaxed; as above.
            let looks = |chore: &Arc<Counted>| chore.0.load(Ordering::Relaxed);
            while chores.iter().any(|chore| looks(chore) < 3) {
                thread::park_timeout(Duration::from_millis(1));
            }
            drop(chores);
            while household().runs {
                thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}
