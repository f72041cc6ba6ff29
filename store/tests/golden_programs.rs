//! A program repository that is the same bytes every time, read by a reader that was written from parts 2 and 3 of SPEC.md and
//! shares no code with this project (`golden/programs/mod.rs`).
//!
//! If the format changes, the new file is written with
//! `STORE_WRITE_GOLDEN=1 cargo test -p store --test golden_programs the_same_bytes`.

mod common;
#[path = "golden/programs/mod.rs"]
mod programs;
#[path = "golden/reader.rs"]
mod reader;

use common::{TestSystem, options};
use format_spec::canonical;
use format_spec::digest::Digest;
use format_spec::envelope::{Class, Envelope, Reference, Strength};
use format_spec::file::{IndexSlot, VectorSlot};
use format_spec::fragment::{FixupRecord, SectionKind, SectionRecord, WideFixupRecord};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::kinds::{BODY_VERSION, CompilerBody, Condition, TextKeeps};
use format_spec::program::{CompilationHeader, Index, SymbolRecord};
use format_spec::ticket::TicketNote;
use programs::{CIE, EXTENDED, Fixup, PACKED, Programs, SUFFIXED, Summary, WIDE};
use std::path::Path;
use store::engine::{Durability, Reader as _, Store};
use store::program::build::{
    Compilation, Fixups, Fragment, FrameDescription, Group, Name, Piece, Place, Plain, Section,
    Symbol, Target,
};
use store::program::manifest::{NewResult, record_result};
use store::program::{
    Addition, NewImage, NewImageInput, Prepared, Repository, insert_enveloped, record_image,
    replace_enveloped,
};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/programs.bin");

/// Makes compilations, a member at a time.
struct Builder {
    made: Compilation<'static>,
}

impl Builder {
    fn new() -> Builder {
        Builder {
            made: Compilation {
                machine: 62,
                names: vec![b""],
                ..Compilation::default()
            },
        }
    }

    fn name(&mut self, name: &'static [u8]) -> Name {
        let known = self.made.names.iter().position(|known| *known == name);
        Name(known.unwrap_or_else(|| {
            self.made.names.push(name);
            self.made.names.len() - 1
        }) as u32)
    }

    /// Adds a member; its targets are bound to these symbols.
    fn member(
        &mut self,
        suffix: &'static [u8],
        targets: &[Target],
        bindings: &[(u32, u8)],
        plain: Option<Plain>,
        sections: impl IntoIterator<Item = Section<'static>>,
    ) {
        let suffix = self.name(suffix);
        let made = &mut self.made;
        let [first_section, first_target, first_binding] =
            [made.sections.len(), made.targets.len(), made.bindings.len()].map(|at| at as u32);
        made.sections.extend(sections);
        made.targets.extend_from_slice(targets);
        made.bindings
            .extend(bindings.iter().map(|(symbol, _)| symbol));
        made.uses.extend(bindings.iter().map(|(_, uses)| uses));
        made.fragments.push(Fragment {
            sections: first_section..made.sections.len() as u32,
            targets: first_target..made.targets.len() as u32,
            bindings: first_binding..made.bindings.len() as u32,
            suffix,
            group: 0,
            plain,
        });
    }

    fn section(
        &mut self,
        name: &'static [u8],
        kind: SectionKind,
        flags: u32,
        bytes: Vec<u8>,
        fixups: &[(u32, u32, Option<u32>, i32)],
    ) -> Section<'static> {
        let name = self.name(name);
        let first = self.made.fixups.len() as u32;
        for &(offset, fixup_type, target, addend) in fixups {
            let target = target.unwrap_or(FixupRecord::NO_TARGET);
            self.made.fixups.push(FixupRecord {
                offset,
                addend,
                target_and_type: target << 8 | fixup_type,
            });
        }
        Section {
            name,
            kind,
            sh_type: 1,
            sh_flags: flags,
            entsize: 0,
            align_log2: 4,
            bits: 0,
            link: 0,
            size: bytes.len() as u64,
            bytes: bytes.into(),
            fixups: Fixups::Narrow(first..self.made.fixups.len() as u32),
            frame: None,
        }
    }

    fn symbol(&mut self, name: &'static [u8], place: Place, value: u64, size: u64, info: u8) {
        let name = self.name(name);
        self.made.symbols.push(Symbol {
            name,
            place,
            value,
            size,
            info,
            other: 0,
            bits: 0,
        });
    }
}

