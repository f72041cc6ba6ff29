//! Incremental links: definitions that move, come and go, override others, or are needed again.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;
use repo_tests::tools;

/// Objects, and how they are linked.
struct Program<'p> {
    place: &'p Place,
    options: &'p [&'p str],
    objects: &'p [&'p str],
    tickets: bool,
}

impl Program<'_> {
    fn compile(&self, name: &str, text: &str) {
        self.place.compile(name, text, self.options, self.tickets);
    }

    /// Links it, and runs it; gives the line of the log.
    #[track_caller]
    fn link(&self, options: &[&str], code: i32) -> String {
        let words = [&[INCREMENTAL], options, self.objects].concat();
        self.place.link("a", &words).ok();
        let output = self.place.scratch.join("a");
        run(&mut self.place.scratch.command(output)).code(code);
        self.place.last()
    }

    #[track_caller]
    fn again(&self, options: &[&str], files: usize, code: i32) {
        let last = self.link(options, code);
        let expected = format!("incremental link: {files} of");
        assert!(last.contains(&expected), "{last}");
    }

    #[track_caller]
    fn in_full(&self, options: &[&str], reason: &str, code: i32) {
        let last = self.link(options, code);
        assert!(
            last.contains("full link") && last.contains(reason),
            "{last}"
        );
    }
}

const MAIN: &str = "int f(); int g(); int main() { return f() + g(); }";

fn plain(place: &Place) -> Program<'_> {
    Program {
        place,
        options: &[],
        objects: &["main.o", "a.o", "b.o"],
        tickets: false,
    }
}

#[test]
fn a_definition_moves_between_files() {
    let Some(place) = Place::new() else { return };
    for tickets in [false, true] {
        let program = Program {
            tickets,
            ..plain(&place)
        };
        program.compile("main", MAIN);
        program.compile("a", "int f() { return 1; } int other() { return 5; }");
        program.compile("b", "int g() { return 2; }");
        settle();
        program.link(&[], 3);
        for round in 0..2 {
            // `main` calls it where it is now.
            program.compile("a", "int other() { return 5; }");
            program.compile("b", "int g() { return 2; } int f() { return 7; }");
            program.again(&[], 2, 9);
            program.compile("b", "int g() { return 3; } int f() { return 7; }");
            program.again(&[], 1, 10);
            // In two steps, of which the first cannot be linked.
            program.compile("b", "int g() { return 4; }");
            let failed = place
                .link("a", &[&[INCREMENTAL], program.objects].concat())
                .failed();
            assert!(failed.errors().contains("undefined"), "{}", failed.errors());
            program.compile("a", "int f() { return 1; } int other() { return 5; }");
            program.again(&[], 2, 5);
            program.compile("a", "int f() { return 2; } int other() { return 5; }");
            program.again(&[], 1, 6);
            // Twice is once too often.
            program.compile("b", "int g() { return 4; } int f() { return 8; }");
            let failed = place
                .link("a", &[&[INCREMENTAL], program.objects].concat())
                .failed();
            assert!(failed.errors().contains("f()"), "{}", failed.errors());
            program.compile("b", &format!("int g() {{ return {}; }}", 4 + round));
            program.link(&[], 6 + round);
            program.compile("a", "int f() { return 1; } int other() { return 5; }");
            program.compile("b", "int g() { return 2; }");
            program.link(&[], 3);
        }
    }
}

#[test]
fn a_weak_definition_is_overridden() {
    let Some(place) = Place::new() else { return };
    let program = plain(&place);
    program.compile("main", MAIN);
    let a = |value: i32| {
        let text = format!(
            "__attribute__((weak)) int f() {{ return {value}; }} int h() {{ return f(); }}"
        );
        program.compile("a", &text);
    };
    a(1);
    program.compile("b", "int h(); int g() { return h(); }");
    settle();
    program.link(&[], 2);
    for _ in 0..2 {
        program.compile(
            "b",
            "int h(); int g() { return h(); } int f() { return 10; }",
        );
        program.again(&[], 2, 20);
        // The one that lost changes.
        a(3);
        program.again(&[], 1, 20);
        // It wins again.
        program.compile("b", "int h(); int g() { return h(); }");
        program.again(&[], 3, 6);
        a(1);
        program.again(&[], 1, 2);
    }
    // A weak one more changes nothing, unless it comes first.
    let weak = "__attribute__((weak)) int f() { return 4; } int h(); int g() { return h(); }";
    program.compile("b", weak);
    program.again(&[], 1, 2);
    program.compile("a", "int f(); int h() { return f(); }");
    program.again(&[], 3, 8);
    a(1);
    program.link(&[], 2);
    program.compile("a", "int f() { return 5; } int h() { return f(); }");
    program.again(&[], 1, 10);
    a(1);
    program.link(&[], 2);
}

