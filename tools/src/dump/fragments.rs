//! Definitions: a list of them, or one in full.

use super::compilations::tickets_by_compilation;
use super::disasm::{self, Fixup, Line, is_pc_relative};
use super::frames::{self, Frame};
use super::model::{Likeness, Model, Usage, best_name, flag_letters, source_name};
use super::output::{Text, View, grouped, hex, hex_dump};
use anyhow::{Context, Result, bail};
use format_spec::digest::Digest;
use format_spec::fragment::{
    FIXUP_CIE, SectionKind, SectionRecord, TargetKind, WideFixupRecord, local_name,
};
use format_spec::ids::{Address, NameId};
use format_spec::program::Index;
use linker::elf::x86_64::reloc;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use store::program::{CompilationView, FragmentView, SectionView, section_kind};

/// A definition in a list.
#[derive(Serialize)]
pub struct Row {
    digest: String,
    name: Option<String>,
    /// What it is, if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    /// Bytes of all sections in memory.
    size: u64,
    fixups: u64,
    /// Number of compilations that have it.
    compilations: u32,
    sections: Vec<String>,
}

/// Heading for [`Row`]s.
pub const HEADING: &str = "digest           size  fixups  users  name and sections";

/// All definitions.
pub fn list<'s>(
    model: Model<'s>,
    usage: HashMap<Address, Usage>,
) -> impl Iterator<Item = Result<Row>> + use<'s> {
    model
        .programs
        .records(Index::Fragments)
        .map(move |record| row(&model, &usage, record?.address))
}

/// Those at `addresses`.
pub fn list_of<'s>(
    model: Model<'s>,
    usage: HashMap<Address, Usage>,
    addresses: Vec<Address>,
) -> impl Iterator<Item = Result<Row>> + use<'s> {
    let addresses = addresses.into_iter();
    addresses.map(move |address| row(&model, &usage, address))
}

fn row(model: &Model<'_>, usage: &HashMap<Address, Usage>, address: Address) -> Result<Row> {
    let view = model.programs.fragment(address)?;
    let usage = usage.get(&address).cloned().unwrap_or_default();
    let sections = || view.sections();
    Ok(Row {
        digest: view.record().key().to_string(),
        name: usage.name.map(|name| model.name(name)).transpose()?,
        what: match usage.name {
            Some(_) => None,
            None => Some(model.nameless(&view, usage.source, usage.compilations)?),
        },
        size: sections()
            .map(|section| section.size)
            .fold(0, u64::saturating_add),
        fixups: sections().map(|section| section.fixups.len() as u64).sum(),
        compilations: usage.compilations,
        sections: sections()
            .map(|section| model.section_name(section.record, usage.suffix))
            .collect::<Result<_>>()?,
    })
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let name = match (&self.name, &self.what) {
            (Some(name), _) => style.name(name).to_string(),
            (None, what) => style.dim(what.as_deref().unwrap_or_default()).to_string(),
        };
        writeln!(
            out,
            "{}  {:>7}  {:>6}  {:>5}  {}  {}",
            style.digest(&self.digest[..12]),
            self.size,
            self.fixups,
            self.compilations,
            name,
            style.dim(self.sections.join(" ")),
        )
    }
}

/// So many users and referrers are shown; JSON has all.
const MOST_USERS: usize = 20;

/// A definition in full.
#[derive(Serialize)]
pub struct Detail {
    digest: String,
    /// Offset of its record.
    offset: u64,
    /// Bytes of its record.
    bytes: u64,
    /// What compilations call it.
    names: Vec<String>,
    /// What it is, if they have no name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    compilations: Vec<String>,
    /// The tickets of these, by path, or what else is known of one.
    users: Vec<String>,
    /// Which definitions refer to it.
    referrers: Vec<Referrer>,
    sections: Vec<Section>,
}

/// A definition that refers to another.
#[derive(Serialize)]
struct Referrer {
    name: String,
    /// The tickets of the compilations in which it does, by path.
    tickets: Vec<String>,
}

#[derive(Serialize)]
struct Section {
    name: String,
    kind: &'static str,
    #[serde(rename = "type")]
    sh_type: u32,
    flags: String,
    size: u64,
    align: u64,
    entsize: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(flatten)]
    content: Content,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Code(Vec<Line>),
    Frames {
        frames: Vec<Frame>,
        fixups: Vec<Fixup>,
    },
    Data {
        /// In hexadecimal.
        bytes: String,
        fixups: Vec<Fixup>,
    },
    Nobits,
}

