//! Each library, used as its documentation says and in the fastest way that it has.
//!
//! Layouts are 41 bits of time, 10 of generator and 12 of sequence where a library has a choice,
//! and 41/2/20 where ticks are never to fill up. A full tick is waited for by spinning, which with
//! a core to itself is what takes least. Those that need `&mut` are what a program has to put
//! behind a lock of its own.

use std::cell::RefCell;
use std::hint::spin_loop;
use std::sync::{Arc, Mutex};

use ferroid::define_snowflake_id;
use ferroid::generator::{
    AtomicSnowflakeGenerator, BasicSnowflakeGenerator, LockSnowflakeGenerator,
};
use ferroid::id::SnowflakeId as FerroidId;
use ferroid::time::{MonotonicClock, TWITTER_EPOCH};
use idgenerator::{CoreIdGenerator, IdGeneratorOptions, IdInstance};
use snowdon::{ClassicLayout, Epoch, Layout as SnowdonLayout, MachineId};
use snowlease_core::Layout;
use ulid::Ulid;
use uuid::{ContextV7, Timestamp, Uuid};

use crate::contender::{About, Stamp, Time, Value};

/// How wide the fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 41/10/12: 4,096 ids a millisecond.
    Classic,
    /// 41/2/20, or the nearest a library can do: no tick fills up.
    Wide,
}

impl Shape {
    pub(crate) fn layout(self) -> Layout {
        match self {
            Shape::Classic => Layout::DEFAULT,
            Shape::Wide => Layout::new(41, 2, 20).unwrap(),
        }
    }

    /// Bits of the generator id.
    fn generator_bits(self) -> u8 {
        match self {
            Shape::Classic => 10,
            Shape::Wide => 2,
        }
    }
}

/// What is known of a contender whose time is in milliseconds.
pub(crate) fn about(package: &'static str, how: &'static str, time: Time, epoch_ms: u64) -> About {
    About { package, how, time, stamp: Stamp { shift: 22, unit_ms: 1, epoch_ms } }
}

/// As [`about`], of an id of 128 bits.
fn about_wide(package: &'static str, how: &'static str) -> About {
    let stamp = Stamp { shift: 80, unit_ms: 1, epoch_ms: 0 };
    About { package, how, time: Time::EachCall, stamp }
}

#[allow(unreachable_pub, reason = "the library's macro writes it so")]
mod ids {
    use super::define_snowflake_id;

    define_snowflake_id!(Classic, u64, reserved: 1, timestamp: 41, machine_id: 10, sequence: 12);
    define_snowflake_id!(Wide, u64, reserved: 1, timestamp: 41, machine_id: 2, sequence: 20);
}

pub(crate) use ids::{Classic, Wide};

const FERROID_EPOCH_MS: u64 = 1_288_834_974_657;

/// Its clock is a thread that publishes the milliseconds, so no call reads one.
fn ferroid_clock() -> MonotonicClock {
    MonotonicClock::with_epoch(TWITTER_EPOCH)
}

fn about_ferroid(how: &'static str) -> About {
    about("ferroid", how, Time::Thread, FERROID_EPOCH_MS)
}

/// For one thread.
pub(crate) fn ferroid_basic<I>(machine: u64) -> (About, impl FnMut() -> u64 + Send)
where
    I: FerroidId<Ty = u64> + Send + 'static,
{
    let generator = BasicSnowflakeGenerator::<I, _>::new(machine, ferroid_clock());
    (about_ferroid("basic"), move || generator.next_id(|_| spin_loop()).to_raw())
}

/// With its padding against false sharing.
pub(crate) fn ferroid_atomic<I>(machine: u64) -> (About, impl FnMut() -> u64 + Clone + Send)
where
    I: FerroidId<Ty = u64> + Send + Sync + 'static,
{
    let generator = Arc::new(AtomicSnowflakeGenerator::<I, _>::new(machine, ferroid_clock()));
    (about_ferroid("atomic"), move || generator.next_id(|_| spin_loop()).to_raw())
}

/// With `parking_lot`'s locks, which do not poison.
pub(crate) fn ferroid_lock<I>(machine: u64) -> (About, impl FnMut() -> u64 + Clone + Send)
where
    I: FerroidId<Ty = u64> + Send + Sync + 'static,
{
    let generator = Arc::new(LockSnowflakeGenerator::<I, _>::new(machine, ferroid_clock()));
    (about_ferroid("lock"), move || generator.next_id(|_| spin_loop()).to_raw())
}

const SNOWFLAKE_ME_EPOCH_MS: u64 = 1_640_995_200_000;

pub(crate) fn about_snowflake_me(how: &'static str) -> About {
    about("snowflake_me", how, Time::EachCall, SNOWFLAKE_ME_EPOCH_MS)
}

/// A generator of the other library that keeps state in one atomic word. Its own clock; a program
/// may hand it another.
pub(crate) fn snowflake_me_generator(shape: Shape, machine: u16) -> snowflake_me::Snowflake {
    let (center, sequence) = match shape {
        Shape::Classic => (5, 12),
        Shape::Wide => (1, 20),
    };
    snowflake_me::Snowflake::builder()
        .machine_id(&|| Ok(machine))
        .data_center_id(&|| Ok(1))
        .bit_len_data_center_id(center)
        .bit_len_machine_id(center)
        .bit_len_sequence(sequence)
        .finalize()
        .unwrap()
}

