//! Reading a whole compilation back into memory: to join it, to verify its
//! digests, or to add it to another repository.

use super::build::{
    Compilation, Fixups, Fragment, FrameDescription, Group, Name, Piece, Place, Plain, Section,
    Symbol, Target,
};
use super::compilation_view::CompilationView;
use super::fragment_view::{FixupsView, FragmentView, section_kind};
use super::outline::{Outline, outline};
use super::view::Programs;
use super::{ProgramError, Result};
use format_spec::fragment::{TargetKind, TargetRecord};
use format_spec::ids::{Address, NameId, PieceId};
use format_spec::outline::{PlacedSection, ShapeRecord};
use format_spec::program::{MemberRecord, SymbolRecord};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

struct Loader<'s> {
    programs: Programs<'s>,
    out: Compilation<'s>,
    names: HashMap<NameId, Name>,
    pieces: HashMap<PieceId, u32>,
    /// The first member that a fragment is.
    member_of: HashMap<Address, u32>,
    address: Address,
}

/// Reads the compilation back. The result has the digest that `view` has as its key,
/// unless the repository is damaged; [`Prepared::new`](super::Prepared::new) tells.
pub(super) fn load<'s>(
    programs: &Programs<'s>,
    view: &CompilationView<'s>,
) -> Result<Compilation<'s>> {
    Ok(read(programs, view)?.out)
}

/// Reads the compilation back, makes again what of the compilation's outline follows from its members without knowledge of instructions and of frame
/// descriptions, and compares.
pub(super) fn load_checked<'s>(
    programs: &Programs<'s>,
    view: &CompilationView<'s>,
) -> Result<Compilation<'s>> {
    let loader = read(programs, view)?;
    let mut names = vec![NameId(0); loader.out.names.len()];
    for (id, name) in &loader.names {
        names[name.0 as usize] = *id;
    }
    let mut pieces = vec![PieceId(0); loader.out.pieces.len()];
    for (id, piece) in &loader.pieces {
        pieces[*piece as usize] = *id;
    }
    let mut made = outline(&loader.out);
    for shape in &mut made.shapes {
        shape.name = names[shape.name.0 as usize];
    }
    for piece in &mut made.pieces {
        *piece = pieces[piece.0 as usize];
    }
    let members = view.members().iter();
    let recorded = Outline {
        shapes: view.shapes().to_vec(),
        sections: view.sections().to_vec(),
        members: members
            .map(|member| (member.first_piece, member.bits))
            .collect(),
        pieces: view.pieces().to_vec(),
        uses: view.uses().to_vec(),
    };
    if made == recorded && view.outline_is_whole() {
        return Ok(loader.out);
    }
    Err(loader.damaged(loader.address, "the outline is not that of the members"))
}

/// What [`load_parts`] has read.
pub(super) struct Parts<'s> {
    /// What it has read, as a compilation without symbols.
    pub(super) compilation: Compilation<'s>,
    /// Where its fragments are, in ascending order.
    pub(super) fragments: Vec<Address>,
}

/// Reads fragments back that are of no compilation, as one without symbols: so they can be added to another repository.
/// Fragments that these refer to are among the result's.
pub(super) fn load_parts<'s>(programs: &Programs<'s>, fragments: &[Address]) -> Result<Parts<'s>> {
    let mut found = BTreeSet::new();
    let mut next = fragments.to_vec();
    while let Some(address) = next.pop() {
        if found.insert(address) {
            next.extend_from_slice(programs.fragment(address)?.anonymous());
        }
    }
    let order: Vec<Address> = found.into_iter().collect();
    let mut loader = Loader {
        programs: *programs,
        out: Compilation {
            names: vec![&[]],
            ..Compilation::default()
        },
        names: HashMap::from([(NameId(0), Name(0))]),
        pieces: HashMap::new(),
        member_of: (order.iter().copied()).zip(0..).collect(),
        address: Address(0),
    };
    for address in &order {
        let fragment = programs.fragment(*address)?;
        let first_section = loader.out.sections.len() as u32;
        let targets = loader.contents(&fragment, |_| Ok(None))?;
        let first_binding = loader.out.bindings.len();
        let bindings = first_binding + fragment.bindable_count() as usize;
        loader.out.bindings.resize(bindings, 0);
        loader.out.uses.resize(bindings, 0);
        loader.out.fragments.push(Fragment {
            sections: first_section..loader.out.sections.len() as u32,
            targets,
            bindings: first_binding as u32..bindings as u32,
            suffix: Name(0),
            group: 0,
            plain: None,
        });
    }
    loader.out.digest_order = (0..order.len() as u32).collect();
    Ok(Parts {
        compilation: loader.out,
        fragments: order,
    })
}

