//! Shell completions, where the shells look for them below a prefix.

use crate::{Document, command, linker_options};
use clap_complete::{Shell, generate};

/// The completions of `program`.
///
/// # Panics
/// If there is no such program.
pub fn of(program: &str) -> Vec<Document> {
    let places = [
        (
            Shell::Bash,
            format!("share/bash-completion/completions/{program}"),
        ),
        (Shell::Zsh, format!("share/zsh/site-functions/_{program}")),
        (
            Shell::Fish,
            format!("share/fish/vendor_completions.d/{program}.fish"),
        ),
    ];
    let document = |(shell, path): (Shell, String)| {
        let mut command = match program {
            "repo-ld" => linker_options::command(),
            _ => command(program).unwrap_or_else(|| panic!("no program {program}")),
        };
        let mut bytes = Vec::new();
        generate(shell, &mut command, program, &mut bytes);
        Document {
            path: path.into(),
            text: String::from_utf8(bytes).expect("completions are text"),
        }
    };
    places.into_iter().map(document).collect()
}
