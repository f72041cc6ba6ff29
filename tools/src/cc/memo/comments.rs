//! A source without its comments: two texts of which this is the same are the same to a compiler, but for where things stand.
//!
//! A text is read once, from its start to its end. Literals and all that is neither a comment nor blank stay as they are; of a comment there is left
//! how wide it is, where more follows in its line, and blanks at the end of a line are nothing. Then lines of which nothing is left are left out; or,
//! where lines are to keep their numbers, are empty lines. (SPEC.md, section 27, says it byte by byte.)
//!
//! Compilers differ in how they read some texts: raw literals, trigraphs, quotes in numbers. Such a text has nothing of this kind,
//! rather than something wrong. Comments that compilers heed stay as they are: those that say of a `case` that the one before falls into it, those
//! in which another one seems to begin, and those that are not ASCII.

use super::text::{is_blank, is_part};
use format_spec::digest::Digest;
use format_spec::kinds::TextKeeps;
use memchr::{memchr, memmem};

/// What is to stay where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeps {
    /// The order: lines may have other numbers.
    Order,
    /// The number of each line, and where in it something stands.
    Places,
}

impl Keeps {
    /// As it is said in conditions; `None`: all bytes.
    pub fn of(keeps: TextKeeps) -> Option<Keeps> {
        match keeps {
            TextKeeps::Order => Some(Keeps::Order),
            TextKeeps::Places | TextKeeps::PlacesOrMoved => Some(Keeps::Places),
            TextKeeps::BytesOrMoved => None,
        }
    }
}

/// Stands for the end of a line inside of a comment behind which its line goes on.
pub const INNER_LINE: u8 = 1;
/// Stands at the end of a text whose last line does not end.
const NO_LAST_LINE: u8 = 2;

/// The digest of a text without comments; `None` if it is not told where they are.
pub fn digest(text: &[u8], keeps: Keeps) -> Option<Digest> {
    without(text, keeps).map(|rest| Digest::of(&rest))
}

/// The text without comments; `None` if it is not told where they are.
pub fn without(text: &[u8], keeps: Keeps) -> Option<Vec<u8>> {
    // (`??/` is a backslash, `??'` no quote, where there are trigraphs.)
    let is_in = |what: &[u8]| memmem::find(text, what).is_some();
    let strange: [&[u8]; 4] = [b"??/", b"??'", &[INNER_LINE], &[NO_LAST_LINE]];
    // (To clang a carriage return ends a line also by itself.)
    let mut returns = memchr::memchr_iter(b'\r', text);
    if strange.into_iter().any(is_in) || returns.any(|at| text.get(at + 1) != Some(&b'\n')) {
        return None;
    }
    let mut reader = Reader {
        text,
        at: 0,
        out: Vec::with_capacity(text.len()),
        keeps,
        line: 0,
        directive: Directive::None,
        goes_on: false,
        has_tokens: false,
    };
    // A byte order mark.
    if text.starts_with(b"\xef\xbb\xbf") {
        reader.copy(3);
    }
    while reader.at < text.len() {
        reader.step()?;
    }
    if reader.out.len() > reader.line {
        reader.end_line(false)?;
    }
    if text.last().is_some_and(|last| *last != b'\n') {
        reader.out.push(NO_LAST_LINE);
    }
    Some(reader.out)
}

/// Whether a comment stands further left than what comes next. To gcc that says that the code before it has ended: without it,
/// `-Wmisleading-indentation` may say something of the code.
pub fn unindents(text: &[u8]) -> bool {
    let Some(placed) = without(text, Keeps::Places).filter(|it| memchr(INNER_LINE, it).is_none())
    else {
        return true;
    };
    let lines = |text| <[u8]>::split(text, |byte: &u8| *byte == b'\n');
    let mut leftmost = usize::MAX;
    lines(text)
        .zip(lines(&placed))
        .any(|(line, rest)| match (column(rest), column(line)) {
            (Some(column), _) => std::mem::replace(&mut leftmost, usize::MAX) < column,
            (None, Some(column)) => {
                leftmost = leftmost.min(column);
                false
            }
            (None, None) => false,
        })
}