pub(crate) fn snowflake_me(
    shape: Shape,
    machine: u16,
) -> (About, impl FnMut() -> u64 + Clone + Send) {
    let generator = snowflake_me_generator(shape, machine);
    (about_snowflake_me("single"), move || generator.next_id().unwrap().as_u64())
}

/// Its layout is fixed at 42/10/12.
pub(crate) fn snowflaked(instance: u16) -> (About, impl FnMut() -> u64 + Clone + Send) {
    let generator = Arc::new(snowflaked::sync::Generator::new(instance));
    (about("snowflaked", "sync", Time::EachCall, 0), move || generator.generate())
}

const SNOWID_EPOCH_MS: u64 = 1_704_067_200_000;

pub(crate) fn about_snowid(how: &'static str) -> About {
    about("snowid", how, Time::EachCall, SNOWID_EPOCH_MS)
}

/// Its sequence has 16 bits at most, 65,536 ids a millisecond: more than it makes.
pub(crate) fn snowid_generator(shape: Shape, machine: u16) -> snowid::SnowID {
    let bits = match shape {
        Shape::Classic => 10,
        Shape::Wide => 6,
    };
    let config = snowid::SnowIDConfig::builder().node_bits(bits).unwrap().build();
    snowid::SnowID::with_config(machine, config).unwrap()
}

/// The call that does not run ahead of the clock.
pub(crate) fn snowid_try(
    shape: Shape,
    machine: u16,
) -> (About, impl FnMut() -> u64 + Clone + Send) {
    let generator = Arc::new(snowid_generator(shape, machine));
    let next = move || {
        loop {
            match generator.try_generate() {
                Ok(id) => break id,
                Err(_) => spin_loop(),
            }
        }
    };
    (about_snowid("try_generate"), next)
}

/// The call that takes the next millisecond when one is full.
pub(crate) fn snowid_generate(shape: Shape) -> (About, impl FnMut() -> u64 + Send) {
    let generator = snowid_generator(shape, 3);
    (about_snowid("generate"), move || generator.generate())
}

fn idgenerator_options(shape: Shape, machine: u32) -> IdGeneratorOptions {
    let bits = shape.generator_bits();
    IdGeneratorOptions::new().worker_id(machine).worker_id_bit_len(bits).seq_bit_len(22 - bits)
}

fn about_idgenerator(how: &'static str) -> About {
    about("idgenerator", how, Time::EachCall, 1_582_136_402_000)
}

/// For one thread; it takes the next millisecond when one is full.
pub(crate) fn idgenerator_core(shape: Shape, machine: u32) -> (About, impl FnMut() -> u64 + Send) {
    let mut generator = CoreIdGenerator::default();
    generator.init(idgenerator_options(shape, machine)).unwrap();
    (about_idgenerator("core"), move || generator.next_id().cast_unsigned())
}

/// The one instance of the process, behind a lock.
pub(crate) fn idgenerator_shared(shape: Shape) -> (About, impl FnMut() -> u64 + Clone + Send) {
    IdInstance::init(idgenerator_options(shape, 3)).unwrap();
    (about_idgenerator("instance"), || IdInstance::next_id().cast_unsigned())
}

/// The call that reads the clock each time. Its layout is fixed.
pub(crate) fn rs_snowflake_real_time(machine: i32) -> (About, impl FnMut() -> u64 + Send) {
    let mut generator = snowflake::SnowflakeIdGenerator::new(1, machine);
    let about = about("rs-snowflake", "real_time", Time::EachCall, 0);
    (about, move || generator.real_time_generate().cast_unsigned())
}

/// The call that reads the clock once every 4,096 ids.
pub(crate) fn rs_snowflake_generate() -> (About, impl FnMut() -> u64 + Send) {
    let mut generator = snowflake::SnowflakeIdGenerator::new(1, 3);
    let about = about("rs-snowflake", "generate", Time::None, 0);
    (about, move || generator.generate().cast_unsigned())
}

/// The call that counts on from the time it was made.
pub(crate) fn rs_snowflake_lazy() -> (About, impl FnMut() -> u64 + Send) {
    let mut generator = snowflake::SnowflakeIdGenerator::new(1, 3);
    let about = about("rs-snowflake", "lazy", Time::None, 0);
    (about, move || generator.lazy_generate().cast_unsigned())
}

/// Machine and epoch of the next library, which has them as types.
#[derive(Debug)]
pub(crate) struct Machine<const ID: u64>;

impl<const ID: u64> MachineId for Machine<ID> {
    fn machine_id() -> u64 {
        ID
    }
}

impl<const ID: u64> Epoch for Machine<ID> {
    fn millis_since_unix() -> u64 {
        SNOWID_EPOCH_MS
    }
}

/// As its own layout, checks and all, in 41/2/20.
#[derive(Debug)]
pub(crate) struct SnowdonWide<const ID: u64>;

