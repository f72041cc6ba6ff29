//! Splitting and joining: an object that went into a repository and came out again
//! must be accepted by every linker and make the same program; importing it again,
//! in either form, must add nothing.

use format_spec::digest::Digest;
use format_spec::fragment::SectionKind;
use linker::repository::import::{ImportError, Imported, import_object};
use linker::repository::join::join;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use repo_tests::tools;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use store::engine::OpenOptions;
use store::program::locate::Environment;
use store::program::{Prepared, Repository};
use tickets::{EXPLANATION, Ticket, TicketError, write_ticket};

/// The directory with the sources of this test.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs/round_trip")
        .join(name)
}

fn import(repository: &Repository, path: &Path) -> Result<Imported, ImportError> {
    let bytes = std::fs::read(path).expect("the object can be read");
    import_object(repository, path, &bytes, None)
}

/// The object that a compilation makes, and proof that it is intact: what is read
/// back has the digest under which it is kept.
fn materialize(repository: &Repository, digest: &Digest) -> Vec<u8> {
    let programs = repository.programs().expect("the repository is sound");
    let view = programs.compilation(digest).expect("it was imported");
    let compilation = programs.load(&view).expect("the repository is sound");
    let prepared = Prepared::new(compilation).expect("what is read back is well-formed");
    assert_eq!(
        prepared.digest, *digest,
        "what is read back is what was stored"
    );
    join(&prepared.compilation).expect("a stored compilation can be joined")
}

/// Everything of `path`: import, join, and import again, twice. Returns the joined
/// object.
fn round_trip(repository: &Repository, path: &Path) -> Vec<u8> {
    let imported = import(repository, path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(imported.whole, None, "{}: not divided", path.display());
    let joined = materialize(repository, &imported.digest);
    let before = repository.store().size().expect("the file can be examined");
    let revision = repository.programs().unwrap().snapshot().revision();
    let again = import(repository, path).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.digest, imported.digest, "{}", path.display());
    assert!(!again.added.is_new);
    let of_joined = import_object(repository, path, &joined, None)
        .unwrap_or_else(|error| panic!("joined again: {error}"));
    assert_eq!(
        of_joined.digest,
        imported.digest,
        "{}: the joined object is another compilation",
        path.display()
    );
    assert_eq!(materialize(repository, &of_joined.digest), joined);
    assert_eq!(repository.store().size().unwrap(), before);
    assert_eq!(
        repository.programs().unwrap().snapshot().revision(),
        revision
    );
    joined
}

/// A linker of the machine.
struct Linker {
    name: &'static str,
    /// What makes a compiler use it: `-B` and a directory in which it is called `ld`.
    option: String,
}

fn linkers(scratch: &Scratch) -> Vec<Linker> {
    let mut linkers = Vec::new();
    for name in ["ld", "ld.lld", "mold"] {
        let Some(path) = tools::find(name) else {
            tools::skip(name);
            continue;
        };
        let directory = scratch.join(format!("linkers/{name}"));
        std::fs::create_dir_all(&directory).unwrap();
        std::os::unix::fs::symlink(path, directory.join("ld")).unwrap();
        linkers.push(Linker {
            name,
            option: format!("-B{}/", directory.display()),
        });
    }
    linkers
}

/// The file that the compiler would link for `-l`.
fn library(compiler: &Path, name: &str) -> PathBuf {
    let answer = run(Command::new(compiler).arg(format!("-print-file-name={name}"))).ok();
    PathBuf::from(answer.text().trim())
}

/// Extracts `archive` into a fresh directory and returns its members' files.
fn extract(scratch: &Scratch, ar: &Path, archive: &Path, directory: &str) -> Vec<PathBuf> {
    let directory = scratch.join(directory);
    std::fs::create_dir(&directory).unwrap();
    run(Command::new(ar)
        .arg("x")
        .arg(archive)
        .current_dir(&directory))
    .ok();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let listed = run(Command::new(ar).arg("t").arg(archive)).ok().text();
    let distinct: BTreeSet<&str> = listed.lines().collect();
    assert_eq!(distinct.len(), files.len(), "{}", archive.display());
    files
}

/// What must be equal of two runs.
fn behaviour(run: &Run) -> (Option<i32>, String, String) {
    (run.status.code(), run.text(), run.errors())
}

