//! SQLite's own mutexes, kept usable in forked children.
//!
//! All connections of a process share an allocator, a page list and the like, each under a mutex of
//! SQLite's. One that another thread had at a fork would be held in the child for ever, and the
//! child could not open a file of its own. So they are taken before a fork and given back after it,
//! on both sides. None is held for longer than some bookkeeping takes.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::ffi;

/// In the order in which SQLite itself takes one while it has another: the name of a temporary file
/// (VFS1) takes random bytes (PRNG), and the first of those look for the file system (MAIN).
const SHARED: [c_int; 7] = [
    ffi::SQLITE_MUTEX_STATIC_OPEN,
    ffi::SQLITE_MUTEX_STATIC_VFS1,
    ffi::SQLITE_MUTEX_STATIC_PRNG,
    ffi::SQLITE_MUTEX_STATIC_MAIN,
    ffi::SQLITE_MUTEX_STATIC_LRU,
    ffi::SQLITE_MUTEX_STATIC_PMEM,
    ffi::SQLITE_MUTEX_STATIC_MEM,
];

/// From now on forked children may open files. Done once; children have it from their parent.
pub(crate) fn outlive_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed; guards no memory.
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // A system without memory for this is one in which a child may have to wait for ever, which
    // is where it stands without it.
    // SAFETY: the handlers are functions of this program; they call what takes and gives back
    // mutexes alone.
    unsafe { libc::pthread_atfork(Some(take), Some(give_back), Some(give_back)) };
}

unsafe extern "C" fn take() {
    // Waits for another thread that is just initialising SQLite, which a child could not.
    // SAFETY: has no precondition; what it does once more is nothing.
    unsafe { ffi::sqlite3_initialize() };
    SHARED.iter().for_each(|which| {
        // SAFETY: names a mutex that SQLite has from its start to its end; nothing is allocated.
        unsafe { ffi::sqlite3_mutex_enter(ffi::sqlite3_mutex_alloc(*which)) };
    });
}

unsafe extern "C" fn give_back() {
    SHARED.iter().rev().for_each(|which| {
        // SAFETY: as above; `take` has taken it, on the thread that forks, which the child's is.
        unsafe { ffi::sqlite3_mutex_leave(ffi::sqlite3_mutex_alloc(*which)) };
    });
}
