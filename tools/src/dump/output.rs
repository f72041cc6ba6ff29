//! Writing: text or JSON, with colours or without, to a terminal or into a pipe.
//!
//! A view is a `serde` structure and a function that writes the same as text.
//! Lists are written element by element, as they are read, so that `| head`
//! costs what it shows. When the reader of the pipe goes away, writing gives
//! `BrokenPipe`, which `repo-dump` ends with quietly.

use super::cli::When;
use anyhow::Result;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{BufWriter, IsTerminal, StdoutLock, Write};

/// Something that can be shown.
pub trait View: Serialize {
    /// Writes it as text for people.
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()>;
}

/// Standard output.
pub struct Output<'a> {
    writer: BufWriter<StdoutLock<'a>>,
    json: bool,
    style: Style,
}

impl Output<'_> {
    /// Standard output in the given form.
    pub fn new(json: bool, color: When) -> Output<'static> {
        let colored = match color {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                std::io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        };
        Output {
            writer: BufWriter::with_capacity(64 << 10, std::io::stdout().lock()),
            json,
            style: Style { colored },
        }
    }

    /// Shows one thing.
    pub fn show<V: View>(&mut self, view: &V) -> Result<()> {
        if self.json {
            serde_json::to_writer_pretty(&mut self.writer, view).map_err(json_error)?;
            self.writer.write_all(b"\n")?;
        } else {
            view.text(&mut Text {
                writer: &mut self.writer,
                style: self.style,
            })?;
        }
        Ok(())
    }

    /// Shows many things: a JSON array, or texts one after another under `heading`
    /// (which is left out where there is nothing to show).
    pub fn list<V: View>(
        &mut self,
        heading: &str,
        views: impl IntoIterator<Item = Result<V>>,
    ) -> Result<()> {
        let mut any = false;
        for view in views {
            let view = view?;
            if self.json {
                self.writer.write_all(if any { b",\n" } else { b"[\n" })?;
                serde_json::to_writer(&mut self.writer, &view).map_err(json_error)?;
            } else {
                let mut text = Text {
                    writer: &mut self.writer,
                    style: self.style,
                };
                if !any && !heading.is_empty() {
                    let heading = text.style.heading(heading);
                    writeln!(text, "{heading}")?;
                }
                view.text(&mut text)?;
            }
            any = true;
        }
        if self.json {
            self.writer
                .write_all(if any { b"\n]\n" } else { b"[]\n" })?;
        }
        Ok(())
    }

    /// Writes out what is held back.
    pub fn finish(mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}

/// `serde_json` wraps errors of the writer; unwrapped, a closed pipe is recognised.
fn json_error(error: serde_json::Error) -> anyhow::Error {
    match error.io_error_kind() {
        Some(kind) => std::io::Error::from(kind).into(),
        None => error.into(),
    }
}

/// Where a view writes its text.
pub struct Text<'a> {
    writer: &'a mut dyn Write,
    /// How to make things stand out.
    pub style: Style,
}

impl<'a> Text<'a> {
    /// Writes without colours to `writer`.
    #[cfg(test)]
    pub fn plain(writer: &'a mut dyn Write) -> Text<'a> {
        Text {
            writer,
            style: Style { colored: false },
        }
    }

    /// What `write!` and `writeln!` call.
    pub fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> std::io::Result<()> {
        self.writer.write_fmt(arguments)
    }

    /// A line "label: value", with the values of all such lines aligned.
    pub fn field(&mut self, label: &str, value: impl Display) -> std::io::Result<()> {
        let label = format!("{label}:");
        writeln!(self, "{label:<14} {value}")
    }
}

/// How to make things stand out.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    colored: bool,
}

/// Something with a colour around it, which does not count for its width.
pub struct Painted<T> {
    code: Option<&'static str>,
    inner: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.code else {
            return self.inner.fmt(f);
        };
        write!(f, "\x1b[{code}m")?;
        self.inner.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

impl Style {
    fn paint<T>(self, code: &'static str, inner: T) -> Painted<T> {
        Painted {
            code: self.colored.then_some(code),
            inner,
        }
    }

    /// A heading: bold.
    pub fn heading<T>(self, inner: T) -> Painted<T> {
        self.paint("1", inner)
    }

    /// A digest: yellow, as git's.
    pub fn digest<T>(self, inner: T) -> Painted<T> {
        self.paint("33", inner)
    }

    /// A name of the program's: green.
    pub fn name<T>(self, inner: T) -> Painted<T> {
        self.paint("32", inner)
    }

    /// Something less important: dim.
    pub fn dim<T>(self, inner: T) -> Painted<T> {
        self.paint("2", inner)
    }

    /// Something that is wrong or gone: red.
    pub fn bad<T>(self, inner: T) -> Painted<T> {
        self.paint("31", inner)
    }
}

/// Bytes of a name or path as text, unambiguously: what is not UTF-8 and what
/// would act on a terminal is escaped as in Rust.
pub fn printable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(|c| c.is_control())
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(text)
}

/// A number of bytes, for people: `1,234` or with `human` in KiB and more.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds since 1970 as a date and time in UTC (RFC 3339).
pub fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days since 1970 to a date of the Gregorian calendar: count from 0000-03-01 in
    // eras of 400 years, so that leap days come last in their year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Bytes as `hexdump -C` shows them, `indent` spaces in.
pub fn hex_dump(out: &mut Text<'_>, bytes: &[u8], indent: usize) -> std::io::Result<()> {
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let mut hex = String::with_capacity(50);
        for (index, byte) in chunk.iter().enumerate() {
            if index == 8 {
                hex.push(' ');
            }
            hex.push_str(&format!("{byte:02x} "));
        }
        let ascii: String = chunk
            .iter()
            .map(|&byte| {
                if byte.is_ascii_graphic() || byte == b' ' {
                    char::from(byte)
                } else {
                    '.'
                }
            })
            .collect();
        let offset = line * 16;
        writeln!(out, "{:indent$}{offset:4x}  {hex:<49} {ascii}", "")?;
    }
    Ok(())
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_act_on_a_terminal() {
        assert_eq!(printable(b"main"), "main");
        assert_eq!(printable("größe".as_bytes()), "größe");
        assert_eq!(printable(b"a\x1b[31mb\n\xff"), "a\\u{1b}[31mb\\n\\xff");
    }

    #[test]
    fn times_are_dates() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29T00:00:00Z");
        assert_eq!(time(1_732_109_445_123_456_789), "2024-11-20T13:30:45Z");
        assert_eq!(time(4_107_542_399_000_000_000), "2100-02-28T23:59:59Z");
        assert_eq!(time(4_107_542_400_000_000_000), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
    }

    #[test]
    fn colours_do_not_count_for_the_width() {
        let style = Style { colored: true };
        assert_eq!(format!("{:>4}|", style.bad("x")), "\x1b[31m   x\x1b[0m|");
        let style = Style { colored: false };
        assert_eq!(format!("{:>4}|", style.bad("x")), "   x|");
    }

    #[test]
    fn hex_dumps_have_offset_hex_and_text() {
        let mut buffer = Vec::new();
        let bytes: Vec<u8> = (b'A'..b'A' + 17).collect();
        hex_dump(&mut Text::plain(&mut buffer), &bytes, 2).expect("written");
        let text = String::from_utf8(buffer).expect("text");
        assert_eq!(
            text,
            "     0  41 42 43 44 45 46 47 48  49 4a 4b 4c 4d 4e 4f 50  ABCDEFGHIJKLMNOP\n    \
             10  51                                                Q\n"
        );
    }
}
