//! Where libraries are looked for.
//!
//! For `-l` (GNU ld's manual, "-L", "-l"): the directories of `-L` in order, then those of `SEARCH_DIR` in scripts, then
//! the default ones; in each, `libNAME.so` before `libNAME.a`. A leading `=` or `$SYSROOT` of a directory is the
//! sysroot, and the default directories are below it. For what a shared object needs (`DT_NEEDED`, "-rpath-link"):
//! `-rpath-link`, `-rpath`, `LD_RUN_PATH` if neither is given, `LD_LIBRARY_PATH`, the object's own `DT_RUNPATH` or
//! `DT_RPATH`, `/etc/ld.so.conf`, the default directories.
//!
//! A search yields candidates in order, and the caller takes the first that suits: GNU ld passes over libraries of
//! another machine.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::args::Args;
use crate::args::environment::Environment;
use crate::base::glob::{Glob, has_wildcard};

/// The directories that GNU ld on Debian (x86-64) searches, below the sysroot.
pub const DEFAULT_DIRECTORIES: &[&str] = &[
    "/usr/local/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu64",
    "/usr/local/lib64",
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/usr/lib",
    "/usr/x86_64-linux-gnu/lib64",
    "/usr/x86_64-linux-gnu/lib",
];

/// `ld.so.conf` files include each other at most this deep.
const MAX_CONF_DEPTH: usize = 8;

/// The search path of a link.
#[derive(Debug)]
pub struct Search {
    sysroot: Option<PathBuf>,
    /// The sysroot without symbolic links, to see what is in it.
    real_sysroot: Option<PathBuf>,
    /// `-L` and then `SEARCH_DIR`, with the sysroot put in.
    directories: Vec<PathBuf>,
    defaults: Vec<PathBuf>,
    rpath_link: Vec<PathBuf>,
    rpath: Vec<PathBuf>,
    environment: Environment,
    /// Directories of `ld.so.conf`, read when first needed.
    conf: OnceLock<Vec<PathBuf>>,
}

/// A shared object that needs another.
#[derive(Clone, Copy, Debug)]
pub struct Needing<'a> {
    /// Its path, for `$ORIGIN`.
    pub path: &'a Path,
    /// Its `DT_RPATH`.
    pub rpath: Option<&'a [u8]>,
    /// Its `DT_RUNPATH`; if there is one, `DT_RPATH` does not count.
    pub runpath: Option<&'a [u8]>,
}

impl Search {
    /// The search path that the command line asks for.
    pub fn new(args: &Args, environment: Environment) -> Search {
        let sysroot = args.sysroot.clone();
        let mut search = Search {
            real_sysroot: sysroot.as_ref().and_then(|path| path.canonicalize().ok()),
            sysroot,
            directories: Vec::new(),
            defaults: Vec::new(),
            rpath_link: args.rpath_link.clone(),
            rpath: args
                .rpath
                .iter()
                .filter(|path| !path.is_empty())
                .map(|path| OsStr::from_bytes(path).into())
                .collect(),
            environment,
            conf: OnceLock::new(),
        };
        search.directories = args
            .library_paths
            .iter()
            .map(|path| search.in_sysroot_if_marked(path))
            .collect();
        if !args.nostdlib {
            search.defaults = DEFAULT_DIRECTORIES
                .iter()
                .map(|path| search.below_sysroot(Path::new(path)))
                .collect();
        }
        search
    }

    /// `SEARCH_DIR` of a linker script: after `-L`, before the default directories.
    pub fn add_directory(&mut self, directory: &[u8]) {
        let directory = self.in_sysroot_if_marked(Path::new(OsStr::from_bytes(directory)));
        self.directories.push(directory);
    }

