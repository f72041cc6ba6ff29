//! Whether assembly may read files: by directives, by macros of the assembler that make some, or by what an operand makes one of.
//!
//! Compilers that assemble by themselves do not say which files that reads. It is asked of what is written in sources, where nobody has
//! compiled them, and of what the plugin finds.

use memchr::memmem;

/// What reads files, in small letters.
pub const READING: [&[u8]; 2] = [b"incbin", b"include"];

/// What makes directives of parts, in small letters.
pub const MAKING: [&[u8]; 4] = [b".macro", b".irp", b".altmacro", b".mri"];

/// Whether a text has, or begins, a directive that reads a file.
pub fn has_directive(text: &[u8]) -> bool {
    let text = text.to_ascii_lowercase();
    let is_written =
        |word: &&[u8]| memmem::find_iter(&text, *word).any(|at| at > 0 && text[at - 1] == b'.');
    let makes = |word: &&[u8]| memmem::find(&text, word).is_some();
    READING.iter().any(is_written) || MAKING.iter().any(makes) || goes_on(&text, true)
}

/// Whether assembly as it is given to the assembler, but for its operands and alternatives, may read a file.
pub fn may_read(assembly: &[u8]) -> bool {
    let text = assembly.to_ascii_lowercase();
    (READING.iter().chain(&MAKING)).any(|word| memmem::find(&text, word).is_some())
        || goes_on(&text, false)
}

/// `.inc%0`, `.in{cbin|}`: a directive that what is put in makes whole; if it `has_start`, more of it than the point is there. The text is in
/// small letters.
fn goes_on(text: &[u8], has_start: bool) -> bool {
    memchr::memchr_iter(b'.', text).any(|at| {
        let behind = &text[at + 1..];
        let count = behind
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        let (start, behind) = behind.split_at(count);
        let is_start = READING.iter().any(|word| word.starts_with(start));
        let goes_on = match behind.first() {
            Some(byte) => matches!(byte, b'%' | b'{' | b'|' | b'}' | b'$' | b'\\' | b'"'),
            None => !start.is_empty(),
        };
        is_start && goes_on && !(has_start && start.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_read() {
        for text in [
            ".incbin \"x\"",
            ".INCLUDE \"x\"",
            ".macro m x\n\\x\n.endm",
            ".inc${0:c} \"x\"",
            ".in$(cbin$|$) \"x\"",
            ".$0",
            "nop; .in",
        ] {
            assert!(may_read(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "lock; incl $0; jmp .",
            ".long 1b - .",
            "mov .L1(%rip), %rax",
        ] {
            assert!(!may_read(text.as_bytes()), "{text}");
        }
    }
}