fn read<'s>(programs: &Programs<'s>, view: &CompilationView<'s>) -> Result<Loader<'s>> {
    let header = view.header();
    let mut loader = Loader {
        programs: *programs,
        out: Compilation {
            machine: header.machine,
            os_abi: header.os_abi,
            abi_version: header.abi_version,
            e_flags: header.e_flags,
            bits: header.bits,
            names: vec![&[]],
            first_global: header.first_global,
            ..Compilation::default()
        },
        names: HashMap::from([(NameId(0), Name(0))]),
        pieces: HashMap::new(),
        member_of: HashMap::new(),
        address: view.record().address,
    };
    // The empty name is the same in all repositories.
    programs.name(NameId(0))?;
    for (index, member) in view.members().iter().enumerate() {
        loader
            .member_of
            .entry(member.fragment)
            .or_insert(index as u32);
    }
    for index in 0..view.members().len() {
        loader.member(view, index)?;
    }
    for symbol in view.symbols() {
        loader.symbol(view, symbol)?;
    }
    for group in view.groups() {
        let signature = loader.name(group.signature)?;
        loader.out.groups.push(Group {
            signature,
            flags: group.flags,
        });
    }
    // A fragment is added after those that it refers to, so its address is higher.
    let mut order: Vec<u32> = (0..view.members().len() as u32).collect();
    order.sort_by_key(|member| view.members()[*member as usize].fragment);
    loader.out.digest_order = order;
    Ok(loader)
}

impl<'s> Loader<'s> {
    fn damaged(&self, address: Address, what: &'static str) -> ProgramError {
        ProgramError::Damaged {
            path: self.programs.snapshot().store().path().to_owned(),
            address,
            what,
        }
    }

    fn name(&mut self, id: NameId) -> Result<Name> {
        if let Some(name) = self.names.get(&id) {
            return Ok(*name);
        }
        let name = Name(self.out.names.len() as u32);
        self.out.names.push(self.programs.name(id)?);
        self.names.insert(id, name);
        Ok(name)
    }

    fn piece(&mut self, id: PieceId) -> Result<u32> {
        if let Some(piece) = self.pieces.get(&id) {
            return Ok(*piece);
        }
        let view = self.programs.piece(id)?;
        let number = self.out.pieces.len() as u32;
        let section_name = self.name(view.header.section_name)?;
        self.out.pieces.push(Piece {
            section_name,
            sh_flags: view.header.sh_flags,
            entsize: view.header.entsize.into(),
            align_log2: view.header.align_log2,
            bytes: view.bytes,
        });
        self.pieces.insert(id, number);
        Ok(number)
    }

    fn member(&mut self, view: &CompilationView<'s>, index: usize) -> Result<()> {
        let member = &view.members()[index];
        let fragment = self.programs.fragment(member.fragment)?;
        let sections = view.sections_of(index);
        let bindings = view.bindings_of(index);
        if sections.len() != fragment.section_count()
            || bindings.len() != fragment.bindable_count() as usize
        {
            return Err(self.damaged(
                self.address,
                "a member's numbers of sections and bindings are not its fragment's",
            ));
        }
        let targets = self.contents(&fragment, |loader| {
            let placed = loader.placed(view)?;
            Ok(
                (placed.bits() & PlacedSection::ONE_FDE != 0).then_some(FrameDescription {
                    cie: placed.cie,
                    has_exception_table: placed.bits() & PlacedSection::HAS_LSDA != 0,
                }),
            )
        })?;
        let first_binding = self.out.bindings.len() as u32;
        self.out.bindings.extend(bindings.iter());
        self.out.uses.extend_from_slice(view.uses_of(index));
        let suffix = self.name(member.suffix)?;
        self.out.fragments.push(Fragment {
            sections,
            targets,
            bindings: first_binding..self.out.bindings.len() as u32,
            suffix,
            group: member.group,
            plain: (member.bits & MemberRecord::PLAIN != 0).then_some(Plain {
                is_absolute: member.bits & MemberRecord::ABSOLUTE != 0,
                words: member.bits >> MemberRecord::WORDS_SHIFT,
            }),
        });
        Ok(())
    }

