//! Working only while the machine has nothing else to do.
//!
//! The work is done by a process of its own, whose threads that work long have the lowest [priority](crate::priority). This one looks at the machine, and
//! stops the other one (`SIGSTOP`) as soon as something else wants to run or waits for the disk: wherever that one is, and
//! without its doing, so that it takes no longer than this one needs to see it. When all is quiet again, that one goes on where
//! it was. It begins so, too: nobody knows yet what the machine does. Only while it holds a repository's lock it is not stopped,
//! as writers wait for it then: it says so, and is answered, before it takes the lock, and says when that is over. If this process dies, the kernel ends that one too; a compactor may be killed at any time.
//!
//! What is seen: how many tasks run, or wait for the disk, beside these two (`/proc/stat`). That is what the kernel knows at
//! once. Pressure stall information, too, says whether others were kept waiting, better than any load does; but the kernel brings
//! its figures up to date only every two seconds, and who is to be told earlier needs rights. So these, where there are any, decide
//! about going on, and not about stopping.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// How often this process looks while the other one works.
const WATCH: Duration = Duration::from_millis(10);

/// So many looks in a row must show something else: one may be a task that runs for a moment.
const LOOKS: u32 = 2;

/// How often it looks while the other one is stopped.
const WAIT: Duration = Duration::from_millis(100);

/// Of so many looks, one may show something else: then the machine is quiet.
const QUIET_LOOKS: u32 = 20;

/// More pressure than so many per cent, within the last ten seconds, is no quiet.
const PRESSURE: f64 = 10.0;

// What is promised: it stops within 50 milliseconds.
const _: () = assert!(WATCH.as_millis() as u32 * (LOOKS + 1) <= 50);

/// What the one says that works.
const EXCLUSIVE: u8 = b'x';
const RELEASED: u8 = b'r';

/// What the machine does beside this.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Others {
    /// Tasks that run, or want to.
    running: u64,
    /// Tasks that wait for the disk.
    blocked: u64,
    /// Per cent of the last ten seconds in which something was kept waiting; `None` if the kernel does not say.
    pressure: Option<f64>,
}

/// Decides.
#[derive(Debug)]
struct Judge {
    /// So many running tasks are something.
    limit: u64,
    is_stopped: bool,
    /// What the last looks have shown, the newest in the lowest bit: 1 is something.
    looks: u32,
}

impl Judge {
    fn new(processors: usize) -> Judge {
        Judge {
            // Of many processors, some are always in use.
            limit: (processors as u64 / 4).max(1),
            is_stopped: true,
            looks: u32::MAX,
        }
    }

    /// Whether the work is to be stopped now.
    fn see(&mut self, others: Others) -> bool {
        let is_busy = others.running >= self.limit || others.blocked > 0;
        let is_pressed = self.is_stopped && others.pressure.is_some_and(|now| now > PRESSURE);
        self.looks = self.looks << 1 | u32::from(is_busy || is_pressed);
        let mask = |looks: u32| (1 << looks) - 1;
        self.is_stopped = match self.is_stopped {
            false => self.looks & mask(LOOKS) == mask(LOOKS),
            true => (self.looks & mask(QUIET_LOOKS)).count_ones() > 1,
        };
        self.is_stopped
    }
}

/// When to look at the machine: whatever the process that works has to say meanwhile, and however often.
#[derive(Debug)]
struct Looks {
    last: Instant,
}

impl Looks {
    fn new(now: Instant) -> Looks {
        Looks { last: now }
    }

    /// How long to wait for the next look; `None` if it is due, and then counts as made.
    fn due_in(&mut self, now: Instant, is_stopped: bool) -> Option<Duration> {
        let pause = match is_stopped {
            true => WAIT,
            false => WATCH,
        };
        let left = pause.saturating_sub(now.saturating_duration_since(self.last));
        if left.is_zero() {
            self.last = now;
            return None;
        }
        Some(left)
    }
}

/// Where the kernel tells these things.
struct Machine {
    root: PathBuf,
}

impl Machine {
    /// What there is beside this process and `worker`.
    fn look(&self, worker: u32) -> Option<Others> {
        let stat = std::fs::read_to_string(self.root.join("stat")).ok()?;
        let of = |name: &str| {
            let line = stat
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u64>().ok()
        };
        let (mut running, mut blocked) = (of("procs_running ")?, of("procs_blocked ")?);
        // Who looks is running.
        running = running.saturating_sub(1);
        for state in self.states_of(worker) {
            match state {
                'R' => running = running.saturating_sub(1),
                'D' => blocked = blocked.saturating_sub(1),
                _ => {}
            }
        }
        let kinds = ["cpu", "io", "memory"].into_iter();
        let pressures = kinds.filter_map(|kind| self.pressure(kind));
        Some(Others {
            running,
            blocked,
            pressure: pressures.reduce(f64::max),
        })
    }

