//! Running the compiler so that nobody notices that we stand before it.
//!
//! Where nothing follows, it takes our place by `exec`. Where something
//! follows it is a child, and then the signals need care:
//!
//! * A signal to the whole process group reaches the compiler without us, and
//!   it must not get it twice, because a second one would end it while it
//!   removes its temporary files. A signal to us alone (make's `SIGTERM`) must be
//!   handed on. What the terminal sends (Ctrl-C) goes to the group. What a
//!   process sends looks the same either way (ninja interrupts groups), so it
//!   is handed on if the compiler has not ended shortly afterwards.
//! * We end only after the compiler has, and as it has: with its exit code, or
//!   by the same signal.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

/// How long the compiler may take to end by itself before a signal that we
/// got is handed on to it.
const GRACE: Duration = Duration::from_millis(200);

/// Signals that ask a program to end.
const ENDING: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exit(i32),
    /// This signal ended it.
    Signal(i32),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exit(code) => write!(f, "exit code {code}"),
            Ending::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Becomes the program. Returns only if that fails.
pub fn exec(program: &Path, argv0: &OsStr, args: &[OsString]) -> io::Error {
    Command::new(program).arg0(argv0).args(args).exec()
}

/// A set of signals.
fn signal_set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, and sigaddset changes it;
    // numbers that are no signals are refused without effect.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Holds back signals that would end this process, from `new` to drop.
pub struct HeldSignals {
    before: libc::sigset_t,
}

impl HeldSignals {
    /// Holds back the signals that ask a program to end.
    pub fn ending() -> HeldSignals {
        HeldSignals::hold(&signal_set(&ENDING))
    }

    fn hold(set: &libc::sigset_t) -> HeldSignals {
        let mut before = signal_set(&[]);
        // SAFETY: both pointers are to initialised sets that live through the call.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, set, &mut before);
        }
        HeldSignals { before }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the pointer is to the set that pthread_sigmask filled in.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut());
        }
    }
}

/// Whether this process ignores a signal (as under `nohup`).
fn ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action, sigaction only fills in the current one;
    // zeroed memory is a valid value for it if it does not.
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// What a program writes to standard error, while it is handed on: through a pipe, or, where it would be to a terminal,
/// through a terminal of our own, of the same size, that changes nothing of it. So compilers do what they do at a terminal.
#[derive(Debug)]
pub struct Captured {
    reading: OwnedFd,
    writing: Option<OwnedFd>,
    /// What has come so far; `None` if it is too much to be kept.
    bytes: Option<Vec<u8>>,
    is_open: bool,
}

/// More than this is only handed on.
const MOST_CAPTURED: usize = 1 << 20;

/// The size of the terminal that standard error is; `None` if it is none.
pub fn terminal() -> Option<libc::winsize> {
    if !io::stderr().is_terminal() {
        return None;
    }
    // SAFETY: all zeros is a size, which the call fills in; without one it stays so.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &mut size);
        Some(size)
    }
}

/// The two ends of a pipe.
fn pipe() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to two numbers, which pipe2 fills in.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: pipe2 has just made them, and nobody else knows them.
    Ok(ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }))
}

/// The two ends of a terminal of this size, to the second of which programs write.
fn terminal_of(size: &libc::winsize) -> io::Result<[OwnedFd; 2]> {
    let new = |descriptor: libc::c_int| match descriptor {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: it has just been opened, and nobody else knows it.
        _ => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    };
    let is_done = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let mut name = [0; 64];
    // SAFETY: the pointers are to values of this function, which the calls fill in, within the sizes given.
    unsafe {
        let master = new(libc::posix_openpt(
            libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC,
        ))?;
        let number = master.as_raw_fd();
        is_done(libc::grantpt(number))?;
        is_done(libc::unlockpt(number))?;
        is_done(libc::ptsname_r(number, name.as_mut_ptr(), name.len()))?;
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let slave = new(libc::open(name.as_ptr(), flags))?;
        let mut how: libc::termios = std::mem::zeroed();
        is_done(libc::tcgetattr(slave.as_raw_fd(), &mut how))?;
        libc::cfmakeraw(&mut how);
        is_done(libc::tcsetattr(slave.as_raw_fd(), libc::TCSANOW, &how))?;
        is_done(libc::ioctl(number, libc::TIOCSWINSZ, size))?;
        Ok([master, slave])
    }
}

