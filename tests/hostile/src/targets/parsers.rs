//! The parsers, each by itself.

use bumpalo::Bump;
use linker::args::{Args, help};
use linker::input::elf_object::ElfObject;
use linker::input::scripts;
use linker::input::shared_object::Shared;
use linker::repository::import::prepare;
use linker::repository::join::join;
use linker::script::expr::{Constant, SectionQuery};
use linker::script::version_script::{Matcher, parse, parse_dynamic_list, parse_prefix};
use linker::script::{self, Command, Environment, EvalError, Loader, SectionsCommand, Value};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use tickets::archive::{Archive, MemberBody};

/// All members, all of the symbol index, every member that it names.
pub fn archive(data: &[u8]) {
    let Ok(archive) = Archive::parse(data) else {
        return;
    };
    let mut end = 0;
    for member in archive.members() {
        let Ok(member) = member else { break };
        if let MemberBody::Inline(range) = &member.body {
            assert!(range.start as u64 >= member.header_offset && range.end <= data.len());
            assert!(archive.inline_data(&member).is_some());
        }
        assert!(member.header_offset >= end, "members do not overlap");
        end = member.header_offset + 60;
        let again = archive.member_at(member.header_offset);
        assert!(again.is_ok_and(|again| again == member));
        member.thin_path(Path::new("dir/lib.a"));
    }
    for symbol in archive.symbols().into_iter().flatten() {
        let Ok((_, offset)) = symbol else { break };
        let _ = archive.member_at(offset);
    }
}

/// One word a line. `@` is left out, so that no file of this machine is opened.
pub fn args(data: &[u8]) {
    let words = data.split(|byte| *byte == b'\n');
    let words = words.filter(|word| !word.starts_with(b"@"));
    if let Ok(args) = Args::parse(words.map(|word| OsString::from_vec(word.to_vec()))) {
        help::information(&args, "ld", || scripts::tell(&args));
        for defsym in &args.defsyms {
            let _ = script::parse_expr(&defsym.expr, "--defsym");
        }
    }
}

/// Split into fragments, digested, joined again. What was joined is an object that can be split. (Not always into the
/// same compilation: an empty section of the kind that assemblers write always is left out once nothing else stands
/// in its place.)
pub fn object(data: &[u8]) {
    if let Ok(mut object) = ElfObject::parse(data) {
        let _ = object.expand();
    }
    let arena = Bump::new();
    let Ok((prepared, _)) = prepare(Path::new("fuzzed.o"), data, &arena) else {
        return;
    };
    let Ok(joined) = join(&prepared.compilation) else {
        return;
    };
    let again = prepare(Path::new("joined.o"), &joined, &arena);
    assert!(again.is_ok(), "{:?}", again.err());
}

/// Everything that the linker asks of a shared object.
pub fn shared(data: &[u8]) {
    let Ok(shared) = Shared::parse(data, b"libfuzzed.so") else {
        return;
    };
    for index in 0..shared.syms.len() as u32 {
        shared.name(index);
        if shared.is_defined(index) {
            shared.is_default(index);
            shared.version(index);
            shared.alignment(index);
            shared.is_read_only(index);
        }
    }
    shared.defined_versions().count();
}

/// Parsed, and asked about a few names and about the script's own words.
pub fn version_script(data: &[u8]) {
    const NAMES: [&[u8]; 6] = [
        b"",
        b"foo",
        b"_ZN2ns3fooEv",
        b"_ZNSt6vectorIiSaIiEE9push_backEOi",
        b"_Z",
        b"\xff*",
    ];
    if let Ok(script) = parse(data) {
        let matcher = Matcher::new(&script.nodes);
        let own = data.split(|byte| b" \n\t;{}\"".contains(byte)).take(16);
        for name in NAMES.into_iter().chain(own) {
            if let Some(verdict) = matcher.find(name) {
                assert!((verdict.node as usize) < script.nodes.len());
            }
        }
        script.literal_globals().count();
    }
    if let Ok((_, length)) = parse_prefix(data) {
        assert!(length <= data.len());
    }
    if let Ok(patterns) = parse_dynamic_list(data) {
        let matcher = Matcher::of_list(&patterns);
        assert!(!matcher.is_empty() || NAMES.iter().all(|name| !matcher.matches(name)));
    }
}

/// Includes nothing but the script itself, which must end.
struct Itself<'a>(&'a [u8]);

impl Loader for Itself<'_> {
    fn load(&mut self, name: &[u8]) -> Result<(String, Vec<u8>), String> {
        if name == b"self" {
            Ok(("self".into(), self.0.to_vec()))
        } else {
            Err("no such file".into())
        }
    }
}

struct World;

impl Environment for World {
    fn dot(&self) -> Option<Value> {
        Some(Value::Relative {
            section: 0,
            offset: 0x123,
        })
    }
    fn symbol(&self, name: &[u8]) -> Result<Value, EvalError> {
        match name.first() {
            Some(b'u') => Err(EvalError::UndefinedSymbol("u".into())),
            Some(b'r') => Ok(Value::Relative {
                section: 1,
                offset: 1 << 40,
            }),
            _ => Ok(Value::Absolute(name.len() as u64)),
        }
    }
    fn is_defined(&self, name: &[u8]) -> bool {
        name.first() != Some(&b'u')
    }
    fn section(&self, _: SectionQuery, _: &[u8]) -> Result<Value, EvalError> {
        Ok(Value::Relative {
            section: 1,
            offset: 0,
        })
    }
    fn section_address(&self, section: u32) -> Result<u64, EvalError> {
        Ok(u64::from(section) << 62)
    }
    fn region(&self, _: &[u8]) -> Option<(u64, u64)> {
        Some((u64::MAX, u64::MAX))
    }
    fn numbers_are_addresses(&self) -> bool {
        true
    }
    fn constant(&self, _: Constant) -> u64 {
        4096
    }
}

/// Parsed, and every assignment's expression evaluated.
pub fn script(data: &[u8]) {
    let Ok(script) = script::parse(data, "fuzz.ld", &mut Itself(data)) else {
        return;
    };
    for command in &script.commands {
        match command {
            Command::Assign(assignment) => drop(assignment.expr.resolve(&World)),
            Command::Assert(assertion) => drop(assertion.expr.resolve(&World)),
            Command::Sections(commands) => commands.iter().for_each(evaluate),
            _ => {}
        }
    }
}

fn evaluate(command: &SectionsCommand) {
    match command {
        SectionsCommand::Assign(assignment) => drop(assignment.expr.resolve(&World)),
        SectionsCommand::Section(section) => {
            let expressions = [&section.address, &section.at, &section.align];
            for expr in expressions.into_iter().flatten() {
                let _ = expr.resolve(&World);
            }
        }
        _ => {}
    }
}
