//! Changes to archives by their members: names, sizes, the symbol index, the members' own fields.

use super::elf;
use crate::Random;

const MAGICS: [&[u8; 8]; 2] = [b"!<arch>\n", b"!<thin>\n"];
const HEADER: usize = 60;

/// Names that mean something.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "/", "//", "/SYM64/", "/0", "/1", "/9", "/0:8", "/0:68", "/99999999999999", "/18446744073709551616", "#1/4", "#1/20", "#1/0",
    "#1/999999999999", "__.SYMDEF", "__.SYMDEF SORTED", "a.o/", "a.o", "", " ", "/-1", "#1/",
];

struct Member {
    header: [u8; HEADER],
    body: Vec<u8>,
}

/// Changes something in an archive. The result is at most `limit` bytes long.
pub fn mutate(bytes: &mut Vec<u8>, random: &mut Random, limit: usize) {
    let Some((magic, mut members)) = take_apart(bytes).filter(|(_, members)| !members.is_empty())
    else {
        return super::blindly(bytes, random);
    };
    if random.one_in(8) {
        super::blindly(bytes, random);
        return bytes.truncate(limit);
    }
    let mut thin = magic == *MAGICS[1];
    for _ in 0..1 + random.below(3) {
        let one = random.below(members.len());
        let other = random.below(members.len());
        match random.below(12) {
            0 => {
                let old = members[one].body.len() as u64;
                let size = random.value(old);
                set(&mut members[one].header[48..58], &size.to_string());
            }
            1 | 2 => set(&mut members[one].header[..16], random.pick(NAMES)),
            3 if members.len() > 1 => drop(members.remove(one)),
            4 => members.swap(one, other),
            5 => {
                let (header, body) = (members[one].header, members[one].body.clone());
                members.insert(other, Member { header, body });
            }
            6 => thin = !thin,
            7 => {
                let name =
                    random.pick(&["a.o/", "/", "//", "/SYM64/", "long_name_of_a_member.o/\n"]);
                set(&mut members[one].header[..16], name);
            }
            // The index: big-endian counts and offsets.
            8 | 9
                if !members[one].body.is_empty() && !members[one].body.starts_with(b"\x7fELF") =>
            {
                let body = &mut members[one].body;
                let at = random.below(body.len().div_ceil(4)) * 4;
                let value = random.value(4) as u32;
                if let Some(word) = body.get_mut(at..at + 4) {
                    word.copy_from_slice(&value.to_be_bytes());
                }
            }
            _ => {
                let body = &mut members[one].body;
                if body.starts_with(b"\x7fELF") {
                    elf::mutate(body, random, limit);
                } else {
                    super::blindly(body, random);
                }
                let size = body.len().to_string();
                set(&mut members[one].header[48..58], &size);
            }
        }
    }
    *bytes = MAGICS[usize::from(thin)].to_vec();
    for member in members {
        bytes.extend_from_slice(&member.header);
        bytes.extend_from_slice(&member.body);
        if bytes.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes.truncate(limit);
}

fn set(field: &mut [u8], text: &str) {
    field.fill(b' ');
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}

/// Members as far as their sizes make sense.
fn take_apart(bytes: &[u8]) -> Option<([u8; 8], Vec<Member>)> {
    let magic: [u8; 8] = *bytes.first_chunk()?;
    let thin = MAGICS.iter().position(|known| **known == magic)? == 1;
    let mut members = Vec::new();
    let mut at = 8;
    while let Some(header) = bytes.get(at..at + HEADER) {
        let header: [u8; HEADER] = header.try_into().ok()?;
        let size = str::from_utf8(&header[48..58])
            .ok()
            .and_then(|size| size.trim().parse().ok());
        let has_body = !thin || header[0] == b'/' && !header[1].is_ascii_digit();
        let size = size.filter(|_| has_body).unwrap_or(0usize);
        at += HEADER;
        let end = at.saturating_add(size).min(bytes.len());
        members.push(Member {
            header,
            body: bytes[at..end].to_vec(),
        });
        at = end + end % 2;
    }
    Some((magic, members))
}
