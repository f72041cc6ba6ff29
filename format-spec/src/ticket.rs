//! The note of a ticket file (SPEC.md, section 20): which compilation of which repository it stands for.
//!
//! A ticket is an ELF object for the sake of other programs; all that it says to this project is in one note, whose bytes
//! are made and read here. The note's frame is that of the gABI ("Note Section"): size of the owner's name, size of the
//! descriptor, type, the owner's name, the descriptor, each padded to a multiple of 4.
//!
//! Of a ticket the note is in a section. A *fat object* is a whole object that names its compilation as well: its note is
//! behind all that the object has, in what the gABI calls inactive space, so that whoever writes the object anew
//! (`objcopy`, `strip`, `ld -r`) leaves it out.

use crate::digest::Digest;
use crate::fragment::BodyCheck;
use std::ops::Range;

/// Name of the section that holds the note.
pub const NOTE_SECTION: &[u8] = b".note.repo";
/// The version of the descriptor that this crate writes and reads.
pub const VERSION: u32 = 2;
/// The note's owner, with its terminator.
const OWNER: &[u8; 5] = b"REPO\0";
/// The type of a ticket's note.
const NOTE_TYPE: u32 = 1;
/// The type of a fat object's note.
const FAT_NOTE_TYPE: u32 = 2;
/// The last bytes of a fat object; before them the sizes of the note, and of the padding before it.
const FAT_END: &[u8; 8] = b"RepoNote";
/// Bytes behind the note of a fat object.
const FAT_FOOTER: usize = 4 + 4 + FAT_END.len();
/// Bytes before the descriptor: three words, and the owner's name.
const FRAME: usize = 12 + OWNER.len().next_multiple_of(4);
/// Bytes of a descriptor before the path.
const FIXED: usize = 4 + 4 + 16 + 32 + 4 + 4;
/// Where the seal is in the note's bytes.
const SEAL: Range<usize> = FRAME + 56..FRAME + 60;

/// What a ticket's note says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketNote<'a> {
    /// The repository's UUID.
    pub uuid: [u8; 16],
    /// The compilation.
    pub compilation: Digest,
    /// [`seal`] of the ticket file.
    pub seal: u32,
    /// The repository's absolute path, as it was when the ticket was written.
    pub repository: &'a [u8],
    /// How the ticket was made, in the form that section 20 specifies; empty if that is not said.
    pub made: &'a [u8],
}

/// A fat object taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatObject<'a> {
    /// The object as the compiler wrote it.
    pub object: &'a [u8],
    /// Where in the file the note starts.
    pub start: usize,
    /// The note.
    pub note: TicketNote<'a>,
}

/// Why a section of the note's name holds no note that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It does not have the note's form.
    #[error("{0}")]
    Damaged(&'static str),
    /// The descriptor has another version.
    #[error("ticket of version {0}, but this program knows only version {VERSION}; build it again")]
    Version(u32),
}

impl<'a> TicketNote<'a> {
    /// The bytes of a ticket's note, padded to a multiple of 4. (Sizes fit their words: a path that a system opens has some
    /// thousand bytes at most.)
    pub fn encode(&self) -> Vec<u8> {
        self.encode_as(NOTE_TYPE)
    }