/// The function `first`: calls, a table without a name, a global offset table, a string.
const CODE: &[u8] = b"\xe8\0\0\0\0\x48\x8d\x05\0\0\0\0\x48\x8b\x05\0\0\0\0\x48\x8d\x3d\0\0\0\0\xc3";
/// Its frame description: length, CIE pointer, address, extent, augmentation.
const FDE: &[u8] = b"\x14\0\0\0\0\0\0\0\0\0\0\0\x1b\0\0\0\x04\0\0\0\0\0\0\0";
const CIE_BYTES: &[u8] = b"\x10\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08";
const LARGE: usize = 33_000;
const HUGE: u64 = 5 << 30;
const GLOBALS: [&[u8]; 36] = [
    b"g00", b"g01", b"g02", b"g03", b"g04", b"g05", b"g06", b"g07", b"g08", b"g09", b"g10", b"g11",
    b"g12", b"g13", b"g14", b"g15", b"g16", b"g17", b"g18", b"g19", b"g20", b"g21", b"g22", b"g23",
    b"g24", b"g25", b"g26", b"g27", b"g28", b"g29", b"g30", b"g31", b"g32", b"g33", b"g34", b"g35",
];

fn large() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    bytes[LARGE - 4..].fill(0);
    bytes
}

/// Symbols of [`everything`], by their numbers.
const LOCAL: u32 = 2;
const TABLE: u32 = 3;
const CIE_SYMBOL: u32 = 4;
const TEXT: u32 = 5;
const FIRST: u32 = 6;
const CALLEE: u32 = 10;
const SHARED: u32 = 11;
const G00: u32 = 14;

