//! Views of fragments, their sections, and the fixups of these.
//!
//! Fixups are in one of three forms, and packed ones have a part of them in the section's bytes: who copies a section takes them out on the way
//! ([`SectionView::copy`]). Of a section that is recorded compressed there is nothing to borrow. Who copies it has it decompressed
//! to where it belongs; who does anything else gets the fragment as it would be if it were recorded plain ([`plain`]), which is made once and
//! kept with the store.

use super::columns::{decompress, is_possible, take_planes};
use crate::engine::Record;
use crate::prefetch::prefetch_all;
use bytemuck::Zeroable;
use format_spec::fragment::{
    BodyCheck, CompressedHeader, FIXUP_DIFFERENCES, FIXUP_WORDS, FixupRecord, FragmentHeader,
    HeadParts, PackedFixupRecord, Packing, SectionExtension, SectionKind, SectionRecord,
    TargetKind, TargetRecord, WideFixupRecord, clear_places, head_check,
};
use format_spec::ids::{Address, NameId, PieceId};
use std::borrow::Cow;

/// ELF's `SHT_NOBITS`: a section without bytes.
pub(super) const SHT_NOBITS: u32 = 8;

/// The fixups of a section whose places hold their words.
#[derive(Clone, Copy, Debug)]
pub struct PackedFixups<'s> {
    /// Their places and types.
    pub records: &'s [PackedFixupRecord],
    /// The section's bytes, with the words.
    bytes: &'s [u8],
    packing: Packing,
}

impl PackedFixups<'_> {
    /// The fixup of a record. One whose place is not in the section has no target, and no target has its place.
    #[inline(always)]
    pub fn unpack(&self, record: PackedFixupRecord) -> FixupRecord {
        let at = record.offset() as usize;
        let word = self.bytes.get(at..at + size_of::<u32>());
        let word = word.map_or(u32::MAX >> 1, |word| {
            u32::from_le_bytes([word[0], word[1], word[2], word[3]])
        });
        self.packing.unpack(record, word)
    }

    /// Puts the fixups of `records` whose places are in `bytes`, which is the beginning of a copy of the section's, up to the first
    /// that is not, into `unpacked`, which must have room for all, and zeros into their places. Returns how many they are.
    #[inline]
    fn take(
        &self,
        records: &[PackedFixupRecord],
        bytes: &mut [u8],
        unpacked: &mut [FixupRecord],
    ) -> usize {
        let packing = self.packing;
        for (index, (record, to)) in records.iter().zip(unpacked).enumerate() {
            let at = record.offset() as usize;
            let place = bytes.get_mut(at..at + size_of::<u32>());
            let Some(place) = place.and_then(|place| place.first_chunk_mut()) else {
                return index;
            };
            *to = packing.unpack(*record, u32::from_le_bytes(std::mem::take(place)));
        }
        records.len()
    }

    /// None.
    const NONE: PackedFixups<'static> = PackedFixups {
        records: &[],
        bytes: &[],
        packing: Packing {
            target_bits: 1,
            bindable_count: 0,
        },
    };
}

