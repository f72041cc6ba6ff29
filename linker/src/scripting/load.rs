//! The commands of all scripts of a link, in one list.
//!
//! In the order in which they take effect: `--defsym`, which may be thought of as a script before all others; `-T`, or
//! else `--default-script`; and scripts among the inputs.

use crate::args::{Args, Entry, OutputFormat};
use crate::diag::Diagnostics;
use crate::script::{
    self, AssignOp, Assignment, Command, Expr, Loader, Pos, Script, SectionsCommand, Target,
};
use crate::search::Search;
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
        let text = std::fs::read(&path).map_err(|why| why.to_string())?;
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
        let given: Vec<&PathBuf> = match args.scripts.is_empty() {
            false => args.scripts.iter().collect(),
            true => args.default_script.iter().collect(),
        };
        for path in given {
            let text = match search.script(path) {
                Some(found) => std::fs::read(&found).map(|text| (found, text)),
                None => Err(std::io::ErrorKind::NotFound.into()),
            };
            match text {
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
        scripts.from_options = scripts.script.commands.len();
        scripts
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.script.commands.is_empty()
    }

    /// Reports what is read and not obeyed.
    pub fn check(&self, diag: &Diagnostics) {
        let show = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        for command in &self.script.commands {
            match command {
                Command::OutputFormat(name, pos) | Command::Target(name, pos)
                    if output_format(name).is_none() =>
                {
                    let keyword = match command {
                        Command::Target(..) => "TARGET",
                        _ => "OUTPUT_FORMAT",
                    };
                    diag.error(format!(
                        "{}: {keyword}({}) is not supported: expected elf64-x86-64 or binary",
                        self.script.place(*pos),
                        show(name)
                    ));
                }
                Command::OutputArch(name, pos)
                    if !name.starts_with(b"i386:x86-64") && name != b"x86-64" =>
                {
                    diag.error(format!(
                        "{}: OUTPUT_ARCH({}) is not supported: expected i386:x86-64",
                        self.script.place(*pos),
                        show(name)
                    ));
                }
                Command::NoCrossRefs(_, pos) | Command::NoCrossRefsTo(_, pos) => {
                    diag.error(format!(
                        "{}: NOCROSSREFS is not supported yet",
                        self.script.place(*pos)
                    ));
                }
                _ => {}
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
                Command::Output(name) if args.output == Path::new("a.out") => {
                    change(&|new| new.output = OsStr::from_bytes(name).into())
                }
                Command::OutputFormat(name, _)
                    if output_format(name) == Some(OutputFormat::Binary) =>
                {
                    change(&|new| new.output_format = OutputFormat::Binary)
                }
                _ => {}
            }
        }
        amended
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
        for command in &self.script.commands {
            if let Command::Extern(more) = command {
                names.extend(more.iter().cloned());
            }
        }
        names
    }
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
pub(super) fn assigned_expr(assignment: &Assignment) -> Expr {
    use crate::script::expr::BinaryOp;
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
    };
    let old = match &assignment.target {
        Target::Dot => Expr::Dot,
        Target::Symbol(name) => Expr::Symbol(name.clone()),
    };
    Expr::Binary(op, old.into(), assignment.expr.clone().into())
}
