//! `cargo xtask layers`: whether the linker's rooms still stand on each other, and the crates too.
//!
//! [`ROOMS`] are the linker's folders from the bottom up; arrows between them go down, and modules of one room do not
//! need each other in a circle. Arrows are found in the sources: every `crate::ROOM::MODULE` that is not in a comment or a
//! test.

use anyhow::{Context as _, Result, bail};
use repo_tests::sources::project_root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What is asked for.
#[derive(clap::Args)]
pub struct Arguments {
    /// Print the linker's rooms and their arrows as a graph in the DOT language
    #[arg(long)]
    dot: bool,
}

/// Rooms of the linker from the bottom up: folders of `linker/src`.
const ROOMS: &[&str] = &[
    "base",
    "elf",
    "args",
    "messages",
    "script",
    "repository",
    "input",
    "resolve",
    "graph",
    "layout",
    "output",
    "report",
    "link",
];

/// Macros stand at the crate's root, wherever they are written.
const MACROS: &[(&str, &str)] = &[("say", "messages::stdio"), ("tell", "messages::stdio")];

/// Crates from the bottom up; those of one line do not know each other.
const CRATES: &[&[&str]] = &[
    &["format-spec"],
    &["store"],
    &["tickets"],
    &["linker", "compactor"],
    &["tools"],
];

/// Which modules use which, each arrow with a file that has it.
type Arrows = BTreeMap<(String, String), String>;

/// Checks the arrows.
///
/// # Errors
/// If sources cannot be read.
pub fn layers(arguments: &Arguments) -> Result<ExitCode> {
    let mut complaints = Vec::new();
    let arrows = arrows(&project_root().join("linker/src"), &mut complaints)?;
    complaints.extend(check_climbs(&arrows));
    complaints.extend(check_circles(&arrows));
    complaints.extend(check_crates()?);
    if arguments.dot {
        print_dot(&arrows);
    }
    for complaint in &complaints {
        eprintln!("xtask: {complaint}");
    }
    eprintln!(
        "xtask: {} arrows between modules of the linker",
        arrows.len()
    );
    Ok(ExitCode::from(u8::from(!complaints.is_empty())))
}

/// The arrows between modules of rooms. The program's own files (`lib.rs`, `main.rs`) may know everything.
fn arrows(root: &Path, complaints: &mut Vec<String>) -> Result<Arrows> {
    let files = sources(root)?;
    let inside: Vec<&Path> = files
        .iter()
        .filter_map(|path| path.strip_prefix(root).ok())
        .collect();
    let modules: BTreeSet<String> = inside.iter().filter_map(|path| module_of(path)).collect();
    let mut arrows = Arrows::new();
    for (path, inside) in files.iter().zip(&inside) {
        let Some(module) = module_of(inside) else {
            continue;
        };
        if floor_of(&module).is_none() {
            complaints.push(format!("{} is in no room", inside.display()));
            continue;
        }
        for used in uses(&fs::read_to_string(path)?, &modules) {
            if floor_of(&used).is_none() {
                complaints.push(format!("{}: {used} is in no room", inside.display()));
            } else if used != module {
                arrows
                    .entry((module.clone(), used))
                    .or_insert_with(|| inside.display().to_string());
            }
        }
    }
    Ok(arrows)
}

/// The module that a file belongs to: its room and the room's child, or the room itself.
fn module_of(inside: &Path) -> Option<String> {
    let mut parts = inside.iter().map(|part| part.to_string_lossy());
    let room = parts.next()?;
    let child = parts.next()?;
    let child = child.trim_end_matches(".rs");
    Some(if child == "mod" {
        room.into_owned()
    } else {
        format!("{room}::{child}")
    })
}

