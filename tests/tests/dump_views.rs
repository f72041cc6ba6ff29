//! `repo-dump`: what it shows of real compilations, in text and JSON, and how it fails.

use format_spec::file::VERSION;
use repo_tests::binaries::Binaries;
use repo_tests::process::{Run, run};
use repo_tests::require;
use repo_tests::scratch::Scratch;
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Stdio;

const A: &str = r#"
#include <stdexcept>
#include <cstdio>
inline int shared(int a) { static int n; if (a > 100) throw std::runtime_error("big"); return n += a; }
int *address(int a) { return new int(shared(a)); }
int f(int a) { std::puts("from f"); return shared(a) + *address(a); }
"#;
const B: &str = r#"
#include <stdexcept>
inline int shared(int a) { static int n; if (a > 100) throw std::runtime_error("big"); return n += a; }
int *other(int a) { return new int(shared(a)); }
int f(int);
int main() { return f(1) == 3 ? 0 : 1; }
"#;

fn dump(scratch: &Scratch, arguments: &[&str]) -> Run {
    let mut command = scratch.command(Binaries::get().path("repo-dump"));
    run(command.args(arguments))
}

fn json(scratch: &Scratch, arguments: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(arguments);
    serde_json::from_str(&dump(scratch, &all).ok().text()).expect("JSON")
}

#[track_caller]
fn compile(scratch: &Scratch, compiler: &Path, source: &str, output: &str) {
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(compiler);
    run(command.args(["-O1", "-fno-inline", "-c", source, "-o", output])).ok();
}

/// A repository with two tickets, `a.o` and `b.o`.
fn built(gxx: &Path) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("a.cc", A);
    scratch.write("b.cc", B);
    compile(&scratch, gxx, "a.cc", "a.o");
    compile(&scratch, gxx, "b.cc", "b.o");
    scratch
}

fn digest_of<'a>(list: &'a Value, name: &str) -> &'a str {
    let rows = list.as_array().expect("a list");
    let row = rows.iter().find(|row| row["name"] == name);
    row.and_then(|row| row["digest"].as_str())
        .unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

#[test]
fn every_view_in_both_forms() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    for view in [
        &["header"][..],
        &["revisions"],
        &["indices"],
        &["names"],
        &["pieces"],
        &["fragments"],
        &["compilations"],
        &["tickets"],
        &["types"],
        &["images"],
        &["--stats"],
        &["--verify"],
        &["a.o"],
        &["--diff", "a.o", "b.o"],
        &["--diff", "1", "2"],
        &[],
    ] {
        let text = dump(&scratch, view).ok();
        assert_eq!(text.errors(), "", "{}", text.report());
        assert!(!text.text().contains('\x1b'), "colours into a pipe");
        json(&scratch, view);
    }
    let header = json(&scratch, &["header"]);
    assert_eq!(header["format"], VERSION);
    assert!(header["revision"].as_u64() >= Some(2), "{header}");
    let shared = json(&scratch, &["names", "shared"]);
    assert!(shared.as_array().is_some_and(|names| names.len() >= 2));
    let pieces = dump(&scratch, &["pieces", "from f"]).ok().text();
    assert!(pieces.contains("\"from f\""), "{pieces}");
    let colored = dump(&scratch, &["--color=always", "fragments"]).ok().text();
    assert!(colored.contains("\x1b[33m"));
    // As it was before the second compilation.
    let before = json(&scratch, &["compilations", "--revision", "1"]);
    assert_eq!(before.as_array().map(Vec::len), Some(1));
    let error = dump(&scratch, &["header", "--revision", "99"])
        .code(2)
        .errors();
    assert!(error.contains("no revision 99"), "{error}");
}