/// Every member of the C and C++ libraries, split and joined; then a static program
/// linked with nothing but joined objects.
#[test]
fn all_of_the_system_libraries() {
    let [gxx, ar] = require!("g++", "ar");
    let scratch = Scratch::new();
    let repository = Repository::open_or_create(&scratch.repository()).unwrap();
    let joined_libraries = scratch.join("lib");
    std::fs::create_dir(&joined_libraries).unwrap();
    let mut objects = 0;
    for name in ["libc.a", "libstdc++.a", "libgcc.a", "libgcc_eh.a"] {
        let archive = library(&gxx, name);
        if !archive.is_file() {
            tools::skip(name);
            return;
        }
        let members = extract(&scratch, &ar, &archive, &format!("{name}.members"));
        objects += members.len();
        for member in &members {
            let joined = round_trip(&repository, member);
            std::fs::write(member, joined).unwrap();
        }
        run(Command::new(&ar)
            .arg("rcs")
            .arg(joined_libraries.join(name))
            .args(&members))
        .ok();
    }
    assert!(objects > 1000, "only {objects} objects");

    let mut sources = Vec::new();
    for name in ["features.cpp", "other.cpp"] {
        let object = scratch.join(name).with_extension("o");
        run(Command::new(&gxx)
            .args(["-std=c++17", "-O2", "-c", "-o"])
            .arg(&object)
            .arg(source(name)))
        .ok();
        sources.push(object);
    }
    for Linker {
        name: linker,
        option,
    } in &linkers(&scratch)
    {
        let link = |output: &str, libraries: Option<&Path>| {
            let output = scratch.join(format!("{output}-{linker}"));
            let mut command = Command::new(&gxx);
            command.arg("-static").arg(option);
            if let Some(directory) = libraries {
                command.arg("-L").arg(directory);
            }
            run(command.args(&sources).arg("-o").arg(&output)).ok();
            run(&mut Command::new(output)).ok()
        };
        let original = link("original", None);
        let joined = link("joined", Some(&joined_libraries));
        assert_eq!(behaviour(&joined), behaviour(&original), "{linker}");
    }
}

/// One way to compile and link a program of several sources.
struct Variant {
    compile: &'static [&'static str],
    link: &'static [&'static str],
}

const SECTIONS: &[&str] = &["-ffunction-sections", "-fdata-sections"];

const VARIANTS: &[Variant] = &[
    Variant {
        compile: &["-O0"],
        link: &[],
    },
    Variant {
        compile: &["-O2"],
        link: &["-static"],
    },
    Variant {
        compile: &["-O2", "-g"],
        link: &["-Wl,--gc-sections"],
    },
    Variant {
        compile: &["-O0", "-g", "-gz"],
        link: &[],
    },
    Variant {
        compile: &["-O2", "-g3", "-fno-pie", "-fdebug-types-section"],
        link: &["-no-pie"],
    },
    Variant {
        compile: &["-Os", "-fPIC", "-fno-plt"],
        link: &["-pie", "-Wl,-z,now"],
    },
];

/// Compiles `sources` in all variants, with and without sections of their own, joins the
/// objects, and compares the programs.
fn programs_of(compiler: &Path, sources: &[&str], common: &[&str]) {
    let scratch = Scratch::new();
    let repository = Repository::open_or_create(&scratch.repository()).unwrap();
    let linkers = linkers(&scratch);
    for (index, variant) in VARIANTS.iter().enumerate() {
        let mut originals = Vec::new();
        let mut joined = Vec::new();
        for name in sources {
            let object = scratch.join(format!("{index}-{name}.o"));
            let sections = if index % 2 == 0 { SECTIONS } else { &[] };
            run(Command::new(compiler)
                .args(common)
                .args(variant.compile)
                .args(sections)
                .arg("-c")
                .arg("-o")
                .arg(&object)
                .arg(source(name)))
            .ok();
            let bytes = round_trip(&repository, &object);
            originals.push(object);
            joined.push(scratch.write(format!("joined/{index}-{name}.o"), bytes));
        }
        for Linker {
            name: linker,
            option,
        } in &linkers
        {
            let link = |objects: &[PathBuf]| {
                let output = scratch.join("program");
                run(Command::new(compiler)
                    .args(variant.link)
                    .arg(option)
                    .args(objects)
                    .arg("-o")
                    .arg(&output)
                    .arg("-pthread"))
                .ok();
                run(&mut Command::new(output)).ok()
            };
            assert_eq!(
                behaviour(&link(&joined)),
                behaviour(&link(&originals)),
                "{} {:?} {linker}",
                compiler.display(),
                variant.compile
            );
        }
    }
}

