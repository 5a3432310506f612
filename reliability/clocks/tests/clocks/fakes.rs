//! The clocks of a process under test, each moved by a file while it runs.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

use snowlease_lease::os;

use crate::process::holder;
use crate::time::{TrueTime, ms, pause};

/// Fakes for one process, or for several that are to be wrong alike.
#[derive(Debug)]
pub(crate) struct Fakes {
    /// Read by libfaketime at each look at the wall clock.
    wall: PathBuf,
    shift_file: PathBuf,
    shift: &'static AtomicI64,
}

impl Fakes {
    /// Fakes that read as the true clocks do, until they are moved.
    pub(crate) fn true_ones(folder: &Path, name: &str) -> Fakes {
        let shift_file = folder.join(format!("{name}.shift"));
        fs::write(&shift_file, [0; size_of::<i64>()]).expect("the folder takes files");
        let shift = map(&shift_file);
        let fakes = Fakes { wall: folder.join(format!("{name}.wall")), shift_file, shift };
        fakes.wall_by_us(0);
        fakes
    }

    /// Has a program run under these.
    pub(crate) fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let preload = format!("{}:{}", bootshift().display(), faketime().display());
        command
            .env("LD_PRELOAD", preload)
            .env("BOOTSHIFT_FILE", &self.shift_file)
            .env("FAKETIME_TIMESTAMP_FILE", &self.wall)
            // Instants are written as Unix seconds, so that no zone is in it.
            .env("FAKETIME_FMT", "%s")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("FAKETIME_NO_CACHE", "1")
            .env("NO_FAKE_STAT", "1")
    }

    /// The wall clock is off by this much from the true time, and runs.
    pub(crate) fn wall_by_ms(&self, ms: i64) {
        self.wall_by_us(ms * 1_000);
    }

    fn wall_by_us(&self, us: i64) {
        let (sign, us) = (if us < 0 { '-' } else { '+' }, us.unsigned_abs());
        self.write_wall(&format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000));
    }

    /// The wall clock reads this now, and runs.
    pub(crate) fn wall_at_ms(&self, unix_ms: i64) {
        self.wall_by_ms(unix_ms - os::wall_ms());
    }

    /// The wall clock stands at this, which is after 1970: what has a sign is no instant there.
    pub(crate) fn wall_stands_at_ms(&self, unix_ms: i64) {
        assert!(unix_ms >= 0);
        self.write_wall(&format!("{}.{:03}", unix_ms.div_euclid(1_000), unix_ms.rem_euclid(1_000)));
    }

    /// The wall clock begins at the true time and gains `gain` ms in each of these milliseconds;
    /// returns when they are over, and answers by how many ms it is off then.
    pub(crate) fn wall_gains(&self, true_time: TrueTime, time_ms: i64, gain: i64) -> i64 {
        let begun_ms = true_time.now_ms();
        loop {
            let elapsed_ms = (true_time.now_ms() - begun_ms).min(time_ms);
            self.wall_by_ms(elapsed_ms * gain);
            if elapsed_ms == time_ms {
                return elapsed_ms * gain;
            }
            // Finer than any look at it.
            pause(ms(5));
        }
    }

    /// The boot clock is ahead by this much.
    pub(crate) fn boot_by_ms(&self, ms: i64) {
        // ORDERING: Relaxed; one number that orders nothing.
        self.shift.store(ms * 1_000_000, Ordering::Relaxed);
    }

    /// Put in place whole: whoever reads meanwhile finds the old text or the new one.
    fn write_wall(&self, text: &str) {
        let new = self.wall.with_extension("new");
        fs::write(&new, text).expect("the folder takes files");
        fs::rename(&new, &self.wall).expect("the folder takes files");
    }
}

/// Maps a file of one number, for as long as this process lives.
fn map(file: &Path) -> &'static AtomicI64 {
    use std::os::fd::AsRawFd;
    let file = OpenOptions::new().read(true).write(true).open(file).expect("it was just made");
    let (bytes, access) = (size_of::<i64>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping of a file that is long enough; it is never unmapped.
    let place = unsafe {
        libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_ne!(place, libc::MAP_FAILED, "the file cannot be mapped");
    // SAFETY: the mapping holds one aligned number, which everybody reads and writes as an atomic.
    unsafe { &*place.cast::<AtomicI64>() }
}

/// The preload library of this tree.
fn bootshift() -> PathBuf {
    let built = holder();
    let built = built.parent().expect("a program is in a folder");
    let library = built.join("libsnowlease_bootshift.so");
    assert!(
        library.is_file(),
        "{} is missing: `cargo build -p snowlease-bootshift`, or `cargo xtask test`",
        library.display()
    );
    library
}

/// Debian's `faketime`, wherever this architecture has it.
fn faketime() -> PathBuf {
    const NAME: &str = "faketime/libfaketimeMT.so.1";
    let folders =
        fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let places = folders.chain(["/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    let found = places.map(|folder| folder.join(NAME)).find(|library| library.is_file());
    found.unwrap_or_else(|| panic!("no {NAME} below /usr/lib: apt-get install faketime"))
}

/// Without this every scenario would pass under clocks that nobody moved: a preload library that
/// cannot be loaded is only warned of.
#[test]
fn the_fakes_move_each_clock_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let fakes = Fakes::true_ones(folder.path(), "any");
    // How far the wall and the boot clock are from the true ones, in s.
    let read = || {
        let mut command = Command::new(holder());
        let before = [os::wall_ns(), i128::from(os::boot_ns())];
        let said = fakes.dress(command.arg("clocks")).output().expect("it starts");
        let true_ns = i128::from(snowlease_clocks::true_ns());
        let said = String::from_utf8(said.stdout).expect("it is text");
        let read: Vec<i128> =
            said.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        assert!((read[2] - true_ns).abs() < 10_000_000_000, "the true time is faked");
        [0, 1].map(|clock: usize| {
            // A start takes less than half a second, as a rule; a tenth of what is looked for.
            let seconds = (read[clock] - before[clock]) as f64 / 1e9;
            (seconds / 10.0).round() * 10.0
        })
    };
    assert_eq!(read(), [0.0, 0.0]);
    fakes.wall_by_ms(-3_600_000);
    assert_eq!(read(), [-3_600.0, 0.0]);
    fakes.boot_by_ms(600_000);
    assert_eq!(read(), [-3_600.0, 600.0]);
    fakes.wall_by_ms(7_200_000);
    assert_eq!(read(), [7_200.0, 600.0]);
    fakes.wall_at_ms(os::wall_ms() + 50_000);
    assert_eq!(read(), [50.0, 600.0]);
    fakes.wall_stands_at_ms(os::wall_ms() - 50_000);
    assert_eq!(read(), [-50.0, 600.0]);
}