/// The fixups of a section, in one of the three forms.
#[derive(Clone, Copy, Debug)]
pub enum FixupsView<'s> {
    /// The usual one.
    Packed(PackedFixups<'s>),
    /// For what cannot be packed.
    Narrow(&'s [FixupRecord]),
    /// For what does not fit.
    Wide(&'s [WideFixupRecord]),
}

impl<'s> FixupsView<'s> {
    /// Number of fixups.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            FixupsView::Packed(fixups) => fixups.records.len(),
            FixupsView::Narrow(fixups) => fixups.len(),
            FixupsView::Wide(fixups) => fixups.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those from `start` up to `end`, as far as there are so many.
    pub fn slice(&self, start: usize, end: usize) -> FixupsView<'s> {
        let end = end.min(self.len());
        let range = start.min(end)..end;
        match self {
            FixupsView::Packed(fixups) => FixupsView::Packed(PackedFixups {
                records: &fixups.records[range],
                ..*fixups
            }),
            FixupsView::Narrow(fixups) => FixupsView::Narrow(&fixups[range]),
            FixupsView::Wide(fixups) => FixupsView::Wide(&fixups[range]),
        }
    }

    /// A fixup in the wide form.
    #[inline]
    pub fn get(&self, index: usize) -> Option<WideFixupRecord> {
        match self {
            FixupsView::Packed(fixups) => {
                let record = fixups.records.get(index)?;
                Some(fixups.unpack(*record).into())
            }
            FixupsView::Narrow(fixups) => fixups.get(index).map(|fixup| (*fixup).into()),
            FixupsView::Wide(fixups) => fixups.get(index).copied(),
        }
    }

    /// The fixups in the wide form, one by one.
    pub fn iter(self) -> impl Iterator<Item = WideFixupRecord> + use<'s> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }
}

/// A section of a fragment, opened.
#[derive(Clone, Copy, Debug)]
pub struct SectionView<'s> {
    /// What is said of it in the fragment's head.
    pub record: &'s SectionRecord,
    /// Size in memory, bytes.
    pub size: u64,
    /// As [`SectionExtension::entsize`].
    pub entsize: u32,
    /// As [`SectionExtension::link`].
    pub link: u32,
    /// Its fixups. Their targets are not checked: look them up with [`FragmentView::targets`]`.get(…)`.
    pub fixups: FixupsView<'s>,
    /// The bytes as they are stored; none for `SHT_NOBITS`. With packed fixups they are not the section's:
    /// see [`SectionView::bytes`].
    pub stored: &'s [u8],
    /// If it has a check of its own: that.
    pub check: Option<SectionCheck<'s>>,
    /// If it is recorded compressed: what is recorded in the place of `fixups` and `stored`, of which there are none then.
    pub compressed: Option<CompressedSection<'s>>,
}

/// What is recorded of a compressed section in the place of its fixups and bytes.
#[derive(Clone, Copy, Debug)]
pub struct CompressedSection<'s> {
    /// The LZ4 block of the fixups' planes.
    fixups: &'s [u8],
    /// How many fixups there are.
    count: usize,
    /// The LZ4 block of the bytes.
    bytes: &'s [u8],
}

impl<'s> CompressedSection<'s> {
    /// How many bytes are recorded.
    pub fn size(&self) -> usize {
        size_of::<CompressedHeader>() + self.fixups.len() + self.bytes.len()
    }

    /// Cuts it out of `content`, which is what is behind the extension. `None` if it cannot be of so many fixups and bytes.
    fn cut(content: &'s [u8], count: usize, size: u64) -> Option<Self> {
        let (header, blocks) = content.split_at_checked(size_of::<CompressedHeader>())?;
        let header: CompressedHeader = bytemuck::pod_read_unaligned(header);
        let (fixups, rest) = blocks.split_at_checked(header.fixups as usize)?;
        let bytes = rest.get(..header.bytes as usize)?;
        let fixups_are_possible =
            is_possible(fixups.len(), count.checked_mul(size_of::<FixupRecord>())?);
        let bytes_are_possible = is_possible(bytes.len(), usize::try_from(size).ok()?);
        (fixups_are_possible && bytes_are_possible).then_some(CompressedSection {
            fixups,
            count,
            bytes,
        })
    }

    /// Puts the fixups to the beginning of `room`, of which the rest is overwritten.
    fn fixups<'u>(&self, room: &'u mut Vec<FixupRecord>) -> Option<&'u [FixupRecord]> {
        if self.count == 0 {
            return Some(&[]);
        }
        if room.len() < 2 * self.count {
            room.resize(2 * self.count, FixupRecord::zeroed());
        }
        let (fixups, planes) = room[..2 * self.count].split_at_mut(self.count);
        let planes: &mut [u8] = bytemuck::cast_slice_mut(planes);
        decompress(self.fixups, planes)?;
        let words = bytemuck::cast_slice_mut(&mut *fixups);
        take_planes(&mut &*planes, FIXUP_WORDS, FIXUP_DIFFERENCES, words)?;
        Some(fixups)
    }
}

/// A section's check, and what it is about.
#[derive(Clone, Copy, Debug)]
pub struct SectionCheck<'s> {
    /// [`BodyCheck`] of what follows.
    pub check: u32,
    /// What stands before the stored bytes.
    pub before: &'s [u8],
    /// The stored bytes.
    pub stored: &'s [u8],
}

