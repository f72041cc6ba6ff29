//! Compiles that the repository knows are not done again: what was not compiled is what a compile would have made, and
//! whatever changes that makes a compile.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket;
use repo_tests::memo::{Memo, SOURCE};
use repo_tests::process::run;
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn nothing_changed() {
    Memo::each(|it| {
        for more in [
            &[][..],
            &["-MD"],
            &["-MMD"],
            &["-MD", "-MP", "-MF", "dep", "-MT", "x y"],
            &["-O2", "-g"],
            &["-Wp,-MD,dep"],
            &["-Wall"],
            &["-g", "-MMD", "-MP"],
            &["-include", "first.h"],
        ] {
            it.miss(&it.words(more));
        }
        // Without -o, and with a response file.
        it.miss(&["-Iearly", "-Iinc", "-c", it.source, "-MD"]);
        it.scratch.write("words", "-O1 -Iinc\n-DEXTRA=5");
        it.miss(&it.words(&["@words"]));
        it.scratch.write("words", "-O1 -Iinc\n-DEXTRA=6");
        it.miss(&it.words(&["@words"]));
    });
}

/// What a whole compile makes, and what is known of it, are one transaction: a trailer, and paths of the indices, less.
#[test]
fn one_transaction() {
    Memo::two(|it| {
        let mut it = Memo::new(it.compiler.clone(), it.source);
        it.environment.push(("REPO_CC_PRUNE".into(), "0".into()));
        let revisions = || {
            let mut dump = it.scratch.command(Binaries::get().path("repo-dump"));
            let repository = it.scratch.repository();
            dump.arg("--repo").arg(repository).arg("revisions");
            run(&mut dump).ok().text().lines().count()
        };
        it.miss(&it.words(&["-MD"]));
        // (In the first there is nothing, and `miss` compiles once more without us, and without a record.)
        let first = revisions();
        let words = it.words(&["-MD", "-DEXTRA=1"]);
        let log = it.run(&words, it.scratch.path(), false).1;
        assert!(log.contains("recorded"), "{log}");
        assert_eq!(revisions(), first + 1);
        // So are those of a source that is edited.
        it.scratch
            .write(it.source, format!("{SOURCE}\nint more;\n"));
        it.run(&words, it.scratch.path(), false);
        assert_eq!(revisions(), first + 2);
        it.hit(&words);
    });
}

#[test]
fn what_changes_makes_a_compile() {
    Memo::each(|it| {
        // (Without -MD, we ask for a file ourselves.)
        let is_c = it.source == "a.c";
        for more in [&["-MD"][..], if is_c { &["-MMD"] } else { &[] }] {
            let words = it.words(more);
            it.compile(&words);
            it.hit(&words);
            // Touched, and the same.
            it.scratch.write("inc/third.h", "#define THIRD 3\n");
            it.hit(&words);
            // Of the same size, and back again: known.
            it.scratch.write("inc/third.h", "#define THIRD 4\n");
            it.miss(&words);
            it.scratch.write("inc/third.h", "#define THIRD 3\n");
            it.hit(&words);
            it.scratch
                .write("inc/third.h", "#define THIRD 3\nint third;\n");
            it.miss(&words);
            // The source.
            it.scratch
                .write(it.source, format!("{SOURCE}\nint more;\n"));
            it.miss(&words);
            it.scratch.write(it.source, SOURCE);
            // Headers that come to be found earlier; in the directory of the includer, too.
            for (place, text) in [
                ("first.h", "#define FIRST 10\n"),
                ("early/first.h", "#define FIRST 20\n"),
                ("early/second.h", "#define SECOND 30\n"),
                (
                    "early/stddef.h",
                    "#include_next <stddef.h>\nint of_stddef;\n",
                ),
                ("asked.h", "\n"),
                ("inc/asked.h", "\n"),
            ] {
                it.compile(&words);
                it.hit(&words);
                it.scratch.write(place, text);
                it.miss(&words);
                fs::remove_file(it.scratch.join(place)).expect("removed");
                it.hit(&words);
            }
            // A directory is no header.
            fs::create_dir(it.scratch.join("early/first.h")).expect("made");
            it.compile(&words);
            it.hit(&words);
            fs::remove_dir(it.scratch.join("early/first.h")).expect("removed");
            it.scratch.write("inc/third.h", "#define THIRD 3\n");
        }
    });
}

