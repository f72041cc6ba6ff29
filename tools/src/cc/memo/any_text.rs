//! All readers of sources, run on any text: for tests that have one that no compiler would take.
//!
//! What a compile depends on is told by these readers before anybody knows whether a text is one of C at all; so none of them may
//! fail, and what they say must fit together, whatever the bytes are.

use super::assembly::{self, Assembly};
use super::bodies::Outline;
use super::comments::{self, Keeps};
use super::emitted::{self, Emitted};
use super::lines::Lines;
use super::pasting::Pastes;
use super::standing::{Standing, says_lines};
use super::summaries::{Look, Summary};
use super::{depfile, graph, preprocessed, questions, reach, scan, tokens};
use crate::cc::classify::Language;
use crate::cc::compiler::Family;

/// Reads two texts of one source, as it was and as it is.
///
/// # Panics
/// If what is said of them does not fit together.
pub fn read(before: &[u8], now: &[u8]) {
    summarize(before);
    look_closer(before);
    let _ = (comments::unindents(before), says_lines(before));
    for keeps in [Keeps::Order, Keeps::Places] {
        let rest = |text: &[u8]| comments::without(text, keeps);
        let (Some(before), Some(now)) = (rest(before), rest(now)) else {
            continue;
        };
        compare_outlines(&before, &now, keeps);
    }
    if let (Some(before), Some(now)) = (Standing::of(before), Standing::of(now)) {
        for it in [&before, &now] {
            assert!(it.numbers().is_sorted_by(|one, next| one < next));
        }
        assert!(!before.is_as(&now) || before.numbers().len() == now.numbers().len());
    }
}

/// Reads it as a list of what a compile depends on: of `make`, and of clang's graph.
pub fn read_dependencies(bytes: &[u8]) {
    let _ = (depfile::prerequisites(bytes), graph::files(bytes));
}

fn summarize(text: &[u8]) {
    let Ok(joined) = scan::joined(text.to_vec()) else {
        return;
    };
    for (family, language) in [(Family::Clang, Language::Cxx), (Family::Gcc, Language::C)] {
        let look = Look {
            assembly: Assembly::Written,
            counts: true,
        };
        let mut lines = Lines::new(&[], family, language);
        let mut pastes = Pastes::default();
        let found = Summary::of(text, &joined, look, Some(&lines), &mut pastes);
        if let Some(found) = found.ok().and_then(|found| found.lines) {
            lines.add(found);
        }
        let _ = lines.follow().keep(false);
        let outline =
            comments::without(text, Keeps::Order).and_then(|rest| Outline::of(&rest, Keeps::Order));
        if let (Some(reaching), Some(outline)) = (lines.follow().reaching(), outline) {
            emitted::condition(&Emitted::default(), &[outline], &reaching);
        }
    }
}

/// What is asked only if something in a summary gives cause to.
fn look_closer(text: &[u8]) {
    let _ = Assembly::Alone.doubt(text);
    let _ = assembly::has_reading_literals(text);
    let _ = reach::in_directives([text].into_iter());
    let _ = tokens::includes_plainly(text);
    let _ = (
        questions::by_name(text, b"A"),
        scan::definitions(text, b"A"),
    );
    preprocessed::read(text, Family::Gcc);
}

fn compare_outlines(before: &[u8], now: &[u8], keeps: Keeps) {
    let of = |text| Outline::of(text, keeps);
    let (Some(old), Some(new)) = (of(before), of(now)) else {
        return;
    };
    assert!(emitted::may_be(&old, &old, &[], &[]).is_some_and(|others| others.is_empty()));
    if emitted::may_be(&old, &new, &[], &[]).is_none() {
        return;
    }
    let Some(lines) = old.lines_now(&new) else {
        return;
    };
    for pair in lines.windows(2) {
        assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
    }
    let is_in =
        |(line, now): &(u32, u32)| (*line as usize) < old.lines() && (*now as usize) < new.lines();
    assert!(lines.iter().all(is_in));
}
