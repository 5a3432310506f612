//! The clocks of a host, moved by a script: each apart from the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use snowlease_core::Gauge;

use crate::id_clock::{Gauged, Time};
use crate::os::KernelTime;

/// Counts of the scripted counter in a nanosecond.
const COUNTS_PER_NS: u64 = 2;

/// All clocks of a host. A copy moves with its original.
#[derive(Clone, Debug)]
pub struct ScriptedTime {
    hands: Arc<Mutex<Hands>>,
    marker: &'static AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Hands {
    wall_ns: i128,
    boot_ns: u64,
    running_ns: u64,
    count: u64,
    kernel: Option<KernelTime>,
}

impl ScriptedTime {
    /// A host whose wall clock shows this Unix ms, an hour after it was started; the kernel calls
    /// the wall clock unsynchronised.
    pub fn at_ms(unix_ms: i64) -> ScriptedTime {
        let hands = Hands {
            wall_ns: i128::from(unix_ms) * 1_000_000,
            boot_ns: 3_600_000_000_000,
            running_ns: 3_500_000_000_000,
            count: 7_000_000_000_000,
            kernel: Some(KernelTime { max_error_us: 16_000_000, synchronised: false }),
        };
        // Lives as long as the process, as the page of a real device does.
        let marker = Box::leak(Box::new(AtomicU64::new(1)));
        ScriptedTime { hands: Arc::new(Mutex::new(hands)), marker }
    }

    /// The clocks of another host, which read the same now.
    pub fn apart(&self) -> ScriptedTime {
        let other = ScriptedTime::at_ms(0);
        *other.hands() = *self.hands();
        other
    }

    /// Time passes: every clock moves on alike.
    pub fn pass_ns(&self, ns: u64) {
        self.pass_apart_ns(i128::from(ns), ns, ns, ns);
    }

    /// As [`pass_ns`](Self::pass_ns), in milliseconds.
    pub fn pass_ms(&self, ms: u64) {
        self.pass_ns(ms * 1_000_000);
    }

    /// The machine is asleep: the wall clock and the boot clock go on, the other two do not.
    pub fn suspend_ms(&self, ms: u64) {
        self.pass_apart_ns(i128::from(ms) * 1_000_000, ms * 1_000_000, 0, 0);
    }

    /// Time passes, and each clock makes of it what it will; the last is what the counter takes for
    /// passed.
    pub fn pass_apart_ns(&self, wall_ns: i128, boot_ns: u64, running_ns: u64, counter_ns: u64) {
        let mut hands = self.hands();
        hands.wall_ns += wall_ns;
        hands.boot_ns += boot_ns;
        hands.running_ns += running_ns;
        hands.count = hands.count.wrapping_add(counter_ns * COUNTS_PER_NS);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall_ms(&self, by_ms: i64) {
        self.hands().wall_ns += i128::from(by_ms) * 1_000_000;
    }

    /// Somebody sets the counter, as a suspend may.
    pub fn set_counter(&self, count: u64) {
        self.hands().count = count;
    }

    /// What the kernel says of the wall clock from now on.
    pub fn set_kernel(&self, kernel: Option<KernelTime>) {
        self.hands().kernel = kernel;
    }

    /// The machine was restored from a snapshot.
    pub fn restore(&self) {
        // ORDERING: Release, to the Acquire of whoever looks.
        self.marker.fetch_add(1, Ordering::Release);
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Time for ScriptedTime {
    fn wall_ns(&self) -> i128 {
        self.hands().wall_ns
    }

    fn boot_ns(&self) -> u64 {
        self.hands().boot_ns
    }

    fn running_ns(&self) -> u64 {
        self.hands().running_ns
    }

    fn kernel(&self) -> Option<KernelTime> {
        self.hands().kernel
    }

    fn gauged(&self) -> Gauged {
        Gauged { gauge: Gauge::Clock { hz: COUNTS_PER_NS * 1_000_000_000 }, boot_read_ns: 20 }
    }

    fn read_gauge(&self) -> u64 {
        self.hands().count
    }

    fn marker(&self) -> Option<&'static AtomicU64> {
        Some(self.marker)
    }
}