#[test]
fn the_first_of_several_definitions_wins() {
    let Some(place) = Place::new() else { return };
    let program = plain(&place);
    let options = ["-Wl,-z,muldefs"];
    program.compile("main", MAIN);
    let a = |value: i32| program.compile("a", &format!("int f() {{ return {value}; }}"));
    let b = |f: i32, g: i32| {
        let text = format!("int f() {{ return {f}; }} int g() {{ return {g}; }}");
        program.compile("b", &text);
    };
    a(1);
    b(2, 10);
    settle();
    program.link(&options, 11);
    for round in 0..2 {
        b(3, 20 + round);
        program.again(&options, 1, 21 + round);
        a(4);
        program.again(&options, 1, 24 + round);
        // The other one is all there is, and then it is not.
        program.compile("a", "int other;");
        program.again(&options, 3, 23 + round);
        a(1);
        program.again(&options, 2, 21 + round);
    }
    // Nobody has asked for that.
    let words = [&[INCREMENTAL], program.objects].concat();
    let failed = place.link("a", &words).failed();
    assert!(failed.errors().contains("f()"), "{}", failed.errors());
}

#[test]
fn an_inline_function_is_used_elsewhere() {
    let Some(place) = Place::new() else { return };
    let program = plain(&place);
    program.compile("main", MAIN);
    let inline = |value: i32| {
        format!(
            "inline __attribute__((noinline)) int i() {{ static int n; return {value} + n; }}\n"
        )
    };
    let unit = |name: &str, used: bool, value: i32| {
        let function = if name == "a" { "f" } else { "g" };
        let body = if used { "i()" } else { "1" };
        let text = format!("{}int {function}() {{ return {body}; }}", inline(value));
        program.compile(name, &text);
    };
    unit("a", true, 2);
    unit("b", true, 2);
    settle();
    program.link(&[], 4);
    for _ in 0..2 {
        // The file whose copy is linked does not have it any more.
        unit("a", false, 2);
        let last = program.link(&[], 3);
        assert!(last.contains("incremental link: "), "{last}");
        unit("b", true, 5);
        program.again(&[], 1, 6);
        unit("b", false, 5);
        program.link(&[], 2);
        unit("b", true, 2);
        program.link(&[], 3);
        unit("a", true, 2);
        program.link(&[], 4);
        unit("a", false, 2);
        unit("b", false, 2);
        program.link(&[], 2);
        unit("a", true, 2);
        unit("b", true, 2);
        program.link(&[], 4);
    }
}

#[test]
fn what_was_left_out_is_needed_again() {
    let Some(place) = Place::new() else { return };
    for (tickets, link) in [(false, &["-Wl,--gc-sections"][..]), (true, &[])] {
        let program = Program {
            tickets,
            ..plain(&place)
        };
        let main = |calls: bool| {
            let call = if calls { "+ unused()" } else { "" };
            program.compile(
                "main",
                &format!(
                    "int f(); int g(); int unused(); int main() {{ return f() + g() {call}; }}"
                ),
            );
        };
        main(false);
        // What it needs was left out, too.
        let b = "static int deep() { return 3; } int far(); \
            int g() { return 2; } int unused() { return deep() + far(); }";
        program.compile("a", "int f() { return 1; } int far() { return 4; }");
        program.compile("b", b);
        settle();
        program.link(link, 3);
        main(true);
        program.again(link, 3, 10);
        main(false);
        program.again(link, 1, 3);
        main(true);
        program.again(link, 1, 10);
        program.compile("a", "int f() { return 1; } int far() { return 5; }");
        program.again(link, 1, 11);
    }
}

