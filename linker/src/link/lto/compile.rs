//! Intermediate code among the inputs is exchanged for the machine code that its compiler's
//! plugin makes of it.
//!
//! 1. The plugin is loaded, when some input looks like intermediate code and not before, and
//!    is offered those inputs. What it takes is replaced by a [stand-in](super::stand_in) with
//!    its symbols.
//! 2. Symbols are resolved as in any link; that gives the [answers](super::answers).
//! 3. The plugin compiles. What it made takes the place of what it took, and the link begins
//!    anew with that: members of archives that the stand-ins asked for and the code does not
//!    are not linked, and those that only the code asks for are.
//!
//! Plugins differ in what they do with a file that they took and that is not linked, as most
//! members of archives. LLVM's asks, and leaves it out; gcc's, up to version 12 at least,
//! compiles it too, and its constructors would run. So if there are such files, gcc's plugin is
//! loaded again and offered only what is linked.
//!
//! A member of an archive that was not linked at first, but that new code asks for, cannot be
//! compiled any more: it is linked if it also holds machine code, and else does not exist.

use super::answers::Answers;
use super::plugin::{Claimed, Output, Plugin, PluginError};
use super::stand_in;
use crate::args::{self, Args, OutputKind};
use crate::base::ids::FileId;
use crate::base::key::Key;
use crate::input::elf_object::{ElfObject, is_bitcode};
use crate::input::file::{Body, Files};
use crate::input::open::Produced;
use crate::input::open::{InputArena, Intermediate, open_produced};
use crate::input::scripts::Scripts;
use crate::layout::scripting::Assignments;
use crate::link::dynamic_output::is_dynamic;
use crate::link::names::{self, Extracted, Names};
use crate::link::{Failed, check};
use crate::messages::diag::Diagnostics;
use crate::report::unresolved::{refuse_intermediate_code, report_duplicates};
use crate::resolve::binding;
use crate::resolve::input_sections::{Sections, Unloaded};
use crate::resolve::linker_symbols::{self, LinkerSymbols};
use crate::resolve::output_sections::Outputs;
use crate::resolve::resolution;
use crate::resolve::roots;
use crate::resolve::symbol_table::SymbolTable;
use crate::resolve::symbol_versions::{self, Versioning};
use rayon::prelude::*;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

/// A file that the plugin has taken.
struct Taken<'a> {
    input: Intermediate<'a>,
    claimed: Claimed,
}

