//! `ar` and its like through `repo-cc`: archives of tickets are on record, and the user is told once what they are. And `objcopy` and
//! `strip`, for which tickets become objects.

use repo_tests::binaries::Binaries;
use repo_tests::compare::is_ticket_file;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use std::ffi::OsString;
use std::fs;

struct Field {
    scratch: Scratch,
}

impl Field {
    /// With links to all compilers and archivers in `links`, in front of `PATH`.
    fn new() -> Field {
        let scratch = Scratch::new();
        let repo_cc = Binaries::get().path("repo-cc");
        run(scratch.command(repo_cc).args(["--install-links", "links"])).ok();
        scratch.write("f.c", "int f(void) { return 40; }");
        scratch.write("g.c", "int g(void) { return 2; }");
        scratch.write(
            "main.c",
            "int f(void), g(void); int main(void) { return f() + g() - 42; }",
        );
        Field { scratch }
    }

    fn path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [self.scratch.join("links")]
            .into_iter()
            .chain(std::env::split_paths(&path));
        std::env::join_paths(all).unwrap()
    }

    fn shell(&self, line: &str) -> Run {
        let mut command = self.scratch.command("/bin/sh");
        run(command.env("PATH", self.path()).args(["-c", line]))
    }

    fn ours(&self, program: &str, words: &[&str]) -> Run {
        run(self
            .scratch
            .command(Binaries::get().path(program))
            .args(words))
    }

    fn on_record(&self) -> String {
        self.ours("repo-dump", &["tickets"]).ok().text()
    }
}

#[test]
fn links_are_made_for_them() {
    let [_gcc, _ar] = require!("gcc", "ar");
    let field = Field::new();
    let target = |name: &str| fs::read_link(field.scratch.join("links").join(name)).ok();
    let repo_cc = Some(Binaries::get().path("repo-cc").to_owned());
    for name in ["ar", "ranlib", "gcc", "gcc-ar", "gcc-nm", "gcc-ranlib"] {
        let is_there = repo_tests::tools::on_path(name).is_some();
        assert_eq!(target(name), repo_cc.clone().filter(|_| is_there), "{name}");
    }
    let repo_ld = Binaries::get().path("repo-ld").to_owned();
    assert_eq!(target("ld"), Some(repo_ld));
    assert_eq!(target("nm"), None);
    // They do what they do.
    field.shell("gcc -c f.c g.c main.c").ok();
    for ar in ["ar", "gcc-ar"] {
        field.shell(&format!("{ar} rc {ar}.a f.o g.o")).ok();
        let ranlib = ar.replace("ar", "ranlib");
        field.shell(&format!("{ranlib} {ar}.a")).ok();
        assert_eq!(
            field.shell(&format!("{ar} t {ar}.a")).ok().text(),
            "f.o\ng.o\n"
        );
        field
            .shell(&format!("gcc main.o {ar}.a -o {ar}.out && ./{ar}.out"))
            .ok();
    }
    assert!(field.shell("gcc-nm ar.a").ok().text().contains(" T f"));
    field
        .shell("ld -r -o merged.o f.o g.o && gcc main.o merged.o -o m && ./m")
        .ok();
    assert!(!is_ticket_file(field.scratch.join("merged.o")));
    field.shell("ar rc none/such.a f.o").failed();
    assert_eq!(
        field.shell("ar").status.code(),
        field.shell("/usr/bin/ar").status.code()
    );
}