#[test]
fn a_definition_with_code_fixups_and_frames() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let text = dump(&scratch, &["fragments", "-C", "_Z1fi"]).ok().text();
    for wanted in [
        "call shared(int)",
        "R_X86_64_PLT32  shared(int)-0x4",
        "\"from f\"(%rip)",
        "FDE  length",
        "DW_CFA_def_cfa_offset 16",
        ".text._Z1fi",
    ] {
        assert!(text.contains(wanted), "no {wanted} in\n{text}");
    }
    let list = json(&scratch, &["fragments"]);
    let digest = digest_of(&list, "_Z6sharedi");
    let by_digest = json(&scratch, &["fragments", &digest[..10]]);
    let detail = &by_digest[0];
    assert_eq!(detail["digest"], digest);
    assert_eq!(detail["names"][0], "_Z6sharedi");
    assert_eq!(
        detail["compilations"].as_array().map(Vec::len),
        Some(2),
        "shared by both"
    );
    let code = detail["sections"][0]["code"].as_array().expect("code");
    assert!(code.last().and_then(|line| line["text"].as_str()).is_some());
    // CIEs are decoded, too. That of a unit without landing pads is another one.
    let cies: Vec<_> = (list.as_array().expect("a list").iter())
        .filter(|row| row["name"].is_null() && row["sections"][0] == ".eh_frame")
        .filter_map(|row| row["digest"].as_str())
        .map(|digest| dump(&scratch, &["fragments", digest]).ok().text())
        .collect();
    assert!(
        (cies.iter()).any(|text| text.contains("CIE  version 1 augmentation \"zPLR\"")),
        "{cies:?}"
    );
}

/// By the name of the object or of the source, with parameters or without; a part of a name lists what has it.
#[test]
fn definitions_by_name() {
    let [gxx] = require!("g++");
    let scratch = Scratch::new();
    scratch.write(
        "a.cc",
        "namespace n { int parse_line(long x) { return x * 3; } int parse_file(long x) { return x * 5 + 1; } }\n\
         extern \"C\" int plain(int x) { return x + 7; }\n\
         template<class T> T twice(T x) { return x + x; } template int twice<int>(int); template long twice<long>(long);\n\
         namespace { struct Local { __attribute__((noinline)) int operator()(int x) { return x - 9; } }; } int user(int x) { return Local()(x); }\n",
    );
    compile(&scratch, &gxx, "a.cc", "a.o");
    let defines = |asked: &str| {
        let shown = json(&scratch, &["fragments", "--demangle", asked]);
        let shown = shown.as_array().expect("a list").clone();
        let name = |detail: &Value| match &detail["names"] {
            Value::Null => detail["name"].as_str().unwrap_or_default().to_owned(),
            names => names[0].as_str().unwrap_or_default().to_owned(),
        };
        let mut names: Vec<String> = shown.iter().map(name).collect();
        names.sort();
        names
    };
    for asked in [
        "_ZN1n10parse_lineEl",
        "n::parse_line(long)",
        "n::parse_line",
        "se_line",
        "ne(l",
    ] {
        assert_eq!(defines(asked), ["n::parse_line(long)"], "{asked}");
    }
    assert_eq!(defines("plain"), ["plain"]);
    assert_eq!(
        defines("n::parse"),
        ["n::parse_file(long)", "n::parse_line(long)"]
    );
    assert_eq!(defines("int twice<int>"), ["int twice<int>(int)"]);
    assert_eq!(
        defines("(anonymous namespace)::Local::operator()"),
        ["(anonymous namespace)::Local::operator()(int)"]
    );
    // A list has a heading, and one in full what one wants to know.
    let text = dump(&scratch, &["fragments", "parse_"]).ok().text();
    assert!(
        text.starts_with("digest ") && text.lines().count() == 3,
        "{text}"
    );
    let text = dump(&scratch, &["fragments", "n::parse_line"]).ok().text();
    assert!(
        text.starts_with("fragment ") && text.contains("users"),
        "{text}"
    );
    let refused = dump(&scratch, &["fragments", "no_such_thing"])
        .code(2)
        .errors();
    assert!(
        refused.contains("a name that has no_such_thing in it"),
        "{refused}"
    );
    let names = dump(&scratch, &["names", "n::parse"]).ok().text();
    assert_eq!(names.lines().count(), 2, "{names}");
    // A ticket that is gone is known by its path, and by the end of it.
    fs::remove_file(scratch.join("a.o")).unwrap();
    let whole = scratch.join("a.o").display().to_string();
    for asked in ["a.o", "./a.o", &whole] {
        let text = dump(&scratch, &["compilations", asked]).ok().text();
        assert!(text.contains(&whole), "{text}");
    }
    dump(&scratch, &["compilations", "other.o"]).code(2);
}

