//! Definitions: a list of them, or one in full.

use super::disasm::{self, Fixup, Line, is_pc_relative};
use super::frames::{self, Frame};
use super::model::{Model, Usage, flag_letters};
use super::output::{Text, View, grouped, hex, hex_dump};
use anyhow::{Context, Result, bail};
use format_spec::digest::Digest;
use format_spec::fragment::{FIXUP_CIE, SectionKind, SectionRecord, TargetKind, WideFixupRecord};
use format_spec::ids::{Address, NameId};
use format_spec::program::Index;
use linker::arch::x86_64::reloc;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use store::program::{FragmentView, SectionView, section_kind};

/// A definition in a list.
#[derive(Serialize)]
pub struct Row {
    digest: String,
    name: Option<String>,
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
    model.programs.records(Index::Fragments).map(move |record| {
        let record = record?;
        let view = model.programs.fragment(record.address)?;
        let usage = usage.get(&record.address).cloned().unwrap_or_default();
        let sections = || view.sections();
        Ok(Row {
            digest: record.key().to_string(),
            name: usage.name.map(|name| model.name(name)).transpose()?,
            size: sections()
                .map(|section| section.size)
                .fold(0, u64::saturating_add),
            fixups: sections().map(|section| section.fixups.len() as u64).sum(),
            compilations: usage.compilations,
            sections: sections()
                .map(|section| model.section_name(section.record, usage.suffix))
                .collect::<Result<_>>()?,
        })
    })
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let name = self.name.as_deref().unwrap_or("(anonymous)");
        writeln!(
            out,
            "{}  {:>7}  {:>6}  {:>5}  {}  {}",
            style.digest(&self.digest[..12]),
            self.size,
            self.fixups,
            self.compilations,
            style.name(name),
            style.dim(self.sections.join(" ")),
        )
    }
}

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
    compilations: Vec<String>,
    sections: Vec<Section>,
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

/// The definitions that a digest prefix or a symbol's name means: a name may stand
/// for different ones in different compilations.
pub fn find(model: &Model<'_>, which: &str) -> Result<Vec<Digest>> {
    if let Some(digest) = model.find_prefix(Index::Fragments, "fragment", which)? {
        return Ok(vec![digest]);
    }
    let mut found = BTreeMap::new();
    if let Some(id) = model.programs.find_name(which.as_bytes())? {
        for compilation in model.compilations() {
            let compilation = compilation?;
            let definitions = model.definitions(&compilation);
            for (member, symbols) in compilation.members().iter().zip(definitions) {
                if symbols.iter().any(|symbol| symbol.name == id) {
                    found.entry(member.fragment).or_insert(());
                }
            }
        }
    }
    if found.is_empty() {
        bail!("no definition has the digest or the name {which}");
    }
    found
        .into_keys()
        .map(|address| Ok(model.programs.fragment(address)?.record().key()))
        .collect()
}

/// The definition with this digest, in full.
pub fn detail(model: &Model<'_>, digest: &Digest) -> Result<Detail> {
    let snapshot = model.programs.snapshot();
    let record = snapshot
        .get(Index::Fragments.slot(), digest)?
        .with_context(|| format!("no fragment with the digest {digest}"))?;
    let view = model.programs.fragment(record.address)?;
    let mut names: Vec<NameId> = Vec::new();
    let mut compilations = Vec::new();
    let mut suffix = None;
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
        compilations,
        sections: sections.collect::<Result<_>>()?,
    })
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
        let users: Vec<_> = self
            .compilations
            .iter()
            .map(|digest| &digest[..12])
            .collect();
        out.field(
            "  users",
            match users.len() {
                0..=8 => format!("{} compilations {}", users.len(), users.join(" ")),
                n => format!("{n} compilations {} …", users[..8].join(" ")),
            },
        )?;
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