#[test]
fn options_and_the_environment() {
    Memo::two(|it| {
        it.miss(&it.words(&[]));
        for more in [
            &["-O2"][..],
            &["-O3"],
            &["-DEXTRA=1"],
            &["-DEXTRA=2"],
            &["-D", "EXTRA=3"],
            &["-DEXTRA=3", "-UEXTRA"],
            &["-g"],
            &["-g1"],
            &["-fPIC"],
            &["-fno-inline"],
            &["-march=x86-64-v2"],
            &["-fno-function-sections"],
            &["-Wall"],
            &["-Wextra", "-Wall"],
            &["-fdebug-prefix-map=/a=/b", "-g"],
            &["-ffile-prefix-map=/a=/b", "-g"],
            &["-idirafter", "inc"],
            &["-Wa,--noexecstack"],
            &["-w"],
            &["-nostdinc", "-DNOTHING"],
        ] {
            if more.contains(&"-nostdinc") {
                // <stddef.h> is not found then.
                let (failed, _) = it.run(&it.words(more), it.scratch.path(), false);
                failed.failed();
                continue;
            }
            it.miss(&it.words(more));
        }
        it.hit(&it.words(&[]));
    });
    Memo::two(|it| {
        it.miss(&it.words(&[]));
        for name in ["CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"] {
            let mut it = Memo::new(it.compiler.clone(), it.source);
            it.miss(&it.words(&[]));
            it.scratch.write("fromenv/unrelated.h", "");
            let value = it.scratch.join("fromenv").to_string_lossy().into_owned();
            it.environment.push((name.into(), value));
            it.miss(&it.words(&[]));
        }
    });
}

#[test]
fn directories() {
    Memo::two(|it| {
        for name in ["one", "two"] {
            for file in [it.source, "inc/first.h", "inc/second.h", "inc/third.h"] {
                let text = fs::read(it.scratch.join(file)).expect("there");
                it.scratch.write(Path::new(name).join(file), text);
            }
        }
        let words = it.words(&["-g", "-MD"]);
        let (one, two) = (it.scratch.join("one"), it.scratch.join("two"));
        assert!(!it.compile_in(&words, &one));
        assert!(it.compile_in(&words, &one));
        assert!(!it.compile_in(&words, &two));
        assert!(it.compile_in(&words, &two));
        // A search directory that was not there.
        it.scratch.write("one/early/first.h", "#define FIRST 77\n");
        assert!(!it.compile_in(&words, &one));
        assert!(it.compile_in(&words, &two));
    });
}

