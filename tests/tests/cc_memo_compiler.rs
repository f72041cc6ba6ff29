//! Compiles that the repository knows, and compilers of which a part comes to be another one: found earlier, where there was
//! nothing before.

use repo_tests::memo::Memo;
use repo_tests::process::run;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// A program that runs another one with one more argument.
fn write_program(path: &Path, real: &str, more: &str, mode: u32) {
    fs::write(path, format!("#!/bin/sh\nexec '{real}' \"$@\" {more}\n")).expect("written");
    set_mode(path, mode);
}

fn text_of(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// What the compiler says of itself.
fn said(it: &Memo, option: &str) -> String {
    let run = run(Command::new(&it.compiler).arg(option)).ok();
    run.text().trim().to_owned()
}

fn only_gcc(test: impl Fn(&mut Memo)) {
    Memo::of(&[("gcc", "a.c")], |it| {
        test(&mut Memo::new(it.compiler.clone(), it.source));
    });
}

/// A new directory that a variable names, before what it names already.
fn first_in(it: &mut Memo, variable: &str, name: &str) -> PathBuf {
    let directory = it.scratch.join(name);
    fs::create_dir_all(&directory).expect("a directory");
    let before = std::env::var_os(variable);
    let all = std::env::join_paths(
        std::iter::once(directory.clone())
            .chain(std::env::split_paths(&before.unwrap_or_default())),
    );
    let all: OsString = all.expect("paths");
    it.environment
        .push((variable.into(), all.into_string().expect("UTF-8")));
    directory
}

#[test]
fn an_assembler_that_comes_earlier() {
    only_gcc(|it| {
        let directory = first_in(it, "PATH", "bin");
        let real = said(it, "-print-prog-name=as");
        if real.contains('/') {
            return;
        }
        let found = run(Command::new("sh").args(["-c", "command -v as"])).ok();
        let real = found.text().trim().to_owned();
        let words = it.words(&[]);
        it.miss(&words);
        // None that can be run.
        let place = directory.join("as");
        write_program(&place, &real, "--execstack", 0o644);
        it.hit(&words);
        fs::remove_file(&place).expect("removed");
        fs::create_dir(&place).expect("made");
        it.hit(&words);
        fs::remove_dir(&place).expect("removed");
        write_program(&place, &real, "--execstack", 0o755);
        it.never(&words);
        fs::remove_file(&place).expect("removed");
        it.hit(&words);
    });
}

#[test]
fn a_compiler_proper_that_comes_earlier() {
    only_gcc(|it| {
        let directory = first_in(it, "COMPILER_PATH", "programs");
        let words = it.words(&[]);
        it.miss(&words);
        let real = said(it, "-print-prog-name=cc1");
        let machine = said(it, "-dumpmachine");
        fs::create_dir(directory.join(&machine)).expect("made");
        for place in [directory.join("cc1"), directory.join(machine).join("cc1")] {
            write_program(&place, &real, "-fno-common -DFIRST=8 -O3", 0o644);
            it.hit(&words);
            set_mode(&place, 0o755);
            it.never(&words);
            fs::remove_file(&place).expect("removed");
            it.hit(&words);
        }
        // Headers there, too, are those of the compiler.
        let header = "#include_next <stddef.h>\nint of_stddef;\n";
        it.scratch.write("programs/include/stddef.h", header);
        it.miss(&words);
    });
}

#[test]
fn specs_that_come_to_be() {
    only_gcc(|it| {
        let directory = first_in(it, "LIBRARY_PATH", "libraries");
        let words = it.words(&[]);
        it.miss(&words);
        let specs = "*cc1:\n+ -O3 -DEXTRA=9\n\n";
        fs::write(directory.join("specs"), specs).expect("written");
        it.never(&words);
        fs::remove_file(directory.join("specs")).expect("removed");
        it.hit(&words);
    });
}

#[test]
fn an_installation_of_gcc_that_comes_to_be() {
    Memo::of(&[("clang++", "a.cc")], |it| {
        let toolchain = it.scratch.join("toolchain");
        fs::create_dir_all(toolchain.join("lib/gcc/x86_64-linux-gnu/13")).expect("made");
        let option = format!("--gcc-toolchain={}", text_of(&toolchain));
        let words = it.words(&[&option]);
        it.miss(&words);
        let header = "#include_next <stddef.h>\nint of_stddef;\n";
        it.scratch
            .write("toolchain/include/c++/13/stddef.h", header);
        it.hit(&words);
        it.scratch
            .write("toolchain/lib/gcc/x86_64-linux-gnu/13/crtbegin.o", "");
        it.miss(&words);
    });
}

#[test]
fn what_is_no_directory_becomes_one() {
    Memo::each(|it| {
        let kinds = ["a file", "nothing", "a link to nothing", "a link to a file"];
        for (number, kind) in kinds.into_iter().enumerate() {
            let place = it.scratch.join("place");
            let target = it.scratch.join("target");
            match kind {
                "a file" => fs::write(&place, "").expect("written"),
                "nothing" => {}
                _ => std::os::unix::fs::symlink("target", &place).expect("linked"),
            }
            if kind == "a link to a file" {
                fs::write(&target, "").expect("written");
            }
            for more in [&["-Iplace"][..], &["-isystem", "place", "-Wno-all"]] {
                let words = it.words(more);
                it.compile(&words);
                it.hit(&words);
            }
            let words = it.words(&["-Iplace"]);
            let _ = fs::remove_file(&place);
            let _ = fs::remove_file(&target);
            let header = format!("#define FIRST {}\n", 40 + number);
            it.scratch.write("place/first.h", header);
            it.miss(&words);
            // And the other way round.
            fs::remove_dir_all(&place).expect("removed");
            fs::write(&place, "").expect("written");
            it.compile(&words);
            it.hit(&words);
            fs::remove_file(&place).expect("removed");
        }
    });
}

#[test]
fn a_launcher_by_the_name_of_a_compiler() {
    let Some([ccache]) = tools::require(["ccache"]) else {
        return;
    };
    only_gcc(|it| {
        let scratch = Scratch::new();
        let link = scratch.join("gcc");
        std::os::unix::fs::symlink(&ccache, &link).expect("a link");
        let mut it = Memo::new(link, it.source);
        let directory = it.scratch.join("kept").to_str().expect("UTF-8").to_owned();
        it.environment.push(("CCACHE_DIR".into(), directory));
        // What it runs, and with what options, is its own affair.
        it.never(&it.words(&[]));
    });
}

#[test]
fn bitcode_with_the_command_line_in_it() {
    Memo::of(&[("clang", "a.c")], |it| {
        it.never(&it.words(&["-fembed-bitcode=marker"]));
    });
}
