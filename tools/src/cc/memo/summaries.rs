//! What texts say, remembered from one compile to the next.
//!
//! To find out what a compile depends on, all its inputs are looked through, and most of these are headers that other compiles have
//! included just before. What is found in a text follows from its bytes and from what the command line says, which is the *context*: its
//! digest also tells programs apart that look differently. So it is kept in a file of all compiles of this user, by the digests of
//! text and context, and of a header that is known so not a byte is read.
//!
//! The file is a ring: what is new overwrites what is oldest. Nothing is locked. A summary has a check over all its bytes, with
//! both digests among them: what was overwritten, or is half written, is as good as not there. Texts about which there is something
//! that cannot be followed are not kept; of these the compile is not, either.

use super::assembly::{AsmLines, Assembly};
use super::bodies::Outline;
use super::comments::Keeps;
use super::inputs;
use super::lines::{Lines, TextLines};
use super::pasting::{Parts, Pastes};
use super::scan;
use super::shared::{Words, hash};
use super::standing::Standing;
use super::text::Lookup;
use super::tokens;
use format_spec::digest::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const FILE_NAME: &str = "texts-1";
/// Words of an entry: what it is of, where that is, check.
const ENTRY: usize = 3;
/// Entries of one bucket.
const WAYS: usize = 4;
const BUCKETS: usize = 1 << 13;
const INDEX: usize = BUCKETS * WAYS * ENTRY;
/// Words of the ring: 16 MiB.
const RING: usize = 2 << 20;
/// No summary has more words.
const LARGEST: usize = RING / 8;
/// Words before a summary's own: the digests, and how many bytes follow.
const HEAD: usize = 9;

/// What a text says, as far as it matters for what a compile depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The names that are looked for.
    pub lookups: Vec<Lookup>,
    /// Macros that are to be the name.
    pub by_macro: Vec<Vec<u8>>,
    /// Macros that are other names of `__has_include`.
    pub questions: Vec<Vec<u8>>,
    /// What macros may put together of it.
    pub parts: Parts,
    /// Who asks for lines, where that matters.
    pub lines: Option<TextLines>,
    /// It may say that it is to be read once only, as far as a glance tells.
    pub mentions_once: bool,
    /// The same by its tokens.
    pub may_be_once: bool,
}

/// How a text is looked at, beside what the command line defines.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// How it is known what assembly reads.
    pub assembly: Assembly,
    /// It may be one whose lines do not matter.
    pub counts: bool,
}

impl Summary {
    /// Looks through a text. `joined` is the same in which no word goes on in the next line.
    ///
    /// # Errors
    /// In words, what cannot be followed.
    pub fn of(
        text: &[u8],
        joined: &[u8],
        look: Look,
        lines: Option<&Lines>,
        pastes: &mut Pastes,
    ) -> Result<Summary, &'static str> {
        let found = scan::scan(joined);
        if let Some(reason) = found.beyond {
            return Err(reason);
        }
        // The tokens of each line are made once, for all that asks for them.
        let mut asm = look.assembly.begin(joined)?;
        let mut reading = lines.map(|lines| lines.begin(text, look.counts));
        let looks_for_once = tokens::mentions_once(joined);
        let mut may_be_once = false;
        let parts = pastes.parts(joined, |line| {
            if let Some(asm) = &mut asm {
                asm.read(line);
            }
            if let Some(reading) = &mut reading {
                reading.read(line);
            }
            may_be_once = may_be_once || (looks_for_once && tokens::may_be_once(line));
        });
        if let Some(reason) = asm.and_then(AsmLines::end) {
            return Err(reason);
        }
        if found.has_date {
            return Err("__DATE__ or __TIME__ in an input");
        }
        Ok(Summary {
            lookups: found.lookups,
            by_macro: found.by_macro,
            questions: found.questions,
            parts,
            lines: reading.map(|reading| reading.end()),
            mentions_once: tokens::mentions_once(text),
            may_be_once,
        })
    }
}

/// The contexts of one compile, each for texts that count and for those that do not.
#[derive(Clone, Debug)]
pub struct Context([Digest; 2]);

impl Context {
    /// Of a compile; `None` if it cannot be told which program this is: another one may find something else.
    pub fn new(assembly: Assembly, lines: Option<&Lines>) -> Option<Context> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::bytes_of(&inputs::own_program()?));
        hasher.update(&[assembly as u8, u8::from(lines.is_some())]);
        for word in lines.map(Lines::context).unwrap_or_default() {
            hasher.update(&word.to_le_bytes());
        }
        Some(Context([0, 1].map(|counts| {
            let mut hasher = hasher.clone();
            hasher.update(&[counts]);
            Digest(*hasher.finalize().as_bytes())
        })))
    }

    fn of(&self, counts: bool) -> &Digest {
        &self.0[usize::from(counts)]
    }
}

