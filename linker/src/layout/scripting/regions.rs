//! `MEMORY`: regions that sections are put into, how full they are, and what is said if they are too full.

use crate::elf::shf;
use crate::messages::diag::Diagnostics;
use crate::script::{Attributes, RegionAttributes};

/// A region, or the whole address space (the first of [`Regions`]).
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub name: Vec<u8>,
    pub attributes: RegionAttributes,
    pub origin: u64,
    pub length: u64,
    /// Where the next section goes.
    pub current: u64,
    /// The description that was last put there: the next one is loaded as it is.
    pub last: Option<usize>,
    /// By how much it is too full.
    overflow: u64,
}

/// All regions. The first stands for all addresses, for sections that go to none.
#[derive(Clone, Debug)]
pub(super) struct Regions {
    list: Vec<Region>,
}

impl Regions {
    /// No region but the whole address space.
    pub fn new() -> Regions {
        Regions {
            list: vec![Region {
                name: b"*default*".to_vec(),
                attributes: RegionAttributes::default(),
                origin: 0,
                length: u64::MAX,
                current: 0,
                last: None,
                overflow: 0,
            }],
        }
    }

    pub fn add(&mut self, name: &[u8], attributes: RegionAttributes, origin: u64, length: u64) {
        self.list.push(Region {
            name: name.to_vec(),
            attributes,
            origin,
            length,
            current: origin,
            last: None,
            overflow: 0,
        });
    }

    pub fn get(&self, number: usize) -> &Region {
        &self.list[number]
    }

    pub fn get_mut(&mut self, number: usize) -> &mut Region {
        &mut self.list[number]
    }

    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.list.iter().position(|region| region.name == name)
    }

    /// How many there are, the whole address space included.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the script has any.
    pub fn is_used(&self) -> bool {
        self.list.len() > 1
    }

    /// The region for a section that names none: the first whose attributes suit it, else the whole address space.
    pub fn for_flags(&self, flags: u64, bits: bool) -> usize {
        let mut attributes = Attributes::empty();
        if flags & shf::ALLOC != 0 {
            attributes |= Attributes::ALLOCATED;
        }
        match flags & shf::WRITE != 0 {
            true => {
                if flags & shf::EXEC == 0 {
                    attributes |= Attributes::WRITABLE;
                }
            }
            false => attributes |= Attributes::READ_ONLY,
        }
        if flags & shf::EXEC != 0 {
            attributes |= Attributes::EXECUTABLE;
        }
        if bits {
            attributes |= Attributes::INITIALISED;
        }
        let suits = |region: &Region| {
            region.attributes.any.intersects(attributes)
                && !region.attributes.none.intersects(attributes)
        };
        self.list
            .iter()
            .skip(1)
            .position(suits)
            .map_or(0, |i| i + 1)
    }

    /// Says, in GNU ld's words, if what was put into a region last does not fit. `at` is the address that the section
    /// was given by an expression.
    pub fn check(
        &mut self,
        number: usize,
        at: Option<u64>,
        output: &str,
        section: &str,
        diag: &Diagnostics,
    ) {
        let region = &mut self.list[number];
        let used = region.current.wrapping_sub(region.origin);
        if region.current >= region.origin && used <= region.length {
            return;
        }
        let name = String::from_utf8_lossy(&region.name);
        match at {
            Some(at) => diag.pardonable(format!(
                "address {at:#x} of {output} section `{section}' is not within region `{name}'"
            )),
            None => {
                if region.overflow == 0 {
                    diag.pardonable(format!(
                        "{output} section `{section}' will not fit in region `{name}'"
                    ));
                }
                region.overflow = used.saturating_sub(region.length);
            }
        }
    }

    /// Says by how much regions are too full.
    pub fn report_overflow(&self, diag: &Diagnostics) {
        for region in self.list.iter().filter(|region| region.overflow > 0) {
            let plural = if region.overflow == 1 { "" } else { "s" };
            diag.pardonable(format!(
                "region `{}' overflowed by {} byte{plural}",
                String::from_utf8_lossy(&region.name),
                region.overflow
            ));
        }
    }

    /// `--print-memory-usage`, as GNU ld prints it.
    pub fn usage(&self) -> String {
        use std::fmt::Write;
        let mut table = String::from("Memory region         Used Size  Region Size  %age Used\n");
        let size = |bytes: u64| match bytes {
            0 => "0 GB".to_string(),
            _ if bytes.is_multiple_of(1 << 30) => format!("{} GB", bytes >> 30),
            _ if bytes.is_multiple_of(1 << 20) => format!("{} MB", bytes >> 20),
            _ if bytes.is_multiple_of(1 << 10) => format!("{} KB", bytes >> 10),
            _ => format!("{bytes} B"),
        };
        for region in &self.list[1..] {
            let used = region.current.wrapping_sub(region.origin);
            let used_text = if used == 0 { "0 B".into() } else { size(used) };
            let name = String::from_utf8_lossy(&region.name);
            let _ = write!(
                table,
                "{name:>16}: {used_text:>13} {:>12}",
                size(region.length)
            );
            let _ = match region.length {
                0 => writeln!(table),
                length => writeln!(table, "    {:6.2}%", 100.0 * used as f64 / length as f64),
            };
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_find_the_region_that_suits_them() {
        let mut regions = Regions::new();
        let attributes = |any, none| RegionAttributes { any, none };
        regions.add(
            b"rom",
            attributes(
                Attributes::READ_ONLY | Attributes::EXECUTABLE,
                Attributes::empty(),
            ),
            0,
            16,
        );
        regions.add(
            b"ram",
            attributes(Attributes::empty(), Attributes::empty()),
            16,
            16,
        );
        regions.add(
            b"data",
            attributes(Attributes::WRITABLE, Attributes::EXECUTABLE),
            32,
            16,
        );
        let find = |flags| regions.get(regions.for_flags(flags, true)).name.clone();
        assert_eq!(find(shf::ALLOC | shf::EXEC), b"rom");
        assert_eq!(find(shf::ALLOC), b"rom");
        assert_eq!(find(shf::ALLOC | shf::WRITE), b"data");
        assert_eq!(regions.find(b"ram"), Some(2));
    }
}
