//! What this process and this machine spend: memory, and processor time that others took.

use std::fs;

/// Memory of this process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// The most that ever was resident.
    pub most: u64,
    /// Address space.
    pub reserved: u64,
    /// The kernel's tables for it, beside all of the above.
    pub tables: u64,
}

impl Memory {
    /// What the kernel says; zeros where it does not.
    pub fn now() -> Memory {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            kib.unwrap_or(0) * 1024
        };
        Memory {
            resident: bytes("VmRSS"),
            most: bytes("VmHWM"),
            reserved: bytes("VmSize"),
            tables: bytes("VmPTE"),
        }
    }
}

/// Processor time of all threads of this process so far, in ns; the kernel tells it in hundredths
/// of a second.
pub fn processor_ns() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // In user mode and in the kernel: the 14th and the 15th field.
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks * 10_000_000
}

/// How much of the machine was not there, for the reader of a figure.
#[derive(Debug)]
pub struct Stolen(u64, u64);

impl Stolen {
    /// Starts to watch.
    pub fn watch() -> Stolen {
        let (all, stolen) = processor_time();
        Stolen(all, stolen)
    }

    /// The share of the processors' time that went to other guests of the host, in percent.
    pub fn percent(&self) -> f64 {
        let (all, stolen) = processor_time();
        let all = all.saturating_sub(self.0).max(1);
        #[expect(clippy::cast_precision_loss, reason = "figures are for people")]
        let share = stolen.saturating_sub(self.1) as f64 / all as f64;
        share * 100.0
    }
}

/// Processor time so far: all of it, and what other guests of the host took.
fn processor_time() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let fields: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    (fields.iter().take(8).sum(), fields.get(7).copied().unwrap_or(0))
}
