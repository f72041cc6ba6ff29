//! The commands of all scripts of a link, in one list.
//!
//! In the order in which they take effect: `--defsym`, which may be thought of as a script before all others; `-T`, or
//! else `--default-script`; and scripts among the inputs.

use super::default_script;
use crate::args::environment::Environment;
use crate::args::{Args, Entry, OrphanHandling, OutputFormat, SortSection};
use crate::input::library_search::Search;
use crate::messages::diag::Diagnostics;
use crate::script::expr::{BinaryOp, SectionQuery};
use crate::script::{
    self, AssignOp, Assignment, Command, Constraint, Expr, Formats, Loader, MemoryRegion, Name,
    OutputSection, Pos, Script, SectionCommand, SectionType, SectionsCommand, Target,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the scripts of a link say.
#[derive(Debug, Default)]
pub struct Scripts {
    /// The commands of all of them.
    pub script: Script,
    /// How many of the commands are from the command line (`--defsym`, `-T`): the rest is from inputs.
    pub from_options: usize,
    /// The command from which on the default layout is described, if others are about it.
    pub default_layout: Option<usize>,
}

/// Files that `INCLUDE` names are looked for as those of `-T`.
pub struct Includes<'s>(pub &'s Search);

impl Loader for Includes<'_> {
    fn load(&mut self, name: &[u8]) -> Result<(String, Vec<u8>), String> {
        let path = Path::new(OsStr::from_bytes(name));
        let path = self
            .0
            .script(path)
            .ok_or("No such file in the current directory or on the search path")?;
        let text = crate::input::unseekable::read(&path).map_err(|why| why.to_string())?;
        Ok((path.display().to_string(), text))
    }
}

impl Scripts {
    /// Reads what the command line says: `--defsym`, `-T`.
    pub fn load(args: &Args, search: &Search, diag: &Diagnostics) -> Scripts {
        let mut scripts = Scripts::default();
        for defsym in &args.defsyms {
            let name = String::from_utf8_lossy(&defsym.name);
            let origin = format!("--defsym {name}");
            let file = scripts.script.files.len() as u32;
            match script::parse_expr(&defsym.expr, &origin) {
                Ok(expr) => scripts.script.commands.push(Command::Assign(Assignment {
                    target: Target::Symbol(defsym.name.clone()),
                    op: AssignOp::Set,
                    expr,
                    provide: false,
                    hidden: false,
                    pos: Pos { file, line: 0 },
                })),
                Err(why) => diag.error(why),
            }
            scripts.script.files.push(origin);
        }
        for path in of_options(args) {
            match read(path, search) {
                Ok((found, text)) => {
                    let name = found.display().to_string();
                    if let Err(why) =
                        script::parse_onto(&mut scripts.script, &text, &name, &mut Includes(search))
                    {
                        diag.error(why);
                    }
                }
                Err(why) => diag.error(format!(
                    "cannot open linker script file {}: {why}",
                    path.display()
                )),
            }
        }
        scripts.name_overlays();
        scripts.from_options = scripts.script.commands.len();
        scripts
    }

    /// "For each section within the OVERLAY, the linker automatically provides two symbols": `__load_start_NAME` and
    /// `__load_stop_NAME`, without the characters that C does not allow in names.
    fn name_overlays(&mut self) {
        let mut provided = Vec::new();
        for command in &self.script.commands {
            let Command::Sections(commands) = command else {
                continue;
            };
            let overlays = commands.iter().filter_map(|command| match command {
                SectionsCommand::Overlay(overlay) => Some(overlay),
                _ => None,
            });
            for section in overlays.flat_map(|overlay| &overlay.sections) {
                let legal = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let name: Vec<u8> = section.name.iter().copied().filter(legal).collect();
                let query = |query| Expr::Section(query, section.name.clone());
                let start = query(SectionQuery::LoadAddress);
                let stop = Expr::Binary(
                    BinaryOp::Add,
                    start.clone().into(),
                    query(SectionQuery::Size).into(),
                );
                for (prefix, expr) in [(&b"__load_start_"[..], start), (b"__load_stop_", stop)] {
                    provided.push(Command::Assign(Assignment {
                        target: Target::Symbol([prefix, &name].concat()),
                        op: AssignOp::Set,
                        expr,
                        provide: true,
                        hidden: false,
                        pos: section.pos,
                    }));
                }
            }
        }
        self.script.commands.extend(provided);
    }

