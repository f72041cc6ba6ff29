//! Leaving: how the process ends once the output is complete.
//!
//! A large link has a gigabyte mapped, and the kernel takes a tenth of the link's time to take that apart. Nobody need wait
//! for it. So the memory is handed over: a second process is started that shares the address space (`clone` with
//! `CLONE_VM`) and does nothing but wait until the first is gone. The first then ends at once, as it is not the last to
//! use its memory; the second ends after it, and takes the memory apart while the caller goes on.
//!
//! The process that the caller waits for is thus the one that linked: exit code, signals, messages and what `wait4`
//! tells of it are its own. Nothing is held back from the caller meanwhile: all descriptors are closed before the second
//! process is made, so that whoever reads a pipe until its end, or counts a jobserver's tokens, waits for no one; and the
//! output's mapping is gone before, as a file that is mapped for writing cannot be run.
//!
//! Where any of this is not possible, the process just ends.

use std::ffi::{c_int, c_void};
use std::io::{self, Write as _};
use std::os::fd::RawFd;

/// Resident bytes for which the second process is worth its while.
const WORTH_WHILE: u64 = 24 << 20;

/// Bytes of the second process's stack.
const STACK_BYTES: usize = 16 << 10;

/// Ends the process, which must have no more to say, with an exit code. With `hand_over`, the caller need not wait for
/// its memory to be taken apart. Nothing is dropped, and no handlers are run that were registered for the end.
pub fn leave(code: u8, hand_over: bool) -> ! {
    let _ = io::stdout().flush();
    if hand_over && peak_of_resident_memory() >= WORTH_WHILE {
        hand_memory_over();
    }
    // SAFETY: it does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Does what nobody need wait for. Where that is worth while and `may_fork` permits it, in a process of its own, which goes on when
/// this one has ended, and which holds no descriptor but `kept`: whoever reads a pipe until its end waits for no one.
pub fn apart(kept: RawFd, may_fork: bool, work: &mut (dyn FnMut() + Send)) {
    if !may_fork || peak_of_resident_memory() < WORTH_WHILE {
        work();
        return;
    }
    // SAFETY: of the threads only this one is in the child. That uses no lock that another one may have held: the allocator
    // takes care of its own at a fork, and work is shared among new threads, not those of the pool that is gone.
    match unsafe { libc::fork() } {
        -1 => work(),
        0 => {
            keep_only(kept);
            let pool = rayon::ThreadPoolBuilder::new().build();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if let Ok(pool) = pool {
                    pool.install(work);
                }
            }));
            // SAFETY: it does not return.
            unsafe { libc::_exit(done.is_err().into()) }
        }
        _ => {}
    }
}

/// Closes all descriptors but one; the standard ones lead nowhere.
fn keep_only(kept: RawFd) {
    let kept = kept.unsigned_abs();
    // SAFETY: nothing of what is closed is used again in this process.
    unsafe {
        if kept > 0 {
            libc::syscall(libc::SYS_close_range, 0, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
        while (0..=2).contains(&libc::open(c"/dev/null".as_ptr(), libc::O_RDWR)) {}
    }
}

/// The most memory that the process has had, in bytes.
fn peak_of_resident_memory() -> u64 {
    // SAFETY: all bits zero are a `rusage`, and the place is ours.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10
}

/// Closes all descriptors, and starts the process that outlives this one.
fn hand_memory_over() {
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    // It is in use until there is no process left.
    std::mem::forget(stack);
    // SAFETY: nothing that is closed here is used again: this process only ends after this. The new one runs on a stack of
    // its own, calls nothing but `poll` and `_exit`, and neither touches nor frees what it shares.
    unsafe {
        let this = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
        let Ok(this @ 0..) = c_int::try_from(this) else {
            return;
        };
        // The new process finds it as descriptor 0, and no other.
        if libc::dup2(this, 0) != 0 || libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) != 0 {
            return;
        }
        libc::clone(outlive, top.cast(), libc::CLONE_VM, std::ptr::null_mut());
    }
}

/// What the second process does: waits for the end of the first, which is descriptor 0.
extern "C" fn outlive(_: *mut c_void) -> c_int {
    let mut first = libc::pollfd {
        fd: 0,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the place is on this process's own stack. A signal that interrupts it ends the waiting early, which costs
    // nothing but time.
    unsafe {
        libc::poll(&mut first, 1, -1);
        libc::_exit(0)
    }
}
