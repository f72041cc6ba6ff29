//! The base directory: two checkouts of a project share what was compiled, although their files have other paths.
//!
//! What the command line says of files below the base directory is said anew, from the working directory on, to the compiler and in the
//! key; so neither `__FILE__` nor the dependency file has the directory's path. The working directory itself gets into an object by debug
//! information, unless the build maps it away: then it is part of the key with the base directory's path taken out of it, and otherwise as it is.
//! At the end the object is searched for the path: what has it is not shared, however it came there.

use super::inputs;
use crate::cc::classify::{Compile, Word};
use crate::cc::options::Meaning;
use memchr::memmem;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Names the base directory.
pub const VARIABLE: &str = "REPO_CC_BASEDIR";

/// Stands for it in keys.
const MARK: u8 = 1;

/// Options with a path joined to them that is said anew.
const JOINED: &[&str] = &[
    "--output=",
    "-idirafter",
    "-imacros",
    "-include",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-MF",
    "-I",
    "-o",
];

/// Options that take paths out of debug information.
const MAPS: &[&str] = &["-fdebug-prefix-map=", "-ffile-prefix-map="];

/// The base directory, above the working directory.
#[derive(Clone, Debug)]
pub struct Base {
    /// As the user names it, and as it is called without symbolic links.
    names: Vec<PathBuf>,
    /// The working directory, without symbolic links.
    directory: PathBuf,
}

impl Base {
    /// The base directory that the environment names, if the working directory is below it.
    pub fn from_environment(directory: &Path) -> Option<Base> {
        let named = PathBuf::from(env::var_os(VARIABLE).filter(|name| !name.is_empty())?);
        Base::new(named, directory)
    }

    fn new(named: PathBuf, directory: &Path) -> Option<Base> {
        let real = fs::canonicalize(&named).ok()?;
        let is_usable = named.is_absolute() && real != Path::new("/");
        let mut names = vec![real];
        if names[0] != named {
            names.push(named);
        }
        let is_above = directory.starts_with(&names[0]);
        (is_usable && is_above).then(|| Base {
            names,
            directory: directory.to_owned(),
        })
    }

    /// What of a path is below the base directory.
    fn below<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.names
            .iter()
            .find_map(|name| path.strip_prefix(name).ok())
    }

    /// The path of the same file from the working directory on; `None` if it is not below the base directory.
    fn relative(&self, path: &[u8]) -> Option<Vec<u8>> {
        let below = self.below(inputs::path(path))?;
        if below.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let from = self.directory.strip_prefix(&self.names[0]).ok()?;
        let common = (from.components().zip(below.components()))
            .take_while(|(a, b)| a == b)
            .count();
        let mut out = PathBuf::new();
        for _ in from.components().skip(common) {
            out.push("..");
        }
        out.extend(below.components().skip(common));
        if out.as_os_str().is_empty() {
            out.push(".");
        }
        // Links on the way may make it another file.
        let id = |path: &Path| {
            let found = fs::metadata(path).ok()?;
            Some((found.dev(), found.ino()))
        };
        let old = inputs::path(path);
        let is_same = match id(old) {
            Some(old) => id(&self.directory.join(&out)) == Some(old),
            // An output that is yet to be.
            None => {
                let directory = |path: &Path| id(path.parent()?);
                let new = self.directory.join(&out);
                directory(old).is_some() && directory(old) == directory(&new)
            }
        };
        is_same.then(|| out.into_os_string().into_vec())
    }

    /// The arguments with paths below the base directory said anew.
    pub fn reword(&self, args: &mut [OsString], compile: &Compile) {
        let again = |arg: &mut OsString, start: usize| {
            let (option, path) = arg.as_bytes().split_at(start);
            if let Some(path) = self.relative(path) {
                *arg = OsString::from_vec([option, &path].concat());
            }
        };
        for source in &compile.sources {
            if let Some(arg) = args.get_mut(source.position) {
                again(arg, 0);
            }
        }
        for word in &compile.words {
            let is_of_file = match word.meaning {
                Meaning::Directory | Meaning::Header | Meaning::Output => true,
                Meaning::Dependencies => word.option.as_bytes().starts_with(b"-MF"),
                _ => false,
            };
            if !is_of_file {
                continue;
            }
            if word.arguments.len() == 1 {
                if let Some(arg) = args.get_mut(word.position + 1) {
                    again(arg, 0);
                }
            } else if let Some(option) =
                (JOINED.iter()).find(|option| word.option.as_bytes().starts_with(option.as_bytes()))
                && let Some(arg) = args.get_mut(word.position)
            {
                again(arg, option.len());
            }
        }
    }

    /// A path with a mark in place of the base directory's.
    pub fn marked(&self, path: &[u8]) -> Vec<u8> {
        match self.below(inputs::path(path)) {
            Some(below) => [&[MARK][..], below.as_os_str().as_bytes()].concat(),
            None => path.to_vec(),
        }
    }

    /// An argument with a mark in place of the base directory's path, where the key may have it so: in what is taken out of debug information.
    pub fn marked_argument(&self, arg: &OsStr) -> Vec<u8> {
        let text = arg.as_bytes();
        let map = MAPS.iter().find_map(|map| {
            let rest = text.strip_prefix(map.as_bytes())?;
            let end = memchr::memrchr(b'=', rest)?;
            Some((map, &rest[..end], &rest[end..]))
        });
        match map {
            Some((map, old, new)) => [map.as_bytes(), &self.marked(old), new].concat(),
            None => text.to_vec(),
        }
    }

    /// Whether bytes have the path of the base directory in them.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.names
            .iter()
            .any(|name| memmem::find(bytes, name.as_os_str().as_bytes()).is_some())
    }
}

