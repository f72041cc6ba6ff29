//! Reading `ar` archives without copying: GNU (SysV names), BSD names, and thin archives.
//!
//! An archive is `!<arch>\n` (thin: `!<thin>\n`) and members, each a 60-byte header of ASCII fields and its bytes,
//! padded to an even offset (`ar(5)`; the gABI describes the symbol index of System V). The dialects differ in names:
//! - `name/`: a short name, as it is;
//! - `/123`: a long name, at 123 in the member `//`, up to `/\n`;
//! - `#1/20`: BSD, the name is the first 20 bytes of the member, NUL-padded;
//! - `/123:456`, in thin archives only: the member whose header is at 456 in the archive named at 123.
//!
//! In a thin archive the members other than the index and `//` are paths, relative to the archive's directory, and
//! their bytes are not in it. The symbol index (`/`, `/SYM64/`, `__.SYMDEF`) gives for each symbol the offset of the
//! header of the member that defines it.
//!
//! Sizes and offsets are the file's word: all are checked. Errors name the offset.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The first bytes of an archive.
pub const MAGIC: &[u8; 8] = b"!<arch>\n";
/// The first bytes of a thin archive.
pub const THIN_MAGIC: &[u8; 8] = b"!<thin>\n";

const HEADER_SIZE: usize = 60;

/// Why an archive cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at offset {offset:#x}")]
pub struct ArchiveError {
    /// Where in the archive.
    pub offset: u64,
    /// What is wrong.
    pub problem: ArchiveProblem,
}

/// What can be wrong with an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveProblem {
    /// Neither magic.
    #[error("not an archive")]
    Magic,
    /// The file ends in a member's header.
    #[error("archive is truncated: member header is cut off")]
    TruncatedHeader,
    /// The file ends before the member does.
    #[error("archive is truncated: member extends past the end of the file")]
    TruncatedMember,
    /// The header does not end in "`\n".
    #[error("malformed archive: bad member header")]
    Header,
    /// The size is not a decimal number.
    #[error("malformed archive: bad member size")]
    Size,
    /// The name is not of any dialect, or lies outside the table of names.
    #[error("malformed archive: bad member name")]
    Name,
    /// The symbol index does not fit into its member, or names an offset where no member is.
    #[error("malformed archive: bad symbol index")]
    Index,
}

fn fail<T>(offset: usize, problem: ArchiveProblem) -> Result<T, ArchiveError> {
    Err(ArchiveError {
        offset: offset as u64,
        problem,
    })
}

/// An opened archive.
#[derive(Clone, Debug)]
pub struct Archive<'a> {
    data: &'a [u8],
    thin: bool,
    /// The member `//`.
    long_names: &'a [u8],
    index: Option<RawIndex>,
    /// Where the first ordinary member's header is.
    first: usize,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The name; in a thin archive a path relative to the archive's directory (see [`Member::thin_path`]).
    pub name: &'a [u8],
    /// Where its header begins: what the symbol index calls it by.
    pub header_offset: u64,
    /// Its bytes.
    pub body: MemberBody,
}

/// Where a member's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberBody {
    /// In the archive, at this range of it.
    Inline(Range<usize>),
    /// Thin: in the file that the name says, which had this size when the archive was made.
    External {
        /// Bytes.
        size: u64,
    },
    /// Thin: the member whose header is at this offset of the archive that the name says.
    Nested {
        /// The header's offset there.
        header_offset: u64,
    },
}

impl<'a> Member<'a> {
    /// The path of a thin member, given the archive's own.
    pub fn thin_path(&self, archive: &Path) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let name = Path::new(std::ffi::OsStr::from_bytes(self.name));
        archive
            .parent()
            .map_or_else(|| name.to_path_buf(), |directory| directory.join(name))
    }

    /// The name for messages.
    pub fn display_name(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name)
    }
}

#[derive(Clone, Debug)]
struct RawIndex {
    kind: IndexKind,
    /// The member's bytes.
    range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexKind {
    /// `/`: big-endian 32-bit offsets, then names.
    SysV,
    /// `/SYM64/`: the same with 64 bits.
    SysV64,
    /// `__.SYMDEF`: little-endian pairs of 32-bit string offset and member offset.
    Bsd,
}

/// A header taken apart.
struct Header<'a> {
    /// The name field without trailing spaces.
    name: &'a [u8],
    offset: usize,
    size: u64,
}

