//! Incremental links: a definition gets another place, and files that refer to it, which nobody has edited, get its new address and
//! are not linked again, unless the address is in more than their fields.

use repo_tests::process::run;
use repo_tests::relink::{INCREMENTAL, Place};
use repo_tests::scratch::settle;

/// How a program is made.
struct Form {
    compile: &'static [&'static str],
    link: &'static [&'static str],
    tickets: bool,
    /// A pointer in its data needs a dynamic relocation.
    is_pic: bool,
}

const FORMS: [Form; 5] = [
    Form {
        compile: &["-O1", "-g"],
        link: &[],
        tickets: false,
        is_pic: true,
    },
    Form {
        // What is behind it moves with it.
        compile: &["-O2", "-fno-pie", "-fno-function-sections"],
        link: &["-no-pie"],
        tickets: false,
        is_pic: false,
    },
    Form {
        compile: &["-O1", "-fno-pie", "-mcmodel=large"],
        link: &["-static", "-Wl,--gc-sections"],
        tickets: false,
        is_pic: false,
    },
    Form {
        compile: &["-O2", "-fPIE", "-fno-plt"],
        link: &["-Wl,--no-relax"],
        tickets: false,
        is_pic: true,
    },
    Form {
        compile: &["-O2", "-g"],
        link: &[],
        tickets: true,
        is_pic: true,
    },
];

/// Units that call what moves.
const CALLERS: usize = 5;

/// The text of the unit that is edited: its function is so long, and its variable.
fn edited(length: usize) -> String {
    let steps: String = (0..length)
        .map(|step| format!("  x = (x ^ {step}) * 31;\n"))
        .collect();
    format!(
        "int table[{}] = {{{length}}};
         int moves(int x) {{\n{steps}  return x & 255;\n}}
         int behind(int x) {{ return x + table[0]; }}\n",
        1 + 8 * length
    )
}

/// The text of a unit that calls it, from a function of its own and from one that others have as well.
fn caller(number: usize) -> String {
    format!(
        "int moves(int); int behind(int); extern int table[];
         inline __attribute__((noinline)) int shared(int x) {{ return moves(x) + table[0]; }}
         int call{number}(int x) {{ return moves(x + {number}) * 3 + shared(x) + behind(x) + table[0]; }}\n"
    )
}

fn forms(body: impl Fn(&Place, &Form, &dyn Fn(&str, &str))) {
    for form in &FORMS {
        let Some(place) = Place::new() else { return };
        body(&place, form, &|name, text| {
            place.compile(name, text, form.compile, form.tickets);
        });
    }
}

/// Links it, and in full as well: both do the same. Gives the line of the log.
#[track_caller]
fn link(place: &Place, form: &Form, objects: &[String]) -> String {
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    let words = [form.link, &objects].concat();
    place.link("a", &[&[INCREMENTAL], &words[..]].concat()).ok();
    let last = place.last();
    place.link("full", &words).ok();
    let [now, full] =
        ["a", "full"].map(|name| run(&mut place.scratch.command(place.scratch.join(name))).ok());
    assert_eq!(now.text(), full.text());
    last
}

#[test]
fn callers_of_what_has_moved_are_not_linked_again() {
    forms(|place, form, compile| {
        let calls: String = (0..CALLERS)
            .map(|n| format!("int call{n}(int); static int sum{n} = call{n}(argument());\n"))
            .collect();
        let sums: String = (0..CALLERS).map(|n| format!(" + sum{n}")).collect();
        let main = format!(
            "#include <stdio.h>
             int moves(int); int argument() {{ return 7; }}
             {calls} extern int (*pointer)(int);
             int main() {{ printf(\"%d %d\\n\", 0{sums}, pointer == moves ? pointer(5) : -1); }}\n"
        );
        compile("main", &main);
        compile("edited", &edited(3));
        compile("pointer", "int moves(int); int (*pointer)(int) = moves;");
        let mut objects = vec!["main.o".into(), "edited.o".into(), "pointer.o".into()];
        for number in 0..CALLERS {
            compile(&format!("caller{number}"), &caller(number));
            objects.push(format!("caller{number}.o"));
        }
        settle();
        link(place, form, &objects);
        for length in [40, 90, 200] {
            compile("edited", &edited(length));
            let last = link(place, form, &objects);
            // With C's own object that calls `main`. A pointer has a dynamic relocation, in which the address is once more.
            let [again, more] = match form.is_pic {
                true => [2, CALLERS + 1],
                false => [1, CALLERS + 2],
            };
            let (_, said) = last.split_once("incremental link: ").unwrap_or_default();
            let ends = said.starts_with(&format!("{again} of "));
            let also = format!(" objects and addresses in {more} more, ");
            assert!(ends && said.contains(&also), "{last}");
        }
    });
}

#[test]
fn callers_in_an_archive_are_found_where_they_are_now() {
    forms(|place, form, compile| {
        let call = |name: &str, times: usize| {
            let calls: String = (0..times).map(|n| format!(" + moves(x + {n})")).collect();
            compile(
                name,
                &format!("int moves(int); int {name}(int x) {{ return x{calls}; }}"),
            );
        };
        let archive = |members: &[&str]| {
            let _ = std::fs::remove_file(place.scratch.join("libcalls.a"));
            let words = [&["rc", "libcalls.a"], members].concat();
            run(place.scratch.command("ar").args(words)).ok();
        };
        compile(
            "main",
            "#include <stdio.h>\nint one(int); int two(int); int main() { printf(\"%d\\n\", one(3) + two(4)); }",
        );
        compile("edited", &edited(3));
        call("one", 1);
        call("two", 7);
        call("unused", 2);
        archive(&["one.o", "two.o"]);
        settle();
        let words = ["main.o", "edited.o", "libcalls.a"].map(String::from);
        link(place, form, &words);
        // Each is another member than before.
        compile("edited", &edited(40));
        archive(&["unused.o", "one.o", "two.o"]);
        let last = link(place, form, &words);
        assert!(
            last.contains(" objects and addresses in 2 more, "),
            "{last}"
        );
    });
}