const C: &[&str] = &["features.c", "other.c"];
const CXX: &[&str] = &["features.cpp", "other.cpp"];

#[test]
fn c_of_gcc() {
    let [gcc] = require!("gcc");
    programs_of(&gcc, C, &["-fcommon"]);
}

#[test]
fn c_of_clang() {
    let [clang] = require!("clang");
    programs_of(&clang, C, &["-fcommon"]);
}

#[test]
fn cxx_of_gcc() {
    let [gxx] = require!("g++");
    programs_of(&gxx, CXX, &["-std=c++17"]);
}

#[test]
fn cxx_of_clang() {
    let [clangxx] = require!("clang++");
    programs_of(&clangxx, CXX, &["-std=c++17"]);
}

/// A shared library: versioned, hidden and protected symbols, a copy relocation.
#[test]
fn a_shared_library_with_versions() {
    let [gcc, readelf] = require!("gcc", "readelf");
    let scratch = Scratch::new();
    let repository = Repository::open_or_create(&scratch.repository()).unwrap();
    let compile = |name: &str, options: &[&str]| {
        let object = scratch.join(name).with_extension("o");
        run(Command::new(&gcc)
            .args(options)
            .args(["-O2", "-c", "-o"])
            .arg(&object)
            .arg(source(name)))
        .ok();
        object
    };
    let library = compile("exports.c", &["-fPIC"]);
    let user = compile("uses.c", &["-fno-pie"]);
    let joined_library = scratch.write("joined/exports.o", round_trip(&repository, &library));
    let joined_user = scratch.write("joined/uses.o", round_trip(&repository, &user));
    for Linker {
        name: linker,
        option,
    } in &linkers(&scratch)
    {
        let build = |library: &Path, user: &Path, directory: &str| {
            let directory = scratch.join(format!("{directory}-{linker}"));
            std::fs::create_dir(&directory).unwrap();
            let shared = directory.join("libexports.so");
            run(Command::new(&gcc)
                .arg("-shared")
                .arg(option)
                .arg(format!(
                    "-Wl,--version-script={}",
                    source("exports.map").display()
                ))
                .arg(library)
                .arg("-o")
                .arg(&shared))
            .ok();
            let program = directory.join("program");
            run(Command::new(&gcc)
                .arg("-no-pie")
                .arg(option)
                .arg(user)
                .arg(&shared)
                .arg("-o")
                .arg(&program))
            .ok();
            let symbols = run(Command::new(&readelf)
                .arg("--dyn-syms")
                .arg("-W")
                .arg(&shared))
            .ok()
            .text();
            let names: BTreeSet<String> = symbols
                .lines()
                .filter_map(|line| line.split_whitespace().nth(7))
                .map(str::to_owned)
                .collect();
            (behaviour(&run(&mut Command::new(program)).ok()), names)
        };
        let original = build(&library, &user, "original");
        assert!(original.1.contains("versioned@@LIB_2"), "{:?}", original.1);
        assert_eq!(
            build(&joined_library, &joined_user, "joined"),
            original,
            "{linker}"
        );
    }
}

/// Debug information must not change what the code is: with and without `-g`, a
/// program has the same fragments but for those of the debug sections.
#[test]
fn debug_information_changes_no_code() {
    for (name, compiler, sources) in [
        ("gcc", "-O1", C),
        ("clang", "-O0", C),
        ("g++", "-O0", CXX),
        ("clang++", "-O0", CXX),
    ] {
        let [compiler_path] = require!(name);
        let scratch = Scratch::new();
        let repository = Repository::open_or_create(&scratch.repository()).unwrap();
        for file in sources {
            let compile = |output: &str, options: &[&str]| {
                let object = scratch.join(output);
                run(Command::new(&compiler_path)
                    .args(SECTIONS)
                    .args(options)
                    .args(["-c", "-o"])
                    .arg(&object)
                    .arg(source(file)))
                .ok();
                import(&repository, &object).unwrap().digest
            };
            let plain = compile("plain.o", &[compiler]);
            let debug = compile("debug.o", &[compiler, "-g"]);
            let programs = repository.programs().unwrap();
            let code = |digest: &Digest| {
                let compilation = programs.compilation(digest).unwrap();
                compilation
                    .members()
                    .iter()
                    .filter(|member| {
                        let fragment = programs.fragment(member.fragment).unwrap();
                        fragment.section(0).unwrap().record.kind != SectionKind::Debug as u8
                    })
                    .map(|member| member.fragment)
                    .collect::<Vec<_>>()
            };
            assert!(code(&plain).len() > 3);
            assert_eq!(code(&debug), code(&plain), "{name} {file}");
        }
    }
}