    fn encode_as(&self, note_type: u32) -> Vec<u8> {
        let descriptor_size = FIXED + self.repository.len() + self.made.len();
        let mut note = Vec::with_capacity(FRAME + descriptor_size + 3);
        for word in [OWNER.len() as u32, descriptor_size as u32, note_type] {
            note.extend_from_slice(&word.to_le_bytes());
        }
        note.extend_from_slice(OWNER);
        note.resize(FRAME, 0);
        note.extend_from_slice(&VERSION.to_le_bytes());
        note.extend_from_slice(&(self.repository.len() as u32).to_le_bytes());
        note.extend_from_slice(&self.uuid);
        note.extend_from_slice(&self.compilation.0);
        note.extend_from_slice(&self.seal.to_le_bytes());
        note.extend_from_slice(&(self.made.len() as u32).to_le_bytes());
        note.extend_from_slice(self.repository);
        note.extend_from_slice(self.made);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    /// Reads a ticket's note, given the whole contents of its section.
    ///
    /// # Errors
    /// If the section holds something else, more than one note, or a descriptor of another version.
    pub fn parse(section: &'a [u8]) -> Result<TicketNote<'a>, NoteError> {
        TicketNote::parse_as(section, NOTE_TYPE)
    }

    /// Takes a fat object apart. `None` if the file ends otherwise, or with a note of another version: then it is an object
    /// as any other.
    pub fn of_fat(file: &'a [u8]) -> Option<FatObject<'a>> {
        let (rest, footer) = file.split_last_chunk::<FAT_FOOTER>()?;
        let padding = word(footer, 4) as usize;
        if !footer.ends_with(FAT_END) || padding >= 4 {
            return None;
        }
        let start = rest.len().checked_sub(word(footer, 0) as usize)?;
        let object = rest.get(..start.checked_sub(padding)?)?;
        let note = TicketNote::parse_as(&rest[start..], FAT_NOTE_TYPE).ok()?;
        let is_aligned = start % 4 == 0;
        is_aligned.then_some(FatObject {
            object,
            start,
            note,
        })
    }

    /// Makes a fat object of an object: puts the note behind it, and seals that. The note's seal is not looked at.
    pub fn make_fat(&self, object: &mut Vec<u8>) {
        let start = object.len().next_multiple_of(4);
        let padding = (start - object.len()) as u32;
        object.resize(start, 0);
        object.extend_from_slice(&self.encode_as(FAT_NOTE_TYPE));
        let size = (object.len() - start) as u32;
        object.extend_from_slice(&size.to_le_bytes());
        object.extend_from_slice(&padding.to_le_bytes());
        object.extend_from_slice(FAT_END);
        put_seal(object, start);
    }

    fn parse_as(section: &'a [u8], note_type: u32) -> Result<TicketNote<'a>, NoteError> {
        const CUT_OFF: NoteError = NoteError::Damaged("the note is cut off");
        const FOREIGN: NoteError = NoteError::Damaged("the note is not of owner REPO and type 1");
        let (frame, rest) = section.split_first_chunk::<FRAME>().ok_or(FOREIGN)?;
        if word(frame, 0) != OWNER.len() as u32
            || word(frame, 8) != note_type
            || !frame[12..].starts_with(OWNER)
        {
            return Err(FOREIGN);
        }
        let size = word(frame, 4) as usize;
        let descriptor = rest.get(..size).ok_or(CUT_OFF)?;
        let (version, _) = descriptor.split_first_chunk::<4>().ok_or(CUT_OFF)?;
        if rest.len() > size.next_multiple_of(4) {
            // `ld -r` puts sections of a name together. Its output is no ticket, and to take the first note for all
            // would lose the others.
            return Err(NoteError::Damaged(
                "there are several tickets: another linker joined them (ld -r)",
            ));
        }
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(NoteError::Version(version));
        }
        let (fixed, rest) = descriptor.split_first_chunk::<FIXED>().ok_or(CUT_OFF)?;
        let (repository, made) = rest
            .split_at_checked(word(fixed, 4) as usize)
            .filter(|(_, made)| word(fixed, 60) as usize == made.len())
            .ok_or(NoteError::Damaged("the sizes of its parts are wrong"))?;
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&fixed[8..24]);
        let mut digest = [0; 32];
        digest.copy_from_slice(&fixed[24..56]);
        Ok(TicketNote {
            uuid,
            compilation: Digest(digest),
            seal: word(fixed, 56),
            repository,
            made,
        })
    }
}

/// The seal of a ticket file whose note starts at `note`: a check of all of its bytes but the seal's own. Who changes
/// anything in the file, as `objcopy` does, breaks it. `None` if there is no room for a note.
pub fn seal(file: &[u8], note: usize) -> Option<u32> {
    let place = seal_place(note)?;
    let (before, behind) = (file.get(..place.start)?, file.get(place.end..)?);
    Some(BodyCheck::default().part(before).part(behind).value())
}

/// Seals a ticket file whose note starts at `note`.
///
/// # Panics
/// If there is no note.
pub fn put_seal(file: &mut [u8], note: usize) {
    let seal = seal(file, note).expect("the note is in the file");
    file[note..][SEAL].copy_from_slice(&seal.to_le_bytes());
}

fn seal_place(note: usize) -> Option<Range<usize>> {
    Some(note.checked_add(SEAL.start)?..note.checked_add(SEAL.end)?)
}

/// The little-endian word at `at`, which lies within the array.
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: TicketNote<'_> = TicketNote {
        uuid: *b"0123456789abcdef",
        compilation: Digest([0xd1; 32]),
        seal: 0x0403_0201,
        repository: b"/r/p.repo",
        made: b"so",
    };