impl SectionCheck<'_> {
    /// Whether the bytes are those that were written.
    pub fn is_right(&self) -> bool {
        let check = BodyCheck::default().part(self.before).part(self.stored);
        self.check == check.value()
    }
}

impl<'s> SectionView<'s> {
    /// Opens what `record` says of a fragment's value.
    #[inline]
    fn new(value: &'s [u8], record: &'s SectionRecord, bindable_count: u32) -> Option<Self> {
        let body = value.get(record.body as usize..)?;
        let (extension, content) = match record.bits & SectionRecord::EXTENDED {
            0 => (None, body),
            _ => {
                let (extension, content) = body.split_at_checked(size_of::<SectionExtension>())?;
                let extension: &SectionExtension = bytemuck::try_from_bytes(extension).ok()?;
                (Some(extension), content)
            }
        };
        let size = extension.map_or(u64::from(record.size), |extension| extension.size);
        let count = record.fixup_count as usize;
        let forms = SectionRecord::PACKED_FIXUPS | SectionRecord::WIDE_FIXUPS;
        let fixup_size = match record.bits & forms {
            SectionRecord::PACKED_FIXUPS => size_of::<PackedFixupRecord>(),
            SectionRecord::WIDE_FIXUPS => size_of::<WideFixupRecord>(),
            _ => size_of::<FixupRecord>(),
        };
        // Where it begins is known of `stored`, whatever comes before it.
        let checked = |before: usize, stored: &'s [u8]| {
            let extension = extension?;
            Some(SectionCheck {
                check: extension.check,
                before: body.get(SectionExtension::UNCHECKED..before)?,
                stored,
            })
        };
        let before_content = body.len() - content.len();
        let plain = SectionView {
            record,
            size,
            entsize: extension.map_or(0, |extension| extension.entsize),
            link: extension.map_or(0, |extension| extension.link),
            fixups: FixupsView::Narrow(&[]),
            stored: &[],
            check: None,
            compressed: None,
        };
        if record.bits & SectionRecord::COMPRESSED != 0 {
            let may_be = SectionKind::may_be_compressed(record.kind)
                && record.sh_type != SHT_NOBITS
                && record.bits & SectionRecord::WIDE_FIXUPS == 0;
            let compressed = CompressedSection::cut(content, count, size).filter(|_| may_be)?;
            let before = before_content + size_of::<CompressedHeader>() + compressed.fixups.len();
            return Some(SectionView {
                check: checked(before, compressed.bytes),
                compressed: Some(compressed),
                ..plain
            });
        }
        let (fixups, rest) = content.split_at_checked(count.checked_mul(fixup_size)?)?;
        let stored = match record.sh_type {
            SHT_NOBITS => &[],
            _ => rest.get(..usize::try_from(size).ok()?)?,
        };
        let fixups = match record.bits & forms {
            SectionRecord::PACKED_FIXUPS => FixupsView::Packed(PackedFixups {
                records: bytemuck::try_cast_slice(fixups).ok()?,
                bytes: stored,
                packing: Packing {
                    target_bits: u32::from(record.target_bits).clamp(1, 24),
                    bindable_count,
                },
            }),
            SectionRecord::WIDE_FIXUPS => FixupsView::Wide(bytemuck::try_cast_slice(fixups).ok()?),
            _ => FixupsView::Narrow(bytemuck::try_cast_slice(fixups).ok()?),
        };
        Some(SectionView {
            fixups,
            stored,
            check: checked(body.len() - rest.len(), stored),
            ..plain
        })
    }

    /// Whether its record is one that a writer makes. The targets of its fixups are not looked at.
    fn is_good(&self, targets: usize) -> bool {
        let SectionRecord {
            bits, target_bits, ..
        } = *self.record;
        let forms = SectionRecord::PACKED_FIXUPS | SectionRecord::WIDE_FIXUPS;
        let is_packed = bits & SectionRecord::PACKED_FIXUPS != 0;
        section_kind(self.record).is_some()
            && self.record.align_log2 < 64
            && self.link as usize <= targets
            && bits & forms != forms
            && is_packed == (1..=24).contains(&target_bits)
            && (is_packed || target_bits == 0)
    }

    /// Its bytes; none for `SHT_NOBITS`.
    pub fn bytes(&self) -> Cow<'s, [u8]> {
        match self.fixups {
            FixupsView::Packed(fixups) if !fixups.records.is_empty() => {
                let mut bytes = self.stored.to_vec();
                clear_places(fixups.records, &mut bytes);
                Cow::Owned(bytes)
            }
            _ => Cow::Borrowed(self.stored),
        }
    }

    /// Copies its bytes to `out`, which must have as many, and returns its fixups: packed ones from `room`, where they are put;
    /// what it had before is of no matter. With `compares`, compares the bytes with the section's check, if it has
    /// one; the second result is whether it is right. All is done in one go over the bytes, so that the memory is waited for
    /// once.
    ///
    /// # Panics
    /// If `out` has not as many bytes as are stored.
    pub fn copy<'u>(
        &self,
        out: &mut [u8],
        room: &'u mut Vec<FixupRecord>,
        compares: bool,
    ) -> (FixupsView<'u>, bool)
    where
        's: 'u,
    {
        assert_eq!(out.len(), self.stored_size());
        if let Some(compressed) = &self.compressed {
            // What cannot be decompressed is not what was written either.
            let is_right = self.check.is_none_or(|check| !compares || check.is_right())
                && decompress(compressed.bytes, out).is_some();
            let fixups = compressed.fixups(room).filter(|_| is_right);
            let all_right = fixups.is_some();
            return (FixupsView::Narrow(fixups.unwrap_or_default()), all_right);
        }
        let check = self.check.filter(|_| compares);
        let mut made = BodyCheck::default();
        if let Some(check) = check {
            made = made.part(check.before);
        }
        let packed = match self.fixups {
            FixupsView::Packed(fixups) => fixups,
            _ => PackedFixups::NONE,
        };
        let count = packed.records.len();
        if room.len() < count {
            room.resize(count, FixupRecord::zeroed());
        }
        let mut unpacked = 0;
        let mut end = 0;
        let mut blocks = self.stored.chunks(BodyCheck::BLOCK).peekable();
        while let Some(from) = blocks.next() {
            if let Some(next) = blocks.peek() {
                prefetch_all(next);
            }
            let start = end;
            end += from.len();
            out[start..end].copy_from_slice(from);
            if check.is_some() {
                // The copy, which is in the processor's first cache: it waited for memory on both sides at once.
                made.block(&out[start..end]);
            }
            unpacked += packed.take(
                &packed.records[unpacked..],
                &mut out[..end],
                &mut room[unpacked..count],
            );
        }
        for (record, place) in packed.records.iter().zip(&mut room[..count]).skip(unpacked) {
            // Its place is not in the section.
            *place = packed.unpack(*record);
        }
        let fixups = match self.fixups {
            FixupsView::Packed(_) => FixupsView::Narrow(&room[..count]),
            fixups => fixups,
        };
        let is_right = check.is_none_or(|check| check.check == made.value());
        (fixups, is_right)
    }

    /// How many bytes it has in a file; none for `SHT_NOBITS`.
    #[inline]
    pub fn stored_size(&self) -> usize {
        match self.compressed {
            // It is possible: see there.
            Some(_) => self.size as usize,
            None => self.stored.len(),
        }
    }

    /// Bytes of its extension and of its fixups.
    pub fn fixup_bytes(&self) -> usize {
        let extension = match self.record.bits & SectionRecord::EXTENDED {
            0 => 0,
            _ => size_of::<SectionExtension>(),
        };
        extension
            + match self.fixups {
                FixupsView::Packed(fixups) => size_of_val(fixups.records),
                FixupsView::Narrow(fixups) => size_of_val(fixups),
                FixupsView::Wide(fixups) => size_of_val(fixups),
            }
    }
}

