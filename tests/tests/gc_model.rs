//! Random programs of commits, deletions, relinks and compactions, some of which are killed, against a model: after each
//! compaction every ticket that is there links to the program that it always linked to, byte for byte, and incremental links go
//! on being incremental. Where there is clang 19, every other unit is compiled by it, with what the repository knows already pruned: whatever that was
//! when it was compiled, it is the same program.
//!
//! `REPO_TESTS_GC_STEPS` sets how many steps (10,000 by hand), `REPO_TESTS_SEED` where they begin.

use repo_tests::binaries::{self, Binaries};
use repo_tests::draw::{Draw, setting};
use repo_tests::process::{Run, run};
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::require;
use repo_tests::scratch::{Scratch, settle};
use repo_tests::tools;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const UNITS: usize = 6;
const VARIANTS: usize = 4;

/// What becomes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unit {
    /// There is no ticket.
    Absent,
    /// A ticket file of this variant.
    Ticket(usize),
    /// A ticket in the archive, and nowhere else.
    Archived(usize),
}

struct Model {
    scratch: Scratch,
    gcc: PathBuf,
    /// A compiler that prunes, if there is one.
    clang: Option<PathBuf>,
    ar: PathBuf,
    through: String,
    draw: Draw,
    units: [Unit; UNITS],
    /// What the programs were when they were linked first.
    programs: HashMap<[Unit; UNITS], Vec<u8>>,
    killed: u32,
    compacted: u32,
    relinked: u32,
}

impl Model {
    fn new(gcc: PathBuf, ar: PathBuf, seed: u64) -> Model {
        let scratch = Scratch::new();
        let mut main = String::from("int printf(const char *, ...);\n");
        for unit in 0..UNITS {
            main += &format!("int f{unit}(void) __attribute__((weak));\n");
            for variant in 0..VARIANTS {
                // Of some, the code is shared; all have something of their own, and strings to merge.
                let text = format!(
                    "static const char *const words[] = {{\"all\", \"unit {unit}\", \"variant {variant}\"}};\n\
                     __attribute__((weak, noinline)) int common(int x) {{ return x * 3; }}\n\
                     int table{unit}[{}] = {{{variant}, 2, 3}};\n\
                     int f{unit}(void) {{ return common({}) + words[2][8] - '0' + table{unit}[0]; }}\n",
                    4 + variant * 3,
                    unit * 100 + variant * 10,
                );
                scratch.write(format!("f{unit}_{variant}.c"), text);
            }
        }
        main += "int main(void) {\n";
        for unit in 0..UNITS {
            main += &format!("printf(\"%d \", f{unit} ? f{unit}() : -1);\n");
        }
        main += "return 0; }\n";
        scratch.write("main.c", main);
        let links = scratch.join("bin");
        fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink(Binaries::get().path("repo-ld"), links.join("ld")).unwrap();
        let through = format!("-B{}", links.display());
        settle();
        let clang = binaries::plugin().and_then(|_| tools::find("clang-19"));
        let mut model = Model {
            scratch,
            gcc,
            clang,
            ar,
            through,
            draw: Draw(seed),
            units: [Unit::Absent; UNITS],
            programs: HashMap::new(),
            killed: 0,
            compacted: 0,
            relinked: 0,
        };
        model.compile("main.c", "main.o").ok();
        model
    }

    fn program(&self, name: &str) -> Command {
        self.scratch.command(Binaries::get().path(name))
    }

    fn compile_command(&self, source: &str, output: &str) -> Command {
        let mut command = self.program("repo-cc");
        let is_odd = |name: &str| {
            let unit = name
                .strip_prefix('f')
                .and_then(|rest| rest.split('_').next());
            unit.and_then(|unit| unit.parse::<usize>().ok())
                .is_some_and(|unit| unit % 2 == 1)
        };
        let compiler = match &self.clang {
            Some(clang) if is_odd(source) => clang,
            _ => &self.gcc,
        };
        command
            .arg(compiler)
            .args(["-O1", "-c", source, "-o", output]);
        command
    }

