//! Writing an archive anew, with other bytes for some of its members; or a thin one, of whose members the files were changed.
//!
//! Order, names, times, owners and modes stay. The symbol index is made: of the members that stay, what it said of them (an
//! archiver's plugin may know more of them than we do), of the others, and of all where there was none, what their symbol
//! tables define. The form is GNU's (`/`, or `/SYM64/` where offsets need it, and `//`); a name that this has no place for (without
//! bytes, or with the end of a line) stands before the member's bytes, as BSD has it.

use crate::archive::{Archive, ArchiveError, ArchiveProblem, Member, MemberBody, THIN_MAGIC};
use crate::file::MemberBytes;
use crate::write::DOTTED_EXPLANATION;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, Sym as _};
use std::borrow::Cow;
use std::collections::HashMap;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;
/// In a header: what is between name and size (time, owner, group, mode).
const FACTS: std::ops::Range<usize> = 16..48;
/// A size has ten digits.
const MOST_SIZE: u64 = 10_000_000_000;
/// The longest name that stands in a header, with its slash.
const SHORT: usize = 16;

/// A member of the archive that is written.
struct NewMember<'a> {
    /// Time, owner, group and mode.
    facts: &'a [u8],
    name: &'a [u8],
    form: NameForm,
    body: Cow<'a, [u8]>,
    /// The symbols under which the index has it.
    symbols: Vec<Cow<'a, [u8]>>,
}

/// Where a member's name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameForm {
    /// In the header.
    Header,
    /// In the table of names.
    Table,
    /// Before the member's bytes.
    Body,
}

impl NameForm {
    /// That of a name; `None` if it has none: there are readers that take zeros at the end of a name for padding.
    fn of(name: &[u8]) -> Option<NameForm> {
        let has = |bytes: &[u8]| name.iter().any(|byte| bytes.contains(byte));
        match name {
            [] => Some(NameForm::Body),
            _ if name.len() < SHORT && !has(b"/") => Some(NameForm::Header),
            _ if !has(b"\n\0") => Some(NameForm::Table),
            [.., 0] => None,
            _ => Some(NameForm::Body),
        }
    }
}

impl NewMember<'_> {
    /// What stands before its bytes.
    fn before(&self) -> &[u8] {
        match self.form {
            NameForm::Body => self.name,
            _ => &[],
        }
    }

    /// Bytes behind its header.
    fn size(&self) -> usize {
        self.before().len() + self.body.len()
    }
}