/// The arrays in the head of a fragment's value.
struct Head<'s> {
    header: &'s FragmentHeader,
    sections: &'s [SectionRecord],
    anonymous: &'s [Address],
    targets: &'s [TargetRecord],
    parts: HeadParts,
}

impl<'s> Head<'s> {
    #[inline]
    fn cut(value: &'s [u8]) -> Option<Self> {
        let header = value.get(..size_of::<FragmentHeader>())?;
        let header: &FragmentHeader = bytemuck::try_from_bytes(header).ok()?;
        let parts = header.parts()?;
        if value.len() < parts.bodies {
            return None;
        }
        Some(Head {
            header,
            sections: bytemuck::try_cast_slice(value.get(parts.sections.clone())?).ok()?,
            anonymous: match header.anonymous_count {
                // Where nothing is, nothing is aligned.
                0 => &[],
                _ => bytemuck::try_cast_slice(value.get(parts.anonymous.clone())?).ok()?,
            },
            targets: bytemuck::try_cast_slice(value.get(parts.targets.clone())?).ok()?,
            parts,
        })
    }
}

/// Whether the head of a fragment's value has the check that it should have; `None` if it has none of its own.
#[inline]
pub(super) fn head_is_right(value: &[u8]) -> Option<bool> {
    let at = Head::cut(value)?.parts.check?;
    let (head, rest) = value.split_at_checked(at)?;
    Some(rest.starts_with(&head_check(head).to_le_bytes()))
}

