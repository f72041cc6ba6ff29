//! What users of `repo-ld` meet before any link: help, lists on standard output, and who reads them.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::process::{Command, Output, Stdio};

/// Runs `command` with its standard output going to `out`.
fn into(command: &mut Command, out: impl Into<Stdio>) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .expect("it can be run")
}

/// A pipe whose reader has gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A file on a disk that is always full.
fn full_disk() -> Stdio {
    let file = std::fs::OpenOptions::new().write(true).open("/dev/full");
    file.expect("/dev/full").into()
}

/// A scratch directory with an object of one function, `a`.
fn scratch_with_object(gcc: &std::path::Path) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a.c", "int a(void) { return 1; }\n");
    run(scratch.command(gcc).args(["-c", "a.c"])).ok();
    scratch
}

#[test]
fn who_has_seen_enough_may_go_and_a_full_disk_is_told() {
    let [gcc] = require!("gcc");
    let scratch = scratch_with_object(&gcc);
    let linker = Binaries::get().path("repo-ld");
    let link = ["-t", "-e", "a", "-o", "out", "a.o"];
    for arguments in [&["--help"][..], &["-V"], &link] {
        let output = into(scratch.command(linker).args(arguments), closed_pipe());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
        assert!(
            !errors.contains("standard output"),
            "{arguments:?}: {errors}"
        );
        assert!(output.status.success(), "{arguments:?}: {errors}");
    }
    let output = into(scratch.command(linker).arg("--help"), full_disk());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("error: cannot write to standard output: "),
        "{errors}"
    );
    // The output of a link is another thing.
    std::fs::remove_file(scratch.join("out")).expect("the output");
    let output = into(scratch.command(linker).args(link), full_disk());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        errors.contains("warning: cannot write to standard output: "),
        "{errors}"
    );
    assert!(scratch.join("out").exists());
}

/// Nobody reads what cannot be written; what was asked for is done all the same.
#[test]
fn standard_error_may_be_full() {
    let [gcc] = require!("gcc");
    let scratch = scratch_with_object(&gcc);
    let silent = |program: &str, arguments: &[&str]| {
        let mut command = scratch.command(Binaries::get().path(program));
        let command = command.args(arguments).stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(full_disk()).status();
        status.expect("it can be run").code()
    };
    let link = ["-e", "a", "-o", "out", "a.o"];
    for more in [
        "-ya",
        "--stats",
        "--print-timing",
        "--print-timing=json",
        "-M",
        "--warn-common",
    ] {
        let arguments = [&[more][..], &link].concat();
        assert_eq!(silent("repo-ld", &arguments), Some(0), "{more}");
    }
    for (program, arguments, code) in [
        ("repo-ld", &["no-such.o"][..], 1),
        ("repo-ld", &["--no-such"], 1),
        ("repo-cc", &["no-such-compiler"], 127),
        ("repo-dump", &["--repo", "no-such", "names"], 2),
        ("repo-gc", &["--repo", "no-such"], 2),
    ] {
        assert_eq!(
            silent(program, arguments),
            Some(code),
            "{program} {arguments:?}"
        );
    }
}

#[test]
fn what_cannot_be_opened_is_named_with_the_systems_words() {
    let [gcc] = require!("gcc");
    let scratch = scratch_with_object(&gcc);
    let link = |arguments: &[&str]| -> Run {
        let mut command = scratch.command(Binaries::get().path("repo-ld"));
        run(command
            .args(["-e", "a", "-o", "out", "a.o"])
            .args(arguments))
        .code(1)
    };
    for (arguments, place) in [
        (&["no-such.o"][..], "cannot open no-such.o: "),
        (
            &["-T", "no-such.ld"],
            "cannot open linker script file no-such.ld: ",
        ),
        (&["-lno-such"], "cannot find -lno-such: "),
        (&["--version-script", "no-such.map"], "no-such.map: "),
        (&["--dynamic-list", "no-such.list"], "no-such.list: "),
    ] {
        let errors = link(arguments).errors();
        let place = errors.split_once(place).map(|(_, why)| why);
        let is_told = place.is_some_and(|why| why.starts_with("No such file or directory"));
        assert!(is_told, "{arguments:?}: {errors}");
    }
    assert!(!scratch.join("out").exists());
}

/// Other emulations are for the system's linker, whatever this program is called.
#[test]
fn what_is_not_x86_64_is_linked_by_another_linker() {
    let [gcc, ld] = require!("gcc", "ld");
    let scratch = Scratch::new();
    scratch.write(
        "a.s",
        ".globl _start\n_start: mov $1, %eax\nmov $42, %ebx\nint $0x80\n",
    );
    run(scratch
        .command(&gcc)
        .args(["-Wa,--32", "-c", "a.s", "-o", "a.o"]))
    .ok();
    let link = ["-m", "elf_i386", "a.o", "-o"];
    run(scratch.command(&ld).args(link).arg("theirs")).ok();
    std::fs::create_dir(scratch.join("bin")).expect("a directory can be made");
    let own = scratch.join("bin/ld");
    std::os::unix::fs::symlink(Binaries::get().path("repo-ld"), &own).expect("a link can be made");
    for path in [
        format!("{}:/usr/bin:/bin", scratch.join("bin").display()),
        "/nowhere".to_owned(),
    ] {
        run(scratch
            .command(&own)
            .args(link)
            .arg("ours")
            .env("PATH", path))
        .ok();
        assert_eq!(
            std::fs::read(scratch.join("ours")).expect("it was made"),
            std::fs::read(scratch.join("theirs")).expect("it was made")
        );
    }
    // A script around this program is not another linker.
    let around = format!("#!/bin/sh\nexec {} \"$@\"\n", own.display());
    scratch.write("bin/ld.bfd", around);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scratch.join("bin/ld.bfd"), mode).expect("it can be run");
    let path = format!("{}:/usr/bin:/bin", scratch.join("bin").display());
    let done = run(scratch
        .command(&own)
        .args(link)
        .arg("ours")
        .env("PATH", path))
    .failed();
    assert_eq!(
        done.errors(),
        "repo-ld: error: emulation 'elf_i386' is not supported: this linker makes x86-64 ELF only (elf_x86_64); the other \
         linker that was found calls this one\n"
    );
}
