//! Incremental links: what people and build systems do to inputs and outputs between two of them, kills, and two at once.

use repo_tests::binaries::Binaries;
use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::time::SystemTime;

/// Links `a`, which was incremental, so many objects were linked again, and exits with a code.
#[track_caller]
fn again(place: &Place, words: &[&str], files: usize, code: i32) {
    place.link("a", &[&[INCREMENTAL], words].concat()).ok();
    let last = place.last();
    let expected = format!("incremental link: {files} of");
    assert!(last.contains(&expected), "{last}");
    run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
}

/// Links `a`, which was a full link for a reason, and exits with a code.
#[track_caller]
fn in_full(place: &Place, words: &[&str], reason: &str, code: i32) {
    place.link("a", &[&[INCREMENTAL], words].concat()).ok();
    let last = place.last();
    assert!(
        last.contains("full link") && last.contains(reason),
        "{last}"
    );
    run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
}

fn function(place: &Place, name: &str, value: i32) {
    let text = format!("int {name}() {{ return {value}; }}");
    place.compile(name, &text, &[], false);
}

/// Makes an archive anew.
fn archive(place: &Place, members: &[&str]) {
    let _ = std::fs::remove_file(place.scratch.join("libf.a"));
    let mut ar = place.scratch.command("ar");
    run(ar.args(["rcs", "libf.a"]).args(members)).ok();
}

/// What was linked for a name that nobody wants any more would be left out by a full link, with what it does at start.
#[test]
fn what_nobody_wants_any_more_goes() {
    let Some(place) = Place::new() else { return };
    let main = "int late(void) __attribute__((weak)); int work(void); int started;\
        int main(void) { return work() + started + (late ? 100 : 0); }";
    let work = "int late(void); int work(void) { return late(); }";
    let late = "int other(void); extern int started; int late(void) { return other(); }\
        __attribute__((constructor)) static void start(void) { started = 10; }";
    // The two members want each other.
    let other = "int late(void); int other(void) { return late ? 3 : 4; }";
    let idle = "int work(void) { return 1; }";
    for (name, text) in [
        ("main", main),
        ("work", work),
        ("late", late),
        ("other", other),
    ] {
        place.compile(name, text, &["-xc"], false);
    }
    archive(&place, &["late.o", "other.o"]);
    settle();
    let words = ["main.o", "work.o", "libf.a"];
    in_full(&place, &words, "there is no state", 113);
    let more = "int late(void); int work(void) { return late() + 1; }";
    place.compile("work", more, &["-xc"], false);
    again(&place, &words, 1, 114);
    place.compile("work", idle, &["-xc"], false);
    in_full(&place, &words, "refers no more", 1);
    // What an incremental link has drawn.
    place.compile("work", work, &["-xc"], false);
    settle();
    place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(113);
    place.compile("work", idle, &["-xc"], false);
    place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(1);
}

/// A library that nobody needs any more is not loaded, and does at start what it does no more.
#[test]
fn libraries_that_nobody_needs_any_more_go() {
    let Some(place) = Place::new() else { return };
    let library = "int started; int late(void) { return 3; } int later(void) { return 4; }\
        __attribute__((constructor)) static void start(void) { extern int seen(int); seen(10); }";
    let main = "static int sum; int seen(int x) { return sum += x; } int work(void); int more(void);\
        int main(void) { return sum + work() + more(); }";
    let wants = "int late(void); int NAME(void) { return late(); }";
    let wants_another = "int later(void); int NAME(void) { return later(); }";
    let weakly =
        "int late(void) __attribute__((weak)); int NAME(void) { return late ? late() : 1; }";
    let idle = "int NAME(void) { return 1; }";
    place.compile("main", main, &["-xc"], false);
    place.compile("late", library, &["-xc", "-fPIC"], false);
    let mut gcc = place.scratch.command("gcc");
    run(gcc.args([
        "-shared",
        "late.o",
        "-o",
        "liblate.so",
        "-Wl,-soname,liblate.so",
    ]))
    .ok();
    let words = [
        "main.o",
        "work.o",
        "more.o",
        "-rdynamic",
        "-Wl,-rpath,$ORIGIN",
        "-Wl,--as-needed",
        "liblate.so",
    ];
    let compile = |name: &str, text: &str| {
        place.compile(name, &text.replace("NAME", name), &["-xc"], false);
    };
    compile("work", wants);
    compile("more", wants);
    settle();
    in_full(&place, &words, "there is no state", 16);
    compile("work", idle);
    // The other one is asked.
    again(&place, &words, 2, 14);
    compile("more", idle);
    in_full(&place, &words, "not needed any more", 2);
    // One that an incremental link has come to need.
    compile("more", wants);
    again(&place, &words, 1, 14);
    compile("work", wants_another);
    again(&place, &words, 1, 17);
    compile("work", weakly);
    again(&place, &words, 2, 16);
    compile("more", idle);
    in_full(&place, &words, "not needed any more", 2);
}

