//! Loading and calling a linker plugin.
//!
//! The interface passes no context to the linker's functions, so what they
//! need lives in one static, [`STATE`]. They are called only while one of
//! [`Plugin`]'s methods is in the plugin, and `Plugin` can exist once.

use super::api::{self, tag};
use crate::input::open::Produced;
use parking_lot::Mutex;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use store::guard::Guarded;

/// What is being made (`enum ld_plugin_output_file_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `-r`.
    Relocatable = 0,
    /// An executable at a fixed address.
    Executable = 1,
    /// A shared object.
    Shared = 2,
    /// A position-independent executable.
    Pie = 3,
}

/// What a claimed file says of a symbol (`enum ld_plugin_symbol_kind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    /// Defined.
    Defined,
    /// Weakly defined.
    WeakDefined,
    /// Referred to.
    Undefined,
    /// Weakly referred to.
    WeakUndefined,
    /// A common block.
    Common,
}

/// A symbol of a claimed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LtoSymbol {
    /// Its name, with `@VERSION` or `@@VERSION` if it has one.
    pub name: Vec<u8>,
    /// Defined or referred to, and how.
    pub kind: SymbolKind,
    /// ELF's `STV_*`.
    pub visibility: u8,
    /// Size of a common block, bytes.
    pub size: u64,
    /// Signature of its COMDAT group.
    pub comdat: Option<Vec<u8>>,
}

/// A file that the plugin took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// By this number, [`Plugin::finish`] is told the resolutions.
    pub handle: usize,
    /// Its symbols, in the plugin's order.
    pub symbols: Vec<LtoSymbol>,
}

/// What became of a symbol of a claimed file (`enum ld_plugin_symbol_resolution`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Nobody defines it.
    Undefined = 1,
    /// This definition is used, by ordinary objects as well.
    Prevailing = 2,
    /// This definition is used, by claimed files only.
    PrevailingIrOnly = 3,
    /// An ordinary object's definition is used instead.
    PreemptedByObject = 4,
    /// Another claimed file's definition is used instead.
    PreemptedByIr = 5,
    /// Defined in another claimed file.
    ResolvedInIr = 6,
    /// Defined in an ordinary object.
    ResolvedInObject = 7,
    /// Defined in a shared object.
    ResolvedInShared = 8,
    /// As [`Resolution::PrevailingIrOnly`], but exported as well.
    PrevailingIrOnlyExported = 9,
}

/// Why link-time optimisation failed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// It cannot be loaded.
    #[error("{path}: cannot load plugin: {error}")]
    Load {
        /// The plugin.
        path: PathBuf,
        /// The run-time linker's message.
        error: libloading::Error,
    },
    /// Another one is loaded.
    #[error("{0}: only one plugin can be loaded")]
    Second(PathBuf),
    /// One of its functions failed.
    #[error("{path}: plugin failed in {function}{messages}", messages = joined(.messages))]
    Failed {
        /// The plugin.
        path: PathBuf,
        /// The function.
        function: &'static str,
        /// What it said.
        messages: Vec<String>,
    },
    /// A file that it is to be offered cannot be opened.
    #[error("cannot open {path}: {error}")]
    Input {
        /// The file.
        path: PathBuf,
        /// The system's message.
        error: std::io::Error,
    },
    /// It stays in memory when it is closed, with all that it knows.
    #[error("{0}: the plugin cannot be unloaded")]
    Stays(PathBuf),
    /// An argument holds a zero byte.
    #[error("{0:?}: contains a zero byte")]
    ZeroByte(PathBuf),
}

fn joined(messages: &[String]) -> String {
    messages
        .iter()
        .map(|message| format!(": {}", message.trim_end()))
        .collect()
}

/// A plugin that is loaded.
pub struct Plugin {
    path: PathBuf,
    _library: libloading::Library,
    /// The strings of the transfer vector; plugins keep pointers to them.
    _strings: Vec<CString>,
}

/// A file that is offered, or was claimed.
struct InputRecord {
    name: CString,
    /// Open while the file is offered, and between `get_input_file` and `release_input_file`: a link may have more
    /// inputs than a process may have files.
    file: Option<File>,
    offset: u64,
    size: u64,
    symbols: Vec<LtoSymbol>,
    /// `None` for a file that is not linked after all.
    resolutions: Option<Vec<Resolution>>,
    view: Option<Guarded<memmap2::Mmap>>,
}