/// Whether an object has the working directory in it, which a compiler takes for `directory`.
pub fn tells_directory(words: &[Word], directory: &Path) -> bool {
    let texts = || words.iter().map(|word| word.option.as_bytes());
    let is_debug = |text: &[u8]| {
        let is_for_assembler = text.starts_with(b"-Wa,")
            && [&b",-g"[..], b",--g"]
                .iter()
                .any(|it| memmem::find(text, it).is_some());
        // (Also compressed, where nobody finds the path.)
        is_for_assembler || (text.starts_with(b"-g") && text != b"-g0")
    };
    let is_mapped = |text: &[u8]| {
        if [&b"-fdebug-compilation-dir"[..], b"-ffile-compilation-dir"]
            .iter()
            .any(|option| text.starts_with(option))
        {
            return true;
        }
        MAPS.iter().any(|map| {
            let rest = text.strip_prefix(map.as_bytes()).unwrap_or_default();
            let old = memchr::memrchr(b'=', rest).map_or(&b""[..], |end| &rest[..end]);
            !old.is_empty() && directory.starts_with(inputs::path(old))
        })
    };
    texts().any(is_debug) && !texts().any(is_mapped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::classify::{Action, classify};
    use crate::cc::compiler::Family;

    fn compile(args: &[OsString]) -> Box<Compile> {
        match classify(Family::Gcc, args) {
            Action::Compile(compile) => compile,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn paths_are_said_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = fs::canonicalize(dir.path()).expect("there");
        for name in ["p/src", "p/inc", "p/out/x", "elsewhere"] {
            fs::create_dir_all(top.join(name)).expect("made");
        }
        fs::write(top.join("p/src/a.c"), "").expect("written");
        let base = Base::new(top.join("p"), &top.join("p/out")).expect("a base");
        let top = top.to_str().expect("UTF-8");
        let line = format!(
            "-I{top}/p/inc -isystem {top}/p/inc -I {top}/elsewhere -DX={top}/p/inc -include {top}/p/src/a.c \
             -MD -MF {top}/p/out/x/a.d -MT {top}/p/out/x/a.o -c {top}/p/src/a.c -o {top}/p/out/x/a.o"
        );
        let mut args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let compile = compile(&args);
        base.reword(&mut args, &compile);
        let said: Vec<_> = args
            .iter()
            .map(|arg| arg.to_str().expect("UTF-8"))
            .collect();
        let expected = format!(
            "-I../inc -isystem ../inc -I {top}/elsewhere -DX={top}/p/inc -include ../src/a.c -MD -MF x/a.d \
             -MT {top}/p/out/x/a.o -c ../src/a.c -o x/a.o"
        );
        assert_eq!(said.join(" "), expected);
        let map = format!("-fdebug-prefix-map={top}/p/out=/b");
        assert_eq!(
            base.marked_argument(OsStr::new(&map)),
            b"-fdebug-prefix-map=\x01out=/b"
        );
        assert!(base.is_in(format!("x{top}/p/y").as_bytes()));
        assert!(Base::new(format!("{top}/elsewhere").into(), Path::new(top)).is_none());
    }

    #[test]
    fn debug_information_tells_the_directory() {
        let tells = |line: &str| {
            let line = format!("{line} -c a.c");
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            tells_directory(&compile(&args).words, Path::new("/b/x"))
        };
        for line in [
            "-g",
            "-ggdb3",
            "-g0 -g",
            "-g -fdebug-prefix-map=/c=/d",
            "-Wa,-g",
            "-gz -g1",
        ] {
            assert!(tells(line), "{line}");
        }
        for line in [
            "-O2",
            "-g0",
            "-g -fdebug-prefix-map=/b=/d",
            "-g -ffile-prefix-map=/b/x=.",
        ] {
            assert!(!tells(line), "{line}");
        }
    }
}
