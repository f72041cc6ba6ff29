//! Whole command lines with their files, as one sequence of bytes that a fuzzer can keep and change: options by
//! their numbers in a list, then inputs, each with what it is given as. Every sequence of bytes is such a line.

use super::{archive, elf, text};
use crate::Random;

/// What a file of the line is given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An input: an object, an archive, a shared object or a linker script, as its bytes say.
    File,
    /// An input between `--whole-archive` and `--no-whole-archive`.
    WholeArchive,
    /// An input between `--start-lib` and `--end-lib`.
    StartLib,
    /// An input after `--as-needed`.
    AsNeeded,
    /// `-T`.
    Script,
    /// `--version-script`.
    VersionScript,
    /// `--dynamic-list`.
    DynamicList,
    /// `--export-dynamic-symbol-list`.
    ExportList,
    /// `--retain-symbols-file`.
    RetainSymbols,
    /// `-R`.
    JustSymbols,
    /// `-b binary`.
    Binary,
    /// Not a file: the value of one of [`VALUED`].
    Value,
}

const ROLES: [Role; 12] = [
    Role::File,
    Role::WholeArchive,
    Role::StartLib,
    Role::AsNeeded,
    Role::Script,
    Role::VersionScript,
    Role::DynamicList,
    Role::ExportList,
    Role::RetainSymbols,
    Role::JustSymbols,
    Role::Binary,
    Role::Value,
];

/// Options without a value of their own.
#[rustfmt::skip]
pub const OPTIONS: &[&str] = &[
    "-static", "-pie", "-shared", "-r", "-no-pie", "--gc-sections", "--no-gc-sections", "--eh-frame-hdr", "--build-id",
    "--build-id=md5", "--build-id=0x0123456789", "-s", "-S", "-x", "-X", "--emit-relocs", "--noinhibit-exec", "--icf=all",
    "--icf=safe", "--icf-thunks", "--print-icf-sections", "--hash-style=sysv", "--hash-style=gnu", "--hash-style=both",
    "-Bsymbolic", "-Bsymbolic-functions", "--export-dynamic", "--unresolved-symbols=ignore-all",
    "--unresolved-symbols=ignore-in-object-files", "--warn-unresolved-symbols", "--allow-multiple-definition", "--no-undefined",
    "--no-allow-shlib-undefined", "-zpack-relative-relocs", "-znow", "-zrelro", "-znorelro", "-ztext", "-znotext",
    "-zseparate-code", "-znoseparate-code", "-znodlopen", "-zibt", "-zshstk", "-zibtplt", "-zexecstack", "-zstart-stop-gc",
    "-znostart-stop-gc", "-zkeep-text-section-prefix", "-znosectionheader", "-zrodynamic", "-znocopyreloc", "-znocombreloc",
    "-zseparate-loadable-segments", "-zdefs", "-zmax-page-size=65536", "-zcommon-page-size=16384", "-zstack-size=65536",
    "--compress-debug-sections=zlib", "--compress-debug-sections=zstd", "--compress-debug-sections=zlib-gnu", "--gdb-index",
    "-Map=/dev/null", "--cref", "--print-gc-sections", "--gc-keep-exported", "--oformat=binary", "-n", "-N", "--omagic", "-q",
    "--no-relax", "--unique", "--unique=.text*", "-d", "--force-group-allocation", "--default-symver", "--no-undefined-version",
    "--dynamic-list-data", "--exclude-libs=ALL", "--warn-common", "--fatal-warnings", "--no-rosegment", "--orphan-handling=warn",
    "--orphan-handling=discard", "--orphan-handling=error", "--sort-section=name", "--sort-section=alignment",
    "--no-check-sections", "--no-strip-discarded", "--package-metadata={}", "--spare-dynamic-tags=3", "-dynamic-linker=/x",
    "--no-dynamic-linker", "--disable-new-dtags", "-rpath=/x:/y", "-soname=libfuzzed.so", "-yfuzzed", "--error-limit=0",
    "--ignore-data-address-equality", "--discard-none", "-zreport-relative-reloc=warning", "--print-memory-usage", "-O2", "-O0",
    "--no-demangle", "--copy-dt-needed-entries", "--strip-all", "-zinitfirst", "-zorigin", "-zgnu-version-script", "-w",
];

/// Options whose value is the text of a [`Role::Value`]; its first byte chooses.
#[rustfmt::skip]
pub const VALUED: &[&str] = &[
    "--defsym=", "--entry=", "--undefined=", "--wrap=", "--section-start=", "-Ttext=", "-Tdata=", "-Tbss=", "--image-base=",
    "-Ttext-segment=", "-z", "--unique=", "--undefined-glob=", "--export-dynamic-symbol=", "--soname=", "--init=", "--fini=",
    "--require-defined=", "--exclude-libs=", "--build-id=", "--trace-symbol=", "--ignore-unresolved-symbol=", "--package-metadata=",
    "--auxiliary=", "--filter=", "--audit=", "--rpath=",
];

/// More files than this are not looked at.
const MOST_FILES: usize = 8;