impl Captured {
    /// A way for the standard error of a program.
    ///
    /// # Errors
    /// If there can be none.
    pub fn new() -> io::Result<Captured> {
        let [reading, writing] = match terminal() {
            Some(size) => terminal_of(&size)?,
            None => pipe()?,
        };
        // SAFETY: no memory is concerned.
        unsafe { libc::fcntl(reading.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Ok(Captured {
            reading,
            writing: Some(writing),
            bytes: Some(Vec::new()),
            is_open: true,
        })
    }

    /// What was written so far; `None` if it was too much.
    pub fn so_far(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// What was written; `None` if it was too much.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        self.bytes
    }

    /// Hands on what has come. Whoever still has the pipe open when the program has ended is not waited for.
    fn pump(&mut self) {
        let mut buffer = [0_u8; 1 << 14];
        while self.is_open {
            // SAFETY: the pointer is to a buffer of this size.
            let count = unsafe {
                libc::read(
                    self.reading.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                )
            };
            match count {
                0 => self.is_open = false,
                1.. => {
                    let new = &buffer[..count as usize];
                    let _ = io::stderr().write_all(new);
                    match &mut self.bytes {
                        Some(bytes) if bytes.len() + new.len() <= MOST_CAPTURED => {
                            bytes.extend_from_slice(new);
                        }
                        bytes => *bytes = None,
                    }
                }
                _ => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    // So a terminal says that nobody has its other end.
                    error if error.raw_os_error() == Some(libc::EIO) => self.is_open = false,
                    _ => return,
                },
            }
        }
    }

    /// Waits until there is something to be read, the child has ended, there is a signal, or the time has passed.
    fn wait(&self, child: &Child, signals: &OwnedFd, limit: Option<Duration>) {
        let entry = |fd: RawFd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries = [
            entry(signals.as_raw_fd()),
            entry(if self.is_open {
                self.reading.as_raw_fd()
            } else {
                -1
            }),
            entry(child.descriptor.as_ref().map_or(-1, AsRawFd::as_raw_fd)),
        ];
        let limit = match (limit, &child.descriptor) {
            (Some(limit), _) => limit.as_millis() as libc::c_int + 1,
            (None, Some(_)) => -1,
            (None, None) => LOOK_AGAIN.as_millis() as libc::c_int,
        };
        // SAFETY: the pointer is to as many entries.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit) };
    }
}

/// How often the child is looked at where the kernel has no descriptors of processes.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A process that was started, until it has been waited for.
struct Child {
    pid: libc::pid_t,
    /// Readable once the process has ended (Linux 5.3). `SIGCHLD` does not tell that reliably to who polls: where the
    /// process has other threads that do not hold it back, one of those may take it, and it is gone.
    descriptor: Option<OwnedFd>,
}

impl Child {
    fn new(pid: libc::pid_t) -> Child {
        // SAFETY: no memory is concerned; the descriptor, if there is one, is new and closed on exec.
        let descriptor = unsafe {
            match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
                descriptor @ 0.. => Some(OwnedFd::from_raw_fd(descriptor as RawFd)),
                _ => None,
            }
        };
        Child { pid, descriptor }
    }
}

