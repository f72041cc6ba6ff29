//! Sections that are about others (`SHF_LINK_ORDER`): they are linked if what they are about is.

use super::Tracer;
use crate::base::ids::SectionId;
use crate::resolve::input_sections::state;

impl Tracer<'_, '_> {
    /// Takes out what is about sections that are discarded from the start. What is about that goes as well.
    pub(super) fn discard_metadata(&self) {
        let is_out = |id: SectionId| self.sections.state(id) & state::DISCARDED != 0;
        loop {
            let mut settled = true;
            for (section, about) in self.link_order {
                let bits = self.sections.state(*section);
                if bits & (state::ALIVE | state::ROOT) == state::ALIVE && is_out(*about) {
                    self.sections.remove_state(*section, state::ALIVE);
                    self.sections.add_state(*section, state::DISCARDED);
                    settled = false;
                }
            }
            if settled {
                break;
            }
        }
    }

    /// When it is known what is alive: takes out what is not loaded and about sections that are not linked. Loaded sections
    /// that are linked all the same, because something refers to them or keeps them, are errors: `sh_link` of the output
    /// would have nothing to name, and whoever reads the section expects that it has.
    pub(super) fn settle_metadata(&self) {
        for (section, about) in self.link_order {
            let (bits, about_bits) = (self.sections.state(*section), self.sections.state(*about));
            let is_out = about_bits & state::DISCARDED != 0
                || about_bits & (state::ALIVE | state::ALLOC) == state::ALLOC;
            if bits & state::ALIVE == 0 || !is_out {
                continue;
            }
            if bits & (state::ALLOC | state::ROOT) == 0 {
                self.sections.remove_state(*section, state::ALIVE);
                continue;
            }
            let (file, _) = self.sections.origin(*section);
            self.diag.error(format!(
                "{}: sh_link of section {} points to discarded section {}",
                self.files.get(file),
                self.section_name(*section),
                self.section_name(*about)
            ));
        }
    }

    /// Whether a section is about another one.
    pub(super) fn is_metadata(&self, id: SectionId) -> bool {
        let found = self.link_order.binary_search_by_key(&id, |(own, _)| *own);
        found.is_ok()
    }

    fn section_name(&self, id: SectionId) -> String {
        let section = self.sections.at(self.files, id);
        String::from_utf8_lossy(&section.full_name()).into_owned()
    }
}