/// The bytes of `archive`, which are `data`, with what `replace` gives for a member's bytes in their place. `None` if it gives
/// nothing for any.
///
/// # Errors
/// Those of the archive, and of `replace`. The members of thin archives are not in them: they are passed over.
pub fn with_members<E: From<ArchiveError>>(
    data: &[u8],
    replace: impl FnMut(&str, &[u8]) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<Vec<u8>>, E> {
    made_whole(data, |_| Ok(None), replace)
}

/// As [`with_members`], with what `outside` gives for a thin archive's members, by the last parts of their paths: the new one has
/// them all in it.
///
/// # Errors
/// Those of the archive, of `outside`, and of `replace`.
pub fn made_whole<E: From<ArchiveError>>(
    data: &[u8],
    mut outside: impl FnMut(&Member<'_>) -> Result<Option<MemberBytes>, E>,
    mut replace: impl FnMut(&str, &[u8]) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<Vec<u8>>, E> {
    let archive = Archive::parse(data)?;
    let mut indexed = indexed(&archive)?;
    let has_index = archive.symbols().is_some();
    let mut from_outside = Vec::new();
    for member in archive.members() {
        let member = member?;
        from_outside.push(match member.body {
            MemberBody::Inline(_) => None,
            _ => outside(&member)?,
        });
    }
    let mut members = Vec::new();
    let mut any = false;
    for (member, from_outside) in archive.members().zip(&from_outside) {
        let member = member?;
        let Some(body) = archive.inline_data(&member).or(from_outside.as_deref()) else {
            continue;
        };
        let name = match from_outside {
            Some(_) => member.name.rsplit(|byte| *byte == b'/').next(),
            None => None,
        };
        let name = name.unwrap_or(member.name);
        let replaced = replace(&member.display_name(), body)?;
        any |= replaced.is_some();
        let at = member.header_offset as usize;
        let symbols = match &replaced {
            None if has_index => indexed.remove(&member.header_offset).unwrap_or_default(),
            None => defined(body).into_iter().map(Cow::Borrowed).collect(),
            Some(body) => {
                let symbols = defined(body).into_iter();
                symbols.map(|name| Cow::Owned(name.to_vec())).collect()
            }
        };
        let no_form = ArchiveError {
            offset: member.header_offset,
            problem: ArchiveProblem::Name,
        };
        members.push(NewMember {
            facts: &data[at..at + HEADER][FACTS],
            name,
            form: NameForm::of(name).ok_or(no_form)?,
            body: replaced.map_or(Cow::Borrowed(body), Cow::Owned),
            symbols,
        });
    }
    Ok(any.then(|| write(&members)))
}

/// Where a member of a thin archive is now.
pub struct Outside {
    /// Its bytes.
    pub bytes: MemberBytes,
    /// Where its header is, if it is in another archive.
    pub place: Option<u64>,
}

/// The bytes of the thin archive `data` for members that are as `outside` says now: with their sizes, their places in other archives,
/// and an index of what they define.
///
/// # Errors
/// Those of the archive, and of `outside`.
pub fn thin_again<E: From<ArchiveError>>(
    data: &[u8],
    mut outside: impl FnMut(&Member<'_>) -> Result<Outside, E>,
) -> Result<Vec<u8>, E> {
    let archive = Archive::parse(data)?;
    let mut indexed = indexed(&archive)?;
    let has_index = archive.symbols().is_some();
    let mut headers = Vec::new();
    let mut symbols = Vec::new();
    for member in archive.members() {
        let member = member?;
        let no_form = || ArchiveError {
            offset: member.header_offset,
            problem: ArchiveProblem::Name,
        };
        let now = outside(&member)?;
        let at = member.header_offset as usize;
        let field = &data[at..at + SHORT];
        let field = match (&member.body, now.place) {
            (MemberBody::Nested { .. }, Some(place)) => {
                let colon = field.iter().position(|byte| *byte == b':');
                let name = &field[..colon.ok_or_else(no_form)?];
                [name, format!(":{place}").as_bytes()].concat()
            }
            _ => field.to_vec(),
        };
        if field.len() > SHORT {
            return Err(no_form().into());
        }
        if now.bytes.len() as u64 >= MOST_SIZE {
            let problem = ArchiveProblem::Size;
            let offset = member.header_offset;
            return Err(ArchiveError { offset, problem }.into());
        }
        header(
            &mut headers,
            &field,
            &data[at..at + HEADER][FACTS],
            now.bytes.len(),
        );
        let of_ticket = |names: &[Cow<'_, [u8]>]| {
            names
                .iter()
                .any(|name| **name == *DOTTED_EXPLANATION.as_bytes())
        };
        let known = indexed.remove(&member.header_offset).unwrap_or_default();
        symbols.push(match has_index && !of_ticket(&known) {
            true => known,
            false => {
                let names = defined(&now.bytes).into_iter();
                names.map(|name| Cow::Owned(name.to_vec())).collect()
            }
        });
    }
    let names = archive.long_names();
    let table = match names.len() {
        0 => 0,
        size => HEADER + size.next_multiple_of(2),
    };
    let count: usize = symbols.iter().map(Vec::len).sum();
    let bytes: usize = symbols.iter().flatten().map(|name| name.len() + 1).sum();
    let word = 4;
    let index = (word * (1 + count) + bytes).next_multiple_of(2);
    // Headers only, so no offset needs more bits.
    let first = MAGIC.len() + HEADER + index + table;
    let offsets: Vec<u64> = (0..symbols.len())
        .map(|number| (first + number * HEADER) as u64)
        .collect();
    let mut out = THIN_MAGIC.to_vec();
    let of_members: Vec<_> = symbols.iter().map(Vec::as_slice).collect();
    write_index(&mut out, word, index, &of_members, &offsets);
    if table != 0 {
        header(&mut out, b"//", &[b' '; 32], names.len());
        body(&mut out, &[], names);
    }
    out.extend_from_slice(&headers);
    Ok(out)
}

/// The names that an index has of members, by where their headers are.
type Indexed<'a> = HashMap<u64, Vec<Cow<'a, [u8]>>>;

/// What the index of an archive says of each member, by where its header is.
fn indexed<'a>(archive: &Archive<'a>) -> Result<Indexed<'a>, ArchiveError> {
    let mut indexed = Indexed::new();
    for symbol in archive.symbols().into_iter().flatten() {
        let (name, member) = symbol?;
        indexed.entry(member).or_default().push(name.into());
    }
    Ok(indexed)
}

/// The symbols of an object that an index has: those that it defines for others. None of what is no ELF object.
fn defined(object: &[u8]) -> Vec<&[u8]> {
    let names = || -> object::read::Result<Vec<&[u8]>> {
        let header = FileHeader64::<LE>::parse(object)?;
        let sections = header.sections(LE, object)?;
        let symbols = sections.symbols(LE, object, elf::SHT_SYMTAB)?;
        let mut names = Vec::new();
        for symbol in symbols.iter() {
            let is_defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF;
            if is_defined && symbol.st_bind() != elf::STB_LOCAL {
                names.push(symbol.name(LE, symbols.strings())?);
            }
        }
        Ok(names)
    };
    names().unwrap_or_default()
}

fn write(members: &[NewMember<'_>]) -> Vec<u8> {
    // The names that have a table, and where in it; before anything has a place.
    let mut long_names = Vec::new();
    let fields: Vec<Vec<u8>> = members
        .iter()
        .map(|member| match member.form {
            NameForm::Header => [member.name, b"/"].concat(),
            NameForm::Table => {
                let at = long_names.len();
                long_names.extend_from_slice(member.name);
                long_names.extend_from_slice(b"/\n");
                format!("/{at}").into_bytes()
            }
            NameForm::Body => format!("#1/{}", member.name.len()).into_bytes(),
        })
        .collect();
    let symbols: usize = members.iter().map(|member| member.symbols.len()).sum();
    let names = members.iter().flat_map(|member| &member.symbols);
    let names: usize = names.map(|name| name.len() + 1).sum();
    let sizes = |word: usize| {
        let index = (word * (1 + symbols) + names).next_multiple_of(2);
        let table = match long_names.len() {
            0 => 0,
            size => HEADER + size.next_multiple_of(2),
        };
        let mut at = MAGIC.len() + HEADER + index + table;
        let mut offsets = Vec::with_capacity(members.len());
        for member in members {
            offsets.push(at as u64);
            at += HEADER + member.size().next_multiple_of(2);
        }
        (index, offsets, at)
    };
    let mut word = 4;
    let (mut index, mut offsets, mut size) = sizes(word);
    if size > u32::MAX as usize {
        word = 8;
        (index, offsets, size) = sizes(word);
    }

    let mut out = Vec::with_capacity(size);
    out.extend_from_slice(MAGIC);
    let of_members: Vec<_> = members
        .iter()
        .map(|member| member.symbols.as_slice())
        .collect();
    write_index(&mut out, word, index, &of_members, &offsets);
    if !long_names.is_empty() {
        header(&mut out, b"//", &[b' '; 32], long_names.len());
        body(&mut out, &[], &long_names);
    }
    for (member, field) in members.iter().zip(&fields) {
        header(&mut out, field, member.facts, member.size());
        body(&mut out, member.before(), &member.body);
    }
    out
}

/// Appends an index of `size` bytes: the symbols of each member, whose header is at the offset of the same number.
fn write_index(
    out: &mut Vec<u8>,
    word: usize,
    size: usize,
    symbols: &[&[Cow<'_, [u8]>]],
    offsets: &[u64],
) {
    let name: &[u8] = if word == 4 { b"/" } else { b"/SYM64/" };
    let facts = format!("{:<12}{:<6}{:<6}{:<8}", 0, 0, 0, 0);
    header(out, name, facts.as_bytes(), size);
    let start = out.len();
    let count: usize = symbols.iter().map(|names| names.len()).sum();
    let number = |out: &mut Vec<u8>, number: u64| {
        out.extend_from_slice(&number.to_be_bytes()[8 - word..]);
    };
    number(out, count as u64);
    for (names, offset) in symbols.iter().zip(offsets) {
        for _ in *names {
            number(out, *offset);
        }
    }
    for name in symbols.iter().copied().flatten() {
        out.extend_from_slice(name);
        out.push(0);
    }
    out.resize(start + size, 0);
}

/// Appends a header. `name` has at most 16 bytes, which need not be characters.
fn header(out: &mut Vec<u8>, name: &[u8], facts: &[u8], size: usize) {
    let start = out.len();
    out.extend_from_slice(name);
    out.resize(start + SHORT, b' ');
    out.extend_from_slice(facts);
    out.extend_from_slice(format!("{size:<10}`\n").as_bytes());
}

fn body(out: &mut Vec<u8>, before: &[u8], bytes: &[u8]) {
    out.extend_from_slice(before);
    out.extend_from_slice(bytes);
    if (before.len() + bytes.len()) % 2 == 1 {
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ar rcs`, of a text and a text with a long name; then an index that a plugin has made.
    fn archive() -> Vec<u8> {
        let facts = format!("{:<12}{:<6}{:<6}{:<8}", 17, 1000, 100, "100644");
        let mut data = MAGIC.to_vec();
        let index = [0, 0, 0, 1, 0, 0, 0, 0xaa, b'f', 0];
        header(&mut data, b"/", &[b'0'; 32], index.len());
        body(&mut data, &[], &index);
        header(&mut data, b"//", &[b' '; 32], 24);
        body(&mut data, &[], b"a_name_of_some_length/\n\n");
        header(&mut data, b"a/", facts.as_bytes(), 3);
        assert_eq!(data.len(), 222);
        body(&mut data, &[], b"odd");
        header(&mut data, b"/0", facts.as_bytes(), 4);
        body(&mut data, &[], b"even");
        data
    }

    fn members(data: &[u8]) -> Vec<(String, Vec<u8>)> {
        let archive = Archive::parse(data).unwrap();
        let members = archive.members().map(Result::unwrap);
        let shown = members.map(|member| {
            let bytes = archive.inline_data(&member).unwrap().to_vec();
            (member.display_name().into_owned(), bytes)
        });
        shown.collect()
    }

    #[test]
    fn order_names_and_facts_stay() {
        let mut data = archive();
        // The index names the second member's place.
        let at = (data.len() - HEADER - 4) as u32;
        data[72..76].copy_from_slice(&at.to_be_bytes());
        let nothing = with_members::<ArchiveError>(&data, |_, _| Ok(None));
        assert_eq!(nothing.unwrap(), None);
        let replace = |name: &str, body: &[u8]| {
            assert!(matches!(
                (name, body),
                ("a", b"odd") | ("a_name_of_some_length", b"even")
            ));
            Ok::<_, ArchiveError>((name == "a").then(|| b"longer".to_vec()))
        };
        let made = with_members(&data, replace).unwrap().expect("an archive");
        let named = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
        let expected = [
            named("a", b"longer"),
            named("a_name_of_some_length", b"even"),
        ];
        assert_eq!(members(&made), expected);
        let archive = Archive::parse(&made).unwrap();
        let symbols: Vec<_> = archive.symbols().unwrap().map(Result::unwrap).collect();
        let [(b"f", place)] = symbols[..] else {
            panic!("{symbols:?}");
        };
        let named = archive.member_at(place).unwrap();
        assert_eq!(named.display_name(), "a_name_of_some_length");
        let at = place as usize;
        assert!(made[at + 16..].starts_with(b"17          1000  100   100644  "));
    }

    #[test]
    fn all_names_come_back() {
        let facts = [b'0'; 32];
        let mut data = MAGIC.to_vec();
        // Without a name, as BSD and as a header of spaces has it; two bytes that are one character; that of an index, which is none in
        // this place; with what ends names in the table; and one that ends in a zero.
        let headers: [&[u8]; 6] = [
            b"",
            "\u{e9}".as_bytes(),
            b"/",
            b"a\nb",
            b"__.SYMDEF",
            b"z\0",
        ];
        header(&mut data, b"a/", &facts, 1);
        body(&mut data, &[], b"1");
        for name in headers {
            let own = [name, b"/"].concat();
            let name = if name == b"/" { &b"#1/2"[..] } else { &own };
            // "/" alone is an index.
            let name = if name == b"/" { b"" } else { name };
            header(&mut data, name, &facts, 3);
            body(&mut data, &[], b"x/3");
        }
        for stored in [
            &b""[..],
            b"with/two\nlines",
            b"of/a/name",
            b"__.SYMDEF SORTED",
        ] {
            let name = format!("#1/{}", stored.len());
            header(&mut data, name.as_bytes(), &facts, stored.len() + 1);
            body(&mut data, stored, b"1");
        }
        let names = |data: &[u8]| -> Vec<Vec<u8>> {
            let archive = Archive::parse(data).unwrap();
            let members = archive
                .members()
                .map(|member| member.unwrap().name.to_vec());
            members.collect()
        };
        let expected = names(&data);
        assert_eq!(expected.len(), 11);
        // One after the other each of them is the first.
        for replaced in 0..expected.len() {
            let mut number = 0;
            let made = with_members::<ArchiveError>(&data, |_, _| {
                number += 1;
                Ok((number > replaced).then(|| b"odd".to_vec()))
            });
            assert_eq!(names(&made.unwrap().expect("an archive")), expected);
        }
    }

    #[test]
    fn a_name_without_a_form_is_an_error() {
        let mut data = MAGIC.to_vec();
        header(&mut data, b"a/b\0", &[b'0'; 32], 1);
        body(&mut data, &[], b"1");
        let made = with_members::<ArchiveError>(&data, |_, _| Ok(Some(Vec::new())));
        assert_eq!(made.unwrap_err().problem, ArchiveProblem::Name);
    }

    #[test]
    fn what_is_damaged_is_an_error() {
        let data = archive();
        for end in 0..data.len() {
            let _ = with_members::<ArchiveError>(&data[..end], |_, _| Ok(Some(vec![1])));
        }
    }
}