impl<'a> Archive<'a> {
    /// Whether a file is an archive, by its first bytes.
    pub fn is_archive(data: &[u8]) -> bool {
        data.starts_with(MAGIC) || data.starts_with(THIN_MAGIC)
    }

    /// Opens an archive: reads the headers of the members that describe the others.
    ///
    /// # Errors
    /// If it is none, or if one of those headers is damaged. Later members are looked at by [`Archive::members`].
    pub fn parse(data: &'a [u8]) -> Result<Archive<'a>, ArchiveError> {
        if !Self::is_archive(data) {
            return fail(0, ArchiveProblem::Magic);
        }
        let thin = data.starts_with(THIN_MAGIC);
        let mut archive = Archive {
            data,
            thin,
            long_names: &[],
            index: None,
            first: MAGIC.len(),
        };
        // Indexes and the table of long names come first, in this or that order.
        while let Some(header) = archive.header(archive.first)? {
            let body = || archive.inline_body(&header);
            match header.name {
                b"//" => archive.long_names = &data[body()?],
                b"/" => {
                    archive.index = Some(RawIndex {
                        kind: IndexKind::SysV,
                        range: body()?,
                    })
                }
                b"/SYM64/" => {
                    archive.index = Some(RawIndex {
                        kind: IndexKind::SysV64,
                        range: body()?,
                    })
                }
                name => {
                    // A short name, or a BSD name that is stored in the member. Behind an index there is no other one.
                    let may_be = name.starts_with(b"__.SYMDEF") || name.starts_with(b"#1/");
                    if !may_be || archive.index.is_some() {
                        break;
                    }
                    let (name, range) = archive.stored_name(&header)?;
                    match name {
                        b"__.SYMDEF" | b"__.SYMDEF SORTED" => {
                            archive.index = Some(RawIndex {
                                kind: IndexKind::Bsd,
                                range,
                            });
                        }
                        _ => break,
                    }
                }
            }
            archive.first = next_offset(archive.inline_body(&header)?.end);
        }
        Ok(archive)
    }

    /// Whether the members are paths of other files.
    pub fn is_thin(&self) -> bool {
        self.thin
    }

    /// The bytes of the table of long names, which is empty where there is none.
    pub fn long_names(&self) -> &'a [u8] {
        self.long_names
    }

    /// All ordinary members in the order of the file. After an error the iterator ends.
    pub fn members(&self) -> Members<'_, 'a> {
        Members {
            archive: self,
            offset: Some(self.first),
        }
    }

