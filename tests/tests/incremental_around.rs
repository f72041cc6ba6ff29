//! Incremental links: what decides about a link beside what its objects say. Lists that options name, where scripts find what they name, the order
//! of members and of files, and whose file the output is.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::require;
use repo_tests::scratch::settle;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Links `a`, which exits with a code. Whether that was an incremental link.
#[track_caller]
fn link(place: &Place, words: &[&str], code: i32) -> bool {
    place.link("a", &[&[INCREMENTAL], words].concat()).ok();
    run(&mut place.scratch.command(place.scratch.join("a"))).code(code);
    place.last().contains("incremental link: ")
}

fn function(place: &Place, file: &str, name: &str, value: i32) {
    let text = format!("int {name}() {{ return {value}; }}");
    place.compile(file, &text, &[], false);
}

fn archive(place: &Place, name: &str, members: &[&str]) {
    let _ = fs::remove_file(place.scratch.join(name));
    let mut ar = place.scratch.command("ar");
    run(ar.args(["rcs", name]).args(members)).ok();
}

/// The names that others find in the output.
fn exports(place: &Place) -> String {
    let mut nm = place.scratch.command("nm");
    let found = run(nm.args(["-D", "--defined-only", "a"])).ok().text();
    let names = found.lines().filter_map(|line| line.split(' ').nth(2));
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("_Z")).collect();
    names.sort_unstable();
    names.join(" ")
}

#[test]
fn lists_and_version_scripts_are_edited() {
    let Some(place) = Place::new() else { return };
    let text = "int foo() { return 1; } int bar() { return 2; } int main() { return 0; }";
    place.compile("main", text, &["-fPIC"], false);
    for (options, list) in [
        (
            &["-shared", "-Wl,--version-script=list"][..],
            "V1 { global: NAME; local: *; };",
        ),
        (&["-Wl,--dynamic-list=list"], "{ NAME; };"),
        (&["-Wl,--export-dynamic-symbol-list=list"], "{ NAME; };"),
        // Where scripts are looked for.
        (&["-Wl,--dynamic-list=there", "-Llists"], "{ NAME; };"),
    ] {
        let words = [&[INCREMENTAL, "main.o"], options].concat();
        fs::create_dir_all(place.scratch.join("lists")).unwrap();
        for name in ["_Z3foov", "_Z3barv", "_Z3foov"] {
            let text = list.replace("NAME", name);
            place.scratch.write("list", &text);
            place.scratch.write("lists/there", &text);
            place.link("a", &words).ok();
            assert!(exports(&place).starts_with(name), "{options:?}");
            assert!(!place.last().contains("incremental link: "), "{options:?}");
            settle();
            place.link("a", &words).ok();
            assert!(exports(&place).starts_with(name), "{options:?}");
            assert!(
                place.last().contains("incremental link: "),
                "{}",
                place.last()
            );
        }
    }
}

#[test]
fn what_a_script_names_is_found_earlier() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    function(&place, "one", "f", 1);
    function(&place, "two", "f", 2);
    for name in ["first", "second"] {
        fs::create_dir(place.scratch.join(name)).unwrap();
    }
    archive(&place, "second/libq.a", &["one.o"]);
    place.scratch.write("first/libx.so", "INPUT(libq.a)\n");
    let words = ["main.o", "-Lfirst", "-Lsecond", "-lx"];
    settle();
    link(&place, &words, 1);
    assert!(link(&place, &words, 1));
    archive(&place, "first/libq.a", &["two.o"]);
    assert!(!link(&place, &words, 2));
    fs::remove_file(place.scratch.join("first/libq.a")).unwrap();
    assert!(!link(&place, &words, 1));
    // The current directory comes first.
    archive(&place, "libq.a", &["two.o"]);
    assert!(!link(&place, &words, 2));
}

#[test]
fn members_change_places() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int f(); int main() { return f(); }", &[], false);
    function(&place, "one", "f", 1);
    function(&place, "two", "f", 2);
    archive(&place, "libf.a", &["one.o", "two.o"]);
    settle();
    let words = ["main.o", "libf.a"];
    link(&place, &words, 1);
    archive(&place, "libf.a", &["two.o", "one.o"]);
    assert!(!link(&place, &words, 2));
}

#[test]
fn a_member_comes_to_define_a_common_block() {
    let Some(place) = Place::new() else { return };
    let of_c = ["-x", "c", "-fcommon"];
    let main = "int x; int f(void); int main(void) { return x + f(); }";
    place.compile("main", main, &of_c, false);
    place.compile("f", "int f(void) { return 1; }", &of_c, false);
    place.compile("x", "int x;", &of_c, false);
    archive(&place, "libf.a", &["f.o", "x.o"]);
    settle();
    let words = ["main.o", "libf.a"];
    link(&place, &words, 1);
    place.compile("x", "int x = 5;", &of_c, false);
    archive(&place, "libf.a", &["f.o", "x.o"]);
    assert!(!link(&place, &words, 6));
}

