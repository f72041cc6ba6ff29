//! A stand-in for a file of intermediate code: an ELF object that has the symbols the plugin
//! told, and nothing else.
//!
//! Symbol resolution then needs to know nothing of plugins: the file is extracted from its
//! archive, loses its COMDAT groups, and wins or loses names as any other object. It lies in
//! memory only, and is gone when the plugin has compiled.
//!
//! All definitions are in one empty section, but those of a COMDAT group are in a section of
//! their own, the group's only member. The group's signature is a local symbol, as the plugin
//! tells it as a string that need not be a symbol of the file (`_ZN1AC5Ev`).

use super::plugin::{LtoSymbol, SymbolKind};
use crate::elf::{Ehdr, Shdr, Sym, c};
use bytemuck::{Zeroable, bytes_of, cast_slice};
use std::collections::HashMap;

/// Section numbers that do not depend on the symbols.
const STRTAB: u32 = 1;
const SYMTAB: u32 = 2;
const EXTENDED: u32 = 3;
const DEFINITIONS: u32 = 4;
const FIRST_GROUP: u32 = 5;

/// Offsets in `.strtab`, which begins with the sections' names.
const NAMES: &[u8] = b"\0.strtab\0.symtab\0.symtab_shndx\0.text\0.group\0";
const NAME_OF_STRTAB: u32 = 1;
const NAME_OF_SYMTAB: u32 = 9;
const NAME_OF_EXTENDED: u32 = 17;
const NAME_OF_TEXT: u32 = 31;
const NAME_OF_GROUP: u32 = 37;

