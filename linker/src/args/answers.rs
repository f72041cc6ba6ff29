//! What is done about an option or a keyword of `-z`, by its name, in one word: for the table in the documentation that goes
//! through what GNU ld and lld document.
//!
//! It is read from the tables that the command line itself is read by ([`options`]), and for keywords from what
//! [`zopt`] does with them, so it cannot say anything else than what happens.

use super::ZOptions;
use super::options::{self, HINTS, IGNORED, SPECS, UNSUPPORTED, Z_KEYWORDS};
use super::zopt::{self, Outcome};

/// What is done, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What the option says; the text is its help.
    Obeyed(&'static str),
    /// Nothing, and nothing is lost.
    Ignored(&'static str),
    /// Nothing, with a warning.
    Warned(&'static str),
    /// It is an error: the output would be another one.
    Refused(&'static str),
}

impl Answer {
    /// The answer in a word.
    pub fn word(self) -> &'static str {
        match self {
            Answer::Obeyed(_) => "done",
            Answer::Ignored(_) => "ignored",
            Answer::Warned(_) => "warning",
            Answer::Refused(_) => "refused",
        }
    }

    /// What there is to say beside the word.
    pub fn reason(self) -> &'static str {
        match self {
            Answer::Obeyed(text)
            | Answer::Ignored(text)
            | Answer::Warned(text)
            | Answer::Refused(text) => text,
        }
    }
}

/// An option's answer; its name is without dashes. `None`: it is unknown, an error that names it.
pub fn of_option(name: &str) -> Option<Answer> {
    let obeyed = SPECS.iter().flat_map(|(_, specs)| *specs);
    let obeyed = obeyed
        .filter(|spec| spec.names.contains(&name))
        .map(|spec| Answer::Obeyed(spec.help));
    let of = |list: &'static [options::Ignored], answer: fn(&'static str) -> Answer| {
        let named = list.iter().filter(|option| option.names.contains(&name));
        named.map(|option| answer(option.why)).next()
    };
    let refused = UNSUPPORTED
        .iter()
        .filter(|option| option.names.contains(&name))
        .map(|option| Answer::Refused(option.reason));
    obeyed
        .chain(of(IGNORED, Answer::Ignored))
        .chain(of(HINTS, Answer::Warned))
        .chain(refused)
        .next()
}

/// The answer to a keyword of `-z`, with a value if it takes one. `None`: its value is bad.
pub fn of_keyword(keyword: &str) -> Option<Answer> {
    let name = keyword.split('=').next().unwrap_or(keyword);
    let told = Z_KEYWORDS.iter().find(|row| {
        let mut spelled = row.spelled.iter();
        spelled.any(|spelled| spelled.split('=').next() == Some(name))
    });
    match zopt::apply(&mut ZOptions::default(), keyword) {
        Outcome::Set | Outcome::Elsewhere(_) => {
            Some(Answer::Obeyed(told.map_or("", |row| row.help)))
        }
        Outcome::Ignored => Some(Answer::Ignored("a hint, or what is always so here")),
        Outcome::Unsupported(reason) => Some(Answer::Refused(reason)),
        Outcome::Unknown => Some(Answer::Warned("unknown keyword: of other machines")),
        Outcome::BadValue(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_its_answer() {
        assert!(matches!(of_option("gc-sections"), Some(Answer::Obeyed(_))));
        assert!(matches!(of_option("keep-memory"), Some(Answer::Ignored(_))));
        assert!(matches!(
            of_option("symbol-ordering-file"),
            Some(Answer::Warned(_))
        ));
        assert!(matches!(of_option("out-implib"), Some(Answer::Refused(_))));
        assert_eq!(of_option("no-such-option"), None);
        assert!(matches!(of_keyword("now"), Some(Answer::Obeyed(_))));
        assert!(matches!(of_keyword("defs"), Some(Answer::Obeyed(_))));
        assert!(matches!(of_keyword("hazardplt"), Some(Answer::Refused(_))));
        assert!(matches!(of_keyword("wxneeded"), Some(Answer::Warned(_))));
        assert_eq!(of_keyword("max-page-size=3"), None);
    }
}