    /// Reads a fragment's targets, which it returns, and sections; `frame` says what the outline says of the next section.
    fn contents(
        &mut self,
        fragment: &FragmentView<'s>,
        frame: impl Fn(&Self) -> Result<Option<FrameDescription>>,
    ) -> Result<Range<u32>> {
        let address = fragment.record().address;
        let first_target = self.out.targets.len() as u32;
        for target in fragment.targets() {
            let target = self.target(target, fragment.anonymous(), address)?;
            self.out.targets.push(target);
        }
        for section in fragment.sections() {
            let fixups = match section.fixups {
                FixupsView::Packed(packed) => {
                    let start = self.out.fixups.len() as u32;
                    let records = packed.records.iter();
                    let fixups = records.map(|record| packed.unpack(*record));
                    self.out.fixups.extend(fixups);
                    Fixups::Narrow(start..self.out.fixups.len() as u32)
                }
                FixupsView::Narrow(fixups) => {
                    let start = self.out.fixups.len() as u32;
                    self.out.fixups.extend_from_slice(fixups);
                    Fixups::Narrow(start..self.out.fixups.len() as u32)
                }
                FixupsView::Wide(fixups) => {
                    let start = self.out.wide_fixups.len() as u32;
                    self.out.wide_fixups.extend_from_slice(fixups);
                    Fixups::Wide(start..self.out.wide_fixups.len() as u32)
                }
            };
            let record = section.record;
            let name = self.name(record.name)?;
            let kind = section_kind(record)
                .ok_or_else(|| self.damaged(address, "a section's kind is unknown"))?;
            let frame = frame(self)?;
            self.out.sections.push(Section {
                name,
                kind,
                sh_type: record.sh_type,
                sh_flags: record.sh_flags,
                entsize: section.entsize,
                align_log2: record.align_log2,
                bits: record.bits & ShapeRecord::REPEATED,
                link: section.link,
                size: section.size,
                bytes: section.bytes(),
                fixups,
                frame,
            });
        }
        Ok(first_target..self.out.targets.len() as u32)
    }

    /// What the outline says of the next section.
    fn placed(&self, view: &CompilationView<'s>) -> Result<PlacedSection> {
        let placed = view.sections().get(self.out.sections.len()).copied();
        placed.ok_or_else(|| self.damaged(self.address, "a section is not in the outline"))
    }

    fn target(
        &mut self,
        target: &TargetRecord,
        anonymous: &[Address],
        fragment: Address,
    ) -> Result<Target> {
        Ok(match target.kind() {
            Some(TargetKind::Global) => Target::Global(self.name(NameId(target.value()))?),
            Some(TargetKind::Local) => Target::Local(self.name(NameId(target.value()))?),
            Some(TargetKind::OwnNamed) => Target::OwnNamed(self.name(NameId(target.value()))?),
            Some(TargetKind::OwnAnonymous) => {
                let member = anonymous
                    .get(target.value() as usize)
                    .filter(|address| **address < fragment)
                    .and_then(|address| self.member_of.get(address));
                Target::OwnAnonymous(*member.ok_or_else(|| {
                    self.damaged(fragment, "an anonymous fragment is not in the compilation")
                })?)
            }
            Some(TargetKind::Section) => Target::Section(target.value()),
            Some(TargetKind::Piece) => Target::Piece(self.piece(PieceId(target.value()))?),
            None => return Err(self.damaged(fragment, "a target's kind is unknown")),
        })
    }

    fn symbol(&mut self, view: &CompilationView<'s>, symbol: &SymbolRecord) -> Result<()> {
        let place = if symbol.bits & SymbolRecord::PIECE != 0 {
            Place::Piece(self.piece(PieceId(symbol.section))?)
        } else {
            match symbol.section {
                SymbolRecord::SECTION_UNDEFINED => Place::Undefined,
                SymbolRecord::SECTION_ABSOLUTE => Place::Absolute,
                SymbolRecord::SECTION_COMMON => Place::Common,
                section => Place::Section(section - 1),
            }
        };
        let (value, size) = view.value_and_size(symbol);
        let name = self.name(symbol.name)?;
        self.out.symbols.push(Symbol {
            name,
            place,
            value,
            size,
            info: symbol.info,
            other: symbol.other,
            bits: symbol.bits & !(SymbolRecord::WIDE | SymbolRecord::PIECE),
        });
        Ok(())
    }
}