/// A command line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Numbers in [`OPTIONS`], wrapping around.
    pub options: Vec<u8>,
    /// Files and values in their order.
    pub files: Vec<(Role, Vec<u8>)>,
}

impl Line {
    /// The line that the bytes stand for.
    pub fn decode(bytes: &[u8]) -> Line {
        let mut line = Line::default();
        let Some((count, rest)) = bytes.split_first() else {
            return line;
        };
        let (options, mut rest) = rest.split_at(usize::from(*count).min(rest.len()));
        line.options = options.to_vec();
        while let [role, low, middle, high, tail @ ..] = rest {
            let length = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
            let (file, tail) = tail.split_at(length.min(tail.len()));
            line.files
                .push((ROLES[usize::from(*role) % ROLES.len()], file.to_vec()));
            rest = tail;
            if line.files.len() == MOST_FILES {
                break;
            }
        }
        line
    }

    /// Bytes that stand for the line.
    pub fn encode(&self) -> Vec<u8> {
        let options = &self.options[..self.options.len().min(255)];
        let mut bytes = vec![options.len() as u8];
        bytes.extend_from_slice(options);
        for (role, file) in &self.files {
            let role = ROLES.iter().position(|known| known == role).unwrap_or(0);
            bytes.push(role as u8);
            bytes.extend_from_slice(&(file.len() as u32).to_le_bytes()[..3]);
            bytes.extend_from_slice(file);
        }
        bytes
    }

    /// A line of these options.
    pub fn of(options: &[&str], files: Vec<(Role, &[u8])>) -> Line {
        let number = |option: &&str| {
            let found = OPTIONS.iter().position(|known| known == option);
            found.unwrap_or_else(|| panic!("{option} is not in the list")) as u8
        };
        Line {
            options: options.iter().map(number).collect(),
            files: files
                .into_iter()
                .map(|(role, file)| (role, file.to_vec()))
                .collect(),
        }
    }
}

/// Changes something in a line, or begins with one of the `seeds`. The result is at most `limit` bytes long, unless
/// a seed is longer.
pub fn mutate(bytes: &mut Vec<u8>, seeds: &[Line], random: &mut Random, limit: usize) {
    let mut line = Line::decode(bytes);
    if line.files.is_empty() || random.one_in(500) {
        line = random.pick(seeds);
    }
    for _ in 0..1 + random.below(3) {
        change(&mut line, seeds, random, limit);
    }
    let changed = line.encode();
    *bytes = if changed.len() <= limit {
        changed
    } else {
        random.pick(seeds).encode()
    };
}

fn change(line: &mut Line, seeds: &[Line], random: &mut Random, limit: usize) {
    let one = random.below(line.files.len().max(1));
    match random.below(16) {
        0 | 1 => {
            let at = random.below(line.options.len() + 1);
            line.options.insert(at, random.below(OPTIONS.len()) as u8);
            line.options.truncate(24);
        }
        2 if !line.options.is_empty() => {
            let at = random.below(line.options.len());
            line.options.remove(at);
        }
        3 => {
            // A file of another line.
            let other = random.pick(seeds);
            if let Some(file) = other.files.get(random.below(other.files.len().max(1)))
                && line.files.len() < MOST_FILES
            {
                let at = random.below(line.files.len() + 1);
                line.files.insert(at, file.clone());
            }
        }
        4 if line.files.len() > 1 && random.one_in(2) => drop(line.files.remove(one)),
        4 if line.files.len() > 1 => {
            let other = random.below(line.files.len());
            line.files.swap(one, other);
        }
        5 if random.one_in(3) => {
            let role = random.pick(&ROLES);
            if let Some((old, _)) = line.files.get_mut(one) {
                *old = role;
            }
        }
        6 if line.files.len() < MOST_FILES && random.one_in(2) => {
            let mut value = vec![random.below(VALUED.len()) as u8];
            for _ in 0..1 + random.below(4) {
                value.extend_from_slice(random.pick(text::SCRIPT).as_bytes());
            }
            if value[0] == 0 {
                value.splice(1..1, *b"fuzzed=");
            }
            line.files.push((Role::Value, value));
        }
        _ => {
            if let Some((role, file)) = line.files.get_mut(one) {
                change_file(*role, file, random, limit);
            }
        }
    }
}

fn change_file(role: Role, file: &mut Vec<u8>, random: &mut Random, limit: usize) {
    match role {
        Role::Value => {
            let head = file.first().copied();
            let mut value = file.split_off(file.len().min(1));
            text::mutate(&mut value, text::SCRIPT, random, 256);
            *file = head.into_iter().chain(value).collect();
        }
        Role::VersionScript | Role::DynamicList | Role::ExportList | Role::RetainSymbols => {
            text::mutate(file, text::VERSION_SCRIPT, random, limit);
        }
        Role::Script => text::mutate(file, text::SCRIPT, random, limit),
        _ if file.starts_with(b"\x7fELF") => elf::mutate(file, random, limit),
        _ if file.starts_with(b"!<") => archive::mutate(file, random, limit),
        _ if file.iter().all(|byte| *byte != 0) => text::mutate(file, text::SCRIPT, random, limit),
        _ => super::blindly(file, random),
    }
}