#[test]
fn what_shared_objects_speak_of_is_seen_from_outside() {
    let Some(place) = Place::new() else { return };
    let program = plain(&place);
    let main = "extern \"C\" char *getenv(const char *); extern \"C\" void *dlsym(void *, const char *);\n\
        int f(); int g(); int main() { return f() + g() + (getenv(\"HOME\") == (char *)1); }";
    program.compile("main", main);
    program.compile("a", "int f() { return 1; }");
    program.compile("b", "int g() { return 2; }");
    settle();
    program.link(&[], 3);
    // The C library's own is not called any more, not by itself either.
    let own = "#include <stddef.h>\nextern \"C\" int atoi(const char *) { return 5; }\nint g() { return 2; }";
    program.compile("b", own);
    program.again(&[], 1, 3);
    if tools::require(["readelf"]).is_some() {
        let mut readelf = place.scratch.command("readelf");
        let symbols = run(readelf.args(["--dyn-syms", "-W", "a"])).ok();
        assert!(symbols.text().contains(" atoi"), "{}", symbols.text());
    }
    // It goes, and comes back.
    program.compile("b", "int g() { return 3; }");
    program.again(&[], 1, 4);
    let own = own.replace("return 2", "return 4");
    program.compile("b", &own);
    program.again(&[], 1, 5);
    // A function of theirs as a variable.
    let own = "extern \"C\" { int atol = 1; } int g() { return atol; }";
    program.compile("b", own);
    program.in_full(&[], "atol is new, and", 2);
}

#[test]
fn visibility_in_shared_objects() {
    let Some(place) = Place::new() else { return };
    if tools::require(["readelf"]).is_none() {
        return;
    }
    let compile = |name: &str, text: &str| place.compile(name, text, &["-fPIC"], false);
    let link = |files: Option<usize>| {
        place
            .link("l.so", &[INCREMENTAL, "-shared", "a.o", "b.o"])
            .ok();
        let last = place.last();
        match files {
            Some(files) => assert!(
                last.contains(&format!("incremental link: {files} of")),
                "{last}"
            ),
            None => assert!(last.contains("full link"), "{last}"),
        }
        let mut readelf = place.scratch.command("readelf");
        run(readelf.args(["--dyn-syms", "-W", "l.so"])).ok().text()
    };
    let hidden = "__attribute__((visibility(\"hidden\")))";
    compile(
        "a",
        &format!("{hidden} int h() {{ return 1; }} int f() {{ return h(); }}"),
    );
    compile("b", "int h(); int g() { return h(); }");
    settle();
    assert!(!link(None).contains("_Z1hv"));
    // One more that is nobody else's.
    let two = format!(
        "{hidden} int h() {{ return 1; }} {hidden} int k() {{ return 1; }} int f() {{ return h() + k(); }}"
    );
    compile("a", &two);
    let symbols = link(Some(1));
    assert!(!symbols.contains("_Z1hv") && !symbols.contains("_Z1kv"));
    // The other file does not say that it is hidden, and need not.
    compile("b", "int h(); int g() { return 2 * h(); }");
    assert!(!link(Some(1)).contains("_Z1hv"));
    let public = two.replacen(hidden, "", 1);
    compile("a", &public);
    let symbols = link(None);
    assert!(symbols.contains("_Z1hv") && !symbols.contains("_Z1kv"));
    compile(
        "a",
        &public.replacen("int f()", "int n() { return 4; } int f()", 1),
    );
    assert!(link(Some(1)).contains("_Z1nv"));
}

#[test]
fn a_name_is_seen_when_nobody_hides_it_any_more() {
    let Some(place) = Place::new() else { return };
    if tools::require(["readelf"]).is_none() {
        return;
    }
    let compile = |name: &str, text: &str| place.compile(name, text, &["-fPIC"], false);
    let exported = || {
        place
            .link("l.so", &[INCREMENTAL, "-shared", "a.o", "b.o"])
            .ok();
        let mut readelf = place.scratch.command("readelf");
        let symbols = run(readelf.args(["--dyn-syms", "-W", "l.so"])).ok().text();
        symbols.contains("_Z1hv")
    };
    // Only the file that calls it says that it is hidden.
    let hides = "__attribute__((visibility(\"hidden\"))) int h(); int f() { return h(); }";
    compile("a", hides);
    compile("b", "int h() { return 2; } int g() { return 1; }");
    settle();
    assert!(!exported());
    for value in [3, 4] {
        let text = format!("int h() {{ return {value}; }} int g() {{ return 1; }}");
        compile("b", &text);
        assert!(!exported());
        assert!(
            place.last().contains("incremental link: 1 of"),
            "{}",
            place.last()
        );
        // It does not even speak of it any more.
        compile("a", "int f() { return 1; }");
        assert!(exported());
        compile("a", hides);
        assert!(!exported());
    }
}