    /// The member whose header is at `offset` (from the symbol index, or from a nested thin path).
    ///
    /// # Errors
    /// If there is no member.
    pub fn member_at(&self, offset: u64) -> Result<Member<'a>, ArchiveError> {
        let at = usize::try_from(offset)
            .ok()
            .filter(|at| *at >= MAGIC.len() && *at < self.data.len());
        let Some(at) = at else {
            return Err(ArchiveError {
                offset,
                problem: ArchiveProblem::Index,
            });
        };
        match self.member(at)? {
            Some((member, _)) => Ok(member),
            None => fail(at, ArchiveProblem::TruncatedHeader),
        }
    }

    /// The bytes of a member that is in this archive; `None` for members of thin archives.
    pub fn inline_data(&self, member: &Member<'_>) -> Option<&'a [u8]> {
        match &member.body {
            MemberBody::Inline(range) => self.data.get(range.clone()),
            MemberBody::External { .. } | MemberBody::Nested { .. } => None,
        }
    }

    /// The symbol index: (symbol, offset of the header of the member that defines it), in the file's order. `None` if
    /// the archive has none (made without `ar s`), which is not the same as one that is empty.
    pub fn symbols(&self) -> Option<Symbols<'a>> {
        let index = self.index.as_ref()?;
        Some(Symbols::new(
            index.kind,
            &self.data[index.range.clone()],
            index.range.start,
        ))
    }

    /// Reads the header at `offset`; `None` at the end of the file.
    fn header(&self, offset: usize) -> Result<Option<Header<'a>>, ArchiveError> {
        let rest = self.data.get(offset..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let Some(header) = rest.get(..HEADER_SIZE) else {
            return fail(offset, ArchiveProblem::TruncatedHeader);
        };
        if &header[58..60] != b"`\n" {
            return fail(offset, ArchiveProblem::Header);
        }
        let Some(size) = decimal(header[48..58].trim_ascii_end()) else {
            return fail(offset + 48, ArchiveProblem::Size);
        };
        Ok(Some(Header {
            name: header[..16].trim_ascii_end(),
            offset,
            size,
        }))
    }

    /// The range of a member's bytes behind its header.
    fn inline_body(&self, header: &Header<'_>) -> Result<Range<usize>, ArchiveError> {
        let start = header.offset + HEADER_SIZE;
        let end = usize::try_from(header.size)
            .ok()
            .and_then(|size| start.checked_add(size));
        match end {
            Some(end) if end <= self.data.len() => Ok(start..end),
            _ => fail(header.offset, ArchiveProblem::TruncatedMember),
        }
    }

    /// A name that is in the header or in the member itself, and the range of the bytes after it.
    fn stored_name(&self, header: &Header<'a>) -> Result<(&'a [u8], Range<usize>), ArchiveError> {
        let body = self.inline_body(header)?;
        let Some(length) = header.name.strip_prefix(b"#1/") else {
            return Ok((header.name.strip_suffix(b"/").unwrap_or(header.name), body));
        };
        let length = decimal(length).and_then(|length| usize::try_from(length).ok());
        match length {
            Some(length) if length <= body.len() => {
                let start = body.start + length;
                let name = &self.data[body.start..start];
                let end = name
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1);
                Ok((&name[..end], start..body.end))
            }
            _ => fail(header.offset, ArchiveProblem::Name),
        }
    }

    /// A name in `//`.
    fn long_name(&self, offset: u64) -> Option<&'a [u8]> {
        let rest = self.long_names.get(usize::try_from(offset).ok()?..)?;
        // Members of thin archives have slashes in their names: the end is "/\n". Some writers (Windows') end in NUL.
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0))?;
        let name = &rest[..end];
        Some(name.strip_suffix(b"/").unwrap_or(name)).filter(|name| !name.is_empty())
    }

    /// The member at `offset` and where the next one's header is.
    fn member(&self, offset: usize) -> Result<Option<(Member<'a>, usize)>, ArchiveError> {
        let Some(header) = self.header(offset)? else {
            return Ok(None);
        };
        let header_offset = offset as u64;
        let bad_name = ArchiveError {
            offset: header_offset,
            problem: ArchiveProblem::Name,
        };
        let (long_name, nested) = match header.name {
            [b'/', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
                // GNU ar leaves a slash at the end of the field where an archive's member had a name with one.
                let digits = digits.strip_suffix(b"/").unwrap_or(digits).trim_ascii_end();
                let (digits, nested) = match memchr::memchr(b':', digits) {
                    Some(colon) => (&digits[..colon], Some(&digits[colon + 1..])),
                    None => (digits, None),
                };
                let name = decimal(digits)
                    .and_then(|offset| self.long_name(offset))
                    .ok_or(bad_name)?;
                let nested = match nested {
                    Some(digits) if self.thin => Some(decimal(digits).ok_or(bad_name)?),
                    Some(_) => return Err(bad_name),
                    None => None,
                };
                (Some(name), nested)
            }
            _ => (None, None),
        };
        // The descriptive members have their bytes in thin archives as well.
        if self.thin && !is_descriptive(header.name) {
            let name =
                long_name.unwrap_or_else(|| header.name.strip_suffix(b"/").unwrap_or(header.name));
            if name.is_empty() {
                return Err(bad_name);
            }
            let body = match nested {
                Some(header_offset) => MemberBody::Nested { header_offset },
                None => MemberBody::External { size: header.size },
            };
            return Ok(Some((
                Member {
                    name,
                    header_offset,
                    body,
                },
                offset + HEADER_SIZE,
            )));
        }
        let next = next_offset(self.inline_body(&header)?.end);
        let (name, range) = match long_name {
            Some(name) => (name, self.inline_body(&header)?),
            None => self.stored_name(&header)?,
        };
        Ok(Some((
            Member {
                name,
                header_offset,
                body: MemberBody::Inline(range),
            },
            next,
        )))
    }
}

/// The members that describe the others.
fn is_descriptive(name: &[u8]) -> bool {
    matches!(name, b"/" | b"//" | b"/SYM64/")
}

/// Members begin at even offsets.
fn next_offset(end: usize) -> usize {
    end.saturating_add(end & 1)
}

/// A decimal number that is all of `digits`.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// See [`Archive::members`].
#[derive(Clone, Debug)]
pub struct Members<'b, 'a> {
    archive: &'b Archive<'a>,
    offset: Option<usize>,
}