    /// Whether the `SECTIONS` command of this number adds to a layout that another script has, or else the default one:
    /// "Implicit Linker Scripts" in GNU ld's manual.
    pub fn augments(&self, number: usize) -> bool {
        let is_default = self.default_layout.is_some_and(|first| first <= number);
        number >= self.from_options && !is_default && self.insert_of(number).is_none()
    }

    /// Adds the default layout, if commands are about it (`INSERT`, `MEMORY`, `PHDRS`, or what adds to it) and no script
    /// has another.
    pub fn complete(&mut self, args: &Args, diag: &Diagnostics) {
        let commands = &self.script.commands;
        let about_layout = commands.iter().enumerate().any(|(number, command)| {
            let adds = |list: &[SectionsCommand]| !list.is_empty() && self.augments(number);
            match command {
                Command::Insert { .. } | Command::Memory(_) | Command::Phdrs(_) => true,
                Command::Sections(list) => adds(list),
                _ => false,
            }
        });
        let mut own = commands.iter().enumerate().filter_map(|(number, command)| {
            matches!(command, Command::Sections(_)).then_some(number)
        });
        let is_layout =
            |number: usize| number < self.from_options && self.insert_of(number).is_none();
        // What has to do with a script's patterns is done by the default layout's.
        let about_layout = about_layout
            || !args.section_ordering.is_empty()
            || args.orphan_handling != OrphanHandling::Place
            || args.sort_section != SortSection::None;
        if !about_layout || own.any(is_layout) {
            return;
        }
        self.default_layout = Some(commands.len());
        let text = default_script::sections(args);
        let name = "the default layout";
        if let Err(why) = script::parse_onto(
            &mut self.script,
            text.as_bytes(),
            name,
            &mut script::NoIncludes,
        ) {
            diag.error(why);
        }
    }

    /// `--section-ordering-file` (GNU ld 2.43): puts what such files say at the start of the layout's output sections.
    pub fn order(&mut self, args: &Args, diag: &Diagnostics) {
        if args.section_ordering.is_empty() {
            return;
        }
        let search = Search::new(args, Environment::of_process());
        for path in &args.section_ordering {
            let (found, text) = match read(path, &search) {
                Ok(read) => read,
                Err(why) => {
                    let path = path.display();
                    diag.error(format!("cannot open section ordering file {path}: {why}"));
                    continue;
                }
            };
            // Such a file is what stands in a `SECTIONS`, which keeps the numbers of its lines.
            let text = [b"SECTIONS {", &text[..], b"\n}"].concat();
            let name = found.display().to_string();
            let first = self.script.commands.len();
            let parsed = script::parse_onto(&mut self.script, &text, &name, &mut Includes(&search));
            let added = self.script.commands.split_off(first);
            if let Err(why) = parsed {
                diag.error(why);
                continue;
            }
            let list = match <[Command; 1]>::try_from(added) {
                Ok([Command::Sections(list)]) => list,
                // A bracket too many has ended it.
                _ => {
                    diag.error(format!("{name}: {ONLY_ORDER}"));
                    continue;
                }
            };
            for order in list {
                let put = match order {
                    SectionsCommand::Section(order) if only_inputs(&order) => {
                        self.put_first(*order)
                    }
                    SectionsCommand::Section(order) => Err((order.pos, ONLY_ORDER.into())),
                    SectionsCommand::Assign(assignment) => Err((assignment.pos, ONLY_ORDER.into())),
                    SectionsCommand::Assert(assertion) => Err((assertion.pos, ONLY_ORDER.into())),
                    SectionsCommand::Overlay(_) | SectionsCommand::Entry(_) => {
                        diag.error(format!("{name}: {ONLY_ORDER}"));
                        continue;
                    }
                };
                if let Err((pos, why)) = put {
                    diag.error(format!("{}: {why}", self.script.place(pos)));
                }
            }
        }
    }

    /// Puts what a section ordering file says of an output section at the start of that.
    fn put_first(&mut self, order: OutputSection) -> Result<(), (Pos, String)> {
        let commands = self.script.commands.iter_mut();
        let lists = commands.filter_map(|command| match command {
            Command::Sections(list) => Some(list),
            _ => None,
        });
        let known = lists.flatten().find_map(|command| match command {
            SectionsCommand::Section(section) if section.name == order.name => Some(section),
            _ => None,
        });
        let Some(known) = known else {
            let name = String::from_utf8_lossy(&order.name);
            return Err((
                order.pos,
                format!("the layout has no output section {name}"),
            ));
        };
        known.commands.splice(0..0, order.commands);
        Ok(())
    }

