//! A position in the text of a linker script or a version script. What lies between their words is the same: white
//! space, comments as in C, and `#` to the end of a line.

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptText<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
}

/// A comment that does not end.
#[derive(Debug)]
pub(crate) struct UnclosedComment;

impl<'a> ScriptText<'a> {
    /// The beginning of a text.
    pub(crate) fn new(text: &'a [u8]) -> ScriptText<'a> {
        ScriptText {
            text,
            at: 0,
            line: 1,
        }
    }

    /// The offset, bytes.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The line, counted from 1.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// The text from here on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Goes over `count` bytes, or as many as there are, and returns them.
    pub(crate) fn advance(&mut self, count: usize) -> &'a [u8] {
        let rest = self.rest();
        let taken = &rest[..count.min(rest.len())];
        self.at += taken.len();
        let lines = memchr::memchr_iter(b'\n', taken).count();
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        self.line = self.line.saturating_add(lines);
        taken
    }

    /// Goes over white space and comments.
    pub(crate) fn skip_blank(&mut self) -> Result<(), UnclosedComment> {
        loop {
            let rest = self.rest();
            let blank = rest
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace() || **byte == b'\x0b')
                .count();
            self.advance(blank);
            let rest = self.rest();
            if rest.starts_with(b"/*") {
                let end = memchr::memmem::find(&rest[2..], b"*/").ok_or(UnclosedComment)?;
                self.advance(end + 4);
            } else if rest.first() == Some(&b'#') {
                self.advance(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
            } else {
                return Ok(());
            }
        }
    }
}