/// An indirect function has an entry of the PLT whose address others have, where code is linked to its place; that entry jumps to what the resolver says.
#[test]
fn indirect_functions_stay_what_they_are() {
    let Some(place) = Place::new() else { return };
    let main = "int f(int); int (*volatile p)(int) = f; int g(int x) { return f(x); }\
        int main(void) { return p(2) + g(1) - 1; }";
    let indirect = |number: u32| {
        format!(
            "static int one(int x) {{ return x + {number}; }} int more(int x) {{ return x * {number}; }}\
             int (*choose(void))(int) {{ return one; }} int f(int) __attribute__((ifunc(\"choose\")));"
        )
    };
    let plain = "int f(int x) { return x + 40; }";
    for kind in [
        &["-no-pie", "-fno-pie"][..],
        &["-static", "-fno-pie"],
        &["-pie", "-fPIE"],
    ] {
        place.compile("main", main, &[&["-xc"], kind].concat(), false);
        let words = [&["main.o", "f.o"][..], &kind[..1]].concat();
        for (text, code) in [
            (indirect(10), 22),
            (indirect(20), 42),
            (
                format!("int before(int x) {{ return x / 3; }} {}", indirect(30)),
                62,
            ),
            (plain.to_owned(), 82),
            (indirect(50), 102),
            (
                indirect(60).replace(
                    "{ return one; }",
                    "{ extern int getpid(void); return getpid() > 0 ? one : 0; }",
                ),
                122,
            ),
            (
                indirect(60).replace(
                    "{ return one; }",
                    "{ extern int getpid(void); return getpid() < 0 ? one : more; }",
                ),
                179,
            ),
        ] {
            place.compile("f", &text, &[&["-xc"], kind].concat(), false);
            place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
            run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
            place
                .link(
                    "a",
                    &[&[INCREMENTAL, "-Wl,--verify-incremental"], &words[..]].concat(),
                )
                .ok();
        }
    }
}

#[test]
fn members_of_archives_change_come_and_go() {
    let Some(place) = Place::new() else { return };
    let main = "int a(); int b(); int d() __attribute__((weak));\
        int main() { return a() + b() + (d ? d() : 0); }";
    place.compile("main", main, &[], false);
    for (name, value) in [("a", 1), ("b", 2), ("c", 4), ("d", 8), ("e", 16)] {
        function(&place, name, value);
    }
    archive(&place, &["a.o", "b.o", "c.o"]);
    settle();
    let words = ["main.o", "libf.a"];
    in_full(&place, &words, "there is no state", 3);
    function(&place, "b", 3);
    archive(&place, &["a.o", "b.o", "c.o"]);
    again(&place, &words, 1, 4);
    // Members that nobody needs are written, taken away, and added.
    function(&place, "c", 5);
    archive(&place, &["a.o", "b.o", "c.o"]);
    again(&place, &words, 0, 4);
    archive(&place, &["a.o", "b.o"]);
    again(&place, &words, 0, 4);
    archive(&place, &["e.o", "a.o", "b.o", "c.o"]);
    again(&place, &words, 0, 4);
    function(&place, "a", 2);
    archive(&place, &["e.o", "a.o", "b.o", "c.o"]);
    again(&place, &words, 1, 5);
    // A weak reference draws no member; a linked one defines it, so that it is another program.
    archive(&place, &["d.o", "e.o", "a.o", "b.o", "c.o"]);
    again(&place, &words, 0, 5);
    // Who defines a name first is linked, and the order of what is linked counts.
    let other = "int a() { return 20; }";
    place.compile("other", other, &[], false);
    archive(&place, &["other.o", "a.o", "b.o"]);
    in_full(&place, &words, "defines _Z1av", 23);
    archive(&place, &["other.o", "b.o"]);
    again(&place, &words, 0, 23);
    archive(&place, &["b.o", "other.o"]);
    in_full(&place, &words, "", 23);
    archive(&place, &["a.o", "b.o"]);
    in_full(&place, &words, "", 5);
    // A member that is new to the program.
    archive(&place, &["a.o", "b.o", "c.o"]);
    again(&place, &words, 0, 5);
    let main = "int a(); int c(); int main() { return a() + c(); }";
    place.compile("main", main, &[], false);
    place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(7);
}