impl<'a> Iterator for Members<'_, 'a> {
    type Item = Result<Member<'a>, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        let archive = self.archive;
        loop {
            match archive.member(self.offset.take()?) {
                Ok(Some((member, next))) => {
                    self.offset = Some(next);
                    // An index in an unusual place is no member either.
                    if is_descriptive(archive.header(member.header_offset as usize).ok()??.name) {
                        continue;
                    }
                    return Some(Ok(member));
                }
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// See [`Archive::symbols`]. Ends after an error.
#[derive(Clone, Debug)]
pub struct Symbols<'a> {
    kind: IndexKind,
    /// The index's bytes, and where they are in the archive.
    data: &'a [u8],
    base: usize,
    /// What is left: entries, and for System V the place of the next name.
    left: usize,
    entry: usize,
    name: usize,
}

impl<'a> Symbols<'a> {
    fn new(kind: IndexKind, data: &'a [u8], base: usize) -> Symbols<'a> {
        let word = if kind == IndexKind::SysV64 { 8 } else { 4 };
        let mut symbols = Symbols {
            kind,
            data,
            base,
            left: 0,
            entry: word,
            name: 0,
        };
        let count = symbols
            .word(0)
            .and_then(|count| usize::try_from(count).ok());
        // What does not fit becomes an error at the first `next`: an impossible count with an entry beyond the end.
        match kind {
            IndexKind::SysV | IndexKind::SysV64 => {
                let names = count.and_then(|count| count.checked_mul(word)?.checked_add(word));
                match (count, names) {
                    (Some(count), Some(names)) if names <= data.len() => {
                        (symbols.left, symbols.name) = (count, names)
                    }
                    _ => (symbols.left, symbols.entry) = (1, data.len()),
                }
            }
            IndexKind::Bsd => {
                let names = count.and_then(|bytes| bytes.checked_add(8));
                match (count, names) {
                    (Some(bytes), Some(names)) if names <= data.len() => {
                        (symbols.left, symbols.name) = (bytes / 8, names);
                    }
                    _ => (symbols.left, symbols.entry) = (1, data.len()),
                }
            }
        }
        symbols
    }

    /// How many symbols there are; the file's word, but bounded by its size.
    pub fn len(&self) -> usize {
        self.left
    }

    /// The names that are left, each with a zero behind it, one member's after the other's; `None` of a BSD index, whose names
    /// have no such order.
    pub fn names(&self) -> Option<&'a [u8]> {
        match self.kind {
            IndexKind::SysV | IndexKind::SysV64 => self.data.get(self.name..),
            IndexKind::Bsd => None,
        }
    }

    /// Whether there is none left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    fn word(&self, at: usize) -> Option<u64> {
        match self.kind {
            IndexKind::SysV => self
                .data
                .get(at..)?
                .first_chunk()
                .map(|bytes| u64::from(u32::from_be_bytes(*bytes))),
            IndexKind::SysV64 => self
                .data
                .get(at..)?
                .first_chunk()
                .map(|bytes| u64::from_be_bytes(*bytes)),
            IndexKind::Bsd => self
                .data
                .get(at..)?
                .first_chunk()
                .map(|bytes| u64::from(u32::from_le_bytes(*bytes))),
        }
    }

    fn entry(&mut self) -> Option<(&'a [u8], u64)> {
        let (name_at, offset) = match self.kind {
            IndexKind::SysV | IndexKind::SysV64 => (self.name, self.word(self.entry)?),
            IndexKind::Bsd => {
                let name_at = usize::try_from(self.word(self.entry)?)
                    .ok()?
                    .checked_add(self.name)?;
                (name_at, self.word(self.entry.checked_add(4)?)?)
            }
        };
        let rest = self.data.get(name_at..)?;
        let name = &rest[..memchr::memchr(0, rest)?];
        match self.kind {
            IndexKind::SysV => self.entry += 4,
            IndexKind::SysV64 | IndexKind::Bsd => self.entry += 8,
        }
        if self.kind != IndexKind::Bsd {
            self.name = name_at + name.len() + 1;
        }
        Some((name, offset))
    }
}

