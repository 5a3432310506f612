//! The oracle: every window that was ever granted and not given back, and whether two of them meet.

use std::collections::BTreeMap;
use std::fmt;

use snowlease_core::Tick;

/// What holders have been told they may use. It takes the worst of them: that they use all of it.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    by_generator_id: BTreeMap<u64, Vec<Span>>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    grant: u64,
    from: Tick,
    until: Tick,
}

impl Windows {
    /// A store confirmed `[from, until)` of a generator id to the grant of this number: newly,
    /// again, or extended.
    ///
    /// # Errors
    ///
    /// [`Breach`]: another grant may use some of it (I2).
    pub fn confirm(
        &mut self,
        grant: u64,
        generator_id: u64,
        from: Tick,
        until: Tick,
    ) -> Result<(), Breach> {
        let spans = self.by_generator_id.entry(generator_id).or_default();
        let other = spans
            .iter()
            .find(|span| span.grant != grant && span.from < until && from < span.until)
            .copied();
        match spans.iter_mut().find(|span| span.grant == grant) {
            Some(span) => span.until = span.until.max(until),
            None => spans.push(Span { grant, from, until }),
        }
        match other {
            Some(other) => Err(Breach {
                generator_id,
                first: (other.grant, other.from, other.until),
                second: (grant, from, until),
            }),
            None => Ok(()),
        }
    }

    /// The grant's holder has closed its gate: it used nothing from `unused_from` on and never
    /// will.
    pub fn give_back(&mut self, grant: u64, generator_id: u64, unused_from: Tick) {
        for span in self.by_generator_id.entry(generator_id).or_default() {
            if span.grant == grant {
                span.until = span.until.min(unused_from);
            }
        }
    }

    /// The first tick of a generator id above all that may have been used; `None` if it was never
    /// granted.
    pub fn end(&self, generator_id: u64) -> Option<Tick> {
        let spans = self.by_generator_id.get(&generator_id)?;
        spans.iter().map(|span| span.until).max()
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.by_generator_id.values().map(Vec::len).sum()
    }

    /// Whether nothing was ever granted.
    pub fn is_empty(&self) -> bool {
        self.by_generator_id.is_empty()
    }
}

/// Two grants may use the same tick of the same generator id: duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The generator id.
    pub generator_id: u64,
    /// Number, `from` and `until` of the grant that was there.
    pub first: (u64, Tick, Tick),
    /// The same of the grant that was confirmed now.
    pub second: (u64, Tick, Tick),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((a, a_from, a_until), (b, b_from, b_until)) = (self.first, self.second);
        write!(
            f,
            "generator id {}: grant {a} has [{a_from}, {a_until}) and \
             grant {b} has [{b_from}, {b_until})",
            self.generator_id
        )
    }
}

impl std::error::Error for Breach {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_may_touch_and_not_overlap() {
        let mut windows = Windows::default();
        let mut confirm = |grant, from, until| windows.confirm(grant, 1, Tick(from), Tick(until));
        assert_eq!(confirm(1, 10, 20), Ok(()));
        assert_eq!(confirm(1, 10, 30), Ok(()));
        assert_eq!(confirm(2, 30, 40), Ok(()));
        assert!(confirm(3, 39, 41).is_err());
    }

    #[test]
    fn what_was_given_back_may_be_granted_again() {
        let mut windows = Windows::default();
        assert!(windows.confirm(1, 1, Tick(10), Tick(20)).is_ok());
        windows.give_back(1, 1, Tick(15));
        assert_eq!(windows.end(1), Some(Tick(15)));
        assert!(windows.confirm(2, 1, Tick(15), Tick(30)).is_ok());
        assert_eq!((windows.len(), windows.end(2)), (2, None));
    }
}
