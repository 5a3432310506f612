//! How far a clock was ahead and behind at worst, of late.

/// What is older than two of these no longer counts.
const SPELL_NS: u64 = 60_000_000_000;

/// The worst of this minute and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worst {
    began_ns: u64,
    now: Pair,
    before: Pair,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    ahead_ns: u64,
    behind_ns: u64,
}

impl Worst {
    /// At this reading of the boot clock it is ahead by so much; negative if behind.
    pub(super) fn take(&mut self, boot_ns: u64, ahead_ns: i64) {
        let spells = boot_ns.saturating_sub(self.began_ns) / SPELL_NS;
        if spells > 0 {
            self.before = if spells == 1 { self.now } else { Pair::default() };
            (self.began_ns, self.now) = (boot_ns, Pair::default());
        }
        let size_ns = ahead_ns.unsigned_abs();
        let worst = if ahead_ns > 0 { &mut self.now.ahead_ns } else { &mut self.now.behind_ns };
        *worst = size_ns.max(*worst);
    }

    /// Ahead and behind.
    pub(super) fn ns(&self) -> (u64, u64) {
        let Worst { now, before, .. } = self;
        (now.ahead_ns.max(before.ahead_ns), now.behind_ns.max(before.behind_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_kept_for_a_minute_and_forgotten_after_two() {
        let mut worst = Worst::default();
        let minute = |n: u64| 100 * SPELL_NS + n * SPELL_NS;
        worst.take(minute(0), 7);
        worst.take(minute(0) + 1, -3);
        assert_eq!(worst.ns(), (7, 3));
        worst.take(minute(1), 1);
        assert_eq!(worst.ns(), (7, 3));
        worst.take(minute(2), 1);
        assert_eq!(worst.ns(), (1, 0));
        worst.take(minute(9), 2);
        assert_eq!(worst.ns(), (2, 0));
    }
}
