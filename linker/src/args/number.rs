//! Numbers on the command line: decimal, `0x…` hexadecimal, `0…` octal, as C's `strtoul` with base 0.

/// Parses a whole word; `None` if any of it is not part of the number, or if it does not fit.
pub(super) fn parse(word: &[u8]) -> Option<u64> {
    let word = std::str::from_utf8(word).ok()?;
    let (digits, radix) = match word.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&word[2..], 16),
        [b'0', _, ..] => (&word[1..], 8),
        _ => (word, 10),
    };
    // `from_str_radix` would take a sign.
    if !digits.as_bytes().first()?.is_ascii_hexdigit() {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Parses an address as `-Ttext` and `--section-start` take it: hexadecimal, with or without `0x` (GNU ld's manual,
/// "-Tbss": "ORG must be a single hexadecimal integer; for compatibility with other linkers, you may omit the leading
/// `0x`").
pub(super) fn parse_hex(word: &[u8]) -> Option<u64> {
    let word = std::str::from_utf8(word).ok()?;
    let digits = word
        .strip_prefix("0x")
        .or_else(|| word.strip_prefix("0X"))
        .unwrap_or(word);
    if !digits.as_bytes().first()?.is_ascii_hexdigit() {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}
