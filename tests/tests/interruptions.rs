//! What is left when a program cannot go on: signals, files that are cut short while they are mapped, limits on the size of
//! files, full devices, names as long as there can be. An output is there whole or not at all, and the user reads why.
//!
//! Where a program must be stopped at a certain point it writes to, or reads from, a pipe with a name, whose other end the
//! test holds: to open it waits until the program has come so far.

use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run, run_with_input, with_default_signals};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that ends with 7, and has so much in it that it is written to many pages.
const PROGRAM: &str = "\
    .globl _start\n_start: mov $60, %eax\n mov $7, %edi\n syscall\n\
    .data\n .fill 3000000, 1, 5\n .section .note.GNU-stack,\"\",@progbits\n";

/// The same in C, for tickets: without a library, so that nothing but repo-ld is needed.
const SOURCE: &str = "\
    char filling[3000000] = {5};\n\
    void _start(void) { __asm__(\"mov $60, %eax\\n mov $7, %edi\\n syscall\"); __builtin_unreachable(); }\n";

/// Names of so many symbols that the map of a program with them is more than a pipe holds: who writes it to one waits until
/// somebody has read.
fn many_names() -> impl Iterator<Item = String> {
    (0..4000).map(|n| format!("a_symbol_with_a_long_name_and_the_number_{n}"))
}

fn program(scratch: &Scratch, name: &str) -> Command {
    scratch.command(Binaries::get().path(name))
}

/// A link of these arguments.
fn link(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = program(scratch, "repo-ld");
    command.args(arguments);
    command
}

fn assemble(scratch: &Scratch, name: &str, text: &str) {
    scratch.write(format!("{name}.s"), text);
    let (source, object) = (format!("{name}.s"), format!("{name}.o"));
    run(scratch.command("gcc").args(["-c", &source, "-o", &object])).ok();
}

/// Compiles `text` to the ticket `NAME.o`.
fn compile(scratch: &Scratch, name: &str, text: &str) {
    scratch.write(format!("{name}.c"), text);
    run(&mut compiler(scratch, name)).ok();
}

fn compiler(scratch: &Scratch, name: &str) -> Command {
    let mut command = program(scratch, "repo-cc");
    command
        .args(["gcc", "-O1", "-c"])
        .arg(format!("{name}.c"))
        .arg("-o")
        .arg(format!("{name}.o"));
    command
}

fn pipe(scratch: &Scratch, name: &str) -> PathBuf {
    let path = scratch.join(name);
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a pipe can be made");
    path
}

fn start(command: &mut Command) -> Child {
    with_default_signals(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started")
}

fn end(child: Child) -> Run {
    let output = child.wait_with_output().expect("a child can be waited for");
    Run {
        command: "(see the test)".to_owned(),
        status: output.status,
        stdout: output.stdout,
        stderr: output.stderr,
    }
}

/// The names in the scratch directory that no test has given.
fn temporaries(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).expect("the directory can be read");
    names
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(".repo-") || name.ends_with("tmp"))
        .collect()
}

fn cut(path: &Path) {
    let file = File::options().write(true).open(path).expect("it is there");
    file.set_len(0).expect("it can be cut");
}

fn runs(scratch: &Scratch, output: &str) {
    run(&mut scratch.command(scratch.join(output))).code(7);
}

/// Fails with a message that names `file`, with exit code 1, and leaves neither `output` nor anything else.
#[track_caller]
fn has_failed(scratch: &Scratch, ended: Run, file: &str, output: &str) {
    let ended = ended.failed().code(1);
    let errors = ended.errors();
    let named = errors
        .lines()
        .any(|line| line.contains("error:") && line.contains(file));
    assert!(named, "{}", ended.report());
    assert!(!scratch.join(output).exists(), "{}", ended.report());
    let left = temporaries(scratch.path());
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_input_that_is_cut_short_during_the_link_is_an_error() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    let held = pipe(&scratch, "held");
    let names: String = many_names()
        .map(|name| format!(".globl {name}\n{name}: .byte 1\n"))
        .collect();
    for old_output in [false, true] {
        assemble(&scratch, "a", &format!("{PROGRAM}\n.data\n{names}"));
        if old_output {
            run(&mut link(&scratch, &["a.o", "-o", "out"])).ok();
        }
        // The map is written before the output, and after all inputs were mapped.
        let child = start(&mut link(&scratch, &["a.o", "-o", "out", "-Map=held"]));
        let mut map = File::open(&held).expect("the linker opens it, too");
        cut(&scratch.join("a.o"));
        map.read_to_end(&mut Vec::new()).expect("the map");
        let ended = end(child);
        if old_output && scratch.join("out").exists() {
            // It was not touched yet.
            runs(&scratch, "out");
            fs::remove_file(scratch.join("out")).expect("it is there");
        }
        has_failed(&scratch, ended, "a.o: was cut short", "out");
    }
}