impl InputRecord {
    fn file(&mut self) -> std::io::Result<&File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(OsStr::from_bytes(self.name.as_bytes()))?,
        };
        Ok(self.file.insert(file))
    }
}

struct State {
    loaded: bool,
    claim: Option<api::ClaimFile>,
    all_symbols_read: Option<api::Hook>,
    cleanup: Option<api::Hook>,
    /// By handle - 1; `None` for files that were not claimed.
    inputs: Vec<Option<InputRecord>>,
    produced: Produced,
    errors: Vec<String>,
    warnings: Vec<String>,
}

static STATE: Mutex<State> = Mutex::new(State {
    loaded: false,
    claim: None,
    all_symbols_read: None,
    cleanup: None,
    inputs: Vec::new(),
    produced: Produced {
        files: Vec::new(),
        libraries: Vec::new(),
        search_directories: Vec::new(),
    },
    errors: Vec::new(),
    warnings: Vec::new(),
});

impl Plugin {
    /// Loads the plugin at `path` with its options (`-plugin-opt=`).
    ///
    /// # Errors
    /// If it cannot be loaded, or refuses.
    pub fn load(
        path: &Path,
        options: &[&OsStr],
        output: Output,
        output_name: &Path,
    ) -> Result<Plugin, PluginError> {
        if std::mem::replace(&mut STATE.lock().loaded, true) {
            return Err(PluginError::Second(path.into()));
        }
        let loaded = Self::load_first(path, options, output, output_name);
        if loaded.is_err() {
            STATE.lock().loaded = false;
        }
        loaded
    }

    fn load_first(
        path: &Path,
        options: &[&OsStr],
        output: Output,
        output_name: &Path,
    ) -> Result<Plugin, PluginError> {
        let c_string = |text: &OsStr| {
            CString::new(text.as_bytes()).map_err(|_| PluginError::ZeroByte(PathBuf::from(text)))
        };
        let mut strings = vec![c_string(output_name.as_os_str())?];
        for option in options {
            strings.push(c_string(option)?);
        }
        // SAFETY: running a plugin's initialisers is what the user asked for with -plugin.
        let library =
            unsafe { libloading::Library::new(path) }.map_err(|error| PluginError::Load {
                path: path.into(),
                error,
            })?;
        // SAFETY: `onload` has this type in every linker plugin.
        let onload: api::Onload =
            *unsafe { library.get::<api::Onload>(b"onload\0") }.map_err(|error| {
                PluginError::Load {
                    path: path.into(),
                    error,
                }
            })?;
        let mut transfer = transfer_vector(output, &strings);
        let plugin = Plugin {
            path: path.into(),
            _library: library,
            _strings: strings,
        };
        // SAFETY: the vector ends with a null tag, and its strings live as long as the plugin.
        let status = unsafe { onload(transfer.as_mut_ptr()) };
        plugin.check("onload", status)?;
        Ok(plugin)
    }