/// Two translation units, and two functions in one, share what is equal.
#[test]
fn equal_definitions_are_stored_once() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let repository = Repository::open_or_create(&scratch.repository()).unwrap();
    let body = "{ return x * 7 + 3; }\n";
    let one = scratch.write(
        "one.c",
        format!("int one(int x) {body} int same(int x) {body} const char *s(void) {{ return \"shared literal\"; }}"),
    );
    let two = scratch.write(
        "two.c",
        format!("int unlike(int y) {{ return y; }} int other(int x) {body} const char *t(void) {{ return \"shared literal\"; }}"),
    );
    let compile = |source: &Path| {
        let object = source.with_extension("o");
        run(Command::new(&gcc)
            .args(["-O2", "-c"])
            .args(SECTIONS)
            .arg(source)
            .arg("-o")
            .arg(&object))
        .ok();
        import(&repository, &object).unwrap()
    };
    let first = compile(&one);
    let programs = repository.programs().unwrap();
    let members = programs.compilation(&first.digest).unwrap().members();
    let distinct: BTreeSet<u64> = members.iter().map(|member| member.fragment.0).collect();
    assert_eq!(
        distinct.len() + 1,
        members.len(),
        "one and same are one fragment"
    );
    let second = compile(&two);
    // Only `unlike` is new: the function, the literal's user and the notes are known.
    assert_eq!(second.added.new_fragments, 1, "{:?}", second.added);
    assert_eq!(second.added.new_pieces, 0);
}