/// A descriptor that is readable while one of these (held) signals waits.
fn signal_descriptor(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: the pointer is to a set; the descriptor is new.
    unsafe {
        match libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Runs the program as a child, with our standard streams and environment,
/// and waits until it has ended. What it writes to standard error goes through `captured`, if that is asked for.
pub fn run(
    program: &Path,
    argv0: &OsStr,
    args: &[OsString],
    mut captured: Option<&mut Captured>,
) -> io::Result<Ending> {
    let heeded: Vec<libc::c_int> = ENDING
        .into_iter()
        .filter(|&signal| !ignored(signal))
        .collect();
    let mut waited_for = heeded.clone();
    waited_for.push(libc::SIGCHLD);
    let waited_for = signal_set(&waited_for);
    // SAFETY: sets the action to its default; no handler is replaced, because
    // this program installs none. (An ignored SIGCHLD would lose the status.)
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
    let held = HeldSignals::hold(&waited_for);
    let signals = match &captured {
        Some(_) => Some(signal_descriptor(&waited_for)?),
        None => None,
    };
    let error_stream = captured
        .as_mut()
        .and_then(|captured| captured.writing.take());
    let child = spawn(program, argv0, args, &held.before, error_stream.as_ref())?;
    let child = Child::new(child);
    drop(error_stream);
    // A signal, and when it came.
    let mut to_hand_on: Option<(libc::c_int, Instant)> = None;
    loop {
        let has_ended = ended(child.pid)?;
        if let Some(captured) = &mut captured {
            captured.pump();
        }
        if let Some(ending) = has_ended {
            // How the compiler ended tells what a signal meant that came while
            // it ran; one that still waits here must not end us otherwise.
            while next_signal(&waited_for, Some(Duration::ZERO)).is_some() {}
            return Ok(ending);
        }
        let patience = to_hand_on.map(|(_, since)| GRACE.saturating_sub(since.elapsed()));
        let next = match (&captured, &signals) {
            (Some(captured), Some(signals)) => {
                captured.wait(&child, signals, patience);
                next_signal(&waited_for, Some(Duration::ZERO))
            }
            _ => next_signal(&waited_for, patience),
        };
        match (next, to_hand_on) {
            (Some((libc::SIGCHLD, _) | (_, libc::SI_KERNEL)), _) => {}
            (Some((signal, _)), None) => to_hand_on = Some((signal, Instant::now())),
            // A second signal while one waits: no reason to wait longer.
            (Some((signal, _)), Some(_)) => {
                to_hand_on = None;
                send(child.pid, signal);
            }
            (None, Some((signal, since))) if since.elapsed() >= GRACE => {
                to_hand_on = None;
                send(child.pid, signal);
            }
            (None, _) => {}
        }
    }
}

/// Starts the program with the signal mask `mask`, and with `error_stream` for its standard error.
fn spawn(
    program: &Path,
    argv0: &OsStr,
    args: &[OsString],
    mask: &libc::sigset_t,
    error_stream: Option<&OwnedFd>,
) -> io::Result<libc::pid_t> {
    unsafe extern "C" {
        static environ: *const *mut libc::c_char;
    }
    let program = CString::new(program.as_os_str().as_bytes())?;
    let words: Vec<CString> = std::iter::once(argv0)
        .chain(args.iter().map(OsString::as_os_str))
        .map(|word| CString::new(word.as_bytes()))
        .collect::<Result<_, _>>()?;
    let argv: Vec<*mut libc::c_char> = words
        .iter()
        .map(|word| word.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect();
    let mut attributes = MaybeUninit::uninit();
    let mut child = 0;
    // SAFETY: the attributes are initialised before their use and destroyed
    // after it; argv and the environment are arrays of C strings with a null
    // at the end, which posix_spawnp does not change; this process has one
    // thread, so that nobody changes the environment meanwhile. posix_spawnp
    // runs a script without an interpreter line by the shell, as execvp does;
    // the program's path has a slash or stands in the current directory.
    let error = unsafe {
        let error = libc::posix_spawnattr_init(attributes.as_mut_ptr());
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // The Rust runtime ignores SIGPIPE; the compiler must not inherit that.
        libc::posix_spawnattr_setsigdefault(attributes.as_mut_ptr(), &signal_set(&[libc::SIGPIPE]));
        libc::posix_spawnattr_setsigmask(attributes.as_mut_ptr(), mask);
        libc::posix_spawnattr_setflags(
            attributes.as_mut_ptr(),
            (libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK) as libc::c_short,
        );
        let mut actions = MaybeUninit::uninit();
        libc::posix_spawn_file_actions_init(actions.as_mut_ptr());
        if let Some(stream) = error_stream {
            libc::posix_spawn_file_actions_adddup2(
                actions.as_mut_ptr(),
                stream.as_raw_fd(),
                libc::STDERR_FILENO,
            );
        }
        let error = libc::posix_spawnp(
            &mut child,
            program.as_ptr(),
            actions.as_ptr(),
            attributes.as_ptr(),
            argv.as_ptr(),
            environ,
        );
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
        error
    };
    if error == 0 {
        Ok(child)
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

/// How the child ended, if it has.
fn ended(child: libc::pid_t) -> io::Result<Option<Ending>> {
    let mut status = 0;
    // SAFETY: the pointer is to a local.
    match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
        0 => Ok(None),
        pid if pid == child => Ok(if libc::WIFEXITED(status) {
            Some(Ending::Exit(libc::WEXITSTATUS(status)))
        } else if libc::WIFSIGNALED(status) {
            Some(Ending::Signal(libc::WTERMSIG(status)))
        } else {
            None
        }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for one of the (held) signals and gives it with its `si_code`, which
/// tells whether the kernel sent it; `None` if the time passes first or the
/// wait is interrupted.
fn next_signal(set: &libc::sigset_t, time: Option<Duration>) -> Option<(libc::c_int, libc::c_int)> {
    let limit = time.map(|time| libc::timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the pointers are to values that live through the call, or null
    // where that is allowed; zeroed memory is a valid siginfo_t if the call does
    // not fill it in.
    let (signal, info) = unsafe {
        let signal = libc::sigtimedwait(set, info.as_mut_ptr(), limit);
        (signal, info.assume_init())
    };
    (signal > 0).then_some((signal, info.si_code))
}

/// Sends a signal to the child.
fn send(child: libc::pid_t, signal: libc::c_int) {
    // SAFETY: no memory is concerned; the child has not been waited for yet, so
    // its number is not another's.
    unsafe {
        libc::kill(child, signal);
    }
}

/// Ends this process as the compiler ended.
pub fn end_like(ending: Ending) -> ! {
    match ending {
        Ending::Exit(code) => std::process::exit(code),
        Ending::Signal(signal) => {
            let limit = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            let set = signal_set(&[signal]);
            // SAFETY: the pointers are to locals; setting an action to its
            // default installs no handler. The core limit keeps our own core
            // file from replacing the compiler's.
            unsafe {
                libc::setrlimit(libc::RLIMIT_CORE, &limit);
                libc::signal(signal, libc::SIG_DFL);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
                libc::raise(signal);
            }
            // The signal does not end a process by default after all.
            std::process::exit(128 + signal)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn sh(script: &str) -> Ending {
        run(
            &PathBuf::from("/bin/sh"),
            OsStr::new("sh"),
            &["-c".into(), script.into()],
            None,
        )
        .expect("a shell")
    }

    #[test]
    fn what_is_written_to_standard_error_is_kept() {
        let mut captured = Captured::new().expect("a pipe");
        let script = "printf one >&2; sleep 0.05; printf ' two' >&2; exit 3";
        let ending = run(
            Path::new("/bin/sh"),
            OsStr::new("sh"),
            &["-c".into(), script.into()],
            Some(&mut captured),
        );
        assert_eq!(ending.expect("a shell"), Ending::Exit(3));
        assert_eq!(captured.into_bytes().as_deref(), Some(&b"one two"[..]));
        // Who goes on after the program has ended is not waited for.
        let mut captured = Captured::new().expect("a pipe");
        let before = Instant::now();
        let ending = run(
            Path::new("/bin/sh"),
            OsStr::new("sh"),
            &["-c".into(), "echo x >&2; sleep 5 & exit 0".into()],
            Some(&mut captured),
        );
        assert_eq!(ending.expect("a shell"), Ending::Exit(0));
        assert!(before.elapsed() < Duration::from_secs(4));
        assert_eq!(captured.into_bytes().as_deref(), Some(&b"x\n"[..]));
    }

    #[test]
    fn endings() {
        assert_eq!(sh("exit 0"), Ending::Exit(0));
        assert_eq!(sh("exit 77"), Ending::Exit(77));
        assert_eq!(sh("kill -SEGV $$"), Ending::Signal(libc::SIGSEGV));
        assert_eq!(sh("kill -KILL $$"), Ending::Signal(libc::SIGKILL));
        let missing = run(Path::new("/no/such/program"), OsStr::new("x"), &[], None);
        assert_eq!(
            missing.expect_err("no such program").kind(),
            io::ErrorKind::NotFound
        );
    }
}
