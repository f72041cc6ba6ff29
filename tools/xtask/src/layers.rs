//! `cargo xtask layers`: whether the linker's rooms still stand on each other, and the crates too.
//!
//! [`ROOMS`] are the linker's floors from the bottom up, each with the modules that are in it; arrows go down. They are
//! found in the sources: every `crate::NAME` that is not in a comment or a test. What climbed when this began is in
//! [`KNOWN`]; the list must shrink: an entry that nothing needs any more is an error, too.

use anyhow::{Context as _, Result, bail};
use repo_tests::sources::project_root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// What is asked for.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print the linker's rooms and their arrows as a graph in the DOT language
    #[arg(long)]
    dot: bool,
}

/// Rooms of the linker from the bottom up, and their modules.
const ROOMS: &[(&str, &str)] = &[
    ("base", "ids glob prefetch least distinct"),
    (
        "elf",
        "elf archive crel strtab hash_tables versions eh_frame note_property gdb_index debug_compress build_id arch",
    ),
    ("args", "args"),
    (
        "messages",
        "diag printing progress timing log unsupported leave",
    ),
    ("script", "script script_text version_script"),
    ("repository", "split join import"),
    (
        "input",
        "inputs search remap stream pages file object elf_object ticket_object shared raw_input image temporary_name host stamp",
    ),
    (
        "resolve",
        "symbols shared_names resolve versioning export linker_symbols mentions unique_symbols retain sections output \
         unique context room",
    ),
    ("graph", "trace plan frames sframe merge pieces icf"),
    (
        "layout",
        "layout sizes segments addresses got relr dynamic symtab section_index notes scripting",
    ),
    (
        "output",
        "write made relocate emit_relocs debug_sections flat_binary output_file",
    ),
    (
        "report",
        "report hints warnings symbol_warnings shared_checks cross_reference map source_lines dependency_file",
    ),
    ("link", "link relocatable lto other_linker"),
    ("program", "lib main"),
];

/// Macros stand at the crate's root, wherever they are written.
const MACROS: &[(&str, &str)] = &[("say", "printing"), ("tell", "printing")];

/// Arrows that climb: module, what it uses. One constant or function each, mostly, which belongs below.
const KNOWN: &[(&str, &str)] = &[
    ("args", "diag"),
    ("args", "scripting"),
    ("file", "symbols"),
    ("inputs", "lto"),
    ("inputs", "mentions"),
    ("inputs", "scripting"),
    ("inputs", "symbols"),
    ("map", "relocatable"),
    ("mentions", "scripting"),
    ("notes", "warnings"),
    ("output", "scripting"),
    ("resolve", "scripting"),
    ("sections", "scripting"),
    ("sframe", "addresses"),
    ("shared_names", "scripting"),
];

/// Crates from the bottom up; those of one line do not know each other.
const CRATES: &[&[&str]] = &[
    &["format-spec"],
    &["store"],
    &["tickets"],
    &["linker", "compactor"],
    &["tools"],
];

/// Checks the arrows.
///
/// # Errors
/// If sources cannot be read.
pub fn layers(arguments: &Arguments) -> Result<ExitCode> {
    let floor_of = floors();
    let mut arrows: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut complaints = Vec::new();
    let root = project_root().join("linker/src");
    for path in sources(&root)? {
        let inside = path.strip_prefix(&root)?;
        let first = inside.components().next().context("a file has a name")?;
        let first = first.as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        if !floor_of.contains_key(&module[..]) {
            complaints.push(format!("{} is in no room", inside.display()));
            continue;
        }
        for used in uses(&fs::read_to_string(&path)?) {
            if !floor_of.contains_key(&used[..]) {
                complaints.push(format!("{}: {used} is in no room", inside.display()));
            } else if used != module {
                let arrow = (module.clone(), used);
                arrows
                    .entry(arrow)
                    .or_insert_with(|| inside.display().to_string());
            }
        }
    }
    let climbs: BTreeSet<(&str, &str)> = arrows
        .keys()
        .filter(|(from, to)| floor_of[&from[..]] < floor_of[&to[..]])
        .map(|(from, to)| (&from[..], &to[..]))
        .collect();
    let known: BTreeSet<(&str, &str)> = KNOWN.iter().copied().collect();
    for (from, to) in climbs.difference(&known) {
        let file = &arrows[&((*from).to_owned(), (*to).to_owned())];
        let room = |module: &str| ROOMS[floor_of[module]].0;
        complaints.push(format!(
            "linker/src/{file}: {} must not know {} ({from} uses {to})",
            room(from),
            room(to)
        ));
    }
    for (from, to) in known.difference(&climbs) {
        complaints.push(format!("{from} uses {to} no more: take it off the list"));
    }
    complaints.extend(check_crates()?);
    if arguments.dot {
        print_dot(&arrows, &floor_of);
    }
    for complaint in &complaints {
        eprintln!("xtask: {complaint}");
    }
    eprintln!(
        "xtask: {} arrows between modules of the linker, {} known ones climb",
        arrows.len(),
        known.len()
    );
    Ok(ExitCode::from(u8::from(!complaints.is_empty())))
}

/// The floor of each module.
fn floors() -> BTreeMap<&'static str, usize> {
    let rooms = ROOMS.iter().enumerate();
    rooms
        .flat_map(|(floor, (_, modules))| modules.split_whitespace().map(move |name| (name, floor)))
        .collect()
}

/// The files of a directory that are no tests.
fn sources(directory: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The crate's own modules that a text mentions.
fn uses(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    for line in lines {
        for (at, matched) in line.match_indices("crate::") {
            // `$crate::` of macros counts, `other_crate::` does not.
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &line[at + matched.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            let known = MACROS.iter().find(|(macro_name, _)| *macro_name == name);
            let name = known.map_or(name, |(_, module)| module);
            if !name.is_empty() {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

/// Crates depend on those below them only.
fn check_crates() -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (floor, crates) in CRATES.iter().enumerate() {
        for name in *crates {
            let directory = match *name {
                "tickets" => "store/tickets",
                name => name,
            };
            let path = project_root().join(directory).join("Cargo.toml");
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let Some((_, rest)) = text.split_once("\n[dependencies]\n") else {
                bail!("{} has no dependencies", path.display());
            };
            let own = rest.split("\n[").next().unwrap_or_default();
            for other in CRATES[floor..].iter().flat_map(|crates| crates.iter()) {
                let is_it = |line: &str| {
                    let end = line.find(['.', ' ', '=']);
                    end.is_some_and(|end| &line[..end] == *other)
                };
                if own.lines().any(is_it) {
                    complaints.push(format!("{name} must not know {other}"));
                }
            }
        }
    }
    Ok(complaints)
}

/// The rooms and their arrows; what climbs is red.
fn print_dot(arrows: &BTreeMap<(String, String), String>, floor_of: &BTreeMap<&str, usize>) {
    let mut between: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        let (from, to) = (floor_of[&from[..]], floor_of[&to[..]]);
        if from != to {
            *between.entry((from, to)).or_default() += 1;
        }
    }
    println!("digraph linker {{");
    for ((from, to), count) in between {
        let color = if from < to { ", color=red" } else { "" };
        println!(
            "  {} -> {} [label={count}{color}];",
            ROOMS[from].0, ROOMS[to].0
        );
    }
    println!("}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_and_comments_are_none() {
        let text =
            "use crate::elf::c;\n// crate::no\nlet x = crate::tell!(\"\");\nother_crate::neither\n";
        let found: Vec<_> = uses(text).into_iter().collect();
        assert_eq!(found, ["elf", "printing"]);
    }
}
