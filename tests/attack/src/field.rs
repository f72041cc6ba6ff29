//! Where an attack is made: a directory with a small program, its tickets and their repository, made once and restored before
//! each try.

use crate::oracle::{ends_cleanly, succeeds};
use crate::{Failure, Verdict};
use repo_hostile::Random;
use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::scratch::Scratch;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the program. Strings, tables, static and inline functions, thread-local data, constructors: many kinds of records.
const SOURCES: [(&str, &str); 4] = [
    (
        "main",
        "#include <stdio.h>\nint value(int); const char *word(int); int count(void);\n\
         int main(void) { for (int i = 0; i < 4; i++) printf(\"%s %d\\n\", word(i), value(i));\n\
         printf(\"%d\\n\", count()); return 0; }\n",
    ),
    (
        "value",
        "static int twice(int x) { return 2 * x; }\nconst int table[] = {1, 20, 300};\n\
         int (*const calls[])(int) = {twice, twice};\n\
         int value(int x) { return calls[x & 1](x) + table[x % 3]; }\n",
    ),
    (
        "word",
        "static const char *const words[] = {\"zero\", \"one\", \"two\", \"many\"};\n\
         const char *word(int x) { return words[x < 3 ? x : 3]; }\n",
    ),
    (
        "count",
        "static _Thread_local int calls = 40; static int begun;\n\
         __attribute__((constructor)) static void begin(void) { begun = 1; }\n\
         int count(void) { calls += 1 + begun; return calls; }\n",
    ),
];

/// What the program says.
const RIGHT: &str = "zero 1\none 22\ntwo 304\nmany 7\n42\n";

/// The names of the program's units, without extension.
pub const UNITS: [&str; 4] = ["main", "value", "word", "count"];

/// The directory, and the state to which it is restored.
pub struct Field {
    /// The directory.
    pub scratch: Scratch,
    /// Numbers for the attack's choices.
    pub random: Random,
    /// The sound repository.
    good: Vec<u8>,
    /// The tickets, by unit.
    tickets: Vec<Vec<u8>>,
    /// Changed in each try, so that something is new.
    edits: u32,
}

impl Field {
    /// Makes the program.
    ///
    /// # Errors
    /// If there is no gcc; or if it does not work without any attack.
    pub fn new(seed: u64) -> Result<Field, Failure> {
        if repo_tests::tools::find("gcc").is_none() {
            return Err(Failure::Impossible("there is no gcc".into()));
        }
        let mut field = Field {
            scratch: Scratch::new(),
            random: Random::new(seed),
            good: Vec::new(),
            tickets: Vec::new(),
            edits: 0,
        };
        for (name, text) in SOURCES {
            field.scratch.write(format!("{name}.c"), text);
        }
        for unit in UNITS {
            succeeds(&run(&mut field.compile(unit)))?;
        }
        field.links_right()?;
        field.good = field.read(&field.scratch.repository())?;
        for unit in UNITS {
            let ticket = field.read(&field.ticket(unit))?;
            field.tickets.push(ticket);
        }
        Ok(field)
    }

    /// Everything as it was at first.
    ///
    /// # Errors
    /// If the directory cannot be written.
    pub fn restore(&self) -> Verdict {
        let _ = fs::remove_file(self.scratch.join("program"));
        self.put(&self.scratch.repository(), &self.good)?;
        for (unit, ticket) in UNITS.iter().zip(&self.tickets) {
            self.put(&self.ticket(unit), ticket)?;
        }
        for (name, text) in SOURCES {
            self.put(&self.scratch.join(format!("{name}.c")), text.as_bytes())?;
        }
        Ok(())
    }

    /// The sound repository.
    pub fn good(&self) -> &[u8] {
        &self.good
    }