/// One of everything that the model has.
#[allow(clippy::too_many_lines)] // one of each kind
fn everything() -> Compilation<'static> {
    let mut it = Builder::new();
    let [first, callee, shared, local] =
        [&b"first"[..], b"callee", b"shared", b"local"].map(|name| it.name(name));
    let words = |words, is_absolute| Some(Plain { is_absolute, words });

    // 0: a function with its frame description and exception table.
    let mut text = it.section(
        b".text",
        SectionKind::Text,
        6,
        CODE.to_vec(),
        &[
            (1, 4, Some(0), -4),
            (8, 2, Some(1), -4),
            (15, 42, Some(3), -4),
            (22, 2, Some(6), -4),
        ],
    );
    text.bits = SectionRecord::SUFFIXED;
    let mut fde = it.section(
        b".eh_frame",
        SectionKind::Unwind,
        2,
        FDE.to_vec(),
        &[
            (4, 255, Some(2), 0),
            (8, 2, Some(4), 0),
            (17, 2, Some(5), 0),
        ],
    );
    fde.frame = Some(FrameDescription {
        cie: 4,
        has_exception_table: true,
    });
    fde.align_log2 = 3;
    let table = b"\xff\xff\x01\0".to_vec();
    let lsda = it.section(
        b".gcc_except_table",
        SectionKind::ExceptionTable,
        2,
        table,
        &[],
    );
    let targets = [
        Target::Global(callee),
        Target::OwnAnonymous(1),
        Target::OwnAnonymous(2),
        Target::Global(shared),
        Target::Section(0),
        Target::Section(2),
        Target::Piece(0),
    ];
    let bindings = [(CALLEE, 2), (TABLE, 1), (CIE_SYMBOL, 0), (SHARED, 4)];
    it.member(
        b"first",
        &targets,
        &bindings,
        words(0, false),
        [text, fde, lsda],
    );

    // 1: a table of words without a name.
    let rodata = it.section(
        b".rodata",
        SectionKind::ReadOnly,
        2,
        vec![0; 16],
        &[(0, 1, Some(0), 0), (8, 1, Some(0), 4)],
    );
    it.member(
        b"",
        &[Target::Global(first)],
        &[(FIRST, 8)],
        words(2, false),
        [rodata],
    );

    // 2: a CIE.
    let mut cie = it.section(
        b".eh_frame",
        SectionKind::Unwind,
        2,
        CIE_BYTES.to_vec(),
        &[],
    );
    (cie.bits, cie.align_log2) = (SectionRecord::CIE, 3);
    it.member(b"", &[], &[], None, [cie]);

    // 3 and 4: one fragment twice, with an addend that cannot be packed; the first is in a group.
    for suffix in [&b"numbers"[..], b"more"] {
        let fixups = [(0, 10, Some(0), 0x7000_0000), (4, 11, Some(0), -1)];
        let mut data = it.section(b".data", SectionKind::Data, 3, vec![0; 8], &fixups);
        data.bits = SectionRecord::SUFFIXED;
        it.member(
            suffix,
            &[Target::Global(first)],
            &[(FIRST, 8)],
            words(0, true),
            [data],
        );
    }
    it.made.fragments[3].group = 1;
    let signature = it.name(b"numbers");
    it.made.groups = vec![Group {
        signature,
        flags: 1,
    }];

    // 5: more room than 32 bits can say.
    let bss = it.section(b".bss", SectionKind::Bss, 3, Vec::new(), &[]);
    let bss = Section {
        sh_type: 8,
        size: HUGE,
        align_log2: 12,
        ..bss
    };
    it.member(b"", &[], &[], words(0, false), [bss]);

    // 6: a section that goes with another one, with elements, and a fixup of the wide form.
    let notes = it.section(b".notes", SectionKind::Other, 0x82, vec![0; 8], &[]);
    it.made.wide_fixups = vec![WideFixupRecord {
        offset: 0,
        addend: 1 << 40,
        target: 0,
        fixup_type: 1,
    }];
    let notes = Section {
        link: 1,
        entsize: 4,
        fixups: Fixups::Wide(0..1),
        ..notes
    };
    it.member(
        b"",
        &[Target::OwnNamed(first)],
        &[(TEXT, 8)],
        words(1, false),
        [notes],
    );

    // 7: so large that its sections have checks of their own. It is not plain: nothing refers to its second section.
    let fixups = [(LARGE as u32 - 4, 2, Some(0), 0)];
    let large = it.section(b".rodata.large", SectionKind::ReadOnly, 2, large(), &fixups);
    let debug = it.section(
        b".debug_line",
        SectionKind::Debug,
        0,
        b"lines".to_vec(),
        &[],
    );
    it.member(
        b"",
        &[Target::Global(callee)],
        &[(CALLEE, 0)],
        None,
        [large, debug],
    );

    // 8: many targets, so that a large distance into its own section has a form of its own; and a fixup without a target.
    let mut targets = vec![Target::Local(local)];
    targets.extend(GLOBALS.map(|name| Target::Global(it.name(name))));
    targets.extend([Target::Section(0), Target::Piece(1)]);
    let far = targets.len() as u32 - 2;
    let fixups = [
        (0, 1, Some(36), -5),
        (8, 10, Some(far), 0x100_0000),
        (12, 10, Some(far), 1),
        (16, 1, Some(far + 1), 0),
        (24, 1, Some(0), 7),
        (32, 8, None, 0x1234),
    ];
    let mut bindings = vec![(LOCAL, 0)];
    bindings.extend((G00..G00 + 36).map(|symbol| (symbol, 0)));
    let info = it.section(b".debug_info", SectionKind::Debug, 0, vec![0; 40], &fixups);
    it.member(b"", &targets, &bindings, None, [info]);

    it.made.pieces = vec![
        Piece {
            section_name: it.name(b".rodata"),
            sh_flags: 0x32,
            entsize: 1,
            align_log2: 0,
            bytes: b"hello\0",
        },
        Piece {
            section_name: it.name(b".rodata"),
            sh_flags: 0x12,
            entsize: 8,
            align_log2: 3,
            bytes: b"\x18\x2d\x44\x54\xfb\x21\x09\x40",
        },
    ];
    it.made.digest_order = vec![2, 1, 0, 3, 4, 5, 6, 7, 8];

    it.symbol(b"", Place::Undefined, 0, 0, 0);
    it.symbol(b"\xff\x01", Place::Piece(0), 2, 0, 1);
    it.symbol(b"local", Place::Section(3), 8, 8, 1);
    for section in [3, 4, 0] {
        it.symbol(b"", Place::Section(section), 0, 0, 3);
    }
    it.symbol(b"first", Place::Section(0), 0, CODE.len() as u64, 0x12);
    it.symbol(b"numbers", Place::Section(5), 0, 8, 0x11);
    it.symbol(b"more", Place::Section(6), 0, 8, 0x11);
    it.symbol(b"huge", Place::Section(7), (1 << 32) + 8, HUGE - 8, 0x11);
    it.symbol(b"callee", Place::Undefined, 0, 0, 0x10);
    it.symbol(b"shared", Place::Undefined, 0, 0, 0x20);
    it.symbol(b"absolute", Place::Absolute, 1 << 40, 0, 0x10);
    it.symbol(b"common", Place::Common, 16, 64, 0x11);
    for name in GLOBALS {
        it.symbol(name, Place::Undefined, 0, 0, 0x10);
    }
    it.made.symbols[FIRST as usize].bits = SymbolRecord::ADDRESS_SIGNIFICANT;
    it.made.symbols[SHARED as usize].other = 2;
    it.made.first_global = FIRST;
    it.made.bits = CompilationHeader::ADDRSIG;
    it.made
}

