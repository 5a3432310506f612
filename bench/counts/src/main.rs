//! Calls one function of the hot path a thousand times: `counts NAME`, under a tool that counts the
//! instructions in between. Without a name it prints the names.
//!
//! The clock stands still and its counter seems to run a million times as fast as any does, so that
//! no tick ends while the tool slows everything down: what is counted is the same in every run.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool prints")]
#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Waker;

use snowlease_core::{Clock, Format, Gauge, Generator, Id, Layout, Moment, TextForm, Tick, Window};

const CALLS: usize = 1_000;

/// Each function, by the name it has in `expected.toml`.
const COUNTED: &[(&str, fn())] = &[
    ("next_id_counter", || each(&generator(false), |generator| generator.next_id().ok())),
    ("next_id_ticking", || each(&generator(true), |generator| generator.next_id().ok())),
    ("try_next_id_ticking", || each(&generator(true), |generator| generator.try_next_id().ok())),
    ("local_counter", || local(false)),
    ("local_ticking", || local(true)),
    ("batch_of_1000", batch),
    ("first_of_a_tick", first_of_a_tick),
    ("crockford_encode", crockford_encode),
    ("crockford_decode", crockford_decode),
];

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        COUNTED.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    let Some((_, run)) = COUNTED.iter().find(|(known, _)| *known == name) else {
        eprintln!("counts: nothing is called {name}; without a name, counts prints them all");
        return ExitCode::from(2);
    };
    run();
    ExitCode::SUCCESS
}

/// A clock that stands still, with a counter that never leaves a tick.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Moment {
        Moment { unix_ms: Format::DEFAULT.epoch_ms() + 1_000, sub_ms_ns: 0, boot_ns: 1_000_000_000 }
    }

    fn gauge(&self) -> Gauge {
        Gauge::Counter { hz: 1_000_000_000_000_000 }
    }
}

fn generator(ticking: bool) -> Arc<Generator> {
    let layout = Layout::new(41, 2, 20).expect("a layout");
    let format = Format::new(layout, 1, Format::DEFAULT.epoch_ms()).expect("a format");
    let mut generator = Generator::new(format, Arc::new(Still));
    if ticking {
        generator = generator.with_ticker(Waker::noop().clone());
    }
    let window = Window::new(layout, 3, Tick(0), Tick(1 << 40)).expect("a window");
    generator.open(window, u64::MAX).expect("an open generator");
    generator.tick();
    Arc::new(generator)
}

/// What the tool counts: from here to the end of the work, and nothing else.
#[inline(never)]
fn counted(work: impl FnOnce()) {
    work();
}

fn each<T>(source: &T, issue: impl Fn(&T) -> Option<Id>) {
    let mut ids = warm(|| issue(source));
    counted(|| ids.extend((0..CALLS).map_while(|_| issue(black_box(source)))));
    prove(&ids);
}

/// Room for all ids, with the first of them: whatever happens once has happened.
fn warm(mut issue: impl FnMut() -> Option<Id>) -> Vec<Id> {
    let mut ids = Vec::with_capacity(2 * CALLS);
    ids.extend((0..CALLS).map_while(|_| issue()));
    ids
}

fn prove(ids: &[Id]) {
    assert!(ids.len() == 2 * CALLS && ids.is_sorted_by(|a, b| a < b), "ids are missing or fall");
}

fn local(ticking: bool) {
    let mut local = generator(ticking).local();
    let mut ids = warm(|| local.next_id().ok());
    counted(|| ids.extend((0..CALLS).map_while(|_| black_box(&mut local).next_id().ok())));
    prove(&ids);
}

fn batch() {
    let generator = generator(false);
    let mut ids = [Id::MIN; 2 * CALLS];
    let (first, second) = ids.split_at_mut(CALLS);
    generator.next_ids_into(first).expect("ids");
    counted(|| generator.next_ids_into(black_box(second)).expect("ids"));
    prove(&ids);
}

/// The cold path: each call finds that its tick may be over.
fn first_of_a_tick() {
    let generator = generator(false);
    let mut ids = warm(|| generator.next_id().ok());
    counted(|| {
        ids.extend((0..CALLS).map_while(|_| {
            generator.refresh_gauge();
            generator.next_id().ok()
        }));
    });
    prove(&ids);
}

fn crockford_encode() {
    counted(|| {
        for _ in 0..CALLS {
            black_box(TextForm::Crockford.encode(black_box(Id::MAX)));
        }
    });
}

fn crockford_decode() {
    let text = TextForm::Crockford.encode(Id::MAX);
    counted(|| {
        for _ in 0..CALLS {
            black_box(TextForm::Crockford.decode(black_box(&text)).ok());
        }
    });
}
