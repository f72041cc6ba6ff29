//! Whole programs linked by `repo-ld` and by the system's linker: both must do the
//! same, and their tables must agree.

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod linking;

use goblin::elf::Elf;
use linking::{BOTH, Bench, Linker, check_image, exports, needed, tag};

const KINDS: [&str; 4] = [
    "-fPIE -pie",
    "-fno-pie -no-pie",
    "-static",
    "-static-pie -fPIE",
];

/// glibc takes a program that has another's name for that one: its own tests link so.
#[test]
fn programs_have_names_as_shared_objects_do() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("a.c", "int main(void) { return 7; }");
    for kind in ["-no-pie", "-pie", "-shared -fPIC", "-static-pie"] {
        let [theirs, ours] = BOTH.map(|linker| {
            let line = format!("{kind} a.c -Wl,-soname,libown.so -o program");
            bench.driver(linker, "gcc", &line).ok();
            let image = bench.read("program");
            let soname = Elf::parse(&image).unwrap().soname;
            if !kind.starts_with("-shared") {
                bench.execute("program").code(7);
            }
            soname.map(str::to_owned)
        });
        assert_eq!(theirs.as_deref(), Some("libown.so"), "{kind}");
        assert_eq!(theirs, ours, "{kind}");
    }
}

#[test]
fn hello_in_c() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        r#"#include <stdio.h>
        static int counter; int data = 5; const char *messages[] = {"a", "b"};
        int main(int argc, char **argv) { printf("hello %d %s %d %d\n", data, messages[1], counter, argc); return 3; }"#,
    );
    for kind in KINDS {
        for more in [
            "",
            "-O2 -g",
            "-O1 -ffunction-sections -fdata-sections -Wl,--gc-sections",
            "-Wl,-z,now",
            "-s",
        ] {
            let [theirs, ours] = bench.same_behaviour("gcc", &format!("{kind} {more} a.c"));
            check_image(&ours);
            let (theirs, ours) = (Elf::parse(&theirs).unwrap(), Elf::parse(&ours).unwrap());
            assert_eq!(needed(&theirs), needed(&ours));
            assert_eq!(theirs.header.e_type, ours.header.e_type);
            assert_eq!(theirs.interpreter, ours.interpreter);
            assert_eq!(theirs.syms.is_empty(), ours.syms.is_empty());
        }
    }
}

#[test]
fn exceptions_threads_and_constructors_in_cxx() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.cc",
        r#"#include <iostream>
        #include <map>
        #include <stdexcept>
        #include <string>
        #include <thread>
        thread_local int local = 7;
        struct A { virtual ~A() {} virtual int f() { return 1; } };
        struct B : A { int f() override { return 2; } };
        static std::map<std::string, int> table{{"x", 1}, {"y", 2}};
        int check(int x) { if (x > 3) throw std::runtime_error("too big"); return x; }
        int main() {
            try { check(5); } catch (std::exception &e) { std::cout << "caught " << e.what() << std::endl; }
            std::thread t([] { local = 9; try { check(10); } catch (...) { std::cout << local << "\n"; } });
            t.join();
            A *a = new B;
            std::cout << a->f() << local << table["y"] << std::endl;
            delete a;
        }"#,
    );
    for kind in KINDS {
        for more in [
            "-O0 -g",
            "-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections",
        ] {
            let [_, ours] = bench.same_behaviour("g++", &format!("{kind} {more} a.cc -pthread"));
            check_image(&ours);
        }
    }
}

const LIBRARY: &str = r#"#include <stdio.h>
    int shared_data = 42; const int constant = 77; __thread int tls = 5; static __thread int own = 3;
    __attribute__((weak)) int weak_function(void) { return 1; }
    __attribute__((visibility("hidden"))) int hidden_function(void) { return own++; }
    int function(void) { return hidden_function() + weak_function() + tls; }
    extern int from_program(int);
    int call_program(void) { return from_program(shared_data); }
    int (*pointer)(void) = function; int *data_pointer = &shared_data;
    static int implementation(void) { return 99; }
    static void *resolve(void) { return implementation; }
    int indirect(void) __attribute__((ifunc("resolve")));
    int (*indirect_pointer)(void) = indirect;
    __attribute__((constructor)) static void constructor(void) { printf("constructor\n"); }
    __attribute__((destructor)) static void destructor(void) { printf("destructor\n"); }"#;

const USER: &str = r#"#include <stdio.h>
    extern int shared_data, *data_pointer; extern const int constant; extern __thread int tls;
    int function(void), call_program(void), indirect(void), weak_function(void);
    extern int (*pointer)(void), (*indirect_pointer)(void);
    __attribute__((weak)) extern int nobody(void);
    int from_program(int x) { return x + 1; }
    int (*mine)(void) = function;
    int main(void) {
        shared_data++;
        printf("%d %d %d %d %d\n", shared_data, constant, tls, function(), call_program());
        printf("%d %d %d %d %d\n", pointer == function, mine == pointer, *data_pointer, indirect(), weak_function());
        printf("%d %d %d\n", indirect_pointer(), nobody ? 1 : 0, data_pointer == &shared_data);
        return 0;
    }"#;