/// A ticket looks like the object to tools, and no other linker takes it for one.
#[test]
fn tickets_for_tools_that_do_not_know_them() {
    let [gcc, nm, ar, strip] = require!("gcc", "nm", "ar", "strip");
    let scratch = Scratch::new();
    let repository = Repository::open_or_create(&scratch.repository()).unwrap();
    let object = scratch.join("features.o");
    run(Command::new(&gcc)
        .args(["-O2", "-g", "-fcommon", "-c", "-o"])
        .arg(&object)
        .arg(source("features.c")))
    .ok();
    let imported = import(&repository, &object).unwrap();
    let path = scratch.join("ticket.o");
    write_ticket(&path, &repository, &imported.digest).unwrap();

    // nm shows the same letters, the assembler's labels of literals aside; and beside
    // them only the explanation.
    let letters = |file: &Path| -> BTreeSet<String> {
        run(Command::new(&nm).arg("--format=posix").arg(file))
            .ok()
            .text()
            .lines()
            .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
            .filter(|line| !line.contains(EXPLANATION) && !line.starts_with(".L"))
            .collect()
    };
    assert!(letters(&object).len() > 20);
    assert_eq!(letters(&path), letters(&object));

    let archive = scratch.join("libticket.a");
    run(Command::new(&ar).arg("rcs").arg(&archive).arg(&path)).ok();
    let index = run(Command::new(&nm).arg("--print-armap").arg(&archive)).ok();
    assert!(index.text().contains("first_name in ticket.o"));

    let expected = Ticket {
        uuid: repository.uuid(),
        compilation: imported.digest,
        repository: scratch.repository(),
        made: Vec::new(),
        is_sealed: true,
        is_fat: false,
    };
    let read = |path: &Path| Ticket::parse(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(read(&path), Some(expected.clone()));
    assert_eq!(read(&object), None);
    let stripped = scratch.join("stripped.o");
    run(Command::new(&strip)
        .arg("-g")
        .arg("-o")
        .arg(&stripped)
        .arg(&path))
    .ok();
    let rewritten = Ticket {
        is_sealed: false,
        ..expected
    };
    assert_eq!(read(&stripped), Some(rewritten));

    for Linker {
        name: linker,
        option,
    } in &linkers(&scratch)
    {
        for options in [&[][..], &["-shared"], &["-Wl,--gc-sections"], &["-static"]] {
            for input in [&path, &stripped] {
                let output = scratch.join("never");
                let linked = run(Command::new(&gcc)
                    .arg(option)
                    .args(options)
                    .arg(input)
                    .arg("-o")
                    .arg(&output))
                .failed();
                assert!(linked.errors().contains(EXPLANATION), "{}", linked.report());
                assert!(!output.exists(), "{linker} {options:?}");
            }
        }
    }
}

/// A ticket whose repository is gone, or is another one, says so.
#[test]
fn tickets_of_missing_and_of_other_repositories() {
    let [gcc] = require!("gcc");
    let scratch = Scratch::new();
    let path = scratch.repository();
    let repository = Repository::open_or_create(&path).unwrap();
    let object = scratch.join("other.o");
    run(Command::new(&gcc)
        .args(["-O2", "-c", "-o"])
        .arg(&object)
        .arg(source("other.c")))
    .ok();
    let imported = import(&repository, &object).unwrap();
    std::fs::create_dir(scratch.join("deep")).unwrap();
    let ticket_path = scratch.join("deep/ticket.o");
    write_ticket(&ticket_path, &repository, &imported.digest).unwrap();
    let bytes = std::fs::read(&ticket_path).unwrap();
    let ticket = Ticket::parse(&bytes).unwrap().unwrap();
    let uuid = repository.uuid();
    drop(repository);
    let open = |option: Option<&Path>, environment: &Environment| {
        ticket.open_repository(option, &ticket_path, environment, &OpenOptions::default())
    };
    let nothing = Environment::default();
    assert_eq!(open(None, &nothing).unwrap().uuid(), uuid);

    let moved = scratch.join("moved.repo");
    std::fs::rename(&path, &moved).unwrap();
    let missing = open(None, &nothing).unwrap_err();
    assert!(
        matches!(missing, TicketError::NoRepository { .. }),
        "{missing}"
    );
    assert!(missing.to_string().contains(path.to_str().unwrap()));
    assert_eq!(open(Some(&moved), &nothing).unwrap().uuid(), uuid);
    let other = Repository::open_or_create(&path).unwrap().uuid();
    let error = open(None, &nothing).unwrap_err();
    assert!(
        matches!(error, TicketError::OtherRepository { .. }),
        "{error}"
    );

    // It is looked for by its UUID: where the variable says, above the ticket, and as the user's own.
    let by_variable = Environment {
        repo_file: Some(moved.clone().into()),
        ..Environment::default()
    };
    assert_eq!(open(None, &by_variable).unwrap().path(), moved);
    let state = scratch.join("state/program-repository");
    std::fs::create_dir_all(&state).unwrap();
    let users = state.join("program.repo");
    std::fs::rename(&moved, &users).unwrap();
    let at_home = Environment {
        xdg_state_home: Some(scratch.join("state").into()),
        ..Environment::default()
    };
    assert_eq!(open(None, &at_home).unwrap().path(), users);
    let above = scratch.join("deep/program.repo");
    std::fs::rename(&users, &above).unwrap();
    assert_eq!(open(None, &at_home).unwrap().path(), above);
    // A wrong one that was named does not stop the search.
    assert_ne!(other, uuid);
    assert_eq!(open(Some(&path), &at_home).unwrap().path(), above);

    // What another linker makes of two tickets is not taken for the first of them.
    let [ld] = require!("ld");
    let second = scratch.join("second.o");
    std::fs::write(&second, &bytes).unwrap();
    let both = scratch.join("both.o");
    run(Command::new(ld)
        .args(["-r", "--allow-multiple-definition", "-o"])
        .arg(&both)
        .args([&ticket_path, &second]))
    .ok();
    let joined = Ticket::parse(&std::fs::read(&both).unwrap()).unwrap_err();
    assert!(joined.to_string().contains("ld -r"), "{joined}");

    // Cut off anywhere, it is an error or no ticket, but never another ticket.
    for length in 0..bytes.len() {
        if let Ok(Some(cut)) = Ticket::parse(&bytes[..length]) {
            assert!(!cut.is_sealed && cut.compilation == ticket.compilation);
        }
    }
}
