//! Checks of what a store holds: one cell, and one step from a cell to the next, against the
//! invariants that every grant rests on.
//!
//! A store that keeps old versions of its cells is checked step by step; one that does not, as it
//! stands. Pure functions; they decide nothing and change nothing.

use std::collections::HashSet;
use std::fmt;

use crate::{Cell, Holder, Meta, TokenHash, rules};

/// What a check of a whole store has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Cells that were looked at.
    pub cells: u64,
    /// Steps from one version of a cell to the next that were looked at.
    pub steps: u64,
    /// How far back the store keeps the history of its cells, in words.
    pub history: String,
    /// What is not as it must be; empty if the store is sound.
    pub findings: Vec<Finding>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The generator id whose cell it is about, if it is about one.
    pub generator_id: Option<u64>,
    /// What is wrong, in words, with the invariant it breaks.
    pub what: String,
}

impl Finding {
    /// Something wrong with the store as a whole.
    pub fn of_store(what: impl Into<String>) -> Finding {
        Finding { generator_id: None, what: what.into() }
    }

    /// Something wrong with one cell.
    pub fn of_cell(generator_id: u64, what: impl Into<String>) -> Finding {
        Finding { generator_id: Some(generator_id), what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generator_id {
            Some(generator_id) => write!(f, "generator id {generator_id}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What is wrong with a cell as it stands.
pub fn cell(meta: &Meta, cell: &Cell) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |fine: bool, what: String| {
        if !fine {
            wrong.push(what);
        }
    };
    check(
        cell.format == meta.format.fingerprint(),
        "its format is not the store's (I5)".to_owned(),
    );
    check(
        cell.from <= cell.until,
        format!("its window begins at tick {} and ends at {} (I1)", cell.from, cell.until),
    );
    check(
        cell.until <= rules::end(meta.format),
        format!("its window ends at tick {}, past the time field (I3)", cell.until),
    );
    check(
        cell.is_held() || cell.holder == Holder::nobody(),
        "it has a holder and no token".to_owned(),
    );
    check(!cell.is_held() || cell.seq > 0, "it is held and was never granted (I6)".to_owned());
    wrong
}

/// What is wrong with the step from a cell to the next version of it.
pub fn transition(old: &Cell, new: &Cell) -> Vec<String> {
    let mut wrong = Vec::new();
    if new.seq != old.seq.saturating_add(1) {
        wrong.push(format!("seq goes from {} to {} (I6)", old.seq, new.seq));
    }
    let marked = Cell { draining: new.draining, seq: new.seq, ..old.clone() };
    let released = !new.is_held();
    let window = |cell: &Cell| format!("[{}, {})", cell.from, cell.until);
    if *new == marked {
        if old.draining == new.draining {
            wrong.push("a step changes nothing (I6)".to_owned());
        }
    } else if released {
        if !old.is_held() {
            wrong.push("it was released and nobody had it (I1)".to_owned());
        }
        if new.from != old.from || new.until > old.until || new.until < old.from {
            wrong.push(format!("a release makes {} of {} (I1)", window(new), window(old)));
        }
    } else if old.is_held() && new.from == old.from && new.granted_at_ms == old.granted_at_ms {
        // The window of a renewal only grows.
        if new.until <= old.until {
            wrong.push(format!("a renewal makes {} of {} (I1)", window(new), window(old)));
        }
    } else {
        if new.from < old.until {
            wrong.push(format!("{} was granted over {} (I2)", window(new), window(old)));
        }
        if new.token == old.token {
            wrong.push("a grant carries the token of the one before (I6)".to_owned());
        }
        if old.draining {
            wrong.push("it was granted while it was draining".to_owned());
        }
    }
    wrong
}

/// Follows the versions of one cell from the newest back to the oldest.
#[derive(Debug)]
pub struct History {
    newer: Cell,
    /// Tokens that were replaced; one that is met again was used twice.
    spent: HashSet<[u8; 32]>,
}

impl History {
    /// Begins at the cell as it stands.
    pub fn of(newest: Cell) -> History {
        History { newer: newest, spent: HashSet::new() }
    }

    /// Takes the version before, and answers what is wrong with the step from it.
    pub fn before(&mut self, older: Cell) -> Vec<String> {
        let mut wrong = transition(&older, &self.newer);
        if older.token != self.newer.token {
            if self.newer.token != TokenHash::NOBODY {
                self.spent.insert(*self.newer.token.as_bytes());
            }
            if self.spent.contains(older.token.as_bytes()) {
                wrong.push("a token that was replaced comes back (I6)".to_owned());
            }
        }
        self.newer = older;
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snowlease_core::{Format, Tick};

    fn vacant() -> Cell {
        Cell::vacant(Format::DEFAULT.fingerprint())
    }

    fn held(from: u64, until: u64, seq: u64, token: u8) -> Cell {
        Cell {
            from: Tick(from),
            until: Tick(until),
            seq,
            granted_at_ms: i64::try_from(from).unwrap(),
            token: TokenHash::from_bytes([token; 32]),
            holder: Holder::new("web", "", "", "").unwrap(),
            ..vacant()
        }
    }

    fn released(cell: &Cell, until: u64) -> Cell {
        Cell {
            until: Tick(until),
            seq: cell.seq + 1,
            token: TokenHash::NOBODY,
            holder: Holder::nobody(),
            ..cell.clone()
        }
    }

    #[test]
    fn the_steps_of_the_protocol_are_sound() {
        let first = held(10, 70, 1, 1);
        let renewed = Cell {
            until: Tick(90),
            seq: 2,
            token: TokenHash::from_bytes([2; 32]),
            ..first.clone()
        };
        let marked = Cell { draining: true, seq: 3, ..renewed.clone() };
        let unmarked = Cell { draining: false, seq: 4, ..renewed.clone() };
        let left = released(&unmarked, 50);
        let next = held(50, 110, 6, 3);
        let steps = [vacant(), first, renewed, marked, unmarked, left, next];
        for pair in steps.windows(2) {
            assert_eq!(transition(&pair[0], &pair[1]), [""; 0], "{pair:?}");
        }
        let mut history = History::of(steps[6].clone());
        for older in steps.iter().rev().skip(1) {
            assert_eq!(history.before(older.clone()), [""; 0], "{older:?}");
        }
    }

    #[test]
    fn each_broken_step_is_named() {
        let old = held(10, 70, 5, 1);
        let renewed = |until| Cell { until: Tick(until), seq: 6, ..old.clone() };
        let mut draining = old.clone();
        draining.draining = true;
        for (older, newer, invariant) in [
            (&old, held(69, 130, 6, 2), "I2"),
            (&old, held(70, 130, 6, 1), "I6"),
            (&old, held(70, 130, 5, 2), "I6"),
            (&old, held(70, 130, 8, 2), "I6"),
            (&old, renewed(69), "I1"),
            (&old, renewed(70), "I6"),
            (&old, released(&old, 71), "I1"),
            (&old, released(&old, 9), "I1"),
            (&released(&old, 70), released(&released(&old, 70), 60), "I1"),
            (&draining, held(70, 130, 6, 2), "draining"),
        ] {
            let wrong = transition(older, &newer);
            assert!(wrong.iter().any(|what| what.contains(invariant)), "{newer:?}: {wrong:?}");
        }
    }

    #[test]
    fn a_token_that_comes_back_is_found_over_any_distance() {
        let versions = [held(10, 70, 1, 1), held(70, 130, 2, 2), held(130, 190, 3, 1)];
        let mut history = History::of(versions[2].clone());
        assert_eq!(history.before(versions[1].clone()), [""; 0]);
        let wrong = history.before(versions[0].clone());
        assert!(wrong[0].contains("comes back"), "{wrong:?}");
    }

    #[test]
    fn a_cell_that_cannot_be_is_named() {
        let meta = Meta::new(Format::DEFAULT, (0, 9));
        let fine = held(10, 70, 1, 1);
        assert_eq!(cell(&meta, &fine), [""; 0]);
        assert_eq!(cell(&meta, &vacant()), [""; 0]);
        for wrong in [
            Cell { format: 1, ..fine.clone() },
            Cell { from: Tick(71), ..fine.clone() },
            Cell { until: Tick(1 << 60), ..fine.clone() },
            Cell { token: TokenHash::NOBODY, ..fine.clone() },
            Cell { seq: 0, ..fine.clone() },
        ] {
            assert_eq!(cell(&meta, &wrong).len(), 1, "{wrong:?}");
        }
    }
}