/// In which column a line begins, as it is shown; `None` if nothing stands in it.
fn column(line: &[u8]) -> Option<usize> {
    const TAB: usize = 8;
    let mut column = 0;
    for byte in line {
        match byte {
            b'\t' => column = (column / TAB + 1) * TAB,
            byte if is_blank(*byte) => column += 1,
            _ => return Some(column),
        }
    }
    None
}

/// Which directive the line that is read is, with those before that go on in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    None,
    /// Its `#` was read.
    Begun,
    /// One that names a file.
    Include,
    Other,
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    out: Vec<u8>,
    keeps: Keeps,
    /// Where the line begins in `out`.
    line: usize,
    directive: Directive,
    /// Whether the line before goes on in this one.
    goes_on: bool,
    /// Whether more than blanks and comments was read of it, and of those that go on in it.
    has_tokens: bool,
}

/// The end of a line that goes on in the next one at the start of this text, which is behind a backslash: how many bytes it has, blanks before it included.
fn line_end(rest: &[u8]) -> Option<usize> {
    let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
    (rest.get(blanks) == Some(&b'\n')).then_some(blanks + 1)
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    /// What is left of this line in the text.
    fn rest_of_line(&self) -> &[u8] {
        let rest = self.rest();
        &rest[..memchr(b'\n', rest).unwrap_or(rest.len())]
    }

    fn copy(&mut self, count: usize) {
        self.out
            .extend_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
    }

    fn step(&mut self) -> Option<()> {
        let rest = self.rest();
        match rest[0] {
            b'\n' => {
                self.end_line(true)?;
                self.at += 1;
                return Some(());
            }
            b'\\' if line_end(&rest[1..]).is_some() => {
                self.copy(1);
                return Some(());
            }
            byte if is_blank(byte) => {
                self.copy(1);
                return Some(());
            }
            b'/' => match rest.get(1) {
                Some(b'/') => return self.line_comment(),
                Some(b'*') => return self.block_comment(),
                // A comment whose start is in two lines.
                Some(b'\\') if line_end(&rest[2..]).is_some() => return None,
                _ => self.copy(1),
            },
            b'"' => self.literal(b'"')?,
            b'\'' => self.literal(b'\'')?,
            b'<' if self.directive != Directive::None => self.angled()?,
            b'#' | b'%' | b'?' if !self.has_tokens => self.hash(),
            byte if is_part(byte) => self.word()?,
            _ => self.copy(1),
        }
        self.has_tokens = true;
        Some(())
    }

    /// The start of a directive, perhaps.
    fn hash(&mut self) {
        let rest = self.rest();
        let signs: [&[u8]; 3] = [b"#", b"%:", b"??="];
        match signs.iter().find(|sign| rest.starts_with(sign)) {
            Some(sign) => {
                self.directive = Directive::Begun;
                self.copy(sign.len());
            }
            None => self.copy(1),
        }
    }

    /// An identifier or a number.
    fn word(&mut self) -> Option<()> {
        let rest = self.rest();
        let is_number = rest[0].is_ascii_digit();
        let size = rest.iter().take_while(|byte| is_part(**byte)).count();
        let word = &rest[..size];
        let next = rest.get(size).copied();
        // A raw literal, where there are such.
        if next == Some(b'"') && [&b"R"[..], b"LR", b"uR", b"UR", b"u8R"].contains(&word) {
            return None;
        }
        let is_separator = is_number
            && next == Some(b'\'')
            && rest.get(size + 1).is_some_and(|byte| is_part(*byte));
        if self.directive == Directive::Begun {
            // Its name goes on in the next line.
            if next == Some(b'\\') {
                return None;
            }
            self.directive = match word {
                b"include" | b"include_next" | b"import" | b"embed" => Directive::Include,
                _ => Directive::Other,
            };
        }
        if is_separator {
            // Or the start of a literal: then it matters what is in the rest of the line.
            self.at += size;
            let line = self.rest_of_line();
            let matters = memchr::memchr3(b'"', b'/', b'\\', line).is_some();
            self.at -= size;
            if matters {
                return None;
            }
            self.copy(size + 1);
        } else {
            self.copy(size);
        }
        Some(())
    }

    /// A literal, or a name of a header in quotes.
    fn literal(&mut self, quote: u8) -> Option<()> {
        let rest = self.rest();
        let mut size = 1;
        loop {
            match rest.get(size) {
                // It does not end: compilers may go on reading behind the quote.
                None | Some(b'\n') => {
                    let inside = &rest[1..size];
                    let may_be_comment = memmem::find(inside, b"//").is_some()
                        || memmem::find(inside, b"/*").is_some();
                    if may_be_comment {
                        return None;
                    }
                    break;
                }
                Some(b'\\') => {
                    // (In the name of a header it is a letter like any other.)
                    if self.directive == Directive::Include {
                        return None;
                    }
                    size += match line_end(&rest[size + 1..]) {
                        None => 1 + usize::from(rest.get(size + 1).is_some()),
                        Some(end @ 1) => 1 + end,
                        Some(end @ 2) if rest[size + 1] == b'\r' => 1 + end,
                        Some(_) => return None,
                    };
                }
                Some(byte) => {
                    size += 1;
                    if *byte == quote {
                        break;
                    }
                }
            }
        }
        self.copy(size.min(rest.len()));
        Some(())
    }

    /// `<` in a directive: the name of a header, perhaps.
    fn angled(&mut self) -> Option<()> {
        let line = self.rest_of_line();
        let close = memchr(b'>', line);
        if let Some(close) = close {
            let inside = &line[..close];
            if self.directive == Directive::Include {
                if inside.ends_with(b"\\") {
                    return None;
                }
                self.copy(close + 1);
                return Some(());
            }
            // `__has_include(<…>)`, or something is compared.
            let may_be_else = memchr::memchr2(b'"', b'\'', inside).is_some()
                || memchr(b'/', inside).is_some_and(|_| {
                    memmem::find(inside, b"//").is_some() || memmem::find(inside, b"/*").is_some()
                });
            if may_be_else {
                return None;
            }
        }
        self.copy(1);
        Some(())
    }

    fn line_comment(&mut self) -> Option<()> {
        let comment = self.rest_of_line();
        let last = comment.iter().rposition(|byte| !is_blank(*byte));
        // It goes on in the next line.
        if last.is_some_and(|last| comment[last] == b'\\') {
            return None;
        }
        let size = comment.len();
        match is_heeded(&comment[2..]) {
            true => self.copy(size),
            false => self.at += size,
        }
        Some(())
    }

    fn block_comment(&mut self) -> Option<()> {
        let rest = self.rest();
        let inside = &rest[2..2 + memmem::find(&rest[2..], b"*/")?];
        // Its end, perhaps, in two lines.
        let is_end_in_two = memmem::find_iter(inside, b"*\\")
            .map(|at| at + 2)
            .chain(inside.ends_with(b"*\\").then_some(inside.len()))
            .any(|at| line_end(&inside[at..]).is_some());
        if is_end_in_two {
            return None;
        }
        let size = inside.len() + 4;
        if is_heeded(inside) || memmem::find(inside, b"/*").is_some() {
            self.copy(size);
            return Some(());
        }
        let comment = &rest[..size];
        let last_line = memchr::memrchr(b'\n', comment).map_or(0, |end| end + 1);
        let lines = memchr::memchr_iter(b'\n', comment).count();
        let width = size - last_line;
        let lines = match self.keeps {
            Keeps::Order => lines.min(1),
            Keeps::Places => lines,
        };
        self.out.resize(self.out.len() + lines, INNER_LINE);
        self.out.resize(self.out.len() + width, b' ');
        self.at += size;
        Some(())
    }

    /// Ends a line, at whose end the reader is; `is_ended`: by a line feed.
    fn end_line(&mut self, is_ended: bool) -> Option<()> {
        let line = &self.out[self.line..];
        let last = line.iter().rposition(|byte| !is_blank(*byte));
        let goes_on = last.is_some_and(|last| line[last] == b'\\');
        let read = &self.text[..self.at];
        let last_read = read.iter().rposition(|byte| !is_blank(*byte));
        if goes_on && last_read.is_none_or(|last| read[last] != b'\\') {
            // The backslash stood before a comment.
            return None;
        }
        let is_empty = (line.iter()).all(|byte| is_blank(*byte) || *byte == INNER_LINE);
        if is_empty && !self.goes_on {
            let inner = line.iter().filter(|byte| **byte == INNER_LINE).count();
            self.out.truncate(self.line);
            if self.keeps == Keeps::Places {
                let lines = inner + usize::from(is_ended);
                self.out.resize(self.out.len() + lines, b'\n');
            }
        } else {
            if !goes_on {
                let end = last.map_or(0, |last| last + 1);
                self.out.truncate(self.line + end);
            }
            if is_ended {
                self.out.push(b'\n');
            }
        }
        self.goes_on = goes_on;
        if !goes_on {
            self.directive = Directive::None;
            self.has_tokens = false;
        }
        self.line = self.out.len();
        Some(())
    }
}