impl<const ID: u64> SnowdonLayout for SnowdonWide<ID> {
    fn construct_snowflake(timestamp: u64, sequence_number: u64) -> u64 {
        assert!(
            !Self::exceeds_timestamp(timestamp) && !Self::exceeds_sequence_number(sequence_number)
        );
        timestamp << 22 | ID << 20 | sequence_number
    }

    fn timestamp(input: u64) -> u64 {
        (input >> 22) & ((1 << 41) - 1)
    }

    fn exceeds_timestamp(input: u64) -> bool {
        input >= 1 << 41
    }

    fn sequence_number(input: u64) -> u64 {
        input & ((1 << 20) - 1)
    }

    fn exceeds_sequence_number(input: u64) -> bool {
        input >= 1 << 20
    }

    fn is_valid_snowflake(input: u64) -> bool {
        input < 1 << 63
    }
}

pub(crate) type SnowdonClassic<const ID: u64> = ClassicLayout<Machine<ID>>;

/// Without its lock; a full millisecond is an error, and tried again.
pub(crate) fn snowdon<L>() -> (About, impl FnMut() -> u64 + Clone + Send)
where
    L: SnowdonLayout + Send + Sync + 'static,
{
    let generator = Arc::new(snowdon::Generator::<L, Machine<3>>::default());
    let next = move || {
        loop {
            match generator.generate() {
                Ok(id) => break id.into_inner(),
                Err(_) => spin_loop(),
            }
        }
    };
    (about("snowdon", "lock-free", Time::EachCall, SNOWID_EPOCH_MS), next)
}

const TSID_EPOCH_MS: u64 = 1_577_836_800_000;

/// For one thread; it takes the next millisecond when the counter, which begins anywhere, is full.
pub(crate) fn tsid_factory(shape: Shape, machine: u32) -> (About, impl FnMut() -> u64 + Send) {
    let mut factory = tsid::TsidFactory::with_node_bits(shape.generator_bits(), machine);
    (about("tsid", "factory", Time::EachCall, TSID_EPOCH_MS), move || factory.create().number())
}

/// A factory behind a lock, as its own functions have it.
pub(crate) fn tsid_shared(shape: Shape) -> (About, impl FnMut() -> u64 + Clone + Send) {
    let factory = tsid::TsidFactory::with_node_bits(shape.generator_bits(), 3);
    let factory = Arc::new(Mutex::new(factory));
    let next = move || factory.lock().unwrap().create().number();
    (about("tsid", "mutex", Time::EachCall, TSID_EPOCH_MS), next)
}

/// Its layout is fixed: ticks of 10 ms with 256 ids in each, 25,600 a second.
pub(crate) fn sonyflake() -> (About, impl FnMut() -> u64 + Send) {
    let generator = sonyflake::Sonyflake::builder().machine_id(&|| Ok(3)).finalize().unwrap();
    let stamp = Stamp { shift: 24, unit_ms: 10, epoch_ms: 1_409_529_600_000 };
    let about = About { package: "sonyflake", how: "", time: Time::EachCall, stamp };
    (about, move || generator.next_id().unwrap().to_u64())
}

/// For one thread.
pub(crate) fn twitter_snowflake(shape: Shape, machine: u64) -> (About, impl FnMut() -> u64 + Send) {
    let mut generator = twitter_snowflake::Snowflake::builder()
        .with_worker_id_bits(u64::from(shape.generator_bits()))
        .with_worker_id(machine)
        .build()
        .unwrap();
    let about = about("twitter_snowflake", "", Time::EachCall, 1_704_038_400_000);
    (about, move || generator.generate().unwrap())
}

impl Value for Uuid {
    fn blank() -> Uuid {
        Uuid::max()
    }

    fn wide(self) -> u128 {
        self.as_u128()
    }
}

impl Value for Ulid {
    fn blank() -> Ulid {
        Ulid::max()
    }

    fn wide(self) -> u128 {
        self.0
    }
}

/// With a counter of its own, and the fast generator of random numbers.
pub(crate) fn uuid_v7() -> (About, impl FnMut() -> Uuid + Send) {
    let context = ContextV7::new();
    (about_wide("uuid", "v7"), move || Uuid::new_v7(Timestamp::now(&context)))
}

/// With the counter that all of a process share.
pub(crate) fn uuid_v7_shared() -> (About, impl FnMut() -> Uuid + Clone + Send) {
    (about_wide("uuid", "v7"), Uuid::now_v7)
}

/// For one thread, in order.
pub(crate) fn ulid_ordered() -> (About, impl FnMut() -> Ulid + Send) {
    let generator = RefCell::new(ulid::Generator::new());
    let next = move || match generator.borrow_mut().generate() {
        Ok(id) => id,
        Err(full) => full.commit_overflow_increment(),
    };
    (about_wide("ulid", "ordered"), next)
}

/// Random in each call, for any thread.
pub(crate) fn ulid_random() -> (About, impl FnMut() -> Ulid + Clone + Send) {
    (about_wide("ulid", "random"), Ulid::generate)
}