    /// Whether an assignment stands in a `SECTIONS`.
    pub fn is_in_sections(&self, assignment: &Assignment) -> bool {
        self.script.commands.iter().any(|command| {
            match command {
            Command::Sections(list) => list.iter().any(|command| {
                matches!(command, SectionsCommand::Assign(own) if std::ptr::eq(own, assignment))
            }),
            _ => false,
        }
        })
    }

    /// The `INSERT` that concerns the `SECTIONS` command of this number: after or before which section.
    pub fn insert_of(&self, number: usize) -> Option<(bool, &[u8], Pos)> {
        let following = self.script.commands.get(number + 1..)?;
        following
            .iter()
            .take_while(|next| !matches!(next, Command::Sections(_)))
            .find_map(|next| match next {
                Command::Insert {
                    after,
                    section,
                    pos,
                } => Some((*after, &section[..], *pos)),
                _ => None,
            })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.script.commands.is_empty()
    }

    /// Reports what is read and not obeyed.
    pub fn check(&self, args: &Args, diag: &Diagnostics) {
        let show = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let unsupported = |keyword: &str, name: &[u8], pos: &Pos| {
            if output_format(name).is_none() {
                diag.error(format!(
                    "{}: {keyword}({}) is not supported: expected elf64-x86-64 or binary",
                    self.script.place(*pos),
                    show(name)
                ));
            }
        };
        // Without a format that a script has for it, the option asks for what there is not.
        let mut big_endian = args.big_endian == Some(true);
        for command in &self.script.commands {
            match command {
                Command::OutputFormat(formats, pos) => {
                    big_endian &= formats.by_order.is_none();
                    unsupported("OUTPUT_FORMAT", chosen(formats, args), pos);
                }
                Command::Target(name, pos) => unsupported("TARGET", name, pos),
                Command::OutputArch(name, pos)
                    if !name.starts_with(b"i386:x86-64") && name != b"x86-64" =>
                {
                    diag.error(format!(
                        "{}: OUTPUT_ARCH({}) is not supported: expected i386:x86-64",
                        self.script.place(*pos),
                        show(name)
                    ));
                }
                _ => {}
            }
        }
        if big_endian {
            diag.error("option -EB is not supported: x86-64 has no big-endian output");
        }
    }

    /// Regions that are defined twice are what they are defined as last, as with GNU ld, which warns of it, too.
    pub fn unite_regions(&mut self, diag: &Diagnostics) {
        let mut seen: HashMap<Name, usize> = HashMap::new();
        let mut list: Vec<MemoryRegion> = Vec::new();
        for command in &self.script.commands {
            let Command::Memory(regions) = command else {
                continue;
            };
            for region in regions {
                match seen.get(&region.name) {
                    None => {
                        seen.insert(region.name.clone(), list.len());
                        list.push(region.clone());
                    }
                    Some(first) => {
                        diag.warn(format!(
                            "{}: redeclaration of memory region `{}'",
                            self.script.place(region.pos),
                            String::from_utf8_lossy(&region.name)
                        ));
                        list[*first] = region.clone();
                    }
                }
            }
        }
        // Each stands where it was first defined: order decides for sections that name none.
        for command in &mut self.script.commands {
            if let Command::Memory(regions) = command {
                let firsts = std::mem::take(regions).into_iter();
                regions.extend(firsts.filter_map(|region| {
                    let first = seen.remove(&region.name)?;
                    Some(list[first].clone())
                }));
            }
        }
    }

    /// The options with what scripts add to them (`ENTRY`, `OUTPUT`, …). `None` if they add nothing.
    pub fn amend(&self, args: &Args) -> Option<Args> {
        let mut amended: Option<Args> = None;
        let mut change = |apply: &dyn Fn(&mut Args)| {
            apply(amended.get_or_insert_with(|| args.clone()));
        };
        let entry = |name: &Vec<u8>| {
            let name = name.clone();
            move |new: &mut Args| {
                if args.entry.is_none() {
                    new.entry = Some(Entry::Symbol(name.clone()));
                }
            }
        };
        for command in &self.script.commands {
            match command {
                Command::Entry(name) => change(&entry(name)),
                Command::Sections(commands) => {
                    for command in commands {
                        if let SectionsCommand::Entry(name) = command {
                            change(&entry(name));
                        }
                    }
                }
                Command::Extern(names) => {
                    change(&|new| new.undefined.extend(names.iter().cloned()))
                }
                // These are about relocatable outputs; in others nothing is left unallocated.
                Command::ForceCommonAllocation => change(&|new| new.define_common = true),
                Command::ForceGroupAllocation(_) => {
                    change(&|new| new.force_group_allocation = true)
                }
                Command::Output(name) if args.output == Path::new("a.out") => {
                    change(&|new| new.output = OsStr::from_bytes(name).into())
                }
                Command::OutputFormat(formats, _)
                    if output_format(chosen(formats, args)) == Some(OutputFormat::Binary) =>
                {
                    change(&|new| new.output_format = OutputFormat::Binary)
                }
                _ => {}
            }
        }
        amended
    }

