//! The newest state of the cluster that this process has seen, by the headers of its answers.
//!
//! A revision only grows. A write that was sent after one was answered, and is answered with a
//! smaller revision, was made on an older copy of the data; so was one with another cluster id.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::proto::ResponseHeader;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) cluster_id: u64,
    pub(crate) revision: i64,
    pub(crate) term: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Newest>);

impl Seen {
    pub(crate) fn newest(&self) -> Newest {
        *self.lock()
    }

    /// Notes the header of an answer to a write; `before` is what was seen when it was sent. Says
    /// what is wrong if the cluster went back since.
    pub(crate) fn note(&self, before: Newest, header: &ResponseHeader) -> Option<String> {
        let mut newest = self.lock();
        let known = before.cluster_id != 0;
        let wrong = if known && header.cluster_id != before.cluster_id {
            Some(format!("another cluster answers ({:x})", header.cluster_id))
        } else if known && header.revision < before.revision {
            Some(format!("etcd went back from revision {} to {}", before.revision, header.revision))
        } else {
            None
        };
        if wrong.is_some() {
            // From here on the older state is the newest there is.
            *newest = Newest {
                cluster_id: header.cluster_id,
                revision: header.revision,
                term: header.raft_term,
            };
        } else {
            newest.cluster_id = header.cluster_id;
            newest.revision = newest.revision.max(header.revision);
            newest.term = newest.term.max(header.raft_term);
        }
        wrong
    }

    fn lock(&self) -> MutexGuard<'_, Newest> {
        // Each change is a few assignments, none of which can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster_id: u64, revision: i64) -> ResponseHeader {
        ResponseHeader { cluster_id, member_id: 1, revision, raft_term: 2 }
    }

    #[test]
    fn only_what_was_sent_after_a_newer_answer_shows_a_step_back() {
        let seen = Seen::default();
        let first = seen.newest();
        assert_eq!(seen.note(first, &header(1, 10)), None);
        let second = seen.newest();
        assert_eq!(seen.note(second, &header(1, 12)), None);
        // Answers to calls at once come in any order.
        assert_eq!(seen.note(second, &header(1, 11)), None);
        assert_eq!(seen.newest().revision, 12);
        let third = seen.newest();
        assert!(seen.note(third, &header(1, 11)).is_some_and(|what| what.contains("12 to 11")));
        // Told once.
        assert_eq!(seen.note(seen.newest(), &header(1, 11)), None);
        assert!(seen.note(seen.newest(), &header(2, 99)).is_some());
    }
}