/// Members are linked for the names that are wanted; of another name the first member that has it counts.
#[test]
fn a_name_of_a_linked_member_is_wanted_first() {
    let Some(place) = Place::new() else { return };
    function(&place, "one", "s", 7);
    let both = "int h() { return 0; } __attribute__((weak)) int s() { return 9; }";
    place.compile("two", both, &[], false);
    archive(&place, "libone.a", &["one.o"]);
    archive(&place, "libtwo.a", &["two.o"]);
    let main = |place: &Place, wants: bool| {
        let wanted = if wants { " + s()" } else { "" };
        let text = format!("int h(); int s(); int main() {{ return h(){wanted}; }}");
        place.compile("main", &text, &[], false);
    };
    for (words, code) in [
        (["main.o", "libone.a", "libtwo.a"], 7),
        (["main.o", "libtwo.a", "libone.a"], 9),
    ] {
        main(&place, false);
        settle();
        link(&place, &words, 0);
        main(&place, true);
        let is_first = code == 9;
        assert_eq!(link(&place, &words, code), is_first, "{}", place.last());
    }
}

/// Whoever else refers to it gets what a library has of the name.
#[test]
fn a_library_has_what_an_object_had() {
    let Some(place) = Place::new() else { return };
    let main = "int f(); int g(); int main() { return 10 * f() + g(); }";
    place.compile("main", main, &[], false);
    place.compile("other", "int f(); int g() { return f(); }", &[], false);
    let library = "int f() { return 2; } int own() { return f(); }";
    place.compile("library", library, &["-fPIC"], false);
    place.link("libf.so", &["-shared", "library.o"]).ok();
    for more in ["-pie", "-no-pie"] {
        function(&place, "f", "f", 1);
        settle();
        let words = [
            "main.o",
            "other.o",
            "f.o",
            "libf.so",
            "-Wl,-rpath,$ORIGIN",
            more,
        ];
        link(&place, &words, 11);
        place.compile("f", "int nothing;", &[], false);
        link(&place, &words, 22);
    }
}

/// Equal functions need not be equal: of those of a group the first file's counts.
#[test]
fn an_earlier_file_has_the_group_of_a_later_one() {
    for tickets in [false, true] {
        let Some(place) = Place::new() else { return };
        let compile = |name: &str, group: Option<i32>, value: i32| {
            let group = group.map_or(String::new(), |value| {
                format!("__attribute__((noinline)) inline int q() {{ return {value}; }}\n")
            });
            let what = if group.is_empty() { "0" } else { "q()" };
            let text = format!("{group}int {name}() {{ return {what} + {value}; }}");
            place.compile(name, &text, &[], tickets);
        };
        let main = "int a(); int b(); int c(); int main() { return 36 * a() + 6 * b() + c(); }";
        place.compile("main", main, &[], tickets);
        let values = |a: i32, b: i32, c: i32| 36 * a + 6 * b + c;
        compile("a", None, 0);
        compile("b", Some(2), 0);
        compile("c", Some(3), 0);
        settle();
        let words = ["main.o", "a.o", "b.o", "c.o"];
        link(&place, &words, values(0, 2, 2));
        compile("a", Some(1), 0);
        assert!(link(&place, &words, values(1, 1, 1)), "{}", place.last());
        compile("c", Some(4), 1);
        assert!(link(&place, &words, values(1, 1, 2)));
        compile("a", None, 3);
        assert!(
            link(&place, &words, values(3, 2, 3)) || !tickets,
            "{}",
            place.last()
        );
        compile("b", None, 1);
        link(&place, &words, values(3, 1, 5));
        compile("b", Some(0), 1);
        compile("a", Some(1), 0);
        link(&place, &words, values(1, 2, 2));
    }
}

#[test]
fn an_output_that_is_gone_comes_back_with_the_rights_of_a_new_one() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int main() { return 3; }", &[], false);
    settle();
    let [output, other] = ["a", "other"].map(|name| place.scratch.join(name));
    let mode = || fs::metadata(place.scratch.join("a")).unwrap().mode() & 0o7777;
    link(&place, &["main.o"], 3);
    let usual = mode();
    for unusual in [0o4755, 0o644, 0o777] {
        for is_moved in [false, true] {
            fs::set_permissions(&output, fs::Permissions::from_mode(unusual)).unwrap();
            match is_moved {
                true => fs::rename(&output, &other).unwrap(),
                false => fs::remove_file(&output).unwrap(),
            }
            assert!(!link(&place, &["main.o"], 3));
            assert_eq!(mode(), usual, "{unusual:o}");
        }
    }
    // As it was, it comes back.
    fs::remove_file(&output).unwrap();
    assert!(link(&place, &["main.o"], 3));
}