#[test]
fn a_repository_that_is_cut_short_during_the_link_is_an_error() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    let names: String = many_names()
        .map(|name| format!("int {name} = 1;\n"))
        .collect();
    compile(&scratch, "a", &format!("{SOURCE}\n{names}"));
    let held = pipe(&scratch, "held");
    let child = start(&mut link(&scratch, &["a.o", "-o", "out", "-Map=held"]));
    let mut map = File::open(&held).expect("the linker opens it, too");
    cut(&scratch.repository());
    map.read_to_end(&mut Vec::new()).expect("the map");
    has_failed(&scratch, end(child), "program.repo: was cut short", "out");
}

#[test]
fn a_repository_that_is_cut_short_while_it_is_shown_is_an_error() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    // More than pipes and buffers hold.
    let names: String = many_names().map(|name| format!("int {name};\n")).collect();
    compile(&scratch, "many", &names);
    let mut child = start(program(&scratch, "repo-dump").arg("names"));
    let mut shown = child.stdout.take().expect("a pipe");
    shown.read_exact(&mut [0]).expect("it shows something");
    cut(&scratch.repository());
    shown.read_to_end(&mut Vec::new()).expect("the rest");
    let ended = end(child).failed().code(1);
    assert!(
        ended.errors().contains("program.repo: was cut short"),
        "{}",
        ended.report()
    );
}

/// Starts a link that waits, complete, for somebody who reads its dependency file.
fn start_and_hold(scratch: &Scratch) -> Child {
    let child = start(&mut link(
        scratch,
        &["a.o", "-o", "out", "--dependency-file=held"],
    ));
    while temporaries(scratch.path()).is_empty() {
        std::thread::yield_now();
    }
    // The file is there for some instructions before it is on the list of what goes with the process.
    std::thread::sleep(std::time::Duration::from_millis(50));
    child
}

#[test]
fn a_link_that_is_ended_by_a_signal_leaves_nothing() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    assemble(&scratch, "a", PROGRAM);
    pipe(&scratch, "held");
    for (signal, number) in [
        (Signal::TERM, 15),
        (Signal::INT, 2),
        (Signal::HUP, 1),
        (Signal::QUIT, 3),
    ] {
        let child = start_and_hold(&scratch);
        kill_process(Pid::from_child(&child), signal).expect("it waits");
        let ended = end(child);
        assert_eq!(ended.status.signal(), Some(number), "{}", ended.report());
        assert!(temporaries(scratch.path()).is_empty(), "{signal:?}");
        assert!(!scratch.join("out").exists());
    }
}

#[test]
fn what_a_killed_link_left_goes_with_the_next_and_what_a_living_one_makes_stays() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    assemble(&scratch, "a", PROGRAM);
    let held = pipe(&scratch, "held");
    let child = start_and_hold(&scratch);
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it waits");
    end(child);
    assert_eq!(temporaries(scratch.path()).len(), 1);
    run(&mut link(&scratch, &["a.o", "-o", "out"])).ok();
    runs(&scratch, "out");
    assert!(temporaries(scratch.path()).is_empty());

    // This one waits while another makes the same output.
    fs::remove_file(scratch.join("out")).expect("it is there");
    let child = start_and_hold(&scratch);
    run(&mut link(&scratch, &["a.o", "-o", "out"])).ok();
    runs(&scratch, "out");
    assert_eq!(temporaries(scratch.path()).len(), 1);
    File::open(&held)
        .and_then(|mut rules| rules.read_to_end(&mut Vec::new()))
        .expect("its dependency file");
    end(child).ok();
    runs(&scratch, "out");
    assert!(temporaries(scratch.path()).is_empty());
}