/// The memory.
pub struct Summaries {
    words: Option<Words>,
    /// Which program this is, once somebody has asked.
    program: OnceCell<Option<[u64; 5]>>,
}

impl Summaries {
    /// Opens the memory in `directory`. Where there can be none, every text is looked through.
    pub fn open(directory: Option<&Path>) -> Summaries {
        let open = |directory: &Path| Words::open(directory, FILE_NAME, 1 + INDEX + RING).ok();
        Summaries {
            words: directory.and_then(open),
            program: OnceCell::new(),
        }
    }

    /// The place in the ring that is written next, the index, and the ring.
    fn parts(&self) -> Option<(&AtomicU64, &[AtomicU64], &[AtomicU64])> {
        let (next, rest) = self.words.as_ref()?.words().split_first()?;
        let (index, ring) = rest.split_at_checked(INDEX)?;
        Some((next, index, ring))
    }

    /// What is remembered of a text.
    pub fn get(&self, text: &Digest, context: &Context, counts: bool) -> Option<Summary> {
        self.load(text, context.of(counts))
    }

    /// Remembers it, if it is not too large.
    pub fn remember(&self, text: &Digest, context: &Context, counts: bool, summary: &Summary) {
        self.store(text, context.of(counts), summary);
    }

    /// The outline of a text, whose digest without comments this is, where so much keeps its place (two of these digests may be one); of a text
    /// that was compiled without complaint by commands of this kind ([`super::key::kind`]).
    pub fn outline(&self, rest: &Digest, keeps: Keeps, kind: &Digest) -> Option<Outline> {
        self.load(rest, &of_outline(keeps, kind))
    }

    /// Remembers it.
    pub fn remember_outline(&self, rest: &Digest, keeps: Keeps, kind: &Digest, outline: &Outline) {
        self.store(rest, &of_outline(keeps, kind), outline);
    }

    /// The lines of a text, of which this is the digest by which a condition says that it is the same.
    pub fn standing(&self, digest: &Digest) -> Option<Standing> {
        self.load(digest, &self.of_this_program(b"standing")?)
    }

    /// Remembers them.
    pub fn remember_standing(&self, digest: &Digest, standing: &Standing) {
        if let Some(context) = self.of_this_program(b"standing") {
            self.store(digest, &context, standing);
        }
    }

    /// Whether a comment of the text of this digest stands further left than the code behind it ([`super::comments::unindents`]).
    pub fn unindents(&self, text: &Digest) -> Option<bool> {
        self.load(text, &self.of_this_program(b"unindents")?)
    }

    /// Remembers it.
    pub fn remember_unindents(&self, text: &Digest, found: bool) {
        if let Some(context) = self.of_this_program(b"unindents") {
            self.store(text, &context, &found);
        }
    }

    /// In which context something is that follows from a text alone, as this program finds it; `None` if it cannot be told which program this is.
    fn of_this_program(&self, what: &[u8]) -> Option<Digest> {
        let program = self.program.get_or_init(inputs::own_program);
        Some(Digest::of(
            &[what, bytemuck::bytes_of(program.as_ref()?)].concat(),
        ))
    }

    fn load<T: DeserializeOwned>(&self, text: &Digest, context: &Digest) -> Option<T> {
        let digests = digests(text, context);
        let (_, index, ring) = self.parts()?;
        let name = name_of(&digests);
        bucket(index, name).chunks_exact(ENTRY).find_map(|entry| {
            if entry[0].load(Relaxed) != name {
                return None;
            }
            let (start, count) = place(entry[1].load(Relaxed));
            if count < HEAD {
                return None;
            }
            let words = ring.get(start..start.checked_add(count)?)?;
            let words: Vec<u64> = words.iter().map(|word| word.load(Relaxed)).collect();
            let (head, body) = words.split_at(HEAD);
            let bytes = bytemuck::cast_slice(body);
            let bytes = bytes.get(..usize::try_from(head[8]).ok()?)?;
            let is_whole = head[..8] == digests && entry[2].load(Relaxed) == check(&words);
            is_whole.then(|| postcard::from_bytes(bytes).ok()).flatten()
        })
    }

