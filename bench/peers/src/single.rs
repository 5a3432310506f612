//! One thread, one id a call.

use std::sync::Arc;

use snowlease_bench::{Guard, generator};
use snowlease_core::{Format, Generator};

use crate::contender::{About, Lane, Plan, Single, Time, compare};
use crate::peers::{self, Classic, Shape, SnowdonClassic, SnowdonWide, Wide};
use crate::row::Table;

/// Below the cap: what a call costs.
pub(crate) fn paced() -> Table {
    let plan = Plan::Bursts { ids: 1_000, bursts: 20, apart_ms: 1 };
    let mut lanes = ours(Shape::Classic, plan);
    peers_with_a_choice(&mut lanes, Shape::Classic, plan);
    fixed_peers(&mut lanes, plan);
    // What fits below its own cap.
    let (about, next) = peers::sonyflake();
    lanes.push(Single::lane(about, Plan::Bursts { ids: 200, bursts: 2, apart_ms: 11 }, next));
    unlimited_peers(&mut lanes, plan);
    let title = "One id a call, 41/10/12, bursts of 1000 each millisecond, one thread";
    compare("paced", title, "ns/id", lanes)
}

/// One call after the other, in a layout whose ticks do not fill up.
pub(crate) fn never_exhausted() -> Table {
    let plan = Plan::Bursts { ids: 20_000, bursts: 1, apart_ms: 1 };
    let mut lanes = ours(Shape::Wide, plan);
    peers_with_a_choice(&mut lanes, Shape::Wide, plan);
    unlimited_peers(&mut lanes, plan);
    let title = "One id a call, 41/2/20 where there is a choice, 20000 in a row, one thread";
    compare("never exhausted", title, "ns/id", lanes)
}

/// As many as there are: a full tick is waited for, or is not.
pub(crate) fn at_the_cap() -> Table {
    let plan = Plan::Cap { ticks: 30, a_tick: 4_096 };
    let mut lanes = ours(Shape::Classic, plan);
    peers_with_a_choice(&mut lanes, Shape::Classic, plan);
    let (about, next) = peers::snowid_generate(Shape::Classic);
    lanes.push(Single::lane(about, plan, next));
    fixed_peers(&mut lanes, plan);
    let (about, next) = peers::sonyflake();
    lanes.push(Single::lane(about, Plan::Cap { ticks: 3, a_tick: 256 }, next));
    let title = "At the cap of 4,096,000 ids/s (sonyflake: 25,600), 41/10/12, one thread";
    compare("at the cap", title, "% of the cap", lanes)
}

/// What is known of a way of ours.
pub(crate) fn about_ours(how: &'static str, time: Time) -> About {
    let epoch_ms = u64::try_from(Format::DEFAULT.epoch_ms()).unwrap();
    peers::about("snowlease", how, time, epoch_ms)
}

/// A call of the generator.
pub(crate) fn call(generator: Arc<Generator>) -> impl FnMut() -> u64 + Clone + Send {
    move || generator.next_id().unwrap().get()
}

/// A call of a thread's own handle.
pub(crate) fn own_handle(generator: &Arc<Generator>) -> impl FnMut() -> u64 + Send + use<> {
    let mut local = generator.local();
    move || local.next_id().unwrap().get()
}

/// Every way of ours; the precise generator comes first.
fn ours(shape: Shape, plan: Plan) -> Vec<Box<dyn Lane>> {
    let layout = shape.layout();
    let ways = [
        ("counter", Guard::Counter, Time::EachCall),
        ("vDSO", Guard::Boottime, Time::EachCall),
        ("ticking", Guard::Ticking, Time::Thread),
    ];
    let mut lanes: Vec<Box<dyn Lane>> = ways
        .into_iter()
        .map(|(how, guard, time)| {
            Single::lane(about_ours(how, time), plan, call(generator(layout, guard)))
        })
        .collect();
    let ways = [
        ("own handle, counter", Guard::Counter, Time::EachCall),
        ("own handle, ticking", Guard::Ticking, Time::Thread),
    ];
    for (how, guard, time) in ways {
        let next = own_handle(&generator(layout, guard));
        lanes.push(Single::lane(about_ours(how, time), plan, next));
    }
    lanes
}

/// Those whose fields can be of any width.
fn peers_with_a_choice(lanes: &mut Vec<Box<dyn Lane>>, shape: Shape, plan: Plan) {
    match shape {
        Shape::Classic => ferroid::<Classic>(lanes, plan),
        Shape::Wide => ferroid::<Wide>(lanes, plan),
    }
    let (about, next) = peers::snowflake_me(shape, 1);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::snowid_try(shape, 3);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::idgenerator_core(shape, 3);
    lanes.push(Single::lane(about, plan, next));
    match shape {
        Shape::Classic => {
            let (about, next) = peers::snowdon::<SnowdonClassic<3>>();
            lanes.push(Single::lane(about, plan, next));
        }
        Shape::Wide => {
            let (about, next) = peers::snowdon::<SnowdonWide<3>>();
            lanes.push(Single::lane(about, plan, next));
        }
    }
    let (about, next) = peers::tsid_factory(shape, 3);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::twitter_snowflake(shape, 3);
    lanes.push(Single::lane(about, plan, next));
}

fn ferroid<I>(lanes: &mut Vec<Box<dyn Lane>>, plan: Plan)
where
    I: ::ferroid::id::SnowflakeId<Ty = u64> + Send + Sync + 'static,
{
    let (about, next) = peers::ferroid_basic::<I>(3);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::ferroid_atomic::<I>(3);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::ferroid_lock::<I>(3);
    lanes.push(Single::lane(about, plan, next));
}

/// Those whose layout is 10 bits of generator and 12 of sequence and nothing else.
fn fixed_peers(lanes: &mut Vec<Box<dyn Lane>>, plan: Plan) {
    let (about, next) = peers::snowflaked(3);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::rs_snowflake_real_time(3);
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::rs_snowflake_generate();
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::rs_snowflake_lazy();
    lanes.push(Single::lane(about, plan, next));
}

/// Those of 128 bits, which have no cap that matters.
fn unlimited_peers(lanes: &mut Vec<Box<dyn Lane>>, plan: Plan) {
    let (about, next) = peers::uuid_v7();
    lanes.push(Single::lane(about, plan, next));
    let (about, next) = peers::ulid_ordered();
    lanes.push(Single::lane(about, plan, next));
}