/// Whether a fragment has sections that are recorded compressed.
pub(super) fn is_compressed(value: &[u8]) -> bool {
    let is_one = |section: &SectionRecord| section.bits & SectionRecord::COMPRESSED != 0;
    Head::cut(value).is_some_and(|head| head.sections.iter().any(is_one))
}

/// How many sections and bindable targets the fragment of this value has.
pub(super) fn counts(value: &[u8]) -> Option<(usize, usize)> {
    let header = Head::cut(value)?.header;
    Some((
        header.section_count() as usize,
        header.bindable_count as usize,
    ))
}

/// The addresses of the anonymous fragments that the fragment of this value refers to.
pub(super) fn anonymous(value: &[u8]) -> Option<&[Address]> {
    Some(Head::cut(value)?.anonymous)
}

/// The targets of the fragment of this value that are bound through the compilation.
pub(super) fn bindable_targets(value: &[u8]) -> Option<&[TargetRecord]> {
    let head = Head::cut(value)?;
    head.targets.get(..head.header.bindable_count as usize)
}

/// The names and the pieces that the fragment of this value refers to; more than once, if it does so.
pub(super) fn ids(value: &[u8]) -> Option<impl Iterator<Item = Id> + use<'_>> {
    let head = Head::cut(value)?;
    let names = head.sections.iter().map(|section| Id::Name(section.name));
    let targets = head
        .targets
        .iter()
        .filter_map(|target| match target.kind()? {
            TargetKind::Global | TargetKind::Local | TargetKind::OwnNamed => {
                Some(Id::Name(NameId(target.value())))
            }
            TargetKind::Piece => Some(Id::Piece(PieceId(target.value()))),
            TargetKind::OwnAnonymous | TargetKind::Section => None,
        });
    Some(names.chain(targets))
}

/// What [`ids`] gives.
pub(super) enum Id {
    /// A name.
    Name(NameId),
    /// A piece.
    Piece(PieceId),
}