/// Another translation unit, which shares the large fragment and a piece.
fn another() -> Compilation<'static> {
    let mut it = Builder::new();
    let callee = it.name(b"callee");
    let mut text = it.section(
        b".text",
        SectionKind::Text,
        6,
        b"\x48\x8d\x05\0\0\0\0\xc3".to_vec(),
        &[(3, 2, Some(0), -4)],
    );
    text.bits = SectionRecord::SUFFIXED;
    let plain = Some(Plain {
        is_absolute: false,
        words: 0,
    });
    it.member(b"callee", &[Target::Piece(0)], &[], plain, [text]);
    let fixups = [(LARGE as u32 - 4, 2, Some(0), 0)];
    let large = it.section(b".rodata.large", SectionKind::ReadOnly, 2, large(), &fixups);
    let debug = it.section(
        b".debug_line",
        SectionKind::Debug,
        0,
        b"lines".to_vec(),
        &[],
    );
    it.member(
        b"",
        &[Target::Global(callee)],
        &[(1, 0)],
        None,
        [large, debug],
    );
    it.made.pieces = vec![Piece {
        section_name: it.name(b".rodata"),
        sh_flags: 0x32,
        entsize: 1,
        align_log2: 0,
        bytes: b"hello\0",
    }];
    it.made.digest_order = vec![0, 1];
    it.symbol(b"", Place::Undefined, 0, 0, 0);
    it.symbol(b"callee", Place::Section(0), 0, 8, 0x12);
    it.made.first_global = 1;
    it.made.e_flags = 0x1234_5678;
    (it.made.os_abi, it.made.abi_version) = (3, 1);
    it.made
}

/// Functions that call each other in a circle, so many that the compilation is recorded compressed; and the same with a byte of one
/// changed, which is recorded as a difference.
fn circle(changed: u8) -> Compilation<'static> {
    let mut it = Builder::new();
    for (number, name) in GLOBALS.into_iter().enumerate() {
        let next = (number + 1) % GLOBALS.len();
        let called = it.name(GLOBALS[next]);
        let last = if number == 20 { changed } else { 0xc3 };
        let code = vec![0x68, number as u8, 0, 0, 0, 0xe8, 0, 0, 0, 0, last];
        let mut text = it.section(b".text", SectionKind::Text, 6, code, &[(6, 4, Some(0), -4)]);
        text.bits = SectionRecord::SUFFIXED;
        let plain = Some(Plain {
            is_absolute: false,
            words: 0,
        });
        let binding = [(next as u32 + 1, 2)];
        it.member(name, &[Target::Global(called)], &binding, plain, [text]);
    }
    it.made.digest_order = (0..GLOBALS.len() as u32).collect();
    it.symbol(b"", Place::Undefined, 0, 0, 0);
    for (number, name) in GLOBALS.into_iter().enumerate() {
        it.symbol(name, Place::Section(number as u32), 0, 11, 0x12);
    }
    it.made.first_global = 1;
    it.made
}

const OUTPUT: &str = "/build/program";
const PATHS: [&str; 3] = ["a.o", "/lib/libc.so.6", "lib.a(b.o)"];

