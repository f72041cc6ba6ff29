//! String tables (gABI, "String Table"): names one after another, each once,
//! each ended by a zero byte, with the empty string at offset 0.

use rustc_hash::FxHashMap;

/// Builder of a string table in which equal strings share a place.
pub struct StringTable<'a> {
    bytes: Vec<u8>,
    offsets: FxHashMap<&'a [u8], u32>,
}

impl<'a> StringTable<'a> {
    /// A table with the empty string only.
    pub fn new() -> StringTable<'a> {
        StringTable {
            bytes: vec![0],
            offsets: FxHashMap::default(),
        }
    }

    /// The offset of `string` in the table; it is added if it is not there. `None` if the table
    /// would outgrow the 32 bits of `st_name`.
    pub fn add(&mut self, string: &'a [u8]) -> Option<u32> {
        if string.is_empty() {
            return Some(0);
        }
        if let Some(&offset) = self.offsets.get(string) {
            return Some(offset);
        }
        let offset = u32::try_from(self.bytes.len()).ok()?;
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
        self.offsets.insert(string, offset);
        Some(offset)
    }

    /// Adds the string that consists of `parts`, though it may be there already, and gives its offset. `None` as with
    /// [`StringTable::add`].
    pub fn append(&mut self, parts: &[&[u8]]) -> Option<u32> {
        let offset = u32::try_from(self.bytes.len()).ok()?;
        parts
            .iter()
            .for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(0);
        Some(offset)
    }

    /// The offset of a string that was added.
    pub fn get(&self, string: &[u8]) -> Option<u32> {
        if string.is_empty() {
            Some(0)
        } else {
            self.offsets.get(string).copied()
        }
    }

    /// The table as it goes to the output.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for StringTable<'_> {
    fn default() -> Self {
        StringTable::new()
    }
}

#[cfg(test)]
mod tests {
    use super::StringTable;

    #[test]
    fn strings_stand_once() {
        let mut table = StringTable::new();
        assert_eq!(table.add(b"one"), Some(1));
        assert_eq!(table.add(b"two"), Some(5));
        assert_eq!(table.add(b"one"), Some(1));
        assert_eq!(table.add(b""), Some(0));
        assert_eq!(table.get(b"two"), Some(5));
        assert_eq!(table.get(b"three"), None);
        assert_eq!(table.bytes(), b"\0one\0two\0");
    }
}
