//! Threads that issue at the same time, as fast as they can, in layouts whose ticks do not fill up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use snowlease_bench::{Guard, generator, generator_of};
use snowlease_lease::os;

use crate::ROUNDS;
use crate::contender::{About, Lane, Proof, Time, Value, burst, compare, judge};
use crate::peers::{self, Shape, SnowdonWide, Wide};
use crate::row::Table;
use crate::single::{about_ours, call, own_handle};

/// Calls of each thread in a round.
const CALLS: usize = 50_000;

/// Two threads, one generator.
pub(crate) fn shared() -> Table {
    let wide = Shape::Wide;
    let precise = call(generator(wide.layout(), Guard::Counter));
    let ticking = call(generator(wide.layout(), Guard::Ticking));
    let lanes = vec![
        both((about_ours("counter", Time::EachCall), precise)),
        both((about_ours("ticking", Time::Thread), ticking)),
        both(peers::ferroid_atomic::<Wide>(3)),
        both(peers::ferroid_lock::<Wide>(3)),
        both(peers::snowflake_me(wide, 1)),
        both(peers::snowid_try(wide, 3)),
        both(peers::idgenerator_shared(wide)),
        both(peers::snowdon::<SnowdonWide<3>>()),
        both(peers::tsid_shared(wide)),
        both(peers::uuid_v7_shared()),
        both(peers::ulid_random()),
    ];
    let title = "Two threads on one generator, 41/2/20 (snowid: 42/6/16), both together";
    compare("two threads, shared", title, "ns/id", lanes)
}

/// Two threads, a generator each, or a handle on one.
pub(crate) fn each_its_own() -> Table {
    let wide = Shape::Wide;
    let precise = generator(wide.layout(), Guard::Counter);
    let ticking = generator(wide.layout(), Guard::Ticking);
    let ours = |how, time, generator| {
        lane(about_ours(how, time), vec![own_handle(generator), own_handle(generator)])
    };
    let apart = |how, time, guard| {
        let of = |generator_id| call(generator_of(wide.layout(), guard, generator_id));
        lane(about_ours(how, time), vec![of(2), of(3)])
    };
    let lanes = vec![
        ours("own handle, counter", Time::EachCall, &precise),
        ours("own handle, ticking", Time::Thread, &ticking),
        apart("counter", Time::EachCall, Guard::Counter),
        apart("ticking", Time::Thread, Guard::Ticking),
        two(peers::ferroid_basic::<Wide>(2), peers::ferroid_basic::<Wide>(3)),
        two(peers::ferroid_atomic::<Wide>(2), peers::ferroid_atomic::<Wide>(3)),
        two(peers::snowflake_me(wide, 0), peers::snowflake_me(wide, 1)),
        two(peers::snowid_try(wide, 2), peers::snowid_try(wide, 3)),
        two(peers::idgenerator_core(wide, 2), peers::idgenerator_core(wide, 3)),
        two(peers::tsid_factory(wide, 2), peers::tsid_factory(wide, 3)),
        two(peers::twitter_snowflake(wide, 2), peers::twitter_snowflake(wide, 3)),
        two(peers::uuid_v7(), peers::uuid_v7()),
        two(peers::ulid_ordered(), peers::ulid_ordered()),
    ];
    let title = "Two threads, a generator each (own handle: on one), 41/2/20, both together";
    compare("two threads, each its own", title, "ns/id", lanes)
}

/// Both threads use one.
fn both<T, F>((about, next): (About, F)) -> Box<dyn Lane>
where
    T: Value + 'static,
    F: FnMut() -> T + Clone + Send + 'static,
{
    lane(about, vec![next.clone(), next])
}

/// Each thread has its own.
fn two<T, F>((about, one): (About, F), (_, other): (About, F)) -> Box<dyn Lane>
where
    T: Value + 'static,
    F: FnMut() -> T + Send + 'static,
{
    lane(about, vec![one, other])
}

struct Threads<T, F> {
    about: About,
    threads: Vec<(F, Vec<T>)>,
    issued: Vec<T>,
    ahead_ms: i64,
    last_ms: i64,
}

fn lane<T, F>(about: About, threads: Vec<F>) -> Box<dyn Lane>
where
    T: Value + 'static,
    F: FnMut() -> T + Send + 'static,
{
    let issued = Vec::with_capacity(threads.len() * CALLS * (ROUNDS + 1));
    let threads = threads.into_iter().map(|next| (next, vec![T::blank(); CALLS])).collect();
    Box::new(Threads { about, threads, issued, ahead_ms: i64::MIN, last_ms: 0 })
}

impl<T: Value, F: FnMut() -> T + Send> Lane for Threads<T, F> {
    fn round(&mut self) -> f64 {
        let all = self.threads.len();
        let ready = AtomicUsize::new(0);
        let spans: Vec<(u64, u64)> = thread::scope(|scope| {
            let running: Vec<_> = self
                .threads
                .iter_mut()
                .map(|(next, out)| {
                    let ready = &ready;
                    scope.spawn(move || {
                        // ORDERING: Relaxed; it is only about when to begin. A barrier of the
                        // standard library wakes threads tens of microseconds apart.
                        ready.fetch_add(1, Ordering::Relaxed);
                        // ORDERING: Relaxed, as above.
                        while ready.load(Ordering::Relaxed) < all {
                            std::hint::spin_loop();
                        }
                        let began_ns = os::boot_ns();
                        burst(out, None, next);
                        (began_ns, os::boot_ns())
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (_, out) in &self.threads {
            self.last_ms = self.about.stamp.ahead_ms(out[CALLS - 1]);
            self.ahead_ms = self.ahead_ms.max(self.last_ms);
            if self.about.is_ours() {
                let ascend = out.is_sorted_by(|a, b| a < b);
                assert!(ascend, "{}: a thread saw ids repeat or fall", self.about.how);
            }
            self.issued.extend_from_slice(out);
        }
        let began_ns = spans.iter().map(|span| span.0).min().unwrap();
        let ended_ns = spans.iter().map(|span| span.1).max().unwrap();
        (ended_ns - began_ns) as f64 / (all * CALLS) as f64
    }

    fn end(mut self: Box<Self>) -> (About, Proof) {
        let (count, repeats) = judge(&self.about, &mut self.issued, false);
        let (ahead_ms, last_ms) = (self.ahead_ms, self.last_ms);
        (self.about, Proof::Ids { count, repeats, ahead_ms, last_ms })
    }
}
