//! A repository that another process has locked and makes no use of, because it was
//! stopped: one is told for whom one waits, and after a while the ordinary road is taken.
//!
//! That process is this one: it has a transaction open.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::run;
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use store::engine::{Durability, OpenOptions, Store};

/// Long enough for no test to come to its end, in seconds.
const FOR_EVER: &str = "100000";

fn compile(scratch: &Scratch, gcc: &Path, name: &str) -> Command {
    let text = format!("int {name}(void) {{ return 1; }}\n");
    let source = scratch.write(format!("{name}.c"), text);
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(gcc).arg("-c").arg(source);
    command.arg("-o").arg(format!("{name}.o"));
    command
}

/// A repository with the ticket `a.o`, open here.
fn opened(scratch: &Scratch, gcc: &Path) -> Store {
    run(&mut compile(scratch, gcc, "a")).ok();
    Store::open(scratch.repository(), &OpenOptions::default()).expect("a repository")
}

/// How messages name the process that has the lock.
fn holder() -> String {
    format!("process {} (", std::process::id())
}

#[test]
fn the_ordinary_road_is_taken() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let store = opened(&scratch, &gcc);
    let before = fs::read(scratch.repository()).expect("read");
    let lock = store.begin(Durability::Lazy).expect("begun");

    let done = run(compile(&scratch, &gcc, "b").env("REPO_LOCK_WAIT", "0.1")).ok();
    let said = done.errors();
    assert!(
        said.starts_with("repo-cc: warning: ")
            && said.contains(&holder())
            && said.contains("b.o stays an ordinary object"),
        "{}",
        done.report()
    );
    assert!(!is_ticket_file(scratch.join("b.o")));

    let mut link = scratch.command(Binaries::get().path("repo-ld"));
    link.args(["-e", "a", "-o", "out", "a.o", "b.o"]);
    link.env("REPO_LOCK_WAIT", "0.1")
        .env("REPO_LOG", scratch.join("log"));
    run(&mut link).ok();
    assert!(scratch.join("out").is_file());
    let log = fs::read_to_string(scratch.join("log")).expect("a log");
    assert!(log.contains(&holder()), "{log}");

    let mut gc = scratch.command(Binaries::get().path("repo-gc"));
    let failed = run(gc.env("REPO_LOCK_WAIT", "0.1")).code(2);
    let said = failed.errors();
    assert!(said.contains(&holder()), "{}", failed.report());
    drop(lock);
    assert!(fs::read(scratch.repository()).expect("read") == before);
    // Nothing is left in the way.
    run(&mut compile(&scratch, &gcc, "b")).ok();
    assert!(is_ticket_file(scratch.join("b.o")));
}

#[test]
fn who_waits_says_for_whom_and_goes_on() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let store = opened(&scratch, &gcc);
    let lock = store.begin(Durability::Lazy).expect("begun");
    // Several: but for one they wait in a queue.
    let mut waiting: Vec<_> = ["b", "c", "d"]
        .iter()
        .map(|name| {
            let mut command = compile(&scratch, &gcc, name);
            command.env("REPO_LOCK_WAIT", FOR_EVER);
            command.stderr(Stdio::piped());
            command.spawn().expect("started")
        })
        .collect();
    let mut streams: Vec<_> = waiting
        .iter_mut()
        .map(|child| BufReader::new(child.stderr.take().expect("a pipe")))
        .collect();
    for stream in &mut streams {
        let mut line = String::new();
        stream.read_line(&mut line).expect("read");
        assert!(
            line.starts_with("repo-cc: waiting for ")
                && line.contains(&holder())
                && line.contains("program.repo"),
            "{line}"
        );
    }
    drop(lock);
    for (child, mut stream) in waiting.iter_mut().zip(streams) {
        assert!(child.wait().expect("ends").success());
        let mut rest = String::new();
        stream.read_to_string(&mut rest).expect("read");
        assert_eq!(rest, "", "told once");
    }
    for name in ["b.o", "c.o", "d.o"] {
        assert!(is_ticket_file(scratch.join(name)), "{name}");
    }
}