#[test]
fn shared_objects_and_their_users() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write("lib.c", LIBRARY);
    bench.scratch.write("user.c", USER);
    for linker in BOTH {
        let made = format!("-shared -fPIC lib.c -Wl,-soname,libx.so -o lib.{linker:?}");
        bench.driver(linker, "gcc", &made).ok();
    }
    let [theirs, ours] = BOTH.map(|linker| bench.read(&format!("lib.{linker:?}")));
    check_image(&ours);
    let (theirs, ours) = (Elf::parse(&theirs).unwrap(), Elf::parse(&ours).unwrap());
    assert_eq!(exports(&theirs), exports(&ours));
    assert_eq!(needed(&theirs), needed(&ours));
    assert_eq!(theirs.soname, ours.soname);
    // Each linker's program with each linker's library.
    for library in BOTH {
        std::fs::copy(
            bench.path(&format!("lib.{library:?}")),
            bench.path("libx.so"),
        )
        .unwrap();
        for kind in [
            "-fPIE -pie",
            "-fno-pie -no-pie",
            "-fPIC",
            "-fPIE -Wl,-z,now",
        ] {
            let [theirs, ours] = bench.same_behaviour("gcc", &format!("{kind} user.c -L. -lx"));
            check_image(&ours);
            let (theirs, ours) = (Elf::parse(&theirs).unwrap(), Elf::parse(&ours).unwrap());
            assert_eq!(exports(&theirs), exports(&ours), "{kind}");
        }
    }
}

/// Who chooses an implementation may ask the C library, also where that is bound when it is called first.
#[test]
fn resolvers_that_call_libraries() {
    let Some(bench) = Bench::new() else { return };
    let chooser = r#"#include <stdio.h>
        #include <unistd.h>
        static int one(void) { return 1; } static int two(void) { return 2; }
        static void *choose(void) { return getpid() > 0 ? one : two; }
        HOW int chosen(void) __attribute__((ifunc("choose")));
        int here(void) { printf("%d\n", chosen()); return 0; }"#;
    let hidden = "__attribute__((visibility(\"hidden\")))";
    for (name, how) in [("default", ""), ("hidden", hidden)] {
        bench
            .scratch
            .write(format!("{name}.c"), chooser.replace("HOW", how));
    }
    bench.scratch.write(
        "main.c",
        "int here(void); int main(void) { return here(); }",
    );
    for name in ["default", "hidden"] {
        for binding in ["", "-Wl,-z,lazy", "-Wl,-z,now", "-fno-plt"] {
            for kind in KINDS {
                let arguments = format!("{kind} {binding} main.c {name}.c");
                let [_, ours] = bench.same_behaviour("gcc", &arguments);
                check_image(&ours);
            }
            for linker in BOTH {
                let made = format!("-shared -fPIC {binding} {name}.c -o libx.so");
                bench.driver(linker, "gcc", &made).ok();
                let used = format!("main.c -L. -lx -Wl,-rpath,. -o user.{linker:?}");
                bench.driver(linker, "gcc", &used).ok();
                let said = bench.execute(&format!("user.{linker:?}")).ok().text();
                assert_eq!(said, "1\n", "{name} {binding} {linker:?}");
            }
        }
    }
}

/// The same where a variable has the function's address at start, for which GNU ld's program does not start.
#[test]
fn variables_that_resolvers_fill_in() {
    let Some(bench) = Bench::new() else { return };
    let text = r#"#include <stdio.h>
        #include <unistd.h>
        static int one(void) { return 1; } static int two(void) { return 2; }
        static void *choose(void) { return getpid() > 0 ? one : two; }
        int chosen(void) __attribute__((ifunc("choose")));
        int (*pointer)(void) = chosen;
        int main(void) { printf("%d %d\n", chosen(), pointer()); return 0; }"#;
    bench.scratch.write("a.c", text);
    for kind in KINDS {
        for binding in ["", "-Wl,-z,lazy", "-Wl,-z,now"] {
            let arguments = format!("{kind} {binding} a.c -o program");
            bench.driver(Linker::Ours, "gcc", &arguments).ok();
            let said = bench.execute("program").ok().text();
            assert_eq!(said, "1 1\n", "{kind} {binding}");
            check_image(&bench.read("program"));
        }
    }
}

