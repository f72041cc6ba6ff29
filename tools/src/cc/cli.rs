//! `repo-cc`'s own command line.
//!
//! Our options stand before the compiler's name; everything from the name on
//! belongs to the compiler. As a link with a compiler's name we have no options
//! at all. Where the compiler's arguments follow without a name, as in the calls
//! of tools that take only the first word of `CC`, it is `cc`.

use super::classify::has_suffix_of_input;
use super::compiler::{Name, OWN_NAME, behind_one_word};
use super::tool::Tool;
use clap::{Parser, ValueHint};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Runs a compiler and keeps what it defines in a repository.
///
/// Objects that COMPILER writes with -c are replaced by tickets, small ELF
/// objects that name what the repository holds; links are done by repo-ld.
/// Everything else (dependency files, diagnostics, exit codes) is the
/// compiler's own. Use it as CC="repo-cc gcc", through links with compilers'
/// names (--install-links) in front of PATH, or with CMake as both
/// CMAKE_C_COMPILER_LAUNCHER and CMAKE_C_LINKER_LAUNCHER (and CXX likewise).
/// It may run ar and ranlib likewise (AR="repo-cc ar"): archives of tickets are
/// then known to repo-gc; and objcopy and strip, for which tickets become objects.
/// For tools that take all of CC for the name of one program there are the links
/// repo-gcc, repo-g++, repo-clang and repo-clang++ (CC=repo-gcc). Where COMPILER
/// is missing (the first word is an option that is not listed here, or a file
/// with the suffix of a source or object), it is cc.
#[derive(Debug, Parser)]
#[command(
    name = "repo-cc",
    version,
    override_usage = "repo-cc [OPTIONS] COMPILER [ARGUMENTS]...\n       repo-cc [OPTIONS] ARGUMENTS...\n       repo-cc --install-links DIR [NAMES]...",
    after_help = "The manual: man repo-cc"
)]
pub struct Options {
    /// The repository [default: $REPO_FILE, else the nearest program.repo in
    /// the output's directory or above that belongs to you or root and that
    /// nobody else may write, else the one of each user]
    #[arg(long, value_name = "FILE")]
    pub repo: Option<PathBuf>,

    /// Append one line about each command to this file [default: $REPO_LOG]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Say on standard error what is done, and why not
    #[arg(long, short)]
    pub verbose: bool,

    /// Leave whole objects, which every linker takes and which may be given
    /// away, with a note of what the repository holds, so that repo-ld links
    /// them as it does tickets [default: if $REPO_CC_FAT is set, and not to 0]
    #[arg(long)]
    pub fat: bool,

    /// The object is for a link of the same call only: its ticket is not on record
    #[arg(long, hide = true)]
    pub temporary: bool,

    /// Say on standard error whether the compile was skipped, and why not;
    /// and what became of each definition, if single ones may be
    #[arg(long)]
    pub explain: bool,

    /// Have clang 19 leave out the definitions that the repository has (as it
    /// does), compile all of it as well, compare everything, and fail if
    /// anything differs; the object is right then, too
    #[arg(long)]
    pub verify: bool,

    /// Show how often compiles were skipped, and why not, with the repository
    /// of this directory
    #[arg(long)]
    pub show_stats: bool,

    /// With --show-stats: as JSON
    #[arg(long, requires = "show_stats")]
    pub json: bool,

    /// Set what --show-stats shows to zero
    #[arg(long)]
    pub zero_stats: bool,

    /// Make links with the names of compilers to this program, to be put in
    /// front of PATH: with NAMES, or those of all compilers on PATH and the
    /// one-word names of these, of ar, ranlib and gcc's names for them, of
    /// objcopy and strip, and of ld (which leads to repo-ld)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub install_links: Option<PathBuf>,

