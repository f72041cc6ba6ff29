//! Translation units of many functions, a few of which are shared by all, made of text that compresses as code does.

use format_spec::fragment::{SectionKind, SectionRecord};
use store::program::build::{Compilation, Fixups, Fragment, Name, Place, Section, Symbol};
use store::program::{Prepared, ProgramError};

/// Functions of a unit.
const FUNCTIONS: usize = 20;

/// What the parts of a unit are borrowed from.
pub struct Text {
    names: Vec<String>,
    codes: Vec<Vec<u8>>,
}

impl Text {
    /// That of the unit of this number.
    pub fn new(number: u64) -> Text {
        let mut text = Text {
            names: Vec::new(),
            codes: Vec::new(),
        };
        for function in 0..FUNCTIONS as u64 {
            // A fifth of them are others' as well.
            let own = if function % 5 == 0 {
                number / 50
            } else {
                number
            };
            let seed = blake3::hash(&[own.to_le_bytes(), function.to_le_bytes()].concat());
            text.names
                .push(format!("_ZN7program4unit{own}8function{function}Ev"));
            let size = 120 + usize::from(seed.as_bytes()[0]) * 6;
            let mut reader = blake3::Hasher::new().update(seed.as_bytes()).finalize_xof();
            let mut code = vec![0; size];
            reader.fill(&mut code);
            // Half of the bytes are of a few kinds, as opcodes are.
            code.iter_mut().step_by(2).for_each(|byte| *byte &= 7);
            text.codes.push(code);
        }
        text
    }

    /// The unit, prepared to be added.
    ///
    /// # Errors
    /// None that is known.
    pub fn unit(&self) -> Result<Prepared<'_>, ProgramError> {
        let mut names: Vec<&[u8]> = vec![b"", b".text"];
        names.extend(self.names.iter().map(String::as_bytes));
        let null = Symbol {
            name: Name(0),
            place: Place::Undefined,
            value: 0,
            size: 0,
            info: 0,
            other: 0,
            bits: 0,
        };
        let mut unit = Compilation {
            machine: 62,
            names,
            symbols: vec![null],
            first_global: 1,
            ..Compilation::default()
        };
        for (number, code) in (0_u32..).zip(&self.codes) {
            unit.fragments.push(Fragment {
                sections: number..number + 1,
                targets: 0..0,
                bindings: 0..0,
                suffix: Name(number + 2),
                group: 0,
                plain: None,
            });
            unit.digest_order.push(number);
            unit.sections.push(Section {
                name: Name(1),
                kind: SectionKind::Text,
                sh_type: 1,
                sh_flags: 6,
                entsize: 0,
                align_log2: 4,
                bits: SectionRecord::SUFFIXED,
                link: 0,
                size: code.len() as u64,
                bytes: code[..].into(),
                fixups: Fixups::Narrow(0..0),
                frame: None,
            });
            unit.symbols.push(Symbol {
                name: Name(number + 2),
                place: Place::Section(number),
                size: code.len() as u64,
                info: 0x12,
                ..null
            });
        }
        Prepared::new(unit)
    }
}