/// A fragment's value as it would be if none of its sections were recorded compressed: in words, of which the last may have zeros behind
/// it, and its size. `None` if it is damaged.
pub(super) fn plain(value: &[u8]) -> Option<(Vec<u64>, usize)> {
    let head = Head::cut(value)?;
    let mut out = value.get(..head.parts.bodies)?.to_vec();
    let mut room = Vec::new();
    let records = head.parts.sections.clone();
    for (section, at) in (head.sections.iter()).zip(records.step_by(size_of::<SectionRecord>())) {
        let view = SectionView::new(value, section, head.header.bindable_count)?;
        let aligned = SectionRecord::EXTENDED | SectionRecord::WIDE_FIXUPS;
        let align = if section.bits & aligned == 0 { 4 } else { 8 };
        let body = out.len().checked_next_multiple_of(align)?;
        out.resize(body, 0);
        let mut record = *section;
        record.body = u32::try_from(body).ok()?;
        record.bits &= !SectionRecord::COMPRESSED;
        match &view.compressed {
            None => {
                let size = view.fixup_bytes() + view.stored.len();
                out.extend_from_slice(value.get(section.body as usize..)?.get(..size)?);
            }
            Some(compressed) => {
                let start = section.body as usize;
                let extension = view.fixup_bytes();
                out.extend_from_slice(value.get(start..start + extension)?);
                let fixups = compressed.fixups(&mut room)?;
                let bytes = put_plain(section, &view, fixups, head.header, &mut out)?;
                if extension > 0 {
                    let check = BodyCheck::default()
                        .part(&out[body + SectionExtension::UNCHECKED..bytes])
                        .part(&out[bytes..]);
                    out[body..body + SectionExtension::UNCHECKED]
                        .copy_from_slice(&check.value().to_le_bytes());
                }
            }
        }
        out[at..at + size_of::<SectionRecord>()].copy_from_slice(bytemuck::bytes_of(&record));
    }
    if let Some(at) = head.parts.check {
        let check = head_check(&out[..at]);
        out[at..at + size_of::<u32>()].copy_from_slice(&check.to_le_bytes());
    }
    let size = out.len();
    let mut words = vec![0u64; size.div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..size].copy_from_slice(&out);
    Some((words, size))
}

/// Appends the fixups of a compressed section in the form that its record says, and its bytes. Returns where these begin.
fn put_plain(
    section: &SectionRecord,
    view: &SectionView<'_>,
    fixups: &[FixupRecord],
    header: &FragmentHeader,
    out: &mut Vec<u8>,
) -> Option<usize> {
    let compressed = view.compressed.as_ref()?;
    let start = out.len();
    let is_packed = section.bits & SectionRecord::PACKED_FIXUPS != 0;
    let fixup_size = match is_packed {
        true => size_of::<PackedFixupRecord>(),
        false => size_of::<FixupRecord>(),
    };
    let bytes = start + fixups.len() * fixup_size;
    out.resize(bytes + view.stored_size(), 0);
    decompress(compressed.bytes, &mut out[bytes..])?;
    let (records, places) = out[start..].split_at_mut(bytes - start);
    if is_packed {
        let packing = Packing {
            target_bits: u32::from(section.target_bits),
            bindable_count: header.bindable_count,
        };
        let is_possible = (1..=24).contains(&packing.target_bits);
        if !is_possible || !packing.pack(fixups, records, places) {
            return None;
        }
    } else {
        records.copy_from_slice(bytemuck::cast_slice(fixups));
    }
    Some(bytes)
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct FragmentView<'s> {
    record: Record<'s>,
    /// As it is without compressed sections.
    value: &'s [u8],
    header: &'s FragmentHeader,
    sections: &'s [SectionRecord],
    anonymous: &'s [Address],
    targets: &'s [TargetRecord],
    /// If the head has a check of its own: where.
    check: Option<usize>,
    /// Where the bodies begin.
    bodies: usize,
}

impl<'s> FragmentView<'s> {
    /// The view, if what is in the fragment is what it may be. `value` is the record's as it is without compressed sections.
    pub(super) fn new(record: Record<'s>, value: &'s [u8]) -> Option<Self> {
        let Head {
            header,
            sections,
            anonymous,
            targets,
            parts,
        } = Head::cut(value)?;
        let view = FragmentView {
            record,
            value,
            header,
            sections,
            anonymous,
            targets,
            check: parts.check,
            bodies: parts.bodies,
        };
        let (bindable, rest) = targets.split_at_checked(header.bindable_count as usize)?;
        let bindable_is_good = |target: &TargetRecord| match target.kind() {
            Some(TargetKind::OwnAnonymous) => (target.value() as usize) < anonymous.len(),
            Some(kind) => !matches!(kind, TargetKind::Section | TargetKind::Piece),
            None => false,
        };
        let rest_is_good = |target: &TargetRecord| match target.kind() {
            Some(TargetKind::Section) => (target.value() as usize) < sections.len(),
            Some(kind) => kind == TargetKind::Piece,
            None => false,
        };
        let section_is_good = |record: &SectionRecord| {
            view.open(record).is_some_and(|section| {
                section.compressed.is_none() && section.is_good(targets.len())
            })
        };
        (bindable.iter().all(bindable_is_good)
            && rest.iter().all(rest_is_good)
            && sections.iter().all(section_is_good))
        .then_some(view)
    }