    /// All directories that `-l` searches, in order.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories
            .iter()
            .chain(&self.defaults)
            .map(PathBuf::as_path)
    }

    /// The files that `-lNAME` can mean, in order. With `static_only` shared objects do not count.
    pub fn library<'a>(
        &'a self,
        name: &OsStr,
        static_only: bool,
    ) -> impl Iterator<Item = PathBuf> + 'a {
        let file = |suffix: &str| {
            let mut file = OsString::from("lib");
            file.push(name);
            file.push(suffix);
            file
        };
        let shared = (!static_only).then(|| file(".so"));
        let archive = file(".a");
        let candidates = self.directories().flat_map(move |directory| {
            let shared = shared.as_ref().map(|file| directory.join(file));
            shared.into_iter().chain([directory.join(&archive)])
        });
        candidates.filter(|path| path.is_file())
    }

    /// The files that `-l:FILE` can mean, in order.
    pub fn library_file<'a>(&'a self, file: &OsStr) -> impl Iterator<Item = PathBuf> + 'a {
        let file = file.to_os_string();
        self.directories()
            .map(move |directory| directory.join(&file))
            .filter(|path| path.is_file())
    }

    /// A file named by `INPUT` or `GROUP` of a linker script ("File Commands" in the manual): a path that begins with
    /// `=` or `$SYSROOT`, or with `/` in a script that lies in the sysroot, is below the sysroot; others are looked for
    /// beside the script, in the current directory, and on the search path.
    pub fn script_input(&self, file: &[u8], script: &Path) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(file));
        if let Some(rest) = after_sysroot_mark(path) {
            let inside = self.below_sysroot(&rest);
            // Without a sysroot it is a name as any other.
            return match inside.is_file() {
                true => Some(inside),
                false if rest.is_relative() => self.library_file(rest.as_os_str()).next(),
                false => None,
            };
        }
        if path.is_absolute() {
            if self.is_in_sysroot(script) {
                let inside = self.below_sysroot(path);
                if inside.is_file() {
                    return Some(inside);
                }
            }
            return Some(path.to_path_buf()).filter(|path| path.is_file());
        }
        let beside = script.parent().unwrap_or(Path::new("")).join(path);
        let direct = [beside, path.to_path_buf()]
            .into_iter()
            .find(|path| path.is_file());
        direct.or_else(|| self.library_file(path.as_os_str()).next())
    }

    /// A script named by `-T` or `INCLUDE`: in the current directory, then in the directories of `-L`.
    pub fn script(&self, file: &Path) -> Option<PathBuf> {
        if file.is_file() {
            return Some(file.to_path_buf());
        }
        self.directories
            .iter()
            .map(|directory| directory.join(file))
            .find(|path| path.is_file())
    }

    /// The files that a `DT_NEEDED` entry can mean, in order.
    pub fn needed<'a>(
        &'a self,
        soname: &'a OsStr,
        by: Needing<'a>,
    ) -> Box<dyn Iterator<Item = PathBuf> + 'a> {
        // A name with a slash is a path, as for the dynamic linker.
        if soname.as_bytes().contains(&b'/') {
            return Box::new(
                Some(PathBuf::from(soname))
                    .filter(|path| path.is_file())
                    .into_iter(),
            );
        }
        let expand = move |list: &[u8]| -> Vec<PathBuf> {
            list.split(|byte| *byte == b':')
                .map(|path| expand_tokens(path, by.path))
                .collect()
        };
        let own = by.runpath.or(by.rpath).map(expand).unwrap_or_default();
        let listed = |list: &Option<OsString>| {
            list.as_ref()
                .map(|list| expand(list.as_bytes()))
                .unwrap_or_default()
        };
        let asked = || {
            self.rpath_link
                .iter()
                .chain(&self.rpath)
                .map(|path| expand_tokens(path.as_os_str().as_bytes(), by.path))
        };
        let run_path = if self.rpath.is_empty() && self.rpath_link.is_empty() {
            listed(&self.environment.run_path)
        } else {
            Vec::new()
        };
        let library_path = listed(&self.environment.library_path);
        let first: Vec<PathBuf> = asked()
            .chain(run_path)
            .chain(library_path)
            .chain(own)
            .collect();
        Box::new(
            first
                .into_iter()
                .chain(self.conf_directories().iter().cloned())
                .chain(self.directories.iter().cloned())
                .chain(self.defaults.iter().cloned())
                .map(move |directory| directory.join(soname))
                .filter(|path| path.is_file()),
        )
    }

    fn conf_directories(&self) -> &[PathBuf] {
        self.conf.get_or_init(|| {
            let mut directories = Vec::new();
            read_conf(
                &self.below_sysroot(Path::new("/etc/ld.so.conf")),
                0,
                &mut directories,
            );
            directories
                .iter()
                .map(|path| self.below_sysroot(path))
                .collect()
        })
    }

    fn below_sysroot(&self, path: &Path) -> PathBuf {
        match &self.sysroot {
            Some(sysroot) => sysroot.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_path_buf(),
        }
    }

    fn in_sysroot_if_marked(&self, path: &Path) -> PathBuf {
        after_sysroot_mark(path)
            .map_or_else(|| path.to_path_buf(), |rest| self.below_sysroot(&rest))
    }

    fn is_in_sysroot(&self, file: &Path) -> bool {
        match &self.real_sysroot {
            Some(sysroot) => file
                .canonicalize()
                .is_ok_and(|file| file.starts_with(sysroot)),
            None => false,
        }
    }
}

/// What follows a leading `=` or `$SYSROOT`.
fn after_sysroot_mark(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let rest = bytes
        .strip_prefix(b"=")
        .or_else(|| bytes.strip_prefix(b"$SYSROOT"))?;
    Some(OsString::from_vec(rest.to_vec()).into())
}