/// rustc calls an object that it has compiled again otherwise than before.
#[test]
fn members_of_archives_get_other_names() {
    let Some(place) = Place::new() else { return };
    place.compile(
        "main",
        "int a(); int b(); int main() { return a() + b(); }",
        &[],
        false,
    );
    for (name, value) in [("a", 1), ("b", 2), ("c", 4)] {
        function(&place, name, value);
    }
    archive(&place, &["a.o", "b.o", "c.o"]);
    settle();
    let words = ["main.o", "libf.a"];
    in_full(&place, &words, "there is no state", 3);
    for (round, value) in [("first", 5), ("second", 9)] {
        place.compile(round, &format!("int b() {{ return {value}; }}"), &[], false);
        archive(&place, &["a.o", &format!("{round}.o"), "c.o"]);
        again(&place, &words, 1, value + 1);
    }
    // Two that change places are not who they were.
    std::fs::copy(place.scratch.join("a.o"), place.scratch.join("x.o")).unwrap();
    std::fs::copy(place.scratch.join("second.o"), place.scratch.join("y.o")).unwrap();
    archive(&place, &["y.o", "x.o", "c.o"]);
    place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(10);
}

/// A member that is not linked any more in a full link would be found by a weak reference, or take the place of a weak definition.
#[test]
fn members_that_lose_what_they_were_linked_for() {
    let Some(place) = Place::new() else { return };
    let main = "int f(); int weak() __attribute__((weak)); int main() { return f() + (weak ? weak() : 0); }";
    place.compile("main", main, &[], false);
    let member = |name: &str, text: &str| {
        place.compile(name, text, &[], false);
        let _ = std::fs::remove_file(place.scratch.join(format!("lib{name}.a")));
        let mut ar = place.scratch.command("ar");
        run(ar.args(["rcs", &format!("lib{name}.a"), &format!("{name}.o")])).ok();
    };
    member("first", "int f() { return 1; } int weak() { return 50; }");
    member("second", "int f() { return 2; }");
    settle();
    let words = ["main.o", "libfirst.a", "libsecond.a"];
    in_full(&place, &words, "there is no state", 51);
    member("first", "int weak() { return 50; }");
    in_full(&place, &words, "", 2);

    for definition in ["__attribute__((weak)) int g()", "int g()"] {
        let of_both = "int f(); int h(); int main() { return f() + h(); }";
        place.compile("main", of_both, &[], false);
        member(
            "first",
            &format!("int h() {{ return 0; }} {definition} {{ return 70; }}"),
        );
        member(
            "second",
            "__attribute__((weak)) int g() { return 8; } int f() { return g(); }",
        );
        in_full(&place, &words, "", 70);
        place.compile("main", "int f(); int main() { return f(); }", &[], false);
        in_full(&place, &words, "refers no more", 8);
    }
}

/// How large a common symbol is, and where, all files say together. Who has none is linked again without them.
#[test]
fn common_symbols() {
    for tickets in [false, true] {
        let Some(place) = Place::new() else { return };
        let of_c = ["-x", "c", "-fcommon"];
        let main = |value: i32| {
            let text = "int order; int f(void); extern int size; int size;\n\
                int main(void) { return order + size + f() + ";
            place.compile("main", &format!("{text}{value}; }}"), &of_c, tickets);
        };
        let other = |value: i32| {
            let text = format!("extern int order; int f(void) {{ return order + {value}; }}");
            place.compile("f", &text, &of_c, tickets);
        };
        main(0);
        other(1);
        settle();
        let words = ["main.o", "f.o"];
        in_full(&place, &words, "there is no state", 1);
        for value in 2..4 {
            other(value);
            again(&place, &words, 1, value);
        }
        main(5);
        in_full(&place, &words, "in a way of its own", 8);
        other(4);
        again(&place, &words, 1, 9);
    }
}