/// Writes the file: compilations, tickets, an image that is replaced, and records in envelopes.
fn write(path: &Path) {
    let store = Store::open(path, &options(TestSystem::new(1))).unwrap();
    let repository = Repository::new(store);
    let units = [everything(), another()].map(|unit| Prepared::new(unit).unwrap());
    for (prepared, ticket) in units.iter().zip(["/build/a.o", "/build/b.o"]) {
        let ticket = Some(Path::new(ticket));
        repository.add(&[Addition { prepared, ticket }]).unwrap();
    }
    for changed in [0xc3, 0xcb] {
        let mut prepared = Prepared::new(circle(changed)).unwrap();
        prepared.compress();
        let prepared = &prepared;
        let ticket = Some(Path::new("/build/circle.o"));
        repository.add(&[Addition { prepared, ticket }]).unwrap();
    }
    let compilations = [Some(units[0].digest), None, Some(units[1].digest)];
    let inputs = compilations.into_iter().zip(PATHS);
    let inputs: Vec<_> = inputs
        .map(|(compilation, path)| NewImageInput {
            compilation,
            path: path.into(),
        })
        .collect();
    for output_size in [1000, 2000] {
        let image = NewImage {
            path: Path::new(OUTPUT),
            options: Digest::of(b"options"),
            output_size,
            inputs: &inputs,
            archives: &[],
        };
        record_image(repository.store(), &image).unwrap();
    }
    write_manifest(&repository, &units);
    write_envelopes(&repository, &units[0]);
}

