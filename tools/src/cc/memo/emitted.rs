//! What a compile has made code of, by names; and of which bodies in its sources that says that they might have been others.
//!
//! The plugin is asked after the front end and before anything is optimized: what is no definition then, nobody has asked for.
//! Clang's names of functions have the function's own name in them, and that of its class, each behind its length. So a body counts as used if any
//! definition has both names in it, or if it is not certain what it is.

use super::bodies::{Body, Outline, VERSION, short};
use super::lines::Reaching;
use super::macros;
use super::shared;
use format_spec::kinds::Condition;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// What was compiled.
#[derive(Clone, Debug, Default)]
pub struct Emitted {
    /// The names of all definitions.
    pub names: Vec<String>,
    /// Something works by itself that is there because a template was instantiated, whoever asked for that: it may be a function that is not used.
    pub has_unasked: bool,
    /// A text may say where a type or a lambda without a name stands.
    pub tells_places: bool,
    /// Assembly that code was made of may read other files.
    pub reads_files: bool,
}

/// The definitions by the names in them.
struct Names<'e> {
    names: &'e [String],
    by_part: FxHashMap<&'e [u8], Vec<usize>>,
}

impl<'e> Names<'e> {
    /// `parts`: what is asked for.
    fn new(names: &'e [String], parts: &FxHashSet<&[u8]>) -> Names<'e> {
        let mut by_part: FxHashMap<&[u8], Vec<usize>> = FxHashMap::default();
        for (number, name) in names.iter().enumerate() {
            let name = name.as_bytes();
            // As in C, without what LLVM has added behind a dot.
            let plain = name.split(|byte| *byte == b'.').next().unwrap_or_default();
            for part in parts_of(name)
                .chain([plain])
                .filter(|part| parts.contains(part))
            {
                by_part.entry(part).or_default().push(number);
            }
        }
        Names { names, by_part }
    }

    /// Whether code was made of this function, as far as names tell.
    fn has(&self, name: &[u8], class: Option<&[u8]>) -> bool {
        let numbers = self.by_part.get(name).into_iter().flatten();
        let mut names = numbers.map(|number| self.names[*number].as_bytes());
        match class {
            None => names.next().is_some(),
            Some(class) => {
                let with_size = [class.len().to_string().as_bytes(), class].concat();
                names.any(|name| {
                    !name.starts_with(b"_Z") || memchr::memmem::find(name, &with_size).is_some()
                })
            }
        }
    }
}

/// All that may be a name in one of clang's names of C++: as many letters as a number before them says. (Of a number that follows another one
/// it is not known where it begins.)
fn parts_of(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..name.len()).filter_map(|start| {
        let digits = name[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let number = str::from_utf8(&name[start..start + digits]).ok()?;
        let size: usize = number.parse().ok()?;
        let start = start + digits;
        name.get(start..start.checked_add(size)?)
    })
}

/// What is said of the bodies in these texts: which must be what they are.
pub fn condition(emitted: &Emitted, texts: &[Outline], reaching: &Reaching<'_>) -> Vec<u8> {
    let bodies = || {
        texts
            .iter()
            .flat_map(|text| text.bodies.iter().map(move |body| (text, body)))
    };
    let parts = bodies().map(|(_, body)| &body.name[..]).collect();
    let names = Names::new(&emitted.names, &parts);
    let hashes = |words: &FxHashSet<&[u8]>| -> FxHashSet<u64> {
        words.iter().map(|word| shared::hash(word)).collect()
    };
    let of_declarations = hashes(&reaching.of_declarations);
    let of_bodies = hashes(&reaching.of_bodies);
    let is_macro = |word: &Vec<u8>| reaching.all.contains(&macros::hash(word));
    let mut used = BTreeSet::new();
    for text in texts {
        // A class may end, and another begin, in such a macro.
        let knows_classes = !text.words.iter().any(|word| of_bodies.contains(word));
        for body in &text.bodies {
            let class = body.class.as_ref().filter(|_| knows_classes);
            let is_used = is_macro(&body.name)
                || class.is_some_and(is_macro)
                || text
                    .hashes(&body.declared_by)
                    .any(|word| of_declarations.contains(&word))
                || text
                    .hashes(&body.words)
                    .any(|word| of_bodies.contains(&word))
                || names.has(&body.name, class.map(Vec::as_slice));
            if is_used {
                used.insert(body.key());
            }
        }
    }
    let of_bodies: BTreeSet<u16> = of_bodies.into_iter().map(short).collect();
    let bytes =
        |all: BTreeSet<u16>| -> Vec<u8> { all.into_iter().flat_map(u16::to_le_bytes).collect() };
    let (used, reaching) = (bytes(used), bytes(of_bodies));
    let condition = Condition::Bodies {
        version: VERSION,
        used: &used,
        reaching: &reaching,
    };
    condition.encode()
}

/// The names of functions whose bodies are others in `new`, if these may be, by what is said in the condition; `None` if they may not, or more is
/// another.
pub fn may_be(old: &Outline, new: &Outline, used: &[u8], reaching: &[u8]) -> Option<Vec<String>> {
    let has = |all: &[u8], short: u16| all.chunks_exact(2).any(|it| it == short.to_le_bytes());
    let others = old.others_in(new)?;
    let may = |body: &&Body| {
        !has(used, body.key())
            && !new
                .hashes(&body.words)
                .any(|word| has(reaching, short(word)))
    };
    let names = others
        .iter()
        .map(|body| String::from_utf8_lossy(&body.name).into_owned());
    others.iter().all(may).then(|| names.collect())
}
