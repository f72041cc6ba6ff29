//! What the views ask the repository for: names as text, definitions with the
//! symbols that name them, who uses a fragment, and digests by prefix.

use super::output::printable;
use anyhow::{Result, bail};
use format_spec::digest::Digest;
use format_spec::fragment::{SectionKind, SectionRecord, TargetKind, TargetRecord};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::program::{Index, PieceHeader, SymbolRecord};
use std::collections::HashMap;
use store::program::{CompilationView, FragmentView, PieceView, Programs, section_kind};

/// `STT_SECTION` and `STT_FILE`: symbols that name no definition (gABI, "Symbol Table").
const STT_SECTION: u8 = 3;
const STT_FILE: u8 = 4;
/// `SHF_STRINGS`: a piece that is a string with its terminator.
const SHF_STRINGS: u32 = 0x20;

/// A snapshot, and how to show it.
#[derive(Clone, Copy)]
pub struct Model<'s> {
    /// The programs.
    pub programs: Programs<'s>,
    /// Whether names are demangled.
    pub demangle: bool,
}

impl<'s> Model<'s> {
    /// A name as text.
    pub fn name(&self, id: NameId) -> Result<String> {
        Ok(self.name_text(self.programs.name(id)?))
    }

    /// The bytes of a name as text.
    pub fn name_text(&self, bytes: &[u8]) -> String {
        if self.demangle {
            let demangled = linker::messages::diag::demangle(bytes);
            printable(demangled.as_bytes()).into_owned()
        } else {
            printable(bytes).into_owned()
        }
    }

    /// The name of a fragment's section; `suffix` is that of the member that it is.
    pub fn section_name(&self, section: &SectionRecord, suffix: Option<NameId>) -> Result<String> {
        let base = self.name(section.name)?;
        if section.bits & SectionRecord::SUFFIXED == 0 {
            return Ok(base);
        }
        Ok(match suffix {
            Some(suffix) => format!("{base}.{}", printable(self.programs.name(suffix)?)),
            None => format!("{base}.*"),
        })
    }

    /// The name by which a fragment knows a local symbol. For one that had a number a star stands in its place.
    fn local_name(&self, target: &TargetRecord) -> Result<String> {
        let mut name = self.name(NameId(target.value()))?;
        if name.ends_with('.') {
            name.push('*');
        }
        Ok(name)
    }

    /// What a target of a fragment's fixups is, as text; `suffix` as in
    /// [`Model::section_name`].
    pub fn target(
        &self,
        fragment: &FragmentView<'s>,
        target: &TargetRecord,
        suffix: Option<NameId>,
    ) -> Result<String> {
        Ok(match target.kind() {
            Some(TargetKind::Global) => self.name(NameId(target.value()))?,
            Some(TargetKind::Local) => self.local_name(target)?,
            Some(TargetKind::OwnNamed) => format!("({})", self.local_name(target)?),
            Some(TargetKind::OwnAnonymous) => {
                match fragment.anonymous().get(target.value() as usize) {
                    Some(&address) => {
                        let other = self.programs.fragment(address)?;
                        let what = self.kind_of(&other)?;
                        format!("{what} {:.12}", other.record().key())
                    }
                    None => bail!("fragment {:.12}: no such target", fragment.record().key()),
                }
            }
            Some(TargetKind::Section) => match fragment.section(target.value()) {
                Some(section) => self.section_name(section.record, suffix)?,
                None => bail!("fragment {:.12}: no such section", fragment.record().key()),
            },
            Some(TargetKind::Piece) => piece_text(&self.programs.piece(PieceId(target.value()))?),
            None => bail!("fragment {:.12}: unknown target", fragment.record().key()),
        })
    }

