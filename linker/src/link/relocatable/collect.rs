//! `--gc-sections` with `-r`: only what the named symbols reach is put into the output.
//!
//! There is no entry point, so the command line must name what is wanted (`-e`, `-u`,
//! `--require-defined`). Kept besides: what runs without being named, what says that it
//! must be kept, and what is not loaded.

use crate::args::Args;
use crate::base::ids::{FileId, SectionId, SymbolId};
use crate::elf::shf;
use crate::input::file::Files;
use crate::input::parts::{Fixup, Place, Target};
use crate::link::relocatable::frames::{Description, Frames};
use crate::messages::diag::Diagnostics;
use crate::resolve::input_sections::{Sections, is_sframe, state};
use crate::resolve::linker_symbols::is_c_identifier;
use crate::resolve::resolution::Definitions;
use crate::resolve::symbol_table::SymbolTable;
use std::collections::HashMap;

/// What is collected.
#[derive(Clone, Copy)]
pub struct Inputs<'l, 'a> {
    /// The inputs.
    pub files: &'l Files<'a>,
    /// Their symbols.
    pub symbols: &'l SymbolTable<'a>,
    /// Where these are defined.
    pub definitions: &'l Definitions,
    /// Their sections.
    pub sections: &'l Sections,
}

struct Collector<'l, 'a> {
    inputs: Inputs<'l, 'a>,
    /// Sections that are reached together: members of a group, and what is ordered by another.
    together: HashMap<SectionId, Vec<SectionId>>,
    descriptions: HashMap<SectionId, Vec<Description>>,
    /// Sections by their names, if these are C identifiers: `__start_NAME` keeps them all.
    bounded: HashMap<&'a [u8], Vec<SectionId>>,
    reached: Vec<bool>,
    work: Vec<SectionId>,
}

/// Takes out the sections that nothing reaches. `roots` are the symbols that the command line names.
pub fn collect(
    args: &Args,
    inputs: Inputs,
    frames: &Frames,
    roots: &[SymbolId],
    diag: &Diagnostics,
) {
    let Inputs {
        files,
        symbols,
        sections,
        ..
    } = inputs;
    if !roots.iter().any(|id| symbols.key(*id).in_object()) {
        diag.error(
            "--gc-sections with -r needs a defined symbol to begin with: name one by -e or -u",
        );
        return;
    }
    let mut collector = Collector {
        inputs,
        together: HashMap::new(),
        descriptions: HashMap::new(),
        bounded: HashMap::new(),
        reached: vec![false; sections.count()],
        work: Vec::new(),
    };
    for description in frames.descriptions() {
        let of_code = collector.descriptions.entry(description.code).or_default();
        of_code.push(description);
    }
    for (file, _) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
        collector.read(file);
    }
    for id in roots {
        collector.symbol(*id);
    }
    while let Some(id) = collector.work.pop() {
        collector.follow(id);
    }
    for (index, reached) in collector.reached.iter().enumerate() {
        let id = SectionId(index as u32);
        let bits = sections.state(id);
        if !reached && bits & state::ALIVE != 0 && bits & state::EH_FRAME == 0 {
            sections.remove_state(id, state::ALIVE);
        }
    }
    if args.print_gc_sections {
        crate::report::unresolved::print_unused(files, sections);
    }
}

impl Collector<'_, '_> {
    /// Finds what belongs together in a file, and what is kept in any case.
    fn read(&mut self, file: FileId) {
        let object = self.inputs.files.object(file);
        let mut grouped = vec![false; object.section_count() as usize];
        for group in object.groups().unwrap_or_default() {
            let members: Vec<SectionId> = object
                .sections_of_groups(&[group.index])
                .iter()
                .filter_map(|member| self.inputs.sections.get(file, *member))
                .filter(|id| self.inputs.sections.is_alive(*id))
                .collect();
            let loaded = |id: &SectionId| self.inputs.sections.state(*id) & state::ALLOC != 0;
            let lives_with_code = members.iter().any(loaded);
            for id in &members {
                if lives_with_code {
                    grouped[self.inputs.sections.origin(*id).1 as usize] = true;
                }
                self.together.insert(*id, members.clone());
            }
        }
        for number in 1..object.section_count() {
            let id = self.inputs.sections.id(file, number);
            let (Some(section), true) = (object.section(number), self.inputs.sections.is_alive(id))
            else {
                continue;
            };
            let bits = self.inputs.sections.state(id);
            if bits & state::EH_FRAME != 0 {
                continue;
            }
            // It describes whatever is kept.
            if is_sframe(&section) {
                self.reached[id.index()] = true;
                continue;
            }
            let about = (section.flags & shf::LINK_ORDER != 0)
                .then(|| self.inputs.sections.get(file, section.link))
                .flatten();
            if let Some(about) = about {
                self.together.entry(about).or_default().push(id);
            } else if bits & state::ROOT != 0
                || (bits & state::ALLOC == 0 && !grouped[number as usize])
            {
                self.reach(id);
            }
            if bits & state::ALLOC != 0 && is_c_identifier(section.name) {
                self.bounded.entry(section.name).or_default().push(id);
            }
        }
    }

    fn reach(&mut self, id: SectionId) {
        if self.inputs.sections.is_alive(id)
            && !std::mem::replace(&mut self.reached[id.index()], true)
        {
            self.work.push(id);
        }
    }

    fn symbol(&mut self, id: SymbolId) {
        let section = self.inputs.definitions.section(id);
        if self.inputs.symbols.key(id).in_object() && section != SectionId::NONE {
            return self.reach(section);
        }
        let name = self.inputs.symbols.name(id);
        let bounded = [&b"__start_"[..], b"__stop_"]
            .iter()
            .find_map(|prefix| self.bounded.get(name.strip_prefix(*prefix)?));
        for id in bounded.cloned().unwrap_or_default() {
            self.reach(id);
        }
    }

    fn follow(&mut self, id: SectionId) {
        for other in self.together.get(&id).cloned().unwrap_or_default() {
            self.reach(other);
        }
        for description in self.descriptions.remove(&id).unwrap_or_default() {
            let (file, number) = self.inputs.sections.origin(description.frames);
            let relocations = self.inputs.sections.relocations[description.frames.index()];
            let fixups = self.inputs.files.object(file).fixups(number, relocations);
            for fixup in description.relocations.into_iter().flatten() {
                if let Some(fixup) = fixups.get(fixup) {
                    self.fixup(file, &fixup);
                }
            }
        }
        // What is not loaded describes what is; it keeps nothing.
        if self.inputs.sections.state(id) & state::ALLOC == 0 {
            return;
        }
        let (file, number) = self.inputs.sections.origin(id);
        let relocations = self.inputs.sections.relocations[id.index()];
        let fixups = self.inputs.files.object(file).fixups(number, relocations);
        fixups.for_each(|fixup| self.fixup(file, &fixup));
    }

    fn fixup(&mut self, file: FileId, fixup: &Fixup) {
        let input = self.inputs.files.get(file);
        let object = self.inputs.files.object(file);
        let Target::Symbol(index) = fixup.target else {
            return;
        };
        let Some(symbol) = object.symbol(index).filter(|_| index != 0) else {
            return;
        };
        if index >= object.first_global() {
            self.symbol(self.inputs.symbols.of(input, index));
        } else if let Place::Section(number) = symbol.place
            && let Some(section) = self.inputs.sections.get(file, number)
        {
            self.reach(section);
        }
    }
}
