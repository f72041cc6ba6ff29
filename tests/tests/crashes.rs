//! Processes of ours are killed at random points of a real build, a hundred
//! times. What they leave must be whole: a ticket or an output that exists is
//! good, as make will believe; the repository opens and verifies; and the build
//! goes on to the right end.

use repo_tests::binaries::Binaries;
use repo_tests::build::{Family, Toolchain, compile_command, link_command, object_path, parallel};
use repo_tests::process::{command_line, run};
use repo_tests::programs::{self, Program};
use repo_tests::scratch::Scratch;
use repo_tests::sources::our_file;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const OPTIONS: &[&str] = &["-O0"];

/// Chooses the moments. A repository's own work is a short time at the end of a
/// process's life, so more of them are late than early; where the end is, is
/// learnt from the processes that were too fast.
struct Killer {
    seed: u64,
    /// About how long a process lives, in microseconds.
    life: f64,
}

impl Killer {
    fn next(&mut self) -> f64 {
        // xorshift64: enough to spread moments.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn moment(&mut self) -> Duration {
        let early = self.next();
        Duration::from_micros((self.life * (1.0 - early * early)) as u64)
    }

    fn learn(&mut self, was_killed: bool) {
        self.life *= if was_killed { 1.1 } else { 0.9 };
        self.life = self.life.clamp(500.0, 5e6);
    }
}

/// What became of a process that was to be killed.
enum End {
    Killed,
    /// It was faster, and succeeded.
    Finished,
}

/// Starts `command` and kills it at a moment of the killer's choice: the process
/// alone, as the kernel does when memory runs out, or with all its children, as
/// a terminal does.
fn start_and_kill(command: &mut Command, killer: &Mutex<Killer>) -> End {
    let line = command_line(command);
    let (moment, with_children) = {
        let mut killer = killer.lock().expect("no panic inside");
        (killer.moment(), killer.next() < 0.5)
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    // Its children have this standard error too: waiting for its end below is
    // waiting for them, and none writes an object later.
    let child = command
        .spawn()
        .unwrap_or_else(|error| panic!("$ {line}\n{error}"));
    let pid = Pid::from_child(&child);
    std::thread::sleep(moment);
    // It has not been waited for, so the number is still its own.
    let _ = if with_children {
        kill_process_group(pid, Signal::KILL)
    } else {
        kill_process(pid, Signal::KILL)
    };
    let output = child.wait_with_output().expect("a child can be waited for");
    let was_killed = output.status.signal() == Some(9);
    killer.lock().expect("no panic inside").learn(was_killed);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        was_killed || output.status.success(),
        "$ {line}\n{}\n{errors}",
        output.status
    );
    if was_killed {
        End::Killed
    } else {
        End::Finished
    }
}

fn verify(scratch: &Scratch) {
    if scratch.repository().exists() {
        run(scratch
            .command(Binaries::get().path("repo-dump"))
            .arg("--verify"))
        .ok();
    }
}

fn output_of_workload(scratch: &Scratch, lua: &Path) -> Vec<u8> {
    run(scratch.command(lua).arg(our_file("workload.lua")))
        .ok()
        .stdout
}

struct Crashing<'a> {
    scratch: &'a Scratch,
    toolchain: &'a Toolchain,
    program: &'a Program,
    killer: Mutex<Killer>,
    kills: AtomicU32,
}

impl Crashing<'_> {
    /// Compiles `source`; its compiles are killed `times` times, then one may
    /// finish. As make would, believes an object that is there.
    fn compile(&self, source: &Path, object: &Path, times: u32) {
        let command = || {
            compile_command(
                self.scratch,
                self.toolchain,
                self.program,
                OPTIONS,
                source,
                object,
            )
        };
        let mut kills = 0;
        // Too fast for the killer too often: enough is enough.
        for _ in 0..times * 4 {
            if kills == times {
                break;
            }
            match start_and_kill(&mut command(), &self.killer) {
                End::Killed => kills += 1,
                End::Finished => assert!(object.exists(), "no {}", object.display()),
            }
            // What the last process left is used, if it is a ticket: make would
            // take it for good. An ordinary object here is the compiler's own,
            // which writes it in place and may have been killed in the middle.
            if object.exists() {
                let ticket = is_ticket(object);
                if ticket {
                    self.check_ticket(object);
                }
                if !ticket || kills < times {
                    fs::remove_file(object).expect("a file of ours");
                }
            }
        }
        self.kills.fetch_add(kills, Ordering::Relaxed);
        if !object.exists() {
            run(&mut command()).ok();
        }
    }

    /// A ticket that a killed process left must be whole, and the repository must
    /// have what it names.
    fn check_ticket(&self, ticket: &Path) {
        let joined = ticket.with_extension("joined");
        let mut dump = self.scratch.command(Binaries::get().path("repo-dump"));
        run(dump.arg("--materialize").arg(ticket).arg("-o").arg(&joined)).ok();
        fs::remove_file(joined).expect("repo-dump made it");
    }
}

/// Whether `object` has the note of a ticket.
fn is_ticket(object: &Path) -> bool {
    let bytes = fs::read(object).expect("it exists");
    bytes.windows(5).any(|window| window == b"REPO\0")
}

#[test]
fn a_hundred_kills_spread_over_a_build() {
    let Some(plain) = Toolchain::plain(Family::Gcc) else {
        return;
    };
    let ours = plain.through_repository(Binaries::get());
    let program = programs::lua().expect("Lua's sources");
    let scratch = Scratch::new();
    let reference =
        repo_tests::build::build(&scratch, &plain, &program, OPTIONS, &scratch.join("plain"));
    let want = output_of_workload(&scratch, &reference.executable);

    let directory = scratch.join("ours");
    fs::create_dir(&directory).expect("a directory can be made");
    let crashing = Crashing {
        scratch: &scratch,
        toolchain: &ours,
        program: &program,
        killer: Mutex::new(Killer {
            seed: 0x9e37_79b9_7f4a_7c15,
            life: 50_000.0,
        }),
        kills: AtomicU32::new(0),
    };
    let objects: Vec<PathBuf> = program
        .sources
        .iter()
        .map(|source| object_path(&directory, source))
        .collect();
    // Two at once, so that a process dies while another holds or wants the lock.
    parallel(program.sources.len(), |index| {
        crashing.compile(&program.sources[index], &objects[index], 3);
        if index % 4 == 0 {
            verify(&scratch);
        }
    });

    // The link: what it killed leaves no output, or one that is whole.
    let executable = directory.join("lua");
    let link = || link_command(&scratch, &ours, &program, OPTIONS, &objects, &executable);
    let link_killer = Mutex::new(Killer {
        seed: 77,
        life: 20_000.0,
    });
    for _ in 0..40 {
        if let End::Killed = start_and_kill(&mut link(), &link_killer) {
            crashing.kills.fetch_add(1, Ordering::Relaxed);
        }
        if executable.exists() {
            assert_eq!(output_of_workload(&scratch, &executable), want);
        }
        verify(&scratch);
    }
    run(&mut link()).ok();
    assert_eq!(output_of_workload(&scratch, &executable), want);
    verify(&scratch);
    let kills = crashing.kills.into_inner();
    assert!(kills >= 100, "only {kills} processes were killed in time");
}