    /// The letters of the states of a process's threads (proc(5)).
    fn states_of(&self, process: u32) -> Vec<char> {
        let tasks = std::fs::read_dir(self.root.join(format!("{process}/task")));
        let states = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            // After the name, which may have any characters.
            stat.rsplit_once(") ")?.1.chars().next()
        });
        states.collect()
    }

    fn pressure(&self, kind: &str) -> Option<f64> {
        let text = std::fs::read_to_string(self.root.join("pressure").join(kind)).ok()?;
        let some = text
            .lines()
            .find_map(|line| line.strip_prefix("some avg10="))?;
        some.split(' ').next()?.parse().ok()
    }
}

/// Runs this program with these words, which make it the one that [works](Worker), and stops and continues it. `root` is
/// `/proc`.
///
/// # Errors
/// If it cannot be started, or the kernel does not say what the machine does.
pub fn supervise(words: impl IntoIterator<Item = OsString>, root: &Path) -> Result<ExitStatus> {
    let machine = Machine {
        root: root.to_owned(),
    };
    let (mut own, other) = UnixStream::pair()?;
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let child = Command::new(program)
        .args(words)
        .stdin(OwnedFd::from(other))
        .spawn()
        .context("cannot start the process that works")?;
    let mut worker = Stoppable {
        child,
        is_stopped: false,
    };
    let id = worker.child.id();
    if machine.look(id).is_none() {
        bail!(
            "{}: does not say what the machine does",
            root.join("stat").display()
        );
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut judge = Judge::new(processors);
    // Until it says otherwise: it opens repositories.
    let mut is_exclusive = true;
    let mut looks = Looks::new(Instant::now());
    loop {
        let mut said = [0];
        match looks.due_in(Instant::now(), worker.is_stopped) {
            None => drop(judge.see(machine.look(id).unwrap_or_default())),
            Some(pause) => {
                own.set_read_timeout(Some(pause))?;
                match own.read(&mut said) {
                    // It has ended.
                    Ok(0) => return Ok(worker.child.wait()?),
                    Ok(_) => is_exclusive = said == [EXCLUSIVE],
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                        return Ok(worker.child.wait()?);
                    }
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                        ) =>
                    {
                        said = [0];
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        match (judge.is_stopped && !is_exclusive, worker.is_stopped) {
            (true, false) => worker.signal(Signal::STOP),
            (false, true) => worker.signal(Signal::CONT),
            _ => {}
        }
        if said != [0] {
            // If it has ended since, that is seen next.
            let _ = own.write_all(&said);
        }
    }
}

/// The process that works.
struct Stoppable {
    child: Child,
    is_stopped: bool,
}

impl Stoppable {
    fn signal(&mut self, signal: Signal) {
        self.is_stopped = signal == Signal::STOP;
        if let Some(id) = Pid::from_raw(self.child.id() as i32) {
            // It has not been waited for: the id is its own.
            let _ = kill_process(id, signal);
        }
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        // Has no effect on one that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The side of the process that works. Without a supervisor it says nothing.
#[derive(Debug, Default)]
pub struct Worker {
    supervisor: Option<UnixStream>,
}

impl Worker {
    /// One whose supervisor is at the other end of standard input. It dies when that does.
    ///
    /// # Errors
    /// If standard input cannot be had.
    pub fn paced() -> Result<Worker> {
        use std::os::fd::AsFd;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let supervisor = std::io::stdin().as_fd().try_clone_to_owned()?;
        Ok(Worker {
            supervisor: Some(supervisor.into()),
        })
    }

    /// Returns when this process will not be stopped.
    pub fn exclusive(&self) {
        self.say(EXCLUSIVE);
    }

    /// From now on it may be, perhaps at once.
    pub fn released(&self) {
        self.say(RELEASED);
    }

    fn say(&self, what: u8) {
        if let Some(mut supervisor) = self.supervisor.as_ref() {
            // If the other end is gone, this process is about to be killed.
            let _ = supervisor.write_all(&[what]);
            let _ = supervisor.read_exact(&mut [0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Instant, Judge, LOOKS, Looks, Machine, Others, QUIET_LOOKS, WATCH};

    const NOTHING: Others = Others {
        running: 0,
        blocked: 0,
        pressure: None,
    };
    const WORK: Others = Others {
        running: 1,
        ..NOTHING
    };

    /// One that has seen a quiet machine.
    fn working(processors: usize) -> Judge {
        let mut judge = Judge::new(processors);
        while judge.see(NOTHING) {}
        judge
    }

    #[test]
    fn it_looks_also_while_the_other_one_never_stops_talking() {
        let begun = Instant::now();
        let mut looks = Looks::new(begun);
        let (mut now, mut looked) = (begun, vec![]);
        while now < begun + 10 * WATCH {
            match looks.due_in(now, false) {
                None => looked.push(now),
                // It takes the lock and gives it up again, for less time than there is between two looks.
                Some(left) => now += left.min(WATCH / 2),
            }
        }
        assert!(looked.len() >= 9, "{looked:?}");
    }

    #[test]
    fn it_begins_when_all_is_quiet() {
        let mut judge = Judge::new(2);
        let looks = (0..).take_while(|_| judge.see(NOTHING)).count();
        assert!(looks >= QUIET_LOOKS as usize / 2, "{looks}");
        let mut judge = Judge::new(2);
        assert!((0..100).all(|_| judge.see(WORK)));
    }

    #[test]
    fn it_stops_for_what_lasts_and_goes_on_when_all_is_quiet() {
        let mut judge = working(2);
        // A task that runs for a moment.
        assert!(!judge.see(WORK) && !judge.see(NOTHING));
        for look in 1..=LOOKS {
            assert_eq!(judge.see(WORK), look == LOOKS);
        }
        // One such moment while it waits is no work either, but two are.
        for look in 0..QUIET_LOOKS {
            let others = [NOTHING, WORK][usize::from(look == 3 || look == 9)];
            assert!(judge.see(others));
        }
        let more = (0..).take_while(|_| judge.see(NOTHING)).count();
        assert!((1..QUIET_LOOKS as usize).contains(&more), "{more}");
    }

    #[test]
    fn what_waits_for_the_disk_is_work_and_some_of_many_processors_are_not() {
        let blocked = Others {
            blocked: 1,
            ..NOTHING
        };
        let mut judge = working(2);
        judge.see(blocked);
        assert!(judge.see(blocked));
        let mut judge = working(16);
        for running in 0..4 {
            assert!(!judge.see(Others { running, ..NOTHING }));
        }
        let all = Others {
            running: 4,
            ..NOTHING
        };
        assert!(!judge.see(all) && judge.see(all));
    }

    #[test]
    fn pressure_keeps_it_stopped_but_does_not_stop_it() {
        let pressed = Others {
            pressure: Some(60.0),
            ..NOTHING
        };
        let mut judge = working(2);
        assert!((0..50).all(|_| !judge.see(pressed)));
        while !judge.see(WORK) {}
        assert!((0..50).all(|_| judge.see(pressed)));
        let calm = Others {
            pressure: Some(1.0),
            ..NOTHING
        };
        let looks = (0..).take_while(|_| judge.see(calm)).count();
        assert!(looks < 2 * QUIET_LOOKS as usize, "{looks}");
    }

    #[test]
    fn what_the_kernel_says_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine {
            root: directory.path().to_owned(),
        };
        assert_eq!(machine.look(7), None);
        let stat = "cpu  1 2 3\nprocesses 9\nprocs_running 4\nprocs_blocked 2\nsoftirq 1 2\n";
        std::fs::write(directory.path().join("stat"), stat).unwrap();
        let found = |running, blocked, pressure| {
            Some(Others {
                running,
                blocked,
                pressure,
            })
        };
        assert_eq!(machine.look(7), found(3, 2, None));
        for (name, text) in [
            (
                "pressure/cpu",
                "some avg10=1.50 avg60=0.00 avg300=0.00 total=1\n",
            ),
            (
                "pressure/io",
                "some avg10=20.25 avg60=0.00 avg300=0.00 total=1\nfull avg10=90.00\n",
            ),
            ("7/task/7/stat", "7 (a) R (b) D 1 2 3\n"),
            ("8/task/8/stat", "8 (repo-gc) S 1 2 3\n"),
            ("8/task/9/stat", "9 (repo-gc) R 1 2 3\n"),
            ("8/task/10/stat", "10 (repo-gc) R 1 2 3\n"),
        ] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert_eq!(machine.look(7), found(3, 1, Some(20.25)));
        // The thread that works is not the first one.
        assert_eq!(machine.look(8), found(1, 2, Some(20.25)));
    }
}
