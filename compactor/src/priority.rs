//! What takes long, in threads that come after all others.
//!
//! Threads, and not the whole process: who waits for a repository's lock waits for whoever has it, and one that is behind all others
//! may be kept from the processor for as long as they have work. So what needs the lock is done by threads as they were started, and
//! threads of low priority never take it. (The kernel lets nobody but root go back to the priority that it had.)
//!
//! Nothing is done to the group of the session (sched(7), autogroup): that is also the user's shell's, and its builds'.

use std::panic::resume_unwind;

/// How far behind others the work is that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Others get most of what they want.
    Behind,
    /// It gets what others leave, of the processor and of the disk.
    Last,
}

/// Does `work` in a thread of low priority, and waits for it. Threads that it starts are as it is.
pub(crate) fn lowered<T: Send>(rank: Rank, work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            lower(rank);
            work()
        });
        thread.join()
    });
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

/// The same of what is behind others only if it comes last: else it would never be done while they add more.
pub(crate) fn lowered_if<T: Send>(is_last: bool, work: impl FnOnce() -> T + Send) -> T {
    match is_last {
        true => lowered(Rank::Last, work),
        false => work(),
    }
}

/// Gives this thread a low priority. What the system refuses is left as it is: it is a courtesy, and no more.
fn lower(rank: Rank) {
    if rank == Rank::Behind {
        let _ = rustix::process::nice(10);
        return;
    }
    let _ = rustix::process::nice(19);
    // SAFETY: all zeros are a value of this plain structure: priority 0, the only one of this policy.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: a system call that reads `parameters`, which lives longer. It is about this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    // ioprio_set(2): this thread, the class that gets what nobody else wants.
    const WHO_PROCESS: libc::c_long = 1;
    const CLASS_IDLE: libc::c_long = 3 << 13;
    let this: libc::c_long = 0;
    // SAFETY: a system call without pointers.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, this, CLASS_IDLE) };
}