/// Two results of one invocation: the second time, there were other bytes in a file, and something to complain of.
fn write_manifest(repository: &Repository, units: &[Prepared<'_>]) {
    let parts = [&b"cc"[..], b"-c", b"a.c"].map(<[u8]>::to_vec);
    let digest = Digest::of(b"int main(void) { return 0; }");
    let path = b"a.c";
    let header = "/usr/include/x86_64-linux-gnu/in/a/directory/that/is/deep/stdio.h";
    let listed = format!("a.o: a.c \\\n {header}\n{header}:\n");
    let common = [
        Condition::File(Digest::of(b"int puts(const char *);"), header.as_bytes()),
        Condition::Search(b"/usr/local/include\0/usr/include\0"),
        Condition::Listing(Digest::of(b"stdio.h\0f"), b"/usr/include"),
        Condition::NotFound {
            first: 0,
            count: 1,
            name: b"stdio.h",
        },
        Condition::NotListed(b"./stdio.h"),
        Condition::Absent(b"/usr/include/features-32.h"),
        Condition::NotPrecompiled(b"/usr/include/stdio.h"),
        Condition::Present(b"/usr/include/features.h"),
        Condition::Variable(b"CARGO_PKG_VERSION=1.0.0"),
    ];
    for (number, digest) in [digest, Digest::of(b"")].into_iter().enumerate() {
        let of_file = match number {
            0 => Condition::File(digest, path),
            _ => Condition::Text {
                rest: digest,
                keeps: TextKeeps::Places,
                path,
            },
        };
        let conditions: Vec<_> = (common.iter().chain([&of_file]))
            .map(Condition::encode)
            .collect();
        let result = NewResult {
            key: &Digest::of(b"cc -c a.c"),
            parts: &parts,
            conditions: &conditions,
            compilation: Some(&units[number].digest),
            diagnostics: [&b""[..], b"a.c:1:1: warning: there is one"][number],
            is_coloured: true,
            dependencies: Some([listed.as_bytes(), b"a.o: a.c # by hand\n"][number]),
            files: [None, Some(&b"frames"[..])][number],
        };
        record_result(repository.store(), &result).unwrap();
    }
}

#[allow(clippy::too_many_lines)] // one of each kind
fn write_envelopes(repository: &Repository, unit: &Prepared<'_>) {
    use Strength::{Owner, Strong, Weak};
    let mut transaction = repository.store().begin(Durability::Lazy).unwrap();
    let (compilation, fragment, image, manifest) = {
        let address = |index: Index, key: &Digest| {
            transaction.get(index.slot(), key).unwrap().unwrap().address
        };
        (
            address(Index::Compilations, &unit.digest),
            address(Index::Fragments, &unit.fragments[0]),
            address(Index::Images, &Digest::of(OUTPUT.as_bytes())),
            address(Index::Manifests, &Digest::of(b"cc -c a.c")),
        )
    };
    let mut add = |index: IndexSlot,
                   key: &Digest,
                   class: u8,
                   references: &[(Address, Strength)],
                   names: &[u32],
                   (body_version, body): (u8, &[u8])| {
        let references: Vec<_> = (references.iter())
            .map(|(address, strength)| Reference::new(*address, *strength))
            .collect();
        let names: Vec<_> = names.iter().map(|name| NameId(*name)).collect();
        let envelope = Envelope {
            class,
            body_version,
            references: &references,
            names: &names,
            pieces: if index.number() == 20 {
                &[PieceId(1), PieceId(0), PieceId(1)]
            } else {
                &[]
            },
            body,
        };
        replace_enveloped(&mut transaction, index, key, &envelope).unwrap()
    };
    let needed = Class::Needed as u8;
    let all = Class::AttachedToAll as u8;
    let int = [0x24, 0, 0, 0, 0, 0, 0, 0, b'i', b'n', b't'];
    let int = add(
        Index::Types.slot(),
        &Digest::of(b"int"),
        needed,
        &[],
        &[1],
        (BODY_VERSION, &int),
    );
    let pointer = [0x0f, 0, 0, 0, 0, 0, 0, 0, 0];
    let pointer = add(
        Index::Types.slot(),
        &Digest::of(b"int *"),
        needed,
        &[(int, Strong)],
        &[0],
        (BODY_VERSION, &pointer),
    );
    let lines = add(
        Index::LineTables.slot(),
        &Digest::of(b"lines"),
        needed,
        &[],
        &[],
        (0, b"lines"),
    );
    add(
        Index::DebugInformation.slot(),
        &unit.digest,
        all,
        &[(compilation, Owner), (pointer, Strong), (lines, Strong)],
        &[],
        (0, b"debug"),
    );
    add(
        Index::Definitions.slot(),
        &Digest::of(b"definition of first"),
        all,
        &[(fragment, Owner)],
        &[2],
        (0, b""),
    );
    let text = b"captured";
    let captured = canonical::captured(text);
    add(
        Index::Captured.slot(),
        &captured,
        needed,
        &[],
        &[],
        (BODY_VERSION, text),
    );
    let compiler = CompilerBody {
        size: 1_000_000,
        modified: 1_700_000_000_000_000_000,
        identity: Digest::of(b"cc 12.2"),
    };
    // Name 3 stands for its path.
    let path = unit.compilation.names[3];
    let key = canonical::compiler(path, compiler.size, compiler.modified);
    let body = bytemuck::bytes_of(&compiler);
    add(
        Index::Compilers.slot(),
        &key,
        needed,
        &[],
        &[3],
        (BODY_VERSION, body),
    );
    let part = add(
        Index::ImageParts.slot(),
        &Digest::of(b"part"),
        needed,
        &[],
        &[],
        (0, b"part"),
    );
    for index in [Index::Placements, Index::Referrers] {
        let references = [(image, Owner), (part, Strong)];
        let key = Digest::of(OUTPUT.as_bytes());
        add(index.slot(), &key, all, &references, &[], (0, b"whatever"));
    }
    let root = add(
        IndexSlot::of::<20>(),
        &Digest::of(b"root"),
        Class::Root as u8,
        &[(compilation, Strong), (manifest, Weak), (Address(0), Weak)],
        &[1, 1, 0],
        (99, b"nobody knows what it is"),
    );
    let later = add(
        IndexSlot::of::<23>(),
        &Digest::of(b"of a later class"),
        200,
        &[(root, Owner)],
        &[],
        (0, b""),
    );
    for element in [root, Address(0), later] {
        transaction.push(VectorSlot::of::<5>(), element).unwrap();
    }
    // What is there already is not added again.
    let same = Envelope {
        class: needed,
        body_version: 0,
        references: &[],
        names: &[],
        pieces: &[],
        body: b"part",
    };
    let slot = Index::ImageParts.slot();
    let found = insert_enveloped(&mut transaction, slot, &Digest::of(b"part"), &same).unwrap();
    assert_eq!(found, part);
    transaction.commit().unwrap();
}

#[test]
fn the_same_bytes_every_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("golden.repo");
    write(&path);
    if std::env::var_os("STORE_WRITE_GOLDEN").is_some() {
        std::fs::copy(&path, GOLDEN).unwrap();
    }
    let made = std::fs::read(&path).unwrap();
    let golden = std::fs::read(GOLDEN).unwrap();
    let difference = (made.iter().zip(&golden)).position(|(made, golden)| made != golden);
    assert_eq!(difference, None, "first different byte");
    assert_eq!(made.len(), golden.len());
}