/// Who has a definition and who refers to it is shown by the tickets' paths.
#[test]
fn users_and_referrers_by_path() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let path = |name: &str| scratch.join(name).display().to_string();
    let shared = &json(&scratch, &["fragments", "--demangle", "shared(int)"])[0];
    assert_eq!(
        shared["users"],
        serde_json::json!([path("a.o"), path("b.o")])
    );
    let referrers = shared["referrers"].as_array().expect("a list");
    let tickets_of = |name: &str| {
        let row = referrers.iter().find(|row| row["name"] == name);
        row.map(|row| row["tickets"].clone()).unwrap_or_default()
    };
    assert_eq!(tickets_of("f(int)"), serde_json::json!([path("a.o")]));
    assert_eq!(tickets_of("address(int)"), serde_json::json!([path("a.o")]));
    assert_eq!(tickets_of("other(int)"), serde_json::json!([path("b.o")]));
    let text = dump(&scratch, &["fragments", "--demangle", "f(int)"])
        .ok()
        .text();
    let has = |parts: [&str; 2]| {
        let mut lines = text.lines();
        lines.any(|line| parts.iter().all(|part| line.contains(part)))
    };
    // It is called by a function of another file.
    assert!(
        has(["main", &path("b.o")]) && has(["", &path("a.o")]),
        "{text}"
    );

    // A compilation that another has taken the place of is known by its source.
    scratch.write("a.cc", A.replace("from f", "of f").replace("big", "large"));
    compile(&scratch, &gxx, "a.cc", "a.o");
    let text = dump(&scratch, &["fragments", "--demangle", "f(int)"])
        .ok()
        .text();
    assert!(text.contains("of a.cc, no ticket on record"), "{text}");
}

/// What no symbol names is called what it is.
#[test]
fn nothing_is_anonymous_that_has_a_source() {
    let [gxx] = require!("g++");
    let scratch = Scratch::new();
    scratch.write("a.cc", A);
    scratch.write("b.cc", B);
    let mut revisions = Vec::new();
    for source in ["a", "b"] {
        let mut command = scratch.command(Binaries::get().path("repo-cc"));
        command.arg(&gxx).args(["-g", "-O1", "-fno-inline", "-c"]);
        // What is known of a compile would be recorded later.
        command.env("REPO_CC_DISABLE", "1");
        run(command.args([&format!("{source}.cc"), "-o", &format!("{source}.o")])).ok();
        revisions.push(json(&scratch, &["header"])["revision"].to_string());
    }
    let of_b = ["--diff", &revisions[0], &revisions[1]];
    let before = scratch.join("before.o");
    fs::copy(scratch.join("a.o"), &before).unwrap();
    scratch.write("a.cc", A.replace("a > 100", "a > 1000"));
    let mut command = scratch.command(Binaries::get().path("repo-cc"));
    command.arg(&gxx).args(["-g", "-O1", "-fno-inline", "-c"]);
    command.env("REPO_CC_DISABLE", "1");
    run(command.args(["a.cc", "-o", "a.o"])).ok();
    for view in [
        &["fragments"][..],
        &["compilations", "a.o"],
        &["b.o"],
        &["--diff", "before.o", "a.o"],
        &of_b,
    ] {
        let text = dump(&scratch, view).ok().text();
        assert!(!text.contains("(anonymous)"), "{view:?}: {text}");
        assert!(!text.contains("anonymous:"), "{view:?}: {text}");
        let source = if view == ["b.o"] || view == of_b {
            "b.cc"
        } else {
            "a.cc"
        };
        assert!(
            text.contains(&format!("debug information of {source}")),
            "{view:?}: {text}"
        );
    }
    // What refers to something without a name says what that is.
    let text = dump(&scratch, &["b.o"]).ok().text();
    let refers = |line: &str| line.contains("-> head of frame descriptions (CIE)");
    assert!(text.lines().any(refers), "{text}");
    // What a list calls it, it is found by.
    let text = dump(&scratch, &["fragments", "debug information of b.cc"]);
    let text = text.ok().text();
    assert!(
        text.contains("is:          debug information of b.cc"),
        "{text}"
    );
    let text = dump(&scratch, &["fragments", "debug information"])
        .ok()
        .text();
    for source in ["a.cc", "b.cc"] {
        let what = format!("debug information of {source}");
        assert!(text.contains(&what), "{text}");
    }
    // Debug information that was edited is changed, not gone and new.
    let text = dump(&scratch, &["--diff", "before.o", "a.o"]).ok().text();
    assert!(text.contains("~ debug information of a.cc"), "{text}");
}

