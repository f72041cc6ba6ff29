use super::*;

fn shown(diagnostics: &Diagnostics) -> String {
    let mut out = Vec::new();
    diagnostics.flush(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn place(input: u32, file: &str, function: &str, offset: u64) -> Place {
    Place {
        order: Order { input, offset },
        file: file.into(),
        source: None,
        function: Some(function.as_bytes().to_vec()),
        section: Some((".text".into(), offset)),
    }
}

#[test]
fn forms_of_errors_and_warnings() {
    let diagnostics = Diagnostics::new(DiagOptions::default());
    diagnostics.warn("b.o: odd");
    diagnostics.report(Diagnostic::error("a.o: bad").note("see there").at(1, 0));
    assert_eq!(
        shown(&diagnostics),
        "repo-ld: warning: b.o: odd\nrepo-ld: error: a.o: bad\n>>> see there\n"
    );
    assert_eq!(
        (
            diagnostics.error_count(),
            diagnostics.warning_count(),
            diagnostics.exit_code()
        ),
        (1, 1, 1)
    );
    assert_eq!(shown(&diagnostics), "");
}

#[test]
fn an_undefined_symbol_is_one_message() {
    let diagnostics = Diagnostics::new(DiagOptions::default());
    for at in (0..5).rev() {
        diagnostics.undefined(Severity::Error, b"_Z3fooi", place(2, "b.o", "main", at * 8));
    }
    diagnostics.undefined(
        Severity::Error,
        b"_Z3fooi",
        Place {
            source: Some("src/a.c:12".into()),
            ..place(1, "lib.a(a.o)", "_Z1gv", 0x12)
        },
    );
    diagnostics.hint(b"_Z3fooi", "did you mean: foo(long)");
    assert_eq!(
        shown(&diagnostics),
        "repo-ld: error: undefined symbol: foo(int)\n\
         >>> referenced by src/a.c:12\n\
         >>>               lib.a(a.o):(function g(): .text+0x12): undefined reference to `foo(int)'\n\
         >>> referenced by b.o:(function main: .text+0x0)\n\
         >>> referenced by b.o:(function main: .text+0x8)\n\
         >>> referenced 3 more times\n\
         >>> did you mean: foo(long)\n"
    );
}

#[test]
fn duplicates_name_both_places() {
    let diagnostics = Diagnostics::new(DiagOptions {
        demangle: false,
        ..DiagOptions::default()
    });
    diagnostics.duplicate(
        b"_Z1fv",
        &Place::file("a.o"),
        &Place {
            source: Some("b.c:3".into()),
            ..Place::file("b.o")
        },
    );
    assert_eq!(
        shown(&diagnostics),
        "repo-ld: error: duplicate symbol: _Z1fv\n\
         >>> defined in a.o\n\
         >>> defined at b.c:3 (b.o): multiple definition of `_Z1fv'\n"
    );
}

#[test]
fn the_order_does_not_depend_on_threads() {
    let run = |threads: usize| {
        let diagnostics = Diagnostics::new(DiagOptions {
            limit: 7,
            ..DiagOptions::default()
        });
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let diagnostics = &diagnostics;
                scope.spawn(move || {
                    for i in (0..60u32).filter(|i| *i as usize % threads == thread).rev() {
                        diagnostics.report(
                            Diagnostic::error(format_args!("message {i}")).at(i % 5, u64::from(i)),
                        );
                        diagnostics.undefined(
                            Severity::Error,
                            b"sym",
                            place(i, "f.o", "g", u64::from(i)),
                        );
                    }
                });
            }
        });
        shown(&diagnostics)
    };
    let alone = run(1);
    assert!(
        alone.starts_with("repo-ld: error: message 0\n") || alone.contains("undefined symbol: sym")
    );
    assert!(alone.contains("more errors are not shown"));
    for threads in [2, 4, 8] {
        assert_eq!(run(threads), alone);
    }
}

#[test]
fn the_limit_keeps_the_first_and_says_how_many_are_missing() {
    let diagnostics = Diagnostics::new(DiagOptions {
        limit: 2,
        ..DiagOptions::default()
    });
    for i in [5, 3, 1, 4, 2] {
        diagnostics.report(Diagnostic::error(format_args!("number {i}")).at(i, 0));
    }
    assert_eq!(
        shown(&diagnostics),
        "repo-ld: error: number 1\nrepo-ld: error: number 2\n\
         repo-ld: error: 3 more errors are not shown (--error-limit=0 shows all)\n"
    );
    let unlimited = Diagnostics::new(DiagOptions {
        limit: 0,
        ..DiagOptions::default()
    });
    for i in 0..100 {
        unlimited.error(format_args!("number {i}"));
        unlimited.error(format_args!("number {i}"));
    }
    assert_eq!(
        shown(&unlimited).lines().count(),
        100,
        "identical messages are shown once"
    );
}

#[test]
fn options_change_severity() {
    let fatal = Diagnostics::new(DiagOptions {
        fatal_warnings: true,
        ..DiagOptions::default()
    });
    fatal.warn("w");
    assert_eq!(
        (shown(&fatal).as_str(), fatal.exit_code()),
        ("repo-ld: error: w\n", 1)
    );

    let quiet = Diagnostics::new(DiagOptions {
        fatal_warnings: true,
        no_warnings: true,
        ..DiagOptions::default()
    });
    quiet.warn("w");
    assert_eq!((shown(&quiet).as_str(), quiet.exit_code()), ("", 0));

    let forced = Diagnostics::new(DiagOptions {
        noinhibit_exec: true,
        ..DiagOptions::default()
    });
    forced.pardonable("e");
    assert_eq!(
        (shown(&forced).as_str(), forced.exit_code()),
        ("repo-ld: warning: e\n", 0)
    );
    // What leaves nothing that could be used stays an error.
    forced.error("e");
    assert_eq!(
        (shown(&forced).as_str(), forced.exit_code()),
        ("repo-ld: error: e\n", 1)
    );
}

#[test]
fn colour_and_control_characters() {
    let diagnostics = Diagnostics::new(DiagOptions {
        color: true,
        ..DiagOptions::default()
    });
    diagnostics.error("bad \x1b[2J name");
    assert_eq!(
        shown(&diagnostics),
        "\x1b[1mrepo-ld: \x1b[1;31merror:\x1b[0m bad \u{fffd}[2J name\n"
    );
}

#[test]
fn near_names() {
    let all: [&[u8]; 5] = [
        b"printf",
        b"prinft",
        b"_initialise",
        b"frobnicate_all",
        b"x",
    ];
    let near = |name: &str| {
        near_name(name.as_bytes(), all.into_iter())
            .map(|name| String::from_utf8_lossy(name).into_owned())
    };
    assert_eq!(near("initialise").as_deref(), Some("_initialise"));
    assert_eq!(near("frobnicate_al").as_deref(), Some("frobnicate_all"));
    assert_eq!(near("printg").as_deref(), Some("printf"));
    assert_eq!(near("y"), None);
    assert_eq!(near("something_else"), None);
}