/// What a shared object has of thread-local storage was in order when it was linked.
#[test]
fn thread_local_variables_of_shared_objects() {
    let Some(place) = Place::new() else { return };
    for (text, how) in [
        (
            "static __thread int x = 3; int f(void) { return x++; }",
            "-O0",
        ),
        (
            "static __thread int x = 3; int f(void) { return x++; }",
            "-mtls-dialect=gnu2",
        ),
        (
            "__thread int x = 3; int f(void) { return x++; }",
            "-ftls-model=initial-exec",
        ),
    ] {
        place.compile("f", text, &["-xc", "-fPIC", how], false);
        settle();
        let words = [INCREMENTAL, "-Wl,--verify-incremental", "-shared", "f.o"];
        for _ in 0..2 {
            place.link("libf.so", &words).ok();
        }
    }
}

/// Where a member of an archive wins, which has common symbols, nothing is wrong with what lost.
#[test]
fn what_lost_against_members_with_common_symbols() {
    let Some(place) = Place::new() else { return };
    let of_c = ["-xc", "-fcommon"];
    for (name, text) in [
        (
            "main",
            "int f(int), g(int); int main(void) { return f(1) - 101 + g(0); }",
        ),
        (
            "weak",
            "__attribute__((weak)) int f(int x) { return x + 1; }",
        ),
        (
            "strong",
            "int g(int x) { return x; } int f(int x) { return x + 100; } int common[800];",
        ),
    ] {
        place.compile(name, text, &of_c, false);
    }
    archive(&place, &["strong.o"]);
    settle();
    let words = ["main.o", "weak.o", "libf.a", "-Wl,--verify-incremental"];
    in_full(&place, &words, "there is no state", 0);
    place.compile(
        "main",
        "int f(int), g(int); int main(void) { return f(1) - 100 + g(0); }",
        &of_c,
        false,
    );
    again(&place, &words, 1, 1);
}

#[test]
fn what_is_written_again_as_it_was_makes_the_output_newer() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    function(&place, "f", 3);
    settle();
    let words = ["main.o", "f.o"];
    in_full(&place, &words, "there is no state", 3);
    let time = |name: &str| -> SystemTime {
        let metadata = std::fs::metadata(place.scratch.join(name)).unwrap();
        metadata.modified().unwrap()
    };
    for _ in 0..2 {
        settle();
        function(&place, "f", 3);
        assert!(time("f.o") > time("a"));
        settle();
        again(&place, &words, 0, 3);
        assert!(time("f.o") < time("a"));
        // Also where nothing was written.
        let before = time("a");
        settle();
        again(&place, &words, 0, 3);
        assert!(time("a") > before);
    }
}

/// Cargo makes hard links to what it has linked.
#[test]
fn other_names_of_the_output_keep_what_they_have() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    function(&place, "f", 1);
    settle();
    let words = ["main.o", "f.o"];
    in_full(&place, &words, "there is no state", 1);
    let [output, other] = ["a", "other"].map(|name| place.scratch.join(name));
    for value in 2..8 {
        let _ = std::fs::remove_file(&other);
        std::fs::hard_link(&output, &other).unwrap();
        if value % 3 == 0 {
            // That, too.
            std::fs::remove_file(&output).unwrap();
        }
        settle();
        function(&place, "f", value);
        again(&place, &words, 1, value);
        let inode = |path| std::fs::metadata(path).unwrap().ino();
        assert_ne!(inode(&output), inode(&other));
        run(&mut place.scratch.command(&other)).code(value - 1);
    }
    // Two links on, the other name is that of what was the spare image.
    let copy = std::fs::read(&other).unwrap();
    for value in 8..11 {
        function(&place, "f", value);
        again(&place, &words, 1, value);
        assert!(std::fs::read(&other).unwrap() == copy);
    }
    // What is written to by way of the other name is another output.
    std::fs::remove_file(&other).unwrap();
    std::fs::hard_link(&output, &other).unwrap();
    let mut bytes = std::fs::read(&other).unwrap();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    settle();
    std::fs::write(&other, bytes).unwrap();
    in_full(&place, &words, "the output was changed", 10);
}