    fn store(&self, text: &Digest, context: &Digest, found: &impl Serialize) {
        let (Some((next, index, ring)), Ok(mut bytes)) = (self.parts(), postcard::to_stdvec(found))
        else {
            return;
        };
        let digests = digests(text, context);
        let size = bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut words = digests.to_vec();
        words.push(size);
        words.extend(bytemuck::pod_collect_to_vec::<u8, u64>(&bytes));
        if words.len() > LARGEST {
            return;
        }
        let count = words.len();
        // What would reach beyond the end begins at the start; two that do so at once may damage each other.
        let taken = next.fetch_add(count as u64, Relaxed) as usize % RING;
        let start = match taken + count <= RING {
            true => taken,
            false => {
                next.store(count as u64, Relaxed);
                0
            }
        };
        for (to, word) in ring[start..start + count].iter().zip(&words) {
            to.store(*word, Relaxed);
        }
        let name = name_of(&digests);
        let entries = || bucket(index, name).chunks_exact(ENTRY);
        let has = |what: u64| move |entry: &&[AtomicU64]| entry[0].load(Relaxed) == what;
        let entry = entries()
            .find(has(name))
            .or_else(|| entries().find(has(0)))
            .or_else(|| entries().nth(start % WAYS));
        if let Some(entry) = entry {
            entry[0].store(name, Relaxed);
            entry[1].store((start as u64) << 32 | count as u64, Relaxed);
            entry[2].store(check(&words), Relaxed);
        }
    }
}

/// In which context the outlines of a kind are.
fn of_outline(keeps: Keeps, kind: &Digest) -> Digest {
    Digest::of(&[&kind.0[..], &[keeps as u8]].concat())
}

fn digests(text: &Digest, context: &Digest) -> [u64; 8] {
    bytemuck::cast([text.0, context.0])
}

/// By what an entry is found. Zero is one that was never written.
fn name_of(digests: &[u64; 8]) -> u64 {
    hash(bytemuck::bytes_of(digests)) | 1
}

fn bucket(index: &[AtomicU64], name: u64) -> &[AtomicU64] {
    let at = (name >> 1) as usize % BUCKETS * WAYS * ENTRY;
    &index[at..at + WAYS * ENTRY]
}

/// The first word of a summary in the ring, and the number of its words.
fn place(word: u64) -> (usize, usize) {
    ((word >> 32) as usize, word as u32 as usize)
}