    /// The compiler and its arguments
    #[arg(
        value_name = "COMPILER",
        trailing_var_arg = true,
        required_unless_present_any = ["install_links", "show_stats", "zero_stats"],
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// Reads the words that this process was started with. Ends the process for
/// `--help`, `--version` and wrong options, as clap does.
///
/// Who has us in `CC` and as a launcher calls us twice in one command: that is one call, with the options of both.
pub fn read(words: impl IntoIterator<Item = OsString>) -> Options {
    let mut options = read_once(words);
    let is_own = |word: &OsString| {
        let name = Path::new(word).file_name();
        name == Some(OsStr::new(OWN_NAME)) || behind_one_word(word).is_some()
    };
    while options.install_links.is_none() && options.command.first().is_some_and(is_own) {
        let inner = read_once(options.command);
        options = Options {
            repo: inner.repo.or(options.repo),
            log: inner.log.or(options.log),
            verbose: options.verbose || inner.verbose,
            fat: options.fat || inner.fat,
            temporary: options.temporary || inner.temporary,
            explain: options.explain || inner.explain,
            verify: options.verify || inner.verify,
            ..inner
        };
    }
    options
}

fn read_once(words: impl IntoIterator<Item = OsString>) -> Options {
    let mut words = words.into_iter();
    let own_name = words.next().unwrap_or_default();
    let rest: Vec<OsString> = words.collect();
    let plain = |command: Vec<OsString>| Options {
        repo: None,
        log: None,
        verbose: false,
        fat: false,
        temporary: false,
        explain: false,
        verify: false,
        show_stats: false,
        json: false,
        zero_stats: false,
        install_links: None,
        command,
    };
    if is_compiler_link(&own_name) {
        // The name without its directory is looked for on PATH again.
        let name = Path::new(&own_name)
            .file_name()
            .unwrap_or(&own_name)
            .to_owned();
        return plain([name].into_iter().chain(rest).collect());
    }
    if let Some(compiler) = behind_one_word(&own_name) {
        return plain([compiler.into()].into_iter().chain(rest).collect());
    }
    let mut rest = rest;
    if let Some(at) = missing_compiler(&rest) {
        rest.insert(at, DEFAULT_COMPILER.into());
    }
    match rest.first() {
        // Without options of ours there is nothing for clap to do.
        Some(first) if !first.is_empty() && !first.as_bytes().starts_with(b"-") => plain(rest),
        _ => Options::parse_from([own_name].into_iter().chain(rest)),
    }
}

/// The compiler of a command line that names none.
const DEFAULT_COMPILER: &str = "cc";

/// Where the compiler's name is missing: before the first word that is not one of our options, if that is an option or a
/// file that compilers take. `None` where there is no such word, or it may be a program.
fn missing_compiler(words: &[OsString]) -> Option<usize> {
    let mut at = 0;
    loop {
        let word = words.get(at)?;
        let bytes = word.as_bytes();
        at += match bytes {
            b"--repo" | b"--log" => 2,
            b"--verbose" | b"-v" | b"--fat" | b"--explain" | b"--verify" | b"--temporary" => 1,
            // Answers and the making of links are no command's; what follows -- is one.
            b"--install-links" | b"--show-stats" | b"--zero-stats" | b"--json" => return None,
            b"--help" | b"-h" | b"--version" | b"-V" | b"--" => return None,
            _ if bytes.starts_with(b"--install-links=") => return None,
            _ if bytes.starts_with(b"--repo=") || bytes.starts_with(b"--log=") => 1,
            _ => break,
        };
    }
    let word = words.get(at)?;
    let is_argument = match word.as_bytes() {
        [b'-', ..] => true,
        // A file of arguments.
        [b'@', file @ ..] => Path::new(OsStr::from_bytes(file)).is_file(),
        _ => has_suffix_of_input(word) && Name::parse(word).is_none() && Path::new(word).is_file(),
    };
    is_argument.then_some(at)
}

/// Whether we were called by the name of a compiler, or of an archiver.
fn is_compiler_link(own_name: &OsStr) -> bool {
    Name::parse(own_name).is_some() || Tool::parse(own_name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn clap_accepts_the_definition() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_end_at_the_compiler() {
        let options = read(words("/bin/repo-cc gcc --version --verbose --repo x"));
        assert_eq!(options.command, words("gcc --version --verbose --repo x"));
        assert!(!options.verbose && options.repo.is_none());
        let options = read(words("repo-cc --verbose --repo r gcc -c a.c --log y -- -z"));
        assert_eq!(options.command, words("gcc -c a.c --log y -- -z"));
        assert!(options.verbose);
        assert_eq!(options.repo, Some("r".into()));
        assert!(options.log.is_none());
        let options = read(words("repo-cc --install-links d"));
        assert_eq!(options.install_links, Some("d".into()));
        let options = read(words("repo-cc --install-links d gcc clang"));
        assert_eq!(options.install_links, Some("d".into()));
        assert_eq!(options.command, words("gcc clang"));
    }

    #[test]
    fn without_a_compiler_it_is_cc() {
        let options = read(words("repo-cc -c a.c --verbose"));
        assert_eq!(options.command, words("cc -c a.c --verbose"));
        let options = read(words("repo-cc --verbose --fat --repo=r --log l -O2 -c a.c"));
        assert_eq!(options.command, words("cc -O2 -c a.c"));
        assert!(options.fat && options.verbose && options.repo.is_some() && options.log.is_some());
        let file = tempfile::Builder::new()
            .suffix(".c")
            .tempfile()
            .expect("a file");
        let name = file.path().to_str().expect("UTF-8");
        let options = read(words(&format!("repo-cc {name} -o a")));
        assert_eq!(options.command, words(&format!("cc {name} -o a")));
        // What is not there may be a program, and so may what has no such suffix.
        for line in ["missing.c -o a", "make all", "/bin/sh -c true"] {
            assert_eq!(read(words(&format!("repo-cc {line}"))).command, words(line));
        }
        assert_eq!(read(words("repo-cc -- gcc -c")).command, words("gcc -c"));
    }

    #[test]
    fn one_word_names_have_no_options_of_ours() {
        let options = read(words("/links/repo-gcc --verbose -c a.c"));
        assert_eq!(options.command, words("gcc --verbose -c a.c"));
        let options = read(words("repo-clang++ -v"));
        assert_eq!(options.command, words("clang++ -v"));
    }

    #[test]
    fn two_of_us_are_one() {
        let options = read(words("repo-cc --fat /bin/repo-cc --repo r g++ -c a.cc"));
        assert_eq!(options.command, words("g++ -c a.cc"));
        assert!(options.fat && options.repo == Some("r".into()));
        let options = read(words("repo-cc --repo r /bin/repo-g++ --fat"));
        assert_eq!(options.command, words("g++ --fat"));
        assert!(!options.fat && options.repo == Some("r".into()));
        let options = read(words("repo-cc repo-cc repo-cc -c a.c"));
        assert_eq!(options.command, words("cc -c a.c"));
        let options = read(words("repo-cc --show-stats"));
        assert!(options.show_stats && options.command.is_empty());
    }

    #[test]
    fn links_have_no_options_of_ours() {
        let options = read(words("/links/gcc-12 --version"));
        assert_eq!(options.command, words("gcc-12 --version"));
        let options = read(words("/links/gcc-ar -rcs --verbose x.a"));
        assert_eq!(options.command, words("gcc-ar -rcs --verbose x.a"));
        let options = read(words("clang++ --verbose"));
        assert_eq!(options.command, words("clang++ --verbose"));
        assert!(!options.verbose);
    }
}
