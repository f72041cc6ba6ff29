//! What is compiled for tools (coverage, profilers, sanitizers, debuggers), and what is compiled in unusual ways (modules,
//! precompiled headers, unity builds), is as good through tickets and fat objects as without: not only that it runs, but what
//! the tools say.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};

/// How objects are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Ticket,
    Fat,
}

struct Field {
    scratch: Scratch,
    compiler: PathBuf,
    mode: Mode,
}

impl Field {
    fn command(&self) -> std::process::Command {
        if self.mode == Mode::Plain {
            return self.scratch.command(&self.compiler);
        }
        let mut command = self.scratch.command(Binaries::get().path("repo-cc"));
        if self.mode == Mode::Fat {
            command.env("REPO_CC_FAT", "1");
        }
        command.arg(&self.compiler);
        command
    }

    fn step(&self, words: &str) -> Run {
        run(self.command().args(words.split_whitespace()))
    }

    /// Compiles into an object, which must be what it is to be.
    #[track_caller]
    fn compile(&self, words: &str, object: &str) {
        self.step(&format!("{words} -o {object}")).ok();
        let path = self.scratch.join(object);
        assert_eq!(is_ticket_file(&path), self.mode != Mode::Plain, "{words}");
        let is_fat = tickets::is_fat(&fs::read(path).unwrap());
        assert_eq!(is_fat, self.mode == Mode::Fat, "{words}");
    }

    fn tool(&self, tool: &Path, words: &str) -> Run {
        run(self.scratch.command(tool).args(words.split_whitespace()))
    }

    fn program(&self) -> Run {
        run(&mut self.scratch.command("./program"))
    }

    fn is_clang(&self) -> bool {
        self.compiler.to_string_lossy().contains("clang")
    }
}

/// What `job` gives must be the same in all modes, for each compiler that is there and that can do it at all (`None`).
#[track_caller]
fn same_in_all_modes(compilers: &[&str], job: impl Fn(&Field) -> Option<String>) {
    for name in compilers {
        let Some(compiler) = tools::find(name) else {
            tools::skip(&format!("instrumented code of {name}"));
            continue;
        };
        let of = |mode| {
            job(&Field {
                scratch: Scratch::new(),
                compiler: compiler.clone(),
                mode,
            })
        };
        let Some(plain) = of(Mode::Plain) else {
            tools::skip(&format!(
                "instrumented code of {name}, which cannot do it here"
            ));
            continue;
        };
        for mode in [Mode::Ticket, Mode::Fat] {
            assert_eq!(of(mode), Some(plain.clone()), "{name} {mode:?}");
        }
    }
}

const C: [&str; 2] = ["gcc", "clang"];
const CXX: [&str; 2] = ["g++", "clang++"];

const COUNTED: &str = r#"
int work(int n) {
  if (n % 3)
    return n;
  return n * 2;
}
int never(void) { return 1; }
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 300; i++)
    sum += work(i);
  return sum == 59800 + argc ? 0 : argc == 1 ? 0 : never();
}
"#;

#[test]
fn coverage_counts_the_same_lines() {
    same_in_all_modes(&C, |field| {
        field.scratch.write("a.c", COUNTED);
        field.compile("--coverage -O1 -c a.c", "a.o");
        if !field.step("--coverage a.o -o program").status.success() {
            assert_eq!(field.mode, Mode::Plain);
            return None;
        }
        field.program().ok();
        assert!(field.scratch.join("a.gcda").exists());
        let (tool, words) = match field.is_clang() {
            true => (tools::on_path("llvm-cov-19")?, "gcov -t a.gcda"),
            false => (tools::on_path("gcov")?, "-t a.gcda"),
        };
        let text = field.tool(&tool, words).ok().text();
        assert!(text.contains("300:") && text.contains("#####:"), "{text}");
        Some(text)
    });
}

#[test]
fn profiles_name_the_same_functions() {
    same_in_all_modes(&C, |field| {
        field.scratch.write("a.c", COUNTED);
        field.compile("-pg -O0 -c a.c", "a.o");
        field.step("-pg a.o -o program").ok();
        field.program().ok();
        let profile = field.tool(&tools::on_path("gprof")?, "-b -p program gmon.out");
        let text = profile.ok().text();
        let of_work = text.lines().find(|line| line.ends_with(" work"))?;
        // Times differ, numbers of calls do not.
        Some(of_work.contains(" 300 ").to_string())
    });
}