    fn compile(&mut self, source: &str, output: &str) -> Run {
        run(&mut self.compile_command(source, output))
    }

    fn step(&mut self) {
        let unit = self.draw.below(UNITS);
        match self.draw.below(100) {
            0..35 => self.edit(unit),
            35..45 => self.delete(unit),
            45..55 => self.archive(),
            55..70 => self.relink(),
            _ => self.compact(),
        }
    }

    fn edit(&mut self, unit: usize) {
        if let Unit::Archived(_) = self.units[unit] {
            return;
        }
        let variant = self.draw.below(VARIANTS);
        let source = format!("f{unit}_{variant}.c");
        self.compile(&source, &format!("f{unit}.o")).ok();
        self.units[unit] = Unit::Ticket(variant);
    }

    fn delete(&mut self, unit: usize) {
        if let Unit::Ticket(_) = self.units[unit] {
            fs::remove_file(self.scratch.join(format!("f{unit}.o"))).unwrap();
            self.units[unit] = Unit::Absent;
        }
    }

    /// An archive of some of the tickets, in place of the one before.
    fn archive(&mut self) {
        let _ = fs::remove_file(self.scratch.join("libf.a"));
        let mut members = Vec::new();
        for unit in 0..UNITS {
            match self.units[unit] {
                Unit::Archived(_) => self.units[unit] = Unit::Absent,
                Unit::Ticket(variant) if self.draw.below(3) == 0 => {
                    self.units[unit] = Unit::Archived(variant);
                    members.push(format!("f{unit}.o"));
                }
                _ => {}
            }
        }
        if !members.is_empty() {
            let mut ar = self.scratch.command(&self.ar);
            run(ar.args(["rcs", "libf.a"]).args(&members)).ok();
            members
                .iter()
                .for_each(|member| fs::remove_file(self.scratch.join(member)).unwrap());
        }
    }

    /// The tickets that are there, as the linker is given them.
    fn inputs(&self) -> Vec<String> {
        let mut inputs = vec!["main.o".to_owned()];
        let tickets = (0..UNITS).filter(|unit| matches!(self.units[*unit], Unit::Ticket(_)));
        inputs.extend(tickets.map(|unit| format!("f{unit}.o")));
        if self
            .units
            .iter()
            .any(|unit| matches!(unit, Unit::Archived(_)))
        {
            inputs.extend(
                ["-Wl,--whole-archive", "libf.a", "-Wl,--no-whole-archive"].map(str::to_owned),
            );
        }
        inputs
    }

    /// Links and runs what is there.
    fn link(&self, output: &str, words: &[&str]) -> String {
        let mut command = self.scratch.command(&self.gcc);
        command.arg(&self.through).args(words).args(["-o", output]);
        command.env("REPO_LOG", self.scratch.join("log"));
        let linked = run(command.args(self.inputs()));
        let done = linked.ok();
        assert_eq!(done.errors(), "", "{}", done.report());
        run(&mut self.scratch.command(self.scratch.join(output)))
            .ok()
            .text()
    }

    /// What the program says.
    fn expected(&self) -> String {
        let of = |(unit, state): (usize, &Unit)| match *state {
            Unit::Absent => "-1 ".to_owned(),
            Unit::Ticket(variant) | Unit::Archived(variant) => {
                format!("{} ", 3 * (unit * 100 + variant * 10) + 2 * variant)
            }
        };
        self.units.iter().enumerate().map(of).collect()
    }

    fn relink(&mut self) {
        let said = self.link("incremental", &[INCREMENTAL]);
        self.check(&said);
        self.relinked += 1;
    }

    fn check(&self, said: &str) {
        assert_eq!(said, self.expected(), "{:?}", self.units);
    }

