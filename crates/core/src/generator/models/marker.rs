//! A machine that is restored beside an issuing call: nothing of the former lease is returned.

use super::*;

/// A call takes no step of the model between its comparison and its return, so at its return the
/// oracle is exact: an id of the former lease was compared after the machine was restored.
fn take_marked(generator: &Generator, clock: &ScriptedClock, calls: usize) -> Vec<Id> {
    let marker = clock.marker().unwrap();
    let mut ids = Vec::new();
    for _ in 0..calls {
        let Ok(id) = generator.try_next_id() else { continue };
        if tiny().decode(id).generator_id == 5 {
            assert_eq!(marker.load(Ordering::Relaxed), 1, "{id:?} may be another copy's as well");
        }
        ids.push(id);
    }
    ids
}

#[test]
fn loom_restore_and_open_beside_issue_returns_nothing_of_the_former_lease() {
    model(|| {
        let clock = ScriptedClock::at_ms(EPOCH + 100);
        clock.keep_marker();
        let generator = Generator::new(tiny(), clock.clone());
        generator.open(window(tiny(), 5, 0, 200), u64::MAX).unwrap();
        let generator = Arc::new(generator);
        let caller = {
            let (generator, clock) = (Arc::clone(&generator), std::sync::Arc::clone(&clock));
            thread::spawn(move || take_marked(&generator, &clock, 2))
        };
        // Steps of the model, so that the restore finds the caller anywhere.
        let mut ids = take_marked(&generator, &clock, 1);
        clock.restore_machine();
        // Generator id 6 ascends in the tick that 5 has used, so it can be had at once.
        generator.open(window(tiny(), 6, 100, 200), u64::MAX).unwrap();
        assert!(!generator.is_restored());
        ids.extend(take_marked(&generator, &clock, 1));
        ids.extend(caller.join().unwrap());
        assert_distinct(ids);
    });
}
