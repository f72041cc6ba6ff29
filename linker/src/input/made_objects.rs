//! Inputs that are no objects themselves, made into objects: plain bytes (`-b binary`), and the symbols of a program
//! that is elsewhere in memory (`--just-symbols`).

use crate::elf::{self, Ehdr, Shdr, Sym, c};
use crate::input::elf_object::{Malformed, check_ident, section_headers};
use bytemuck::Zeroable;

/// A symbol of an object in the making.
struct NewSymbol {
    name: Vec<u8>,
    /// `st_info`.
    info: u8,
    /// `st_shndx`.
    section: u16,
    value: u64,
    size: u64,
}

/// An object whose `.data` section is `data`, with the symbols `_binary_NAME_start`, `_end` and `_size`, where `NAME` is
/// the path as given, with a `_` for whatever cannot be in a name of C.
pub fn of_bytes(path: &[u8], data: &[u8]) -> Vec<u8> {
    let name: Vec<u8> = path
        .iter()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                *byte
            } else {
                b'_'
            }
        })
        .collect();
    let size = data.len() as u64;
    let symbol = |suffix: &[u8], section, value| NewSymbol {
        name: [b"_binary_", &name[..], suffix].concat(),
        info: c::STB_GLOBAL << 4,
        section,
        value,
        size: 0,
    };
    object(
        data,
        &[
            symbol(b"_start", 1, 0),
            symbol(b"_end", 1, size),
            symbol(b"_size", c::SHN_ABS, size),
        ],
    )
}

/// An object that defines, as absolute symbols, the global symbols that an ELF file of any type defines.
///
/// # Errors
/// If the file is no ELF file of this machine, or damaged.
pub fn of_symbols(data: &[u8]) -> Result<Vec<u8>, Malformed> {
    let outside = |what, offset| Malformed::Outside { what, offset };
    let ehdr: &Ehdr = elf::record(data, 0).ok_or(outside("ELF header", 0))?;
    check_ident(ehdr)?;
    let (shdrs, _) = section_headers(data, ehdr)?;
    let mut symbols = Vec::new();
    for shdr in shdrs
        .iter()
        .filter(|shdr| { shdr.sh_type } == c::SHT_SYMTAB)
    {
        let count = { shdr.sh_size } / size_of::<Sym>() as u64;
        let syms: &[Sym] = elf::table(data, shdr.sh_offset, count)
            .ok_or(outside("symbol table", shdr.sh_offset))?;
        let strings = shdrs.get(shdr.sh_link as usize).ok_or(Malformed::Value {
            what: "string table of the symbol table",
            value: { shdr.sh_link }.into(),
        })?;
        let names = elf::bytes(data, strings.sh_offset, strings.sh_size)
            .ok_or(outside("string table", strings.sh_offset))?;
        for sym in syms.iter().skip({ shdr.sh_info } as usize) {
            let defined = ![c::SHN_UNDEF, c::SHN_COMMON].contains(&{ sym.st_shndx });
            if let (Some(name), true) = (elf::string(names, sym.st_name), defined) {
                symbols.push(NewSymbol {
                    name: name.to_vec(),
                    info: sym.st_info,
                    section: c::SHN_ABS,
                    value: sym.st_value,
                    size: sym.st_size,
                });
            }
        }
    }
    Ok(object(&[], &symbols))
}

/// An object with one section of data, if there is any, and these global symbols.
fn object(data: &[u8], symbols: &[NewSymbol]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0.data\0.symtab\0.strtab\0.shstrtab\0";
    let mut strings = vec![0];
    let mut syms = vec![Sym::zeroed()];
    for symbol in symbols {
        syms.push(Sym {
            st_name: strings.len() as u32,
            st_info: symbol.info,
            st_other: 0,
            st_shndx: symbol.section,
            st_value: symbol.value,
            st_size: symbol.size,
        });
        strings.extend_from_slice(&symbol.name);
        strings.push(0);
    }
    let mut out = vec![0; size_of::<Ehdr>()];
    let mut shdrs = vec![Shdr::zeroed()];
    let mut add = |name: &[u8], sh_type, flags, bytes: &[u8], align: usize| {
        out.resize(out.len().next_multiple_of(align), 0);
        let at = memchr::memmem::find(NAMES, name).unwrap_or(0);
        shdrs.push(Shdr {
            sh_name: at as u32,
            sh_type,
            sh_flags: flags,
            sh_offset: out.len() as u64,
            sh_size: bytes.len() as u64,
            sh_addralign: align as u64,
            ..Shdr::zeroed()
        });
        out.extend_from_slice(bytes);
    };
    let writable = u64::from(c::SHF_ALLOC | c::SHF_WRITE);
    add(b".data\0", c::SHT_PROGBITS, writable, data, 1);
    add(
        b".symtab\0",
        c::SHT_SYMTAB,
        0,
        bytemuck::cast_slice(&syms),
        8,
    );
    add(b".strtab\0", c::SHT_STRTAB, 0, &strings, 1);
    add(b".shstrtab\0", c::SHT_STRTAB, 0, NAMES, 1);
    shdrs[2].sh_link = 3;
    shdrs[2].sh_info = 1;
    shdrs[2].sh_entsize = size_of::<Sym>() as u64;
    out.resize(out.len().next_multiple_of(8), 0);
    let mut ident = [0; 16];
    ident[..4].copy_from_slice(&c::ELFMAG);
    ident[4..7].copy_from_slice(&[c::ELFCLASS64, c::ELFDATA2LSB, c::EV_CURRENT]);
    let ehdr = Ehdr {
        e_ident: ident,
        e_type: c::ET_REL,
        e_machine: c::EM_X86_64,
        e_version: 1,
        e_shoff: out.len() as u64,
        e_ehsize: size_of::<Ehdr>() as u16,
        e_shentsize: size_of::<Shdr>() as u16,
        e_shnum: shdrs.len() as u16,
        e_shstrndx: 4,
        ..Ehdr::zeroed()
    };
    out[..size_of::<Ehdr>()].copy_from_slice(bytemuck::bytes_of(&ehdr));
    out.extend_from_slice(bytemuck::cast_slice(&shdrs));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::elf_object::ElfObject;
    use crate::input::object::Object;
    use crate::input::parts::Place;

    #[test]
    fn bytes_become_an_object() {
        let bytes = of_bytes(b"dir/a-file.bin", b"hello");
        let object = Object::from(ElfObject::parse(&bytes).unwrap());
        assert_eq!(object.section_bytes(1), b"hello");
        let symbols: Vec<_> = (1..object.symbol_count())
            .map(|index| {
                let symbol = object.symbol(index).unwrap();
                (object.symbol_name(index), symbol.place, symbol.value)
            })
            .collect();
        assert_eq!(
            symbols,
            [
                (&b"_binary_dir_a_file_bin_start"[..], Place::Section(1), 0),
                (b"_binary_dir_a_file_bin_end", Place::Section(1), 5),
                (b"_binary_dir_a_file_bin_size", Place::Absolute, 5),
            ]
        );
        // Its symbols alone: numbers.
        let again = of_symbols(&bytes).unwrap();
        let again = Object::from(ElfObject::parse(&again).unwrap());
        assert_eq!(again.symbol(2).unwrap().place, Place::Absolute);
        assert_eq!(again.symbol(2).unwrap().value, 5);
        assert!(of_symbols(b"no ELF file").is_err());
    }
}
