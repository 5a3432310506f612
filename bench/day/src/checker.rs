//! The check of every id of one generator: whose it is, when it is from, and that it is larger than
//! the one before. Ids that ascend under each generator id are distinct, and so are all of them.

use std::fmt;

use snowlease_core::{Id, Layout, Tick};

/// What the ids of one call may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The window that the store had confirmed before the call: first tick, first tick after.
    pub window: (Tick, Tick),
    /// What the clocks read when the call began, and when it ended; both may be issued.
    pub call: (Tick, Tick),
}

/// Checks the ids of one generator in the order they were issued.
#[derive(Clone, Copy, Debug)]
pub struct Checker {
    layout: Layout,
    generator_id: u64,
    /// The least value that the next id may have.
    least: u64,
    checked: u64,
}

/// Why an id is not what was promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was issued before.
    Repeated(Id),
    /// It is smaller than one issued before.
    Falling(Id),
    /// It carries another generator id.
    Foreign(Id),
    /// Its tick is outside of the window.
    OutsideWindow(Id),
    /// Its tick did not run during the call.
    OutsideCall(Id),
}

impl Checker {
    /// A checker of the ids under this generator id.
    pub fn new(layout: Layout, generator_id: u64) -> Checker {
        Checker { layout, generator_id, least: 0, checked: 0 }
    }

    /// How many ids were found right.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Checks the ids of one call.
    ///
    /// # Errors
    ///
    /// The [`Fault`] of the first id that is wrong. Stop: the promise is broken.
    ///
    /// Cost: less than a nanosecond an id.
    pub fn check(&mut self, ids: &[Id], ticks: Ticks) -> Result<(), Fault> {
        let tick_shift = self.layout.generator_bits() + self.layout.sequence_bits();
        let own_mask = self.layout.max_generator_id() << self.layout.sequence_bits();
        let own = self.generator_id << self.layout.sequence_bits();
        let from = ticks.window.0.max(ticks.call.0).0;
        let until = ticks.window.1.0.min(ticks.call.1.0.saturating_add(1));
        let low = from << tick_shift;
        let high = (until << tick_shift).wrapping_sub(1);
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(()) };
        // Ids are below 2^63, so a difference of two has its highest bit set if the second is the
        // larger. No branch for each id: what is wrong is collected, and asked about once.
        let (mut foreign, mut below) = (0, first.get().wrapping_sub(self.least));
        for id in ids {
            foreign |= (id.get() ^ own) & own_mask;
            below |= id.get().wrapping_sub(low) | high.wrapping_sub(id.get());
        }
        for (id, next) in ids.iter().zip(&ids[1..]) {
            below |= next.get().wrapping_sub(id.get()).wrapping_sub(1);
        }
        let wrong = foreign != 0 || below >> 63 != 0 || until <= from;
        if wrong {
            return Err(self.first_fault(ids, ticks));
        }
        self.least = last.get() + 1;
        self.checked += ids.len() as u64;
        Ok(())
    }

    #[cold]
    fn first_fault(&self, ids: &[Id], ticks: Ticks) -> Fault {
        let mut least = self.least;
        for &id in ids {
            let parts = id.parts(self.layout);
            let (from, until) = ticks.window;
            let (began, ended) = ticks.call;
            if parts.generator_id != self.generator_id {
                return Fault::Foreign(id);
            }
            if id.get() + 1 == least {
                return Fault::Repeated(id);
            }
            if id.get() < least {
                return Fault::Falling(id);
            }
            if parts.tick < from || parts.tick >= until {
                return Fault::OutsideWindow(id);
            }
            if parts.tick < began || parts.tick > ended {
                return Fault::OutsideCall(id);
            }
            least = id.get() + 1;
        }
        // Not reached while both loops ask the same.
        Fault::Falling(ids.last().copied().unwrap_or(Id::MIN))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, what) = match self {
            Fault::Repeated(id) => (id, "was issued before"),
            Fault::Falling(id) => (id, "is smaller than one issued before"),
            Fault::Foreign(id) => (id, "carries another generator id"),
            Fault::OutsideWindow(id) => (id, "carries a tick outside of the window"),
            Fault::OutsideCall(id) => (id, "carries a tick that did not run during the call"),
        };
        write!(f, "id {id} {what}")
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_core::IdParts;

    const LAYOUT: Layout = Layout::FLEET;
    const TICKS: Ticks = Ticks { window: (Tick(100), Tick(200)), call: (Tick(110), Tick(112)) };

    fn id(tick: u64, generator_id: u64, sequence: u64) -> Id {
        Id::compose(LAYOUT, IdParts { tick: Tick(tick), generator_id, sequence }).unwrap()
    }

    fn good() -> Vec<Id> {
        vec![id(110, 7, 0), id(110, 7, 511), id(111, 7, 3), id(112, 7, 0)]
    }

    #[test]
    fn ids_that_keep_every_promise_are_counted() {
        let mut checker = Checker::new(LAYOUT, 7);
        assert_eq!(checker.check(&good(), TICKS), Ok(()));
        assert_eq!(checker.check(&[id(112, 7, 1)], TICKS), Ok(()));
        assert_eq!(checker.checked(), 5);
    }

    #[test]
    fn one_wrong_id_is_found_wherever_it_stands() {
        for place in 0..good().len() {
            for wrong in [
                Fault::Foreign(id(110, 6, 9)),
                Fault::Foreign(id(112, 8, 9)),
                Fault::OutsideCall(id(113, 7, 0)),
                Fault::OutsideWindow(id(200, 7, 0)),
            ] {
                let mut ids = good();
                let (Fault::Foreign(id) | Fault::OutsideCall(id) | Fault::OutsideWindow(id)) =
                    wrong
                else {
                    unreachable!()
                };
                ids[place] = id;
                assert_eq!(Checker::new(LAYOUT, 7).check(&ids, TICKS), Err(wrong), "at {place}");
            }
        }
        let early = id(109, 7, 0);
        let found = Checker::new(LAYOUT, 7).check(&[early], TICKS);
        assert_eq!(found, Err(Fault::OutsideCall(early)));
        let before = id(99, 7, 0);
        let found = Checker::new(LAYOUT, 7).check(&[before], TICKS);
        assert_eq!(found, Err(Fault::OutsideWindow(before)));
    }

    #[test]
    fn a_repeated_and_a_falling_id_are_found_within_a_call() {
        for place in 1..good().len() {
            let mut ids = good();
            ids[place] = ids[place - 1];
            let found = Checker::new(LAYOUT, 7).check(&ids, TICKS);
            assert_eq!(found, Err(Fault::Repeated(ids[place])), "at {place}");
        }
        let mut ids = good();
        ids.swap(1, 2);
        let found = Checker::new(LAYOUT, 7).check(&ids, TICKS);
        assert_eq!(found, Err(Fault::Falling(good()[1])));
    }

    #[test]
    fn a_repeated_and_a_falling_id_are_found_across_calls() {
        let mut checker = Checker::new(LAYOUT, 7);
        checker.check(&good(), TICKS).unwrap();
        let last = good()[3];
        assert_eq!(checker.check(&[last], TICKS), Err(Fault::Repeated(last)));
        let first = good()[0];
        assert_eq!(checker.check(&[first], TICKS), Err(Fault::Falling(first)));
        assert_eq!(checker.checked(), 4, "a call with a wrong id counts for nothing");
    }
}
