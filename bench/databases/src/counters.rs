//! How many ids a second a counter in a database gives, beside a generator.

use std::fmt::Write as _;
use std::sync::{Arc, Barrier};
use std::thread;

use postgres::Client;
use snowlease_bench::{Guard, generator, prove, timed};
use snowlease_core::{Format, Generator, Id};
use snowlease_lease::os;

use crate::database::Database;
use crate::grouped;
use crate::redis::{Connection, INCR, Redis};
use crate::spread::Spread;

/// Rounds of each way to get ids, and how long one lasts.
const ROUNDS: usize = 5;
const ROUND_NS: u64 = 400_000_000;

/// Ids of one statement, one pipeline or one batch.
const MANY: usize = 1_000;
const POSTGRES_CONNECTIONS: usize = 8;
const REDIS_CONNECTIONS: usize = 50;

/// Ids of a generator in one round: it would fill the memory in the time that others have.
const OURS: usize = 1_000_000;

/// One round of a way: adds its ids, and answers how many nanoseconds they took.
type Round<'a> = Box<dyn FnMut(&mut Vec<u64>) -> u64 + 'a>;

/// A way to get ids, and the ids of a second in each round.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) name: &'static str,
    pub(crate) rates: Vec<f64>,
}

impl Counter {
    pub(crate) fn rate(&self) -> Spread {
        Spread::of(self.rates.iter().copied())
    }
}

/// Asks every way in turn, round by round, and shows that none gave an id twice.
pub(crate) fn run(database: &Database) -> Vec<Counter> {
    let mut sql = database.connect();
    sql.batch_execute("CREATE SEQUENCE plain; CREATE SEQUENCE cached CACHE 1000").expect("two");
    let (redis, synced) = (Redis::start(false), Redis::start(true));
    let mut ways: Vec<(&'static str, Round<'_>)> = ours();
    ways.extend(of_postgres(database));
    ways.extend(of_redis(&redis));
    ways.push(("Redis INCR, each write synced, 50 connections", each(&synced)));
    let mut counters: Vec<(Counter, Vec<u64>)> =
        ways.iter().map(|(name, _)| (Counter { name, rates: Vec::new() }, Vec::new())).collect();
    for round in 0..ROUNDS {
        for place in 0..ways.len() {
            let place = (place + round * 3) % ways.len();
            let (counter, ids) = &mut counters[place];
            let before = ids.len();
            let ns = ways[place].1(ids);
            counter.rates.push((ids.len() - before) as f64 / (ns as f64 / 1e9));
        }
    }
    counters.into_iter().map(|(counter, ids)| distinct(counter, ids)).collect()
}

fn distinct(counter: Counter, mut ids: Vec<u64>) -> Counter {
    ids.sort_unstable();
    let repeated = ids.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(!ids.is_empty() && repeated.is_none(), "{}: {repeated:?} came twice", counter.name);
    counter
}

fn ours() -> Vec<(&'static str, Round<'static>)> {
    let usual = generator(Format::DEFAULT.layout(), Guard::Counter);
    let wide = generator("t41g2s20".parse().expect("a layout"), Guard::Counter);
    vec![
        ("Snowlease next_id, at its layout's cap", single(Arc::clone(&usual))),
        ("Snowlease batches of 1000, at its layout's cap", batches(usual)),
        ("Snowlease next_id, layout t41g2s20", single(Arc::clone(&wide))),
        ("Snowlease batches of 1000, layout t41g2s20", batches(wide)),
    ]
}

fn single(generator: Arc<Generator>) -> Round<'static> {
    let mut batch = vec![Id::new(0).expect("an id"); OURS];
    Box::new(move |ids| {
        let ns =
            timed(|| batch.iter_mut().for_each(|id| *id = generator.next_id().expect("an id")));
        prove("next_id", &batch);
        ids.extend(batch.iter().map(|id| id.get()));
        ns
    })
}

fn batches(generator: Arc<Generator>) -> Round<'static> {
    let mut batch = vec![Id::new(0).expect("an id"); OURS];
    Box::new(move |ids| {
        let ns = timed(|| {
            let chunks = batch.chunks_mut(MANY);
            chunks.for_each(|chunk| generator.next_ids_into(chunk).expect("ids"));
        });
        prove("batches", &batch);
        ids.extend(batch.iter().map(|id| id.get()));
        ns
    })
}