    /// A compaction that keeps more or less, perhaps with a compile beside it, and perhaps killed.
    fn compact(&mut self) {
        let mut command = self.program("repo-gc");
        let has_grace = self.draw.below(2) == 1;
        command.args(["--grace", ["0", "4h"][usize::from(has_grace)]]);
        match self.draw.below(4) {
            0 => {}
            1 => drop(command.args(["--max-size", ["1", "40K"][self.draw.below(2)]])),
            _ => drop(command.args(["--unused", "0"])),
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Without a grace period, what is compiled meanwhile may be there while its ticket is not.
        let beside = has_grace && self.draw.below(2) == 0;
        if beside {
            let text = format!(
                "int beside(void) {{ return {}; }}\n",
                self.draw.below(1 << 30)
            );
            self.scratch.write("beside.c", text);
            self.compile("beside.c", "beside.o").ok();
        }
        match self.draw.below(3) {
            0 => {
                // At some moment, which nobody knows.
                for _ in 0..self.draw.below(3000) {
                    std::thread::yield_now();
                }
                let _ = child.kill();
                let status = child.wait().unwrap();
                self.killed += u32::from(!status.success());
            }
            _ => {
                let done = child.wait_with_output().unwrap();
                assert!(
                    done.status.success(),
                    "{}",
                    String::from_utf8_lossy(&done.stderr)
                );
                self.compacted += 1;
            }
        }
        if self.draw.below(8) == 0 {
            run(self.program("repo-dump").arg("--verify")).ok();
        }
        let said = self.link("program", &[]);
        self.check(&said);
        let program = fs::read(self.scratch.join("program")).unwrap();
        let before = self
            .programs
            .entry(self.units)
            .or_insert_with(|| program.clone());
        assert!(*before == program, "another program: {:?}", self.units);
        if beside {
            run(self.program("repo-dump").arg("beside.o")).ok();
        }
    }
}

#[test]
fn every_ticket_links_to_the_same_program() {
    let [gcc, ar] = require!("gcc", "ar");
    let seed = setting("REPO_TESTS_SEED", 27);
    let steps = setting("REPO_TESTS_GC_STEPS", 500);
    let mut model = Model::new(gcc, ar, seed);
    for step in 0..steps {
        println!("step {step} of seed {seed}: {:?}", model.units);
        model.step();
    }
    let Model {
        killed,
        compacted,
        relinked,
        ..
    } = model;
    println!("{compacted} compactions, {killed} that were killed, {relinked} relinks");
    assert!(steps < 100 || (killed > 0 && compacted > 0 && relinked > 0));
}

#[test]
fn relinks_after_a_compaction_are_incremental() {
    let [_] = require!("g++");
    let Some(place) = Place::new() else { return };
    let main = "int a(int); int b(int); int main() { return a(1) + b(2); }";
    place.compile("main", main, &[], true);
    let function = |name: &str, value: u32| {
        let text = format!(
            "inline int shared(int x) {{ return x * 2; }} int {name}(int x) {{ return shared(x) + {value}; }}"
        );
        place.compile(name, &text, &[], true);
    };
    function("a", 1);
    function("b", 2);
    // Something that goes.
    place.compile("dead", "int dead() { return 3; }", &[], true);
    fs::remove_file(place.scratch.join("dead.o")).unwrap();
    settle();
    let words = [INCREMENTAL, "main.o", "a.o", "b.o"];
    place.link("program", &words).ok();
    let gc = || {
        let mut gc = place.scratch.command(Binaries::get().path("repo-gc"));
        let done = run(gc.args(["--grace", "0", "--unused", "0"])).ok().text();
        assert!(done.contains("bytes before"), "{done}");
        done
    };
    let exits = |code| run(&mut place.scratch.command(place.scratch.join("program"))).code(code);
    exits(2 + 1 + 4 + 2);
    assert!(gc().contains("kept 3 of 4 compilations"));
    for value in 3..6 {
        gc();
        // Nothing has changed for the linker.
        place.link("program", &words).ok();
        assert!(
            place.last().contains("incremental link: 0 of"),
            "{}",
            place.last()
        );
        function("a", value);
        gc();
        place.link("program", &words).ok();
        assert!(
            place.last().contains("incremental link: 1 of"),
            "{}",
            place.last()
        );
        exits(2 + value as i32 + 4 + 2);
    }
}
