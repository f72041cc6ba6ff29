//! The default layout as a script: what `INSERT` inserts into, what `MEMORY` and `PHDRS` are about when no script has
//! `SECTIONS`, and what `--verbose` prints.
//!
//! It says in the script's language what [`standard_sections`](super::standard_sections) and [`crate::layout::program_headers`]
//! say for links without one, so that a link with it (`-T`) gives the same bytes. Links without such commands never see it.
//!
//! Builds print it, change it with `sed`, and give it back by `-T` (glibc does, to put sections of its own beside others). So it
//! has a line for each pattern, as GNU ld's scripts have.
//!
//! Segments: a row with other rights than the one before begins a new one, on the next page. The file need not have a page
//! of its own for it, so the address goes on a page later at the same place in the page, unless `-z separate-code` says
//! otherwise. There is no step where there is nothing to be apart from, which the sizes of the sections tell. What is read-only
//! after relocation ends where it ends: its last page is nobody else's, so that all of it can be protected.
//!
//! With `-N` and `-n` the bytes are others, and the script says so: a segment that is not paged has the headers of the file in
//! links without a script (so that `__ehdr_start` is there, by which static programs of glibc find their thread-local variables;
//! GNU ld makes none with `-N`), and not with one, where scripts say by `PHDRS` what they want (as with GNU ld). Nor are they the
//! same with `-z noseparate-code` where nothing stands before the code, which the headers then share its segment with.

use super::standard_sections::{
    NAMED, Order, Pattern, Row, Rule, SUBPARTS, Std, TEXT_PREFIXES, UNLOADED, order_of,
};
use crate::args::{Args, Magic, OutputKind, SeparateCode};
use crate::elf::shf;
use crate::input::library_search;
use std::fmt::Write as _;

/// What `--verbose` prints for an output of this kind: a whole script, which `-T` takes.
pub fn whole(args: &Args) -> String {
    let mut out = String::from("OUTPUT_FORMAT(\"elf64-x86-64\")\nOUTPUT_ARCH(i386:x86-64)\n");
    // A relocatable output starts nowhere unless that is asked for.
    if args.kind != OutputKind::Relocatable {
        out += "ENTRY(_start)\n";
    }
    for directory in library_search::DEFAULT_DIRECTORIES {
        // Writing to a string does not fail.
        let _ = writeln!(out, "SEARCH_DIR(\"={directory}\");");
    }
    out + &match args.kind {
        OutputKind::Relocatable => united(),
        _ => sections(args),
    }
}

/// The `SECTIONS` of a relocatable output: what has one name is united in the order in which the inputs have it, which is what
/// becomes of sections that no description takes.
fn united() -> String {
    "SECTIONS\n{\n  /* Sections of one name are united, in the order of the inputs. */\n}\n"
        .to_owned()
}

/// The `SECTIONS` of an output of this kind.
pub fn sections(args: &Args) -> String {
    let base = match args.kind {
        OutputKind::StaticExec | OutputKind::DynamicExec => "0x400000",
        _ => "0",
    };
    let provide = provide(args);
    let unpaged = match args.magic {
        Magic::Normal => "",
        _ => {
            "/* Without a script the segments have the headers as well: here that is for PHDRS to say. */\n"
        }
    };
    let mut out = format!(
        "{unpaged}SECTIONS\n{{\n  \
           . = SEGMENT_START(\"text-segment\", {base});\n  \
           {provide} (__executable_start = .);\n  \
           . = . + SIZEOF_HEADERS;\n"
    );
    let mut order: Vec<Std> = Std::ALL.to_vec();
    order.retain(|std| std.row().flags & shf::ALLOC != 0);
    order.sort_by_key(|std| place(*std, args));
    let segments: Vec<&[Std]> = order
        .chunk_by(|a, b| Rights::of(*a, args) == Rights::of(*b, args))
        .collect();
    for (number, segment) in segments.iter().enumerate() {
        begin_segment(&mut out, args, &segments, number);
        for std in *segment {
            describe(&mut out, *std, args);
        }
    }
    let _ = writeln!(out, "  {provide} (_end = .); {provide} (end = .);");
    if protects(args) {
        out += "  . = DATA_SEGMENT_END (.);\n";
    }
    for name in UNLOADED {
        let _ = writeln!(out, "  {name} 0 : {{ *({name}) }}");
    }
    out + "}\n"
}

/// How the program's bounds are defined. A shared object keeps its own to itself.
fn provide(args: &Args) -> &'static str {
    match args.kind.is_executable() {
        true => "PROVIDE",
        false => "PROVIDE_HIDDEN",
    }
}

const PAGE: &str = "CONSTANT (MAXPAGESIZE)";