/// What a kind of section is called.
pub fn kind_name(kind: SectionKind) -> &'static str {
    match kind {
        SectionKind::Text => "text",
        SectionKind::Data => "data",
        SectionKind::Bss => "bss",
        SectionKind::ReadOnly => "read-only",
        SectionKind::ThreadData => "thread-data",
        SectionKind::ThreadBss => "thread-bss",
        SectionKind::Unwind => "unwind",
        SectionKind::ExceptionTable => "exception-table",
        SectionKind::Debug => "debug",
        SectionKind::InitArray => "init-array",
        SectionKind::Other => "other",
    }
}

/// The definitions that are asked for.
pub enum Found {
    /// A digest or a whole name says which: a name may stand for different ones in different compilations.
    Exactly(Vec<Digest>),
    /// Those of which a name has a part that is asked for.
    Like(Vec<Address>),
}

/// The definitions that a digest prefix or a symbol's name means, as the object has it or as the source does; if there are
/// none, those of which it is a part of a name, or of what lists call those without a name.
pub fn find(model: &Model<'_>, which: &str) -> Result<Found> {
    if let Some(digest) = model.find_prefix(Index::Fragments, "fragment", which)? {
        return Ok(Found::Exactly(vec![digest]));
    }
    // The names are asked first, each once: there are fewer of them than symbols.
    let mut like: HashMap<NameId, Likeness> = HashMap::new();
    for id in 0..model.programs.name_count() {
        let name = NameId(id as u32);
        match model.likeness(name, which)? {
            Likeness::None => {}
            likeness => drop(like.insert(name, likeness)),
        }
    }
    let mut found: BTreeMap<Address, Likeness> = BTreeMap::new();
    for compilation in model.compilations() {
        let compilation = compilation?;
        let definitions = model.definitions(&compilation);
        for (member, symbols) in compilation.members().iter().zip(definitions) {
            let names = symbols.iter().filter_map(|symbol| like.get(&symbol.name));
            if let Some(likeness) = names.max() {
                let known = found.entry(member.fragment).or_insert(*likeness);
                *known = (*known).max(*likeness);
            }
        }
    }
    if found.is_empty() {
        found = nameless(model, which)?;
    }
    let best = found.values().max().copied();
    let found = found
        .into_iter()
        .filter(|(_, likeness)| Some(*likeness) == best);
    let addresses: Vec<Address> = found.map(|(address, _)| address).collect();
    match (best, &addresses[..]) {
        (None, _) => {
            bail!(
                "no definition has the digest {which}, or a name that has {which} in it, or is called that"
            )
        }
        (Some(Likeness::Part), [_, _, ..]) => Ok(Found::Like(addresses)),
        _ => {
            let digests = addresses.iter();
            let digests = digests
                .map(|address| Ok(model.programs.fragment(*address)?.record().key()))
                .collect::<Result<_>>();
            Ok(Found::Exactly(digests?))
        }
    }
}

/// The definitions without a name of which this is in what lists call them: `debug information of a.c`.
fn nameless(model: &Model<'_>, which: &str) -> Result<BTreeMap<Address, Likeness>> {
    let mut found = BTreeMap::new();
    for (address, usage) in model.usage()? {
        if usage.name.is_some() {
            continue;
        }
        let view = model.programs.fragment(address)?;
        let what = model.nameless(&view, usage.source, usage.compilations)?;
        if what == which {
            found.insert(address, Likeness::Same);
        } else if what.contains(which) {
            found.insert(address, Likeness::Part);
        }
    }
    Ok(found)
}