    fn encoded() -> Vec<u8> {
        NOTE.encode()
    }

    /// SPEC.md, section 20, byte for byte.
    #[test]
    fn bytes_are_as_specified() {
        let mut expected = Vec::new();
        expected.extend_from_slice(&[5, 0, 0, 0, 75, 0, 0, 0, 1, 0, 0, 0]);
        expected.extend_from_slice(b"REPO\0\0\0\0");
        expected.extend_from_slice(&[2, 0, 0, 0, 9, 0, 0, 0]);
        expected.extend_from_slice(b"0123456789abcdef");
        expected.extend_from_slice(&[0xd1; 32]);
        expected.extend_from_slice(&[1, 2, 3, 4, 2, 0, 0, 0]);
        expected.extend_from_slice(b"/r/p.reposo\0");
        assert_eq!(encoded(), expected);
        assert_eq!(TicketNote::parse(&expected), Ok(NOTE));
    }

    #[test]
    fn the_seal_is_about_all_but_itself() {
        let mut file = vec![7; 5];
        file.extend_from_slice(&encoded());
        file.extend_from_slice(b"behind");
        put_seal(&mut file, 5);
        let note = TicketNote::parse(&file[5..file.len() - 6]).expect("a note");
        assert_eq!(seal(&file, 5), Some(note.seal));
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x20;
            let of_seal = (5 + SEAL.start..5 + SEAL.end).contains(&at);
            assert_eq!(seal(&changed, 5) == Some(note.seal), of_seal, "{at}");
        }
        assert_eq!(seal(&file[..5 + SEAL.start], 5), None);
        assert_eq!(seal(&file, usize::MAX), None);
    }

    /// SPEC.md, section 20, byte for byte.
    #[test]
    fn fat_objects_are_as_specified() {
        let mut file = b"an object".to_vec();
        NOTE.make_fat(&mut file);
        let fat = TicketNote::of_fat(&file).expect("a fat object");
        let FatObject { start, note, .. } = fat;
        assert_eq!((start, &file[..12]), (12, &b"an object\0\0\0"[..]));
        assert_eq!(fat.object, b"an object");
        assert_eq!(seal(&file, start), Some(note.seal));
        assert_eq!(
            TicketNote {
                seal: NOTE.seal,
                ..note
            },
            NOTE
        );
        let mut expected = encoded();
        expected[8] = 2;
        expected[SEAL].copy_from_slice(&note.seal.to_le_bytes());
        expected.extend_from_slice(&[96, 0, 0, 0, 3, 0, 0, 0]);
        expected.extend_from_slice(b"RepoNote");
        assert_eq!(file[12..], expected);
        // The two kinds are not mistaken for each other.
        assert!(TicketNote::parse(&file[12..12 + 96]).is_err());
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 0x20;
            let is_sealed = TicketNote::of_fat(&changed)
                .is_some_and(|fat| seal(&changed, fat.start) == Some(fat.note.seal));
            assert!(!is_sealed, "{at}");
            TicketNote::of_fat(&file[..at]);
        }
        assert_eq!(TicketNote::of_fat(b"RepoNote"), None);
    }

    #[test]
    fn every_cut_is_an_error() {
        let note = encoded();
        // The last byte is padding.
        for end in 0..note.len() - 1 {
            assert!(TicketNote::parse(&note[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn other_notes_are_told_apart() {
        let change = |at: usize, byte: u8| {
            let mut note = encoded();
            note[at] = byte;
            TicketNote::parse(&note).map(|_| ())
        };
        let foreign = Err(NoteError::Damaged(
            "the note is not of owner REPO and type 1",
        ));
        assert_eq!(change(0, 4), foreign);
        assert_eq!(change(8, 2), foreign);
        assert_eq!(change(12, b'Z'), foreign);
        assert_eq!(change(20, 1), Err(NoteError::Version(1)));
        assert_eq!(
            change(24, 8),
            Err(NoteError::Damaged("the sizes of its parts are wrong"))
        );
        let two = [encoded(), encoded()].concat();
        assert!(matches!(
            TicketNote::parse(&two),
            Err(NoteError::Damaged(what)) if what.contains("several tickets")
        ));
    }
}