#[test]
fn digests_by_prefix() {
    let [gxx] = require!("g++");
    let scratch = Scratch::new();
    // So many definitions that four digits are not unique.
    let source: String = (0..3000)
        .map(|n| format!("int f{n}(int x) {{ return x + {n}; }}\n"))
        .collect();
    scratch.write("many.cc", source);
    compile(&scratch, &gxx, "many.cc", "many.o");
    let list = json(&scratch, &["fragments"]);
    let mut digests: Vec<_> = (list.as_array().expect("a list").iter())
        .filter_map(|row| row["digest"].as_str())
        .collect();
    digests.sort_unstable();
    let pair = digests.windows(2).find(|pair| pair[0][..4] == pair[1][..4]);
    let pair = pair.expect("two of 3000 digests begin with the same 16 bits");
    let error = dump(&scratch, &["fragments", &pair[0][..4]])
        .code(2)
        .errors();
    assert!(error.contains("ambiguous"), "{error}");
    assert!(
        error.contains(pair[0]) && error.contains(pair[1]),
        "{error}"
    );
    dump(&scratch, &["fragments", pair[0]]).ok();
    dump(&scratch, &["fragments", "00000000000000"]).code(2);
}

#[test]
fn an_edit_shows_what_it_changed() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    scratch.write("a.cc", A.replace("shared(a) + *", "shared(a) - *"));
    compile(&scratch, &gxx, "a.cc", "edited.o");
    let diff = json(&scratch, &["--diff", "a.o", "edited.o"]);
    let changes = diff["tickets"][0]["definitions"]
        .as_array()
        .expect("changes");
    assert_eq!(changes.len(), 1, "{diff:#}");
    assert_eq!(
        (&changes[0]["name"], &changes[0]["change"]),
        (&"_Z1fi".into(), &"changed".into())
    );
    compile(&scratch, &gxx, "a.cc", "a.o");
    let revision = json(&scratch, &["header"])["revision"].to_string();
    let text = dump(&scratch, &["--diff", "2", &revision]).ok().text();
    assert!(
        text.contains("changed ticket") && text.contains("~ _Z1fi"),
        "{text}"
    );
    assert!(
        text.contains("new ticket") && text.contains("edited.o"),
        "{text}"
    );
    dump(&scratch, &["--diff", "a.o", "1"]).code(2);
}

