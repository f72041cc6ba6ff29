//! The table that goes through what GNU ld and lld document for x86-64 ELF: option by option, keyword of `-z` by keyword, and
//! command of linker scripts by command, with what `repo-ld` does about each, and why.
//!
//! Which names there are is in `data/`, plain lists that `ld --help`, `ld.lld --help` and the two manuals were read for; what is
//! done is asked of the linker's own tables.

use linker::args::answers::{self, Answer};
use linker::script::documented::DOCUMENTED;

/// Options of GNU ld, up to binutils 2.44, without dashes and without those for other machines and for PE.
pub const GNU_OPTIONS: &str = include_str!("../data/gnu-ld-options");
/// Options of lld 19.
pub const LLD_OPTIONS: &str = include_str!("../data/lld-options");
/// Keywords of GNU ld's `-z`, each with a value if it takes one.
pub const GNU_KEYWORDS: &str = include_str!("../data/gnu-ld-keywords");
/// Keywords of lld's `-z`.
pub const LLD_KEYWORDS: &str = include_str!("../data/lld-keywords");

/// A row: a name, whether GNU ld and whether lld documents it, and what is done about it.
struct Row<'t> {
    name: &'t str,
    gnu: bool,
    lld: bool,
    answer: Option<Answer>,
}

/// The whole text, in Markdown.
pub fn text() -> String {
    let mut out = String::from(
        "# repo-ld beside GNU ld and lld\n\n\
         What the two document for x86-64 ELF, and what `repo-ld` does about it: it is *done*; it is *ignored*, where nothing is\n\
         lost; it is answered by a *warning*, where the output is as right without it; or it is *refused*, as the output would be\n\
         another one. This file is made from the linker's own tables.\n",
    );
    out += "\n## Options\n\n";
    table(
        &mut out,
        rows(GNU_OPTIONS, LLD_OPTIONS, answers::of_option),
        written,
    );
    out += "\n## Keywords of -z\n\n";
    let plain = |keyword: &str| keyword.to_owned();
    table(
        &mut out,
        rows(GNU_KEYWORDS, LLD_KEYWORDS, answers::of_keyword),
        plain,
    );
    out += "\n## Linker scripts\n\n| | repo-ld | |\n|---|---|---|\n";
    for documented in DOCUMENTED {
        let word = match documented.obeyed {
            true => "done",
            false => "ignored",
        };
        out += &format!("| {} | {word} | {} |\n", documented.name, documented.remark);
    }
    out += "\n## Together\n\nWhat is done alone, and not together with something else:\n\n";
    for (option, word) in linker::messages::unsupported::combinations() {
        out += &format!("- `{option}`: {word}\n");
    }
    out
}

/// All names of two lists, in order, with their answers.
fn rows(
    gnu: &'static str,
    lld: &'static str,
    answer: fn(&str) -> Option<Answer>,
) -> Vec<Row<'static>> {
    let mut names: Vec<&str> = gnu.lines().chain(lld.lines()).collect();
    names.sort_by_key(|name| (name.to_lowercase(), *name));
    names.dedup();
    let has = |list: &str, name: &str| list.lines().any(|line| line == name);
    names
        .into_iter()
        .map(|name| Row {
            name,
            gnu: has(gnu, name),
            lld: has(lld, name),
            answer: answer(name),
        })
        .collect()
}

fn table(out: &mut String, rows: Vec<Row>, written: impl Fn(&str) -> String) {
    *out += "| | GNU ld | lld | repo-ld | |\n|---|---|---|---|---|\n";
    for row in rows {
        let mark = |is: bool| if is { "x" } else { "" };
        let (word, reason) = match row.answer {
            Some(answer) => (answer.word(), answer.reason()),
            None => ("error", "unknown"),
        };
        let (gnu, lld) = (mark(row.gnu), mark(row.lld));
        let reason = reason.replace('|', "\\|");
        *out += &format!(
            "| `{}` | {gnu} | {lld} | {word} | {reason} |\n",
            written(row.name)
        );
    }
}

/// An option as it is written: names of one letter with one dash.
fn written(name: &str) -> String {
    let dashes = if name.chars().count() == 1 { "-" } else { "--" };
    format!("{dashes}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_option_has_an_answer() {
        for (options, keywords) in [(GNU_OPTIONS, GNU_KEYWORDS), (LLD_OPTIONS, LLD_KEYWORDS)] {
            for name in options.lines() {
                assert!(answers::of_option(name).is_some(), "--{name}");
            }
            for keyword in keywords.lines() {
                assert!(answers::of_keyword(keyword).is_some(), "-z {keyword}");
            }
        }
    }

    #[test]
    fn every_documented_option_is_in_the_table() {
        let text = text();
        for list in [GNU_OPTIONS, LLD_OPTIONS] {
            for name in list.lines() {
                assert!(text.contains(&format!("| `{}` |", written(name))), "{name}");
            }
        }
        for list in [GNU_KEYWORDS, LLD_KEYWORDS] {
            for keyword in list.lines() {
                assert!(text.contains(&format!("| `{keyword}` |")), "{keyword}");
            }
        }
        let columns = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut options = text.lines().filter(|line| line.starts_with("| `"));
        assert!(options.all(|line| columns(line) == 6), "{text}");
    }

    #[test]
    fn lists_are_in_order_and_name_everything_once() {
        for list in [GNU_OPTIONS, LLD_OPTIONS, GNU_KEYWORDS, LLD_KEYWORDS] {
            let names: Vec<&str> = list.lines().collect();
            let mut sorted = names.clone();
            sorted.sort_by_key(|name| (name.to_lowercase(), *name));
            sorted.dedup();
            assert_eq!(names, sorted);
        }
    }
}