    /// The names with versions (`f@V`) that are assigned to, each with where that is.
    pub fn versioned(&self) -> Vec<(String, &[u8])> {
        let mut found = Vec::new();
        self.for_assignments(&mut |assignment, _| {
            if let Target::Symbol(name) = &assignment.target
                && name.contains(&b'@')
            {
                found.push((self.script.place(assignment.pos), &name[..]));
            }
        });
        found
    }

    /// Calls `f` with each assignment in order, and whether it stands in an output section's description.
    pub fn for_assignments<'s>(&'s self, f: &mut dyn FnMut(&'s Assignment, bool)) {
        use crate::script::SectionCommand;
        let inside = |commands: &'s [SectionCommand], f: &mut dyn FnMut(&'s Assignment, bool)| {
            for command in commands {
                if let SectionCommand::Assign(assignment) = command {
                    f(assignment, true);
                }
            }
        };
        for command in &self.script.commands {
            match command {
                Command::Assign(assignment) => f(assignment, false),
                Command::Sections(commands) => {
                    for command in commands {
                        match command {
                            SectionsCommand::Assign(assignment) => f(assignment, false),
                            SectionsCommand::Section(section) => inside(&section.commands, f),
                            SectionsCommand::Overlay(overlay) => {
                                for section in &overlay.sections {
                                    inside(&section.commands, f);
                                }
                            }
                            SectionsCommand::Assert(_) | SectionsCommand::Entry(_) => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Calls `f` with each symbol that the scripts mention elsewhere than in assignments: in data, in addresses, in
    /// assertions, in regions.
    pub fn for_mentions<'s>(&'s self, f: &mut dyn FnMut(&'s Name)) {
        let mut all = |expr: &'s Expr| expr.for_symbols(f);
        for command in &self.script.commands {
            match command {
                Command::Assert(assertion) => all(&assertion.expr),
                Command::Memory(regions) => {
                    for region in regions {
                        all(&region.origin);
                        all(&region.length);
                    }
                }
                Command::Sections(commands) => {
                    for command in commands {
                        match command {
                            SectionsCommand::Section(section) => in_section(section, &mut all),
                            SectionsCommand::Overlay(overlay) => {
                                overlay.start.iter().chain(&overlay.at).for_each(&mut all);
                                for section in &overlay.sections {
                                    in_section(section, &mut all);
                                }
                            }
                            SectionsCommand::Assert(assertion) => all(&assertion.expr),
                            SectionsCommand::Assign(_) | SectionsCommand::Entry(_) => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Names that must have numbers: those that are assigned to, and those that expressions mention.
    pub fn names(&self) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        self.for_assignments(&mut |assignment, _| {
            if let (Target::Symbol(name), false) = (&assignment.target, assignment.provide) {
                names.push(name.clone());
            }
            assignment
                .expr
                .for_symbols(&mut |name| names.push(name.clone()));
        });
        self.for_mentions(&mut |name| names.push(name.clone()));
        for command in &self.script.commands {
            match command {
                Command::Extern(more) => names.extend(more.iter().cloned()),
                Command::Entry(name) => names.push(name.clone()),
                Command::Sections(commands) => {
                    names.extend(commands.iter().filter_map(|command| match command {
                        SectionsCommand::Entry(name) => Some(name.clone()),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        names
    }
}

/// Calls `f` with each expression in the description of an output section that is not an assignment's.
fn in_section<'s>(section: &'s OutputSection, f: &mut dyn FnMut(&'s Expr)) {
    let own = [
        &section.address,
        &section.at,
        &section.align,
        &section.subalign,
    ];
    own.into_iter().flatten().for_each(&mut *f);
    for command in &section.commands {
        match command {
            SectionCommand::Data { expr, .. } => f(expr),
            SectionCommand::Assert(assertion) => f(&assertion.expr),
            _ => {}
        }
    }
}

/// The format that the command line chooses among a script's.
fn chosen<'f>(formats: &'f Formats, args: &Args) -> &'f [u8] {
    match (&formats.by_order, args.big_endian) {
        (Some([big, _]), Some(true)) => big,
        (Some([_, little]), Some(false)) => little,
        _ => &formats.default,
    }
}

/// Whether a script names raw bytes as a format.
pub fn names_binary(name: &[u8]) -> bool {
    output_format(name) == Some(OutputFormat::Binary)
}

/// The format of the output that a script names.
fn output_format(name: &[u8]) -> Option<OutputFormat> {
    match name {
        b"elf64-x86-64" | b"elf64-little" | b"default" => Some(OutputFormat::Elf),
        b"binary" => Some(OutputFormat::Binary),
        _ => None,
    }
}

/// What an assignment assigns: `x += e` is `x = x + e`.
pub(crate) fn assigned_expr(assignment: &Assignment) -> Expr {
    let op = match assignment.op {
        AssignOp::Set => return assignment.expr.clone(),
        AssignOp::Add => BinaryOp::Add,
        AssignOp::Sub => BinaryOp::Sub,
        AssignOp::Mul => BinaryOp::Mul,
        AssignOp::Div => BinaryOp::Div,
        AssignOp::Shl => BinaryOp::Shl,
        AssignOp::Shr => BinaryOp::Shr,
        AssignOp::And => BinaryOp::And,
        AssignOp::Or => BinaryOp::Or,
        AssignOp::Xor => BinaryOp::Xor,
    };
    let old = match &assignment.target {
        Target::Dot => Expr::Dot,
        Target::Symbol(name) => Expr::Symbol(name.clone()),
    };
    Expr::Binary(op, old.into(), assignment.expr.clone().into())
}

/// What is wrong with other statements in a section ordering file.
const ONLY_ORDER: &str = "a section ordering file can only say which input sections go first";

/// Whether a description says nothing but which input sections there are.
fn only_inputs(section: &OutputSection) -> bool {
    let OutputSection {
        name: _,
        commands,
        pos: _,
        address: None,
        kind: SectionType::Normal,
        elf_type: None,
        readonly: false,
        at: None,
        align: None,
        align_with_input: false,
        subalign: None,
        constraint: Constraint::None,
        region: None,
        lma_region: None,
        phdrs,
        fill: None,
    } = section
    else {
        return false;
    };
    let is_input = |command| matches!(command, &SectionCommand::Input(_));
    phdrs.is_empty() && commands.iter().all(is_input)
}

/// The scripts of `-T`, or else that of `--default-script`.
fn of_options(args: &Args) -> Vec<&PathBuf> {
    match args.scripts.is_empty() {
        false => args.scripts.iter().collect(),
        true => args.default_script.iter().collect(),
    }
}

/// A script of the command line: where it was found, and its text.
fn read(path: &Path, search: &Search) -> std::io::Result<(PathBuf, Vec<u8>)> {
    match search.script(path) {
        Some(found) => crate::input::unseekable::read(&found).map(|text| (found, text)),
        // Read where it was named, for the system's own words.
        None => crate::input::unseekable::read(path).map(|text| (path.to_path_buf(), text)),
    }
}

/// `--verbose`: the scripts of the command line, or without any the default layout as a script, in the form of GNU ld's. What
/// cannot be read is left out: the link says so.
pub fn tell(args: &Args) -> String {
    const LINE: &str = "==================================================";
    let given = of_options(args);
    if given.is_empty() {
        let script = default_script::whole(args);
        return format!("using internal linker script:\n{LINE}\n{script}\n{LINE}\n");
    }
    let search = Search::new(args, Environment::of_process());
    let mut out = String::new();
    for (_, text) in given
        .into_iter()
        .filter_map(|path| read(path, &search).ok())
    {
        let text = String::from_utf8_lossy(&text);
        out += &format!("using external linker script:\n{LINE}\n{text}\n{LINE}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_layout_is_told_as_a_script() {
        let args = Args::parse(["--verbose".into()].into_iter()).unwrap();
        let told = tell(&args);
        assert!(told.starts_with("using internal linker script:\n====="));
        assert!(told.contains("SEARCH_DIR(\"=/usr/lib\");"));
    }
}
