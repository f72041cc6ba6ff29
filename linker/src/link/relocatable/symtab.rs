//! The symbol table of a relocatable output.
//!
//! Local symbols first: those of the output sections that relocations refer to, then
//! each file's. Then the global ones, each where the file stands that defines it, or
//! that refers to it first if none does. Names, bindings and versions (`f@V`) stay as
//! they are; visibilities are united; what only weak references want stays weak.

use super::plan::Plan;
use super::sections::{OutGroup, OutId};
use crate::args::{Args, DiscardLocals, StripMode};
use crate::base::ids::{FileId, SymbolId};
use crate::base::key::rank;
use crate::elf::string_table::StringTable;
use crate::elf::{Sym, c};
use crate::input::file::File;
use crate::input::object::Object;
use crate::input::parts::{Place, Symbol, describe_missing};
use crate::link::relocatable::assign::Assigned;
use crate::link::relocatable::references::{Needed, Referrer};
use crate::messages::diag::Diagnostics;
use crate::resolve::local_suffixes::Numbering;
use crate::resolve::retain_symbols_file::Retained;
use crate::resolve::symbol_facts::Referred;
use crate::script::Value;

/// The symbol table, but for section indices: symbols name output sections by [`OutId`].
pub struct Symtab<'a> {
    /// The symbols; `st_shndx` is set if it is not an ordinary section.
    pub symbols: Vec<Sym>,
    /// The section of each symbol that has an ordinary one.
    pub sections: Vec<Option<OutId>>,
    /// Index of the first symbol that is not local.
    pub first_global: u32,
    /// Names.
    pub strings: StringTable<'a>,
    /// By [`OutId`]: index of the section's symbol, or 0.
    pub of_section: Vec<u32>,
    /// By file and local symbol: its index, or 0.
    pub of_local: Vec<Vec<u32>>,
    /// By [`SymbolId`]: its index, or 0.
    pub of_global: Vec<u32>,
    /// By group: index of its signature.
    pub signatures: Vec<u32>,
}

/// What the symbol table is made from.
pub struct Builder<'l, 'a> {
    /// Options.
    pub args: &'l Args,
    /// The inputs.
    pub referrer: Referrer<'l, 'a>,
    /// What relocations refer to.
    pub needed: &'l Needed,
    /// What `--defsym` and scripts define.
    pub assigned: &'l [(SymbolId, Assigned)],
    /// The names that stay, if the command line says so.
    pub retained: Option<&'l Retained>,
    /// Messages.
    pub diag: &'l Diagnostics,
}

/// The names are too long together for 32 bits.
pub struct TooLong;

const NULL: Sym = Sym {
    st_name: 0,
    st_info: 0,
    st_other: 0,
    st_shndx: c::SHN_UNDEF,
    st_value: 0,
    st_size: 0,
};

impl<'a> Symtab<'a> {
    /// Adds a symbol whose name is no other's.
    fn push_unique(
        &mut self,
        name: &[u8],
        suffix: &[u8],
        sym: Sym,
        section: Option<OutId>,
    ) -> Result<u32, TooLong> {
        let st_name = self.strings.append(&[name, suffix]).ok_or(TooLong)?;
        self.push(b"", sym, section).inspect(|index| {
            self.symbols[*index as usize].st_name = st_name;
        })
    }

    fn push(&mut self, name: &'a [u8], sym: Sym, section: Option<OutId>) -> Result<u32, TooLong> {
        let st_name = self.strings.add(name).ok_or(TooLong)?;
        self.symbols.push(Sym { st_name, ..sym });
        self.sections.push(section);
        u32::try_from(self.symbols.len() - 1).map_err(|_| TooLong)
    }
}