#[test]
fn objects_that_compilers_make_for_the_link_alone() {
    let Some(place) = Place::new() else { return };
    let main = "int f(); int main() { return f(); }";
    place.scratch.write("main.cpp", main);
    let f = |value: i32| {
        let text = format!("int f() {{ return {value}; }}");
        place.scratch.write("f.cpp", text);
    };
    f(1);
    let words = ["-ffunction-sections", "main.cpp", "f.cpp"];
    in_full(&place, &words, "there is no state", 1);
    again(&place, &words, 0, 1);
    f(2);
    again(&place, &words, 1, 2);
    again(&place, &words, 0, 2);
}

#[test]
fn a_kill_leaves_the_old_program_or_the_new_one() {
    let Some(place) = Place::new() else { return };
    if tools::require(["strace"]).is_none() {
        return;
    }
    let start = "extern \"C\" int f();\n\
        extern \"C\" void _start() { asm volatile(\"syscall\" :: \"a\"(60), \"D\"(f())); }";
    place.compile("start", start, &["-O2", "-fno-stack-protector"], false);
    let f = |value: i32| {
        let text = format!("extern \"C\" int f() {{ return {value}; }}");
        place.compile("f", &text, &["-O2", "-fcf-protection=none"], false);
    };
    let linker = Binaries::get().path("repo-ld");
    let words = ["--incremental", "-o", "a", "start.o", "f.o"];
    let link = |value: i32| {
        run(place.scratch.command(linker).args(words)).ok();
        run(&mut place.scratch.command(place.scratch.join("a"))).code(value);
    };
    let calls =
        "openat,rename,renameat2,unlink,ftruncate,utimensat,mmap,munmap,write,fallocate,flock";
    f(0);
    settle();
    link(0);
    let (mut value, mut kills, mut incremental) = (0, 0, 0);
    for number in 1.. {
        // Twice, so that there is a spare image.
        for _ in 0..2 {
            value = (value + 1) % 100;
            f(value);
            link(value);
        }
        let old = value;
        value += 1;
        f(value);
        settle();
        let mut traced = place.scratch.command("strace");
        traced.arg(format!("--trace={calls}"));
        traced.args(["-f", "-qq", "-o", "/dev/null", "-e"]);
        traced.arg(format!("inject={calls}:signal=KILL:when={number}"));
        traced.env("REPO_LOG", place.scratch.join("log"));
        let run_of = run(traced.arg(linker).args(words));
        if run_of.status.signal() != Some(9) && !run_of.status.success() {
            println!("nothing can be traced here: {}", run_of.report());
            return;
        }
        let is_killed = !run_of.status.success();
        kills += u32::from(is_killed);
        let left = run(&mut place.scratch.command(place.scratch.join("a")));
        let left = left.status.code();
        assert!(
            left == Some(old) || left == Some(value),
            "{left:?} is neither {old} nor {value} after a kill at call {number}"
        );
        link(value);
        if !is_killed {
            incremental += usize::from(place.last().contains("incremental link: 1 of"));
            break;
        }
    }
    assert_eq!(incremental, 1);
    assert!(kills > 10, "{kills}");
}

#[test]
fn two_at_once_give_one_of_both() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    for (name, value) in [("one", 1), ("two", 2)] {
        let text = format!("int f() {{ return {value}; }}");
        place.compile(name, &text, &[], false);
    }
    settle();
    for round in 0..12 {
        let name = ["one.o", "two.o"][round % 2];
        std::fs::copy(place.scratch.join(name), place.scratch.join("f.o")).unwrap();
        // One of them may see it while it is written.
        let other = ["two.o", "one.o"][round % 2];
        std::thread::scope(|scope| {
            for words in [["main.o", "f.o"], ["main.o", other], ["main.o", "f.o"]] {
                let place = &place;
                scope.spawn(move || place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok());
            }
        });
        let left = run(&mut place.scratch.command(place.scratch.join("a")));
        assert!(
            matches!(left.status.code(), Some(1 | 2)),
            "{}",
            left.report()
        );
        let expected = [1, 2][round % 2];
        place.link("a", &[INCREMENTAL, "main.o", "f.o"]).ok();
        run(&mut place.scratch.command(place.scratch.join("a"))).code(expected);
    }
}