#[test]
fn archives_are_roots_and_the_user_is_told_once() {
    let [_gcc, _ar] = require!("gcc", "ar");
    let field = Field::new();
    fs::create_dir_all(field.scratch.join("prefix/lib")).unwrap();
    field.shell("gcc -c f.c g.c main.c").ok();
    // What configure tries is nobody's archive.
    assert_eq!(field.shell("ar cr libconftest.a f.o").ok().errors(), "");
    assert!(!field.on_record().contains(".a\n"));
    let first = field.shell("ar cr libf.a f.o").ok().errors();
    for word in [
        "libf.a holds tickets",
        "REPO_CC_FAT=1",
        "--in-place",
        "said once",
    ] {
        assert!(first.contains(word), "{word}: {first}");
    }
    assert_eq!(first.lines().count(), 1, "{first}");
    assert!(field.on_record().contains("libf.a"));
    for line in ["ar cr libf.a f.o", "ar cr libg.a g.o", "ranlib libf.a"] {
        assert_eq!(field.shell(line).ok().errors(), "", "{line}");
    }
    // Installed as automake and libtool do it.
    let install =
        "cp libf.a libg.a prefix/lib && ranlib prefix/lib/libf.a && ranlib prefix/lib/libg.a";
    let told = field.shell(install).ok().errors();
    assert!(told.contains("prefix/lib/libf.a holds tickets"), "{told}");
    assert!(told.contains("--materialize"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert_eq!(field.shell(install).ok().errors(), "");
    // Nothing but what was installed is left of f.
    field.shell("rm f.o g.o libf.a libg.a").ok();
    field
        .ours("repo-gc", &["--grace", "0s", "--unused", "0s"])
        .ok();
    field
        .shell("gcc main.o prefix/lib/libf.a prefix/lib/libg.a -o m && ./m")
        .ok();
    field
        .ours("repo-dump", &["--materialize", "prefix", "--in-place"])
        .ok();
    field
        .shell("rm program.repo m main.o; /usr/bin/env -u REPO_FILE true")
        .ok();
    assert!(!is_ticket_file(field.scratch.join("prefix/lib/libf.a")));
}

#[test]
fn archives_of_fat_objects_are_nothing_to_be_told_of() {
    let [_gcc, _ar] = require!("gcc", "ar");
    let field = Field::new();
    let line = "export REPO_CC_FAT=1; gcc -c f.c g.c main.c && ar cr libf.a f.o g.o && mkdir p && cp libf.a p && ranlib p/libf.a";
    assert_eq!(field.shell(line).ok().errors(), "");
    let listed = field.on_record();
    assert!(
        listed.contains("libf.a") && listed.contains("p/libf.a"),
        "{listed}"
    );
}

#[test]
fn a_repository_that_is_not_there_does_not_fail_a_build() {
    let [_gcc, _ar] = require!("gcc", "ar");
    let field = Field::new();
    field.shell("gcc -c f.c && rm program.repo").ok();
    assert_eq!(field.shell("ar cr libf.a f.o").ok().errors(), "");
    field
        .shell("chmod 0 f.o; printf x > broken.a; ranlib broken.a")
        .failed();
}

#[test]
fn cmake_finds_link_time_optimisation() {
    let [_gcc, _gxx, _cmake, _ninja] = require!("gcc", "g++", "cmake", "ninja");
    let field = Field::new();
    field.scratch.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.15)\nproject(p C CXX)\n\
         include(CheckIPOSupported)\ncheck_ipo_supported(RESULT yes OUTPUT why)\n\
         message(STATUS \"optimised: ${yes} ${why}\")\n\
         message(STATUS \"tools: ${CMAKE_AR} ${CMAKE_C_COMPILER_AR} ${CMAKE_CXX_COMPILER_RANLIB}\")\n\
         add_library(fg STATIC f.c g.c)\nadd_executable(m main.c)\ntarget_link_libraries(m fg)\n\
         add_library(fgo STATIC f.c g.c)\nadd_executable(mo main.c)\ntarget_link_libraries(mo fgo)\n\
         set_property(TARGET fgo mo PROPERTY INTERPROCEDURAL_OPTIMIZATION ON)\n",
    );
    let said = field
        .shell("cmake -G Ninja -B b . -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++")
        .ok()
        .text();
    assert!(said.contains("optimised: YES"), "{said}");
    let tools = said.lines().find(|line| line.contains("tools: ")).unwrap();
    assert_eq!(tools.matches("/links/").count(), 3, "{tools}");
    let built = field.shell("ninja -C b").ok();
    assert_eq!(
        (built.text() + &built.errors())
            .matches("holds tickets")
            .count(),
        1
    );
    field.shell("./b/m && ./b/mo").ok();
}

#[test]
fn who_changes_objects_gets_objects() {
    let [gcc, _ar, _objcopy, _strip] = require!("gcc", "ar", "objcopy", "strip");
    let field = Field::new();
    let compile = "gcc -O1 -c f.c -o f.o && gcc -O1 -c g.c -o g.o && gcc -O1 -c main.c -o main.o";
    field.shell(compile).ok();
    let is_ticket = |name: &str| is_ticket_file(field.scratch.join(name));
    let time = |name: &str| {
        let metadata = fs::metadata(field.scratch.join(name)).expect("there");
        metadata.modified().expect("a time")
    };
    let before = time("f.o");
    // What is in a section, beside the same of an object by the compiler alone.
    let plain = [
        &gcc.display().to_string(),
        " -O1 -ffunction-sections -c f.c -o plain.o",
    ]
    .concat();
    field.shell(&plain).ok();
    field
        .shell("for name in f plain; do objcopy -O binary -j .text.f $name.o $name.bin; done")
        .ok();
    let bytes = |name: &str| fs::read(field.scratch.join(name)).expect("there");
    assert!(!bytes("f.bin").is_empty());
    assert_eq!(bytes("f.bin"), bytes("plain.bin"));
    assert!(!is_ticket("f.o") && time("f.o") == before);
    // Another name, in place; and an archive, from which only what a link wants may go.
    field
        .shell("objcopy --redefine-sym=g=other g.o && objcopy --redefine-sym=other=g g.o")
        .ok();
    assert!(!is_ticket("g.o") && is_ticket("main.o"));
    field.shell(compile).ok();
    field
        .shell("ar rcs libfg.a f.o g.o && strip --strip-unneeded libfg.a")
        .ok();
    assert!(is_ticket("f.o"));
    field.shell("mkdir out && cd out && ar x ../libfg.a").ok();
    assert!(!is_ticket("out/f.o") && !is_ticket("out/g.o"));
    field
        .shell("gcc main.o libfg.a -o program && ./program")
        .ok();
    // Without what the ticket names the tool is not run.
    fs::remove_file(field.scratch.repository()).expect("removed");
    let run = field.shell("objcopy -O binary main.o main.bin");
    let said = run.failed().errors();
    assert!(said.contains("repo-cc: error: "), "{said}");
    assert!(!field.scratch.join("main.bin").exists());
}