#[test]
fn an_output_under_another_name_is_another_file() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int main() { return 3; }", &[], false);
    settle();
    let [output, other] = ["a", "other"].map(|name| place.scratch.join(name));
    link(&place, &["main.o"], 3);
    for is_moved in [true, false, true] {
        let _ = fs::remove_file(&other);
        match is_moved {
            true => fs::rename(&output, &other).unwrap(),
            false => fs::hard_link(&output, &other).unwrap(),
        }
        let before = fs::metadata(&other).unwrap();
        assert!(link(&place, &["main.o"], 3));
        let after = fs::metadata(&other).unwrap();
        assert_eq!(before.modified().unwrap(), after.modified().unwrap());
        assert_ne!(after.ino(), fs::metadata(&output).unwrap().ino());
    }
    // Edits go on from there.
    for value in 4..7 {
        let text = format!("int main() {{ return {value}; }}");
        place.compile("main", &text, &[], false);
        assert!(link(&place, &["main.o"], value), "{}", place.last());
        run(&mut place.scratch.command(&other)).code(3);
    }
}

/// What is kept free for later edits makes outputs larger. Where they are too large by that, it is left out.
#[test]
fn a_disk_without_room_for_later_edits() {
    let Some(place) = Place::new() else { return };
    place.compile("main", "int main() { return 3; }", &[], false);
    settle();
    let size = || fs::metadata(place.scratch.join("a")).unwrap().len();
    link(&place, &["main.o"], 3);
    let large = size();
    fs::remove_file(place.scratch.join("a")).unwrap();
    place.link("a", &["-Wl,--no-incremental", "main.o"]).ok();
    let small = size();
    assert!(small < large, "{small} {large}");
    // In blocks of 1,024 bytes.
    let limit = (small + large) / 2 / 1024;
    let limited = |words: &[&str]| {
        let mut shell = place.scratch.command("bash");
        let text = format!("ulimit -f {limit} && exec \"$@\"");
        shell.env("REPO_LOG", place.scratch.join("log"));
        shell.args(["-c", &text, "bash", "g++"]);
        run(shell.args(place.through()).args(["-o", "a"]).args(words))
    };
    for _ in 0..2 {
        limited(&[INCREMENTAL, "main.o"]).ok();
        assert_eq!(size(), small);
        assert!(place.last().contains("no room"), "{}", place.last());
        run(&mut place.scratch.command(place.scratch.join("a"))).code(3);
    }
    // With room again, the next one is incremental again.
    link(&place, &["main.o"], 3);
    assert!(link(&place, &["main.o"], 3));
}

#[test]
fn outputs_get_the_rights_of_the_umask() {
    let Some(place) = Place::new() else { return };
    function(&place, "main", "main", 3);
    settle();
    let under = |umask: &str| {
        let mut shell = place.scratch.command("bash");
        let text = format!("umask {umask} && exec \"$@\"");
        shell.args(["-c", &text, "bash", "g++"]);
        shell.args(place.through());
        run(shell.args(["-o", "a", INCREMENTAL, "main.o"])).ok();
        fs::metadata(place.scratch.join("a")).unwrap().mode() & 0o777
    };
    for (umask, mode) in [("077", 0o700), ("022", 0o755), ("027", 0o750)] {
        assert_eq!(under(umask), mode);
        assert_eq!(under(umask), mode);
    }
}

/// Who makes packages has dwz read all debugging information, also what stands in the room for later edits.
#[test]
fn debugging_information_for_dwz() {
    let Some(place) = Place::new() else { return };
    let [dwz] = require!("dwz");
    place.compile(
        "main",
        "int f(int); int main() { return f(1); }",
        &["-g"],
        false,
    );
    for (edit, code) in [("x + 2", 3), ("x * 7 + 2", 9), ("x", 1)] {
        let text =
            format!("struct S {{ int a; }}; int f(int x) {{ S s = {{{edit}}}; return s.a; }}");
        place.compile("f", &text, &["-g"], false);
        settle();
        link(&place, &["main.o", "f.o"], code);
        let mut command = place.scratch.command(&dwz);
        run(command.args(["-o", "smaller", "a"])).ok();
        run(&mut place.scratch.command(place.scratch.join("smaller"))).code(code);
    }
    assert!(
        place.last().contains("incremental link: "),
        "{}",
        place.last()
    );
}
