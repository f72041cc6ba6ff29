use super::*;

fn parse(line: &str) -> Args {
    try_parse(line).unwrap_or_else(|error| panic!("{error}\nin {line}"))
}

fn try_parse(line: &str) -> Result<Args, ArgsError> {
    Args::parse(line.split_whitespace().map(OsString::from))
}

fn problem(line: &str) -> String {
    match try_parse(line) {
        Ok(args) => panic!("no error in {line}: {args:?}"),
        Err(error) => error.to_string(),
    }
}

fn files(args: &Args) -> Vec<String> {
    let shown = |input: &InputArg| match &input.kind {
        InputKind::File(path) => path.display().to_string(),
        InputKind::Library(name) => format!("-l{}", name.display()),
        InputKind::LibraryFile(name) => format!("-l:{}", name.display()),
        InputKind::JustSymbols(path) => format!("-R{}", path.display()),
    };
    args.inputs.iter().map(shown).collect()
}

fn state_of(args: &Args, file: &str) -> InputState {
    let index = files(args).iter().position(|name| name == file);
    args.inputs[index.unwrap_or_else(|| panic!("{file} is no input"))].state
}

// Command lines as the compiler drivers of Debian 12 write them, paths shortened.

const GCC_PIE: &str = "-plugin /usr/lib/gcc/liblto_plugin.so -plugin-opt=/usr/lib/gcc/lto-wrapper \
    -plugin-opt=-fresolution=/tmp/x.res -plugin-opt=-pass-through=-lgcc -flto --build-id --eh-frame-hdr -m elf_x86_64 \
    --hash-style=gnu --as-needed -dynamic-linker /lib64/ld-linux-x86-64.so.2 -pie -o x Scrt1.o crti.o \
    -L/usr/lib/gcc -L/usr/lib a.o -lgcc --push-state --as-needed -lgcc_s --pop-state -lc crtendS.o crtn.o";

#[test]
fn gcc_links_a_pie() {
    let args = parse(GCC_PIE);
    assert_eq!(args.kind, OutputKind::Pie);
    assert_eq!(args.output, PathBuf::from("x"));
    assert_eq!(
        (args.build_id.clone(), args.eh_frame_hdr),
        (BuildId::Fast, true)
    );
    assert_eq!(
        args.hash_style,
        HashStyle {
            sysv: false,
            gnu: true
        }
    );
    assert_eq!(
        args.dynamic_linker,
        Some("/lib64/ld-linux-x86-64.so.2".into())
    );
    assert_eq!(
        args.library_paths,
        [PathBuf::from("/usr/lib/gcc"), PathBuf::from("/usr/lib")]
    );
    assert_eq!(
        files(&args),
        [
            "Scrt1.o",
            "crti.o",
            "a.o",
            "-lgcc",
            "-lgcc_s",
            "-lc",
            "crtendS.o",
            "crtn.o"
        ]
    );
    assert_eq!(args.plugins.len(), 1);
    assert_eq!(
        args.plugins[0].options,
        [
            "/usr/lib/gcc/lto-wrapper",
            "-fresolution=/tmp/x.res",
            "-pass-through=-lgcc"
        ]
        .map(OsString::from)
    );
    assert!(
        state_of(&args, "-lc").as_needed,
        "Debian's gcc passes --as-needed itself"
    );
    assert!(args.unsupported.is_empty() && args.warnings.is_empty());
}

#[test]
fn gcc_links_other_kinds() {
    let kind = |line: &str| parse(line).kind;
    assert_eq!(
        kind("-static -o x crt1.o a.o --start-group -lgcc -lgcc_eh -lc --end-group"),
        OutputKind::StaticExec
    );
    assert_eq!(
        kind("-static -pie --no-dynamic-linker -z text -pie a.o"),
        OutputKind::StaticPie
    );
    assert_eq!(kind("-pie --no-dynamic-linker a.o"), OutputKind::Pie);
    assert_eq!(
        kind("-dynamic-linker /lib64/ld.so a.o"),
        OutputKind::DynamicExec
    );
    assert_eq!(kind("-shared a.o"), OutputKind::Shared);
    assert_eq!(kind("-r a.o"), OutputKind::Relocatable);
    assert_eq!(kind("-pie -no-pie a.o"), OutputKind::DynamicExec);
    // What -static only says of libraries ends with the state that it is in.
    assert_eq!(
        kind("--push-state -static --pop-state a.o"),
        OutputKind::DynamicExec
    );
    assert_eq!(kind("-Bstatic -lx -Bdynamic"), OutputKind::DynamicExec);
    assert!(problem("-r -shared a.o").contains("-r and -shared cannot be used together"));
}