impl<'a> Builder<'_, 'a> {
    /// Makes the table.
    ///
    /// # Errors
    /// If the names do not fit.
    pub fn build(&self) -> Result<Symtab<'a>, TooLong> {
        let plan = self.referrer.plan;
        let mut table = Symtab {
            symbols: vec![NULL],
            sections: vec![None],
            first_global: 1,
            strings: StringTable::new(),
            of_section: vec![0; plan.sections.len()],
            of_local: Vec::new(),
            of_global: vec![0; self.referrer.symbols.id_limit()],
            signatures: Vec::new(),
        };
        let signatures = self.local_signatures(plan);
        for (out, needed) in (0..).map(OutId).zip(&self.needed.section_symbols) {
            if *needed || signatures.sections.contains(&out) {
                let sym = Sym {
                    st_info: c::STT_SECTION,
                    ..NULL
                };
                table.of_section[out.index()] = table.push(b"", sym, Some(out))?;
            }
        }
        let mut numbering = self.args.z.unique_symbol.then(Numbering::default);
        for (file, input) in self.referrer.files.iter() {
            let locals = self.locals(file, input, &signatures, numbering.as_mut(), &mut table)?;
            table.of_local.push(locals);
        }
        self.of_sections(&mut table, true)?;
        table.first_global = table.symbols.len() as u32;
        self.globals(&mut table)?;
        table.signatures = self.signatures(&table);
        Ok(table)
    }

    /// The symbols that name the groups.
    fn signatures(&self, table: &Symtab) -> Vec<u32> {
        let signature = |group: &OutGroup| {
            let input = self.referrer.files.get(group.file);
            let object = self.referrer.files.object(group.file);
            if group.signature >= object.first_global() {
                let id = self.referrer.symbols.of(input, group.signature);
                return table.of_global[id.index()];
            }
            match object.symbol(group.signature) {
                Some(symbol) if symbol.kind() == c::STT_SECTION => self
                    .out_of(group.file, symbol)
                    .map_or(0, |out| table.of_section[out.index()]),
                _ => table.of_local[group.file.index()][group.signature as usize],
            }
        };
        let groups = &self.referrer.plan.groups;
        let signatures: Vec<u32> = groups.iter().map(signature).collect();
        for (group, signature) in groups.iter().zip(&signatures) {
            if *signature == 0 {
                self.diag.error(format!(
                    "{}: the symbol that names a section group is not in the output",
                    self.referrer.files.get(group.file)
                ));
            }
        }
        signatures
    }

    /// What the groups' signatures need.
    fn local_signatures(&self, plan: &Plan) -> Signatures {
        let mut found = Signatures::default();
        for group in &plan.groups {
            let object = self.referrer.files.object(group.file);
            if group.signature >= object.first_global() {
                continue;
            }
            match object.symbol(group.signature) {
                Some(symbol) if symbol.kind() == c::STT_SECTION => {
                    found.sections.extend(self.out_of(group.file, symbol));
                }
                _ => {
                    found.symbols.insert((group.file, group.signature));
                }
            }
        }
        found
    }

    fn out_of(&self, file: FileId, symbol: Symbol) -> Option<OutId> {
        let Place::Section(number) = symbol.place else {
            return None;
        };
        self.referrer
            .plan
            .out(self.referrer.sections.get(file, number)?)
    }

    fn locals(
        &self,
        file: FileId,
        input: &File<'a>,
        signatures: &Signatures,
        mut numbering: Option<&mut Numbering<'a>>,
        table: &mut Symtab<'a>,
    ) -> Result<Vec<u32>, TooLong> {
        let (Some(object), true) = (input.object(), self.referrer.sections.is_linked(file)) else {
            return Ok(Vec::new());
        };
        let mut map = vec![0; object.first_global() as usize];
        for index in 1..object.first_global() {
            let Some(symbol) = object.symbol(index) else {
                continue;
            };
            if symbol.kind() == c::STT_SECTION {
                continue;
            }
            let name = object.symbol_name(index);
            let needed = self.needed.locals[file.index()][index as usize]
                || signatures.symbols.contains(&(file, index));
            if !needed && !self.keeps_local(symbol, name) {
                continue;
            }
            if let Some((sym, section)) = self.place(file, input, object, index, symbol) {
                map[index as usize] = match &mut numbering {
                    None => table.push(name, sym, section)?,
                    Some(numbering) => {
                        let suffix = numbering.suffix(symbol.kind(), name);
                        table.push_unique(name, &suffix, sym, section)?
                    }
                };
            }
        }
        Ok(map)
    }

    fn keeps_local(&self, symbol: Symbol, name: &[u8]) -> bool {
        if self.args.strip == StripMode::All || symbol.place == Place::Undefined {
            return false;
        }
        if self.retained.is_some_and(|retained| !retained.keeps(name)) {
            return false;
        }
        match self.args.discard_locals {
            DiscardLocals::All => false,
            DiscardLocals::Temporaries => !name.starts_with(b".L"),
            DiscardLocals::None | DiscardLocals::SecMerge => true,
        }
    }

    /// The output's symbol for a definition; `None` if it is not in the output.
    fn place(
        &self,
        file: FileId,
        input: &File,
        object: &Object,
        index: u32,
        symbol: Symbol,
    ) -> Option<(Sym, Option<OutId>)> {
        let mut sym = Sym {
            st_name: 0,
            st_info: symbol.info,
            st_other: symbol.other,
            st_shndx: c::SHN_ABS,
            st_value: symbol.value,
            st_size: symbol.size,
        };
        match symbol.place {
            Place::Undefined => None,
            Place::Absolute => Some((sym, None)),
            Place::Common => {
                sym.st_shndx = c::SHN_COMMON;
                Some((sym, None))
            }
            Place::Section(number) => {
                let Some(section) = self.referrer.sections.get(file, number) else {
                    let name = String::from_utf8_lossy(object.symbol_name(index));
                    let place = match object.section(number) {
                        Some(_) => {
                            format!("section {number}, which is of a kind that is not supported")
                        }
                        None => describe_missing(number),
                    };
                    self.diag
                        .error(format!("{input}: symbol {name} is in {place}"));
                    return None;
                };
                let out = self.referrer.plan.out(section)?;
                sym.st_shndx = c::SHN_UNDEF;
                sym.st_value = self.referrer.place(section, symbol.value);
                Some((sym, Some(out)))
            }
        }
    }

    fn globals(&self, table: &mut Symtab<'a>) -> Result<(), TooLong> {
        let Referrer {
            files,
            symbols,
            definitions,
            sections,
            plan,
            ..
        } = self.referrer;
        let commons: std::collections::HashMap<SymbolId, usize> = definitions
            .commons
            .iter()
            .enumerate()
            .map(|(i, common)| (common.symbol, i))
            .collect();
        for (file, input) in files.iter().filter(|(id, _)| sections.is_linked(*id)) {
            let object = files.object(file);
            for index in object.first_global()..object.symbol_count() {
                let id = symbols.of(input, index);
                if table.of_global[id.index()] != 0 {
                    continue;
                }
                let Some(symbol) = object.symbol(index) else {
                    continue;
                };
                let key = symbols.key(id);
                let name = symbols.name(id);
                if key.rank() == rank::NONE {
                    let (sym, section) = (self.undefined(id, symbol), None);
                    table.of_global[id.index()] = table.push(name, sym, section)?;
                    continue;
                }
                if !key.in_object() || (key.file(), key.index()) != (file, index) {
                    continue;
                }
                let dropped = self.retained.is_some_and(|retained| !retained.keeps(name));
                if dropped && !self.needed.globals[id.index()] && !self.is_signature(file, index) {
                    continue;
                }
                let Some((mut sym, mut section)) = self.place(file, input, object, index, symbol)
                else {
                    continue;
                };
                sym.st_other = self.visibility(id, symbol.other);
                if let Some(at) = commons.get(&id) {
                    let common = definitions.commons[*at];
                    sym.st_size = common.size;
                    sym.st_value = common.align;
                    if let Some(placed) = plan.commons.get(*at) {
                        (sym.st_shndx, sym.st_value) = (c::SHN_UNDEF, placed.offset);
                        section = Some(placed.section);
                        if symbol.kind() == c::STT_COMMON {
                            sym.st_info = (symbol.info & 0xf0) | c::STT_OBJECT;
                        }
                    }
                }
                table.of_global[id.index()] = table.push(name, sym, section)?;
            }
        }
        self.of_command_line(table)
    }

    fn is_signature(&self, file: FileId, index: u32) -> bool {
        let groups = &self.referrer.plan.groups;
        groups
            .iter()
            .any(|group| (group.file, group.signature) == (file, index))
    }

    /// A reference that nothing defines.
    fn undefined(&self, id: SymbolId, symbol: Symbol) -> Sym {
        let strong = self.referrer.symbols.facts(id).has(Referred::STRONGLY);
        let binding = if strong { c::STB_GLOBAL } else { c::STB_WEAK };
        Sym {
            st_info: (binding << 4) | symbol.kind(),
            st_other: self.visibility(id, symbol.other),
            ..NULL
        }
    }

    /// The narrowest visibility that any file gives a symbol (gABI, "Symbol Visibility").
    fn visibility(&self, id: SymbolId, other: u8) -> u8 {
        let bits = self.referrer.symbols.facts(id);
        let narrowest = if bits.has(Referred::INTERNAL) {
            c::STV_INTERNAL
        } else if bits.has(Referred::HIDDEN) {
            c::STV_HIDDEN
        } else if bits.has(Referred::PROTECTED) {
            c::STV_PROTECTED
        } else {
            c::STV_DEFAULT
        };
        (other & !3) | narrowest
    }

    /// What a script defines in output sections, hidden or not.
    fn of_sections(&self, table: &mut Symtab<'a>, hidden: bool) -> Result<(), TooLong> {
        let binding = match hidden {
            true => c::STB_LOCAL,
            false => c::STB_GLOBAL,
        };
        let marked = self.referrer.plan.marked.iter();
        for marked in marked.filter(|marked| marked.symbol.hidden == hidden) {
            let id = marked.symbol.id;
            let (st_shndx, st_value, section) = match marked.value {
                Value::Absolute(value) => (c::SHN_ABS, value, None),
                Value::Relative { section, offset } => (c::SHN_UNDEF, offset, Some(OutId(section))),
            };
            let sym = Sym {
                st_info: binding << 4,
                st_other: match hidden {
                    true => c::STV_DEFAULT,
                    false => self.visibility(id, c::STV_DEFAULT),
                },
                st_shndx,
                st_value,
                ..NULL
            };
            let name = self.referrer.symbols.name(id);
            table.of_global[id.index()] = table.push(name, sym, section)?;
        }
        Ok(())
    }

    /// What scripts and `--defsym` define, and `-u`.
    fn of_command_line(&self, table: &mut Symtab<'a>) -> Result<(), TooLong> {
        let symbols = self.referrer.symbols;
        let global = Sym {
            st_info: c::STB_GLOBAL << 4,
            ..NULL
        };
        self.of_sections(table, false)?;
        for (id, assigned) in self.assigned {
            let (sym, section) = match assigned {
                Assigned::Symbol(target, offset) => {
                    // A symbol of the table that is defined already; so it may be one of these.
                    let index = table.of_global[target.index()] as usize;
                    let mut sym = table.symbols[index];
                    let section = table.sections[index];
                    if index == 0 || (section.is_none() && sym.st_shndx != c::SHN_ABS) {
                        self.diag.error(format!(
                            "{} = {}: the symbol has no place in the output",
                            String::from_utf8_lossy(symbols.name(*id)),
                            String::from_utf8_lossy(symbols.name(*target))
                        ));
                        continue;
                    }
                    sym.st_value = sym.st_value.wrapping_add(*offset);
                    sym.st_info = global.st_info | sym.kind();
                    (sym, section)
                }
                Assigned::Number(value) => {
                    let st_shndx = c::SHN_ABS;
                    let sym = Sym {
                        st_shndx,
                        st_value: *value,
                        ..global
                    };
                    (sym, None)
                }
            };
            table.of_global[id.index()] = table.push(symbols.name(*id), sym, section)?;
        }
        for name in self.args.undefined.iter().chain(&self.args.require_defined) {
            if let Some(id) = symbols.find(name)
                && table.of_global[id.index()] == 0
                && symbols.key(id).rank() == rank::NONE
            {
                table.of_global[id.index()] = table.push(symbols.name(id), global, None)?;
            }
        }
        Ok(())
    }
}

/// Local symbols that groups are named by.
#[derive(Default)]
struct Signatures {
    symbols: std::collections::HashSet<(FileId, u32)>,
    sections: std::collections::HashSet<OutId>,
}
