//! `repo-cc` as a process: exit codes, signals, streams, environment, and the
//! ways in which it is called.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{run, run_with_input, with_default_signals};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn repo_cc() -> &'static Path {
    Binaries::get().path("repo-cc")
}

/// A shell script with the name of a compiler.
fn script(scratch: &Scratch, name: &str, text: &str) -> PathBuf {
    let path = scratch.write(name, format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("mode");
    path
}

/// `PATH` with these directories in front.
fn path_with(first: &[&Path]) -> OsString {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let directories = first
        .iter()
        .map(|directory| directory.to_path_buf())
        .chain(std::env::split_paths(&old));
    std::env::join_paths(directories).expect("a path")
}

#[test]
fn exit_codes_are_the_compilers() {
    let scratch = Scratch::new();
    for code in [0, 1, 2, 4, 42, 255] {
        let gcc = script(&scratch, "gcc", &format!("exit {code}"));
        for arguments in [&["-c", "a.c"][..], &["-E", "a.c"], &["a.o"]] {
            run(scratch.command(repo_cc()).arg(&gcc).args(arguments)).code(code);
        }
    }
}

#[test]
fn death_by_signal_is_the_compilers() {
    let scratch = Scratch::new();
    for signal in [
        Signal::SEGV,
        Signal::ABORT,
        Signal::KILL,
        Signal::TERM,
        Signal::INT,
    ] {
        let number = signal.as_raw();
        let gcc = script(&scratch, "gcc", &format!("kill -{number} $$"));
        for arguments in [&["-c", "a.c"][..], &["-S", "a.c"]] {
            let mut command = scratch.command(repo_cc());
            command.arg(&gcc).args(arguments);
            let done = run(with_default_signals(&mut command));
            assert_eq!(done.status.signal(), Some(number), "{}", done.report());
        }
    }
    assert!(!scratch.join("core").exists());
}

/// A compiler that says "ready", waits for a signal, and ends with 5; or with 9
/// should it get another.
const WAITING: &str = "trap 'echo trapped; n=$((n+1)); [ $n = 2 ] && exit 9' INT TERM HUP QUIT
n=0
echo ready
while [ $n = 0 ]; do read line || :; done
echo ended
exit 5";

#[test]
fn a_signal_to_repo_cc_alone_reaches_the_compiler() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let scratch = Scratch::new();
        let gcc = script(&scratch, "gcc", WAITING);
        let mut command = scratch.command(repo_cc());
        command.arg(&gcc).args(["-c", "a.c"]);
        let mut child = with_default_signals(&mut command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("repo-cc starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        kill_process(Pid::from_child(&child), signal).expect("a signal");
        let mut said = String::new();
        output.read_to_string(&mut said).expect("output");
        assert_eq!(said, "trapped\nended\n", "{signal:?}");
        assert_eq!(child.wait().expect("an ending").code(), Some(5));
    }
}

#[test]
fn an_interrupt_from_the_terminal_reaches_the_compiler_once() {
    let Some([terminal]) = tools::require(["script"]) else {
        return;
    };
    let scratch = Scratch::new();
    let gcc = script(&scratch, "gcc", WAITING);
    // Runs a command on a terminal of its own, to which its input is typed.
    let mut command = scratch.command(terminal);
    command
        .args(["--quiet", "--return", "--flush", "--command"])
        .arg(format!(
            "exec {} {} -c a.c",
            repo_cc().display(),
            gcc.display()
        ))
        .arg("/dev/null");
    let mut child = with_default_signals(&mut command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script starts");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\r\n");
    let mut keys = child.stdin.take().expect("a pipe");
    keys.write_all(b"\x03").expect("a key");
    keys.flush().expect("a key");
    let mut said = String::new();
    output.read_to_string(&mut said).expect("output");
    let said = said.replace("^C", "").replace('\r', "");
    assert_eq!(said, "trapped\nended\n");
    assert_eq!(child.wait().expect("an ending").code(), Some(5));
}

#[test]
fn streams_and_environment_are_the_compilers() {
    let scratch = Scratch::new();
    let gcc = script(
        &scratch,
        "gcc",
        "cat; echo error >&2; env | sort; echo \"$@\"",
    );
    for arguments in [&["-E", "a b"][..], &["-c", "a.c"]] {
        let clean = |command: &mut Command| {
            command
                .env_clear()
                .env("ODD", "a\nb")
                .env("PATH", "/usr/bin:/bin");
            command.args(arguments);
        };
        let mut plain = Command::new(&gcc);
        clean(&mut plain);
        let mut through = Command::new(repo_cc());
        through.arg(&gcc);
        clean(&mut through);
        let plain = run_with_input(&mut plain, b"input");
        let through = run_with_input(&mut through, b"input");
        assert_eq!(plain.stderr, through.stderr);
        // One variable of ours, and two options of ours for a compile.
        let rest: Vec<_> = through
            .text()
            .lines()
            .filter(|line| !line.starts_with("REPO_CC_CHOSEN="))
            .map(|line| line.replace("-ffunction-sections -fdata-sections ", "") + "\n")
            .collect();
        assert_eq!(plain.text(), rest.concat());
    }
}

#[test]
fn a_broken_pipe_ends_the_compiler() {
    let scratch = Scratch::new();
    // Fails if SIGPIPE is ignored: then the shell's echo reports an error.
    let gcc = script(&scratch, "gcc", "kill -PIPE $$; exit 3");
    for arguments in [&["-c", "a.c"][..], &["-S", "a.c"]] {
        let done = run(scratch.command(repo_cc()).arg(&gcc).args(arguments));
        assert_eq!(done.status.signal(), Some(Signal::PIPE.as_raw()));
    }
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let scratch = Scratch::new();
    let gcc = script(&scratch, "gcc", "kill -HUP $$ $PPID; exit 6");
    let mut shell = scratch.command("/bin/sh");
    shell
        .args(["-c", "trap '' HUP; \"$@\"", "sh"])
        .arg(repo_cc())
        .arg(&gcc)
        .args(["-c", "a.c"]);
    run(&mut shell).code(6);
}

#[test]
fn what_cannot_be_run() {
    let scratch = Scratch::new();
    let done = run(scratch
        .command(repo_cc())
        .args(["no-such-gcc", "-c", "a.c"]))
    .code(127);
    assert!(done.errors().contains("no-such-gcc"), "{}", done.report());
    let done = run(scratch.command(repo_cc()).args(["./no/gcc", "-c", "a.c"])).code(127);
    assert!(done.errors().contains("./no/gcc"), "{}", done.report());
    let plain = scratch.write("gcc", "not a program");
    run(scratch.command(repo_cc()).arg(&plain).args(["-c", "a.c"])).code(126);
    run(&mut scratch.command(repo_cc())).code(2);
}

#[test]
fn own_options_and_the_compilers() {
    let scratch = Scratch::new();
    let gcc = script(&scratch, "gcc", "echo \"gcc: $*\"");
    let done = run(scratch
        .command(repo_cc())
        .arg(&gcc)
        .args(["--version", "--help"]))
    .ok();
    assert_eq!(done.text(), "gcc: --version --help\n");
    let done = run(scratch.command(repo_cc()).arg("--version")).ok();
    assert!(done.text().starts_with("repo-cc "));
    let done = run(scratch.command(repo_cc()).arg("--help")).ok();
    assert!(done.text().contains("--install-links"));
    let done = run(scratch
        .command(repo_cc())
        .arg("--verbose")
        .arg(&gcc)
        .arg("-dumpversion"))
    .ok();
    assert_eq!(done.text(), "gcc: -dumpversion\n");
    assert!(done.errors().contains("passed on"), "{}", done.report());
    // Without a compiler's name in front it is the default compiler's matter.
    let done = run(scratch.command(repo_cc()).args(["--no-such-option", "gcc"])).failed();
    assert!(
        done.errors().contains("--no-such-option"),
        "{}",
        done.report()
    );
}

#[test]
fn links_with_compilers_names() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let done = run(scratch
        .command(repo_cc())
        .args(["--install-links", "links"]))
    .ok();
    assert!(done.text().contains(" gcc "), "{}", done.report());
    // Again, with links that are there; and with a file that is not ours.
    run(scratch
        .command(repo_cc())
        .args(["--install-links", "links"]))
    .ok();
    let links = scratch.join("links");
    scratch.write("a.c", "int f(void) { return 1; }\n");
    let done = run(scratch
        .command(links.join("gcc"))
        .env("PATH", path_with(&[&links]))
        .args(["-c", "a.c"]))
    .ok();
    assert_eq!((done.text(), done.errors()), (String::new(), String::new()));
    assert!(is_ticket_file(scratch.join("a.o")));
    // The compiler finds its own files, and says its own name.
    let plain = run(scratch.command(&gcc).args(["-c", "none.c"]));
    let through = run(scratch
        .command("/bin/sh")
        .env("PATH", path_with(&[&links]))
        .args(["-c", "gcc -c none.c"]));
    assert_eq!(plain.errors(), through.errors());
    assert_eq!(plain.status, through.status);
    scratch.write("other/gcc", "");
    let done = run(scratch
        .command(repo_cc())
        .args(["--install-links", "other"]))
    .code(1);
    assert!(done.errors().contains("gcc"), "{}", done.report());
}