/// What the plugin has made is among the inputs.
pub struct Compiled {
    /// Takes its files away when it goes.
    _plugin: Plugin,
    /// The files that it made.
    made: Range<u32>,
    /// The COMDAT groups of what was linked of intermediate code, each with a name of its definitions.
    groups: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Compiled {
    /// Whether the plugin made this file. Of `-r`, that is intermediate code again, for the final link to compile.
    pub fn has_made(&self, file: FileId) -> bool {
        self.made.contains(&file.0)
    }

    /// COMDAT groups that belong to what the plugin made, with the file that each belongs to. Call it after extraction.
    ///
    /// A compiler that was told that its definitions are the ones may make code of them without a group (gcc does).
    /// But a member of an archive that only that code asks for may have the group as well.
    pub fn owned_groups(&self, symbols: &SymbolTable) -> Vec<(&[u8], FileId)> {
        let groups = self.groups.iter();
        groups
            .filter_map(|(signature, name)| {
                let key = symbols.key(symbols.find(name)?);
                let is_made = key != Key::NONE && self.made.contains(&key.file().0);
                is_made.then(|| (&signature[..], key.file()))
            })
            .collect()
    }
}

/// Replaces the files among `intermediate` that the command line's plugin takes by what it makes of them all.
///
/// # Errors
/// If the plugin fails, or what is resolved for it shows that the link would; `diag` says why.
pub fn compile<'a>(
    arena: &'a InputArena,
    files: &mut Files<'a>,
    intermediate: Vec<Intermediate<'a>>,
    scripts: &Scripts,
    versioning: &Versioning,
    args: &Args,
    diag: &Diagnostics,
) -> Result<Option<Compiled>, Failed> {
    if intermediate.is_empty() {
        return Ok(None);
    }
    let plugin = match &args.plugins[..] {
        [] => {
            refuse_bitcode(files, &intermediate, diag);
            check(diag)?;
            return Ok(None);
        }
        [plugin] => plugin,
        [_, second, ..] => {
            diag.error(PluginError::Second(second.path.clone()));
            return Err(Failed);
        }
    };
    let failed = |why: PluginError| {
        diag.error(why);
        Failed
    };
    let native = machine_code(files, &intermediate, args);
    let mut loaded = load(plugin, args).map_err(failed)?;
    show(&mut loaded, native).map_err(failed)?;
    let mut taken = Vec::new();
    let mut left = Vec::new();
    for input in intermediate {
        match offer(&mut loaded, &input).map_err(failed)? {
            Some(claimed) => taken.push(Taken { input, claimed }),
            None => left.push(input),
        }
    }
    refuse_bitcode(files, &left, diag);
    for Taken { input, claimed } in &taken {
        match stand_in::object(&claimed.symbols) {
            Some(bytes) => match ElfObject::parse(arena.bytes(bytes)) {
                Ok(object) => files.0[input.file.index()].body = Body::Object(object.into()),
                Err(why) => diag.error(format!("{}: {why}", files.get(input.file))),
            },
            None => diag.error(format!("{}: too many symbols", files.get(input.file))),
        }
    }
    check(diag)?;
    if taken.is_empty() {
        return Ok(None);
    }

    let answers = resolve(files, &taken, scripts, versioning, args, diag)?;
    let (mut linked, unlinked): (Vec<_>, Vec<_>) = taken
        .into_iter()
        .zip(answers)
        .partition(|(_, answers)| answers.is_some());
    for (taken, _) in &unlinked {
        restore(files, &taken.input);
    }
    if linked.is_empty() {
        return Ok(None);
    }
    let leaves_out = |taken: &Taken| is_bitcode(taken.input.data);
    if !unlinked.iter().all(|(taken, _)| leaves_out(taken)) {
        loaded = renew(loaded, plugin, args).map_err(failed)?;
        show(&mut loaded, native).map_err(failed)?;
        for (taken, _) in &mut linked {
            match offer(&mut loaded, &taken.input).map_err(failed)? {
                Some(claimed) if claimed.symbols == taken.claimed.symbols => {
                    taken.claimed = claimed;
                }
                _ => {
                    let file = files.get(taken.input.file);
                    diag.error(format!(
                        "{file}: the plugin {} told other symbols when it was asked again",
                        plugin.path.display()
                    ));
                    return Err(Failed);
                }
            }
        }
    }
    let groups = linked
        .iter()
        .flat_map(|(taken, _)| &taken.claimed.symbols)
        .filter_map(|symbol| Some((symbol.comdat.clone()?, symbol.name.clone())))
        .collect();
    let replaced: HashSet<FileId> = linked.iter().map(|(taken, _)| taken.input.file).collect();
    let answers = linked
        .into_iter()
        .map(|(taken, answers)| (taken.claimed.handle, answers.unwrap_or_default()))
        .collect();
    let produced = loaded.finish(answers);
    for warning in loaded.warnings() {
        diag.warn(warning.trim_end());
    }
    let produced = produced.map_err(failed)?;
    let made = replace(arena, files, &replaced, &produced, args, diag);
    check(diag)?;
    Ok(Some(Compiled {
        _plugin: loaded,
        made,
        groups,
    }))
}

/// The plugin's own options, and those that lld takes itself (`-mllvm`).
fn options<'l>(plugin: &'l args::Plugin, args: &'l Args) -> Vec<&'l OsStr> {
    let options = args.plugin_options.iter().chain(&plugin.options);
    options.map(|option| &option[..]).collect()
}

fn output(args: &Args) -> Output {
    match args.kind {
        OutputKind::Relocatable => Output::Relocatable,
        OutputKind::Shared => Output::Shared,
        OutputKind::Pie | OutputKind::StaticPie => Output::Pie,
        OutputKind::StaticExec | OutputKind::DynamicExec => Output::Executable,
    }
}

fn load(plugin: &args::Plugin, args: &Args) -> Result<Plugin, PluginError> {
    Plugin::load(
        &plugin.path,
        &options(plugin, args),
        output(args),
        &args.output,
    )
}

fn renew(loaded: Plugin, plugin: &args::Plugin, args: &Args) -> Result<Plugin, PluginError> {
    loaded.renew(&options(plugin, args), output(args), &args.output)
}

/// Of `-r`, a file of machine code among the inputs. gcc's plugin makes intermediate code of several such files only if
/// there is nothing else, which could not be in one object with it; so it is shown one.
fn machine_code<'a>(
    files: &Files<'a>,
    intermediate: &[Intermediate<'a>],
    args: &Args,
) -> Option<Native<'a>> {
    if args.kind != OutputKind::Relocatable {
        return None;
    }
    let others: HashSet<FileId> = intermediate.iter().map(|input| input.file).collect();
    files.iter().find_map(|(id, file)| {
        let is_whole = !file.lazy && file.member.is_none() && file.object().is_some();
        (is_whole && !others.contains(&id)).then_some(Native {
            path: file.path,
            size: file.data.len() as u64,
        })
    })
}

/// A file that is no intermediate code.
#[derive(Clone, Copy)]
struct Native<'a> {
    path: &'a Path,
    size: u64,
}

fn show(loaded: &mut Plugin, native: Option<Native>) -> Result<(), PluginError> {
    if let Some(native) = native {
        loaded.claim(native.path, 0, native.size)?;
    }
    Ok(())
}

fn offer(loaded: &mut Plugin, input: &Intermediate) -> Result<Option<Claimed>, PluginError> {
    loaded.claim(input.path, input.offset, input.data.len() as u64)
}

