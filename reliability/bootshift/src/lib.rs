//! A preload library: `CLOCK_BOOTTIME` of a process, shifted by what stands in a file.
//!
//! `BOOTSHIFT_FILE` names a file of eight bytes, the shift in nanoseconds as a native `i64`. It is
//! mapped when the library is loaded, so a change of the file is seen by the next read of the
//! clock. Every other clock is passed on to the next library, so with libfaketime behind this one
//! the wall clock and the boot clock move apart:
//!
//! ```sh
//! LD_PRELOAD=libsnowlease_bootshift.so:libfaketimeMT.so.1 BOOTSHIFT_FILE=shift snowlease serve
//! ```
//!
//! The path of a call takes no lock and allocates nothing: it may run in a forked child and in a
//! signal handler. The processor's counter is not behind a function, and so is not shifted.

use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicUsize, Ordering};

use libc::{c_char, c_int, c_void, clockid_t, timespec};

/// Names the file of the shift.
const FILE: *const c_char = c"BOOTSHIFT_FILE".as_ptr();

const SECOND_NS: i64 = 1_000_000_000;

type Read = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// The next library's `clock_gettime`; 0 until this one is loaded.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The mapped shift; null if there is none.
static SHIFT: AtomicPtr<AtomicI64> = AtomicPtr::new(ptr::null_mut());

/// Run by the loader before `main`, after the libraries behind this one.
#[used]
// SAFETY: the section holds functions of this type, which the loader calls once.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = load;

extern "C" fn load() {
    // SAFETY: the name ends in 0; the answer is the next library's symbol, or null.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
    // ORDERING: Relaxed, here and below: written once, before the process has a second thread.
    NEXT.store(next.addr(), Ordering::Relaxed);
    SHIFT.store(mapped().unwrap_or(ptr::null_mut()), Ordering::Relaxed);
}

/// The file, mapped for as long as the process lives.
fn mapped() -> Option<*mut AtomicI64> {
    // SAFETY: the name ends in 0, and no thread changes the environment yet.
    let path = unsafe { libc::getenv(FILE) };
    if path.is_null() {
        return None;
    }
    // SAFETY: `path` is a string of the environment.
    let file = unsafe { libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let bytes = size_of::<i64>();
    // SAFETY: a new mapping, of a file that stays as long as the test.
    let place =
        unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file, 0) };
    // SAFETY: opened above, and used by nobody else; the mapping stays.
    unsafe { libc::close(file) };
    (place != libc::MAP_FAILED).then_some(place.cast())
}

/// As the C library's, but that `CLOCK_BOOTTIME` is shifted.
///
/// # Safety
///
/// As for the C library's: `time` is a place for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // ORDERING: Relaxed; see `load`.
    let next = NEXT.load(Ordering::Relaxed);
    let answer = if next == 0 {
        // Not loaded yet. SAFETY: the same call, of the system itself.
        let asked = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        c_int::try_from(asked).unwrap_or(-1)
    } else {
        let next = ptr::without_provenance::<c_void>(next);
        // SAFETY: the symbol of this name has this type.
        let next: Read = unsafe { std::mem::transmute(next) };
        // SAFETY: the caller's promise, handed on.
        unsafe { next(clock, time) }
    };
    // ORDERING: Relaxed; see `load`.
    let shift = SHIFT.load(Ordering::Relaxed);
    if answer == 0 && clock == libc::CLOCK_BOOTTIME && !shift.is_null() {
        // SAFETY: mapped for good, aligned to a page, and written as one word.
        // ORDERING: Relaxed; one number that orders nothing.
        let shift_ns = unsafe { (*shift).load(Ordering::Relaxed) };
        // SAFETY: the call succeeded, so `time` is a place with an answer in it.
        let time = unsafe { &mut *time };
        let ns = time.tv_nsec + shift_ns.rem_euclid(SECOND_NS);
        time.tv_sec += shift_ns.div_euclid(SECOND_NS) + ns / SECOND_NS;
        time.tv_nsec = ns % SECOND_NS;
    }
    answer
}