/// Whether anything is read-only after relocation.
fn protects(args: &Args) -> bool {
    args.z.relro && args.magic == Magic::Normal
}

/// Sort key of a section's place in the file.
fn place(std: Std, args: &Args) -> u32 {
    match std {
        Std::Dynamic if args.z.rodynamic => Std::RelaPlt.rank() + 1,
        _ => std.rank(),
    }
}

/// What one may do with a section.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Rights {
    write: bool,
    code: bool,
    relro: bool,
    /// It may be far away, and has bytes or cannot be written to.
    large: bool,
}

impl Rights {
    fn of(std: Std, args: &Args) -> Rights {
        let row = std.row();
        let read_only = std == Std::Dynamic && args.z.rodynamic;
        let write = row.flags & shf::WRITE != 0 && !read_only;
        let relro = row.relro && !read_only || std == Std::GotPlt && args.z.now;
        Rights {
            write: write || args.magic == Magic::Omagic,
            // Where read-only data may be run, or all is one segment, there is no difference.
            code: (row.flags & shf::EXEC != 0 || !args.rosegment && !write)
                && args.magic != Magic::Omagic,
            relro: relro && protects(args),
            large: row.flags & shf::LARGE != 0 && row.flags & shf::WRITE == 0 || std == Std::Ldata,
        }
    }
}

/// Whether there is something in these sections.
fn is_there(sections: &[Std], args: &Args) -> String {
    let names = sections.iter().flat_map(|std| {
        let apart = before(*std, args).iter().copied();
        apart.chain([std.row().name])
    });
    let sizes: Vec<String> = names.map(|name| format!("SIZEOF ({name})")).collect();
    sizes.join(" + ")
}

/// Sections that take a part of what goes to another one by default.
fn before(std: Std, args: &Args) -> &'static [&'static str] {
    match std {
        Std::Text if args.z.keep_text_section_prefix => &TEXT_PREFIXES,
        _ => &[],
    }
}

/// Says where a segment begins.
fn begin_segment(out: &mut String, args: &Args, segments: &[&[Std]], number: usize) {
    let rights = |segment: &[Std]| Rights::of(segment[0], args);
    let (own, Some(before)) = (rights(segments[number]), number.checked_sub(1)) else {
        return;
    };
    let previous = rights(segments[before]);
    // The next page in memory: at the same place in the file, or on a page of the file, too.
    let shared = format!("ALIGN ({PAGE}) + (. & ({PAGE} - 1))");
    let code = own.code || previous.code;
    let own_pages = args.magic == Magic::Normal
        && match args.z.separate {
            SeparateCode::None => false,
            SeparateCode::Code => code,
            SeparateCode::All => true,
        };
    let step = match own_pages {
        true => format!("ALIGN ({PAGE})"),
        false => shared.clone(),
    };
    let mut jump = |condition: &str, step: &str| {
        let _ = writeln!(out, "  . = {condition} ? {step} : .;");
    };
    match (previous, own) {
        // Behind what has no bytes, or is not the like of it.
        _ if own.large => {
            let there = is_there(segments[number], args);
            match own.write {
                true => {
                    let others = is_there(&[Std::Bss, Std::Lbss, Std::Lrodata], args);
                    jump(&format!("({there}) && ({others})"), &shared);
                }
                false => jump(&there, &shared),
            }
        }
        // To code: if there is any.
        (_, Rights { code: true, .. }) => jump(&is_there(segments[number], args), &step),
        // From code to what can only be read.
        (Rights { code: true, .. }, Rights { write: false, .. }) => {
            let condition = match own_pages {
                true => is_there(segments[before], args),
                false => format!(
                    "({}) && ({})",
                    is_there(segments[before], args),
                    is_there(segments[number], args)
                ),
            };
            let _ = writeln!(
                out,
                "  . = SEGMENT_START(\"rodata-segment\", {condition} ? {step} : .);"
            );
        }
        // To data.
        (Rights { write: false, .. }, Rights { write: true, .. }) => {
            if own_pages {
                let _ = writeln!(out, "  . = {step};");
            }
            match own.relro {
                true => {
                    let _ = writeln!(
                        out,
                        "  . = DATA_SEGMENT_ALIGN ({PAGE}, CONSTANT (COMMONPAGESIZE));"
                    );
                }
                false => {
                    let _ = writeln!(out, "  . = {shared};");
                }
            }
        }
        (Rights { relro: true, .. }, Rights { relro: false, .. }) => {
            let _ = writeln!(out, "  . = DATA_SEGMENT_RELRO_END (0, .);");
            // What threads have that is zero at first takes no room here.
            let mut taking_space = segments[before].to_vec();
            taking_space.retain(|std| *std != Std::Tbss);
            let _ = writeln!(out, "  . = {} ? {step} : .;", is_there(&taking_space, args));
        }
        _ => {}
    }
}