    /// Offers `size` bytes at `offset` of a file. `None` if the plugin does not want it.
    ///
    /// # Errors
    /// If the plugin reports one, or the file cannot be opened.
    pub fn claim(
        &mut self,
        path: &Path,
        offset: u64,
        size: u64,
    ) -> Result<Option<Claimed>, PluginError> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| PluginError::ZeroByte(path.into()))?;
        let file = File::open(path).map_err(|error| PluginError::Input {
            path: path.into(),
            error,
        })?;
        let raw = api::InputFile {
            name: name.as_ptr(),
            fd: file.as_raw_fd(),
            offset: libc::off_t::try_from(offset).map_err(|_| self.failure("claim_file"))?,
            filesize: libc::off_t::try_from(size).map_err(|_| self.failure("claim_file"))?,
            handle: ptr::null_mut(),
        };
        let (claim, handle) = {
            let mut state = STATE.lock();
            let record = InputRecord {
                name,
                file: Some(file),
                offset,
                size,
                symbols: Vec::new(),
                resolutions: None,
                view: None,
            };
            state.inputs.push(Some(record));
            (state.claim, state.inputs.len())
        };
        let mut claimed: c_int = 0;
        if let Some(claim) = claim {
            let raw = api::InputFile {
                handle: handle as *mut c_void,
                ..raw
            };
            // SAFETY: the descriptor and the name live in STATE; the hook is the plugin's own.
            let status = unsafe { claim(&raw, &mut claimed) };
            self.check("claim_file", status)?;
        }
        let mut state = STATE.lock();
        if claimed == 0 {
            state.inputs[handle - 1] = None;
            return Ok(None);
        }
        let symbols = state.inputs[handle - 1]
            .as_mut()
            .map_or_else(Vec::new, |record| {
                (record.file, record.view) = (None, None);
                record.symbols.clone()
            });
        Ok(Some(Claimed { handle, symbols }))
    }

    /// Tells how the symbols of the claimed files were resolved, and lets the plugin compile. Files for which there are
    /// no resolutions are not linked; plugins that do not know the third version of `get_symbols` compile them all the
    /// same.
    ///
    /// # Errors
    /// If the plugin reports one: then the compiler has said more on standard error.
    pub fn finish(
        &mut self,
        resolutions: Vec<(usize, Vec<Resolution>)>,
    ) -> Result<Produced, PluginError> {
        let hook = {
            let mut state = STATE.lock();
            for (handle, resolutions) in resolutions {
                if let Some(Some(record)) = state.inputs.get_mut(handle.wrapping_sub(1)) {
                    record.resolutions = Some(resolutions);
                }
            }
            state.all_symbols_read
        };
        if let Some(hook) = hook {
            // SAFETY: the hook is the plugin's own.
            let status = unsafe { hook() };
            self.check("all_symbols_read", status)?;
        }
        Ok(std::mem::take(&mut STATE.lock().produced))
    }

    /// Unloads the plugin and loads it again, as it was before any file was claimed.
    ///
    /// # Errors
    /// If it cannot be unloaded, or refuses.
    pub fn renew(
        self,
        options: &[&OsStr],
        output: Output,
        output_name: &Path,
    ) -> Result<Plugin, PluginError> {
        let path = self.path.clone();
        drop(self);
        // SAFETY: with RTLD_NOLOAD no code is run; a handle that is given counts as one more reference.
        let still_there = unsafe {
            libloading::os::unix::Library::open(
                Some(&path),
                libloading::os::unix::RTLD_LAZY | libc::RTLD_NOLOAD,
            )
        };
        if still_there.is_ok() {
            return Err(PluginError::Stays(path));
        }
        Plugin::load(&path, options, output, output_name)
    }

    /// Warnings that the plugin has given since the last call.
    pub fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut STATE.lock().warnings)
    }

    fn check(&self, function: &'static str, status: api::Status) -> Result<(), PluginError> {
        if status == api::OK && STATE.lock().errors.is_empty() {
            Ok(())
        } else {
            Err(self.failure(function))
        }
    }

    fn failure(&self, function: &'static str) -> PluginError {
        let messages = std::mem::take(&mut STATE.lock().errors);
        PluginError::Failed {
            path: self.path.clone(),
            function,
            messages,
        }
    }
}

impl Drop for Plugin {
    /// Lets the plugin remove its temporary files.
    fn drop(&mut self) {
        let cleanup = STATE.lock().cleanup.take();
        if let Some(cleanup) = cleanup {
            // SAFETY: the hook is the plugin's own, and the library is still loaded. A failure
            // would leave temporary files, which is no reason to fail the link.
            let _ = unsafe { cleanup() };
        }
        let mut state = STATE.lock();
        (state.claim, state.all_symbols_read) = (None, None);
        state.inputs.clear();
        state.errors.clear();
        state.loaded = false;
    }
}