/// Whether compilers look into a comment: for what says that a case falls into the next one, and for letters that are shown otherwise than they
/// are read.
fn is_heeded(inside: &[u8]) -> bool {
    let is_strange =
        |byte: &u8| !byte.is_ascii() || (*byte < b' ' && !is_blank(*byte) && *byte != b'\n');
    inside.iter().any(is_strange)
        || memchr::memchr2_iter(b'f', b'F', inside).any(|at| {
            inside[at..]
                .get(..4)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"fall"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use std::process::{Command, Stdio};

    fn order(text: &str) -> Option<String> {
        without(text.as_bytes(), Keeps::Order).map(|rest| String::from_utf8(rest).expect("UTF-8"))
    }

    fn places(text: &str) -> Option<String> {
        without(text.as_bytes(), Keeps::Places).map(|rest| String::from_utf8(rest).expect("UTF-8"))
    }

    #[test]
    fn comments_further_left() {
        for (text, expected) in [
            ("if (x)\n  a();\n// c\n  b();\n", true),
            ("if (x)\n\ta();\n    /* c */\n\tb();\n", true),
            ("if (x)\n  a();\n  /*\n c */\n  b();\n", true),
            ("if (x)\n  a();\n  // c\n  b();\n// d\n", false),
            ("// c\nint a;\n\n", false),
        ] {
            assert_eq!(unindents(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn comments_are_nothing() {
        for (text, expected) in [
            (
                "int a; // one\n\n// two\n/* three\n */\nint b;\n",
                "int a;\nint b;\n",
            ),
            ("int /* x */ a;", "int         a;\x02"),
            ("/* x */ int a;\n", "        int a;\n"),
            ("char *s = \"// no\"; // yes\n", "char *s = \"// no\";\n"),
            ("char c = '\"'; // yes\n", "char c = '\"';\n"),
            (
                "char *s = \"\\\"// no\"; /* yes */\n",
                "char *s = \"\\\"// no\";\n",
            ),
            ("#include <a//b> // yes\n", "#include <a//b>\n"),
            ("int a; \t // x\r\nint b;\r\n", "int a;\nint b;\n"),
            ("int a = 1'000; // x\n", ""),
            ("int a = 1'000;\n// x\n", "int a = 1'000;\n"),
            (
                "#define A x \\\n // y\nint b;\n",
                "#define A x \\\n\nint b;\n",
            ),
            (
                "#define A /* x */ \\\n 1 // y\n",
                "#define A         \\\n 1\n",
            ),
            ("#define A /*\n*/ 1\n", "#define A \x01   1\n"),
            ("", ""),
            ("\n\n", ""),
        ] {
            let expected = (!expected.is_empty() || text.trim().is_empty()).then_some(expected);
            assert_eq!(order(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn places_are_kept() {
        assert_eq!(
            places("a // x\n\n/* y\n */ // z\nb\n").as_deref(),
            Some("a\n\n\n\nb\n")
        );
        assert_eq!(
            places("a /*\n\n */ b\n").as_deref(),
            Some("a \x01\x01    b\n")
        );
        assert_eq!(places("a\n\n").as_deref(), Some("a\n\n"));
        assert_ne!(places("a\n\n/**/"), places("a\n\n\n"));
    }

    #[test]
    fn comments_that_are_heeded_stay() {
        for text in [
            "case 1: /* fall through */\n",
            "case 1: // FALLTHRU\n",
            "// \u{202e}\n",
            "/* a /* b */\n",
        ] {
            assert_eq!(order(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_read_otherwise_by_others_is_not_read() {
        for text in [
            "char *s = R\"(// x)\"; // y\n",
            "int a; // x \\\nint b;\n",
            "int a; // x \\ \nint b;\n",
            "int a; /* x *\\\n/ int b; /* y */\n",
            "int a; /\\\n/ x\n",
            "int a; // x ??/\nint b;\n",
            "it's /* x\n*/\n",
            "#include \"a\\\" // b\"\n",
            "#if __has_include(<a//b>)\n",
            "int a = 1'0; char *s = \"'/*\";\n",
            "int a; \\ // x\nint b;\n",
            "int a; // x\rint b;\n",
            "/* x\n",
            "#inc\\\nlude <a//b>\n",
        ] {
            assert_eq!(order(text), None, "{text}");
            assert_eq!(places(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..200)) {
            for keeps in [Keeps::Order, Keeps::Places] {
                let _ = without(&text, keeps);
            }
        }
    }

    /// What the preprocessor of a compiler makes of a text, and what it says.
    fn preprocessed(compiler: &str, language: &str, text: &[u8], keeps: Keeps) -> [Vec<u8>; 2] {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("a");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(compiler);
        command.args(["-E", "-x", language, "a", "-Wall", "-Wextra"]);
        if keeps == Keeps::Order {
            command.arg("-P");
        }
        let output = command
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .output();
        let output = output.expect("it runs");
        [output.stdout, output.stderr]
    }

    /// Two texts of pieces that are likely to be read in more than one way, of which the second is like the first but for a few.
    fn pairs() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let pieces = prop::sample::select(vec![
            "/",
            "*",
            "//",
            "/*",
            "*/",
            "\n",
            "\n",
            "\\",
            "\\\n",
            "\"",
            "'",
            " ",
            "\t",
            "\r\n",
            "#",
            "#define A ",
            "#if 0\n",
            "#endif\n",
            "a",
            "x1",
            "1'0",
            "R",
            "<",
            ">",
            "?",
            "(",
            ")",
            ";",
            "/* c */",
            "// c\n",
            "/* c\n c */",
            "int a;",
            "fall",
        ]);
        let text = prop::collection::vec(pieces.clone(), 0..20);
        let edits = prop::collection::vec((any::<prop::sample::Index>(), pieces, 0..3_u8), 1..3);
        (text, edits).prop_map(|(text, edits)| {
            let mut other = text.clone();
            for (at, piece, kind) in edits {
                let at = at.index(other.len() + 1);
                match kind {
                    0 if at < other.len() => {
                        other.remove(at);
                    }
                    1 if at < other.len() => other[at] = piece,
                    _ => other.insert(at, piece),
                }
            }
            (text.concat().into_bytes(), other.concat().into_bytes())
        })
    }

    /// The draw is the same at every run; `$REPO_TESTS_EDITS` says how many pairs are drawn (3,000).
    #[test]
    fn what_is_the_same_without_comments_is_the_same_to_compilers() {
        use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
        let count = std::env::var("REPO_TESTS_EDITS").ok();
        let count: u32 = count.map_or(3000, |it| it.parse().expect("a number"));
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let compilers: Vec<_> = [
            ("gcc", "c"),
            ("g++", "c++"),
            ("clang", "c"),
            ("clang++", "c++"),
        ]
        .into_iter()
        .filter(|(name, _)| Command::new(name).arg("--version").output().is_ok())
        .collect();
        let (mut asked, mut differ) = (0_usize, 0);
        for _ in 0..count {
            let (a, b) = pairs().new_tree(&mut runner).expect("drawn").current();
            if a == b {
                continue;
            }
            for keeps in [Keeps::Order, Keeps::Places] {
                let same = match (without(&a, keeps), without(&b, keeps)) {
                    (Some(a), Some(b)) => a == b,
                    _ => false,
                };
                if !same || compilers.is_empty() {
                    continue;
                }
                let (compiler, language) = compilers[asked % compilers.len()];
                asked += 1;
                let of = |text: &[u8]| preprocessed(compiler, language, text, keeps);
                let of_a = of(&a);
                // What is complained of is compiled again.
                if !of_a[1].is_empty() {
                    continue;
                }
                let of_b = of(&b);
                if of_a != of_b {
                    differ += 1;
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    eprintln!(
                        "{compiler} {keeps:?}:\n{:?}\n{:?}\n{:?}\n{:?}",
                        text(&a),
                        text(&b),
                        of_a.each_ref().map(|it| text(it)),
                        of_b.each_ref().map(|it| text(it))
                    );
                }
            }
        }
        assert_eq!(differ, 0, "of {asked}");
        eprintln!("{asked} pairs were the same without comments");
    }
}