    /// Replaces a file of the directory by a new one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> Verdict {
        let _ = fs::remove_file(path);
        // As a repository is made; of the others nobody asks.
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        let written = made.and_then(|mut file| file.write_all(bytes));
        written.map_err(|why| Failure::Impossible(format!("{}: {why}", path.display())))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self, path: &Path) -> Result<Vec<u8>, Failure> {
        fs::read(path).map_err(|why| Failure::broken(format!("{}: {why}", path.display())))
    }

    /// Where a unit's ticket is.
    pub fn ticket(&self, unit: &str) -> PathBuf {
        self.scratch.join(format!("{unit}.o"))
    }

    /// One of our programs.
    pub fn ours(&self, name: &str) -> Command {
        self.scratch.command(Binaries::get().path(name))
    }

    /// Compiles a unit into a ticket.
    pub fn compile(&self, unit: &str) -> Command {
        let mut command = self.ours("repo-cc");
        let edit = format!("-DEDIT={}", self.edits);
        command.args(["gcc", "-O1", "-g", &edit, "-c", &format!("{unit}.c")]);
        command
    }

    /// Links the program.
    pub fn link(&self) -> Command {
        let mut command = self.ours("repo-cc");
        command
            .arg("gcc")
            .args(UNITS.map(|unit| format!("{unit}.o")));
        command.args(["-o", "program"]);
        command
    }

    /// Links with `repo-ld` alone, without the compiler's driver; the result cannot be run.
    pub fn link_alone(&self) -> Command {
        let mut command = self.ours("repo-ld");
        command.args([
            "-e",
            "main",
            "--unresolved-symbols=ignore-all",
            "-o",
            "program",
        ]);
        command.args(UNITS.map(|unit| format!("{unit}.o")));
        command
    }

    /// Verifies the repository.
    pub fn verify(&self) -> Command {
        let mut command = self.ours("repo-dump");
        command.arg("--verify");
        command
    }

    /// Compacts the repository.
    pub fn compact(&self) -> Command {
        let mut command = self.ours("repo-gc");
        command.args(["--grace", "0s"]);
        command
    }

    /// Changes a unit's source so that a compile of it adds something.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn edit(&mut self, unit: &str) -> Verdict {
        self.edits += 1;
        let text = SOURCES.iter().find(|(name, _)| *name == unit);
        let text = text.map_or("", |(_, text)| text);
        let text = format!(
            "{text}\nint {unit}_edit_{}(int x) {{ return x * {}; }}\n",
            self.edits, self.edits
        );
        self.put(&self.scratch.join(format!("{unit}.c")), text.as_bytes())
    }

    /// Whether the program that is there says what it should.
    ///
    /// # Errors
    /// If there is none, or it cannot be run.
    pub fn is_right(&self) -> Result<bool, Failure> {
        let path = self.scratch.join("program");
        if !path.exists() {
            return Err(Failure::broken("there is no program after a link"));
        }
        let output = self.scratch.command(&path).output();
        let output = output.map_err(|why| Failure::broken(format!("the program: {why}")))?;
        Ok(output.status.success() && output.stdout == RIGHT.as_bytes())
    }

    /// The oracle after attacks that must cost nothing but work: the repository is whole, and a link from what is there, or
    /// compiled again, gives the right program.
    ///
    /// # Errors
    /// What is wrong.
    pub fn survives(&self) -> Verdict {
        if self.scratch.repository().exists() {
            succeeds(&run(&mut self.verify()))?;
        }
        for unit in UNITS {
            let ticket = self.ticket(unit);
            // As make would: what is there is believed.
            if !ticket.exists() {
                succeeds(&run(&mut self.compile(unit)))?;
            }
        }
        self.links_right()
    }

    /// A link succeeds, and its program is right.
    ///
    /// # Errors
    /// What is wrong.
    pub fn links_right(&self) -> Verdict {
        succeeds(&run(&mut self.link()))?;
        match self.is_right()? {
            true => Ok(()),
            false => Err(Failure::broken(
                "a link succeeded, and its program is wrong",
            )),
        }
    }

    /// A link is right or fails with a message, and then leaves nothing. Returns whether it was right.
    ///
    /// # Errors
    /// What is wrong. A program that runs otherwise is left to the caller (`Ok(None)`).
    pub fn links_or_refuses(&self) -> Result<Option<bool>, Failure> {
        let _ = fs::remove_file(self.scratch.join("program"));
        let linked = run(&mut self.link());
        ends_cleanly(&linked)?;
        if linked.status.success() {
            return Ok(self.is_right()?.then_some(true));
        }
        match self.scratch.join("program").exists() {
            true => Err(Failure::broken(format!(
                "an output after an error\n{}",
                linked.report()
            ))),
            false => Ok(Some(false)),
        }
    }
}