#[test]
fn versions() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "lib.c",
        r#"__asm__(".symver old_f, f@V1"); __asm__(".symver new_f, f@@V2");
        int old_f(void) { return 1; } int new_f(void) { return 2; }
        int kept(void) { return 3; } int helper(void) { return 4; }"#,
    );
    bench.scratch.write(
        "map",
        "V1 { global: f; kept; local: *; }; V2 { global: f; } V1;",
    );
    bench.scratch.write(
        "user.c",
        r#"#include <stdio.h>
        __asm__(".symver first_f, f@V1"); int first_f(void); int f(void), kept(void);
        int main(void) { printf("%d %d %d\n", first_f(), f(), kept()); return 0; }"#,
    );
    for linker in BOTH {
        let made = "-shared -fPIC lib.c -Wl,--version-script=map -Wl,-soname,libx.so -o";
        bench.driver(linker, "gcc", &format!("{made} libx.so")).ok();
        let [theirs, ours] = bench.same_behaviour("gcc", "user.c -L. -lx");
        assert!(Elf::parse(&theirs).is_ok() && Elf::parse(&ours).is_ok());
        assert_eq!(bench.execute("program.Ours").text(), "1 2 3\n");
        std::fs::rename(
            bench.path("libx.so"),
            bench.path(&format!("lib.{linker:?}")),
        )
        .unwrap();
    }
    let [theirs, ours] = BOTH.map(|linker| bench.read(&format!("lib.{linker:?}")));
    let (theirs, ours) = (Elf::parse(&theirs).unwrap(), Elf::parse(&ours).unwrap());
    assert_eq!(
        exports(&theirs)
            .into_iter()
            .filter(|(name, _)| !name.starts_with('V'))
            .collect::<Vec<_>>(),
        exports(&ours).into_iter().collect::<Vec<_>>()
    );
    let names = |elf: &Elf| -> Vec<String> {
        let definitions = elf.verdef.as_ref().expect("versions are defined").iter();
        definitions
            .flat_map(|definition| {
                definition
                    .iter()
                    .map(|aux| elf.dynstrtab.get_at(aux.vda_name).unwrap().to_owned())
                    .collect::<Vec<_>>()
            })
            .collect()
    };
    assert_eq!(names(&theirs), names(&ours));
    assert_eq!(
        tag(&theirs, 0x6fff_fffd),
        tag(&ours, 0x6fff_fffd),
        "DT_VERDEFNUM"
    );
}

#[test]
fn archives_groups_and_order() {
    let Some(bench) = Bench::new() else { return };
    bench
        .scratch
        .write("main.c", "int a(void); int main(void) { return a(); }");
    bench.scratch.write(
        "a.c",
        "int b(void); int a(void) { return b() + 1; } int unused_common[100];",
    );
    bench
        .scratch
        .write("b.c", "int c(void); int b(void) { return c() + 1; }");
    bench.scratch.write("c.c", "int c(void) { return 40; }");
    bench.scratch.write(
        "broken.c",
        "int nobody(void); int never(void) { return nobody(); }",
    );
    bench
        .driver(Linker::Reference, "gcc", "-c main.c a.c b.c c.c broken.c")
        .ok();
    let ar = |arguments: &str| {
        repo_tests::process::run(
            bench
                .scratch
                .command("ar")
                .args(arguments.split_whitespace()),
        )
        .ok();
    };
    ar("rcs libone.a a.o c.o broken.o");
    ar("rcs libtwo.a b.o");
    ar("rcsT libthin.a a.o b.o c.o");
    for arguments in [
        "main.o -Wl,--start-group libone.a libtwo.a -Wl,--end-group",
        "main.o libthin.a",
        "main.o -Wl,--whole-archive libthin.a -Wl,--no-whole-archive",
        "main.o -L. -lone -ltwo -lone",
        "main.o -Wl,--start-lib a.o b.o c.o -Wl,--end-lib",
    ] {
        // GNU ld has no --start-lib.
        if arguments.contains("start-lib") {
            bench
                .driver(Linker::Ours, "gcc", &format!("{arguments} -o lazy"))
                .ok();
            bench.execute("lazy").code(42);
            continue;
        }
        bench.same_behaviour("gcc", arguments);
    }
}

#[test]
fn common_weak_and_comdat_definitions() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        r#"int common_one; int common_two[3]; __attribute__((weak)) int f(void) { return 1; }
        int *address(void) { return common_two; }"#,
    );
    bench.scratch.write(
        "b.c",
        r#"#include <stdio.h>
        int common_one = 5; int common_two[10] __attribute__((aligned(64))); int f(void) { return 2; } int *address(void);
        int main(void) {
            printf("%d %d %d %d\n", common_one, f(), address() == common_two, (int)((unsigned long)common_two % 64));
            return 0;
        }"#,
    );
    for kind in KINDS {
        bench.same_behaviour("gcc", &format!("{kind} -fcommon a.c b.c"));
        bench.same_behaviour("gcc", &format!("{kind} -fcommon b.c a.c"));
    }
    let inline = "#include <vector>\ninline int counter() { static int n; return ++n; }\n\
                  template <class T> T twice(T x) { counter(); return x + x; }\n";
    bench.scratch.write(
        "x.cc",
        format!("{inline} int g() {{ std::vector<int> v{{1, 2}}; return twice(v[1]); }}"),
    );
    bench.scratch.write(
        "y.cc",
        format!("{inline} #include <cstdio>\n int g(); int main() {{ std::printf(\"%d %d %d\\n\", g(), twice(3), counter()); }}")
            .replace(" #include", "\n#include"),
    );
    bench.same_behaviour("g++", "-O0 x.cc y.cc");
    bench.same_behaviour("g++", "-O0 -g -static y.cc x.cc");
}