#[test]
fn links_lead_to_the_next_compiler_and_never_back() {
    let scratch = Scratch::new();
    for directory in ["links", "more", "wrapped", "real"] {
        fs::create_dir(scratch.join(directory)).expect("a directory can be made");
    }
    symlink(repo_cc(), scratch.join("links/gcc")).expect("a link");
    symlink(repo_cc(), scratch.join("more/gcc")).expect("a link");
    let real = script(&scratch, "real/gcc", "echo \"real: $*\"");
    // A wrapper that looks for the compiler on PATH itself, as ccache does, but
    // finds us.
    script(
        &scratch,
        "wrapped/gcc",
        "echo wrapper; PATH=\"$LINKS:$PATH\"; exec \"$LINKS/gcc\" \"$@\"",
    );
    let [links, more, wrapped] = ["links", "more", "wrapped"].map(|name| scratch.join(name));
    let real = real.parent().expect("its directory");
    let command = |path: &[&Path]| {
        let mut command = scratch.command(links.join("gcc"));
        command.env("LINKS", &links).env("PATH", path_with(path));
        command.args(["-c", "a.c"]);
        command
    };
    let sections = "-ffunction-sections -fdata-sections";
    let done = run(&mut command(&[&links, &more, real])).ok();
    assert_eq!(done.text(), format!("real: {sections} -c a.c\n"));
    let done = run(&mut command(&[&links, &wrapped, &more, real])).ok();
    assert_eq!(done.text(), format!("wrapper\nreal: {sections} -c a.c\n"));
    // Nobody else of that name: an error, not a loop.
    let mut alone = command(&[]);
    alone.env("PATH", &links);
    let done = run(&mut alone).code(127);
    assert!(done.errors().contains("gcc"), "{}", done.report());
}

