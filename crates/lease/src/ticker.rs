//! The thread of a generator with the ticking guard: publishes each tick while ids are asked for,
//! and sleeps while they are not.

use std::io;
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use snowlease_core::{Clock, Generator, Ticked};

use crate::IdClock;

/// Wakes the thread; and, when the generator is dropped with it, ends it.
#[derive(Debug)]
struct Alarm(OnceLock<Thread>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.get().into_iter().for_each(Thread::unpark);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.get().into_iter().for_each(Thread::unpark);
    }
}

/// Gives `generator` the ticking guard: its calls read no clock, and a thread of its own publishes
/// the ticks. See [`Generator::with_ticker`] for what that gives up. The thread ends with the
/// generator.
///
/// # Errors
///
/// The system's, if it gives no thread.
///
/// Cost: a thread that wakes once a tick while ids are asked for, and not at all otherwise.
pub fn ticking(generator: Generator, clock: Arc<IdClock>) -> io::Result<Arc<Generator>> {
    let alarm = Arc::new(Alarm(OnceLock::new()));
    let generator = Arc::new(generator.with_ticker(Waker::from(Arc::clone(&alarm))));
    let (give, take) = mpsc::channel::<Weak<Generator>>();
    let thread = thread::Builder::new()
        .name("snowlease-ticker".to_owned())
        .stack_size(128 * 1024)
        .spawn(move || {
            take.recv().into_iter().for_each(|generator| run(&generator, &clock));
        })?;
    // Set once, here.
    let _ = alarm.0.set(thread.thread().clone());
    // The thread waits for it.
    let _ = give.send(Arc::downgrade(&generator));
    Ok(generator)
}

fn run(generator: &Weak<Generator>, clock: &IdClock) {
    while let Some(generator) = generator.upgrade() {
        let ticked = generator.tick();
        drop(generator);
        match ticked {
            Ticked::Again { at_boot_ns } => {
                let left_ns = at_boot_ns.saturating_sub(clock.boot_ns());
                thread::park_timeout(Duration::from_nanos(left_ns));
            }
            Ticked::Idle => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use snowlease_core::{Format, Id, Tick, Window};

    use super::*;
    use crate::os;

    fn ticking_now() -> Arc<Generator> {
        let clock = IdClock::start();
        let generator = Generator::new(Format::DEFAULT, Arc::clone(&clock) as Arc<_>);
        let window = Window::new(Format::DEFAULT.layout(), 5, Tick(0), Tick(1 << 41)).unwrap();
        generator.open(window, u64::MAX).unwrap();
        ticking(generator, clock).unwrap()
    }

    #[test]
    fn ids_keep_up_with_the_clock_while_the_thread_ticks_and_after_it_slept() {
        let generator = ticking_now();
        let mut last: Option<Id> = None;
        for _ in 0..3 {
            let until_ns = os::boot_ns() + 100_000_000;
            while os::boot_ns() < until_ns {
                let Ok(id) = generator.try_next_id() else { continue };
                assert!(Some(id) > last);
                last = Some(id);
            }
            // Long enough for it to sleep.
            thread::park_timeout(Duration::from_millis(100));
            let (id, wall_ms) = (generator.next_id().unwrap(), os::wall_ms());
            let id_ms = Format::DEFAULT.unix_ms(Format::DEFAULT.decode(id).tick);
            assert!(wall_ms.abs_diff(id_ms) < 50, "{id_ms} at {wall_ms}");
            assert!(Some(id) > last);
            last = Some(id);
        }
    }

    #[test]
    fn the_thread_ends_with_its_generator() {
        let generator = ticking_now();
        generator.next_id().unwrap();
        let held = Arc::downgrade(&generator);
        drop(generator);
        while held.strong_count() > 0 {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}
