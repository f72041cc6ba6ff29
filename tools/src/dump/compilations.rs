//! What translation units defined: a list, or one in full.

use super::model::{Model, best_name, binding_name, source_name, type_name, visibility_name};
use super::output::{Text, View, grouped, printable};
use anyhow::{Result, bail};
use format_spec::digest::Digest;
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{Index, SymbolRecord};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use store::program::CompilationView;

/// A compilation in a list.
#[derive(Serialize)]
pub struct Row {
    digest: String,
    members: usize,
    symbols: usize,
    /// Bytes of its record.
    bytes: u64,
    /// The tickets on record that name it.
    tickets: Vec<String>,
}

/// Heading for [`Row`]s.
pub const HEADING: &str = "digest        definitions  symbols   bytes  tickets";

/// All compilations.
pub fn list<'s>(model: Model<'s>) -> Result<impl Iterator<Item = Result<Row>> + use<'s>> {
    let tickets = tickets_by_compilation(&model)?;
    Ok(model.compilations().map(move |compilation| {
        let compilation = compilation?;
        let record = compilation.record();
        Ok(Row {
            digest: record.key().to_string(),
            members: compilation.members().len(),
            symbols: compilation.symbols().len().saturating_sub(1),
            bytes: record.value.len() as u64,
            tickets: tickets.get(&record.address).cloned().unwrap_or_default(),
        })
    }))
}

/// The paths of the tickets on record, by the compilation that they name.
pub fn tickets_by_compilation(model: &Model<'_>) -> Result<HashMap<Address, Vec<String>>> {
    let mut tickets: HashMap<Address, Vec<String>> = HashMap::new();
    for record in model.programs.records(Index::Tickets) {
        let view = model.programs.ticket(&record?)?;
        let path = printable(view.path).into_owned();
        tickets
            .entry(view.header.compilation)
            .or_default()
            .push(path);
    }
    for paths in tickets.values_mut() {
        paths.sort();
    }
    Ok(tickets)
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let tickets = match &self.tickets[..] {
            [] => "(none on record)".to_owned(),
            [first] => first.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        writeln!(
            out,
            "{}  {:>11}  {:>7}  {:>6}  {tickets}",
            style.digest(&self.digest[..12]),
            self.members,
            self.symbols,
            self.bytes
        )
    }
}

/// The compilation that a digest prefix or a ticket file means, or the end of the path of a ticket on record, whose file
/// need not be there any more.
pub fn find(model: &Model<'_>, which: &str) -> Result<Digest> {
    let path = Path::new(which);
    if path.is_file() {
        return Ok(super::tickets::read(path)?.compilation);
    }
    if let Some(digest) = model.find_prefix(Index::Compilations, "compilation", which)? {
        return Ok(digest);
    }
    let mut like = BTreeMap::new();
    for record in model.programs.records(Index::Tickets) {
        let ticket = model.programs.ticket(&record?)?;
        let on_record = Path::new(OsStr::from_bytes(ticket.path));
        if on_record.ends_with(which.trim_start_matches("./")) {
            let compilation = model.programs.compilation_at(ticket.header.compilation)?;
            like.insert(
                printable(ticket.path).into_owned(),
                compilation.record().key(),
            );
        }
    }
    let mut digests: Vec<Digest> = like.values().copied().collect();
    digests.sort();
    digests.dedup();
    match digests[..] {
        [digest] => Ok(digest),
        [] => bail!("{which}: neither a ticket file nor the digest of a compilation"),
        _ => {
            let mut message = format!("{which}: there are several tickets of this name:");
            for (path, digest) in like.iter().take(20) {
                message.push_str(&format!("\n  {digest:.12}  {path}"));
            }
            if like.len() > 20 {
                message.push_str(&format!("\n  and {} more", like.len() - 20));
            }
            bail!(message)
        }
    }
}

/// How a compilation is recorded that is not recorded whole.
#[derive(Serialize)]
struct Difference {
    base: u64,
    bytes_whole: u64,
}

/// A compilation in full.
#[derive(Serialize)]
pub struct Detail {
    digest: String,
    /// Offset of its record.
    offset: u64,
    /// Of the record's value.
    bytes: u64,
    /// If it is recorded as a difference: offset of the record to which it is one, and bytes that it would have whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference>,
    machine: u16,
    os_abi: u8,
    flags: u32,
    address_significance: bool,
    tickets: Vec<String>,
    groups: Vec<Group>,
    members: Vec<Member>,
    symbols: Vec<Symbol>,
}

#[derive(Serialize)]
struct Group {
    signature: String,
    comdat: bool,
}

#[derive(Serialize)]
struct Member {
    fragment: String,
    name: Option<String>,
    /// What it is, if it has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
    size: u64,
    sections: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    bindings: Vec<Binding>,
}

#[derive(Serialize)]
struct Binding {
    target: String,
    /// Index of the symbol that it is in this compilation.
    symbol: u32,
}

#[derive(Serialize)]
struct Symbol {
    index: usize,
    name: String,
    binding: &'static str,
    #[serde(rename = "type")]
    symbol_type: &'static str,
    visibility: &'static str,
    place: String,
    value: u64,
    size: u64,
}