/// The object's bytes. Its global symbols are `symbols`, in order.
///
/// `None` if the names are too many for a string table (4 GiB).
pub fn object(symbols: &[LtoSymbol]) -> Option<Vec<u8>> {
    let mut strtab = NAMES.to_vec();
    let mut intern = |name: &[u8]| {
        let at = u32::try_from(strtab.len()).ok()?;
        strtab.extend_from_slice(name);
        strtab.push(0);
        Some(at)
    };
    let mut locals = vec![Sym::zeroed()];
    let mut globals = Vec::with_capacity(symbols.len());
    let mut extended: Vec<u32> = Vec::with_capacity(symbols.len());
    let mut groups: HashMap<&[u8], u32> = HashMap::new();
    for symbol in symbols {
        let section = match (&symbol.comdat, symbol.kind) {
            (_, SymbolKind::Undefined | SymbolKind::WeakUndefined | SymbolKind::Common) => 0,
            (None, _) => DEFINITIONS,
            (Some(key), _) => match groups.get(&key[..]) {
                Some(group) => group + 1,
                None => {
                    let group = FIRST_GROUP + 2 * groups.len() as u32;
                    groups.insert(key, group);
                    locals.push(Sym {
                        st_name: intern(key)?,
                        st_shndx: c::SHN_ABS,
                        ..Sym::zeroed()
                    });
                    group + 1
                }
            },
        };
        let binding = match symbol.kind {
            SymbolKind::WeakDefined | SymbolKind::WeakUndefined => c::STB_WEAK,
            _ => c::STB_GLOBAL,
        };
        let (shndx, value) = match u16::try_from(section) {
            _ if symbol.kind == SymbolKind::Common => (c::SHN_COMMON, 1),
            Ok(number) if number < c::SHN_LORESERVE => (number, 0),
            _ => (c::SHN_XINDEX, 0),
        };
        globals.push(Sym {
            st_name: intern(&symbol.name)?,
            st_info: binding << 4,
            st_other: symbol.visibility,
            st_shndx: shndx,
            st_value: value,
            st_size: symbol.size,
        });
        extended.push(section);
    }

    let mut image = vec![0u8; size_of::<Ehdr>()];
    let mut shdrs = vec![Shdr::zeroed(); FIRST_GROUP as usize];
    let mut put = |shdr: &mut Shdr, bytes: &[u8]| {
        shdr.sh_offset = image.len() as u64;
        shdr.sh_size = bytes.len() as u64;
        image.extend_from_slice(bytes);
    };
    let first_global = locals.len() as u32;
    let section = |name, sh_type, entsize: usize| Shdr {
        sh_name: name,
        sh_type,
        sh_entsize: entsize as u64,
        ..Shdr::zeroed()
    };
    shdrs[STRTAB as usize] = section(NAME_OF_STRTAB, c::SHT_STRTAB, 0);
    put(&mut shdrs[STRTAB as usize], &strtab);
    shdrs[SYMTAB as usize] = Shdr {
        sh_link: STRTAB,
        sh_info: first_global,
        ..section(NAME_OF_SYMTAB, c::SHT_SYMTAB, size_of::<Sym>())
    };
    let local_count = locals.len();
    locals.extend(globals);
    put(&mut shdrs[SYMTAB as usize], cast_slice(&locals));
    shdrs[EXTENDED as usize] = Shdr {
        sh_link: SYMTAB,
        ..section(NAME_OF_EXTENDED, c::SHT_SYMTAB_SHNDX, 4)
    };
    let mut indices = vec![0u32; local_count];
    indices.extend(extended);
    put(&mut shdrs[EXTENDED as usize], cast_slice(&indices));
    let code = Shdr {
        sh_flags: u64::from(c::SHF_ALLOC | c::SHF_EXECINSTR),
        ..section(NAME_OF_TEXT, c::SHT_PROGBITS, 0)
    };
    shdrs[DEFINITIONS as usize] = code;
    // The groups' signatures are the local symbols, in the groups' order.
    for signature in 1..first_global {
        let member = shdrs.len() as u32 + 1;
        let mut group = Shdr {
            sh_link: SYMTAB,
            sh_info: signature,
            ..section(NAME_OF_GROUP, c::SHT_GROUP, 4)
        };
        put(&mut group, cast_slice(&[c::GRP_COMDAT, member]));
        shdrs.push(group);
        shdrs.push(Shdr {
            sh_flags: code.sh_flags | u64::from(c::SHF_GROUP),
            ..code
        });
    }
    // gABI, "ELF Header": a number of sections that does not fit stands in section 0.
    shdrs[0].sh_size = shdrs.len() as u64;
    let mut ehdr = Ehdr {
        e_type: c::ET_REL,
        e_machine: c::EM_X86_64,
        e_version: u32::from(c::EV_CURRENT),
        e_shoff: image.len() as u64,
        e_ehsize: size_of::<Ehdr>() as u16,
        e_shentsize: size_of::<Shdr>() as u16,
        e_shstrndx: STRTAB as u16,
        ..Ehdr::zeroed()
    };
    ehdr.e_ident[..4].copy_from_slice(&c::ELFMAG);
    ehdr.e_ident[4..7].copy_from_slice(&[c::ELFCLASS64, c::ELFDATA2LSB, c::EV_CURRENT]);
    image.extend_from_slice(cast_slice(&shdrs));
    image[..size_of::<Ehdr>()].copy_from_slice(bytes_of(&ehdr));
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::elf_object::ElfObject;
    use crate::input::object::Object;
    use crate::input::parts::{Place, Signature};

    fn symbol(name: &str, kind: SymbolKind, comdat: Option<&str>) -> LtoSymbol {
        LtoSymbol {
            name: name.into(),
            kind,
            visibility: c::STV_HIDDEN,
            size: 8,
            comdat: comdat.map(Into::into),
        }
    }

    #[test]
    fn symbols_and_groups_come_back() {
        let symbols = [
            symbol("a", SymbolKind::Defined, None),
            symbol("b@@V", SymbolKind::WeakDefined, Some("key")),
            symbol("c", SymbolKind::Common, None),
            symbol("d", SymbolKind::WeakUndefined, None),
            symbol("e", SymbolKind::Defined, Some("key")),
        ];
        let bytes = object(&symbols).unwrap();
        let object = Object::from(ElfObject::parse(&bytes).unwrap());
        let first = object.first_global();
        let places: Vec<Place> = (first..object.symbol_count())
            .map(|index| object.symbol(index).unwrap().place)
            .collect();
        let group_member = FIRST_GROUP + 1;
        assert_eq!(
            places,
            [
                Place::Section(DEFINITIONS),
                Place::Section(group_member),
                Place::Common,
                Place::Undefined,
                Place::Section(group_member),
            ]
        );
        assert_eq!(object.symbol_name(first + 1), b"b@@V");
        assert!(object.symbol(first + 1).unwrap().is_weak());
        assert_eq!(object.symbol(first).unwrap().other, c::STV_HIDDEN);
        let groups = object.groups().unwrap();
        assert_eq!(groups.len(), 1);
        assert!(matches!(groups[0].signature, Signature::Text(b"key")));
        assert!(groups[0].comdat);
        let members = object.sections_of_groups(&[groups[0].index]);
        assert_eq!(members, [group_member]);
    }

    #[test]
    fn more_groups_than_an_index_of_16_bits_can_tell() {
        let symbols: Vec<LtoSymbol> = (0..40_000)
            .map(|n| {
                let name = format!("f{n}");
                symbol(&name, SymbolKind::Defined, Some(&name))
            })
            .collect();
        let bytes = object(&symbols).unwrap();
        let object = Object::from(ElfObject::parse(&bytes).unwrap());
        let last = object.symbol_count() - 1;
        assert_eq!(object.symbol_name(last), b"f39999");
        let Place::Section(number) = object.symbol(last).unwrap().place else {
            panic!("not in a section");
        };
        assert_eq!(number, object.section_count() - 1);
        let group = object.groups().unwrap()[39_999].index;
        assert_eq!(object.sections_of_groups(&[group]), [number]);
    }
}