fn check(words: &[u64]) -> u64 {
    hash(bytemuck::cast_slice(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::classify::{Action, Language, classify};
    use crate::cc::compiler::Family;
    use std::ffi::OsString;

    fn summary(text: &[u8]) -> Summary {
        let look = Look {
            assembly: Assembly::Written,
            counts: true,
        };
        Summary::of(text, text, look, None, &mut Pastes::default()).expect("nothing beyond")
    }

    fn in_context(assembly: Assembly, lines: Option<&Lines>) -> Context {
        Context::new(assembly, lines).expect("a program")
    }

    /// What the command line says of lines.
    fn lines(options: &str, family: Family, language: Language) -> Lines {
        let args: Vec<OsString> = options.split(' ').map(OsString::from).collect();
        match classify(family, &args) {
            Action::Compile(compile) => Lines::new(&compile.words, family, language),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_decides_beside_the_text_is_in_the_context() {
        let text = b"#ifndef NDEBUG\n#define L __LINE__\n#endif\nauto f = [] { return L; };\n";
        let gcc = |options: &str| lines(options, Family::Gcc, Language::Cxx);
        let all = [
            gcc("-c a.cc"),
            gcc("-DNDEBUG -c a.cc"),
            lines("-c a.cc", Family::Clang, Language::Cxx),
        ];
        let look = |counts| Look {
            assembly: Assembly::Written,
            counts,
        };
        let mut found: Vec<(Digest, Summary)> = Vec::new();
        for lines in &all {
            let context = in_context(Assembly::Written, Some(lines));
            for counts in [false, true] {
                let pastes = &mut Pastes::default();
                let summary = Summary::of(text, text, look(counts), Some(lines), pastes);
                found.push((*context.of(counts), summary.expect("nothing beyond")));
            }
        }
        for (at, (context, _)) in found.iter().enumerate() {
            assert!(found[..at].iter().all(|(other, _)| other != context));
        }
        // Of the text that counts something else is found in each.
        let [gcc_alone, without_debug, clang] = [1, 3, 5].map(|at| &found[at].1);
        assert!(gcc_alone != without_debug && without_debug != clang && clang != gcc_alone);
        // What says the same of lines, does so for all.
        let same = gcc("-DNDEBUG=1 -O2 -Ix -c b.cc");
        let same = in_context(Assembly::Written, Some(&same));
        assert_eq!(*same.of(true), found[3].0);
    }

    fn digest(number: u32) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    #[test]
    fn summaries_come_back_to_everybody() {
        let dir = tempfile::tempdir().expect("a directory");
        let summaries = Summaries::open(Some(dir.path()));
        let context = in_context(Assembly::Written, None);
        let text = b"#include <a.h>\n#pragma once\n#define D(x) __DA##x\n";
        let found = summary(text);
        assert_eq!(found.lookups.len(), 1);
        assert!(found.mentions_once && found.may_be_once);
        assert_eq!(summaries.get(&Digest::of(text), &context, true), None);
        summaries.remember(&Digest::of(text), &context, true, &found);
        let other = Summaries::open(Some(dir.path()));
        assert_eq!(
            other.get(&Digest::of(text), &context, true),
            Some(found.clone())
        );
        assert_eq!(other.get(&Digest::of(text), &context, false), None);
        assert_eq!(other.get(&digest(1), &context, true), None);
        let another = in_context(Assembly::Alone, None);
        assert_eq!(other.get(&Digest::of(text), &another, true), None);
        let nowhere = Summaries::open(None);
        nowhere.remember(&Digest::of(text), &context, true, &found);
        assert_eq!(nowhere.get(&Digest::of(text), &context, true), None);
    }

    #[test]
    fn the_ring_forgets_and_never_mixes() {
        let dir = tempfile::tempdir().expect("a directory");
        let summaries = Summaries::open(Some(dir.path()));
        let context = in_context(Assembly::Written, None);
        let of = |number: u32| Summary {
            by_macro: vec![vec![number as u8; 5000 + number as usize % 777]; 3],
            ..Summary::default()
        };
        let count = 3000;
        for number in 0..count {
            summaries.remember(&digest(number), &context, false, &of(number));
            let found = summaries.get(&digest(number), &context, false);
            assert_eq!(found, Some(of(number)));
        }
        let mut known = 0;
        for number in 0..count {
            if let Some(found) = summaries.get(&digest(number), &context, false) {
                assert_eq!(found, of(number));
                known += 1;
            }
        }
        assert!((500..2000).contains(&known), "{known}");
        // What does not fit is not kept.
        let large = Summary {
            by_macro: vec![vec![1; LARGEST * 8]],
            ..Summary::default()
        };
        summaries.remember(&digest(count), &context, false, &large);
        assert_eq!(summaries.get(&digest(count), &context, false), None);
    }

    #[test]
    fn those_who_write_at_once_never_mix() {
        let dir = tempfile::tempdir().expect("a directory");
        let context = in_context(Assembly::Written, None);
        let of = |number: u32| Summary {
            by_macro: vec![vec![number as u8; 9000 + number as usize]; 20],
            ..Summary::default()
        };
        // More than the ring has room for, of few texts, so that all meet in the same places.
        let run = |thread: u32| {
            let summaries = Summaries::open(Some(dir.path()));
            let mut found = 0;
            for round in 0..60 {
                let number = (round * 7 + thread) % 31;
                summaries.remember(&digest(number), &context, false, &of(number));
                for number in 0..31 {
                    if let Some(it) = summaries.get(&digest(number), &context, false) {
                        assert_eq!(it, of(number));
                        found += 1;
                    }
                }
            }
            found
        };
        let found: u32 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| scope.spawn(move || run(thread)))
                .collect();
            let all = threads.into_iter().map(|it| it.join().expect("no panic"));
            all.sum()
        });
        assert!(found > 0);
    }

    #[test]
    fn damage_is_as_good_as_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let summaries = Summaries::open(Some(dir.path()));
        let context = in_context(Assembly::Written, None);
        let found = summary(b"#include <a.h>\n");
        summaries.remember(&digest(0), &context, true, &found);
        let (_, index, ring) = summaries.parts().expect("mapped");
        let entry = bucket(index, name_of(&digests(&digest(0), context.of(true))));
        let count = place(entry[1].load(Relaxed)).1;
        for word in ring[..count].iter().chain(&entry[..ENTRY]) {
            let was = word.load(Relaxed);
            for bit in [0, 13, 40, 63] {
                word.store(was ^ 1 << bit, Relaxed);
                let read = summaries.get(&digest(0), &context, true);
                assert_eq!(read, None);
            }
            word.store(u64::MAX, Relaxed);
            assert_eq!(summaries.get(&digest(0), &context, true), None);
            word.store(was, Relaxed);
        }
        assert_eq!(summaries.get(&digest(0), &context, true), Some(found));
    }
}