fn golden() -> Programs {
    Programs::new(std::fs::read(GOLDEN).unwrap())
}

fn key_of(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

#[test]
fn a_reader_made_from_the_specification_finds_everything_in_order() {
    let summary = golden().check();
    let expected = Summary {
        packs: 9,
        compressed: 0,
        names: 74,
        pieces: 2,
        fragments: 46,
        packed: 43,
        narrow: 1,
        wide: 1,
        compilations: 4,
        compressed_compilations: 0,
        differences: 1,
        members: 83,
        plain: 79,
        one_fde: 1,
        tickets: 3,
        images: 1,
        envelopes: 17,
    };
    assert_eq!(summary, expected);
}

#[test]
#[allow(clippy::too_many_lines)] // one of each kind
fn it_reads_what_was_written() {
    let file = golden();
    // From a ticket to the function that its symbol names, and from there to what it calls.
    let ticket = file.find(4, &key_of(b"/build/a.o")).unwrap();
    let (compilation, written, path) = file.ticket(ticket);
    assert_eq!(path, b"/build/a.o");
    assert!((5_000_000_000..6_000_000_000).contains(&written));
    let unit = file.compilation(compilation);
    assert_eq!(
        (unit.numbers.machine, unit.numbers.bits, unit.groups.len()),
        (62, 1, 1)
    );
    let find = |name: &[u8]| {
        unit.symbols
            .iter()
            .find(|symbol| file.name(symbol.name) == name)
            .unwrap()
    };
    let first = find(b"first");
    assert_eq!(
        (first.info, first.size, first.bits),
        (0x12, CODE.len() as u64, 4)
    );
    let placed = unit.sections[first.section as usize - 1];
    let member = unit.members[placed.member as usize];
    assert_eq!(file.name(member.suffix), b"first");
    let fragment = file.fragment(member.fragment);
    let text = &fragment.sections[0];
    assert_eq!(
        (file.name(text.name), &text.bytes[..]),
        (&b".text"[..], CODE)
    );
    assert_eq!(
        (text.kind, text.type_, text.flags, text.alignment),
        (0, 1, 6, 4)
    );
    assert_eq!(text.bits, SUFFIXED | PACKED);
    let fixup = |offset, type_, target, addend| Fixup {
        offset,
        addend,
        target: Some(target),
        type_,
    };
    assert_eq!(
        text.fixups,
        [
            fixup(1, 4, 0, -4),
            fixup(8, 2, 1, -4),
            fixup(15, 42, 3, -4),
            fixup(22, 2, 6, -4)
        ]
    );
    let called = unit.bindings[member.first_binding as usize];
    assert_eq!(file.name(unit.symbols[called as usize].name), b"callee");
    let (kind, piece) = fragment.targets[6];
    assert_eq!((kind, file.piece(piece).bytes), (5, &b"hello\0"[..]));
    assert_eq!(fragment.sections[1].bytes, FDE);
    let cie = unit.sections[placed.cie as usize];
    assert_eq!(cie.cie, 0);
    let frame = unit.sections[first.section as usize];
    let cie = unit.members[unit.sections[frame.cie as usize].member as usize].fragment;
    assert_eq!(fragment.anonymous[1], cie);
    let cie = file.fragment(cie);
    assert_eq!(
        (&cie.sections[0].bytes[..], cie.sections[0].bits),
        (CIE_BYTES, CIE)
    );

    // One fragment as two members, one of them in a group.
    let [numbers, more] = [&b"numbers"[..], b"more"].map(|name| {
        let section = unit.sections[find(name).section as usize - 1];
        unit.members[section.member as usize]
    });
    assert_eq!(
        (numbers.fragment, numbers.group, more.group),
        (more.fragment, 1, 0)
    );
    assert_eq!(file.name(unit.groups[0].0), b"numbers");
    let data = file.fragment(numbers.fragment);
    assert_eq!(
        data.sections[0].fixups,
        [fixup(0, 10, 0, 0x7000_0000), fixup(4, 11, 0, -1)]
    );

    let huge = find(b"huge");
    assert_eq!((huge.value, huge.size), ((1 << 32) + 8, HUGE - 8));
    let section = unit.sections[huge.section as usize - 1];
    assert_eq!((section.size, section.bits, section.alignment), (0, 2, 12));
    let bss = file.fragment(unit.members[section.member as usize].fragment);
    assert_eq!(
        (bss.sections[0].size, bss.sections[0].bits),
        (HUGE, EXTENDED)
    );

    let [notes, large, debug] =
        [6, 7, 8].map(|number| file.fragment(unit.members[number].fragment));
    let notes = &notes.sections[0];
    assert_eq!(
        (notes.link, notes.entsize, notes.bits),
        (1, 4, WIDE | EXTENDED)
    );
    assert_eq!(notes.fixups, [fixup(0, 1, 0, 1 << 40)]);
    assert!(large.is_checked && large.sections[0].bytes == self::large());
    assert_eq!(large.sections[1].bytes, b"lines");
    let info = &debug.sections[0];
    assert_eq!(
        (info.bits, info.target_bits, debug.bindable),
        (PACKED, 6, 37)
    );
    assert_eq!(
        info.fixups,
        [
            fixup(0, 1, 36, -5),
            fixup(8, 10, 37, 0x100_0000),
            fixup(12, 10, 37, 1),
            fixup(16, 1, 38, 0),
            fixup(24, 1, 0, 7),
            Fixup {
                offset: 32,
                addend: 0x1234,
                target: None,
                type_: 8
            }
        ]
    );
    let in_piece = find(b"\xff\x01");
    assert_eq!((in_piece.bits, in_piece.value), (2, 2));
    assert_eq!(find(b"absolute").value, 1 << 40);
    assert_eq!(find(b"common").section, 0xffff_fff2);

    let (other, _, _) = file.ticket(file.find(4, &key_of(b"/build/b.o")).unwrap());
    let other_unit = file.compilation(other);
    assert_eq!(
        other_unit.members[1].fragment, unit.members[7].fragment,
        "it is there once"
    );
    let numbers = &other_unit.numbers;
    assert_eq!(
        (numbers.flags, numbers.os_abi, numbers.abi_version),
        (0x1234_5678, 3, 1)
    );

    let image = file.image(file.find(6, &key_of(OUTPUT.as_bytes())).unwrap());
    assert_eq!((image.path, image.output_size), (OUTPUT.as_bytes(), 2000));
    assert_eq!(image.options, key_of(b"options"));
    let inputs = [compilation, 0, other]
        .into_iter()
        .zip(PATHS.map(str::as_bytes));
    assert_eq!(image.inputs, inputs.collect::<Vec<_>>());

    // Of a kind that nobody knows, what it refers to is known all the same.
    let root = file.find(20, &key_of(b"root")).unwrap();
    let envelope = file.envelope(root);
    let manifest = file.find(8, &key_of(b"cc -c a.c")).unwrap();
    assert_eq!(
        envelope.references,
        [(0, compilation), (2, manifest), (2, 0)]
    );
    assert_eq!((envelope.class, envelope.body_version), (1, 99));
    assert_eq!(
        (&envelope.names[..], &envelope.pieces[..]),
        (&[1, 1, 0][..], &[1, 0, 1][..])
    );
    assert_eq!(&envelope.body[..], b"nobody knows what it is");
    let later = file.find(23, &key_of(b"of a later class")).unwrap();
    assert_eq!(file.vector(5), [root, 0, later]);
}

/// Section 20: the note of a ticket file.
#[test]
fn a_reader_made_from_the_specification_reads_tickets() {
    let file = golden();
    let (key, _) = file.index(3).next().unwrap();
    let note = TicketNote {
        uuid: *b"0123456789abcdef",
        compilation: Digest(key),
        seal: 0x0102_0304,
        repository: b"/build/program.repo",
        made: b"how",
    };
    let note = note.encode();
    let word = |at: usize| u32::from_le_bytes(note[at..at + 4].try_into().unwrap());
    assert_eq!([0, 4, 8].map(word), [5, 64 + 19 + 3, 1]);
    assert_eq!(&note[12..20], b"REPO\0\0\0\0");
    assert_eq!([20, 24].map(word), [2, 19]);
    assert_eq!(&note[28..44], b"0123456789abcdef");
    let compilation: [u8; 32] = note[44..76].try_into().unwrap();
    assert!(file.find(3, &compilation).is_some());
    assert_eq!([76, 80].map(word), [0x0102_0304, 3]);
    assert_eq!(&note[84..103], b"/build/program.repo");
    assert_eq!(&note[103..], b"how\0\0");
}