#[test]
fn groups_and_libs() {
    let args = parse(
        "a.o -( -lx -ly -) b.o --start-group -lz --end-group --start-lib c.o d.o --end-lib e.o",
    );
    let groups: Vec<_> = args
        .inputs
        .iter()
        .map(|input| (input.state.group, input.state.lib))
        .collect();
    let none = (None, None);
    assert_eq!(
        groups,
        [
            none,
            (Some(1), None),
            (Some(1), None),
            none,
            (Some(2), None),
            (None, Some(1)),
            (None, Some(1)),
            none
        ]
    );
    for line in [
        "-( -(",
        "-)",
        "--start-lib --start-lib",
        "--end-lib",
        "--pop-state",
    ] {
        assert!(
            matches!(try_parse(line), Err(ArgsError::Conflict(_))),
            "{line}"
        );
    }
}

#[test]
fn rustc_links_a_cdylib() {
    let args = parse(
        "-plugin p.so --version-script=/tmp/list --no-undefined-version -m elf_x86_64 --as-needed -shared -o l.so a.o \
         -Bstatic a.rlib -Bdynamic -lgcc_s -lc --eh-frame-hdr -z noexecstack --gc-sections -z relro -z now -O1 --strip-debug",
    );
    assert_eq!(args.version_scripts, [PathBuf::from("/tmp/list")]);
    assert!(args.no_undefined_version && args.gc_sections && args.z.now && args.z.relro);
    assert_eq!(
        (args.z.execstack, args.strip, args.optimize),
        (Some(false), StripMode::Debug, 1)
    );
    assert!(state_of(&args, "a.rlib").static_only && !state_of(&args, "-lc").static_only);
    assert_eq!(args.unresolved, UnresolvedPolicy::Ignore);
}

#[test]
fn forms_of_one_option() {
    for line in [
        "-soname=x -o y",
        "--soname=x -o y",
        "-soname x -oy",
        "--soname x --output=y",
        "-h x --output y",
        "-hx -o y",
    ] {
        let args = parse(line);
        assert_eq!(
            (args.soname.as_deref(), args.output.to_str()),
            (Some(&b"x"[..]), Some("y")),
            "{line}"
        );
    }
    // "-omagic" names an output file.
    assert_eq!(parse("-omagic").output, PathBuf::from("magic"));
    assert_eq!(parse("--omagic").magic, Magic::Omagic);
    assert_eq!(
        parse("-zmax-page-size=0x200000").z.max_page_size,
        Some(0x20_0000)
    );
    assert_eq!(parse("-z max-page-size=65536").z.max_page_size, Some(65536));
    assert_eq!(
        files(&parse(
            "-lfoo -l bar -l:x.a -l :y.a --library=baz -library qux"
        )),
        ["-lfoo", "-lbar", "-l:x.a", "-l:y.a", "-lbaz", "-lqux"]
    );
    assert_eq!(
        parse("-L=/x -L /y").library_paths,
        [PathBuf::from("=/x"), PathBuf::from("/y")]
    );
    assert_eq!(
        parse("-Tfoo.ld -T bar.ld").scripts,
        [PathBuf::from("foo.ld"), PathBuf::from("bar.ld")]
    );
    assert_eq!(
        parse("-Ttext=1000 -Tdata 0x2000").section_starts,
        [(b".text".to_vec(), 0x1000), (b".data".to_vec(), 0x2000)]
    );
    assert_eq!(files(&parse("-- -o -x")), ["-o", "-x"]);
    assert_eq!(files(&parse("-")), ["-"]);
}

#[test]
fn abbreviations_and_bunches() {
    assert!(state_of(&parse("--whole-arch a.a"), "a.a").whole_archive);
    assert!(state_of(&parse("-whole-arch a.a"), "a.a").whole_archive);
    assert!(problem("--no-w a.a").contains("is ambiguous"));
    let args = parse("-sx");
    assert_eq!(
        (args.strip, args.discard_locals),
        (StripMode::All, DiscardLocals::All)
    );
}

