//! How a ticket was made: the command, so that a ticket whose repository is lost can be made again.
//!
//! A command out of a file is dangerous, so the record is signed with a key that only the user has ([`Key`]), and what is
//! signed names the file that it is in: a ticket that was copied elsewhere, or that somebody else has made, has a recipe to
//! be shown, but none to be followed. SPEC.md, section 20, has the bytes.

use crate::key::Key;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Bytes of the signature.
const SIGNATURE: usize = 16;
/// A longer command is not recorded: tickets are to be small.
const MOST: usize = 16 << 10;
const LEVEL: i32 = 19;

/// What commands are made of, so that they compress well; part of the format.
const DICTIONARY: &[u8] = b"\
-DPACKAGE_NAME=\"\0-DPACKAGE_TARNAME=\"\0-DPACKAGE_VERSION=\"1.0\"\0-DPACKAGE_STRING=\"\0-DPACKAGE_BUGREPORT=\"https://github.com/\
\0-DPACKAGE_URL=\"\"\0-DPACKAGE=\"\0-DVERSION=\"\0-DHAVE_STDIO_H=1\0-DHAVE_STDLIB_H=1\0-DHAVE_STRING_H=1\0-DHAVE_INTTYPES_H=1\0\
-DHAVE_STDINT_H=1\0-DHAVE_STRINGS_H=1\0-DHAVE_SYS_STAT_H=1\0-DHAVE_SYS_TYPES_H=1\0-DHAVE_UNISTD_H=1\0-DSTDC_HEADERS=1\0\
-DHAVE_DLFCN_H=1\0-DLT_OBJDIR=\".libs/\"\0-DHAVE_ALLOCA_H=1\0-DHAVE_FCNTL_H=1\0-DHAVE_SYS_TIME_H=1\0-DHAVE_MEMORY_H=1\0\
-DHAVE_PTHREAD_H=1\0-DHAVE_GETTIMEOFDAY=1\0-DHAVE_STRDUP=1\0-DHAVE_MMAP=1\0-DHAVE_LOCALTIME_R=1\0-DHAVE_ARC4RANDOM=1\0\
/usr/local/src//home//build//include -isystem/usr/include -Werror -Wno-unused-parameter\
-Wstrict-prototypes\0-Wmissing-prototypes\0-pedantic\0-fno-exceptions\0-fno-rtti\0-fvisibility=hidden\0\
-fvisibility-inlines-hidden\0-fstack-protector-strong\0-D_FORTIFY_SOURCE=2\0-D_GNU_SOURCE\0-DNDEBUG\0-DHAVE_CONFIG_H\0-I.\0\
-I../include\0-I../../\0-I./src\0-fPIC\0-DPIC\0-std=gnu++17\0-std=c++20\0-std=gnu11\0-std=c99\0-MT\0-MMD\0-MP\0-MD\0-MF\0.deps/\
CMakeFiles/.dir/.cpp.o.d\0.Tpo\0.cpp.o\0-pthread\0-pipe\0-ggdb\0-O3\0-O0\0-g\0-O2\0-Wextra\0-Wall\0clang++\0clang\0g++\0cc\0gcc\0\
-c\0-o\0.o\0main.c\0";

/// How a ticket was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The ticket's file, absolute and without symbolic links.
    pub ticket: PathBuf,
    /// The directory in which the command ran.
    pub directory: PathBuf,
    /// The words after `repo-cc`.
    pub command: Vec<OsString>,
}

impl Recipe {
    /// The bytes for a ticket's note. `repository` is the path that the ticket names. Empty if the command is too long.
    pub fn encode(&self, repository: &Path, key: &Key) -> Vec<u8> {
        let plain = self.plain();
        if plain.len() > MOST {
            return Vec::new();
        }
        let compress = || {
            let mut compressor =
                zstd::bulk::Compressor::with_dictionary(LEVEL, &dictionary(repository))?;
            compressor.include_contentsize(false)?;
            compressor.include_checksum(false)?;
            compressor.include_dictid(false)?;
            compressor.include_magicbytes(false)?;
            compressor.compress(&plain)
        };
        let Ok(compressed): std::io::Result<Vec<u8>> = compress() else {
            return Vec::new();
        };
        let mut made = sign(&plain, key).to_vec();
        made.extend_from_slice(&compressed);
        made
    }

    /// Reads what [`encode`](Self::encode) made, whoever did; `None` if there is nothing, or nothing that can be read.
    pub fn decode(made: &[u8], repository: &Path) -> Option<Recipe> {
        Recipe::of_plain(&decompress(made, repository)?)
    }

    /// Reads it only if it was signed with `key`.
    pub fn decode_signed(made: &[u8], repository: &Path, key: &Key) -> Option<Recipe> {
        let plain = decompress(made, repository)?;
        // The comparison takes the same time wherever they differ.
        let signature: [u8; SIGNATURE] = made.get(..SIGNATURE)?.try_into().ok()?;
        let right = sign(&plain, key);
        let differs = right
            .iter()
            .zip(signature)
            .fold(0, |all, (a, b)| all | (a ^ b));
        (differs == 0).then(|| Recipe::of_plain(&plain)).flatten()
    }