/// What we offer. `strings` are the output's name and the options.
fn transfer_vector(output: Output, strings: &[CString]) -> Vec<api::Transfer> {
    use api::{Transfer, Value};
    let number = |tag, number| Transfer {
        tag,
        value: Value { number },
    };
    let mut vector = vec![
        // First, so that everything after it can report.
        Transfer {
            tag: tag::MESSAGE,
            value: Value { message },
        },
        number(tag::API_VERSION, 1),
        // Versions of ours that know everything below, as the plugins understand versions.
        number(tag::GNU_LD_VERSION, 240),
        number(tag::LINKER_OUTPUT, output as c_int),
        Transfer {
            tag: tag::OUTPUT_NAME,
            value: Value {
                string: strings[0].as_ptr(),
            },
        },
    ];
    for option in &strings[1..] {
        vector.push(Transfer {
            tag: tag::OPTION,
            value: Value {
                string: option.as_ptr(),
            },
        });
    }
    vector.extend([
        Transfer {
            tag: tag::REGISTER_CLAIM_FILE_HOOK,
            value: Value {
                register_claim_file,
            },
        },
        Transfer {
            tag: tag::REGISTER_ALL_SYMBOLS_READ_HOOK,
            value: Value {
                register_hook: register_all_symbols_read,
            },
        },
        Transfer {
            tag: tag::REGISTER_CLEANUP_HOOK,
            value: Value {
                register_hook: register_cleanup,
            },
        },
        Transfer {
            tag: tag::ADD_SYMBOLS,
            value: Value { add_symbols },
        },
        Transfer {
            tag: tag::ADD_SYMBOLS_V2,
            value: Value { add_symbols },
        },
        Transfer {
            tag: tag::GET_SYMBOLS,
            value: Value {
                get_symbols: get_symbols_v1,
            },
        },
        Transfer {
            tag: tag::GET_SYMBOLS_V2,
            value: Value {
                get_symbols: get_symbols_v2,
            },
        },
        Transfer {
            tag: tag::GET_SYMBOLS_V3,
            value: Value {
                get_symbols: get_symbols_v3,
            },
        },
        Transfer {
            tag: tag::ADD_INPUT_FILE,
            value: Value {
                take_string: add_input_file,
            },
        },
        Transfer {
            tag: tag::ADD_INPUT_LIBRARY,
            value: Value {
                take_string: add_input_library,
            },
        },
        Transfer {
            tag: tag::SET_EXTRA_LIBRARY_PATH,
            value: Value {
                take_string: set_extra_library_path,
            },
        },
        Transfer {
            tag: tag::GET_INPUT_FILE,
            value: Value { get_input_file },
        },
        Transfer {
            tag: tag::RELEASE_INPUT_FILE,
            value: Value { release_input_file },
        },
        Transfer {
            tag: tag::GET_VIEW,
            value: Value { get_view },
        },
        number(tag::NULL, 0),
    ]);
    vector
}

extern "C" fn register_claim_file(hook: api::ClaimFile) -> api::Status {
    STATE.lock().claim = Some(hook);
    api::OK
}

extern "C" fn register_all_symbols_read(hook: api::Hook) -> api::Status {
    STATE.lock().all_symbols_read = Some(hook);
    api::OK
}

extern "C" fn register_cleanup(hook: api::Hook) -> api::Status {
    STATE.lock().cleanup = Some(hook);
    api::OK
}

/// The bytes of a C string that a plugin passed; `None` for a null pointer.
fn string(text: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: the interface says that strings end with a zero byte and are valid during the call.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec())
}

extern "C" fn add_symbols(
    handle: *mut c_void,
    count: c_int,
    symbols: *const api::Symbol,
) -> api::Status {
    let mut state = STATE.lock();
    let Some(Some(record)) = state.inputs.get_mut((handle as usize).wrapping_sub(1)) else {
        return api::BAD_HANDLE;
    };
    let Ok(count) = usize::try_from(count) else {
        return api::ERR;
    };
    if count == 0 {
        return api::OK;
    }
    // SAFETY: the interface says that `symbols` points to `count` symbols.
    let symbols = unsafe { std::slice::from_raw_parts(symbols, count) };
    for symbol in symbols {
        let kind = match symbol.def {
            0 => SymbolKind::Defined,
            1 => SymbolKind::WeakDefined,
            2 => SymbolKind::Undefined,
            3 => SymbolKind::WeakUndefined,
            4 => SymbolKind::Common,
            _ => return api::ERR,
        };
        // LDPV_DEFAULT, PROTECTED, INTERNAL, HIDDEN in ELF's numbers.
        let Some(&visibility) = usize::try_from(symbol.visibility)
            .ok()
            .and_then(|v| [0u8, 3, 1, 2].get(v))
        else {
            return api::ERR;
        };
        let mut name = string(symbol.name).unwrap_or_default();
        if let Some(version) = string(symbol.version)
            && !version.is_empty()
        {
            name.push(b'@');
            name.extend(version);
        }
        let comdat = string(symbol.comdat_key).filter(|key| !key.is_empty());
        record.symbols.push(LtoSymbol {
            name,
            kind,
            visibility,
            size: symbol.size,
            comdat,
        });
    }
    api::OK
}