#[test]
fn unknown_options_are_named_with_a_guess() {
    assert_eq!(
        problem("--gc-section a.o --abcdefg"),
        "unknown option '--abcdefg'"
    );
    assert_eq!(
        problem("--as-neded"),
        "unknown option '--as-neded'; did you mean '--as-needed'?"
    );
    assert_eq!(
        problem("--export-dynamics=1"),
        "unknown option '--export-dynamics=1'; did you mean '--export-dynamic'?"
    );
    assert_eq!(problem("-#"), "unknown option '-#'");
    assert_eq!(problem("--l"), "unknown option '--l'");
    assert_eq!(problem("--v"), "unknown option '--v'");
}

#[test]
fn bad_values() {
    for (line, expected) in [
        ("-o", "option '-o' needs an argument"),
        ("--soname", "option '--soname' needs an argument"),
        ("--shared=1", "option '--shared' takes no argument"),
        (
            "-m elf_i386",
            "emulation 'elf_i386' is not supported: this linker makes x86-64 ELF only (elf_x86_64)",
        ),
        (
            "--hash-style=foo",
            "option '--hash-style': invalid value 'foo': expected sysv, gnu or both",
        ),
        (
            "-z max-page-size=foo",
            "option '-z': invalid value 'max-page-size=foo': expected a power of two up to 1 GiB",
        ),
        (
            "-z max-page-size=12",
            "option '-z': invalid value 'max-page-size=12': expected a power of two up to 1 GiB",
        ),
        (
            "--defsym foo",
            "option '--defsym': invalid value 'foo': expected SYMBOL=EXPRESSION",
        ),
        (
            "--defsym =1",
            "option '--defsym': invalid value '=1': expected SYMBOL=EXPRESSION",
        ),
        (
            "-Ttext=xyz",
            "option '-Ttext': invalid value 'xyz': expected a hexadecimal address",
        ),
        (
            "--threads=-1",
            "option '--threads': invalid value '-1': expected a number",
        ),
        (
            "--threads=99999999999",
            "option '--threads': invalid value '99999999999': expected a smaller number",
        ),
        (
            "--build-id=0x123",
            "option '--build-id': invalid value '0x123': expected fast, sha1, md5, sha256, uuid, none or 0x and an even number of hex digits",
        ),
        (
            "--oformat elf32-i386",
            "option '--oformat': invalid value 'elf32-i386': expected elf64-x86-64 or binary",
        ),
        (
            "--package-metadata=%[colon]",
            "option '--package-metadata': invalid value '%[colon]': expected %XX with two hex digits, or %[comma] and its like",
        ),
        (
            "--package-metadata=%q",
            "option '--package-metadata': invalid value '%q': expected %XX with two hex digits, or %[comma] and its like",
        ),
        ("-f x a.o", "-f may not be used without -shared"),
    ] {
        assert_eq!(problem(line), expected, "{line}");
    }
}

#[test]
fn unknown_keywords_are_warnings() {
    let args = parse("-z foo -z bar=1 -znow");
    assert_eq!(
        args.warnings,
        [
            "unknown keyword '-z foo' is ignored",
            "unknown keyword '-z bar=1' is ignored"
        ]
    );
    assert!(args.z.now);
}

#[test]
fn keywords() {
    let args = parse(
        "-z norelro -z notext -z execstack -z stack-size=0x100000 -z noseparate-code -z origin -z nodelete -z nodlopen \
         -z initfirst -z interpose -z ibt -z shstk -z cet-report=error -z x86-64-v2 -z x86-64-v3 -z start-stop-gc \
         -z start-stop-visibility=hidden -z muldefs -z pack-relative-relocs -z nocopyreloc -z dynamic-undefined-weak",
    );
    let z = &args.z;
    assert!(
        !z.relro
            && z.origin
            && z.nodelete
            && z.nodlopen
            && z.initfirst
            && z.interpose
            && z.start_stop_gc
    );
    assert!(z.ibt && z.ibtplt && z.shstk && !z.copyreloc);
    assert_eq!(
        (z.text, z.execstack, z.stack_size),
        (TextRel::Allow, Some(true), Some(0x10_0000))
    );
    assert_eq!(
        (z.separate, z.cet_report, z.isa_needed),
        (SeparateCode::None, Report::Error, 0b110)
    );
    assert_eq!(
        (z.start_stop_visibility, z.dynamic_undefined_weak),
        (StartStopVisibility::Hidden, Some(true))
    );
    assert!(args.allow_multiple_definition);
    assert_eq!(args.pack_dyn_relocs, PackDynRelocs::Relr);
    assert!(args.warnings.is_empty());
}

