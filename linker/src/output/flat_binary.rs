//! `--oformat binary`: the memory image without headers, as boot loaders and flash programmers want it.

use crate::layout::program_headers::Segments;
use crate::resolve::output_sections::Outputs;

/// More than any memory that such an image is for.
const MOST_BYTES: u64 = 1 << 34;

/// The bytes of the loaded sections, each at the distance of its load address from the lowest one; zeros between them.
///
/// # Errors
/// If the sections are too far apart for a file.
pub fn of_image(outputs: &Outputs, segments: &Segments, image: &[u8]) -> Result<Vec<u8>, String> {
    let loaded = || {
        segments
            .sections
            .iter()
            .map(|id| &outputs.sections[id.index()])
            .filter(|section| section.is_alloc() && section.file_size() > 0)
            .map(|section| {
                let start = section.address.wrapping_add(section.load_offset);
                (start, section)
            })
    };
    let start = loaded().map(|(start, _)| start).min().unwrap_or(0);
    let ends = loaded().map(|(start, section)| start.saturating_add(section.size));
    let size = ends.max().unwrap_or(0) - start;
    if size > MOST_BYTES {
        return Err(format!(
            "--oformat binary: the sections' load addresses are too far apart: the file would have {size} bytes"
        ));
    }
    let mut flat = vec![0; size as usize];
    for (at, section) in loaded() {
        let at = (at - start) as usize;
        let bytes = &image[section.offset as usize..][..section.size as usize];
        flat[at..at + bytes.len()].copy_from_slice(bytes);
    }
    Ok(flat)
}
