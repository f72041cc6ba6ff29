//! The lowest priority that the kernel has, for the processor and for the disk.

/// Gives it to this process. What the system refuses is left as it is: it is a courtesy, and no more.
pub fn lower() {
    // What has no group of its own is weighed against the session that it was started in (sched(7), autogroup).
    let _ = std::fs::write("/proc/self/autogroup", "19");
    let _ = rustix::process::nice(19);
    // SAFETY: all zeros are a value of this plain structure: priority 0, the only one of this policy.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: a system call that reads `parameters`, which lives longer. It is about this process.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    // ioprio_set(2): this process, the class that gets what nobody else wants.
    const WHO_PROCESS: libc::c_long = 1;
    const CLASS_IDLE: libc::c_long = 3 << 13;
    let this: libc::c_long = 0;
    // SAFETY: a system call without pointers.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, this, CLASS_IDLE) };
}