/// Of many places below a directory that is not there it is said once that it is not.
#[test]
fn directories_that_are_not_there() {
    Memo::two(|it| {
        it.scratch.write(
            it.source,
            "#include \"sub/one.h\"\n#include \"sub/two.h\"\nint sum = ONE + TWO;\n",
        );
        it.scratch.write("inc/sub/one.h", "#define ONE 1\n");
        it.scratch.write("inc/sub/two.h", "#define TWO 2\n");
        let words = it.words(&["-MD"]);
        it.miss(&words);
        it.hit(&words);
        let manifests = |which: &[&str]| {
            let mut dump = it.scratch.command(Binaries::get().path("repo-dump"));
            dump.arg("--repo").arg(it.scratch.repository());
            run(dump.arg("manifests").args(which)).ok().text()
        };
        // Behind the heading there is one.
        let list = manifests(&[]);
        let row = list.lines().nth(1).unwrap_or_default();
        let key = row.split_whitespace().next().expect("a manifest");
        let text = manifests(&["--key", key]);
        let is_of = |kind: &str, what: &str| {
            let words = |line: &str| {
                line.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            text.lines().any(|line| words(line) == [kind, what])
        };
        assert!(is_of("nothing", "sub"), "{text}");
        assert!(!is_of("absent", "sub/one.h"), "{text}");
        // Something comes there, and then what was looked for.
        it.scratch.write("sub/other.h", "");
        it.miss(&words);
        it.hit(&words);
        it.scratch.write("sub/two.h", "#define TWO 20\n");
        it.miss(&words);
        fs::remove_dir_all(it.scratch.join("sub")).expect("removed");
        it.hit(&words);
        // A link that leads nowhere yet.
        std::os::unix::fs::symlink("later", it.scratch.join("sub")).expect("made");
        it.compile(&words);
        it.hit(&words);
        it.scratch.write("later/one.h", "#define ONE 10\n");
        it.miss(&words);
    });
}

#[test]
fn what_is_never_known() {
    Memo::two(|it| {
        for text in [
            "const char *t = __TIME__;\n",
            "const char *t = __DATE__;\n",
            "const char *t = __TIMESTAMP__;\n",
            "__asm__(\".incbin \\\"inc/first.h\\\"\");\n",
        ] {
            it.scratch.write(it.source, text);
            let words = it.words(&[]);
            for _ in 0..2 {
                let (run, log) = it.run(&words, it.scratch.path(), false);
                run.ok();
                assert!(log.contains("not recorded"), "{text}: {log}");
                assert!(!log.contains("hit"), "{text}: {log}");
            }
        }
        it.scratch.write(it.source, "const char *t = T;\n");
        let words = it.words(&["-DT=__TIME__"]);
        for _ in 0..2 {
            let (run, log) = it.run(&words, it.scratch.path(), false);
            run.ok();
            assert!(!log.contains("hit"), "{log}");
        }
        it.scratch.write(it.source, SOURCE);
        it.never(&it.words(&["-frandom-seed=1", "-save-temps=obj"]));
        it.never(&it.words(&["-H"]));
        // A compile that fails is not remembered.
        it.scratch.write(it.source, "int f( { }\n");
        for _ in 0..2 {
            let (run, log) = it.run(&it.words(&[]), it.scratch.path(), false);
            assert!(!run.failed().errors().is_empty());
            assert!(!log.contains("recorded") && !log.contains("hit"), "{log}");
        }
    });
}

#[test]
fn names_by_macros() {
    Memo::two(|it| {
        let text = "#define NAME <second.h>\n#include NAME\nint s = SECOND;\n";
        it.scratch.write(it.source, text);
        let words = it.words(&["-MD"]);
        it.miss(&words);
        it.scratch.write("early/second.h", "#define SECOND 30\n");
        it.miss(&words);
        it.scratch
            .write(it.source, "#include NAME\nint s = FIRST;\n");
        let words = it.words(&["-DNAME=\"first.h\""]);
        it.miss(&words);
        it.scratch.write("early/first.h", "#define FIRST 31\n");
        it.miss(&words);
    });
}

#[test]
fn precompiled_headers_are_compiled() {
    Memo::each(|it| {
        let words = it.words(&["-include", "inc/first.h"]);
        it.miss(&words);
        let header = if it.source == "a.c" {
            "c-header"
        } else {
            "c++-header"
        };
        let end = if it.compiler.to_string_lossy().contains("clang") {
            "pch"
        } else {
            "gch"
        };
        let output = it.scratch.join(format!("inc/first.h.{end}"));
        let mut command = it.scratch.command(&it.compiler);
        command
            .args(["-x", header, "inc/first.h", "-o"])
            .arg(&output);
        run(&mut command).ok();
        let (run, log) = it.run(&words, it.scratch.path(), false);
        run.ok();
        assert!(!log.contains("hit"), "{log}");
        let (run, log) = it.run(&words, it.scratch.path(), false);
        run.ok();
        assert!(!log.contains("hit"), "{log}");
        fs::remove_file(output).expect("removed");
        it.hit(&words);
    });
}

#[test]
fn a_lost_repository_and_a_lost_output() {
    Memo::two(|it| {
        let words = it.words(&["-MD"]);
        it.miss(&words);
        fs::remove_file(it.scratch.repository()).expect("removed");
        it.miss(&words);
        // The output in another place, with its mode; a link stays one.
        let directory = it.scratch.path();
        fs::write(it.scratch.join("real.o"), "").expect("written");
        fs::remove_file(it.scratch.join("a.o")).expect("there");
        std::os::unix::fs::symlink("real.o", it.scratch.join("a.o")).expect("linked");
        let (run, log) = it.run(&words, directory, false);
        run.ok();
        assert!(log.contains("hit"), "{log}");
        let link = fs::symlink_metadata(it.scratch.join("a.o")).expect("there");
        assert!(link.is_symlink());
        assert!(is_ticket(
            &fs::read(it.scratch.join("real.o")).expect("there")
        ));
        fs::remove_file(it.scratch.join("a.o")).expect("there");
        // No directory for it: the compiler says so.
        let (failed, _) = it.run(
            &["-Iearly", "-Iinc", "-c", it.source, "-o", "no/such.o"],
            directory,
            false,
        );
        failed.failed();
    });
}

#[test]
fn statistics_and_switches() {
    let Some([gcc]) = tools::require(["gcc"]) else {
        return;
    };
    let mut it = Memo::new(gcc, "a.c");
    let words = it.words(&[]);
    it.miss(&words);
    it.miss(&it.words(&["-O1"]));
    let asked = |options: &[&str]| {
        let mut command = it.scratch.command(Binaries::get().path("repo-cc"));
        run(command.args(options)).ok().text()
    };
    let text = asked(&["--show-stats"]);
    let count = |name: &str| {
        let has_name = |line: &&str| {
            line.strip_prefix(name)
                .is_some_and(|it| it.starts_with("  "))
        };
        let line = text.lines().find(has_name);
        line.and_then(|line| line.split_whitespace().last()?.parse::<u32>().ok())
    };
    assert_eq!(count("hit"), Some(2), "{text}");
    // The first was before there was a repository, and so counters.
    assert_eq!(count("miss: not compiled before"), Some(1), "{text}");
    assert_eq!(count("recorded"), Some(2), "{text}");
    asked(&["--zero-stats"]);
    assert!(asked(&["--show-stats"]).contains("nothing counted"));
    // Why not.
    it.scratch.write("inc/third.h", "#define THIRD 5\n");
    let mut command = it.scratch.command(Binaries::get().path("repo-cc"));
    command.env_remove("PWD").arg("--explain");
    let errors = run(command.arg(&it.compiler).args(&words)).ok().errors();
    assert!(
        errors.contains("a.o: miss: inc/third.h: is another one"),
        "{errors}"
    );
    // Nothing new is recorded.
    it.environment.push(("REPO_CC_READONLY".into(), "1".into()));
    it.never(&it.words(&["-O3"]));
    it.scratch.write("inc/third.h", "#define THIRD 3\n");
    it.hit(&it.words(&["-O1"]));
    // What differs from a command like it.
    it.environment.clear();
    let mut command = it.scratch.command(Binaries::get().path("repo-cc"));
    command.env_remove("PWD").arg("--explain");
    command
        .arg(&it.compiler)
        .args(it.words(&["-O1", "-DEXTRA=77"]));
    let errors = run(&mut command).ok().errors();
    assert!(
        errors.contains("a like one was, without: -DEXTRA=77"),
        "{errors}"
    );
    let text = asked(&["--show-stats", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["hits"], 1, "{text}");
    assert!(json["manifests"].as_u64() >= Some(2), "{text}");
    assert!(json["bytes"].as_u64() >= Some(4096), "{text}");
}

#[test]
fn outputs_elsewhere() {
    Memo::two(|it| {
        fs::create_dir(it.scratch.join("sub")).expect("made");
        let to = |output: &'static str, more: &[&'static str]| {
            let mut words = vec!["-Iearly", "-Iinc", "-c", it.source, "-o", output, "-g"];
            words.extend(more);
            words
        };
        it.miss(&to("a.o", &[]));
        it.hit(&to("sub/b.o", &[]));
        it.miss(&to("a.o", &["-MD", "-MT", "x", "-MF", "dep"]));
        it.hit(&to("sub/b.o", &["-MD", "-MT", "x", "-MF", "dep2"]));
        // The file says for what it is.
        it.miss(&to("a.o", &["-MD"]));
        it.miss(&to("sub/b.o", &["-MD"]));
        it.hit(&to("a.o", &["-MD"]));
    });
}

#[test]
fn fat_objects() {
    Memo::two(|mut_it| {
        let mut it = Memo::new(mut_it.compiler.clone(), mut_it.source);
        for more in [&[][..], &["-g", "-MD"]] {
            let words = it.words(more);
            it.miss(&words);
            it.environment.push(("REPO_CC_FAT".into(), "1".into()));
            // Of the ticket nobody knows the object's bytes.
            it.miss(&words);
            it.scratch.write("inc/third.h", "#define THIRD 4\n");
            it.miss(&words);
            it.scratch.write("inc/third.h", "#define THIRD 3\n");
            it.hit(&words);
            it.environment.clear();
            it.hit(&words);
        }
    });
}

#[test]
fn assembly() {
    for name in ["gcc", "clang"] {
        let Some([compiler]) = tools::require([name]) else {
            continue;
        };
        let it = Memo::new(compiler, "a.S");
        let text = "#include \"first.h\"\n.text\n.globl f\nf: mov $FIRST, %eax\n ret\n";
        it.scratch.write("a.S", text);
        for more in [&[][..], &["-MD"], &["-g"]] {
            let words = it.words(more);
            it.miss(&words);
            it.scratch.write("inc/first.h", "#define FIRST 7\n");
            it.miss(&words);
            it.scratch.write("inc/first.h", "#define FIRST 1\n");
            it.hit(&words);
        }
        it.scratch.write("inc/bytes", "x");
        it.scratch.write("a.S", ".text\n.IncBin \"inc/bytes\"\n");
        it.never(&it.words(&[]));
        let mut it = it;
        it.source = "a.s";
        it.scratch.write("a.s", ".text\n.globl f\nf: ret\n");
        it.miss(&it.words(&[]));
        it.scratch.write("a.s", ".text\n.globl f\nf: nop\n ret\n");
        it.miss(&it.words(&[]));
    }
}

#[test]
fn what_macros_put_together() {
    Memo::two(|it| {
        for text in [
            "#define CAT(a, b) a##b\nconst char *t = CAT(__TI, ME__);\n",
            "#define M(x) __##x##__\nconst char *t = M(DATE);\n",
        ] {
            it.scratch.write(it.source, text);
            for _ in 0..2 {
                let (run, log) = it.run(&it.words(&[]), it.scratch.path(), false);
                run.ok();
                assert!(log.contains("not recorded"), "{text}: {log}");
                assert!(!log.contains("hit"), "{text}: {log}");
            }
        }
        // What is included by a macro with arguments: as if it were so under each name that leads there.
        let text = "#include \"first.h\"\n#define S(x) <x>\n#define N(x) S(x.h)\n#include N(second)\nint s = SECOND;\n";
        it.scratch.write(it.source, text);
        let words = it.words(&["-MD"]);
        it.miss(&words);
        it.scratch.write("early/second.h", "#define SECOND 30\n");
        it.miss(&words);
        fs::remove_file(it.scratch.join("early/second.h")).expect("removed");
        it.hit(&words);
        let text = "#include \"first.h\"\n#define Q(x) #x\n#define N(x) Q(x.h)\n#include N(second)\nint s = SECOND;\n";
        it.scratch.write(it.source, text);
        it.miss(&words);
        it.scratch.write("second.h", "#define SECOND 31\n");
        it.miss(&words);
        fs::remove_file(it.scratch.join("second.h")).expect("removed");
        it.hit(&words);
        // gcc does not say which headers of the system it read; clang's graph does.
        let words = it.words(&["-MMD"]);
        match it.compiler.ends_with("gcc") || it.compiler.ends_with("g++") {
            true => it.never(&words),
            false => it.miss(&words),
        }
    });
}

/// What compilers say at a terminal, in colours and as wide as that is, is said so again.
#[test]
fn diagnostics_at_a_terminal() {
    let Some([script]) = tools::require(["script"]) else {
        return;
    };
    Memo::each(|it| {
        let words = it.words(&["-Wall", "-Wextra"]).join(" ");
        let said = |command: String| {
            settle();
            let mut process = it.scratch.command(&script);
            process
                .args(["-qec", &command, "/dev/null"])
                .envs([("TERM", "xterm-256color"), ("COLUMNS", "70")])
                .env_remove("NO_COLOR")
                .env_remove("PWD")
                .stdin(std::process::Stdio::null());
            run(&mut process).ok().text()
        };
        let compiler = it.compiler.display();
        let ours = Binaries::get().path("repo-cc");
        let log = it.scratch.join("log");
        let (ours, log_path) = (ours.display(), log.display());
        let plain = said(format!("{compiler} {words}"));
        assert!(plain.contains("\u{1b}["), "{plain:?}");
        fs::remove_file(it.scratch.join("a.o")).expect("there");
        for is_hit in [false, true] {
            let _ = fs::remove_file(&log);
            assert_eq!(
                said(format!("{ours} --log {log_path} {compiler} {words}")),
                plain
            );
            let log = fs::read_to_string(&log).expect("a log");
            assert_eq!(
                log.contains("hit: the compiler is not run"),
                is_hit,
                "{log}"
            );
        }
        // Not those for files.
        assert!(!it.compile(&it.words(&["-Wall", "-Wextra"])));
    });
}

/// Two checkouts share, and neither's path is in what the other one gets.
#[test]
fn checkouts_share() {
    Memo::two(|it| {
        let source = "#include \"first.h\"\n#include <second.h>\nconst char *name(void) { return __FILE__; }\n\
                      int f(void) { int unused; return FIRST + SECOND; }\n";
        let checkouts = ["one", "other/two"];
        for name in checkouts {
            let root = Path::new(name);
            it.scratch.write(root.join("src").join(it.source), source);
            it.scratch
                .write(root.join("inc/first.h"), "#define FIRST 1\n");
            it.scratch
                .write(root.join("inc/second.h"), "#define SECOND 2\n");
            fs::create_dir_all(it.scratch.join(root).join("out")).expect("made");
        }
        let compile = |checkout: &str, more: &[String], repository: &str| {
            settle();
            let root = it.scratch.join(checkout);
            let out = root.join("out");
            let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
            let log = it.scratch.join("log");
            let _ = fs::remove_file(&log);
            let mut command = it.scratch.command(Binaries::get().path("repo-cc"));
            command
                .current_dir(&out)
                .env_remove("PWD")
                .env("REPO_CC_BASEDIR", &root)
                .env("REPO_FILE", it.scratch.join(repository))
                .arg("--log")
                .arg(&log)
                .arg(&it.compiler)
                .args(["-Wall", "-MD", "-MT", "a.o", "-MF", "a.d", "-c", "-o"])
                .arg(out.join("a.o"))
                .arg(format!("-I{}", text(root.join("inc"))))
                .arg(root.join("src").join(it.source))
                .args(more);
            let errors = run(&mut command).ok().errors();
            let ticket = fs::read(out.join("a.o")).expect("a ticket");
            let log = fs::read_to_string(&log).expect("a log");
            let left = (
                tickets::Ticket::parse(&ticket)
                    .expect("sound")
                    .expect("a ticket")
                    .compilation,
                fs::read_to_string(out.join("a.d")).expect("a dependency file"),
                errors,
            );
            (left, log.contains("hit: the compiler is not run"), log)
        };
        let map = |checkout: &str| {
            vec![
                "-g".to_owned(),
                format!(
                    "-fdebug-prefix-map={}=/x",
                    it.scratch.join(checkout).display()
                ),
            ]
        };
        let both = |more: &dyn Fn(&str) -> Vec<String>| {
            let (_, hit, log) = compile(checkouts[0], &more(checkouts[0]), "shared");
            assert!(!hit, "{log}");
            let (left, hit, log) = compile(checkouts[1], &more(checkouts[1]), "shared");
            // What a compile there makes.
            let alone = format!("alone{}", more("x").len());
            let (real, alone_hit, _) = compile(checkouts[1], &more(checkouts[1]), &alone);
            assert!(!alone_hit);
            assert_eq!(left, real, "{log}");
            assert!(!left.1.contains("one/"), "{}", left.1);
            hit
        };
        assert!(both(&|_| Vec::new()), "not shared");
        assert!(both(&map), "not shared with -g and a map");
        // The working directory is in it.
        assert!(!both(&|_| vec![
            "-g".to_owned(),
            "-O1".to_owned(),
            "-DX".to_owned()
        ]));
        // What the command line gives the program stays as it is.
        assert!(!both(&|checkout| vec![format!(
            "-DROOT=\"{}\"",
            it.scratch.join(checkout).display()
        ),]));
    });
}

/// A compile of which only what is new is done is recorded as any other.
#[test]
fn compiled_in_part() {
    Memo::of(&[("clang", "a.c")], |it| {
        let mut it = Memo::new(it.compiler.clone(), it.source);
        let words = it.words(&["-O2"]);
        let compile = |it: &Memo| {
            let (run, log) = it.run(&words, it.scratch.path(), false);
            let left = it.left(run, it.scratch.path(), &words);
            assert!(is_ticket(&left.ticket), "{log}");
            (left, log.contains("hit: the compiler is not run"))
        };
        for text in [
            SOURCE.to_owned(),
            format!("{SOURCE}\nint more(void) {{ return g(); }}\n"),
        ] {
            it.scratch.write(it.source, text);
            let (made, is_hit) = compile(&it);
            assert!(!is_hit);
            let (found, is_hit) = compile(&it);
            assert!(is_hit);
            assert_eq!(made, found);
        }
        it.scratch.write(it.source, SOURCE);
        assert!(compile(&it).1);
        // What is whole is not what is made of parts.
        it.environment.push(("REPO_CC_PRUNE".into(), "0".into()));
        assert!(!compile(&it).1);
    });
}