impl<'a> Iterator for Symbols<'a> {
    type Item = Result<(&'a [u8], u64), ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let at = self.base + self.entry;
        match self.entry() {
            Some(entry) => Some(Ok(entry)),
            None => {
                self.left = 0;
                Some(fail(at, ArchiveProblem::Index))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header as `ar` writes it.
    fn header(name: &str, size: usize) -> Vec<u8> {
        format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
            0, 0, 0, "644"
        )
        .into_bytes()
    }

    fn archive(magic: &[u8], members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = magic.to_vec();
        for (name, body) in members {
            out.extend(header(name, body.len()));
            out.extend_from_slice(body);
            if body.len() % 2 == 1 {
                out.push(b'\n');
            }
        }
        out
    }

    fn names(data: &[u8]) -> Vec<String> {
        Archive::parse(data)
            .unwrap()
            .members()
            .map(|member| member.unwrap().display_name().into_owned())
            .collect()
    }

    #[test]
    fn members_of_a_gnu_archive() {
        let long = b"a_rather_long_member_name.o/\nwith space and / slash.o/\n";
        let data = archive(
            MAGIC,
            &[
                ("//", long),
                ("short.o/", b"odd"),
                ("/0", b"even"),
                ("/29            /", b""),
                ("bare.o", b"x"),
            ],
        );
        let archive = Archive::parse(&data).unwrap();
        assert!(!archive.is_thin());
        assert!(archive.symbols().is_none());
        let members: Vec<_> = archive.members().map(Result::unwrap).collect();
        let shown: Vec<_> = members
            .iter()
            .map(|m| {
                (
                    m.display_name().into_owned(),
                    archive.inline_data(m).unwrap(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("short.o".to_string(), &b"odd"[..]),
                ("a_rather_long_member_name.o".to_string(), b"even"),
                ("with space and / slash.o".to_string(), b""),
                ("bare.o".to_string(), b"x"),
            ]
        );
        assert_eq!(
            archive.member_at(members[1].header_offset).unwrap(),
            members[1]
        );
    }

    #[test]
    fn empty_archives() {
        assert_eq!(names(MAGIC), Vec::<String>::new());
        assert_eq!(names(THIN_MAGIC), Vec::<String>::new());
        assert_eq!(
            Archive::parse(b"!<arch>").unwrap_err().problem,
            ArchiveProblem::Magic
        );
        assert_eq!(
            Archive::parse(b"").unwrap_err().problem,
            ArchiveProblem::Magic
        );
    }

    #[test]
    fn bsd_names_and_index() {
        let mut index = Vec::new();
        index.extend(b"__.SYMDEF\0\0\0");
        for word in [16u32, 0, 0x78, 3, 0x90, 8] {
            index.extend(word.to_le_bytes());
        }
        index.extend(b"f1\0two\0\0");
        let data = archive(MAGIC, &[("#1/12", &index), ("#1/8", b"one.o\0\0\0body")]);
        let archive = Archive::parse(&data).unwrap();
        let symbols: Vec<_> = archive.symbols().unwrap().map(Result::unwrap).collect();
        assert_eq!(symbols, [(&b"f1"[..], 0x78), (b"two", 0x90)]);
        let members: Vec<_> = archive.members().map(Result::unwrap).collect();
        assert_eq!(members.len(), 1);
        assert_eq!(members[0].name, b"one.o");
        assert_eq!(archive.inline_data(&members[0]), Some(&b"body"[..]));
    }

    #[test]
    fn system_v_index_of_32_and_64_bits() {
        let mut narrow = Vec::new();
        narrow.extend(2u32.to_be_bytes());
        narrow.extend(100u32.to_be_bytes());
        narrow.extend(200u32.to_be_bytes());
        narrow.extend(b"foo\0\0");
        let mut wide = Vec::new();
        wide.extend(1u64.to_be_bytes());
        wide.extend(0x1_0000_0000u64.to_be_bytes());
        wide.extend(b"bar\0");
        let data = archive(MAGIC, &[("/", &narrow), ("a/", b"")]);
        let symbols: Vec<_> = Archive::parse(&data)
            .unwrap()
            .symbols()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(symbols, [(&b"foo"[..], 100), (b"", 200)]);
        let data = archive(MAGIC, &[("/SYM64/", &wide), ("a/", b"")]);
        let archive = Archive::parse(&data).unwrap();
        let symbols: Vec<_> = archive.symbols().unwrap().map(Result::unwrap).collect();
        assert_eq!(symbols, [(&b"bar"[..], 0x1_0000_0000)]);
        assert_eq!(
            archive.member_at(0x1_0000_0000).unwrap_err().problem,
            ArchiveProblem::Index
        );
        assert_eq!(names(&data), ["a"]);
    }

    #[test]
    fn an_index_that_claims_too_much_is_an_error_and_ends() {
        for count in [3u32, u32::MAX, 1 << 30] {
            let mut index = count.to_be_bytes().to_vec();
            index.extend(b"\0\0\0\x08foo\0");
            let data = archive(MAGIC, &[("/", &index)]);
            let archive = Archive::parse(&data).unwrap();
            let symbols: Vec<_> = archive.symbols().unwrap().collect();
            assert_eq!(
                symbols.last().unwrap().as_ref().unwrap_err().problem,
                ArchiveProblem::Index
            );
            assert!(symbols.len() <= 2);
        }
    }

    #[test]
    fn thin_members_are_paths() {
        // As GNU ar writes `ar rcsT t.a sub/nested.a dir/b.o` (thin archives are flattened by "/name:offset").
        let mut data = archive(
            THIN_MAGIC,
            &[(
                "//",
                b"sub/nested.a/\ndir/b_with_long_name.o/\n/abs/c.o/\n\n",
            )],
        );
        data.extend(header("/0:238", 1160));
        data.extend(header("/14", 77));
        data.extend(header("/38", 5));
        data.extend(header("d.o/", 6));
        let archive = Archive::parse(&data).unwrap();
        assert!(archive.is_thin());
        let members: Vec<_> = archive.members().map(Result::unwrap).collect();
        let here = Path::new("lib/t.a");
        let shown: Vec<_> = members
            .iter()
            .map(|m| (m.thin_path(here), m.body.clone()))
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "lib/sub/nested.a".into(),
                    MemberBody::Nested { header_offset: 238 }
                ),
                (
                    "lib/dir/b_with_long_name.o".into(),
                    MemberBody::External { size: 77 }
                ),
                ("/abs/c.o".into(), MemberBody::External { size: 5 }),
                ("lib/d.o".into(), MemberBody::External { size: 6 }),
            ]
        );
        assert_eq!(archive.inline_data(&members[1]), None);
    }

    #[test]
    fn every_truncation_is_an_error_or_fewer_members() {
        let long = b"a_rather_long_member_name.o/\n";
        let data = archive(
            MAGIC,
            &[
                ("/", b"\0\0\0\x01\0\0\0\x60foo\0"),
                ("//", long),
                ("/0", b"body"),
                ("b/", b"xyz"),
            ],
        );
        let whole = names(&data);
        for length in 0..data.len() {
            let Ok(archive) = Archive::parse(&data[..length]) else {
                continue;
            };
            let members: Vec<_> = archive.members().collect();
            let complete = members.iter().filter(|member| member.is_ok()).count();
            assert!(complete <= whole.len());
            assert!(
                members.iter().rev().skip(1).all(Result::is_ok),
                "only the last may be an error"
            );
            if let Some(symbols) = archive.symbols() {
                let _ = symbols.count();
            }
        }
    }

    #[test]
    fn errors_name_the_offset() {
        let mut data = archive(MAGIC, &[("a/", b"body")]);
        let second = data.len();
        data.extend(header("b/", 1000));
        let error = Archive::parse(&data)
            .unwrap()
            .members()
            .nth(1)
            .unwrap()
            .unwrap_err();
        assert_eq!(
            error,
            ArchiveError {
                offset: second as u64,
                problem: ArchiveProblem::TruncatedMember
            }
        );
        assert_eq!(
            error.to_string(),
            "archive is truncated: member extends past the end of the file at offset 0x48"
        );
        let mut bad_size = data.clone();
        bad_size[second + 48] = b'-';
        let error = Archive::parse(&bad_size)
            .unwrap()
            .members()
            .nth(1)
            .unwrap()
            .unwrap_err();
        assert_eq!(error.problem, ArchiveProblem::Size);
        data[second + 58] = 0;
        let error = Archive::parse(&data)
            .unwrap()
            .members()
            .nth(1)
            .unwrap()
            .unwrap_err();
        assert_eq!(error.problem, ArchiveProblem::Header);
    }

    #[test]
    fn bad_names() {
        for name in ["/7", "/99999999999999", "#1/900", "/0:1", "#1/x"] {
            let data = archive(MAGIC, &[("//", b"x/\n"), (name, b"body")]);
            let result: Result<Vec<_>, _> =
                Archive::parse(&data).and_then(|archive| archive.members().collect());
            assert!(result.is_err(), "{name}");
        }
    }
}