/// The definition with this digest, in full.
pub fn detail(model: &Model<'_>, digest: &Digest) -> Result<Detail> {
    let snapshot = model.programs.snapshot();
    let record = snapshot
        .get(Index::Fragments.slot(), digest)?
        .with_context(|| format!("no fragment with the digest {digest}"))?;
    let view = model.programs.fragment(record.address)?;
    let tickets = tickets_by_compilation(model)?;
    let mut names: Vec<NameId> = Vec::new();
    let mut compilations = Vec::new();
    let mut users = Vec::new();
    let mut suffix = None;
    let mut source = None;
    for compilation in model.compilations() {
        let compilation = compilation?;
        let members = compilation.members();
        if !members
            .iter()
            .any(|member| member.fragment == record.address)
        {
            continue;
        }
        compilations.push(compilation.record().key().to_string());
        users.extend(paths(model, &compilation, &tickets)?);
        source = source.or_else(|| source_name(&compilation));
        for (member, symbols) in members.iter().zip(model.definitions(&compilation)) {
            if member.fragment == record.address {
                suffix = suffix.or(Some(member.suffix));
                names.extend(symbols.iter().map(|symbol| symbol.name));
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names.retain(|name| *name != NameId(0));
    compilations.sort();
    users.sort_by_key(|user| (!user.starts_with('/'), user.clone()));
    users.dedup();
    let what = match &names[..] {
        [] => Some(model.nameless(&view, source, compilations.len() as u32)?),
        _ => None,
    };
    let sections = view.sections().map(|section| {
        section_detail(model, &view, &section, suffix)
            .with_context(|| format!("fragment {digest:.12}"))
    });
    Ok(Detail {
        digest: digest.to_string(),
        offset: record.address.0,
        bytes: record.value.len() as u64,
        names: names
            .iter()
            .map(|name| model.name(*name))
            .collect::<Result<_>>()?,
        what,
        compilations,
        users,
        referrers: referrers(model, record.address, &names, &tickets)?,
        sections: sections.collect::<Result<_>>()?,
    })
}

/// The tickets that name a compilation, by path; if none is on record, what else is known of it.
fn paths(
    model: &Model<'_>,
    compilation: &CompilationView<'_>,
    tickets: &HashMap<Address, Vec<String>>,
) -> Result<Vec<String>> {
    if let Some(paths) = tickets.get(&compilation.record().address) {
        return Ok(paths.clone());
    }
    let digest = compilation.record().key();
    Ok(vec![match source_name(compilation) {
        Some(source) => format!(
            "compilation {digest:.12} of {}, no ticket on record",
            model.name(source)?
        ),
        None => format!("compilation {digest:.12}, no ticket on record"),
    }])
}

/// Who refers to the definition at `address`, which is called `names`. A local name means it only where it is itself.
fn referrers(
    model: &Model<'_>,
    address: Address,
    names: &[NameId],
    tickets: &HashMap<Address, Vec<String>>,
) -> Result<Vec<Referrer>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut local_names = Vec::with_capacity(names.len());
    for name in names {
        let name = model.programs.name(*name)?;
        local_names.extend(model.programs.find_name(local_name(name))?);
    }
    // By fragment: whether it does, by a global name or the content, and by a local name.
    let mut known: HashMap<Address, [bool; 2]> = HashMap::new();
    for compilation in model.compilations() {
        let compilation = compilation?;
        let members = compilation.members();
        let is_here = members.iter().any(|member| member.fragment == address);
        for (index, member) in members.iter().enumerate() {
            if member.fragment == address {
                continue;
            }
            let [anywhere, here] = match known.get(&member.fragment) {
                Some(known) => *known,
                None => {
                    let does = refers(model, member.fragment, address, [names, &local_names])?;
                    known.insert(member.fragment, does);
                    does
                }
            };
            if !(anywhere || here && is_here) {
                continue;
            }
            let definitions = model.definitions(&compilation);
            let name = match best_name(&definitions[index]) {
                Some(name) => model.name(name)?,
                None => {
                    let view = model.programs.fragment(member.fragment)?;
                    model.nameless(&view, source_name(&compilation), 1)?
                }
            };
            let paths = paths(model, &compilation, tickets)?;
            found.entry(name).or_default().extend(paths);
        }
    }
    let found = found.into_iter();
    Ok(found
        .map(|(name, tickets)| Referrer {
            name,
            tickets: tickets.into_iter().collect(),
        })
        .collect())
}

/// Whether a fragment refers to another: by a global name or its content, and by a local name. `names` are these, and those by which
/// fragments know local symbols.
fn refers(
    model: &Model<'_>,
    from: Address,
    to: Address,
    names: [&[NameId]; 2],
) -> Result<[bool; 2]> {
    let view = model.programs.fragment(from)?;
    let mut refers = [false; 2];
    for target in view.targets() {
        let is_among = |names: &[NameId]| names.contains(&NameId(target.value()));
        match target.kind() {
            Some(TargetKind::Global) => refers[0] |= is_among(names[0]),
            Some(TargetKind::Local | TargetKind::OwnNamed) => refers[1] |= is_among(names[1]),
            Some(TargetKind::OwnAnonymous) => {
                let address = view.anonymous().get(target.value() as usize);
                refers[0] |= address == Some(&to);
            }
            _ => {}
        }
    }
    Ok(refers)
}

fn section_detail(
    model: &Model<'_>,
    view: &FragmentView<'_>,
    section: &SectionView<'_>,
    suffix: Option<NameId>,
) -> Result<Section> {
    const SHT_NOBITS: u32 = 8;
    let record = section.record;
    let kind = section_kind(record).context("unknown kind of section")?;
    let mut fixups = Vec::with_capacity(section.fixups.len());
    for fixup in section.fixups.iter() {
        fixups.push(fixup_text(model, view, &fixup, suffix)?);
    }
    let bytes = section.bytes();
    let data = |fixups| Content::Data {
        bytes: hex(&bytes),
        fixups,
    };
    let content = if record.sh_type == SHT_NOBITS {
        Content::Nobits
    } else if kind == SectionKind::Text {
        Content::Code(disasm::disassemble(&bytes, &fixups))
    } else if kind == SectionKind::Unwind {
        match frames_of(model, view, section) {
            Ok(frames) => Content::Frames { frames, fixups },
            // Compilers of the future may write what we cannot decode.
            Err(_) => data(fixups),
        }
    } else {
        data(fixups)
    };
    let link = match section.link.checked_sub(1) {
        Some(target) => match view.targets().get(target as usize) {
            Some(target) => Some(model.target(view, target, suffix)?),
            None => None,
        },
        None => None,
    };
    Ok(Section {
        name: model.section_name(record, suffix)?,
        kind: kind_name(kind),
        sh_type: record.sh_type,
        flags: flag_letters(record.sh_flags),
        size: section.size,
        align: 1_u64.checked_shl(record.align_log2.into()).unwrap_or(0),
        entsize: section.entsize,
        link,
        content,
    })
}

fn fixup_text(
    model: &Model<'_>,
    view: &FragmentView<'_>,
    fixup: &WideFixupRecord,
    suffix: Option<NameId>,
) -> Result<Fixup> {
    let target = match fixup.target {
        WideFixupRecord::NO_TARGET => String::new(),
        index => {
            let target = view.targets().get(index as usize);
            let target = target.with_context(|| format!("fixup without target {index}"))?;
            model.target(view, target, suffix)?
        }
    };
    let name = match fixup.fixup_type {
        FIXUP_CIE => "CIE".to_owned(),
        r_type => reloc::name(r_type).to_string(),
    };
    Ok(Fixup {
        offset: fixup.offset,
        name,
        target,
        addend: fixup.addend,
        pc_relative: is_pc_relative(fixup.fixup_type),
    })
}

fn frames_of(
    model: &Model<'_>,
    view: &FragmentView<'_>,
    section: &SectionView<'_>,
) -> Result<Vec<Frame>, String> {
    let bytes = section.bytes();
    if section.record.bits & (SectionRecord::CIE | SectionRecord::WHOLE_UNWIND) != 0 {
        return frames::decode(&bytes);
    }
    // Which fragment holds the CIE of the FDE whose pointer is at some offset.
    let mut cies: HashMap<u64, Cow<'_, [u8]>> = HashMap::new();
    for fixup in section.fixups.iter() {
        let target = view.targets().get(fixup.target as usize);
        let Some(target) = target.filter(|_| fixup.fixup_type == FIXUP_CIE) else {
            continue;
        };
        if target.kind() != Some(TargetKind::OwnAnonymous) {
            continue;
        }
        if let Some(&address) = view.anonymous().get(target.value() as usize)
            && let Ok(cie) = model.programs.fragment(address)
            && let (1, Some(section)) = (cie.section_count(), cie.section(0))
        {
            cies.insert(fixup.offset, section.bytes());
        }
    }
    frames::decode_fdes(&bytes, |field| cies.get(&field).map(|cie| &**cie))
}

impl View for Detail {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        writeln!(out, "fragment {}", style.digest(&self.digest))?;
        if !self.names.is_empty() {
            out.field("  defines", style.name(self.names.join(", ")))?;
        }
        if let Some(what) = &self.what {
            out.field("  is", what)?;
        }
        let compilations = match self.compilations.len() {
            1 => "1 compilation".to_owned(),
            count => format!("{count} compilations"),
        };
        out.field("  users", compilations)?;
        for user in self.users.iter().take(MOST_USERS) {
            writeln!(out, "    {user}")?;
        }
        if let Some(more) = self.users.len().checked_sub(MOST_USERS + 1) {
            writeln!(out, "    and {} more", more + 1)?;
        }
        if !self.referrers.is_empty() {
            out.field("  referrers", self.referrers.len())?;
        }
        for referrer in self.referrers.iter().take(MOST_USERS) {
            let tickets = match &referrer.tickets[..] {
                [] => String::new(),
                [first] => first.clone(),
                [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            };
            writeln!(
                out,
                "    {}  {}",
                style.name(&referrer.name),
                style.dim(tickets)
            )?;
        }
        if let Some(more) = self.referrers.len().checked_sub(MOST_USERS + 1) {
            writeln!(out, "    and {} more", more + 1)?;
        }
        out.field(
            "  record",
            format_args!("{} bytes at {:#x}", grouped(self.bytes), self.offset),
        )?;
        for section in &self.sections {
            section.text(out)?;
        }
        writeln!(out)
    }
}

impl Section {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        write!(
            out,
            "\n  {}  {}, {} bytes, align {}, flags {}",
            style.heading(&self.name),
            self.kind,
            grouped(self.size),
            self.align,
            self.flags
        )?;
        if self.entsize != 0 {
            write!(out, ", entsize {}", self.entsize)?;
        }
        if let Some(link) = &self.link {
            write!(out, ", linked to {link}")?;
        }
        writeln!(out)?;
        match &self.content {
            Content::Code(lines) => {
                for line in lines {
                    // As objdump: seven bytes a line, the rest below.
                    let mut chunks = line.bytes.as_bytes().chunks(14);
                    let bytes = spaced(chunks.next().unwrap_or_default());
                    writeln!(out, "    {:4x}:  {bytes:<20}  {}", line.offset, line.text)?;
                    for (index, chunk) in chunks.enumerate() {
                        let offset = line.offset + 7 * (index as u64 + 1);
                        writeln!(out, "    {offset:4x}:  {}", spaced(chunk))?;
                    }
                    for fixup in &line.fixups {
                        fixup_line(out, fixup, 12)?;
                    }
                }
            }
            Content::Frames { frames, fixups } => {
                for frame in frames {
                    writeln!(
                        out,
                        "    {:4x}:  {}  {}",
                        frame.offset, frame.kind, frame.facts
                    )?;
                    for instruction in &frame.instructions {
                        writeln!(out, "           {instruction}")?;
                    }
                }
                for fixup in fixups {
                    fixup_line(out, fixup, 4)?;
                }
            }
            Content::Data { bytes, fixups } => {
                let raw: Vec<u8> = bytes
                    .as_bytes()
                    .chunks(2)
                    .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                    .collect();
                hex_dump(out, &raw, 4)?;
                for fixup in fixups {
                    fixup_line(out, fixup, 4)?;
                }
            }
            Content::Nobits => {}
        }
        Ok(())
    }
}

fn fixup_line(out: &mut Text<'_>, fixup: &Fixup, indent: usize) -> std::io::Result<()> {
    let style = out.style;
    writeln!(
        out,
        "{:indent$}{:4x}: {}",
        "",
        fixup.offset,
        style.dim(format_args!("{}  {}", fixup.name, fixup.expression())),
    )
}

/// Hexadecimal digits in pairs.
fn spaced(digits: &[u8]) -> String {
    let mut text = String::with_capacity(digits.len() * 3 / 2);
    for (index, &digit) in digits.iter().enumerate() {
        if index > 0 && index % 2 == 0 {
            text.push(' ');
        }
        text.push(char::from(digit));
    }
    text
}
