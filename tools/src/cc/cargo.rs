//! Build scripts of cargo: what they compile is linked later, by rustc, and not by the compiler that they were told of.
//!
//! `CC=repo-gcc cargo build` reaches the compiles of C and C++, but no link: rustc calls `cc`, or a linker of its own, which refuse
//! tickets. So where nobody has said that rustc is to link through us, build scripts get fat objects, which every linker takes.

use super::compiler::Ourselves;
use super::linker_dir;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// What begins so is set for build scripts, and for nothing else that cargo runs.
const FOR_BUILD_SCRIPTS: &[u8] = b"CARGO_CFG_";
/// Set beside it.
const OUTPUT: &str = "OUT_DIR";
/// For a build script: the linker that cargo was told of.
const LINKER: &str = "RUSTC_LINKER";
/// For a build script: what rustc is told by `RUSTFLAGS`, with the byte `1f` between words.
const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
/// What rustc links by if it is told of no linker.
const DEFAULT: &str = "cc";

/// Whether this is a compile of a build script whose objects another linker will get.
pub fn links_by_another(ourselves: &Ourselves) -> bool {
    let is_for_them = |name: &OsStr| name.as_bytes().starts_with(FOR_BUILD_SCRIPTS);
    if env::var_os(OUTPUT).is_none() || !env::vars_os().any(|(name, _)| is_for_them(&name)) {
        return false;
    }
    let flags = env::var_os(FLAGS).unwrap_or_default();
    let (by_flag, asks_for_ours) = wishes(flags.as_bytes());
    let told = env::var_os(LINKER);
    let linker = (by_flag.map(OsStr::from_bytes)).or(told.as_deref());
    !asks_for_ours && !ourselves.is_found_by(linker.unwrap_or(OsStr::new(DEFAULT)))
}

/// The linker that these flags name last, and whether they ask for `repo-ld` whichever it is.
fn wishes(flags: &[u8]) -> (Option<&[u8]>, bool) {
    let (mut linker, mut asks_for_ours) = (None, false);
    let mut is_codegen = false;
    for word in flags.split(|byte| *byte == 0x1f) {
        let option = match word {
            b"-C" | b"--codegen" => {
                is_codegen = true;
                continue;
            }
            _ if is_codegen => Some(word),
            _ => (word.strip_prefix(b"-C")).or_else(|| word.strip_prefix(b"--codegen=")),
        };
        is_codegen = false;
        let Some(option) = option else { continue };
        if let Some(name) = option.strip_prefix(b"linker=") {
            linker = Some(name);
        }
        asks_for_ours |= option.starts_with(b"link-arg") && linker_dir::is_asked_for(option);
    }
    (linker, asks_for_ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_flags_ask_for() {
        let of = |words: &[&str]| {
            let flags = words.join("\u{1f}");
            let (linker, asks_for_ours) = wishes(flags.as_bytes());
            let linker = linker.map(|name| String::from_utf8_lossy(name).into_owned());
            (linker, asks_for_ours)
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(of(&[]), (None, false));
        assert_eq!(of(&["-Clinker=a", "-C", "linker=b"]), (named("b"), false));
        assert_eq!(
            of(&["--codegen=linker=b", "-Cdebuginfo=0"]),
            (named("b"), false)
        );
        assert_eq!(of(&["linker=b", "--cfg", "-Clinker"]), (None, false));
        assert_eq!(of(&["-Clink-arg=-fuse-ld=repo"]), (None, true));
        assert_eq!(
            of(&["-C", "link-args=-B/p/libexec/program-repository"]),
            (None, true)
        );
        assert_eq!(of(&["--cfg", "program-repository"]), (None, false));
        assert_eq!(of(&["-Clink-arg=-fuse-ld=mold"]), (None, false));
    }
}
