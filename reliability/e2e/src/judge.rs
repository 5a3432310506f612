//! What must not be: the same id twice, and an id under a new lease before the quarantine is over.

use std::collections::BTreeSet;

use crate::format::{is_id, parts};
use crate::holder::Holder;

#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) ids: usize,
    pub(crate) duplicates: usize,
    /// In words, for people.
    pub(crate) wrong: Vec<String>,
}

/// Judges all ids of these holders. Those that were started after the store was put back have no
/// business below the floor; the others none from the end of their windows to the floor, and none
/// under a generator id that they did not have before.
pub(crate) fn judge(
    holders: &[Holder],
    rollback: (u64, u64),
    floor: u64,
    is_new: impl Fn(&str) -> bool,
) -> Judged {
    let drawn: Vec<(&str, Vec<u64>, bool)> = holders
        .iter()
        .map(|holder| (&*holder.name, holder.drawn().ids.clone(), is_new(&holder.name)))
        .collect();
    let drawn: Vec<_> = drawn.iter().map(|(name, ids, new)| (*name, &ids[..], *new)).collect();
    judge_ids(&drawn, rollback, floor)
}

/// `rollback`: the tick when it began, and the last one of any window from before.
fn judge_ids(
    holders: &[(&str, &[u64], bool)],
    (begun, windows_end): (u64, u64),
    floor: u64,
) -> Judged {
    let mut judged = Judged::default();
    let mut all: Vec<(u64, usize)> = Vec::new();
    for (place, (name, ids, new)) in holders.iter().enumerate() {
        judged.ids += ids.len();
        all.extend(ids.iter().map(|id| (*id, place)));
        if let Some(id) = ids.iter().find(|id| !is_id(**id)) {
            judged.wrong.push(format!("{name} issued {id}, which is no id of this store"));
        }
        if !ids.is_sorted_by(|a, b| a < b) {
            judged.wrong.push(format!("{name} issued ids out of order"));
        }
        let parts = || ids.iter().map(|id| parts(*id));
        let before = parts().filter(|(tick, _)| *tick < begun && !new);
        let had: BTreeSet<u64> = before.map(|(_, generator_id)| generator_id).collect();
        let early = parts().filter(|(tick, generator_id)| {
            let after = *new || *tick > windows_end;
            (begun..floor).contains(tick) && (after || !had.contains(generator_id))
        });
        let early = early.count();
        if early > 0 {
            judged.wrong.push(format!("{name} issued {early} ids before the quarantine was over"));
        }
    }
    all.sort_unstable();
    let twice: Vec<_> = all.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
    judged.duplicates = twice.len();
    let name = |place: usize| holders[place].0;
    let who: BTreeSet<String> = twice
        .iter()
        .map(|pair| {
            let generator_id = parts(pair[0].0).1;
            format!("{} and {} under generator id {generator_id}", name(pair[0].1), name(pair[1].1))
        })
        .collect();
    judged.wrong.extend(who.into_iter().map(|who| format!("the same ids were issued by {who}")));
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tick: u64, generator_id: u64) -> u64 {
        tick << 22 | generator_id << 2
    }

    #[test]
    fn what_is_right_is_found_right() {
        let known = [id(10, 1), id(20, 1), id(90, 3)];
        let new = [id(90, 1), id(91, 1)];
        let judged = judge_ids(&[("a", &known, false), ("b", &new, true)], (15, 30), 90);
        assert_eq!((judged.ids, judged.duplicates), (5, 0));
        assert!(judged.wrong.is_empty(), "{judged:?}");
    }

    #[test]
    fn everything_that_must_not_be_is_found() {
        let found =
            |holders: &[(&str, &[u64], bool)]| judge_ids(holders, (15, 30), 90).wrong.join("; ");
        let (ten, ninety) = ([id(10, 1)], [id(90, 1)]);
        let twice = found(&[("a", &ten, false), ("b", &ten, false)]);
        assert_eq!(twice, "the same ids were issued by a and b under generator id 1");
        assert!(found(&[("a", &[id(89, 1)], true)]).contains("1 ids before"));
        assert!(found(&[("a", &[id(31, 1)], false)]).contains("1 ids before"));
        // Another generator id, although the window was not over.
        assert!(found(&[("a", &[id(10, 1), id(25, 2)], false)]).contains("1 ids before"));
        assert!(found(&[("a", &[id(95, 1), id(94, 1)], false)]).contains("out of order"));
        assert!(found(&[("a", &[id(95, 9)], false)]).contains("no id of this store"));
        assert_eq!(found(&[("a", &ten, false), ("b", &ninety, true)]), "");
    }
}
