//! The marker that a hypervisor changes when it resumes a machine from a snapshot.
//!
//! Some hypervisors share a page with their guests, the device `vmclock`: the guest maps it, and
//! may read it without asking anybody. One of its numbers changes when the machine was resumed from
//! a snapshot (each copy then finds another one), an older one also when it was moved to another
//! host. A host without the device has no marker; nor has a process that may not read
//! `/dev/vmclock0`.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic: `VCLK` |
//! | 4 | 4 | size of the region |
//! | 8 | 2 | version: 1 |
//! | 16 | 8 | disruption marker |
//! | 24 | 8 | flags; bit 8: the generation counter is there |
//! | 104 | 8 | generation counter |
//!
//! Every number is little-endian. The rest is about time, and not read here.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::PerProcess;

const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
const VERSION: u16 = 1;
const GENERATION_PRESENT: u64 = 1 << 8;

const AT_MAGIC: usize = 0;
const AT_SIZE: usize = 4;
const AT_VERSION: usize = 8;
const AT_DISRUPTION: usize = 16;
const AT_FLAGS: usize = 24;
const AT_GENERATION: usize = 104;

/// Up to here a page is looked at, whatever it says of itself.
const LEAST_BYTES: usize = AT_FLAGS + size_of::<u64>();

/// A number that changes when this machine was resumed from a snapshot, or, with older devices,
/// moved to another host. `None` where there is none, or it cannot be read.
///
/// Load it with [`Ordering::Relaxed`]: the memory is read-only, where no other load is sure to
/// work. Compare it for equality alone; it does not count.
///
/// Cost: a few system calls at the first use in a process, one afterwards. A load of it is a load
/// of ordinary memory.
pub fn marker() -> Option<&'static AtomicU64> {
    static FOUND: PerProcess<Found> = PerProcess::new();
    FOUND.get().0.as_ref().map(Page::marker)
}

/// The first device of this host that makes sense.
#[derive(Debug)]
struct Found(Option<Page>);

impl Default for Found {
    fn default() -> Found {
        Found(devices(Path::new("/dev")).iter().find_map(|path| Page::map(path)))
    }
}

/// The files of this folder that are named as the device is.
fn devices(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let named = |name: &str| name.starts_with("vmclock");
    let mut devices: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(named))
        .map(|entry| entry.path())
        .collect();
    devices.sort();
    devices
}

/// The page of a device, mapped for as long as this value lives.
#[derive(Debug)]
struct Page {
    start: NonNull<u8>,
    bytes: usize,
    /// Where its marker is.
    marker: usize,
}

// SAFETY: a mapping belongs to the process and not to a thread, and is only read.
unsafe impl Send for Page {}
// SAFETY: as above; whoever else writes to the page is outside the process.
unsafe impl Sync for Page {}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped in `map_page` with this start and length; nothing that was borrowed from
        // this value is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl Page {
    /// Maps the page, if it is one of the kind above in every respect.
    fn map(path: &Path) -> Option<Page> {
        // Elsewhere an atomic load may write, or would read the bytes in the wrong order.
        if !cfg!(all(target_pointer_width = "64", target_endian = "little")) {
            return None;
        }
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        // A device has no length; memory past the end of a file must not be touched.
        let long = metadata.len() >= (AT_GENERATION + size_of::<u64>()) as u64;
        if !long && !metadata.file_type().is_char_device() {
            return None;
        }
        let (start, bytes) = map_page(&file)?;
        Page { start, bytes, marker: AT_DISRUPTION }.checked()
    }

    /// The page with its marker found, unless something about it is odd.
    fn checked(mut self) -> Option<Page> {
        let size = usize::try_from(self.u32_at(AT_SIZE)).ok()?;
        let is_one = self.u32_at(AT_MAGIC) == MAGIC && self.u16_at(AT_VERSION) == VERSION;
        if !is_one || size < LEAST_BYTES {
            return None;
        }
        if self.u64_at(AT_FLAGS) & GENERATION_PRESENT != 0 {
            self.marker = AT_GENERATION;
        }
        (self.marker + size_of::<u64>() <= size).then_some(self)
    }

    fn marker(&self) -> &AtomicU64 {
        // SAFETY: see `at`.
        unsafe { self.at::<AtomicU64>(self.marker) }
    }

    fn u16_at(&self, at: usize) -> u16 {
        // SAFETY: see `at`. ORDERING: Relaxed; written before the guest runs, and read-only.
        unsafe { self.at::<AtomicU16>(at) }.load(Ordering::Relaxed)
    }

    fn u32_at(&self, at: usize) -> u32 {
        // SAFETY: see `at`. ORDERING: Relaxed; written before the guest runs, and read-only.
        unsafe { self.at::<AtomicU32>(at) }.load(Ordering::Relaxed)
    }

    fn u64_at(&self, at: usize) -> u64 {
        // SAFETY: see `at`. ORDERING: Relaxed; of the flags, one that never changes is looked at.
        unsafe { self.at::<AtomicU64>(at) }.load(Ordering::Relaxed)
    }

    /// # Safety
    ///
    /// `T` is an atomic integer, `at` a multiple of its size, and the place within the first 112
    /// bytes. The answer is only read: the page is read-only.
    unsafe fn at<T>(&self, at: usize) -> &T {
        // SAFETY: the mapping is a page, longer than any place the caller may name; it begins at a
        // page, so that the place is aligned; every bit pattern is an integer. What changes it from
        // outside is as another thread with an atomic is.
        unsafe { self.start.add(at).cast::<T>().as_ref() }
    }
}