/// What the versions of `get_symbols` differ in.
struct Version {
    /// Knows `PrevailingIrOnlyExported`.
    exported: bool,
    /// Says of a file that is not linked that it is not, instead of resolving all its symbols elsewhere.
    unlinked: bool,
}

/// Of the first `get_symbols`.
const V1: Version = Version {
    exported: false,
    unlinked: false,
};
/// Of `get_symbols_v2`.
const V2: Version = Version {
    exported: true,
    ..V1
};
/// Of `get_symbols_v3`.
const V3: Version = Version {
    unlinked: true,
    ..V2
};

extern "C" fn get_symbols_v1(
    handle: *const c_void,
    count: c_int,
    symbols: *mut api::Symbol,
) -> api::Status {
    resolve(handle, count, symbols, V1)
}

extern "C" fn get_symbols_v2(
    handle: *const c_void,
    count: c_int,
    symbols: *mut api::Symbol,
) -> api::Status {
    resolve(handle, count, symbols, V2)
}

extern "C" fn get_symbols_v3(
    handle: *const c_void,
    count: c_int,
    symbols: *mut api::Symbol,
) -> api::Status {
    resolve(handle, count, symbols, V3)
}

fn resolve(
    handle: *const c_void,
    count: c_int,
    symbols: *mut api::Symbol,
    version: Version,
) -> api::Status {
    let state = STATE.lock();
    let Some(Some(record)) = state.inputs.get((handle as usize).wrapping_sub(1)) else {
        return api::NO_SYMS;
    };
    if record.resolutions.is_none() && version.unlinked {
        return api::NO_SYMS;
    }
    let Ok(count) = usize::try_from(count) else {
        return api::ERR;
    };
    if count == 0 {
        return api::OK;
    }
    // SAFETY: the interface says that `symbols` points to `count` symbols.
    let symbols = unsafe { std::slice::from_raw_parts_mut(symbols, count) };
    let resolutions = record.resolutions.as_deref().unwrap_or(&[]);
    for (i, symbol) in symbols.iter_mut().enumerate() {
        let resolution = resolutions
            .get(i)
            .copied()
            .unwrap_or(Resolution::PreemptedByObject);
        symbol.resolution = match resolution {
            Resolution::PrevailingIrOnlyExported if !version.exported => Resolution::Prevailing,
            other => other,
        } as c_int;
    }
    api::OK
}

extern "C" fn add_input_file(path: *const c_char) -> api::Status {
    let Some(path) = string(path) else {
        return api::ERR;
    };
    STATE
        .lock()
        .produced
        .files
        .push(PathBuf::from(OsStr::from_bytes(&path)));
    api::OK
}

extern "C" fn add_input_library(name: *const c_char) -> api::Status {
    let Some(name) = string(name) else {
        return api::ERR;
    };
    STATE.lock().produced.libraries.push(name);
    api::OK
}

extern "C" fn set_extra_library_path(path: *const c_char) -> api::Status {
    let Some(path) = string(path) else {
        return api::ERR;
    };
    STATE
        .lock()
        .produced
        .search_directories
        .push(PathBuf::from(OsStr::from_bytes(&path)));
    api::OK
}

extern "C" fn get_input_file(handle: *const c_void, file: *mut api::InputFile) -> api::Status {
    let mut state = STATE.lock();
    let Some(Some(record)) = state.inputs.get_mut((handle as usize).wrapping_sub(1)) else {
        return api::BAD_HANDLE;
    };
    let Ok(fd) = record.file().map(AsRawFd::as_raw_fd) else {
        return api::ERR;
    };
    let raw = api::InputFile {
        name: record.name.as_ptr(),
        fd,
        // Both fitted when the file was offered.
        offset: record.offset as libc::off_t,
        filesize: record.size as libc::off_t,
        handle: handle.cast_mut(),
    };
    // SAFETY: the interface says that `file` is valid for writing.
    unsafe { file.write(raw) };
    api::OK
}