/// Replaces `$ORIGIN` and `$LIB` (and `${ORIGIN}`, `${LIB}`) in a run-time search path.
fn expand_tokens(path: &[u8], object: &Path) -> PathBuf {
    let origin = object
        .canonicalize()
        .unwrap_or_else(|_| object.to_path_buf());
    let origin = origin
        .parent()
        .unwrap_or(Path::new(""))
        .as_os_str()
        .as_bytes();
    let tokens: [(&[u8], &[u8]); 4] = [
        (b"$ORIGIN", origin),
        (b"${ORIGIN}", origin),
        (b"$LIB", b"lib64"),
        (b"${LIB}", b"lib64"),
    ];
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        match tokens.iter().find(|(token, _)| rest.starts_with(token)) {
            Some((token, value)) => {
                out.extend_from_slice(value);
                rest = &rest[token.len()..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    // An empty element of a list is the current directory.
    if out.is_empty() {
        PathBuf::from(".")
    } else {
        OsString::from_vec(out).into()
    }
}

/// Reads a file in the format of `ld.so.conf(5)`: directories, `include PATTERN`, `#` comments. What cannot be read
/// counts as empty, as for the dynamic linker.
fn read_conf(file: &Path, depth: usize, directories: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read(file) else {
        return;
    };
    for line in text.split(|byte| *byte == b'\n') {
        let line = line
            .split(|byte| *byte == b'#')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        if let Some(pattern) = line
            .strip_prefix(b"include")
            .filter(|rest| rest.starts_with(b" ") || rest.starts_with(b"\t"))
        {
            if depth < MAX_CONF_DEPTH {
                for pattern in pattern
                    .split(u8::is_ascii_whitespace)
                    .filter(|pattern| !pattern.is_empty())
                {
                    let pattern = file
                        .parent()
                        .unwrap_or(Path::new("/"))
                        .join(OsStr::from_bytes(pattern));
                    matching_files(&pattern)
                        .iter()
                        .for_each(|path| read_conf(path, depth + 1, directories));
                }
            }
        } else if line.starts_with(b"/") {
            directories.push(OsStr::from_bytes(line).into());
        }
    }
}

/// The files that match a path whose last part may have wildcards, sorted.
fn matching_files(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().unwrap_or_default().as_bytes();
    if !has_wildcard(name) {
        return vec![pattern.to_path_buf()];
    }
    let glob = Glob::new(name);
    let Some(Ok(entries)) = pattern.parent().map(std::fs::read_dir) else {
        return Vec::new();
    };
    let found = entries
        .flatten()
        .filter(|entry| glob.matches(entry.file_name().as_bytes()));
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn tree(files: &[&str]) -> TempDir {
        let dir = TempDir::new().unwrap();
        for file in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    fn search(words: &[String], environment: Environment) -> Search {
        Search::new(
            &Args::parse(words.iter().map(OsString::from)).unwrap(),
            environment,
        )
    }

    fn relative(dir: &TempDir, paths: impl Iterator<Item = PathBuf>) -> Vec<String> {
        let root = dir.path().canonicalize().unwrap();
        let strip = |path: PathBuf| {
            path.strip_prefix(dir.path())
                .or(path.strip_prefix(&root))
                .map(|path| path.display().to_string())
        };
        paths.filter_map(|path| strip(path).ok()).collect()
    }

    #[test]
    fn shared_before_archive_in_each_directory() {
        let dir = tree(&["a/libx.a", "b/libx.so", "b/libx.a", "b/libx.so.1"]);
        let at = |name: &str| format!("-L{}", dir.path().join(name).display());
        let search = search(
            &[at("a"), at("b"), "-nostdlib".into()],
            Environment::default(),
        );
        assert_eq!(
            relative(&dir, search.library(OsStr::new("x"), false)),
            ["a/libx.a", "b/libx.so", "b/libx.a"]
        );
        assert_eq!(
            relative(&dir, search.library(OsStr::new("x"), true)),
            ["a/libx.a", "b/libx.a"]
        );
        assert_eq!(
            relative(&dir, search.library_file(OsStr::new("libx.so.1"))),
            ["b/libx.so.1"]
        );
        assert_eq!(search.library(OsStr::new("y"), false).count(), 0);
    }

    #[test]
    fn the_sysroot() {
        let dir = tree(&[
            "root/usr/lib/libc.so",
            "root/opt/liby.a",
            "root/lib/libc.so.6",
        ]);
        let root = dir.path().join("root");
        let words = [
            format!("--sysroot={}", root.display()),
            "-L=/opt".into(),
            "-L$SYSROOT/opt".into(),
        ];
        let search = search(&words, Environment::default());
        assert_eq!(
            relative(&dir, search.library(OsStr::new("c"), false)),
            ["root/usr/lib/libc.so"]
        );
        assert_eq!(
            relative(&dir, search.library(OsStr::new("y"), false)),
            ["root/opt/liby.a", "root/opt/liby.a"]
        );
        // An absolute name in a script that is in the sysroot is in the sysroot too.
        let inside = search.script_input(b"/lib/libc.so.6", &root.join("usr/lib/libc.so"));
        assert_eq!(relative(&dir, inside.into_iter()), ["root/lib/libc.so.6"]);
        let outside = tree(&["script"]);
        assert_eq!(
            search.script_input(b"/lib/no-such-file.so", &outside.path().join("script")),
            None
        );
        assert_eq!(
            relative(
                &dir,
                search
                    .script_input(b"=/lib/libc.so.6", Path::new("s"))
                    .into_iter()
            ),
            ["root/lib/libc.so.6"]
        );
    }

    /// Without a sysroot, what follows the mark is a name as any other.
    #[test]
    fn marks_without_a_sysroot() {
        let dir = tree(&["l/sub/a.o"]);
        let directory = dir.path().join("l");
        let search = search(
            &[format!("-L{}", directory.display())],
            Environment::default(),
        );
        for name in ["=sub/a.o", "$SYSROOTsub/a.o"] {
            let found = search.script_input(name.as_bytes(), Path::new("s"));
            assert_eq!(relative(&dir, found.into_iter()), ["l/sub/a.o"], "{name}");
        }
        assert_eq!(search.script_input(b"=/sub/a.o", Path::new("s")), None);
    }

    #[test]
    fn inputs_of_scripts_are_looked_for_beside_the_script_then_on_the_path() {
        let dir = tree(&["s/script", "s/a.o", "l/b.o"]);
        let search = search(
            &[format!("-L{}", dir.path().join("l").display())],
            Environment::default(),
        );
        let script = dir.path().join("s/script");
        assert_eq!(
            relative(&dir, search.script_input(b"a.o", &script).into_iter()),
            ["s/a.o"]
        );
        assert_eq!(
            relative(&dir, search.script_input(b"b.o", &script).into_iter()),
            ["l/b.o"]
        );
        assert_eq!(search.script_input(b"c.o", &script), None);
    }

    #[test]
    fn needed_objects() {
        let dir = tree(&[
            "link/liba.so",
            "run/liba.so",
            "run/libb.so",
            "env/libb.so",
            "own/libc.so",
            "own/x.so",
            "rp/libc.so",
        ]);
        let at = |name: &str| dir.path().join(name).display().to_string();
        let words = [
            "-nostdlib".into(),
            "-rpath-link".into(),
            at("link"),
            "-rpath".into(),
            at("run"),
        ];
        let environment = Environment {
            library_path: Some(at("env").into()),
            run_path: Some(at("rp").into()),
        };
        let search = search(&words, environment);
        let needing = dir.path().join("own/x.so");
        let old = at("rp");
        let by = Needing {
            path: &needing,
            rpath: Some(old.as_bytes()),
            runpath: Some(b"/nowhere:$ORIGIN"),
        };
        let find = |name: &str| {
            relative(
                &dir,
                search
                    .needed(OsStr::new(name), by)
                    .collect::<Vec<_>>()
                    .into_iter(),
            )
        };
        assert_eq!(find("liba.so"), ["link/liba.so", "run/liba.so"]);
        assert_eq!(find("libb.so"), ["run/libb.so", "env/libb.so"]);
        assert_eq!(
            find("libc.so"),
            ["own/libc.so"],
            "DT_RPATH and LD_RUN_PATH do not count here"
        );
        let by = Needing {
            runpath: None,
            ..by
        };
        let paths: Vec<_> = search.needed(OsStr::new("libc.so"), by).collect();
        assert_eq!(relative(&dir, paths.into_iter()), ["rp/libc.so"]);
    }

    #[test]
    fn directories_of_ld_so_conf() {
        let dir = tree(&["root/x/libq.so.1", "root/y/libq.so.1"]);
        let etc = dir.path().join("root/etc/ld.so.conf.d");
        std::fs::create_dir_all(&etc).unwrap();
        std::fs::write(
            dir.path().join("root/etc/ld.so.conf"),
            "# c\ninclude ld.so.conf.d/*.conf\n/y # d\n",
        )
        .unwrap();
        std::fs::write(etc.join("1.conf"), "/x\n").unwrap();
        std::fs::write(etc.join("2.other"), "/z\n").unwrap();
        let search = search(
            &[format!("--sysroot={}", dir.path().join("root").display())],
            Environment::default(),
        );
        let by = Needing {
            path: Path::new("a.so"),
            rpath: None,
            runpath: None,
        };
        let paths: Vec<_> = search.needed(OsStr::new("libq.so.1"), by).collect();
        assert_eq!(
            relative(&dir, paths.into_iter()),
            ["root/x/libq.so.1", "root/y/libq.so.1"]
        );
    }
}