/// Describes an output section, and those that have a place behind it.
fn describe(out: &mut String, std: Std, args: &Args) {
    let row = std.row();
    for name in before(std, args) {
        let _ = writeln!(out, "  {name} : {{ *({name} {name}.*) }}");
    }
    let mut statements = Vec::new();
    let bounds = |what: &str, of: &str| format!("PROVIDE_HIDDEN (__{of}_{what} = .);");
    let list = match std {
        Std::PreinitArray | Std::InitArray | Std::FiniArray => Some(&row.name[1..]),
        _ => None,
    };
    statements.extend(list.map(|list| bounds("start", list)));
    if std == Std::Bss {
        statements.push(format!("{} (__bss_start = .);", provide(args)));
    }
    let beside = |behind: bool| {
        let parts = SUBPARTS.iter().filter(move |part| {
            part.std == std && (part.order > 0) == behind && !part.script.is_empty()
        });
        parts.map(|part| format!("*({})", part.script))
    };
    statements.extend(beside(false));
    statements.extend(made(std, row));
    statements.extend(row.rules.iter().map(of_rule));
    statements.extend(beside(true));
    statements.extend(list.map(|list| bounds("end", list)));
    if std == Std::RelaDyn {
        // The relocations that a static program carries out itself.
        statements.push(bounds("start", "rela_iplt"));
        statements.push("*(.rela.iplt)".to_owned());
        statements.push(bounds("end", "rela_iplt"));
    }
    match &statements[..] {
        [statement] => {
            let _ = writeln!(out, "  {} : {{ {statement} }}", row.name);
        }
        _ => {
            let _ = writeln!(out, "  {} :\n  {{", row.name);
            for statement in statements {
                let _ = writeln!(out, "    {statement}");
            }
            *out += "  }\n";
        }
    }
    for named in NAMED.iter().filter(|named| named.after == std) {
        let name = named.name;
        let _ = match name {
            ".ctors" | ".dtors" => writeln!(out, "  {name} : {{ KEEP (*({name})) }}"),
            _ => writeln!(out, "  {name} : {{ *({name}) }}"),
        };
    }
    let names: &[&str] = match std {
        Std::Fini => &["__etext", "_etext", "etext"],
        Std::Data => &["_edata", "edata"],
        _ => &[],
    };
    if std == Std::Data {
        // What is orphaned stands before the location counter is set.
        *out += "  . = .;\n";
    }
    for name in names {
        let _ = writeln!(out, "  {} ({name} = .);", provide(args));
    }
}

/// What the linker makes.
fn made(std: Std, row: &Row) -> Vec<String> {
    let names = row.made.map_or(&[][..], |made| made.names);
    // The other names are those of other linkers' scripts.
    let names = match std {
        Std::RelaDyn => &names[..2],
        _ => names,
    };
    let statement = |name: &&str| match std {
        Std::EhFrame => format!("KEEP (*({name}))"),
        _ => format!("*({name})"),
    };
    names.iter().map(statement).collect()
}

/// A rule as a statement.
fn of_rule(rule: &Rule) -> String {
    let sort = match (rule.verbatim, order_of(rule.part)) {
        (true, _) => "SORT_NONE",
        (false, Order::Name) => "SORT",
        (false, Order::Priority) => "SORT_BY_INIT_PRIORITY",
        (false, Order::Input | Order::Linked) => "",
    };
    let patterns = rule.patterns.iter().map(|pattern| match pattern {
        Pattern::Is(stem) => (*stem).to_owned(),
        Pattern::Under(stem) => format!("{stem} {stem}.*"),
        Pattern::Starts(stem) => format!("{stem}*"),
        Pattern::Ends(stem, end) => format!("{stem}.*{end}"),
        Pattern::Old(stem) => format!("EXCLUDE_FILE (*crtbegin*.o *crtend*.o) {stem}"),
    });
    let sorted: Vec<String> = patterns
        .map(|pattern| match sort {
            "" => pattern,
            sort => format!("{sort}({pattern})"),
        })
        .collect();
    let taken = format!("*({})", sorted.join(" "));
    match rule.keep {
        true => format!("KEEP ({taken})"),
        false => taken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{NoIncludes, parse};

    #[test]
    fn it_is_a_script() {
        for line in [
            "a.o",
            "-pie a.o",
            "-shared -z now a.o",
            "-static -z noseparate-code a.o",
            "-r a.o",
        ] {
            let words = line.split_whitespace().map(std::ffi::OsString::from);
            let args = Args::parse(words).unwrap();
            let script = parse(whole(&args).as_bytes(), "default", &mut NoIncludes);
            assert!(script.is_ok(), "{line}: {script:?}");
        }
    }
}
