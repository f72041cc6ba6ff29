//! The options of `repo-ld`, from the linker's own table.

use clap::{Arg, ArgAction, Command, ValueHint};
use linker::args::options::{HINTS, IGNORED, SPECS, Spec, Takes, UNSUPPORTED, Z_KEYWORDS};
use roff::{Inline, Roff, bold, italic, roman};

/// Writes the options, in subsections as in `--help`; then the keywords of `-z`, and what is known and not obeyed.
pub fn write(roff: &mut Roff) {
    for (title, specs) in SPECS {
        roff.control("SS", [*title]);
        for spec in *specs {
            roff.control("TP", []).text(names(spec.names, spec.takes));
            roff.text([roman(spec.help)]);
        }
    }
    roff.control("SS", ["Keywords of -z"]);
    for keywords in Z_KEYWORDS {
        let spelled = keywords.spelled.iter().map(|word| bold(*word));
        roff.control("TP", []).text(between_commas(spelled));
        roff.text([roman(keywords.help)]);
    }
    roff.control("SS", ["Accepted, without effect"]);
    for option in IGNORED {
        roff.control("TP", [])
            .text(names(option.names, option.takes));
        roff.text([roman(option.why)]);
    }
    roff.control("SS", ["Answered by a warning"]);
    for option in HINTS {
        roff.control("TP", [])
            .text(names(option.names, option.takes));
        roff.text([roman(option.why)]);
    }
    roff.control("SS", ["Refused"]);
    roff.text([roman("Each is an error, as what it needs is not there:")]);
    for option in UNSUPPORTED {
        roff.control("TP", [])
            .text(names(option.names, option.takes));
        roff.text([roman(option.reason)]);
    }
}

/// Names with their dashes and the last one's value, as they are written.
fn names(names: &[&str], takes: Takes) -> Vec<Inline> {
    let mut parts = between_commas(names.iter().map(|name| bold(dashed(name))));
    match takes {
        Takes::Nothing => {}
        Takes::Value(what) => parts.extend([roman(" "), italic(what)]),
        Takes::Optional(what) => parts.extend([roman("[="), italic(what), roman("]")]),
    }
    parts
}

fn between_commas(words: impl Iterator<Item = Inline>) -> Vec<Inline> {
    let mut parts = Vec::new();
    for word in words {
        if !parts.is_empty() {
            parts.push(roman(", "));
        }
        parts.push(word);
    }
    parts
}

fn dashed(name: &str) -> String {
    let dashes = if name.len() == 1 { "-" } else { "--" };
    format!("{dashes}{name}")
}

/// The command line as clap would have it, from which completions are made: it is good for nothing else, as clap knows
/// no long options with one dash.
pub fn command() -> Command {
    let mut command = Command::new("repo-ld")
        .disable_help_flag(true)
        .disable_version_flag(true);
    for spec in SPECS.iter().flat_map(|(_, specs)| *specs) {
        command = command.arg(argument(spec));
    }
    let files = Arg::new("file")
        .num_args(0..)
        .value_hint(ValueHint::FilePath);
    command.arg(files)
}

fn argument(spec: &'static Spec) -> Arg {
    let mut argument = Arg::new(spec.names[0]).help(spec.help);
    let mut letters = spec.names.iter().filter(|name| name.len() == 1);
    let mut words = spec.names.iter().filter(|name| name.len() > 1);
    // ( and ) are names, too.
    let letter = letters.find_map(|name| name.chars().next().filter(char::is_ascii_alphabetic));
    if let Some(letter) = letter {
        argument = argument.short(letter);
    }
    if let Some(word) = words.next() {
        argument = argument.long(*word);
    }
    argument = argument.visible_aliases(words.copied());
    match spec.takes {
        Takes::Nothing => argument.action(ArgAction::SetTrue),
        Takes::Value(what) => argument
            .action(ArgAction::Append)
            .value_name(what)
            .value_hint(hint(what)),
        Takes::Optional(what) => argument
            .action(ArgAction::Append)
            .value_name(what)
            .num_args(0..=1)
            .require_equals(true)
            .value_hint(hint(what)),
    }
}

/// What the help calls a value by tells what may be completed.
fn hint(what: &str) -> ValueHint {
    match what {
        "FILE" => ValueHint::FilePath,
        "DIR" | "DIRS" => ValueHint::DirPath,
        _ => ValueHint::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_option_of_every_table() {
        let page = crate::pages::page("repo-ld").replace("\\-", "-");
        let tables = [
            SPECS
                .iter()
                .flat_map(|(_, specs)| *specs)
                .map(|spec| spec.names)
                .collect::<Vec<_>>(),
            IGNORED.iter().map(|option| option.names).collect(),
            HINTS.iter().map(|option| option.names).collect(),
            UNSUPPORTED.iter().map(|option| option.names).collect(),
        ];
        for name in tables.concat().into_iter().flatten() {
            let wanted = format!("\\fB{}\\fR", dashed(name));
            assert!(page.contains(&wanted), "{wanted}");
        }
        for word in Z_KEYWORDS.iter().flat_map(|row| row.spelled) {
            assert!(page.contains(&format!("\\fB{word}\\fR")), "{word}");
        }
    }

    #[test]
    fn clap_takes_it_for_a_command() {
        command().debug_assert();
    }
}