#[test]
fn links_are_incremental_where_there_is_a_repository() {
    let Some(place) = Place::new() else { return };
    let compile = |value: i32, tickets: bool| {
        place.compile("main", "int f(); int main() { return f(); }", &[], tickets);
        let text = format!("int f() {{ return {value}; }}");
        place.compile("f", &text, &[], tickets);
    };
    let link = |named: bool, variable: Option<&str>, options: &[&str]| {
        let mut command = place.scratch.command("g++");
        command.env("REPO_LOG", place.scratch.join("log"));
        command.env_remove("REPO_LD_INCREMENTAL");
        if !named {
            // The tickets name theirs.
            command.env_remove("REPO_FILE");
        }
        if let Some(value) = variable {
            command.env("REPO_LD_INCREMENTAL", value);
        }
        command
            .args(place.through())
            .args(["-o", "a", "main.o", "f.o"]);
        run(command.args(options)).ok();
        place.last()
    };
    let states = || {
        let folder = place.scratch.join("program.repo.links");
        folder.read_dir().map_or(0, Iterator::count)
    };
    compile(1, false);
    settle();
    // No repository, no state.
    assert!(link(false, None, &[]).contains("no placement to keep"));
    assert!(link(true, Some("0"), &[]).contains("no placement to keep"));
    assert!(link(true, None, &["-Wl,--no-incremental"]).contains("no placement to keep"));
    assert_eq!(states(), 0);
    assert!(link(false, Some("1"), &[]).contains("there is no state"));
    let _ = std::fs::remove_dir_all(place.scratch.join("program.repo.links"));
    assert!(link(true, None, &[]).contains("there is no state"));
    assert_ne!(states(), 0);
    assert!(link(true, None, &[]).contains("incremental link: 0 of"));
    let _ = std::fs::remove_dir_all(place.scratch.join("program.repo.links"));
    compile(2, true);
    settle();
    assert!(link(false, None, &[]).contains("there is no state"));
    compile(3, true);
    assert!(link(false, None, &[]).contains("incremental link: "));
    run(&mut place.scratch.command(place.scratch.join("a"))).code(3);
}

#[test]
fn what_is_kept_of_outputs_that_are_gone_is_removed() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int main() {}", &[], true);
    for name in ["a", "b"] {
        place.link(name, &[INCREMENTAL, "main.o"]).ok();
    }
    let folder = place.scratch.join("program.repo.links");
    let count = || folder.read_dir().unwrap().count();
    let before = count();
    std::fs::remove_file(place.scratch.join("b")).unwrap();
    let collect = |grace: &str| {
        let mut gc = place.scratch.command(Binaries::get().path("repo-gc"));
        run(gc.args(["--grace", grace])).ok()
    };
    collect("1h");
    assert_eq!(count(), before);
    let said = collect("0s").text();
    assert!(said.contains("1 outputs that are gone"), "{said}");
    assert_eq!(count(), (before - 1) / 2 + 1);
    place.link("a", &[INCREMENTAL, "main.o"]).ok();
    assert!(
        place.last().contains("incremental link: 0 of"),
        "{}",
        place.last()
    );
}

#[test]
fn what_is_said_of_options_is_said_by_every_link() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    place.compile("f", "int f() { return 1; }", &[], false);
    settle();
    let words = [INCREMENTAL, "-Wl,-z,no-such-keyword", "main.o", "f.o"];
    let link = |expected: &str| {
        let said = place.link("a", &words).ok();
        let errors = said.errors();
        assert_eq!(errors.matches("no-such-keyword").count(), 1, "{errors}");
        assert!(place.last().contains(expected), "{}", place.last());
    };
    link("full link");
    link("incremental link: 0 of");
    place.compile("f", "int f() { return 2; }", &[], false);
    link("incremental link: 1 of");
}

