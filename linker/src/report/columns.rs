//! Text in columns, as GNU ld writes maps and cross references.

use std::io::{self, Write};

/// Goes to a column; on a new line, if the text before it is too long.
pub(crate) fn pad(
    out: &mut (impl Write + ?Sized),
    written: usize,
    column: usize,
) -> io::Result<()> {
    if written < column {
        write!(out, "{:1$}", "", column - written)
    } else {
        write!(out, "\n{:column$}", "")
    }
}