#[test]
fn unresolved_symbols() {
    use UnresolvedPolicy::{Error, Ignore, Warn};
    for (line, objects, shared) in [
        ("", Error, Error),
        ("-shared", Ignore, Ignore),
        ("-shared -z defs", Error, Ignore),
        ("-shared --no-undefined", Error, Ignore),
        ("-shared -z defs -z undefs", Ignore, Ignore),
        ("-z undefs", Ignore, Error),
        ("--warn-unresolved-symbols", Warn, Warn),
        (
            "--warn-unresolved-symbols --error-unresolved-symbols",
            Error,
            Error,
        ),
        ("--unresolved-symbols=ignore-all", Ignore, Ignore),
        ("--unresolved-symbols=ignore-in-object-files", Ignore, Error),
        ("--unresolved-symbols ignore-in-shared-libs", Error, Ignore),
        ("-shared --unresolved-symbols=report-all", Error, Error),
        ("--allow-shlib-undefined", Error, Ignore),
        ("-shared --no-allow-shlib-undefined", Ignore, Error),
    ] {
        let args = parse(line);
        assert_eq!(
            (args.unresolved, args.unresolved_in_shared),
            (objects, shared),
            "{line}"
        );
    }
}

#[test]
fn build_ids() {
    for (line, expected) in [
        ("", BuildId::None),
        ("--build-id", BuildId::Fast),
        ("--build-id=sha1", BuildId::Sha1),
        ("--build-id=md5", BuildId::Md5),
        ("--build-id=uuid", BuildId::Uuid),
        ("--build-id --build-id=none", BuildId::None),
        ("--build-id --no-build-id", BuildId::None),
        (
            "--build-id=0xdeadBEEF",
            BuildId::Hex(vec![0xde, 0xad, 0xbe, 0xef]),
        ),
        ("--build-id=0xde-ad:01", BuildId::Hex(vec![0xde, 0xad, 1])),
    ] {
        assert_eq!(parse(line).build_id, expected, "{line}");
    }
    // The value of an optional argument is never the next word.
    assert_eq!(files(&parse("--build-id sha1")), ["sha1"]);
}

#[test]
fn lists_of_directories_and_libraries() {
    let args = parse(
        "-rpath /a:/b --rpath=/a -rpath-link=/c:/d --exclude-libs a.a,b.a:c.a --audit=x:y --wrap f --wrap=f",
    );
    assert_eq!(args.rpath, [b"/a".to_vec(), b"/b".to_vec()]);
    assert_eq!(parse("-rpath /a:").rpath, [b"/a".to_vec(), Vec::new()]);
    assert_eq!(args.rpath_link, [PathBuf::from("/c"), PathBuf::from("/d")]);
    assert_eq!(args.exclude_libs.len(), 3);
    assert_eq!((args.audit.len(), args.wrap.len()), (2, 1));
}

#[test]
fn what_is_not_implemented_is_recorded() {
    let args = parse("--shuffle-sections=42 -z hazardplt --out-implib x");
    let shown: Vec<_> = args
        .unsupported
        .iter()
        .map(|option| option.option.as_str())
        .collect();
    assert_eq!(
        shown,
        ["--shuffle-sections 42", "-z hazardplt", "--out-implib x"]
    );
}

#[test]
fn what_is_ignored_takes_its_argument() {
    let args = parse(
        "-G 8 --sort-common -flto -fuse-ld=lld --no-keep-memory -no-ctors-in-init-array -long-plt -EL --max-cache-size=5 a.o -Qy b.o",
    );
    assert_eq!(files(&args), ["a.o", "b.o"]);
    assert!(args.unsupported.is_empty());
}

#[test]
fn requests_for_information() {
    let info = |line: &str| parse(line).info;
    assert!(info("--version").exit && info("--version").version);
    assert!(info("-v").version && !info("-v").exit);
    assert!(info("-V").emulations && !info("-V").exit);
    assert!(info("--help").help && info("--help").exit);
    assert!(info("--print-sysroot").sysroot);
}

#[test]
fn our_own_options() {
    let args = parse("--repo r --log=l --print-timing --verify-incremental --threads=4");
    assert_eq!((args.repo, args.log), (Some("r".into()), Some("l".into())));
    assert!(args.print_timing.is_some() && args.verify_incremental);
    assert_eq!(args.threads, Some(4));
    assert_eq!(parse("--no-threads").threads, Some(1));
    assert_eq!(parse("--threads=4 --threads").threads, None);
}

