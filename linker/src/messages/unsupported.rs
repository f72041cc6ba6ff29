//! Options that the command line has and the linker does not obey yet, in one place: what is implemented is struck
//! from here.
//!
//! An option that would make another program is refused ([`Answer::Refuse`]): a wrong output is worse than none. One that
//! asks for something beside the output, or for the same program made smaller, is answered by a warning
//! ([`Answer::Warn`]).

use crate::args::{Args, OutputKind};
use crate::messages::diag::Diagnostics;

/// What is done about an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Refuse,
    Warn,
}

/// Reports the options that are not obeyed.
pub fn report(args: &Args, diag: &Diagnostics) {
    for unsupported in &args.unsupported {
        diag.error(format_args!(
            "option {} is not supported: {}",
            unsupported.option, unsupported.reason
        ));
    }
    for Combination {
        asked,
        answer,
        option,
    } in COMBINATIONS
    {
        match (asked(args), answer) {
            (false, _) => {}
            (true, Answer::Refuse) => diag.error(format_args!("{option} is not supported yet")),
            (true, Answer::Warn) => diag.warn(format_args!(
                "{option} is not supported yet and has no effect"
            )),
        }
    }
}

/// Options that are known, and not obeyed together.
struct Combination {
    asked: fn(&Args) -> bool,
    answer: Answer,
    /// How they are called in the message.
    option: &'static str,
}

const COMBINATIONS: &[Combination] = &[
    Combination {
        asked: |args| args.gdb_index && args.kind == OutputKind::Relocatable,
        answer: Answer::Refuse,
        option: "--gdb-index with -r",
    },
    Combination {
        asked: |args| !args.section_ordering.is_empty() && args.kind == OutputKind::Relocatable,
        answer: Answer::Refuse,
        option: "--section-ordering-file with -r",
    },
    Combination {
        asked: |args| args.z.rewrite_endbr,
        answer: Answer::Warn,
        option: "-z rewrite-endbr",
    },
];

/// What is not obeyed together, and what is done about it, for the documentation.
pub fn combinations() -> impl Iterator<Item = (&'static str, &'static str)> {
    COMBINATIONS.iter().map(|combination| {
        let word = match combination.answer {
            Answer::Refuse => "refused",
            Answer::Warn => "a warning",
        };
        (combination.option, word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::diag::DiagOptions;
    use std::ffi::OsString;

    fn said(line: &str) -> String {
        let args = Args::parse(line.split_whitespace().map(OsString::from)).unwrap();
        let diag = Diagnostics::new(DiagOptions::default());
        report(&args, &diag);
        let mut out = Vec::new();
        diag.flush(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_drivers_write_is_supported() {
        assert_eq!(
            said(
                "-plugin p.so --build-id --eh-frame-hdr -m elf_x86_64 --hash-style=gnu --as-needed -pie a.o"
            ),
            ""
        );
        assert_eq!(
            said("-static -z relro -z now -z noexecstack --gc-sections -O1 a.o"),
            ""
        );
    }

    #[test]
    fn what_changes_the_output_is_refused_and_named() {
        assert!(
            said("--shuffle-sections a.o").contains(
                "error: option --shuffle-sections is not supported: random section order"
            )
        );
        assert!(
            said("-r --gdb-index a.o").contains("error: --gdb-index with -r is not supported yet")
        );
    }
}
