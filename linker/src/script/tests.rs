use super::expr::{Constant, SectionQuery};
use super::*;

fn script(text: &str) -> Script {
    parse(text.as_bytes(), "s.ld", &mut NoIncludes)
        .unwrap_or_else(|error| panic!("{error}\nin {text}"))
}

fn problem(text: &str) -> String {
    match parse(text.as_bytes(), "s.ld", &mut NoIncludes) {
        Ok(script) => panic!("no error in {text}: {script:?}"),
        Err(error) => error.to_string(),
    }
}

fn sections(text: &str) -> Vec<SectionsCommand> {
    let script = script(&format!("SECTIONS {{ {text} }}"));
    match script.commands.into_iter().next() {
        Some(Command::Sections(commands)) => commands,
        other => panic!("{other:?}"),
    }
}

fn section(text: &str) -> OutputSection {
    match sections(text).into_iter().next() {
        Some(SectionsCommand::Section(section)) => *section,
        other => panic!("{other:?}"),
    }
}

fn input(text: &str) -> InputSpec {
    match section(&format!(".x : {{ {text} }}"))
        .commands
        .into_iter()
        .next()
    {
        Some(SectionCommand::Input(spec)) => spec,
        other => panic!("{other:?}"),
    }
}

fn shown(names: &[Name]) -> Vec<String> {
    names
        .iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// An environment with a location counter, one section and a few symbols.
struct World {
    dot: Option<Value>,
    inside: bool,
}

const WORLD: World = World {
    dot: Some(Value::Absolute(0x1234)),
    inside: false,
};

impl Environment for World {
    fn dot(&self) -> Option<Value> {
        self.dot
    }
    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError> {
        match name {
            b"bar" => Ok(Value::Absolute(5)),
            b"foo" => Ok(Value::Absolute(3)),
            b"rel" => Ok(Value::Relative {
                section: 1,
                offset: 7,
            }),
            b"rel2" => Ok(Value::Relative {
                section: 1,
                offset: 0x10,
            }),
            b"far" => Ok(Value::Relative {
                section: 2,
                offset: 1,
            }),
            _ => Err(EvalError::UndefinedSymbol(
                String::from_utf8_lossy(name).into_owned(),
            )),
        }
    }
    fn is_defined(&self, name: &[u8]) -> bool {
        self.symbol(name).is_ok()
    }
    fn section(&self, query: SectionQuery, name: &[u8]) -> Result<Value, EvalError> {
        match (name, query) {
            (b".text", SectionQuery::Address) => Ok(Value::Relative {
                section: 1,
                offset: 0,
            }),
            (b".text", SectionQuery::LoadAddress) => Ok(Value::Absolute(0x8000)),
            (b".text", SectionQuery::Size) => Ok(Value::Absolute(0x123)),
            (b".text", SectionQuery::Alignment) => Ok(Value::Absolute(16)),
            _ => Err(EvalError::UndefinedSection(
                String::from_utf8_lossy(name).into_owned(),
            )),
        }
    }
    fn section_address(&self, section: u32) -> Result<u64, EvalError> {
        Ok(u64::from(section) * 0x1001)
    }
    fn region(&self, name: &[u8]) -> Option<(u64, u64)> {
        (name == b"ram").then_some((0x2000_0000, 0x1_0000))
    }
    fn numbers_are_addresses(&self) -> bool {
        !self.inside
    }
    fn constant(&self, constant: Constant) -> u64 {
        match constant {
            Constant::MaxPageSize => 0x1000,
            Constant::CommonPageSize => 0x800,
        }
    }
}

fn value(text: &str) -> Result<u64, String> {
    let expr = parse_expr(text.as_bytes(), "--defsym").map_err(|error| error.to_string())?;
    expr.resolve(&WORLD).map_err(|error| error.to_string())
}

#[test]
fn values_as_gnu_ld_computes_them() {
    for (text, expected) in [
        ("bar+1", 6),
        ("bar-foo", 2),
        ("bar-1", 4),
        ("bar*2", 10),
        ("bar?foo:1", 3),
        ("(bar>foo)?foo:1", 3),
        ("10h", 0x10),
        ("11b", 3),
        ("17o", 15),
        ("12d", 12),
        ("010", 8),
        ("$ff", 0xff),
        ("0XfF", 0xff),
        ("4K+1", 4097),
        ("2M", 2 << 20),
        ("0x10K", 0x4000),
        ("1 ? 2 ? 3 : 4 : 5", 3),
        ("0 ? 1 : 0 ? 2 : 3", 3),
        ("-1 >> 60", 15),
        ("-6/3", -2i64 as u64),
        ("-7 % 3", -1i64 as u64),
        ("!5 + ~0", u64::MAX),
        ("2 == 2 == 1", 1),
        ("-1 > 1", 1),
        ("LOG2CEIL(9)", 4),
        ("LOG2CEIL(0)", 0),
        ("LOG2CEIL(8)", 3),
        ("+3", 3),
        ("MAX(1,-1)", u64::MAX),
        ("MIN(1,-1)", 1),
        ("ALIGN(5,4)", 8),
        ("ALIGN(5,3)", 6),
        ("ALIGN(5,0)", 5),
        ("ALIGN(0x1000)", 0x2000),
        ("BLOCK(0x100)", 0x1300),
        ("NEXT(0x100)", 0x1300),
        ("SEGMENT_START(\"text\", 7)", 7),
        ("CONSTANT(MAXPAGESIZE)", 0x1000),
        ("CONSTANT (COMMONPAGESIZE)", 0x800),
        ("1 && 2 || 0", 1),
        ("0 && undefined", 0),
        ("1 || undefined", 1),
        ("6 & 3 == 3", 0),
        ("1 | 2 ^ 2 & 3 << 1 + 1", 3),
        ("8 - 4 - 2", 2),
        ("64 / 4 / 2", 8),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("- - 3", 3),
        ("1 << 3 > 7", 1),
        (".", 0x1234),
        (".+1", 0x1235),
        ("SIZEOF(.text) + ALIGNOF(.text)", 0x133),
        ("LOADADDR(.text)", 0x8000),
        ("ADDR(.text)", 0x1001),
        ("DEFINED(foo) ? foo : 9", 3),
        ("DEFINED(nope) ? nope : 9", 9),
        ("ORIGIN(ram) + LENGTH(ram) - 4", 0x2000_fffc),
        ("ASSERT(1, \"fine\") + 1", 2),
        ("DATA_SEGMENT_ALIGN(0x1000, 0x1000)", 0x2234),
        ("DATA_SEGMENT_END(.)", 0x1234),
        ("DATA_SEGMENT_RELRO_END(0, .)", 0x1234),
        ("\"foo\" + \"bar\"", 8),
    ] {
        assert_eq!(value(text), Ok(expected), "{text}");
    }
}

#[test]
fn expressions_without_a_value() {
    for (text, expected) in [
        ("5/0", "division by zero in expression"),
        ("5 % (3 - 3)", "division by zero in expression"),
        ("1 << 64", "shift by 64 bits in expression: values have 64"),
        (
            "nope + 1",
            "undefined symbol 'nope' referenced in expression",
        ),
        ("SIZEOF(.nope)", "undefined section '.nope' in expression"),
        ("ORIGIN(rom)", "undefined memory region 'rom' in expression"),
        ("ASSERT(foo == 4, \"foo is wrong\")", "foo is wrong"),
        (
            "SIZEOF_HEADERS",
            "SIZEOF_HEADERS is not known yet at this point of the link",
        ),
        (
            "CONSTANT(FOO)",
            "--defsym:1: unknown constant 'FOO': expected MAXPAGESIZE or COMMONPAGESIZE",
        ),
        (
            "1 +",
            "--defsym:1: expected an expression, found the end of the file",
        ),
        (
            "1 2",
            "--defsym:1: expected the end of the expression, found '2'",
        ),
        ("(1", "--defsym:1: expected ')', found the end of the file"),
        ("09", "--defsym:1: malformed number '09'"),
        ("0x", "--defsym:1: malformed number '0x'"),
        ("12q", "--defsym:1: malformed number '12q'"),
        (
            "18446744073709551616",
            "--defsym:1: number '18446744073709551616' does not fit into 64 bits",
        ),
        (
            "0xffffffffffffffffK",
            "--defsym:1: number '0xffffffffffffffffK' does not fit into 64 bits",
        ),
        (
            "frob(1)",
            "--defsym:1: unknown function 'frob' in expression",
        ),
        (
            "",
            "--defsym:1: expected an expression, found the end of the file",
        ),
    ] {
        assert_eq!(value(text), Err(expected.to_string()), "{text}");
    }
    let no_dot = World {
        dot: None,
        inside: false,
    };
    assert_eq!(
        parse_expr(b".", "x").unwrap().eval(&no_dot),
        Err(EvalError::NoDot)
    );
}

#[test]
fn sections_of_expressions() {
    let eval = |text: &str, inside| {
        parse_expr(text.as_bytes(), "x")
            .unwrap()
            .eval(&World { inside, ..WORLD })
            .unwrap()
    };
    let relative = |offset| Value::Relative { section: 1, offset };
    // Section 1 is at 0x1001, section 2 at 0x2002.
    for (text, outside, inside) in [
        ("rel + 4", relative(11), relative(11)),
        ("4 + rel", relative(11), relative(11)),
        ("rel - 4", relative(3), relative(3)),
        ("rel2 - rel", Value::Absolute(9), Value::Absolute(9)),
        ("rel < rel2", Value::Absolute(1), Value::Absolute(1)),
        ("rel & ~3", Value::Absolute(0x1008), relative(4)),
        ("rel * 2", Value::Absolute(0x2010), relative(14)),
        ("far - rel", Value::Absolute(0xffb), Value::Absolute(0xffb)),
        (
            "ABSOLUTE(rel)",
            Value::Absolute(0x1008),
            Value::Absolute(0x1008),
        ),
        ("rel == 0x1008", Value::Absolute(1), Value::Absolute(1)),
        ("ADDR(.text)", relative(0), relative(0)),
        ("!rel", Value::Absolute(0), Value::Absolute(0)),
        ("MAX(rel, rel2)", relative(16), relative(16)),
        (
            "MAX(rel, far)",
            Value::Absolute(0x2003),
            Value::Absolute(0x2003),
        ),
    ] {
        assert_eq!(eval(text, false), outside, "{text} outside");
        assert_eq!(eval(text, true), inside, "{text} inside");
    }
    // ALIGN is of the address, though the location counter is relative.
    let dot = World {
        dot: Some(relative(3)),
        inside: true,
    };
    assert_eq!(
        parse_expr(b"ALIGN(16)", "x").unwrap().eval(&dot),
        Ok(relative(0xf))
    );
}

#[test]
fn deep_expressions_are_errors() {
    let depth = 100_000;
    for text in [
        "(".repeat(depth),
        "-".repeat(depth) + "1",
        "1?".repeat(depth),
        "MAX(".repeat(depth),
        "1+".repeat(depth) + "1",
    ] {
        assert!(
            value(&text).unwrap_err().contains("nested too deeply"),
            "{}",
            &text[..8]
        );
    }
    assert_eq!(value(&("1+".repeat(300) + "1")), Ok(301));
}

#[test]
fn the_scripts_that_glibc_installs() {
    let libc = script(
        "/* GNU ld script\n   Use the shared library. */\nOUTPUT_FORMAT(elf64-x86-64)\n\
         GROUP ( /lib/x86_64-linux-gnu/libc.so.6 /usr/lib/x86_64-linux-gnu/libc_nonshared.a  AS_NEEDED ( /lib64/ld-linux-x86-64.so.2 ) )\n",
    );
    assert!(
        matches!(&libc.commands[0], Command::OutputFormat(formats, _) if formats.default == b"elf64-x86-64")
    );
    let Command::Group(files) = &libc.commands[1] else {
        panic!("{libc:?}")
    };
    let files: Vec<_> = files
        .iter()
        .map(|file| (String::from_utf8_lossy(&file.name), file.as_needed))
        .collect();
    assert_eq!(
        files,
        [
            ("/lib/x86_64-linux-gnu/libc.so.6".into(), false),
            ("/usr/lib/x86_64-linux-gnu/libc_nonshared.a".into(), false),
            ("/lib64/ld-linux-x86-64.so.2".into(), true),
        ]
    );
    let ncurses =
        script("INPUT(libncurses.so.6 -ltinfo, -l:exact.a AS_NEEDED(-lm) =/x.so \"with space\")");
    let Command::Input(files) = &ncurses.commands[0] else {
        panic!()
    };
    let files: Vec<_> = files
        .iter()
        .map(|file| {
            (
                String::from_utf8_lossy(&file.name).into_owned(),
                file.is_library,
                file.as_needed,
            )
        })
        .collect();
    let expected = [
        ("libncurses.so.6", false, false),
        ("tinfo", true, false),
        (":exact.a", true, false),
        ("m", true, true),
        ("=/x.so", false, false),
        ("with space", false, false),
    ];
    assert_eq!(
        files,
        expected.map(|(name, library, needed)| (name.to_string(), library, needed))
    );
}

#[test]
fn simple_commands() {
    let script = script(
        "OUTPUT_FORMAT(\"elf64-x86-64\", \"elf64-x86-64\", \"elf64-x86-64\") OUTPUT_ARCH(i386:x86-64) ENTRY(_start)\n\
         SEARCH_DIR(\"=/usr/local/lib\"); SEARCH_DIR(/x/y) OUTPUT(a.out) TARGET(elf64-x86-64) STARTUP(crt.o)\n\
         EXTERN(a b, c) LD_FEATURE(\"SANE_EXPR\") NOCROSSREFS(.a .b) NOCROSSREFS_TO(.a .b .c)\n\
         FORCE_COMMON_ALLOCATION INHIBIT_COMMON_ALLOCATION FORCE_GROUP_ALLOCATION\n\
         REGION_ALIAS(\"R\", ram); VERSION { V1 { a; local: *; }; } INSERT AFTER .text; ASSERT(1, \"no\")\n",
    );
    assert_eq!(script.commands.len(), 19);
    assert!(
        script.commands.iter().any(
            |command| matches!(command, Command::OutputArch(name, _) if name == b"i386:x86-64")
        )
    );
    assert!(
        script.commands.iter().any(
            |command| matches!(command, Command::SearchDir(name) if name == b"=/usr/local/lib")
        )
    );
    assert!(
        script.commands.iter().any(
            |command| matches!(command, Command::Version(version) if version.nodes.len() == 1)
        )
    );
    assert!(script.commands.iter().any(
        |command| matches!(command, Command::Insert { after: true, section, pos } if section == b".text" && script.place(*pos) == "s.ld:5")
    ));
    let Some(Command::Extern(names)) = script
        .commands
        .iter()
        .find(|command| matches!(command, Command::Extern(_)))
    else {
        panic!()
    };
    assert_eq!(shown(names), ["a", "b", "c"]);
}

#[test]
fn assignments() {
    let script = script(
        "a = 1; b+=2; c -=3 ; d<<=4;e>>=5;f*=6;g/=7;h&=8;i|=9;\"x y\"=1;x-y = 2; PROVIDE(p = .); HIDDEN(q = 1) PROVIDE_HIDDEN(r = 2);",
    );
    let shown: Vec<_> = script
        .commands
        .iter()
        .map(|command| match command {
            Command::Assign(Assignment {
                target: Target::Symbol(name),
                op,
                provide,
                hidden,
                ..
            }) => (
                String::from_utf8_lossy(name).into_owned(),
                *op,
                *provide,
                *hidden,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    let plain = |name: &str, op| (name.to_string(), op, false, false);
    assert_eq!(
        shown,
        [
            plain("a", AssignOp::Set),
            plain("b", AssignOp::Add),
            plain("c", AssignOp::Sub),
            plain("d", AssignOp::Shl),
            plain("e", AssignOp::Shr),
            plain("f", AssignOp::Mul),
            plain("g", AssignOp::Div),
            plain("h", AssignOp::And),
            plain("i", AssignOp::Or),
            plain("x y", AssignOp::Set),
            plain("x-y", AssignOp::Set),
            ("p".into(), AssignOp::Set, true, false),
            ("q".into(), AssignOp::Set, false, true),
            ("r".into(), AssignOp::Set, true, true),
        ]
    );
}

#[test]
fn all_of_an_output_section() {
    let text = ".data 0x1000 + 8 (NOLOAD) : ALIGN(16) SUBALIGN(8) ONLY_IF_RW \
                { *(.data) . = ALIGN(8); x = .; BYTE(1) SHORT(2); LONG(x) QUAD(4) SQUAD(5) FILL(0x00ff) ASCIZ \"hi\" \
                CONSTRUCTORS SORT(CONSTRUCTORS) CREATE_OBJECT_SYMBOLS ASSERT(1, \"m\"); } \
                >ram AT>rom :text :data =0x90909090, .next : AT(ADDR(.text) + 1) { }";
    let commands = sections(text);
    assert_eq!(commands.len(), 2);
    let section = section(text);
    assert_eq!(
        (section.name.as_slice(), section.kind, section.constraint),
        (&b".data"[..], SectionType::NoLoad, Constraint::OnlyIfRw)
    );
    assert!(
        section.address.is_some()
            && section.at.is_none()
            && section.align.is_some()
            && section.subalign.is_some()
    );
    assert_eq!(
        (section.region.as_deref(), section.lma_region.as_deref()),
        (Some(&b"ram"[..]), Some(&b"rom"[..]))
    );
    assert_eq!(shown(&section.phdrs), ["text", "data"]);
    assert_eq!(section.fill, Some(Fill::Pattern(vec![0x90; 4])));
    let kinds: Vec<_> = section
        .commands
        .iter()
        .map(|command| match command {
            SectionCommand::Input(_) => "input".to_string(),
            SectionCommand::Assign(_) => "assign".into(),
            SectionCommand::Assert(_) => "assert".into(),
            SectionCommand::Data { size, .. } => format!("data{size}"),
            SectionCommand::Text(text) => format!("{text:?}"),
            SectionCommand::Fill(Fill::Pattern(bytes)) => format!("{bytes:x?}"),
            SectionCommand::Fill(Fill::Expr(_)) => "fill".into(),
            SectionCommand::CreateObjectSymbols(_) => "objects".into(),
            SectionCommand::Constructors => "constructors".into(),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "input",
            "assign",
            "assign",
            "data1",
            "data2",
            "data4",
            "data8",
            "data8",
            "[0, ff]",
            "[104, 105, 0]",
            "constructors",
            "constructors",
            "objects",
            "assert"
        ]
    );
}

#[test]
fn types_and_fills_of_output_sections() {
    assert_eq!(section(".x (INFO) : {}").kind, SectionType::NotAllocated);
    assert_eq!(section(".x 0 (COPY) : {}").kind, SectionType::NotAllocated);
    assert_eq!(section(".x () : {}").kind, SectionType::Normal);
    let typed = section(".x . (READONLY (TYPE = SHT_NOTE)) : {}");
    assert_eq!(
        (typed.readonly, typed.elf_type, typed.address),
        (true, Some(Expr::Number(7)), Some(Expr::Dot))
    );
    assert_eq!(
        section(".x (TYPE=SHT_INIT_ARRAY):{}").elf_type,
        Some(Expr::Number(14))
    );
    assert!(section(".x (1 + 2) * 4 : {}").address.is_some());
    assert!(
        section(".x : { } =0x90+1")
            .fill
            .is_some_and(|fill| matches!(fill, Fill::Expr(_)))
    );
    assert_eq!(
        section(".x : { } =0x00123").fill,
        Some(Fill::Pattern(vec![0, 1, 0x23]))
    );
    assert!(matches!(
        section(".x : { } =1").fill,
        Some(Fill::Expr(Expr::Number(1)))
    ));
    assert_eq!(sections(".x : { } =0x90 /DISCARD/ : { *(.y) }").len(), 2);
    assert!(section("/DISCARD/ : { *(*) }").is_discard());
    assert_eq!(section("\"a b\" : {}").name, b"a b");
    assert!(section(".x : ALIGN_WITH_INPUT { }").align_with_input);
    assert_eq!(section(".text: { }").name, b".text");
}

#[test]
fn input_section_descriptions() {
    let spec = input(
        "KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*) SORT(.ctors) .init_array EXCLUDE_FILE (*crtend.o *:x.o) .dtors))",
    );
    assert!(spec.keep && spec.file.is_all());
    let list = spec.sections.unwrap();
    let sorts: Vec<_> = list
        .iter()
        .map(|pattern| (pattern.sort, pattern.exclude.len()))
        .collect();
    assert_eq!(
        sorts,
        [
            (Sort::InitPriority, 0),
            (Sort::Name, 0),
            (Sort::Default, 0),
            (Sort::Default, 2)
        ]
    );
    assert!(list[0].pattern.matches(b".init_array.5") && !list[0].pattern.matches(b".init_array"));

    let nested = input(
        "*(SORT_BY_NAME(SORT_BY_ALIGNMENT(.a)) SORT_BY_ALIGNMENT(SORT(.b)) SORT(SORT(.c)) SORT_NONE(.d))",
    );
    let sorts: Vec<_> = nested
        .sections
        .unwrap()
        .iter()
        .map(|pattern| pattern.sort)
        .collect();
    assert_eq!(
        sorts,
        [
            Sort::NameAlignment,
            Sort::AlignmentName,
            Sort::Name,
            Sort::None
        ]
    );

    let all = input("data.o");
    assert!(all.sections.is_none() && all.file.matches(b"data.o", None));
    let flags = input(
        "INPUT_SECTION_FLAGS (SHF_MERGE & !SHF_WRITE & SHF_STRINGS) EXCLUDE_FILE(b.o) *(.text, .data)",
    );
    assert_eq!(
        flags.flags,
        SectionFlags {
            with: 0x30,
            without: 1
        }
    );
    assert_eq!((flags.exclude.len(), flags.sections.unwrap().len()), (1, 2));
    let sorted = input("SORT_BY_NAME(*.o)(.x)");
    assert_eq!(sorted.file_sort, Sort::Name);
    let common = input("[COMMON]").sections.unwrap();
    assert!(common[0].pattern.matches(b"COMMON"));
    assert!(input("[A-Z]*(.data)").file.matches(b"Foo.o", None));
    assert!(input("*/dir/*.o(.data)").file.matches(b"a/dir/x.o", None));
}

#[test]
fn archives_in_patterns() {
    let file = |text: &str| input(&format!("{text}(.text)")).file;
    let in_archive = |pattern: &str, file_name: &str, archive: Option<&str>| {
        file(pattern).matches(file_name.as_bytes(), archive.map(str::as_bytes))
    };
    assert!(in_archive("*libgcc.a:*", "x.o", Some("/usr/libgcc.a")));
    assert!(!in_archive("*libgcc.a:*", "x.o", None));
    assert!(in_archive("*libgcc.a:", "x.o", Some("libgcc.a")));
    assert!(
        in_archive("*lib.a:a.o", "a.o", Some("lib.a"))
            && !in_archive("*lib.a:a.o", "b.o", Some("lib.a"))
    );
    assert!(in_archive(":x.o", "x.o", None) && !in_archive(":x.o", "x.o", Some("lib.a")));
    // A name without wildcards is a file's, not a member's.
    assert!(in_archive("*x.o", "x.o", Some("lib.a")) && !in_archive("x.o", "x.o", Some("lib.a")));
    assert!(file("x.o").excludes(b"x.o", Some(b"lib.a")));
    // Quotes make no difference.
    assert!(in_archive("\"lib.a:*x.o\"", "ax.o", Some("lib.a")));
    assert!(in_archive("\"*x.o\"", "ax.o", None));
    assert!(
        !file("*lib.a").matches(b"x.o", Some(b"lib.a"))
            && file("*lib.a").excludes(b"x.o", Some(b"lib.a"))
    );
}

#[test]
fn memory_and_program_headers() {
    let script = script(
        "MEMORY { rom (rx)  : ORIGIN = 0, LENGTH = 256K\n ram (!rx) : org = 0x40000000, l = 4M\n x (w!x) : o = 1, len = 2 plain : ORIGIN = 3 LENGTH = 4 }\n\
         PHDRS { headers PT_PHDR PHDRS ; text PT_LOAD FILEHDR PHDRS AT(0x10) FLAGS(5); odd 0x6474e551 ; }",
    );
    let Command::Memory(regions) = &script.commands[0] else {
        panic!()
    };
    let read_only = Attributes::READ_ONLY | Attributes::EXECUTABLE;
    assert_eq!(
        regions[0].attributes,
        RegionAttributes {
            any: read_only,
            none: Attributes::empty()
        }
    );
    assert_eq!(
        regions[1].attributes,
        RegionAttributes {
            any: Attributes::empty(),
            none: read_only
        }
    );
    assert_eq!(
        regions[2].attributes,
        RegionAttributes {
            any: Attributes::WRITABLE,
            none: Attributes::EXECUTABLE
        }
    );
    assert_eq!(
        (regions[0].length.as_number(), regions[1].origin.as_number()),
        (Some(256 << 10), Some(0x4000_0000))
    );
    assert_eq!(regions.len(), 4);
    let Command::Phdrs(headers) = &script.commands[1] else {
        panic!()
    };
    assert_eq!(
        (
            headers[0].kind.as_number(),
            headers[0].phdrs,
            headers[0].filehdr
        ),
        (Some(6), true, false)
    );
    assert!(headers[1].filehdr && headers[1].at.is_some() && headers[1].flags.is_some());
    assert_eq!(headers[2].kind.as_number(), Some(0x6474_e551));
}

#[test]
fn overlays() {
    let commands = sections(
        "OVERLAY 0x1000 : NOCROSSREFS AT (0x4000) { .text0 { o1/*.o(.text) } :a =0x90 .text1 { o2/*.o(.text) } } >ram :p =1 . = 4;",
    );
    let SectionsCommand::Overlay(overlay) = &commands[0] else {
        panic!()
    };
    assert!(overlay.start.is_some() && overlay.at.is_some() && overlay.no_cross_refs);
    assert_eq!(overlay.sections.len(), 2);
    assert_eq!(shown(&overlay.sections[0].phdrs), ["a"]);
    assert_eq!(overlay.region.as_deref(), Some(&b"ram"[..]));
    assert_eq!(commands.len(), 2);
}

/// Files by name.
struct Files(Vec<(&'static str, &'static str)>);

impl Loader for Files {
    fn load(&mut self, name: &[u8]) -> Result<(String, Vec<u8>), String> {
        let found = self.0.iter().find(|(file, _)| file.as_bytes() == name);
        found
            .map(|(file, text)| (format!("dir/{file}"), text.as_bytes().to_vec()))
            .ok_or("no such file".into())
    }
}

#[test]
fn includes() {
    let mut files = Files(vec![
        ("top.ld", "a = 1;\nINCLUDE nested.ld"),
        ("nested.ld", "\nb = ;"),
        ("sec.ld", ".t : { INCLUDE in.ld }"),
        ("in.ld", "*(.a) *(.b)"),
        ("mem.ld", "r : ORIGIN = 0, LENGTH = 1"),
        ("loop.ld", "INCLUDE loop.ld"),
        ("brace.ld", "}"),
    ]);
    let mut parsed =
        |text: &str| parse(text.as_bytes(), "s.ld", &mut files).map_err(|error| error.to_string());
    let script = parsed("SECTIONS { INCLUDE sec.ld }\nMEMORY { INCLUDE mem.ld }").unwrap();
    assert_eq!(
        script.files,
        ["s.ld", "dir/sec.ld", "dir/in.ld", "dir/mem.ld"]
    );
    assert!(matches!(&script.commands[0], Command::Sections(commands) if commands.len() == 1));
    assert_eq!(
        parsed("INCLUDE top.ld").unwrap_err(),
        "dir/nested.ld:2: expected an expression, found ';'"
    );
    assert_eq!(
        parsed("\nINCLUDE nope.ld").unwrap_err(),
        "s.ld:2: cannot include 'nope.ld': no such file"
    );
    assert!(
        parsed("INCLUDE loop.ld")
            .unwrap_err()
            .ends_with("INCLUDE is nested too deeply (does a script include itself?)")
    );
    assert_eq!(
        parsed("SECTIONS { INCLUDE brace.ld }").unwrap_err(),
        "dir/brace.ld:1: expected the end of the included file, found '}'"
    );
}

#[test]
fn errors_name_the_place_and_what_was_expected() {
    for (text, expected) in [
        (
            "FOO(1)",
            "s.ld:1: expected a command or an assignment, found 'FOO'",
        ),
        (
            "a = 1",
            "s.ld:1: expected ';' after the expression, found the end of the file",
        ),
        (
            "\n\na = 1 b = 2;",
            "s.ld:3: expected ';' after the expression, found 'b'",
        ),
        (
            "SECTIONS {\n.x { } }",
            "s.ld:2: expected an expression, found '{'",
        ),
        (
            "SECTIONS { .x : { *(.text }",
            "s.ld:1: expected a section or a pattern, found '}'",
        ),
        (
            "SECTIONS { .x : { BYTE 1 } }",
            "s.ld:1: expected '(', found '1'",
        ),
        (
            "SECTIONS { .x : { }",
            "s.ld:1: expected '}', found the end of the file",
        ),
        (
            "SECTIONS { .x : { *(SORT_BY_NAME(SORT_BY_INIT_PRIORITY(.x))) } }",
            "s.ld:1: these sorts cannot be nested: only SORT_BY_NAME and SORT_BY_ALIGNMENT, or REVERSE and one of the others, once",
        ),
        (
            "SECTIONS { .x : { *(SORT(SORT(SORT(.x)))) } }",
            "s.ld:1: sorts of sections can be nested once only",
        ),
        (
            "MEMORY { ram : LENGTH = 1 }",
            "s.ld:1: expected ORIGIN, found 'LENGTH'",
        ),
        (
            "MEMORY { ram (q) : ORIGIN = 1, LENGTH = 1 }",
            "s.ld:1: unknown attribute in 'q': expected some of r, w, x, a, i, l, !",
        ),
        (
            "GROUP(a AS_NEEDED(b AS_NEEDED(c)))",
            "s.ld:1: AS_NEEDED may not be nested",
        ),
        (
            "GROUP(a",
            "s.ld:1: expected a file or ')', found the end of the file",
        ),
        ("/* a\n", "s.ld:1: unclosed comment"),
        ("INPUT(\"a)", "s.ld:1: unterminated string"),
        (
            "VERSION {\nV { a b; }; }",
            "s.ld:2: expected ';', found 'b'",
        ),
        (
            "LD_FEATURE(\"X\")",
            "s.ld:1: unknown feature 'X': expected SANE_EXPR",
        ),
        (
            "OUTPUT_FORMAT(a, b)",
            "s.ld:1: OUTPUT_FORMAT takes one or three formats",
        ),
        ("\x01", "s.ld:1: unexpected character 0x01"),
        (
            "INCLUDE x",
            "s.ld:1: cannot include 'x': INCLUDE is not possible here",
        ),
        ("PHDRS { a PT_LOAD }", "s.ld:1: expected ';', found '}'"),
    ] {
        assert_eq!(problem(text), expected, "{text}");
    }
}

#[test]
fn comments_and_hashes() {
    assert_eq!(
        script("# a comment\na = 1; /* b = 2; \n */ c = 3; # d = 4;\n")
            .commands
            .len(),
        2
    );
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_script_or_an_error(text in "[ -~\\n]{0,200}") {
        let _ = parse(text.as_bytes(), "s.ld", &mut NoIncludes);
    }

    #[test]
    fn any_words_are_a_script_or_an_error(words in proptest::collection::vec(proptest::sample::select(vec![
        "SECTIONS", "{", "}", "(", ")", ":", ";", "=", "*", ".text", "KEEP", "SORT", "OVERLAY", "AT", ">", "1", "+", ".", "a",
        "MEMORY", "PHDRS", "VERSION", "INSERT", "ALIGN", "EXCLUDE_FILE", ",", "\"q\"", "?", "GROUP", "AS_NEEDED", "FILL",
    ]), 0..40)) {
        let _ = parse(words.join(" ").as_bytes(), "s.ld", &mut NoIncludes);
    }
}

/// The largest script that is at hand: GNU ld's own.
#[test]
fn the_default_script_of_gnu_ld() {
    let child = crate::base::children::start();
    let output = std::process::Command::new("ld").arg("--verbose").output();
    drop(child);
    let Ok(output) = output else {
        eprintln!("not run: there is no ld on this machine");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(default) = text
        .split("==================================================\n")
        .nth(1)
    else {
        eprintln!("not run: this machine's ld does not print a default script");
        return;
    };
    let script = script(default);
    let sections = script.commands.iter().find_map(|command| match command {
        Command::Sections(commands) => Some(commands),
        _ => None,
    });
    let names: Vec<_> = sections
        .unwrap()
        .iter()
        .filter_map(|command| match command {
            SectionsCommand::Section(section) => Some(String::from_utf8_lossy(&section.name)),
            _ => None,
        })
        .collect();
    for name in [
        ".interp",
        ".text",
        ".eh_frame",
        ".tdata",
        ".data",
        ".bss",
        ".debug_info",
        "/DISCARD/",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}");
    }
}
