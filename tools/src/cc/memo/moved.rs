//! A compile that is known but for where things stand: the object's debug information is changed, and the compiler is not run.
//!
//! Of each source that is another text by comments and blank lines only, it is known which line has become which ([`Standing`]); and if bodies of
//! functions are others of which no code was made, of all lines but those in these ([`bodies`]). What comes of the object by that ([`debug_lines`]) is recorded as the compiler's would be, so the next time it is known as it is.

use super::bodies;
use super::bundle;
use super::comments::{self, Keeps};
use super::emitted;
use super::inputs;
use super::standing::Standing;
use super::summaries::Summaries;
use super::{Found, Memo};
use crate::cc::debug_lines::{self, Move};
use crate::cc::import::Importer;
use crate::cc::switches::is_read_only;
use format_spec::digest::Digest;
use format_spec::kinds::{Condition, TextKeeps};
use linker::repository::import::import_result;
use linker::repository::join::join;
use md5::{Digest as _, Md5};
use std::fs;
use std::path::Path;
use store::program::Repository;
use store::program::manifest::NewResult;

/// What is another one in the sources of a result.
#[derive(Default)]
pub(super) struct Moves {
    moves: Vec<Move>,
    /// By their numbers, conditions that did not hold, and what holds in place of each.
    conditions: Vec<(usize, Vec<u8>)>,
}

impl Moves {
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// The sources, for the user.
    pub fn said(&self) -> String {
        let paths = self
            .moves
            .iter()
            .map(|it| String::from_utf8_lossy(&it.path));
        paths.collect::<Vec<_>>().join(", ")
    }

    /// The conditions of the result now, of all `conditions` those with the numbers `of_it`.
    pub fn conditions(&self, conditions: &[&[u8]], of_it: &[usize]) -> Vec<Vec<u8>> {
        let now = |at: &usize| {
            let changed = self.conditions.iter().find(|(number, _)| number == at);
            changed.map_or_else(|| conditions[*at].to_vec(), |(_, now)| now.clone())
        };
        of_it.iter().map(now).collect()
    }
}

impl Memo<'_> {
    /// Whether a condition does not hold only because lines have moved, or bodies are others that `bodies` allows. `number` is its own; `others`, `moves`:
    /// this is added.
    pub(super) fn is_moved(
        &self,
        (number, condition): (usize, &Condition<'_>),
        bodies: Option<&Condition<'_>>,
        (others, moves): (&mut Vec<String>, &mut Moves),
    ) -> bool {
        if is_read_only() {
            return false;
        }
        match self.moved(condition, bodies, others) {
            Some((it, now)) => {
                moves.moves.push(it);
                moves.conditions.push((number, now));
                true
            }
            None => false,
        }
    }

    /// How a source's lines have moved, and the condition that holds now.
    fn moved(
        &self,
        condition: &Condition<'_>,
        bodies: Option<&Condition<'_>>,
        others: &mut Vec<String>,
    ) -> Option<(Move, Vec<u8>)> {
        let Condition::Text {
            rest,
            keeps: keeps @ (TextKeeps::PlacesOrMoved | TextKeeps::BytesOrMoved),
            path,
        } = *condition
        else {
            return None;
        };
        let summaries = Summaries::open(Some(&self.own));
        let before = summaries.standing(&rest)?;
        let place = inputs::path(path);
        let (digest, text) = self.inputs.read(place, &fs::metadata(place).ok()?)?;
        let standing = Standing::of(&text)?;
        let (lines_before, lines_now) = match standing.is_as(&before) {
            true => (before.numbers(), standing.numbers()),
            false => {
                let (names, before, now) =
                    self.others_unused((&before, &standing), bodies, &summaries)?;
                let path = String::from_utf8_lossy(path);
                others.extend(names.iter().map(|name| format!("{name} ({path})")));
                (before, now)
            }
        };
        let rest = match keeps {
            TextKeeps::BytesOrMoved => digest,
            _ => comments::digest(&text, Keeps::Places)?,
        };
        summaries.remember_standing(&rest, &standing);
        let now = Condition::Text { rest, keeps, path }.encode();
        let it = Move {
            path: path.to_vec(),
            before: lines_before,
            now: lines_now,
            md5: Md5::digest(&text).into(),
        };
        Some((it, now))
    }

    /// Of a text that is another one by bodies of functions of which the compile has made no code: their names; and the lines that are the same
    /// as before, what their numbers were, and are now.
    fn others_unused(
        &self,
        (before, now): (&Standing, &Standing),
        bodies: Option<&Condition<'_>>,
        summaries: &Summaries,
    ) -> Option<(Vec<String>, Vec<u32>, Vec<u32>)> {
        let Some(Condition::Bodies {
            version: bodies::VERSION,
            used,
            reaching,
        }) = bodies
        else {
            return None;
        };
        // (The new one is there if somebody has compiled it, and nothing was said.)
        let outline = |standing: &Standing| {
            let outline = summaries.outline(&standing.order(), Keeps::Order, self.kind())?;
            let numbers = standing.numbers();
            (outline.lines() == numbers.len()).then_some((outline, numbers))
        };
        let (old, numbers_before) = outline(before)?;
        let (new, numbers_now) = outline(now)?;
        let names = emitted::may_be(&old, &new, used, reaching)?;
        let lines = old.lines_now(&new)?;
        let of = |numbers: &[u32], line: u32| numbers.get(line as usize).copied();
        let were = lines.iter().map(|(line, _)| of(&numbers_before, *line));
        let are = lines.iter().map(|(_, line)| of(&numbers_now, *line));
        Some((
            names,
            were.collect::<Option<_>>()?,
            are.collect::<Option<_>>()?,
        ))
    }

    /// Makes of what was found what the compiler would make now, and records it.
    ///
    /// # Errors
    /// In words, why that cannot be.
    pub(super) fn move_lines(
        &self,
        found: &mut Found,
        importer: &mut Importer<'_>,
        target: &Path,
    ) -> Result<(), String> {
        let ticket = importer.on_record(target);
        let repository = importer.existing(target).ok_or("the repository is gone")?;
        let object = match found.object.take() {
            Some(object) => object,
            None => object_of(repository, &found.compilation)?,
        };
        let size = object.len();
        let object = debug_lines::moved(&object, &self.directory, &found.moves.moves)?;
        if self.is_fat && object.len() != size {
            // It would be as good, but in another order than the compiler's.
            return Err("the object's sections would have other places".into());
        }
        let files = match self.is_fat {
            true => {
                let files = std::iter::once((bundle::OBJECT, &object[..]));
                Some(bundle::pack(files).map_err(|error| error.to_string())?)
            }
            false => None,
        };
        let result = NewResult {
            key: &self.key,
            parts: &self.parts,
            conditions: &found.conditions,
            compilation: None,
            diagnostics: &found.diagnostics,
            is_coloured: false,
            dependencies: found.dependencies.as_deref(),
            files: files.as_deref(),
        };
        let added = import_result(repository, target, &object, ticket, &result, &|| true);
        let (added, _) = added.map_err(|error| error.to_string())?;
        found.compilation = added.digest;
        found.object = self.is_fat.then_some(object);
        Ok(())
    }
}

/// The object that a compilation is.
fn object_of(repository: &Repository, compilation: &Digest) -> Result<Vec<u8>, String> {
    let programs = repository.programs().map_err(|error| error.to_string())?;
    let view = programs.compilation(compilation);
    let loaded = view.and_then(|view| programs.load(&view));
    let loaded = loaded.map_err(|error| error.to_string())?;
    join(&loaded).map_err(|error| error.to_string())
}