#[test]
fn just_symbols_of_a_directory_is_an_rpath() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args::parse(
        [
            OsString::from("-R"),
            dir.path().into(),
            "-R".into(),
            "/dev/null".into(),
            "-R".into(),
            "/no/such/directory".into(),
        ]
        .into_iter(),
    )
    .unwrap();
    // What does not exist cannot be a file with symbols.
    assert_eq!(args.rpath.len(), 2);
    assert_eq!(args.rpath[1], b"/no/such/directory");
    assert_eq!(files(&args), ["-R/dev/null"]);
}

#[test]
fn words_of_a_response_file() {
    let split = |text: &str| {
        response::split(text.as_bytes())
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(split("a b\n\tc\r\n"), ["a", "b", "c"]);
    assert_eq!(split("'a b' \"c d\" e'f g'h"), ["a b", "c d", "ef gh"]);
    assert_eq!(
        split(r#"a\ b \"c \\ "d\"e" 'f\'g'"#),
        ["a b", "\"c", "\\", "d\"e", "f'g"]
    );
    assert_eq!(split("'' \"\" x"), ["", "", "x"]);
    assert_eq!(split("a\\"), ["a"]);
    assert_eq!(split("'open quote "), ["open quote "]);
    assert_eq!(split(""), Vec::<String>::new());
}

#[test]
fn response_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let inner = file("inner", "'b c.o' -lx");
    let outer = file("outer", &format!("-o out @{inner} d.o"));
    let args = parse(&format!("a.o @{outer} e.o @/no/such/file @"));
    assert_eq!(args.output, PathBuf::from("out"));
    assert_eq!(
        files(&args),
        ["a.o", "b c.o", "-lx", "d.o", "e.o", "@/no/such/file", "@"]
    );
    let circle = dir.path().join("circle");
    std::fs::write(
        &circle,
        format!("@{} @{}", circle.display(), circle.display()),
    )
    .unwrap();
    assert!(matches!(
        try_parse(&format!("@{}", circle.display())),
        Err(ArgsError::ResponseDepth(_))
    ));
    assert!(matches!(
        try_parse(&format!("@{}", dir.path().display())),
        Err(ArgsError::Response { .. })
    ));
}

#[test]
fn the_version_is_recognised() {
    let version = help::version();
    let words: Vec<&str> = version.split_whitespace().collect();
    // What Linux's scripts/ld-version.sh and glibc's configure take apart.
    assert_eq!(words[..2], ["GNU", "ld"]);
    let release: Vec<u32> = words[words.len() - 1]
        .split('.')
        .map(|number| number.parse().expect("a number"))
        .collect();
    assert!(release >= vec![2, 30], "{version}");
    // libtool takes these for releases without anonymous version nodes.
    let is_old = |word: &&str| word.starts_with("0.") || word.starts_with("1.");
    assert_eq!(words.iter().find(|word| is_old(word)), None);
    assert!(version.contains("repo-ld") && version.contains("compatible with GNU ld"));
    let told = |line: &str| help::information(&parse(line), "ld", || "scripts\n".to_owned());
    assert_eq!(told("-v a.o"), help::version());
    assert!(told("-V").contains("elf_x86_64"));
    assert!(told("--verbose").ends_with("scripts\n"));
    assert_eq!(told("--print-output-format"), "elf64-x86-64\n");
    assert_eq!(told("--print-sysroot --sysroot=/x"), "/x\n");
    assert_eq!(told("a.o"), "");
}

#[test]
fn the_help_names_every_option_and_the_targets() {
    let text = help::help("ld");
    // libtool: grep ': supported targets:.* elf'
    assert!(
        text.lines()
            .any(|line| line.contains(": supported targets:") && line.contains(" elf"))
    );
    for (_, specs) in options::SPECS {
        for spec in *specs {
            for name in spec.names {
                assert!(text.contains(&format!("-{name}")), "{name}");
            }
        }
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 120),
        "{:?}",
        text.lines().find(|line| line.chars().count() > 120)
    );
}

#[test]
fn every_keyword_of_z_that_the_help_names_is_obeyed() {
    let mut seen = std::collections::HashSet::new();
    for spelled in options::Z_KEYWORDS.iter().flat_map(|row| row.spelled) {
        assert!(seen.insert(spelled), "{spelled} is in the table twice");
        let (name, value) = match spelled.split_once('=') {
            Some((name, "N")) => (name, "=4096"),
            Some((name, "PATTERN=N")) => (name, "=.debug_*=1"),
            Some((name, _)) => (name, "=none"),
            None => (*spelled, ""),
        };
        let value = match name {
            "start-stop-visibility" => "=hidden",
            _ => value,
        };
        let args = parse(&format!("-z {name}{value}"));
        assert!(
            args.unsupported.is_empty() && args.warnings.is_empty(),
            "{spelled}: {:?} {:?}",
            args.unsupported,
            args.warnings
        );
    }
}