/// Maps one page of this file from its beginning: where it is, and how long.
fn map_page(file: &File) -> Option<(NonNull<u8>, usize)> {
    // SAFETY: asks for a constant of the system.
    let bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    // The device takes no other length, protection or offset.
    // SAFETY: a new mapping, placed by the system, of a file that is open; it touches no memory
    // that anybody has.
    let start = unsafe {
        libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return None;
    }
    Some((NonNull::new(start.cast())?, bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A file laid out as the device's page is; gone with this value.
    struct Laid {
        path: PathBuf,
        file: File,
    }

    impl Laid {
        fn out(name: &str) -> Laid {
            let name = format!("snowlease-vm-clock-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(true);
            let laid = Laid { file: options.open(&path).unwrap(), path };
            laid.file.set_len(4096).unwrap();
            laid.put(0, b"VCLK");
            laid.put(4, &4096_u32.to_le_bytes());
            laid.put(8, &1_u16.to_le_bytes());
            laid.put(16, &77_u64.to_le_bytes());
            laid.put(24, &(1_u64 << 8 | 1).to_le_bytes());
            laid.put(104, &5_u64.to_le_bytes());
            laid
        }

        fn put(&self, at: u64, bytes: &[u8]) {
            self.file.write_all_at(bytes, at).unwrap();
        }

        fn marker(&self) -> Option<u64> {
            Page::map(&self.path).map(|page| page.marker().load(Ordering::Relaxed))
        }
    }

    impl Drop for Laid {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
        }
    }

    #[test]
    fn the_generation_counter_is_seen_to_change_through_the_map() {
        let laid = Laid::out("change");
        let page = Page::map(&laid.path).unwrap();
        assert_eq!(page.marker().load(Ordering::Relaxed), 5);
        laid.put(104, &6_u64.to_le_bytes());
        assert_eq!(page.marker().load(Ordering::Relaxed), 6);
        // That the machine was moved is another number's to say.
        laid.put(16, &78_u64.to_le_bytes());
        assert_eq!(page.marker().load(Ordering::Relaxed), 6);
    }

    #[test]
    fn without_the_flag_it_is_the_disruption_marker() {
        let laid = Laid::out("flag");
        // All other flags there are.
        laid.put(24, &(!(1_u64 << 8)).to_le_bytes());
        let page = Page::map(&laid.path).unwrap();
        assert_eq!(page.marker().load(Ordering::Relaxed), 77);
        laid.put(16, &79_u64.to_le_bytes());
        assert_eq!(page.marker().load(Ordering::Relaxed), 79);
        // A region that ends before the counter has room for what is used.
        laid.put(4, &104_u32.to_le_bytes());
        assert_eq!(laid.marker(), Some(79));
    }

    #[test]
    fn a_page_that_is_odd_in_any_respect_has_no_marker() {
        let odd: [(&str, u64, &[u8]); 5] = [
            ("magic", 0, b"KLCV"),
            ("nothing", 0, &[0; 4]),
            ("version", 8, &2_u16.to_le_bytes()),
            ("size", 4, &111_u32.to_le_bytes()),
            ("tiny", 4, &31_u32.to_le_bytes()),
        ];
        for (name, at, bytes) in odd {
            let laid = Laid::out(name);
            assert_eq!(laid.marker(), Some(5));
            laid.put(at, bytes);
            assert_eq!(laid.marker(), None, "{name}");
        }
        // Touching what is past its end would end the process.
        let short = Laid::out("short");
        short.file.set_len(111).unwrap();
        assert_eq!(short.marker(), None);
        short.file.set_len(0).unwrap();
        assert_eq!(short.marker(), None);
        // Neither is a device with another purpose, nor a folder.
        for other in ["/dev/null", "/dev/zero", "/dev", "/dev/no-such-device"] {
            assert!(Page::map(Path::new(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn devices_are_found_by_name_in_their_order() {
        let name = format!("snowlease-vm-clock-{}-folder", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        for name in ["vmclock1", "null", "vmclock0", "ptp0"] {
            fs::write(folder.join(name), "").unwrap();
        }
        let found = devices(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [folder.join("vmclock0"), folder.join("vmclock1")]);
        assert!(devices(&folder).is_empty());
    }

    #[test]
    fn a_host_has_a_marker_only_with_the_device() {
        let has_device = !devices(Path::new("/dev")).is_empty();
        assert!(has_device || marker().is_none());
        assert_eq!(marker().map(ptr::from_ref), marker().map(ptr::from_ref));
    }
}
