//! Many threads on one generator, in real time.

use super::*;

/// A clock that runs with the processor's own time, for tests with threads.
#[derive(Debug)]
pub(super) struct RunningClock(std::time::Instant);

impl RunningClock {
    pub(super) fn start() -> Arc<RunningClock> {
        #[expect(clippy::disallowed_methods, reason = "a test clock")]
        Arc::new(RunningClock(std::time::Instant::now()))
    }
}

impl Clock for RunningClock {
    fn now(&self) -> crate::Moment {
        let boot_ns = u64::try_from(self.0.elapsed().as_nanos()).unwrap() + 1_000_000_000;
        crate::Moment {
            unix_ms: EPOCH + i64::try_from(boot_ns / 1_000_000).unwrap(),
            sub_ms_ns: u32::try_from(boot_ns % 1_000_000).unwrap(),
            boot_ns,
        }
    }
}

#[test]
fn sixteen_threads_share_a_generator_without_a_duplicate() {
    sixteen_threads(&Generator::new(Format::DEFAULT, RunningClock::start()));
}

#[test]
fn sixteen_threads_share_a_ticking_generator_without_a_duplicate() {
    let clock = RunningClock::start();
    let generator = Generator::new(Format::DEFAULT, clock.clone());
    let generator = generator.with_ticker(Waker::noop().clone());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Ticked::Again { at_boot_ns } = generator.tick() {
                    let left_ns = at_boot_ns.saturating_sub(clock.boot_ns());
                    std::thread::park_timeout(Duration::from_nanos(left_ns));
                }
            }
        });
        sixteen_threads(&generator);
        done.store(true, Ordering::Relaxed);
    });
}

fn sixteen_threads(generator: &Generator) {
    open(generator, 9, (0, 1 << 40));
    let issued: Vec<Vec<Id>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|thread| {
                scope.spawn(move || {
                    let mut ids = Vec::new();
                    while ids.len() < 40_000 {
                        let refused = if thread % 4 == 0 {
                            generator.next_ids(97).map(|batch| ids.extend(batch)).is_err()
                        } else {
                            generator.next_id().map(|id| ids.push(id)).is_err()
                        };
                        if refused {
                            std::thread::yield_now();
                        }
                    }
                    ids
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for ids in &issued {
        assert!(ids.is_sorted_by(|a, b| a < b), "one thread's ids ascend");
    }
    let count: usize = issued.iter().map(Vec::len).sum();
    let distinct: HashSet<Id> = issued.into_iter().flatten().collect();
    assert_eq!(distinct.len(), count);
}

#[test]
fn a_hand_over_between_threads_keeps_the_order() {
    let generator = Generator::new(Format::DEFAULT, RunningClock::start());
    open(&generator, 9, (0, 1 << 40));
    let (to_other, from_first) = std::sync::mpsc::sync_channel::<Id>(0);
    let (back, answers) = std::sync::mpsc::sync_channel::<(Id, Id)>(0);
    std::thread::scope(|scope| {
        let generator = &generator;
        scope.spawn(move || {
            for first in from_first {
                back.send((first, generator.next_id().unwrap())).unwrap();
            }
        });
        for _ in 0..20_000 {
            to_other.send(generator.next_id().unwrap()).unwrap();
            let (first, second) = answers.recv().unwrap();
            assert!(first < second);
        }
        drop(to_other);
    });
}