/// What is asked for on standard output is there, whether anything has changed or not.
#[test]
fn reports_are_printed_by_every_link() {
    let Some(place) = Place::new() else { return };
    function(&place, "main", 3);
    settle();
    let reports = [
        ("-Wl,--print-memory-usage", "Memory region"),
        ("-Wl,-M", "Memory Configuration"),
        ("-Wl,--cref", "Cross Reference"),
        ("-Wl,-t", "main.o"),
        ("-Wl,-y,main", "definition of main"),
        ("-Wl,--gc-sections,--print-gc-sections", "unused section"),
        ("-Wl,--stats", "total"),
    ];
    for (report, word) in reports {
        let printed = || {
            let done = place.link("a", &[INCREMENTAL, "main.o", report]).ok();
            done.text().contains(word) || done.errors().contains(word)
        };
        assert!(printed(), "{report}: the first link prints nothing");
        assert!(printed(), "{report}: the second link prints nothing");
    }
}

#[test]
fn warnings_are_given_again() {
    let Some(place) = Place::new() else { return };
    let compile = |name: &str, text: &str| place.compile(name, text, &[], false);
    let warned = "#include <stdlib.h>\n int f() { char s[] = \"XXXXXX\"; return mktemp(s) != 0; }";
    compile("main", "int f(); int g(); int main() { return f() + g(); }");
    compile("f", warned);
    compile("g", "int g() { return 1; }");
    settle();
    let link = |expected: &str, warnings: &[&str], code: i32| {
        let said = place.link("a", &[INCREMENTAL, "main.o", "f.o", "g.o"]).ok();
        let errors = said.errors();
        assert_eq!(
            errors.matches("warning").count(),
            warnings.len(),
            "{errors}"
        );
        let mut from = 0;
        for warning in warnings {
            let at = errors[from..].find(warning);
            from += at.unwrap_or_else(|| panic!("{warning}: {errors}"));
        }
        assert!(place.last().contains(expected), "{}", place.last());
        run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
        errors
    };
    let first = link("full link", &["mktemp"], 2);
    // All links say the same.
    assert_eq!(link("incremental link: 0 of", &["mktemp"], 2), first);
    compile("g", "int g() { return 2; }");
    assert_eq!(link("incremental link: 1 of", &["mktemp"], 3), first);
    // Somebody else comes to do the same, and then the first one does not any more.
    compile(
        "g",
        "#include <stdlib.h>\n int g() { char s[] = \"XXXXXX\"; return 3 + (mktemp(s) != 0); }",
    );
    assert_eq!(link("full link", &["mktemp"], 5), first);
    compile("f", "int f() { return 5; }");
    assert!(link("full link", &["mktemp"], 9).contains("g.o"));
    compile("f", "int f() { return 6; }");
    link("incremental link: 1 of", &["mktemp"], 10);
    // Stacks, of several.
    let stack = "__asm__(\".section .note.GNU-stack,\\\"x\\\",@progbits\");";
    compile("f", &format!("{stack} int f() {{ return 1; }}"));
    link("full link", &["f.o: requires", "mktemp"], 5);
    compile(
        "main",
        &format!("{stack} int f(); int g(); int main() {{ return f() + g(); }}"),
    );
    link(
        "full link",
        &["f.o: requires", "main.o: requires", "mktemp"],
        5,
    );
    link(
        "incremental link: 0 of",
        &["f.o: requires", "main.o: requires", "mktemp"],
        5,
    );
    compile("f", "int f() { return 2; }");
    link("full link", &["main.o: requires", "mktemp"], 6);
    compile("f", "int f() { return 3; }");
    link("incremental link: 1 of", &["main.o: requires", "mktemp"], 7);
    // A new call of what is warned of was not there before.
    compile(
        "g",
        "#include <stdio.h>\n int g() { char s[L_tmpnam]; return tmpnam(s) != 0; }",
    );
    compile("main", "int f(); int g(); int main() { return f() + g(); }");
    link("full link", &["tmpnam"], 4);
    compile("g", "int g() { return 0; }");
    link("full link", &[], 3);
    compile(
        "g",
        "#include <stdio.h>\n int g() { char s[L_tmpnam]; return tmpnam(s) != 0; }",
    );
    link("full link", &["tmpnam"], 4);
    let fatal = ["-Wl,--incremental,--fatal-warnings", "main.o", "f.o", "g.o"];
    for _ in 0..2 {
        let failed = place.link("a", &fatal).failed();
        assert!(failed.errors().contains("tmpnam"), "{}", failed.errors());
    }
}
