//! The signal handlers.
//!
//! * `SIGINT`, `SIGTERM`, `SIGHUP`, `SIGQUIT`, `SIGXCPU`: temporary files are removed, then the signal does what it does by
//!   default, so that whoever waits sees how the process ended. A signal that was ignored when the program started (as
//!   under nohup(1)) stays ignored.
//! * `SIGBUS` at an address of a mapped file: a message that names the file, temporary files are removed, exit code 1. At
//!   another address, what was done about it before is done now.
//! * `SIGXFSZ` is caught and nothing done, so that the system call fails with `EFBIG`. It is not ignored: that would be
//!   inherited by the programs that this one runs.
//!
//! Only the process that installed the handlers removes anything: a child between `fork` or `vfork` and `execve` has them
//! too.

use super::temporary::remove_all;
use super::{MAPPINGS, Mapping};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Signals that end a program which then still has something to do.
const ENDING: [libc::c_int; 5] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGXCPU,
];

/// What the handlers must know.
struct Installed {
    program: &'static str,
    left: &'static str,
    process: libc::pid_t,
    /// What was done about `SIGBUS` before.
    bus: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// The output is in its place: what goes wrong now does not concern it.
static IS_COMPLETE: AtomicBool = AtomicBool::new(false);

/// A thread has begun to end the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Installs the handlers; for `main`. `program` begins the messages, and `left` ends them: what there is if the program could
/// not do what it was asked for. A second call does nothing.
pub fn install(program: &'static str, left: &'static str) {
    INSTALLED.get_or_init(|| {
        for signal in ENDING {
            if action_of(signal).sa_sigaction == libc::SIG_DFL {
                set(signal, ended as *const () as usize, 0);
            }
        }
        if action_of(libc::SIGXFSZ).sa_sigaction == libc::SIG_DFL {
            set(libc::SIGXFSZ, nothing as *const () as usize, 0);
        }
        let bus = action_of(libc::SIGBUS);
        set(
            libc::SIGBUS,
            bus_error as *const () as usize,
            libc::SA_SIGINFO | libc::SA_ONSTACK,
        );
        // SAFETY: a system call without arguments.
        let process = unsafe { libc::getpid() };
        Installed {
            program,
            left,
            process,
            bus,
        }
    });
}

/// Says that what the program was asked for is in its place. A mapped file that is cut short from now on is a warning, and
/// the exit code that of success.
pub fn output_is_complete() {
    IS_COMPLETE.store(true, SeqCst);
}

/// What is done about a signal now.
fn action_of(signal: libc::c_int) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action this only fills in the current one; all bits zero are a value of it if it does not.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// Has `handler` called, on a signal, with all others held back.
fn set(signal: libc::c_int, handler: libc::sighandler_t, flags: libc::c_int) {
    // SAFETY: all bits zero are a value of the structure, and its parts are filled in before it is used. The handlers are
    // functions of this file with the arguments that the flags say.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// Whether this is the process that installed the handlers.
fn is_ours(installed: &Installed) -> bool {
    // SAFETY: a system call without arguments.
    unsafe { libc::getpid() == installed.process }
}

extern "C" fn nothing(_: libc::c_int) {}

extern "C" fn ended(signal: libc::c_int) {
    if INSTALLED.get().is_some_and(is_ours) {
        remove_all();
    }
    // SAFETY: system calls that signal-safety(7) lists. The signal is held back until this returns, and then it ends the
    // process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

extern "C" fn bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let Some(installed) = INSTALLED.get() else {
        // It comes before `install` has returned: the default is as good as any.
        // SAFETY: as in `ended`.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    };
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid structure, and SIGBUS has the address.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    if code > 0 && is_ours(installed) {
        MAPPINGS.visit(|mapping| {
            if mapping.range.contains(&address) {
                cut_short(installed, mapping);
            }
        });
    }
    // Not ours: the instruction is tried again, and then what would have been done without this handler is.
    // SAFETY: the action is one that sigaction gave.
    unsafe {
        libc::sigaction(signal, &raw const installed.bus, ptr::null_mut());
        if code <= 0 {
            // Somebody sent it: no instruction does it again.
            libc::raise(signal);
        }
    }
}

/// Says which file it is, and ends the process.
fn cut_short(installed: &Installed, mapping: &Mapping) -> ! {
    if IS_ENDING.swap(true, SeqCst) {
        // Another thread is ending the process.
        loop {
            // SAFETY: it waits for a signal.
            unsafe { libc::pause() };
        }
    }
    remove_all();
    let is_complete = IS_COMPLETE.load(SeqCst);
    let parts: [&[u8]; 6] = [
        installed.program.as_bytes(),
        match is_complete {
            true => b": warning: ",
            false => b": error: ",
        },
        &mapping.name,
        b": was cut short while it was in use, or its disk failed; ",
        match is_complete {
            true => b"the output is complete all the same",
            false => installed.left.as_bytes(),
        },
        b"\n",
    ];
    let vectors = parts.map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    // SAFETY: the parts live through the call, which only reads them; `_exit` does not return.
    unsafe {
        libc::writev(2, vectors.as_ptr(), vectors.len() as libc::c_int);
        libc::_exit(if is_complete { 0 } else { 1 })
    }
}