#[test]
fn sanitizers_find_the_same_faults_at_the_same_lines() {
    const FAULTY: &str = "#include <stdlib.h>\nint shift(int by) { return 1 << by; }\n\
        int main(int argc, char **argv) {\n  volatile int s = shift(argc + 40);\n  char *at = malloc(8);\n  at[7 + argc] = 1;\n  return s + at[0];\n}\n";
    same_in_all_modes(&C, |field| {
        field.scratch.write("a.c", FAULTY);
        let flags = "-fsanitize=address,undefined -g -O0";
        field.compile(&format!("{flags} -c a.c"), "a.o");
        if !field
            .step(&format!("{flags} a.o -o program"))
            .status
            .success()
        {
            assert_eq!(field.mode, Mode::Plain);
            return None;
        }
        let ran = field.program();
        let said = ran.errors();
        let facts = [
            ("a.c:2:", "shift"),
            ("heap-buffer-overflow", "heap-buffer-overflow"),
            ("in main", "a.c"),
        ];
        for (fact, also) in facts {
            assert!(said.contains(fact) && said.contains(also), "{fact}: {said}");
        }
        Some(format!("{:?}", ran.status.code()))
    });
    // Threads: what it says of a race it says with a line.
    const RACE: &str = "#include <pthread.h>\nint shared;\nvoid *other(void *p) { shared++; return p; }\n\
        int main(void) {\n  pthread_t t;\n  pthread_create(&t, 0, other, 0);\n  shared++;\n  pthread_join(t, 0);\n  return 0;\n}\n";
    same_in_all_modes(&C, |field| {
        field.scratch.write("a.c", RACE);
        let flags = "-fsanitize=thread -g -O1";
        field.compile(&format!("{flags} -c a.c"), "a.o");
        if !field
            .step(&format!("{flags} a.o -o program"))
            .status
            .success()
        {
            assert_eq!(field.mode, Mode::Plain);
            return None;
        }
        // The runtime does not start on every kernel; what it does there, it does in all modes.
        Some(format!("{:?}", field.program().status.code().is_some()))
    });
}

#[test]
fn split_debug_information_is_found() {
    same_in_all_modes(&C, |field| {
        let gdb = tools::find("gdb")?;
        field.scratch.write("a.c", COUNTED);
        field.compile("-g -gsplit-dwarf -O0 -c a.c", "a.o");
        assert!(field.scratch.join("a.dwo").exists());
        field.step("-g -gsplit-dwarf a.o -o program").ok();
        let mut command = field.scratch.command(gdb);
        command.args(["-nx", "-batch", "-ex", "list work", "-ex", "ptype work"]);
        let said = run(command.arg("program")).ok().text();
        assert!(said.contains("int (int)"), "{said}");
        Some(said)
    });
}

#[test]
fn modules_of_cxx20() {
    const MODULE: &str = "export module m;\n\
        export template <class T> T twice(T x) { return x + x; }\nstatic int calls;\n\
        export int count(int x) { return x * 10 + ++calls; }\n";
    const USER: &str = "import m;\nint main() { return count(twice(4)) == 81 ? 0 : 1; }\n";
    same_in_all_modes(&CXX, |field| {
        field.scratch.write("m.cppm", MODULE);
        field.scratch.write("a.cc", USER);
        if field.is_clang() {
            field.step("-std=c++20 --precompile m.cppm -o m.pcm").ok();
            field.compile("-std=c++20 -c m.pcm", "m.o");
            field.compile("-std=c++20 -fmodule-file=m=m.pcm -c a.cc", "a.o");
        } else {
            let flags = "-std=c++20 -fmodules-ts -x c++ -c";
            field.compile(&format!("{flags} m.cppm"), "m.o");
            field.compile(&format!("{flags} a.cc"), "a.o");
        }
        field.step("m.o a.o -o program").ok();
        field.program().ok();
        Some(String::new())
    });
}

#[test]
fn precompiled_headers_and_unity_builds() {
    same_in_all_modes(&CXX, |field| {
        for (name, text) in [
            (
                "h.h",
                "#include <cstdio>\n#include <string>\ninline std::string h() { return \"h\"; }\n",
            ),
            (
                "one.cc",
                "static int own() { return 1; }\nint one() { return own(); }\n",
            ),
            (
                "two.cc",
                "int one();\nint main() { return std::printf(\"%s%d\\n\", h().c_str(), one()) < 0; }\n",
            ),
            ("unity.cc", "#include \"one.cc\"\n#include \"two.cc\"\n"),
        ] {
            field.scratch.write(name, text);
        }
        let use_it = match field.is_clang() {
            true => {
                field.step("-g -O1 -x c++-header h.h -o h.h.pch").ok();
                "-include-pch h.h.pch"
            }
            false => {
                field.step("-g -O1 -x c++-header h.h -o h.h.gch").ok();
                "-include h.h -Winvalid-pch"
            }
        };
        field.compile(&format!("{use_it} -g -O1 -c unity.cc"), "unity.o");
        field.step("unity.o -o program").ok();
        Some(field.program().ok().text())
    });
}

/// Instrumented by a compiler's profile, and then optimised by it.
#[test]
fn profiles_that_compilers_read() {
    same_in_all_modes(&C, |field| {
        field.scratch.write("a.c", COUNTED);
        field.compile("-fprofile-generate=prof -O2 -c a.c", "a.o");
        if !field
            .step("-fprofile-generate=prof a.o -o program")
            .status
            .success()
        {
            assert_eq!(field.mode, Mode::Plain);
            return None;
        }
        field.program().ok();
        let written = fs::read_dir(field.scratch.join("prof")).ok()?;
        let mut endings: Vec<_> = written
            .filter_map(|entry| Some(entry.ok()?.path().extension()?.to_owned()))
            .collect();
        endings.sort();
        Some(format!("{endings:?}"))
    });
}