#[test]
fn outputs_have_names_as_long_as_there_can_be() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    let object = format!("{}.o", "o".repeat(253));
    scratch.write("a.c", SOURCE);
    run(program(&scratch, "repo-cc").args(["gcc", "-c", "a.c", "-o", &object])).ok();
    let bytes = fs::read(scratch.join(&object)).expect("the ticket");
    assert!(bytes.len() < 1_000_000, "it is an object, not a ticket");
    let output = "x".repeat(255);
    for _ in 0..2 {
        run(&mut link(&scratch, &[&object, "-o", &output])).ok();
        runs(&scratch, &output);
    }
    let joined = format!("{}.o", "j".repeat(253));
    run(program(&scratch, "repo-dump").args(["--materialize", &object, "-o", &joined])).ok();
    let again = run(&mut link(&scratch, &[&joined, "-o", "again"])).ok();
    assert!(again.stderr.is_empty(), "{}", again.report());
    runs(&scratch, "again");
    assert!(temporaries(scratch.path()).is_empty());
}

#[test]
fn outputs_that_are_descriptors_are_written_to() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    assemble(&scratch, "a", PROGRAM);
    run(&mut link(&scratch, &["a.o", "-o", "out"])).ok();
    let expected = fs::read(scratch.join("out")).expect("the output");
    std::os::unix::fs::symlink("/dev/stdout", scratch.join("stdout")).expect("a link");
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "stdout", "-"] {
        // Into a pipe...
        let said = run(&mut link(&scratch, &["a.o", "-o", name])).ok();
        assert!(said.stdout == expected, "{name}");
        // ...and into a file, that is longer.
        let file = scratch.write("file", vec![b'x'; 2 * expected.len()]);
        let open = match name {
            "-" => File::create(&file),
            _ => File::options().write(true).open(&file),
        };
        let open = open.expect("it is there");
        let status = link(&scratch, &["a.o", "-o", name]).stdout(open).status();
        assert!(status.expect("it was started").success());
        assert!(fs::read(&file).expect("it is there") == expected, "{name}");
    }
    assert!(fs::symlink_metadata(scratch.join("stdout")).is_ok_and(|meta| meta.is_symlink()));
    let closed = run(&mut link(&scratch, &["a.o", "-o", "/dev/fd/98"])).failed();
    assert!(
        closed.errors().contains("/dev/fd/98"),
        "{}",
        closed.report()
    );
}

/// The command under a limit on the size of files, in units of 512 bytes.
fn limited(scratch: &Scratch, command: &Command, blocks: u64) -> Command {
    let mut shell = scratch.command("sh");
    shell
        .arg("-c")
        .arg(format!("ulimit -f {blocks}; exec \"$@\""))
        .arg("sh")
        .arg(command.get_program())
        .args(command.get_args());
    shell
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    assemble(&scratch, "a", PROGRAM);
    let command = link(&scratch, &["a.o", "-o", "out"]);
    let ended = run(&mut limited(&scratch, &command, 100));
    has_failed(&scratch, ended, "cannot write out", "out");

    compile(&scratch, "t", SOURCE);
    let mut command = program(&scratch, "repo-dump");
    command.args(["--materialize", "t.o", "-o", "joined.o"]);
    let ended = run(&mut limited(&scratch, &command, 100)).failed();
    assert!(ended.errors().contains("joined.o"), "{}", ended.report());
    assert!(!scratch.join("joined.o").exists());
    assert!(temporaries(scratch.path()).is_empty());

    let before = fs::read(scratch.repository()).expect("the repository");
    let mut command = program(&scratch, "repo-gc");
    command.args(["--grace", "0s", "--unused", "0s"]);
    let ended = run(&mut limited(&scratch, &command, 12)).failed();
    assert!(
        ended.errors().contains("program.repo"),
        "{}",
        ended.report()
    );
    assert!(fs::read(scratch.repository()).expect("it is there") == before);
    assert!(temporaries(scratch.path()).is_empty());

    // What cannot be stored stays an object, and the compile succeeds.
    scratch.write("small.c", "int small;");
    let ended = run(&mut limited(&scratch, &compiler(&scratch, "small"), 17)).ok();
    assert!(
        ended.errors().contains("stays an ordinary object"),
        "{}",
        ended.report()
    );
    // The programs that repo-cc runs are not spared the signal.
    scratch.write("large.c", SOURCE);
    let ended = run(&mut limited(&scratch, &compiler(&scratch, "large"), 100));
    assert!(!ended.status.success(), "{}", ended.report());
}