extern "C" fn release_input_file(handle: *const c_void) -> api::Status {
    let mut state = STATE.lock();
    let Some(Some(record)) = state.inputs.get_mut((handle as usize).wrapping_sub(1)) else {
        return api::BAD_HANDLE;
    };
    record.file = None;
    api::OK
}

extern "C" fn get_view(handle: *const c_void, view: *mut *const c_void) -> api::Status {
    let mut state = STATE.lock();
    let Some(Some(record)) = state.inputs.get_mut((handle as usize).wrapping_sub(1)) else {
        return api::BAD_HANDLE;
    };
    if record.view.is_none() {
        let (offset, size) = (record.offset, record.size);
        let Ok(file) = record.file() else {
            return api::ERR;
        };
        // SAFETY: inputs are mapped all through a link; who truncates one meanwhile ends it.
        let map = unsafe {
            memmap2::MmapOptions::new()
                .offset(offset)
                .len(size as usize)
                .map(file)
        };
        record.file = None;
        let path = Path::new(OsStr::from_bytes(record.name.as_bytes()));
        record.view = map.ok().map(|map| Guarded::new(map, path));
    }
    let Some(map) = &record.view else {
        return api::ERR;
    };
    // SAFETY: the interface says that `view` is valid for writing; the mapping lives as long as the plugin.
    unsafe { view.write(map.as_ptr().cast()) };
    api::OK
}

extern "C" fn message(
    level: c_int,
    format: *const c_char,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> api::Status {
    let mut buffer = [0u8; 4096];
    // SAFETY: the format is the plugin's and takes at most four integers or pointers (a fifth, or a
    // floating-point number, would print as garbage from our stack, but the buffer's size holds).
    let length =
        unsafe { libc::snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, a, b, c, d) };
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len() - 1);
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let mut state = STATE.lock();
    match level {
        api::LEVEL_ERROR.. => state.errors.push(text),
        api::LEVEL_WARNING => state.warnings.push(text),
        _ => crate::tell!("repo-ld: {}", text.trim_end()),
    }
    api::OK
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn gcc_plugin() -> Option<PathBuf> {
        let _child = crate::base::children::start();
        let output = Command::new("gcc")
            .arg("-print-file-name=liblto_plugin.so")
            .output()
            .ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        path.is_absolute().then_some(path)
    }

    #[test]
    fn a_missing_plugin_is_an_error_and_gcc_s_tells_its_symbols() {
        let missing = Plugin::load(
            Path::new("/nonexistent.so"),
            &[],
            Output::Pie,
            Path::new("a.out"),
        );
        assert!(missing.is_err_and(|e| {
            e.to_string()
                .contains("/nonexistent.so: cannot load plugin")
        }));
        let Some(path) = gcc_plugin() else {
            eprintln!("not run for want of gcc's liblto_plugin.so");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let (source, object) = (dir.path().join("x.c"), dir.path().join("x.o"));
        std::fs::write(&source, "int b(void); int a(void) { return b(); }").unwrap();
        let child = crate::base::children::start();
        let status = Command::new("gcc")
            .args(["-flto", "-O1", "-c", "-o"])
            .args([&object, &source])
            .status();
        drop(child);
        assert!(status.unwrap().success());
        let mut plugin = Plugin::load(&path, &[], Output::Pie, Path::new("a.out")).unwrap();
        let size = std::fs::metadata(&object).unwrap().len();
        let claimed = plugin
            .claim(&object, 0, size)
            .unwrap()
            .expect("an object with gcc's code");
        let symbols: Vec<_> = claimed
            .symbols
            .iter()
            .map(|s| (String::from_utf8_lossy(&s.name).into_owned(), s.kind))
            .collect();
        assert!(
            symbols.contains(&("a".into(), SymbolKind::Defined)),
            "{symbols:?}"
        );
        assert!(
            symbols.contains(&("b".into(), SymbolKind::Undefined)),
            "{symbols:?}"
        );
        assert_eq!(plugin.claim(&source, 0, 10).unwrap(), None);
    }
}