/// A compilation in full.
pub fn detail(model: &Model<'_>, digest: &Digest) -> Result<Detail> {
    let compilation = model.programs.compilation(digest)?;
    let header = compilation.header();
    let record = compilation.record();
    let groups = compilation
        .groups()
        .iter()
        .map(|group| {
            Ok(Group {
                signature: model.name(group.signature)?,
                comdat: group.flags & 1 != 0,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut section_names = Vec::with_capacity(header.section_count as usize);
    let mut members = Vec::with_capacity(compilation.members().len());
    for (index, symbols) in model.definitions(&compilation).iter().enumerate() {
        let member = member(model, &compilation, index, best_name(symbols), &groups)?;
        section_names.extend(member.sections.iter().cloned());
        members.push(member);
    }
    let symbols = compilation.symbols().iter().enumerate().skip(1);
    Ok(Detail {
        digest: digest.to_string(),
        offset: record.address.0,
        bytes: record.value.len() as u64,
        difference: compilation.base().map(|base| Difference {
            base: base.0,
            bytes_whole: compilation.size() as u64,
        }),
        machine: header.machine,
        os_abi: header.os_abi,
        flags: header.e_flags,
        address_significance: header.bits & format_spec::program::CompilationHeader::ADDRSIG != 0,
        tickets: tickets_by_compilation(model)?
            .remove(&record.address)
            .unwrap_or_default(),
        groups,
        members,
        symbols: symbols
            .map(|(index, record)| symbol(model, &compilation, &section_names, index, record))
            .collect::<Result<_>>()?,
    })
}

fn member(
    model: &Model<'_>,
    compilation: &CompilationView<'_>,
    index: usize,
    name: Option<NameId>,
    groups: &[Group],
) -> Result<Member> {
    let record = &compilation.members()[index];
    let fragment = model.programs.fragment(record.fragment)?;
    let targets = fragment.targets().iter();
    let group = record.group.checked_sub(1);
    Ok(Member {
        fragment: fragment.record().key().to_string(),
        name: name.map(|name| model.name(name)).transpose()?,
        what: match name {
            Some(_) => None,
            None => Some(model.nameless(&fragment, source_name(compilation), 1)?),
        },
        size: fragment
            .sections()
            .map(|section| section.size)
            .fold(0, u64::saturating_add),
        sections: fragment
            .sections()
            .map(|section| model.section_name(section.record, Some(record.suffix)))
            .collect::<Result<_>>()?,
        group: group
            .and_then(|group| groups.get(group as usize))
            .map(|group| group.signature.clone()),
        bindings: targets
            .zip(compilation.bindings_of(index).iter())
            .map(|(target, symbol)| {
                Ok(Binding {
                    target: model.target(&fragment, target, Some(record.suffix))?,
                    symbol,
                })
            })
            .collect::<Result<_>>()?,
    })
}

fn symbol(
    model: &Model<'_>,
    compilation: &CompilationView<'_>,
    section_names: &[String],
    index: usize,
    record: &SymbolRecord,
) -> Result<Symbol> {
    let (value, size) = compilation.value_and_size(record);
    let place = if record.bits & SymbolRecord::PIECE != 0 {
        super::model::piece_text(&model.programs.piece(PieceId(record.section))?)
    } else {
        match record.section {
            SymbolRecord::SECTION_UNDEFINED => "undefined".to_owned(),
            SymbolRecord::SECTION_ABSOLUTE => "absolute".to_owned(),
            SymbolRecord::SECTION_COMMON => "common".to_owned(),
            section => match section_names.get(section as usize - 1) {
                Some(name) => name.clone(),
                None => bail!("symbol {index} is in section {section}, which there is not"),
            },
        }
    };
    Ok(Symbol {
        index,
        name: model.name(record.name)?,
        binding: binding_name(record.info),
        symbol_type: type_name(record.info),
        visibility: visibility_name(record.other),
        place,
        value,
        size,
    })
}

impl View for Detail {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        writeln!(out, "compilation {}", style.digest(&self.digest))?;
        for ticket in &self.tickets {
            out.field("  ticket", ticket)?;
        }
        out.field(
            "  record",
            format_args!("{} bytes at {:#x}", grouped(self.bytes), self.offset),
        )?;
        if let Some(difference) = &self.difference {
            out.field(
                "  base",
                format_args!(
                    "{:#x}, to which it is recorded as a difference ({} bytes whole)",
                    difference.base,
                    grouped(difference.bytes_whole)
                ),
            )?;
        }
        if !self.groups.is_empty() {
            writeln!(out, "\n{}", style.heading("groups"))?;
            for group in &self.groups {
                let kind = if group.comdat { "comdat" } else { "group" };
                writeln!(out, "  {kind:<7} {}", group.signature)?;
            }
        }
        writeln!(out, "\n{}", style.heading("definitions"))?;
        for member in &self.members {
            writeln!(
                out,
                "  {}  {:>7}  {}  {}",
                style.digest(&member.fragment[..12]),
                member.size,
                match (&member.name, &member.what) {
                    (Some(name), _) => style.name(name).to_string(),
                    (None, what) => style.dim(what.as_deref().unwrap_or_default()).to_string(),
                },
                style.dim(member.sections.join(" ")),
            )?;
            if let Some(group) = &member.group {
                writeln!(out, "    in group {group}")?;
            }
            for binding in &member.bindings {
                let symbol = self.symbols.get((binding.symbol as usize).wrapping_sub(1));
                let symbol = symbol.map_or("nothing", |symbol| symbol.place.as_str());
                writeln!(
                    out,
                    "    -> {}  [{}] {symbol}",
                    binding.target, binding.symbol
                )?;
            }
        }
        writeln!(out, "\n{}", style.heading("symbols"))?;
        for symbol in &self.symbols {
            writeln!(
                out,
                "  {:>5}  {:<7} {:<7} {:<9} {:>#6x}  {:>6}  {}  {}",
                symbol.index,
                symbol.binding,
                symbol.symbol_type,
                symbol.visibility,
                symbol.value,
                symbol.size,
                style.name(&symbol.name),
                style.dim(&symbol.place),
            )?;
        }
        writeln!(out)
    }
}