#[test]
fn launchers_and_unknown_programs() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("bin")).expect("a directory can be made");
    script(&scratch, "bin/ccache", "echo ccache; exec \"$@\"");
    script(&scratch, "bin/gcc", "echo \"gcc: $*\"");
    script(&scratch, "bin/tool", "echo \"tool: $*\"");
    let command = |words: &[&str]| {
        let mut command = scratch.command(repo_cc());
        command.env("PATH", path_with(&[&scratch.join("bin")]));
        command.args(words);
        run(&mut command).ok().text()
    };
    assert_eq!(
        command(&["ccache", "gcc", "-c", "a.c"]),
        "ccache\ngcc: -ffunction-sections -fdata-sections -c a.c\n"
    );
    assert_eq!(command(&["tool", "-c", "a.c"]), "tool: -c a.c\n");
    // Who is a launcher, and in CC as well: build systems look for the path of what is called in CC.
    for name in ["links/gcc", "one/repo-gcc"] {
        let link = scratch.join(name);
        fs::create_dir(link.parent().expect("a directory")).expect("made");
        symlink(repo_cc(), link).expect("a link");
    }
    let [own, link, one] = [
        repo_cc().to_owned(),
        scratch.join("links/gcc"),
        scratch.join("one/repo-gcc"),
    ];
    let [own, link, one] = [&own, &link, &one].map(|path| path.to_str().expect("UTF-8"));
    for words in [
        &[own, "gcc", "-c", "a.c"][..],
        &["--verbose", own, "--log", "log", "gcc", "-c", "a.c"],
        &[link, "-c", "a.c"],
        &[one, "-c", "a.c"],
    ] {
        assert_eq!(
            command(words),
            "gcc: -ffunction-sections -fdata-sections -c a.c\n",
            "{words:?}"
        );
    }
    symlink("gcc", scratch.join("bin/mycompiler")).expect("a link");
    assert_eq!(
        command(&["mycompiler", "-c", "a.c"]),
        "gcc: -ffunction-sections -fdata-sections -c a.c\n"
    );
}

#[test]
fn links_are_made_by_repo_ld() {
    let scratch = Scratch::new();
    let linker = Binaries::get().path("repo-ld");
    let gcc = script(&scratch, "gcc", "printf '%s\\n' \"$@\"");
    let clang = script(&scratch, "clang", "printf '%s\\n' \"$@\"");
    let done = run(scratch
        .command(repo_cc())
        .arg(&gcc)
        .args(["a.o", "-o", "a", "-fuse-ld=gold"]))
    .ok();
    let text = done.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[1..], ["a.o", "-o", "a", "-fuse-ld=gold"]);
    let directory = Path::new(lines[0].strip_prefix("-B").expect("an option of ours"));
    for name in ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"] {
        assert_eq!(
            fs::canonicalize(directory.join(name)).expect("a link"),
            fs::canonicalize(linker).expect("a program")
        );
    }
    let option = format!("--ld-path={}", linker.display());
    let lines = |arguments: &[&str]| {
        let done = run(scratch.command(repo_cc()).arg(&clang).args(arguments)).ok();
        done.text().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&["a.o", "--ld-path=x"]),
        ["a.o", "--ld-path=x", &option]
    );
    assert_eq!(
        lines(&["-o", "a", "--", "a.o"]),
        ["-o", "a", &option, "--", "a.o"]
    );
    scratch.write("args", "a.o -o a");
    assert_eq!(lines(&["@args"]), [&option, "@args"]);
    assert_eq!(lines(&["-c", "a.s"]), ["-c", "a.s"]);
}
