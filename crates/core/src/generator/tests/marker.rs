//! Machines that were restored from a snapshot: nothing of the lease of before is returned.

use super::*;
use crate::{Gauge, Moment, Pause};
use std::sync::atomic::{AtomicU32, AtomicU64 as StdAtomicU64};

fn marked() -> (Arc<ScriptedClock>, Generator) {
    let clock = ScriptedClock::at_ms(EPOCH + 100);
    clock.keep_marker();
    let generator = Generator::new(Format::DEFAULT, clock.clone());
    open(&generator, 7, (0, 1000));
    (clock, generator)
}

fn all_refuse(generator: &Generator, refusal: Refusal) {
    assert_eq!(generator.next_id(), Err(refusal));
    assert_eq!(generator.try_next_id(), Err(refusal));
    assert_eq!(generator.next_ids(3), Err(refusal));
    assert_eq!(generator.next_ids_into(&mut [Id::MIN; 5000]), Err(refusal));
}

#[test]
fn every_call_after_a_restore_is_refused_until_another_lease_is_open() {
    let (clock, generator) = marked();
    assert!(generator.next_id().is_ok() && !generator.is_restored());
    clock.restore_machine();
    assert!(generator.is_restored());
    all_refuse(&generator, Refusal::Restored);
    clock.advance_ms(3); // no tick is published
    all_refuse(&generator, Refusal::Restored);
    let closed = generator.close().unwrap();
    assert_eq!(closed.generator_id, 7);
    all_refuse(&generator, Refusal::NoLease);
    open(&generator, 8, (closed.unused_from.0, 1000));
    assert!(!generator.is_restored());
    assert_eq!(parts(&generator, generator.next_id().unwrap()).1, 8);
}

#[test]
fn a_lease_under_a_clock_seeded_anew_remembers_the_marker_too() {
    let (clock, generator) = marked();
    clock.restore_machine();
    let window = Window::new(Layout::DEFAULT, 8, Tick(0), Tick(1000)).unwrap();
    generator.open_reseeded(window, u64::MAX, || clock.step_id_clock_ms(-50)).unwrap();
    assert!(!generator.is_restored());
    assert_eq!(parts(&generator, generator.next_id().unwrap()), (50, 8, 0));
    clock.restore_machine();
    assert_eq!(generator.next_id(), Err(Refusal::Restored));
}

#[test]
fn without_a_marker_no_machine_is_restored() {
    let (clock, generator) = opened(Layout::DEFAULT, 100, (0, 1000));
    clock.restore_machine();
    assert!(!generator.is_restored());
    assert!(generator.next_id().is_ok());
}

/// A clock under which the machine is restored at one of its readings.
#[derive(Debug)]
struct RestoringClock {
    clock: Arc<ScriptedClock>,
    readings_left: AtomicU32,
}

impl Clock for RestoringClock {
    fn now(&self) -> Moment {
        if self.readings_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.clock.restore_machine();
        }
        self.clock.now()
    }

    fn gauge(&self) -> Gauge {
        self.clock.gauge()
    }

    fn pause(&self) -> Option<Pause> {
        Clock::pause(&*self.clock)
    }

    fn marker(&self) -> Option<&'static StdAtomicU64> {
        self.clock.marker()
    }
}

#[test]
fn a_restore_at_any_reading_of_the_clock_leaves_no_call_with_ids() {
    let mut whole = 0;
    for readings in 1..120 {
        let clock = ScriptedClock::at_ms(EPOCH + 100);
        clock.keep_marker();
        clock.advance_at_each_reading_ns(40_000);
        let readings_left = AtomicU32::new(readings);
        let clock = Arc::new(RestoringClock { clock, readings_left });
        let generator = Generator::new(Format::DEFAULT, clock);
        open(&generator, 7, (0, 1000));
        let batch = generator.next_ids(10_000);
        assert_eq!(batch.is_err(), generator.is_restored(), "at reading {readings}");
        whole += u32::from(batch.is_ok());
        let single = generator.next_id();
        assert_eq!(single.is_err(), generator.is_restored(), "at reading {readings}");
    }
    assert!((10..100).contains(&whole), "{whole} of 119 batches were over before the restore");
}