#[test]
fn wrapped_and_defined_symbols() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        r#"#include <stdio.h>
        int f(void); extern char number[]; extern int alias;
        int main(void) { printf("%d %lx %d\n", f(), (unsigned long)number, alias); return 0; }"#,
    );
    bench
        .scratch
        .write("b.c", "int f(void) { return 1; } int original = 8;");
    bench.scratch.write(
        "c.c",
        "int __real_f(void); int __wrap_f(void) { return __real_f() + 10; }",
    );
    let options = "-no-pie -Wl,--wrap=f -Wl,--defsym=number=0x1234 -Wl,--defsym=alias=original";
    bench.same_behaviour("gcc", &format!("{options} a.c b.c c.c"));
}

#[test]
fn bounds_of_sections() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        r#"#include <stdio.h>
        __attribute__((section("my_list"), used)) static int one = 1;
        __attribute__((section("my_list"), used)) static int two = 2;
        extern int __start_my_list[], __stop_my_list[]; extern char etext[], edata[], end[], __ehdr_start[];
        int main(void) {
            int sum = 0;
            for (int *p = __start_my_list; p < __stop_my_list; p++) sum += *p;
            printf("%d %d %d %d\n", sum, etext < edata, edata <= end, __ehdr_start[1] == 'E');
            return 0;
        }"#,
    );
    for kind in KINDS {
        bench.same_behaviour("gcc", &format!("{kind} a.c"));
        bench.same_behaviour("gcc", &format!("{kind} -Wl,--gc-sections a.c"));
    }
}

#[test]
fn constructors_of_both_kinds_in_order() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        r#"#include <stdio.h>
        #define SAY(name) static void name(void) { printf(#name " "); }
        SAY(one) SAY(two) SAY(three) SAY(four) SAY(five) SAY(last)
        #define IN(section_name) __attribute__((section(section_name), used)) static void (*
        IN(".ctors") list[])(void) = {one, two};
        IN(".ctors.65000") early)(void) = three;
        IN(".init_array.00100") sooner)(void) = four;
        IN(".init_array") plain)(void) = five;
        IN(".dtors") end)(void) = last;
        int main(void) { printf("main "); return 0; }"#,
    );
    for kind in KINDS {
        bench.same_behaviour("gcc", &format!("{kind} a.c"));
        bench.same_behaviour("gcc", &format!("{kind} a.c -Wl,--gc-sections"));
    }
}

#[test]
fn alignment_beyond_a_page() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.c",
        r#"#include <stdio.h>
        char data[16] __attribute__((aligned(65536))) = "x"; char zeros[16] __attribute__((aligned(8192)));
        __thread char own[16] __attribute__((aligned(256))) = "y";
        int main(void) {
            unsigned long a = (unsigned long)data % 65536, b = (unsigned long)zeros % 8192;
            printf("%lu %lu %lu\n", a, b, (unsigned long)own % 256);
            return 0;
        }"#,
    );
    for kind in KINDS {
        let [_, ours] = bench.same_behaviour("gcc", &format!("{kind} a.c"));
        check_image(&ours);
        assert_eq!(bench.execute("program.Ours").text(), "0 0 0\n");
    }
}

/// In the segment that the image begins with, which may be at a less aligned address: it must be loaded none the less.
#[test]
fn alignment_beyond_that_of_the_image() {
    let Some(bench) = Bench::new() else { return };
    bench.scratch.write(
        "a.s",
        ".globl _start\n_start: mov $60, %eax\nmov $42, %edi\nsyscall\n\
         .section .note.x, \"a\", @note\n.p2align 24\n.long 0, 0, 0\n",
    );
    bench.driver(Linker::Reference, "gcc", "-c a.s -o a.o").ok();
    for options in [
        "",
        "-N",
        "-z noseparate-code",
        "-Ttext-segment=0x600000",
        "-pie",
    ] {
        bench
            .ld(Linker::Ours, &format!("{options} a.o -o program"))
            .ok();
        bench.execute("program").code(42);
        // With `-N` it is writable, too.
        if options != "-N" {
            check_image(&bench.read("program"));
        }
    }
}