#[test]
fn what_fails_beside_the_output_fails_the_link_without_one() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    assemble(&scratch, "a", PROGRAM);
    compile(&scratch, "t", SOURCE);
    fs::create_dir(scratch.join("directory")).expect("a directory can be made");
    for object in ["a.o", "t.o"] {
        for option in [
            "--dependency-file=/dev/full",
            "--dependency-file=no/such/file",
            "-Map=/dev/full",
            "-Map=no/such/file",
        ] {
            for kind in [&[][..], &["-r"], &["-shared"]] {
                let arguments = [&[object, "-o", "out", option], kind].concat();
                let ended = run(&mut link(&scratch, &arguments));
                let (_, file) = option.split_once('=').expect("it has one");
                has_failed(&scratch, ended, file, "out");
            }
        }
    }
    // The other way round: no output, so nothing is told about what it was made of.
    let arguments = ["a.o", "-o", "directory", "--dependency-file=rules"];
    run(&mut link(&scratch, &arguments)).failed().code(1);
    assert!(!scratch.join("rules").exists());
}

#[test]
fn an_output_that_cannot_be_recorded_is_complete() {
    let [_] = require!("gcc");
    let scratch = Scratch::new();
    compile(&scratch, "large", SOURCE);
    compile(&scratch, "other", "int other;");
    compile(
        &scratch,
        "small",
        "void _start(void) { __asm__(\"mov $60, %eax\\n mov $7, %edi\\n syscall\"); }",
    );
    // The repository is larger than the output, and may not grow.
    let size = fs::metadata(scratch.repository())
        .expect("it is there")
        .len();
    for fatal in [&[][..], &["--fatal-warnings"]] {
        let arguments = [&["small.o", "-o", "out"], fatal].concat();
        let command = link(&scratch, &arguments);
        let ended = run(&mut limited(&scratch, &command, size / 512)).ok();
        assert!(
            ended.errors().contains("warning: out is complete"),
            "{}",
            ended.report()
        );
        runs(&scratch, "out");
    }
    // And otherwise nothing is said.
    let ended = run(&mut link(&scratch, &["small.o", "-o", "out"])).ok();
    assert!(ended.stderr.is_empty(), "{}", ended.report());
}

#[test]
fn relocations_of_inputs_from_pipes_are_kept() {
    let [_, _] = require!("gcc", "ar");
    let scratch = Scratch::new();
    // Tables of more than 64 KiB: so much is given back at once where a file is mapped.
    let text = format!(
        "{PROGRAM}\n .section .debug_info,\"\",@progbits\n{}",
        " .quad _start\n .quad _start + 1\n".repeat(8000)
    );
    assemble(&scratch, "a", &text);
    run(scratch.command("ar").args(["rc", "a.a", "a.o"])).ok();
    scratch.write("z.s", &text);
    run(scratch
        .command("gcc")
        .args(["-c", "-Wa,--compress-debug-sections=zlib", "z.s"]))
    .ok();
    for input in ["a.o", "a.a", "z.o"] {
        let options = ["--emit-relocs", "--whole-archive", "-o"];
        let from_file = [&options[..], &["expected", input]].concat();
        run(&mut link(&scratch, &from_file)).ok();
        let expected = fs::read(scratch.join("expected")).expect("the output");
        let from_pipe = [&options[..], &["out", "/dev/stdin"]].concat();
        let bytes = fs::read(scratch.join(input)).expect("the input");
        run_with_input(&mut link(&scratch, &from_pipe), &bytes).ok();
        let out = fs::read(scratch.join("out")).expect("the output");
        assert!(out == expected, "{input}");
    }
    // A name that is a pipe is one as well.
    let held = pipe(&scratch, "held");
    let child = start(&mut link(&scratch, &["--emit-relocs", "-o", "out", "held"]));
    let bytes = fs::read(scratch.join("a.o")).expect("the input");
    let mut writer = File::options()
        .write(true)
        .open(&held)
        .expect("the linker opens it, too");
    writer.write_all(&bytes).expect("the linker reads");
    drop(writer);
    end(child).ok();
    run(&mut link(
        &scratch,
        &["--emit-relocs", "-o", "expected", "a.o"],
    ))
    .ok();
    let read = |name: &str| fs::read(scratch.join(name)).expect("the output");
    assert!(read("out") == read("expected"));
}
