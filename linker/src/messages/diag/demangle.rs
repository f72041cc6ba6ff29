//! Names as their source wrote them: C++ (Itanium ABI) and Rust (legacy and v0).

use std::borrow::Cow;

/// Longer names are shown as they are: what would come out is no help, and could be enormous.
const MAX_NAME: usize = 4096;
/// Nor is a demangled name of more than this.
const MAX_SHOWN: usize = 16384;

/// Demangles a symbol's name; a version (`@VERS`, `@@VERS`) stays behind it. Names that are not mangled, or not well,
/// come back as they are (invalid UTF-8 replaced).
pub fn demangle(name: &[u8]) -> Cow<'_, str> {
    let plain = String::from_utf8_lossy(name);
    if name.len() > MAX_NAME || !(name.starts_with(b"_Z") || name.starts_with(b"_R")) {
        return plain;
    }
    let at = memchr::memchr(b'@', name).unwrap_or(name.len());
    let Ok(base) = std::str::from_utf8(&name[..at]) else {
        return plain;
    };
    let shown = rust(base)
        .or_else(|| cpp(base))
        .filter(|shown| shown.len() <= MAX_SHOWN);
    match shown {
        Some(mut shown) => {
            shown.push_str(&String::from_utf8_lossy(&name[at..]));
            Cow::Owned(shown)
        }
        None => plain,
    }
}

/// Rust's names, without the hash.
fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    Some(format!("{demangled:#}"))
}

fn cpp(name: &str) -> Option<String> {
    let options = cpp_demangle::DemangleOptions::new();
    let shown = cpp_demangle::Symbol::new(name)
        .ok()?
        .demangle(&options)
        .ok()?;
    Some(in_gnu_words(name, shown))
}

/// The crate writes `{vtable(X)}` where everybody else's demangler, and so every build script and version script, has
/// `vtable for X`.
fn in_gnu_words(name: &str, shown: String) -> String {
    let inner = |prefix: &str| shown.strip_prefix(prefix)?.strip_suffix(")}");
    // `{virtual override thunk({offset(-8)}, X)}`
    let thunk = || {
        inner("{virtual override thunk(")?
            .split_once("}, ")
            .map(|(_, target)| target)
    };
    match name.as_bytes().get(2..4) {
        Some(b"TV") => inner("{vtable(").map(|inner| format!("vtable for {inner}")),
        Some(b"TT") => inner("{vtt(").map(|inner| format!("VTT for {inner}")),
        Some(b"Th") => thunk().map(|target| format!("non-virtual thunk to {target}")),
        Some(b"Tv") => thunk().map(|target| format!("virtual thunk to {target}")),
        _ => None,
    }
    .unwrap_or(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_and_rust_names() {
        assert_eq!(demangle(b"_Z3fooi"), "foo(int)");
        assert_eq!(
            demangle(b"_ZNSt6vectorIiSaIiEE9push_backEOi"),
            "std::vector<int, std::allocator<int> >::push_back(int&&)"
        );
        assert_eq!(demangle(b"_ZTV3Foo"), "vtable for Foo");
        assert_eq!(demangle(b"_ZTT3Foo"), "VTT for Foo");
        assert_eq!(demangle(b"_ZTS3Foo"), "typeinfo name for Foo");
        assert_eq!(
            demangle(b"_ZThn8_N3Foo3barEv"),
            "non-virtual thunk to Foo::bar()"
        );
        assert_eq!(
            demangle(b"_ZTv0_n24_N3Foo3barEv"),
            "virtual thunk to Foo::bar()"
        );
        assert_eq!(
            demangle(b"_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(demangle(b"_RNvC6_123foo3bar"), "123foo::bar");
    }

    #[test]
    fn versions_stay() {
        assert_eq!(demangle(b"_Z3foov@@V1"), "foo()@@V1");
        assert_eq!(demangle(b"foo@V1"), "foo@V1");
    }

    #[test]
    fn other_names_are_left_alone() {
        for name in ["main", "_Z", "_R", "_Zgarbage", "", "_ZN"] {
            assert_eq!(demangle(name.as_bytes()), name);
        }
        assert_eq!(demangle(b"\xff\xfe"), "\u{fffd}\u{fffd}");
        let long = vec![b'_'; MAX_NAME + 1];
        assert_eq!(demangle(&long).len(), long.len());
    }
}