/// Bitcode that no plugin takes is nothing to a linker. A member of an archive may be left alone; it has no symbols
/// that anything could ask for.
fn refuse_bitcode(files: &Files, left: &[Intermediate], diag: &Diagnostics) {
    for input in left.iter().filter(|input| is_bitcode(input.data)) {
        let file = files.get(input.file);
        if !file.lazy {
            diag.error(format!(
                "{file}: unable to handle this LTO object file, LLVM bitcode that no plugin takes; link with clang \
                 -flto, which passes -plugin LLVMgold.so"
            ));
        }
    }
}

/// Resolves symbols with the stand-ins in place. Gives the answers for each taken file that is linked.
fn resolve(
    files: &mut Files,
    taken: &[Taken],
    scripts: &Scripts,
    versioning: &Versioning,
    args: &Args,
    diag: &Diagnostics,
) -> Result<Vec<Option<Vec<super::Resolution>>>, Failed> {
    let symbols = names::intern(args, files, Names::All, diag)?;
    let Extracted { linked, .. } = names::extract(args, files, &symbols, scripts);
    // Compressed sections of ELF objects do not matter here.
    let tickets = files.0.par_iter_mut().zip(&linked);
    tickets
        .filter(|(_, linked)| **linked)
        .for_each(|(file, _)| {
            if let Body::Object(object) = &mut file.body
                && let Err(why) = object.complete_sections()
            {
                diag.error(format!("{file}: {why}"));
            }
        });
    let mut outputs = Outputs::default();
    let (sections, _) = Sections::build(files, &linked, Unloaded::Keep, None, &mut outputs, diag);
    let lost_groups = resolution::lose_groups(files, &symbols, &linked, &[], diag);
    resolution::discard_groups(files, &lost_groups, &sections, diag);
    resolution::define(files, &symbols, &sections);
    let (_, mut duplicates) = resolution::publish(files, &symbols, &sections, diag);
    symbol_versions::settle_aliases(files, &symbols, &mut duplicates);
    report_duplicates(args, files, &symbols, &sections, &duplicates, diag);
    refuse_intermediate_code(files, &symbols, |_| false, diag);
    check(diag)?;
    let dynamic = is_dynamic(args, files);
    let mut linker_symbols = LinkerSymbols::new();
    let looked_for = roots::looked_for(args, &symbols);
    Assignments::define(
        scripts,
        &symbols,
        &looked_for,
        &|_| false,
        &mut linker_symbols,
    );
    linker_symbols::define(&symbols, &outputs, args, dynamic, linker_symbols);
    // The link proper gives versions anew, to what is there then.
    let mut versioning = versioning.clone();
    versioning.assign(files, &symbols, args, diag);
    binding::bind(files, &symbols, &versioning, args, dynamic);
    check(diag)?;
    let answers = Answers::new(
        files,
        &symbols,
        &linked,
        taken.iter().map(|taken| taken.input.file),
        scripts,
        args,
    );
    Ok(taken
        .iter()
        .map(|taken| {
            let file = taken.input.file;
            linked[file.index()].then(|| answers.of(file, &taken.claimed.symbols))
        })
        .collect())
}

/// A file that was taken and is not linked is what it was: machine code, if it has that.
fn restore<'a>(files: &mut Files<'a>, input: &Intermediate<'a>) {
    let body = &mut files.0[input.file.index()].body;
    let object = match is_bitcode(input.data) {
        true => ElfObject::of_bitcode(input.data),
        // It could be parsed before.
        false => ElfObject::parse(input.data)
            .ok()
            .filter(|object| !is_slim(object))
            .unwrap_or_else(|| ElfObject::of_bitcode(input.data)),
    };
    *body = Body::Object(object.into());
}

/// gcc marks objects without machine code by a symbol.
fn is_slim(object: &ElfObject) -> bool {
    object
        .syms
        .iter()
        .any(|sym| crate::elf::string(object.strtab, sym.st_name) == Some(b"__gnu_lto_slim"))
}

/// Puts what was made in the place of the first file that it was made of, and takes those away. Gives the ids of what
/// was made.
fn replace<'a>(
    arena: &'a InputArena,
    files: &mut Files<'a>,
    replaced: &HashSet<FileId>,
    produced: &Produced,
    args: &Args,
    diag: &Diagnostics,
) -> Range<u32> {
    let (objects, libraries) = open_produced(arena, args, produced, files, diag);
    let mut objects = Some(objects);
    let mut kept = Vec::with_capacity(files.0.len() + libraries.len());
    let mut made = 0..0;
    for (index, file) in std::mem::take(&mut files.0).into_iter().enumerate() {
        if !replaced.contains(&FileId(index as u32)) {
            kept.push(file);
        } else if let Some(objects) = objects.take() {
            let first = kept.len() as u32;
            made = first..first + objects.len() as u32;
            kept.extend(objects);
        }
    }
    kept.extend(libraries);
    files.0 = kept;
    made
}
