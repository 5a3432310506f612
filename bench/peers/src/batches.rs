//! Many ids a call, in a layout whose ticks do not fill up.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;

use snowflake_me::{Snowflake, SnowflakeId};
use snowid::SnowID;
use snowlease_bench::{Guard, generator, pace, timed};
use snowlease_core::{Generator, Id};

use crate::ROUNDS;
use crate::contender::{About, Lane, Proof, Time, Value, burst, compare, judge};
use crate::peers::{self, Shape, Wide};
use crate::row::Table;
use crate::single::about_ours;

/// Ids between two looks at the clock, if a batch is not larger.
const A_BURST: usize = 4_000;
const BURSTS: usize = 10;

/// Batches of `size`.
pub(crate) fn of(size: usize) -> Table {
    let precise = generator(Shape::Wide.layout(), Guard::Counter);
    let ticking = generator(Shape::Wide.layout(), Guard::Ticking);
    let me = peers::snowflake_me_generator(Shape::Wide, 1);
    let (basic, next) = peers::ferroid_basic::<Wide>(3);
    let lanes = vec![
        lane(about_ours("batch, counter", Time::EachCall), size, ours(precise)),
        lane(about_ours("batch, ticking", Time::Thread), size, ours(ticking)),
        lane(peers::about_snowflake_me("batch"), size, snowflake_me(me)),
        lane(peers::about_snowid("generate_batch"), size, snowid_generate()),
        lane(peers::about_snowid("try_generate_batch"), size, snowid_try()),
        lane(About { how: "basic, one by one", ..basic }, size, one_by_one(next)),
    ];
    let (setting, title) = match size {
        100 => ("batches of 100", "Batches of 100"),
        1_000 => ("batches of 1000", "Batches of 1000"),
        _ => ("batches of 100000", "Batches of 100,000"),
    };
    let title = format!("{title}, 41/2/20 (snowid: 42/6/16), one thread");
    compare(setting, title, "ns/id", lanes)
}

/// Writes a batch of ids over the first argument, which has the room.
trait Fill<T>: FnMut(&mut Vec<T>, usize) {}

impl<T, F: FnMut(&mut Vec<T>, usize)> Fill<T> for F {}

fn ours(generator: Arc<Generator>) -> impl Fill<Id> {
    move |ids, _| generator.next_ids_into(ids).unwrap()
}

/// Into a vector that it appends to.
fn snowflake_me(generator: Snowflake) -> impl Fill<SnowflakeId> {
    move |ids, size| {
        ids.clear();
        generator.next_ids_into(size, ids).unwrap();
    }
}

/// Takes the next millisecond when one is full.
fn snowid_generate() -> impl Fill<u64> {
    let generator = peers::snowid_generator(Shape::Wide, 3);
    move |ids, _| generator.generate_batch(ids)
}

/// Writes what is left of a millisecond; the rest is asked for again.
fn snowid_try() -> impl Fill<u64> {
    let generator: SnowID = peers::snowid_generator(Shape::Wide, 3);
    move |ids, _| {
        let mut left = &mut ids[..];
        while !left.is_empty() {
            let written = generator.try_generate_batch(left);
            if written == 0 {
                spin_loop();
            }
            left = &mut left[written..];
        }
    }
}

/// What a library without batches has instead.
fn one_by_one(mut next: impl FnMut() -> u64) -> impl Fill<u64> {
    move |ids, _| _ = burst(ids, None, &mut next)
}

impl Value for SnowflakeId {
    fn blank() -> SnowflakeId {
        SnowflakeId::new(u64::MAX)
    }

    fn wide(self) -> u128 {
        u128::from(self.as_u64())
    }
}

struct Batches<T, F> {
    about: About,
    size: usize,
    fill: F,
    /// One for each batch of a burst.
    out: Vec<Vec<T>>,
    issued: Vec<T>,
    ahead_ms: i64,
    last_ms: i64,
}

fn lane<T: Value + 'static>(
    about: About,
    size: usize,
    fill: impl Fill<T> + 'static,
) -> Box<dyn Lane> {
    let batches = (A_BURST / size).max(1);
    Box::new(Batches {
        about,
        size,
        fill,
        out: vec![vec![T::blank(); size]; batches],
        issued: Vec::with_capacity(size * batches * BURSTS * (ROUNDS + 1)),
        ahead_ms: i64::MIN,
        last_ms: 0,
    })
}

impl<T: Value, F: Fill<T>> Lane for Batches<T, F> {
    fn round(&mut self) -> f64 {
        let mut ns = 0;
        // Large batches speak for themselves.
        let bursts = if self.size > A_BURST { 2 } else { BURSTS };
        for _ in 0..bursts {
            pace();
            ns += timed(|| fill_all(&mut self.out, self.size, &mut self.fill));
            self.last_ms = self.about.stamp.ahead_ms(self.out[self.out.len() - 1][self.size - 1]);
            self.ahead_ms = self.ahead_ms.max(self.last_ms);
            self.out.iter().for_each(|ids| self.issued.extend_from_slice(ids));
        }
        ns as f64 / (bursts * self.out.len() * self.size) as f64
    }

    fn end(mut self: Box<Self>) -> (About, Proof) {
        let (count, repeats) = judge(&self.about, &mut self.issued, true);
        let (ahead_ms, last_ms) = (self.ahead_ms, self.last_ms);
        (self.about, Proof::Ids { count, repeats, ahead_ms, last_ms })
    }
}

/// What is timed: one copy of this for each contender.
#[inline(never)]
fn fill_all<T: Value>(out: &mut [Vec<T>], size: usize, fill: &mut impl Fill<T>) {
    for ids in out {
        fill(black_box(ids), size);
    }
}