    /// For each member of a compilation the symbols that are defined in it.
    pub fn definitions(&self, compilation: &CompilationView<'s>) -> Vec<Vec<&'s SymbolRecord>> {
        let members = compilation.members();
        let mut definitions = vec![Vec::new(); members.len()];
        for symbol in compilation.symbols() {
            if symbol.bits & SymbolRecord::PIECE != 0
                || matches!(symbol.info & 0xf, STT_SECTION | STT_FILE)
                || matches!(
                    symbol.section,
                    SymbolRecord::SECTION_UNDEFINED
                        | SymbolRecord::SECTION_ABSOLUTE
                        | SymbolRecord::SECTION_COMMON
                )
            {
                continue;
            }
            let section = symbol.section - 1;
            let after = members.partition_point(|member| member.first_section <= section);
            if let Some(symbols) = after
                .checked_sub(1)
                .and_then(|member| definitions.get_mut(member))
            {
                symbols.push(symbol);
            }
        }
        definitions
    }

    /// What a fragment is that no symbol names: `debug information of a.c`. `users` is how many compilations have it, and
    /// `source` the source of one of them.
    pub fn nameless(
        &self,
        fragment: &FragmentView<'s>,
        source: Option<NameId>,
        users: u32,
    ) -> Result<String> {
        let what = self.kind_of(fragment)?;
        match fragment.section(0) {
            None => return Ok(what),
            // What all frame descriptions of a kind begin with is nobody's.
            Some(section) if section.record.bits & SectionRecord::CIE != 0 => return Ok(what),
            Some(_) => {}
        }
        let of = match (source, users) {
            (_, 0) => return Ok(format!("{what}, which no compilation has by itself")),
            (Some(source), _) => self.name(source)?,
            (None, _) => "a source that its object does not name".to_owned(),
        };
        Ok(match users {
            1 => format!("{what} of {of}"),
            users => format!("{what} of {of} and {} more", users - 1),
        })
    }

    /// What a fragment is by its first section: `debug information`.
    fn kind_of(&self, fragment: &FragmentView<'s>) -> Result<String> {
        let Some(section) = fragment.section(0) else {
            return Ok("nothing".to_owned());
        };
        Ok(match section_kind(section.record) {
            Some(SectionKind::Debug) => "debug information".to_owned(),
            Some(SectionKind::ExceptionTable) => "exception table".to_owned(),
            Some(SectionKind::Unwind) if section.record.bits & SectionRecord::CIE != 0 => {
                "head of frame descriptions (CIE)".to_owned()
            }
            Some(SectionKind::Unwind) => "frame descriptions".to_owned(),
            _ => self.section_name(section.record, None)?,
        })
    }

    /// Whether a name is the one that is asked for, as an object has it or as the source does, with its parameters or
    /// without; or has it in it.
    pub fn likeness(&self, name: NameId, asked: &str) -> Result<Likeness> {
        let bytes = self.programs.name(name)?;
        if bytes == asked.as_bytes() {
            return Ok(Likeness::Same);
        }
        let shown = linker::messages::diag::demangle(bytes);
        if shown == asked || without_parameters(&shown) == asked {
            return Ok(Likeness::Same);
        }
        let has = shown.contains(asked) || String::from_utf8_lossy(bytes).contains(asked);
        Ok(match has {
            true => Likeness::Part,
            false => Likeness::None,
        })
    }

    /// All compilations.
    pub fn compilations(&self) -> impl Iterator<Item = Result<CompilationView<'s>>> + use<'s> {
        let programs = self.programs;
        programs
            .records(Index::Compilations)
            .map(move |record| Ok(programs.compilation_at(record?.address)?))
    }

    /// Who has each fragment as a member, and under which names.
    pub fn usage(&self) -> Result<HashMap<Address, Usage>> {
        let mut usage: HashMap<Address, Usage> = HashMap::new();
        for compilation in self.compilations() {
            let compilation = compilation?;
            let definitions = self.definitions(&compilation);
            let source = source_name(&compilation);
            let mut seen = std::collections::HashSet::new();
            for (member, symbols) in compilation.members().iter().zip(definitions) {
                let entry = usage.entry(member.fragment).or_default();
                // A compilation may have the same content twice.
                if seen.insert(member.fragment) {
                    entry.compilations += 1;
                }
                if entry.name.is_none() {
                    entry.name = best_name(&symbols);
                    entry.suffix = Some(member.suffix);
                }
                if entry.source.is_none() {
                    entry.source = source;
                }
            }
        }
        Ok(usage)
    }

    /// The record of `index` whose key begins with `prefix`.
    pub fn by_prefix(&self, index: Index, what: &str, prefix: &str) -> Result<Digest> {
        match self.find_prefix(index, what, prefix)? {
            Some(digest) => Ok(digest),
            None => bail!("no {what} with the digest {prefix}"),
        }
    }

    /// The same, or `None` if there is none (or `prefix` is no digest). More than
    /// one is an error that lists them.
    pub fn find_prefix(&self, index: Index, what: &str, prefix: &str) -> Result<Option<Digest>> {
        if !is_digest_prefix(prefix) {
            return Ok(None);
        }
        let prefix = prefix.to_ascii_lowercase();
        if let Some(digest) = Digest::from_hex(&prefix) {
            let found = self.programs.snapshot().get(index.slot(), &digest)?;
            return Ok(found.map(|record| record.key()));
        }
        let mut found: Vec<Digest> = Vec::new();
        for record in self.programs.records(index) {
            let key = record?.key();
            if key.to_string().starts_with(&prefix) {
                found.push(key);
            }
        }
        found.sort();
        match found[..] {
            [] => Ok(None),
            [digest] => Ok(Some(digest)),
            _ => {
                let mut message =
                    format!("the {what} digest {prefix} is ambiguous; candidates are:");
                for digest in found.iter().take(20) {
                    message.push_str(&format!("\n  {digest}"));
                }
                if found.len() > 20 {
                    message.push_str(&format!("\n  and {} more", found.len() - 20));
                }
                bail!(message)
            }
        }
    }
}

/// How like a name is to what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// Not at all.
    None,
    /// It has it in it.
    Part,
    /// It is it.
    Same,
}