    #[inline]
    fn open(&self, record: &'s SectionRecord) -> Option<SectionView<'s>> {
        SectionView::new(self.value, record, self.header.bindable_count)
    }

    /// Its body: all behind the head. `None` if sections are not where SPEC.md, section 18, has them, or if they or the head
    /// do not have their checks.
    pub fn body(&self) -> Option<&'s [u8]> {
        let value = self.value;
        if let Some(at) = self.check {
            let check = value.get(at..self.bodies)?;
            if check != head_check(&value[..at]).to_le_bytes() {
                return None;
            }
        }
        let mut end = self.bodies;
        for section in self.sections() {
            let aligned = SectionRecord::EXTENDED | SectionRecord::WIDE_FIXUPS;
            let align = match section.record.bits & aligned {
                0 => 4,
                _ => 8,
            };
            end = end.checked_next_multiple_of(align)?;
            let is_right = section.check.is_none_or(|check| check.is_right());
            if section.record.body as usize != end || !is_right {
                return None;
            }
            end = end.checked_add(section.fixup_bytes() + section.stored.len())?;
        }
        (end == value.len())
            .then(|| value.get(self.bodies..))
            .flatten()
    }

    /// Bytes of its value as it is used. If sections are compressed, those of its record's are fewer.
    pub fn size(&self) -> usize {
        self.value.len()
    }

    /// Its record; the key is its digest.
    pub fn record(&self) -> Record<'s> {
        self.record
    }

    /// One of its sections.
    pub fn section(&self, index: u32) -> Option<SectionView<'s>> {
        self.sections
            .get(index as usize)
            .and_then(|record| self.open(record))
    }

    /// Number of its sections.
    pub fn section_count(&self) -> usize {
        self.sections.len()
    }

    /// Its sections.
    pub fn sections(&self) -> impl Iterator<Item = SectionView<'s>> + use<'s> {
        let view = *self;
        // All could be opened when the view was made.
        view.sections
            .iter()
            .filter_map(move |record| view.open(record))
    }

    /// Its targets, the bindable ones first.
    pub fn targets(&self) -> &'s [TargetRecord] {
        self.targets
    }

    /// How many of the targets are bound through the compilation.
    pub fn bindable_count(&self) -> u32 {
        self.header.bindable_count
    }

    /// The addresses of the anonymous fragments that it refers to.
    pub fn anonymous(&self) -> &'s [Address] {
        self.anonymous
    }
}

/// One section of a fragment, and what its fixups refer to.
#[derive(Clone, Copy, Debug)]
pub struct FragmentSection<'s> {
    /// The section.
    pub section: SectionView<'s>,
    /// The fragment's targets, the bindable ones first. Their kinds are not checked.
    pub targets: &'s [TargetRecord],
    /// How many of the targets are bound through the compilation.
    pub bindable_count: u32,
    /// How many sections the fragment has.
    pub section_count: u32,
}

impl<'s> FragmentSection<'s> {
    #[inline]
    pub(super) fn new(value: &'s [u8], index: u32) -> Option<Self> {
        let head = Head::cut(value)?;
        let header = head.header;
        let section = head.sections.get(index as usize)?;
        let is_good = header.bindable_count <= header.target_count && section.align_log2 < 64;
        is_good.then_some(FragmentSection {
            section: SectionView::new(value, section, header.bindable_count)?,
            targets: head.targets,
            bindable_count: header.bindable_count,
            section_count: header.section_count(),
        })
    }
}

/// The kind of a section, if it is one that is known.
pub fn section_kind(section: &SectionRecord) -> Option<SectionKind> {
    kind_of(section.kind)
}

/// The kind of sections that a record or a shape calls by this number, if it is one that is known.
pub fn kind_of(number: u8) -> Option<SectionKind> {
    use SectionKind::*;
    [
        Text,
        Data,
        Bss,
        ReadOnly,
        ThreadData,
        ThreadBss,
        Unwind,
        ExceptionTable,
        Debug,
        InitArray,
        Other,
    ]
    .get(usize::from(number))
    .copied()
}