fn of_postgres<'a>(database: &'a Database) -> Vec<(&'static str, Round<'a>)> {
    let crowd = |sql: &'static str, connections: usize| -> Round<'a> {
        let mut clients: Vec<Client> = (0..connections).map(|_| database.connect()).collect();
        Box::new(move |ids| statements(&mut clients, sql, ids))
    };
    let (plain, cached) = ("SELECT nextval('plain')", "SELECT nextval('cached')");
    let series = "SELECT nextval('plain') FROM generate_series(1, 1000)";
    vec![
        ("nextval, one connection", crowd(plain, 1)),
        ("nextval, 8 connections", crowd(plain, POSTGRES_CONNECTIONS)),
        ("nextval, CACHE 1000, one connection", crowd(cached, 1)),
        ("nextval, CACHE 1000, 8 connections", crowd(cached, POSTGRES_CONNECTIONS)),
        ("nextval, 1000 in a statement, one connection", crowd(series, 1)),
    ]
}

/// Every connection runs the statement over and over, in a thread of its own.
fn statements(clients: &mut [Client], sql: &str, ids: &mut Vec<u64>) -> u64 {
    let gate = Barrier::new(clients.len() + 1);
    let mut ns = 0;
    let got: Vec<Vec<u64>> = thread::scope(|scope| {
        let threads = clients.iter_mut().map(|client| {
            let gate = &gate;
            scope.spawn(move || {
                let statement = client.prepare(sql).expect("a statement");
                let mut ids = Vec::new();
                gate.wait();
                let end_ns = os::boot_ns() + ROUND_NS;
                while os::boot_ns() < end_ns {
                    let rows = client.query(&statement, &[]).expect("numbers");
                    ids.extend(rows.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()));
                }
                ids
            })
        });
        let threads: Vec<_> = threads.collect();
        gate.wait();
        let began_ns = os::boot_ns();
        let got = threads.into_iter().map(|thread| thread.join().expect("a client")).collect();
        ns = os::boot_ns() - began_ns;
        got
    });
    ids.extend(got.into_iter().flatten());
    ns
}

fn of_redis(redis: &Redis) -> Vec<(&'static str, Round<'static>)> {
    vec![
        ("Redis INCR, one connection", asked(vec![redis.connect()], 1)),
        ("Redis INCR, 50 connections", each(redis)),
        ("Redis INCR, pipelined by 1000, one connection", asked(vec![redis.connect()], MANY)),
    ]
}

fn each(redis: &Redis) -> Round<'static> {
    asked((0..REDIS_CONNECTIONS).map(|_| redis.connect()).collect(), 1)
}

/// Every connection has so many requests under way. One thread serves them all: a thread for each
/// would take time from the server, and the figure should be the best that it can do.
fn asked(mut connections: Vec<Connection>, requests: usize) -> Round<'static> {
    let text = INCR.repeat(requests);
    Box::new(move |ids| {
        let began_ns = os::boot_ns();
        while os::boot_ns() - began_ns < ROUND_NS {
            connections.iter_mut().for_each(|connection| connection.send(&text));
            for connection in &mut connections {
                ids.extend((0..requests).map(|_| connection.number()));
            }
        }
        os::boot_ns() - began_ns
    })
}

/// The ways as a table.
pub(crate) fn table(counters: &[Counter]) -> String {
    let first = counters[0].rate().median;
    let mut out = format!(
        "ids a second, PostgreSQL and Redis {} over loopback TCP; \
         median [middle half] of {ROUNDS}\n",
        Redis::version()
    );
    for counter in counters {
        let rate = counter.rate();
        let spread = format!("[{} … {}]", grouped(rate.low), grouped(rate.high));
        let ratio = first / rate.median;
        let _ = writeln!(
            out,
            "{:<47} {:>13}  {spread:<29} {ratio:>7.2}",
            counter.name,
            grouped(rate.median)
        );
    }
    out.push_str(
        "last column: next_id gives so many times as many\n\
         Redis as it comes may repeat ids after a crash: see \"synced\"",
    );
    out
}