    /// Strings, each with a terminator: the ticket, the directory, the words.
    fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        let words = self.command.iter().map(OsString::as_os_str);
        for word in [self.ticket.as_os_str(), self.directory.as_os_str()]
            .into_iter()
            .chain(words)
        {
            plain.extend_from_slice(word.as_bytes());
            plain.push(0);
        }
        plain
    }

    fn of_plain(plain: &[u8]) -> Option<Recipe> {
        let mut words = plain
            .strip_suffix(b"\0")?
            .split(|byte| *byte == 0)
            .map(|word| OsString::from_vec(word.to_vec()));
        let (ticket, directory) = (words.next()?, words.next()?);
        let command: Vec<_> = words.collect();
        let recipe = Recipe {
            ticket: ticket.into(),
            directory: directory.into(),
            command,
        };
        let is_whole = recipe.ticket.is_absolute() && recipe.directory.is_absolute();
        (is_whole && !recipe.command.is_empty()).then_some(recipe)
    }

    /// The command as one would type it.
    pub fn shown(&self) -> String {
        let words = self.command.iter().map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether the command can be repeated: not if it reads what is gone by then.
    pub fn is_repeatable(command: &[OsString]) -> bool {
        !command.iter().any(|word| {
            let is_stream = word == "-" || Path::new(word).starts_with("/dev");
            let has_terminator = word.as_bytes().contains(&0);
            is_stream || has_terminator || is_temporary(word)
        })
    }
}

/// Files that the caller may remove: `@/tmp/…` of response files and what is compiled out of `/tmp`.
fn is_temporary(word: &OsStr) -> bool {
    word.as_bytes().starts_with(b"@/tmp/")
}

fn dictionary(repository: &Path) -> Vec<u8> {
    [DICTIONARY, repository.as_os_str().as_bytes()].concat()
}

fn decompress(made: &[u8], repository: &Path) -> Option<Vec<u8>> {
    let mut decompressor =
        zstd::bulk::Decompressor::with_dictionary(&dictionary(repository)).ok()?;
    decompressor.include_magicbytes(false).ok()?;
    decompressor.decompress(made.get(SIGNATURE..)?, MOST).ok()
}

fn sign(plain: &[u8], key: &Key) -> [u8; SIGNATURE] {
    let hash = blake3::keyed_hash(&key.0, plain);
    let mut signature = [0; SIGNATURE];
    signature.copy_from_slice(&hash.as_bytes()[..SIGNATURE]);
    signature
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> Recipe {
        Recipe {
            ticket: "/home/u/work/src/part.o".into(),
            directory: "/home/u/work/src".into(),
            command: ["gcc", "-O2", "-Wall", "-c", "part.c", "-o", "part.o"]
                .map(OsString::from)
                .to_vec(),
        }
    }

    const GOLDEN: &[u8] = &[
        127, 116, 158, 249, 55, 10, 255, 168, 230, 208, 213, 148, 6, 200, 178, 164, 0, 0, 117, 1,
        0, 224, 47, 119, 111, 114, 107, 47, 115, 114, 99, 47, 112, 97, 114, 116, 46, 111, 0, 79,
        50, 45, 99, 0, 99, 0, 45, 111, 111, 0, 6, 0, 45, 67, 152, 222, 113, 177, 140, 116, 200,
        130, 157, 125, 111, 166, 174,
    ];

    #[test]
    fn signed_ones_are_read_by_who_has_the_key() {
        let repository = Path::new("/home/u/.local/state/program-repository/program.repo");
        let (key, other) = (Key([1; 32]), Key([2; 32]));
        let made = recipe().encode(repository, &key);
        assert!(made.len() < 80, "{}", made.len());
        assert_eq!(Recipe::decode(&made, repository), Some(recipe()));
        assert_eq!(
            Recipe::decode_signed(&made, repository, &key),
            Some(recipe())
        );
        assert_eq!(Recipe::decode_signed(&made, repository, &other), None);
        for at in 0..made.len() {
            let mut changed = made.clone();
            changed[at] ^= 1;
            let read = Recipe::decode_signed(&changed, repository, &key);
            assert!(read.is_none() || read == Some(recipe()), "{at}");
            // Nor does it matter what is there when it is only shown.
            Recipe::decode(&changed, repository);
            Recipe::decode(&made[..at], repository);
        }
        assert_eq!(Recipe::decode(&[], repository), None);
    }

    /// SPEC.md, section 20: the dictionary, and the bytes of a recipe that was made once.
    #[test]
    fn bytes_are_as_specified() {
        let text = include_str!("../../../format-spec/SPEC.md");
        let mut sections = text.split("\n## ");
        let section = sections.find(|part| part.starts_with("20. ")).unwrap();
        let lines = section.lines().filter_map(|line| line.strip_prefix("    "));
        let dictionary = lines.collect::<String>().replace("\\0", "\0");
        assert_eq!(dictionary.as_bytes(), DICTIONARY);
        let repository = Path::new("/home/u/.local/state/program-repository/program.repo");
        assert_eq!(
            Recipe::decode_signed(GOLDEN, repository, &Key([1; 32])),
            Some(recipe())
        );
    }

    #[test]
    fn long_commands_are_left_out() {
        let mut long = recipe();
        long.command.push("x".repeat(MOST).into());
        assert!(long.encode(Path::new("/r"), &Key([1; 32])).is_empty());
    }

    #[test]
    fn streams_cannot_be_repeated() {
        let words = |words: &[&str]| {
            Recipe::is_repeatable(&words.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert!(words(&["gcc", "-c", "a.c", "-o", "a.o"]));
        assert!(!words(&["gcc", "-c", "-x", "c", "-", "-o", "a.o"]));
        assert!(!words(&["gcc", "-c", "/dev/stdin"]));
        assert!(!words(&["gcc", "@/tmp/cc1.rsp"]));
    }
}