#[test]
fn statistics_add_up() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let stats = json(&scratch, &["--stats"]);
    let kinds = stats["bytes"].as_object().expect("bytes by kind");
    let total: u64 = kinds.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(total), stats["repository_bytes"].as_u64());
    assert_eq!(
        total,
        fs::metadata(scratch.repository()).expect("there").len()
    );
    let list = json(&scratch, &["fragments"]);
    let rows = list.as_array().expect("a list");
    let shared = rows
        .iter()
        .filter(|row| row["compilations"].as_u64() > Some(1))
        .count();
    assert!(shared >= 2);
    assert_eq!(stats["definitions"]["shared"], shared);
    assert_eq!(stats["definitions"]["stored"], rows.len());
    // The objects that the two tickets stand for.
    let mut bytes = 0;
    for ticket in ["a.o", "b.o"] {
        dump(&scratch, &["--materialize", ticket, "-o", "real.o"]).ok();
        bytes += fs::metadata(scratch.join("real.o")).expect("written").len();
    }
    assert_eq!(stats["objects"]["bytes"], bytes);
}

#[test]
fn materialized_objects_link_and_run() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let list = json(&scratch, &["compilations"]);
    let digest = list[0]["digest"].as_str().expect("a digest");
    dump(&scratch, &["--materialize", &digest[..12], "-o", "one.o"]).ok();
    for ticket in ["a.o", "b.o"] {
        let object = format!("real-{ticket}");
        dump(&scratch, &["--materialize", ticket, "-o", &object]).ok();
    }
    run(scratch
        .command(&gxx)
        .args(["real-a.o", "real-b.o", "-o", "program"]))
    .ok();
    run(&mut scratch.command(scratch.join("program"))).ok();
    let error = dump(&scratch, &["--materialize", "a.cc", "-o", "x.o"])
        .code(2)
        .errors();
    assert!(error.contains("a.cc: not a ticket"), "{error}");
    let error = dump(&scratch, &["--materialize", "a.o", "-o", "no/such/x.o"])
        .code(2)
        .errors();
    assert!(error.contains("no/such/x.o: cannot write"), "{error}");
}

#[test]
fn who_has_seen_enough_may_go() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let mut command = scratch.command(Binaries::get().path("repo-dump"));
    command.args(["fragments", "_Z1fi", "_Z6sharedi", "main", "_Z1fi", "_Z1fi"]);
    // Far more than a pipe holds.
    command.args(["_Z6sharedi"; 300]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut first = [0; 10];
    let mut pipe = child.stdout.take().expect("a pipe");
    pipe.read_exact(&mut first).expect("something is written");
    drop(pipe);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success(), "{:?}", output.status);
}

/// A repository can be named like a ticket.
#[test]
fn a_repository_is_an_argument() {
    let [gxx] = require!("g++");
    let scratch = Scratch::new();
    scratch.write("a.cc", "int f() { return 1; }\n");
    let mut compile = scratch.command(Binaries::get().path("repo-cc"));
    run(compile.arg(gxx).args(["-c", "a.cc"])).ok();
    std::fs::rename(scratch.repository(), scratch.join("moved.repo")).expect("renamed");
    for option in [&[][..], &["--stats"], &["--verify"]] {
        let by_option = dump(&scratch, &[option, &["--repo", "moved.repo"]].concat()).ok();
        let by_name = dump(&scratch, &[option, &["moved.repo"]].concat()).ok();
        assert_eq!(by_name.text(), by_option.text());
    }
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let [gxx] = require!("g++");
    let scratch = Scratch::new();
    let error = dump(&scratch, &[]).code(2).errors();
    assert!(
        error.contains("program.repo: there is no repository"),
        "{error}"
    );
    assert!(
        !scratch.repository().exists(),
        "looking makes no repository"
    );
    scratch.write("program.repo", vec![b'x'; 100_000]);
    let error = dump(&scratch, &[]).code(1).errors();
    assert!(error.contains("program.repo: not a repository"), "{error}");
    // A ticket of another repository, and one whose repository is gone.
    let other = built(&gxx);
    let repository = other.repository();
    let ticket = other.join("a.o");
    let ticket = ticket.to_string_lossy();
    dump(&scratch, &[&ticket]).ok();
    fs::remove_file(scratch.repository()).expect("removed");
    scratch.write("c.cc", "int c;");
    compile(&scratch, &gxx, "c.cc", "c.o");
    // Another than its own is passed over.
    let own = scratch.repository();
    let with_own = [&*ticket, "--repo", &own.to_string_lossy()];
    dump(&scratch, &with_own).ok();
    fs::remove_file(repository).expect("removed");
    let error = dump(&scratch, &with_own).code(2).errors();
    let of = format!("repo-dump: error: {ticket}: it belongs to repository");
    assert!(error.starts_with(&of), "{error}");
    let error = dump(&scratch, &[&ticket]).code(2).errors();
    let of = format!("repo-dump: error: {ticket}: its repository ");
    assert!(error.starts_with(&of), "{error}");
    assert!(error.contains("does not exist; build it again"), "{error}");
    let error = dump(&scratch, &["fragment"]).code(2).errors();
    assert!(
        error.contains("no such command and no such file"),
        "{error}"
    );
}

