//! A manual page: a text from `pages/` in the language of man(7), in which a comment `.\" @NAME` stands for what is made
//! from a table.
//!
//! | | |
//! |---|---|
//! | `@options` | section OPTIONS, of a program whose command line is clap's |
//! | `@commands` | the list of subcommands, likewise |
//! | `@linker-options` | the options of `repo-ld`, in subsections |
//! | `@environment` | the variables that the program reads |
//! | `@repository` | section THE REPOSITORY: `pages/repository.roff` |

use crate::environment::VARIABLES;
use crate::{command, linker_options};
use clap::{Arg, Command};
use clap_mangen::Man;
use roff::{Roff, bold, italic, roman};

/// What a line begins with that asks for a table.
const ASKS: &str = ".\\\" @";

const REPOSITORY: &str = include_str!("../pages/repository.roff");

/// The page of `program`, in section 1 of the manual.
///
/// # Panics
/// If there is no such program, or its text asks for what there is not.
pub fn page(program: &str) -> String {
    let text = match program {
        "repo-cc" => include_str!("../pages/repo-cc.1"),
        "repo-ld" => include_str!("../pages/repo-ld.1"),
        "repo-dump" => include_str!("../pages/repo-dump.1"),
        "repo-gc" => include_str!("../pages/repo-gc.1"),
        _ => panic!("no page of {program}"),
    };
    let mut page = Roff::new().render();
    // The date is empty: pages made twice are equal.
    let release = env!("CARGO_PKG_VERSION");
    page.push_str(&format!(
        ".TH {program} 1 \"\" \"repo {release}\" \"The program repository\"\n"
    ));
    for line in text.lines() {
        match line.strip_prefix(ASKS) {
            Some(name) => page.push_str(&table(name, program)),
            None => {
                page.push_str(line);
                page.push('\n');
            }
        }
    }
    page
}

/// What a line of a page asks for.
fn table(name: &str, program: &str) -> String {
    let of_clap = || command(program).unwrap_or_else(|| panic!("{program} has no such @{name}"));
    let mut roff = Roff::new();
    match name {
        "options" => return options(of_clap()),
        "commands" => commands(&mut roff, &of_clap()),
        "linker-options" => linker_options::write(&mut roff),
        "environment" => environment(&mut roff, program),
        "repository" => return REPOSITORY.to_owned(),
        _ => panic!("{program}: @{name}"),
    }
    body(&roff.render())
}

/// A rendering without the definitions that each begins with: the page has them.
fn body(rendered: &str) -> String {
    let definitions = Roff::new().render();
    let body = rendered.strip_prefix(&definitions);
    body.unwrap_or(rendered).to_owned()
}

fn options(command: Command) -> String {
    let mut bytes = Vec::new();
    let written = Man::new(command).render_options_section(&mut bytes);
    written.expect("memory can be written");
    body(&String::from_utf8(bytes).expect("the tables are text"))
}

/// Each subcommand with its arguments, in the order of the help.
fn commands(roff: &mut Roff, command: &Command) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let mut head = vec![bold(sub.get_name())];
        let arguments: Vec<&Arg> = sub
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .collect();
        for argument in &arguments {
            head.push(roman(" "));
            head.extend(spelled(argument));
        }
        roff.control("TP", []).text(head);
        let about = sub.get_about().map(ToString::to_string);
        roff.text([roman(sentence(about.as_deref().unwrap_or_default()))]);
        for argument in &arguments {
            let name = argument.get_value_names().and_then(|names| names.first());
            let help = argument.get_help().map(ToString::to_string);
            if let (Some(name), Some(help)) = (name, help) {
                roff.text([italic(name.as_str()), roman(format!(": {}.", lower(&help)))]);
            }
        }
    }
}

/// An argument as in a synopsis: `[-n|--limit N]`, `[DIGEST]...`.
fn spelled(argument: &Arg) -> Vec<roff::Inline> {
    let mut parts = vec![roman("[")];
    let dashed = [
        argument.get_short().map(|short| format!("-{short}")),
        argument.get_long().map(|long| format!("--{long}")),
    ];
    let dashed: Vec<String> = dashed.into_iter().flatten().collect();
    if !dashed.is_empty() {
        parts.push(bold(dashed.join("|")));
        parts.push(roman(" "));
    }
    for name in argument.get_value_names().unwrap_or_default() {
        parts.push(italic(name.as_str()));
    }
    parts.push(roman("]"));
    if argument.is_positional() && matches!(argument.get_action(), clap::ArgAction::Append) {
        parts.push(roman("..."));
    }
    parts
}

/// Helps are written without a full stop.
fn sentence(help: &str) -> String {
    format!("{}.", help.trim_end_matches('.'))
}

fn lower(help: &str) -> String {
    let mut letters = help.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn environment(roff: &mut Roff, program: &str) {
    let short = program.trim_start_matches("repo-");
    let read = VARIABLES
        .iter()
        .filter(|variable| variable.readers.contains(&short));
    for variable in read {
        roff.control("TP", []).text([bold(variable.name)]);
        roff.text([roman(variable.meaning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PROGRAMS;

    /// A page as it is read: without the escapes that stand for plain characters, and fonts.
    fn plain(page: &str) -> String {
        let mut text = page.replace("\\-", "-").replace("\\*(Aq", "'");
        for font in ["\\fB", "\\fI", "\\fR", "\\&"] {
            text = text.replace(font, "");
        }
        text
    }

    #[test]
    fn pages_have_every_option_that_clap_knows() {
        for program in PROGRAMS {
            let Some(mut command) = command(program) else {
                continue;
            };
            command.build();
            let page = plain(&page(program));
            let subcommands: Vec<&Command> = command
                .get_subcommands()
                .filter(|sub| sub.get_name() != "help")
                .collect();
            let arguments = subcommands.iter().flat_map(|sub| sub.get_arguments());
            for argument in command.get_arguments().chain(arguments) {
                if argument.is_hide_set() {
                    continue;
                }
                if let Some(long) = argument.get_long() {
                    assert!(page.contains(&format!("--{long}")), "{program}: --{long}");
                }
                if let Some(short) = argument.get_short() {
                    assert!(page.contains(&format!("-{short}")), "{program}: -{short}");
                }
            }
            for sub in subcommands {
                let heading = format!(".TP\n{}", sub.get_name());
                assert!(page.contains(&heading), "{program}: {}", sub.get_name());
            }
        }
    }

    #[test]
    fn pages_are_complete_and_ask_for_nothing_more() {
        for program in PROGRAMS {
            let page = page(program);
            assert!(!page.contains('@') || *program == "repo-ld", "{page}");
            assert!(!page.contains(ASKS), "{program}");
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT"] {
                let heading = format!(".SH {section}\n");
                assert_eq!(page.matches(&heading).count(), 1, "{program}: {section}");
            }
            assert_eq!(page.matches(".TH").count(), 1, "{program}");
            // A line that begins so is none of a sentence.
            let stray = page.lines().find(|line| line.starts_with('\''));
            assert_eq!(stray, None, "{program}");
        }
    }
}