#[test]
fn no_name_is_in_the_tables_twice() {
    let own = options::SPECS
        .iter()
        .flat_map(|(_, specs)| specs.iter())
        .flat_map(|spec| spec.names);
    let ignored = options::IGNORED.iter().flat_map(|option| option.names);
    let missing = options::UNSUPPORTED.iter().flat_map(|option| option.names);
    let mut seen = std::collections::HashSet::new();
    for name in own.chain(ignored).chain(missing) {
        assert!(seen.insert(name), "{name}");
    }
}

#[test]
fn every_option_is_obeyed_with_the_argument_that_the_table_says() {
    use options::Takes;
    for spec in options::SPECS.iter().flat_map(|(_, specs)| specs.iter()) {
        // Either it works or it complains of the value: it never gets to the wrong place.
        let dashes = if spec.names[0].len() == 1 { "-" } else { "--" };
        let name = format!("{dashes}{}", spec.names[0]);
        let line = match spec.takes {
            Takes::Nothing => name,
            Takes::Value(_) => format!("{name} value"),
            Takes::Optional(_) => format!("{name}=value {name}"),
        };
        match try_parse(&line) {
            Ok(_)
            | Err(ArgsError::BadValue { .. } | ArgsError::Conflict(_) | ArgsError::Emulation(_)) => {
            }
            Err(error) => panic!("{line}: {error}"),
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_words_are_arguments_or_an_error(words in proptest::collection::vec("-{0,2}[a-zA-Z@=:(),.*0-9-]{0,12}", 0..12)) {
        let _ = Args::parse(words.into_iter().map(OsString::from));
    }
}

#[test]
fn of_options_that_exclude_each_other_the_last_one_counts() {
    assert_eq!(parse("-shared -no-pie a.o").kind, OutputKind::DynamicExec);
    assert_eq!(parse("-no-pie -shared a.o").kind, OutputKind::Shared);
    assert_eq!(parse("-shared -pie a.o").kind, OutputKind::Pie);
    assert_eq!(
        parse("--strip-all --strip-debug a.o").strip,
        StripMode::Debug
    );
    assert_eq!(parse("-S -s a.o").strip, StripMode::All);
}

#[test]
fn what_is_open_at_the_end_ends_there() {
    let args = parse("a.o --start-lib b.o");
    assert_eq!(state_of(&args, "a.o").lib, None);
    assert_eq!(state_of(&args, "b.o").lib, Some(1));
    let args = parse("--start-group a.a b.a");
    assert_eq!(state_of(&args, "b.a").group, Some(1));
}

#[test]
fn hints_about_the_order_of_functions_are_answered_by_a_warning() {
    let args = parse("--symbol-ordering-file order.txt a.o");
    assert_eq!(files(&args), ["a.o"]);
    assert_eq!(
        args.warnings,
        ["--symbol-ordering-file has no effect: functions are not ordered by a file"]
    );
    assert!(args.unsupported.is_empty());
}

#[test]
fn metadata_may_be_encoded() {
    for (given, decoded) in [
        (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
        ("%7b%22a%22:%22b%25%22%7D", r#"{"a":"b%"}"#),
        (
            "%[lbrace]%[quot]a%[quot]:%[quot]b%[space]c%[quot]%[comma]%[quot]d%[quot]:1%[rbrace]",
            r#"{"a":"b c","d":1}"#,
        ),
        ("[comma]", "[comma]"),
    ] {
        let args = parse(&format!("--package-metadata={given} a.o"));
        assert_eq!(args.package_metadata.as_deref(), Some(decoded.as_bytes()));
    }
}

#[test]
fn page_sizes_fit_each_other() {
    let said = problem("-z common-page-size=0x4000 -z max-page-size=0x1000 a.o");
    assert_eq!(
        said,
        "common page size (0x4000) > maximum page size (0x1000)"
    );
    parse("-z common-page-size=0x4000 -z max-page-size=0x4000 a.o");
    parse("-z common-page-size=0x4000 a.o");
    parse("-z max-page-size=0x800 a.o");
}
