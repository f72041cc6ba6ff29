//! What is included, or asked for, by macros: names that no text has as they are.
//!
//! A macro of which the text is a name is followed; for what is put together otherwise, each name by which an input may be meant is looked up, or
//! nothing is said of the compile.

use super::{BY_MACRO, Finder, First, MOST_CONDITIONS, PERHAPS_PRECOMPILED, Question};
use crate::cc::memo::checker::inside;
use crate::cc::memo::pasting::Pastes;
use crate::cc::memo::text::{Form, Lookup, literal};
use crate::cc::memo::{questions, scan};
use memchr::memmem;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

impl Finder<'_> {
    /// What is asked by other names of `__has_include`.
    pub(super) fn questions_by_other_names(&mut self) -> Result<(), &'static str> {
        let mut todo: Vec<Vec<u8>> = self.questions.iter().cloned().collect();
        let texts = std::mem::take(&mut self.texts);
        while let Some(name) = todo.pop() {
            let is_in_option = |text: &Vec<u8>| memmem::find(text, &name).is_some();
            if self.question.macros.iter().any(is_in_option) {
                return Err(questions::BY_ANOTHER_NAME);
            }
            for text in &texts {
                let found = questions::by_name(text.get(self.question.inputs)?, &name)?;
                for lookup in &found.lookups {
                    self.look_up(&text.directory, lookup, false)?;
                }
                let new = (found.names.into_iter()).filter(|it| self.questions.insert(it.clone()));
                todo.extend(new);
            }
        }
        self.texts = texts;
        Ok(())
    }

    /// Nothing is put together by `##` that would matter.
    pub(super) fn no_pastes(&mut self) -> Result<(), &'static str> {
        // As definitions in a source.
        let macros: Vec<Vec<u8>> = (self.question.macros.iter())
            .map(|text| {
                let mut line = [b"#define ", &text[..]].concat();
                if let Some(at) = memchr::memchr(b'=', &line) {
                    line[at] = b' ';
                }
                line
            })
            .collect();
        if !self.questions.is_empty() {
            let mut pastes = Pastes::new(&self.questions);
            let texts = self.all_texts().chain(macros.iter().map(Vec::as_slice));
            texts.for_each(|text| pastes.read(text, |_| {}));
            self.pastes = pastes;
        }
        let texts = self.all_texts().chain(macros.iter().map(Vec::as_slice));
        let Question {
            assembly,
            is_dateless,
            ..
        } = *self.question;
        match self.pastes.reason(assembly, is_dateless, texts) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// All that a macro may be.
    pub(super) fn definitions(&self, name: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut found: Vec<Option<Vec<u8>>> = (self.all_texts())
            .flat_map(|text| scan::definitions(text, name))
            .map(|text| text.map(<[u8]>::to_vec))
            .collect();
        for text in self.question.macros {
            let end = text
                .iter()
                .position(|byte| *byte == b'=')
                .unwrap_or(text.len());
            if text[..end] == *name {
                found.push(Some(text.get(end + 1..).unwrap_or_default().to_vec()));
            } else if text[..end]
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(b"("))
            {
                found.push(None);
            }
        }
        found
    }

    pub(super) fn is_opaque(&self, name: &[u8]) -> bool {
        let found = self.definitions(name);
        // What the compiler itself defines.
        let is_own = found.is_empty() && name.starts_with(b"_");
        is_own
            || found
                .iter()
                .any(|text| !text.as_deref().is_some_and(is_name_or_word))
    }

    /// What is included by macros of which the text is not a name. What the compiler found of these is among the inputs, so under each
    /// name that may lead there from such a place it is looked for.
    pub(super) fn opaque_names(
        &mut self,
        followed: &FxHashSet<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), &'static str> {
        let opaque = followed.iter().filter(|(_, name)| self.is_opaque(name));
        let places: BTreeSet<Vec<u8>> = opaque.map(|(directory, _)| directory.clone()).collect();
        if places.is_empty() {
            return Ok(());
        }
        // Nobody says what it was.
        if self.question.closure {
            return Err(BY_MACRO);
        }
        let first = match &self.question.first {
            _ if !self.question.takes_precompiled => None,
            _ if !self.question.headers.is_empty() || self.is_plain => None,
            First::Unknown => return Err(PERHAPS_PRECOMPILED),
            First::Nothing => None,
            First::File(path) => Some(as_in_dependency_files(path)),
        };
        let other = first.filter(|path| !self.seen.contains(*path));
        let mut inputs: Vec<Vec<u8>> = self.seen.iter().cloned().collect();
        inputs.extend(other.map(<[u8]>::to_vec));
        for path in &inputs {
            let is_first = Some(&path[..]) == first;
            let names = (self.question.answer.search.iter())
                .map(|directory| inside(directory, b""))
                .chain([Vec::new()])
                .filter_map(|start| path.strip_prefix(&start[..]).map(<[u8]>::to_vec))
                .collect::<BTreeSet<_>>();
            for (name, place) in names
                .iter()
                .flat_map(|name| places.iter().map(move |it| (name, it)))
            {
                let lookup = Lookup {
                    form: Form::Quoted,
                    name: name.clone(),
                    only_asks: false,
                };
                self.look_up(place, &lookup, is_first)?;
                let lookup = Lookup {
                    form: Form::Angled,
                    ..lookup
                };
                self.look_up(place, &lookup, is_first)?;
            }
            if self.conditions.len() > MOST_CONDITIONS {
                return Err("too many headers");
            }
        }
        // The preprocessor read another file than the compiler: not because of what is precompiled, which was looked for.
        match other {
            Some(_) => Err(PERHAPS_PRECOMPILED),
            None => Ok(()),
        }
    }

    pub(super) fn follow(&mut self, directory: &[u8], name: &[u8]) -> Result<(), &'static str> {
        for text in self.definitions(name).into_iter().flatten() {
            match literal(&text) {
                Some((form, name)) => {
                    let lookup = Lookup {
                        form,
                        name: name.to_vec(),
                        only_asks: false,
                    };
                    self.look_up(directory, &lookup, true)?;
                }
                None if is_name_or_word(&text) && !text.is_empty() => {
                    self.by_macro.push((directory.to_vec(), text));
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// A path as gcc has it in dependency files: without `./` before it.
fn as_in_dependency_files(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./") {
        let slashes = rest.iter().take_while(|byte| **byte == b'/').count();
        path = &rest[slashes..];
    }
    path
}

/// Whether a macro's text is a name of a header, or another macro.
fn is_name_or_word(text: &[u8]) -> bool {
    let rest = match literal(text) {
        Some((_, name)) => text[name.len() + 2..].trim_ascii(),
        None => {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
            return text.iter().all(is_part);
        }
    };
    rest.is_empty() || rest.starts_with(b"//") || (rest.starts_with(b"/*") && rest.ends_with(b"*/"))
}