/// The room of a module.
fn room_of(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// How high a module's room stands.
fn floor_of(module: &str) -> Option<usize> {
    ROOMS.iter().position(|room| *room == room_of(module))
}

/// Arrows between rooms that climb.
fn check_climbs(arrows: &Arrows) -> Vec<String> {
    arrows
        .iter()
        .filter(|((from, to), _)| floor_of(from) < floor_of(to))
        .map(|((from, to), file)| {
            format!("linker/src/{file}: {from} must not know {to}, which is above it")
        })
        .collect()
}

/// Circles among the modules of a room: those that need each other, directly or through others.
fn check_circles(arrows: &Arrows) -> Vec<String> {
    let mut below: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        if room_of(from) == room_of(to) {
            below.entry(from).or_default().insert(to);
        }
    }
    let reach: BTreeMap<&str, BTreeSet<&str>> = below
        .keys()
        .map(|from| (*from, reached(from, &below)))
        .collect();
    let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (from, all) in &reach {
        let circle: Vec<&str> = all
            .iter()
            .copied()
            .filter(|to| reach.get(to).is_some_and(|back| back.contains(from)))
            .collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    let told = |circle: &Vec<&str>| format!("a circle: {}", circle.join(", "));
    circles.iter().map(told).collect()
}

/// What is reached from a module over at least one arrow.
fn reached<'a>(from: &str, below: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<&str> = below.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = waiting.pop() {
        if found.insert(module) {
            waiting.extend(below.get(module).into_iter().flatten());
        }
    }
    found
}

/// The files of a directory that are no tests.
fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
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

/// The crate's own modules that a text mentions, of those that there are. A name that is no module is an item of the room.
fn uses(text: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    // Tests stand at the end, if they are in the file; those in a file of their own are only named.
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
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
            let mut names = line[at + matched.len()..].split("::").map(identifier);
            let Some(first) = names.next().filter(|name| !name.is_empty()) else {
                continue;
            };
            if let Some((_, module)) = MACROS.iter().find(|(name, _)| *name == first) {
                found.insert((*module).to_owned());
                continue;
            }
            let child = format!("{first}::{}", names.next().unwrap_or_default());
            found.insert(if modules.contains(&child) {
                child
            } else {
                first.to_owned()
            });
        }
    }
    found
}

/// The identifier that a text begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
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
fn print_dot(arrows: &Arrows) {
    let mut between: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        if let (Some(from), Some(to)) = (floor_of(from), floor_of(to))
            && from != to
        {
            *between.entry((from, to)).or_default() += 1;
        }
    }
    println!("digraph linker {{");
    for ((from, to), count) in between {
        let color = if from < to { ", color=red" } else { "" };
        println!("  {} -> {} [label={count}{color}];", ROOMS[from], ROOMS[to]);
    }
    println!("}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_and_comments_are_none() {
        let modules = ["elf", "elf::crel"].map(str::to_owned).into();
        let text = "use crate::elf::c;\n// crate::no\nlet x = crate::tell!(\"\");\nother_crate::neither\n\
                    #[cfg(test)]\nmod tests;\nuse crate::elf::crel::decode;\n\
                    #[cfg(test)]\nmod tests {\n    use crate::args::Args;\n}\n";
        let found: Vec<_> = uses(text, &modules).into_iter().collect();
        assert_eq!(found, ["elf", "elf::crel", "messages::stdio"]);
    }

    #[test]
    fn circles_and_climbs_are_found() {
        let arrow = |from: &str, to: &str| ((from.to_owned(), to.to_owned()), "file.rs".to_owned());
        let circle = Arrows::from([
            arrow("elf::a", "elf::b"),
            arrow("elf::b", "elf::c"),
            arrow("elf::c", "elf::a"),
            arrow("elf::c", "elf::d"),
        ]);
        assert_eq!(check_circles(&circle), ["a circle: elf::a, elf::b, elf::c"]);
        let climb = Arrows::from([arrow("elf::a", "link"), arrow("link", "elf::a")]);
        assert_eq!(check_climbs(&climb).len(), 1);
    }
}
