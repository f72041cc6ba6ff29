//! `--retain-symbols-file`: a list of names, one a line; other definitions are left
//! out of the symbol table. It says nothing of undefined symbols, and of those that
//! relocations in the output need.

use crate::args::Args;
use crate::messages::diag::Diagnostics;
use std::collections::HashSet;

/// The names of the file.
pub struct Retained(HashSet<Vec<u8>>);

impl Retained {
    /// Reads the file that the command line names, if it names one. One that cannot be read is an error.
    pub fn read(args: &Args, diag: &Diagnostics) -> Option<Retained> {
        let path = args.retain_symbols_file.as_ref()?;
        match crate::input::unseekable::read(path) {
            Ok(text) => Some(Retained::parse(&text)),
            Err(why) => {
                diag.error(format!(
                    "--retain-symbols-file: cannot read {}: {why}",
                    path.display()
                ));
                None
            }
        }
    }

    fn parse(text: &[u8]) -> Retained {
        let words = text.split(|byte| byte.is_ascii_whitespace());
        Retained(
            words
                .filter(|word| !word.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
        )
    }

    /// Whether a definition of this name stays in the symbol table.
    pub fn keeps(&self, name: &[u8]) -> bool {
        self.0.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lines() {
        let retained = Retained::parse(b"f\n  g \r\n\nh@V");
        assert!(retained.keeps(b"f") && retained.keeps(b"g") && retained.keeps(b"h@V"));
        assert!(!retained.keeps(b"h") && !retained.keeps(b""));
    }
}
