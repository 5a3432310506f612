//! The window: where a holder may issue, `[from, until)` in ticks, for one generator id.
//!
//! This is what a lease grants, and the reason ids are unique without any clock: the store never
//! lets two windows of one generator id overlap, and a generator never composes an id outside its
//! window.

use std::fmt;

use crate::{Layout, Tick};

/// A half-open interval of ticks in which one holder may issue under one generator id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    generator_id: u64,
    from: Tick,
    until: Tick,
}

impl Window {
    /// Makes a window; `until` is the first tick that may *not* be used.
    ///
    /// # Errors
    ///
    /// * [`WindowError::GeneratorId`]: the generator id does not fit the layout.
    /// * [`WindowError::Empty`]: `from` is not before `until`.
    /// * [`WindowError::PastTimeEnd`]: `until` lies beyond the time field.
    pub const fn new(
        layout: Layout,
        generator_id: u64,
        from: Tick,
        until: Tick,
    ) -> Result<Window, WindowError> {
        let window = Window { generator_id, from, until };
        match window.check(layout) {
            Ok(()) => Ok(window),
            Err(error) => Err(error),
        }
    }

    /// The checks of [`Window::new`] against another layout.
    pub(crate) const fn check(self, layout: Layout) -> Result<(), WindowError> {
        let max = layout.max_generator_id();
        if self.generator_id > max {
            return Err(WindowError::GeneratorId { generator_id: self.generator_id, max });
        }
        if self.from.0 >= self.until.0 {
            return Err(WindowError::Empty { from: self.from, until: self.until });
        }
        // `max_tick` is at most 2^63 - 1, so adding one does not wrap.
        if self.until.0 > layout.max_tick() + 1 {
            return Err(WindowError::PastTimeEnd { until: self.until, end: layout.max_tick() + 1 });
        }
        Ok(())
    }

    /// The generator id it is for.
    pub const fn generator_id(self) -> u64 {
        self.generator_id
    }

    /// The first tick that may be used.
    pub const fn from(self) -> Tick {
        self.from
    }

    /// The first tick that may no longer be used.
    pub const fn until(self) -> Tick {
        self.until
    }
}

/// Why ticks are no window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// The generator id does not fit the layout.
    GeneratorId {
        /// The generator id given.
        generator_id: u64,
        /// The largest one of the layout.
        max: u64,
    },
    /// The window holds no tick.
    Empty {
        /// First tick.
        from: Tick,
        /// First tick after.
        until: Tick,
    },
    /// The window reaches beyond the time field.
    PastTimeEnd {
        /// First tick after the window.
        until: Tick,
        /// First tick after the time field.
        end: u64,
    },
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowError::GeneratorId { generator_id, max } => {
                write!(f, "generator id {generator_id} does not fit: the layout holds 0 to {max}")
            }
            WindowError::Empty { from, until } => {
                write!(f, "the window [{from}, {until}) holds no tick")
            }
            WindowError::PastTimeEnd { until, end } => {
                write!(
                    f,
                    "a window until tick {until} reaches past the time field, which ends at {end}"
                )
            }
        }
    }
}

impl std::error::Error for WindowError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_checked_at_the_door() {
        let window = |g, from, until| Window::new(Layout::DEFAULT, g, Tick(from), Tick(until));
        assert!(window(1023, 0, 1).is_ok());
        assert_eq!(
            window(1024, 0, 1),
            Err(WindowError::GeneratorId { generator_id: 1024, max: 1023 })
        );
        assert!(matches!(window(0, 5, 5), Err(WindowError::Empty { .. })));
        assert!(matches!(window(0, 6, 5), Err(WindowError::Empty { .. })));
        assert!(window(0, 0, 1 << 41).is_ok());
        assert!(matches!(window(0, 0, (1 << 41) + 1), Err(WindowError::PastTimeEnd { .. })));
    }
}