/// A bit flipped anywhere: `REPO_FLIP_STEP=1` takes every byte, by default it is
/// one in 23. Only of the session (boot id and inode number) the file may say
/// anything: it decides whether the rest is believed before it is checked.
#[test]
fn verify_finds_every_flip() {
    const SESSION: std::ops::Range<u64> = 544..576;
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let path = scratch.repository();
    let file = fs::OpenOptions::new().write(true).open(&path);
    let file = file.expect("opened");
    let whole = fs::read(&path).expect("read");
    let step = std::env::var("REPO_FLIP_STEP").map_or(23, |text| text.parse().expect("a number"));
    dump(&scratch, &["--verify"]).ok();
    let mut unnoticed = Vec::new();
    for place in (0..whole.len() as u64).step_by(step) {
        if SESSION.contains(&place) {
            continue;
        }
        // Another bit of each byte that is looked at, also with a step of 8.
        let bit = (place ^ place >> 3) % 8;
        let was = whole[place as usize];
        file.write_all_at(&[was ^ 1 << bit], place)
            .expect("written");
        let run = dump(&scratch, &["--verify"]);
        match run.status.code() {
            Some(0) => unnoticed.push(format!("{place:#x}")),
            Some(1 | 2) => {}
            _ => panic!("{place:#x}: {}", run.report()),
        }
        file.write_all_at(&[was], place).expect("written");
    }
    assert!(unnoticed.is_empty(), "flipped and good: {unnoticed:?}");
    dump(&scratch, &["--verify"]).ok();
}

#[test]
fn verify_finds_flipped_bits_and_a_truncated_file() {
    let [gxx] = require!("g++");
    let scratch = built(&gxx);
    let path = scratch.repository();
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("opened");
    let whole = fs::read(&path).expect("read");
    // The start of the log, and a place in every record after it.
    let details = json(&scratch, &["fragments", "_Z1fi", "_Z6sharedi", "main"]);
    let mut places: Vec<u64> = (4096..whole.len() as u64).step_by(811).collect();
    for detail in details.as_array().expect("a list") {
        let (offset, bytes) = (detail["offset"].as_u64(), detail["bytes"].as_u64());
        let (offset, bytes) = (offset.expect("an offset"), bytes.expect("a size"));
        // Key, first and last byte of the value.
        places.extend([offset + 8, offset + 40, offset + 39 + bytes]);
    }
    for place in places {
        let was = whole[place as usize];
        file.write_all_at(&[was ^ 0x10], place).expect("written");
        let run = dump(&scratch, &["--verify"]).code(1);
        let said = run.text() + &run.errors();
        assert!(said.contains("offset 0x"), "{place:#x}: {said}");
        file.write_all_at(&[was], place).expect("written");
    }
    dump(&scratch, &["--verify"]).ok();
    let report = json(&scratch, &["--verify"]);
    assert_eq!(report["problems"].as_array().map(Vec::len), Some(0));
    file.set_len(whole.len() as u64 - 100).expect("truncated");
    let error = dump(&scratch, &["--verify"]).code(1).errors();
    assert!(error.contains("truncated"), "{error}");
    assert_eq!(
        fs::read(&path).expect("read").len(),
        whole.len() - 100,
        "untouched"
    );
}
