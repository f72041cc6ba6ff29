//! On which lines of a source something stands: so that it can be told, of another text that is the same but for comments and blank lines, which
//! line has become which.

use super::comments::{self, INNER_LINE, Keeps};
use super::text::is_blank;
use format_spec::digest::Digest;
use serde::{Deserialize, Serialize};

/// The lines of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The digest of the text without comments ([`Keeps::Order`]).
    order: [u8; 32],
    /// How far each line on which something stands is behind the one before; the first, behind line 0.
    steps: Vec<u32>,
}

impl Standing {
    /// The lines of a text; `None` if they cannot be told, or the text may say itself which lines they are.
    pub fn of(text: &[u8]) -> Option<Standing> {
        if says_lines(text) {
            return None;
        }
        let placed = comments::without(text, Keeps::Places)?;
        // Where a comment of several lines stands in a line, what is before and behind it are not told apart.
        if memchr::memchr(INNER_LINE, &placed).is_some() {
            return None;
        }
        let is_something = |line: &[u8]| !line.iter().all(|byte| is_blank(*byte));
        let (mut steps, mut last) = (Vec::new(), 0);
        for (line, number) in placed.split(|byte| *byte == b'\n').zip(1_u32..) {
            if is_something(line) {
                steps.push(number - last);
                last = number;
            }
        }
        Some(Standing {
            order: comments::digest(text, Keeps::Order)?.0,
            steps,
        })
    }

    /// Whether the text is the same as another one but for comments and blank lines.
    pub fn is_as(&self, other: &Standing) -> bool {
        self.order == other.order && self.steps.len() == other.steps.len()
    }

    /// The numbers of its lines, ascending.
    pub fn numbers(&self) -> Vec<u32> {
        let steps = self.steps.iter();
        let numbers = steps.scan(0_u32, |line, step| {
            *line = line.wrapping_add(*step);
            Some(*line)
        });
        numbers.collect()
    }

    /// By what it is remembered, of a text that conditions say to be of this digest.
    pub fn context() -> Option<Digest> {
        let program = super::inputs::own_program()?;
        Some(Digest::of(
            &[b"standing", bytemuck::bytes_of(&program)].concat(),
        ))
    }
}

/// Whether a line of a text may say which line it is, and of which file (`#line`): what the compiler then says of lines is not where they
/// stand. (One in a comment is taken for one, too.)
pub fn says_lines(text: &[u8]) -> bool {
    let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text).map(|end| end + 1));
    starts.map(|start| &text[start..]).any(|line| {
        let line = without_blanks(line);
        let signs: [&[u8]; 3] = [b"#", b"%:", b"??="];
        let Some(rest) = signs.iter().find_map(|sign| line.strip_prefix(*sign)) else {
            return false;
        };
        let rest = without_blanks(rest);
        // What begins with a comment, or goes on in the next line, is not looked into.
        rest.first().is_some_and(u8::is_ascii_digit)
            || [&b"line"[..], b"/", b"\\"]
                .iter()
                .any(|start| rest.starts_with(start))
    })
}

fn without_blanks(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|byte| is_blank(**byte)).count();
    &line[blanks..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Option<Vec<u32>> {
        Standing::of(text.as_bytes()).map(|it| it.numbers())
    }

    #[test]
    fn lines_on_which_something_stands() {
        assert_eq!(numbers("int a;\n\n// x\nint b;\n"), Some(vec![1, 4]));
        assert_eq!(numbers("/* a\n b */\nint b; // c"), Some(vec![3]));
        assert_eq!(numbers("\n#define A \\\n  // x\nint b;\n"), Some(vec![2, 4]));
        assert_eq!(numbers(""), Some(vec![]));
        for strange in ["int a; /* x\n */ int b;\n", "auto s = R\"(x)\";\n"] {
            assert_eq!(numbers(strange), None, "{strange}");
        }
    }

    #[test]
    fn texts_that_are_the_same() {
        let of = |text: &str| Standing::of(text.as_bytes()).expect("told");
        let it = of("int a;\nint b;\n");
        assert!(it.is_as(&of("// x\n\nint a; // y\n/*\n*/\nint b;\n")));
        assert!(!it.is_as(&of("int a;\nint c;\n")));
        assert!(!it.is_as(&of("int a; int b;\n")));
        assert!(!it.is_as(&of("int a;\n int b;\n")));
    }

    #[test]
    fn who_says_lines() {
        for text in [
            "#line 3\n",
            "a\n # 7 \"x.h\"\n",
            "%:line 3",
            "#/**/line 4\n",
            "#\\\nline 4\n",
        ] {
            assert!(says_lines(text.as_bytes()), "{text}");
            assert_eq!(numbers(text), None);
        }
        assert!(!says_lines(b"#define line 3\nint line;\n#\n"));
    }
}