/// A C++ function's name without its parameters and what is behind them: `n::f` of `n::f(int) const`. Templates' arguments,
/// `operator()` and `(anonymous namespace)` have parentheses of their own.
fn without_parameters(shown: &str) -> &str {
    const OWN: [&str; 3] = ["operator()", "(anonymous namespace)", "{lambda("];
    let mut depth = 0;
    for (at, character) in shown.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth <= 0 => {
                let is_own = OWN.iter().any(|own| {
                    let inside = own.find('(').unwrap_or_default();
                    at.checked_sub(inside)
                        .and_then(|start| shown.get(start..))
                        .is_some_and(|rest| rest.starts_with(own))
                });
                if !is_own {
                    return &shown[..at];
                }
            }
            _ => {}
        }
    }
    shown
}

/// Who uses a fragment.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// Number of compilations of which it is a member.
    pub compilations: u32,
    /// A name that it defines in one of them.
    pub name: Option<NameId>,
    /// The suffix of its sections in one of them.
    pub suffix: Option<NameId>,
    /// The source of one of them, if an object says what it was made of.
    pub source: Option<NameId>,
}

/// The source that a compilation was made of, as its `STT_FILE` symbol has it.
pub fn source_name(compilation: &CompilationView<'_>) -> Option<NameId> {
    let mut symbols = compilation.symbols().iter();
    let file = symbols.find(|symbol| symbol.info & 0xf == STT_FILE && symbol.name != NameId(0))?;
    Some(file.name)
}

/// The name by which people would call a definition: a global one if there is one.
pub fn best_name(symbols: &[&SymbolRecord]) -> Option<NameId> {
    let global = symbols.iter().find(|symbol| symbol.info >> 4 != 0);
    let named = |symbol: &&&SymbolRecord| symbol.name != NameId(0);
    global
        .or_else(|| symbols.iter().find(named))
        .map(|symbol| symbol.name)
}

