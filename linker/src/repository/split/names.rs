//! Section names: what a compiler appends to them, and which are ordinary.

use std::borrow::Cow;

/// Names that compilers extend by `.` and a definition's name under
/// `-ffunction-sections`, `-fdata-sections`, and for COMDAT groups. Longer ones
/// come before their prefixes.
const BASES: &[&[u8]] = &[
    b".text.unlikely",
    b".text.hot",
    b".text.startup",
    b".text.exit",
    b".text.split",
    b".text.unknown",
    b".text",
    b".ltext",
    b".rodata",
    b".lrodata",
    b".data.rel.ro.local",
    b".data.rel.ro",
    b".data.rel.local",
    b".data.rel",
    b".data",
    b".ldata.rel.ro.local",
    b".ldata.rel.ro",
    b".ldata.rel.local",
    b".ldata.rel",
    b".ldata",
    b".bss.rel.ro",
    b".bss",
    b".lbss",
    b".tdata",
    b".tbss",
    b".gcc_except_table",
];

/// A section name without what is after one of the well-known prefixes and a
/// dot, and what is after it. `.text` has no suffix; nor has `.text.` (clang's
/// `.text.hot.` and its like are names in their own right).
pub fn split_suffix(name: &[u8]) -> (&[u8], Option<&[u8]>) {
    for base in BASES {
        if let Some(rest) = name.strip_prefix(*base) {
            match rest {
                [] => return (name, None),
                [b'.', suffix @ ..] if !suffix.is_empty() => {
                    return (&name[..base.len()], Some(suffix));
                }
                _ => {}
            }
        }
    }
    (name, None)
}

/// Whether all that matters about a section with this name is its flags: its
/// place among other sections of the name means nothing, and no linker or library
/// looks for it by name.
pub fn is_ordinary(name: &[u8]) -> bool {
    BASES.iter().any(|base| {
        name.strip_prefix(*base)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
    })
}

/// Whether a linker defines `__start_` and `__stop_` symbols for sections of this
/// name (GNU ld, "Input Section Keep": names that are C identifiers).
pub fn is_c_identifier(name: &[u8]) -> bool {
    let head = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    name.first().is_some_and(head) && name.iter().all(|byte| head(byte) || byte.is_ascii_digit())
}

/// The class name of mergeable sections: constants and strings of read-only
/// data go together whatever definition they were made for (`.rodata.str1.1`,
/// `.rodata.main.str1.1`, `.rodata.cst8`); other sections keep their name.
pub fn piece_class(name: &[u8]) -> &[u8] {
    match split_suffix(name).0 {
        base @ (b".rodata" | b".lrodata") => base,
        _ => name,
    }
}

/// The usual name of a mergeable section of a class, as assemblers see it from compilers.
pub fn piece_section_name(class: &[u8], strings: bool, entsize: u64, align: u64) -> Cow<'_, [u8]> {
    if !matches!(class, b".rodata" | b".lrodata") {
        return Cow::Borrowed(class);
    }
    let ending = match strings {
        true => format!(".str{entsize}.{align}"),
        false => format!(".cst{entsize}"),
    };
    Cow::Owned([class, ending.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        let split = |name: &'static str| {
            let (base, suffix) = split_suffix(name.as_bytes());
            (
                std::str::from_utf8(base).unwrap(),
                suffix.map(|suffix| std::str::from_utf8(suffix).unwrap()),
            )
        };
        assert_eq!(split(".text.foo"), (".text", Some("foo")));
        assert_eq!(split(".text"), (".text", None));
        assert_eq!(split(".text."), (".text.", None));
        assert_eq!(split(".text.unlikely"), (".text.unlikely", None));
        assert_eq!(
            split(".text.unlikely.foo.cold"),
            (".text.unlikely", Some("foo.cold"))
        );
        assert_eq!(
            split(".data.rel.ro.local.x"),
            (".data.rel.ro.local", Some("x"))
        );
        assert_eq!(
            split(".data.rel.ro._ZTV1A"),
            (".data.rel.ro", Some("_ZTV1A"))
        );
        assert_eq!(
            split(".rodata..Lswitch.table.f"),
            (".rodata", Some(".Lswitch.table.f"))
        );
        assert_eq!(split(".init_array.00100"), (".init_array.00100", None));
        assert_eq!(split(".textual"), (".textual", None));
        assert!(is_ordinary(b".rodata.str1.1"));
        assert!(!is_ordinary(b".init"));
        assert!(is_c_identifier(b"__libc_atexit") && !is_c_identifier(b".text"));
        assert_eq!(piece_class(b".rodata.main.str1.8"), b".rodata");
        assert_eq!(piece_class(b".debug_str"), b".debug_str");
        let of_class = |class: &'static [u8], strings| piece_section_name(class, strings, 8, 4);
        assert_eq!(*of_class(b".rodata", true), *b".rodata.str8.4");
        assert_eq!(*of_class(b".rodata", false), *b".rodata.cst8");
        assert_eq!(*of_class(b".debug_str", true), *b".debug_str");
    }
}