/// Whether `text` could be the beginning of a digest: at least four digits.
pub fn is_digest_prefix(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A piece as text: a string in quotes, anything else in hexadecimal.
pub fn piece_text(piece: &PieceView<'_>) -> String {
    content_text(piece.header, piece.bytes)
}

fn content_text(header: &PieceHeader, bytes: &[u8]) -> String {
    const LONGEST: usize = 60;
    if header.sh_flags & SHF_STRINGS != 0 && header.entsize == 1 {
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let mut text = String::from("\"");
        for c in printable(bytes).chars() {
            if text.chars().count() > LONGEST {
                text.push('…');
                break;
            }
            if c == '"' {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
        return text;
    }
    let mut text = String::from("0x");
    text.push_str(&super::output::hex(&bytes[..bytes.len().min(LONGEST / 2)]));
    if bytes.len() > LONGEST / 2 {
        text.push('…');
    }
    text
}

/// A symbol's binding (gABI, figure 4-16; `STB_GNU_UNIQUE`).
pub fn binding_name(info: u8) -> &'static str {
    match info >> 4 {
        0 => "local",
        1 => "global",
        2 => "weak",
        10 => "unique",
        _ => "?",
    }
}

/// A symbol's type (gABI, figure 4-17; `STT_GNU_IFUNC`).
pub fn type_name(info: u8) -> &'static str {
    match info & 0xf {
        0 => "notype",
        1 => "object",
        2 => "func",
        STT_SECTION => "section",
        STT_FILE => "file",
        5 => "common",
        6 => "tls",
        10 => "ifunc",
        _ => "?",
    }
}

/// A symbol's visibility (gABI, figure 4-18).
pub fn visibility_name(other: u8) -> &'static str {
    match other & 3 {
        0 => "default",
        1 => "internal",
        2 => "hidden",
        _ => "protected",
    }
}

/// A section's flags in the letters of `readelf -S`.
pub fn flag_letters(flags: u32) -> String {
    const LETTERS: &[(u32, char)] = &[
        (0x1, 'W'),
        (0x2, 'A'),
        (0x4, 'X'),
        (0x10, 'M'),
        (0x20, 'S'),
        (0x40, 'I'),
        (0x80, 'L'),
        (0x100, 'O'),
        (0x200, 'G'),
        (0x400, 'T'),
        (0x800, 'C'),
        (0x20_0000, 'R'),
        (0x1000_0000, 'l'),
        (0x8000_0000, 'E'),
    ];
    let mut text = String::new();
    let mut rest = flags;
    for &(bit, letter) in LETTERS {
        if flags & bit != 0 {
            text.push(letter);
            rest &= !bit;
        }
    }
    if rest != 0 {
        text.push('?');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    #[test]
    fn prefixes_are_hexadecimal_and_not_too_short() {
        assert!(is_digest_prefix("00aF"));
        assert!(!is_digest_prefix("00a"));
        assert!(!is_digest_prefix("main"));
        assert!(!is_digest_prefix(&"0".repeat(65)));
    }

    #[test]
    fn names_without_parameters() {
        for (shown, name) in [
            ("main", "main"),
            ("n::f(int, long) const", "n::f"),
            ("f<void (int)>(int)", "f<void (int)>"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("C::operator()(int)", "C::operator()"),
        ] {
            assert_eq!(without_parameters(shown), name);
        }
    }

    #[test]
    fn pieces_as_text() {
        let mut header = PieceHeader {
            sh_flags: 0x30,
            entsize: 1,
            ..PieceHeader::zeroed()
        };
        assert_eq!(content_text(&header, b"a\"b\n\0"), "\"a\\\"b\\n\"");
        let long = content_text(&header, &[b'x'; 100]);
        assert!(long.ends_with("x…\"") && long.chars().count() < 70);
        header.sh_flags = 0x10;
        assert_eq!(content_text(&header, &[1, 0xff]), "0x01ff");
    }

    #[test]
    fn flags_as_readelf_shows_them() {
        assert_eq!(flag_letters(0x6), "AX");
        assert_eq!(flag_letters(0x32), "AMS");
        assert_eq!(flag_letters(0x4000_0002), "A?");
    }
}
