//! What the passes call, and the entry point that LLVM looks for. `walk.h` is the other side.

use pruning::Session;
use pruning::graph::{Definition, Flags, Kind, Module, Reference};
use std::ffi::{CStr, c_char, c_void};
use std::slice;

/// `llvm::PassPluginLibraryInfo`.
#[repr(C)]
pub struct Info {
    api_version: u32,
    name: *const c_char,
    version: *const c_char,
    register: *const c_void,
}

unsafe extern "C" {
    fn repo_plugin_info() -> Info;
}

/// What LLVM asks a plugin for.
///
/// # Safety
/// Called by LLVM, which has loaded this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn llvmGetPassPluginInfo() -> Info {
    // SAFETY: it only fills in the structure.
    unsafe { repo_plugin_info() }
}

#[repr(C)]
struct RawReference {
    target: u32,
    flags: u32,
}

#[repr(C)]
struct RawDefinition {
    name: *const u8,
    name_size: u64,
    original: *const u8,
    original_size: u64,
    reason: *const c_char,
    kind: u32,
    flags: u32,
    first_reference: u32,
    reference_count: u32,
    alias_of: u32,
    head: [u8; 32],
    body: [u8; 32],
    properties: [u8; 8],
}

/// `RepoModule` of `walk.h`.
#[repr(C)]
pub struct RawModule {
    definitions: *const RawDefinition,
    definition_count: u64,
    references: *const RawReference,
    reference_count: u64,
    environment: *const u8,
    environment_size: u64,
    whole: *const c_char,
    level: u32,
    has_unasked: bool,
    tells_places: bool,
    reads_files: bool,
}

/// # Safety
/// `data` leads to `size` elements, if there are some.
unsafe fn all<'a, T>(data: *const T, size: u64) -> &'a [T] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { slice::from_raw_parts(data, size as usize) }
}

/// # Safety
/// `text` is null or a C string.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// # Safety
/// `bytes` leads to `size` bytes, `digest` to 32.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_digest(bytes: *const u8, size: u64, digest: *mut [u8; 32]) {
    // SAFETY: as the caller says.
    unsafe { *digest = pruning::digest_of(all(bytes, size)) };
}

/// # Safety
/// `text` leads to `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_assembly_may_read(text: *const u8, size: u64) -> bool {
    // SAFETY: as the caller says.
    pruning::assembly::may_read(unsafe { all(text, size) })
}

#[unsafe(no_mangle)]
extern "C" fn repo_session() -> *mut c_void {
    match Session::asked_for() {
        Some(session) => Box::into_raw(Box::new(session)).cast(),
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// `session` is one of [`repo_session`], not finished yet.
unsafe fn of<'a>(session: *mut c_void) -> &'a mut Session {
    // SAFETY: as the caller says; the passes run one after another.
    unsafe { &mut *session.cast::<Session>() }
}

/// # Safety
/// As [`of`]; the other pointers are to variables.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_session_promotes(
    session: *mut c_void,
    unit: *mut *const u8,
    unit_size: *mut u64,
) -> bool {
    // SAFETY: as the caller says. The session outlives the use of its text.
    unsafe {
        let session = of(session);
        *unit = session.unit().as_ptr();
        *unit_size = session.unit().len() as u64;
        session.promotes()
    }
}

/// # Safety
/// As [`of`].
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_session_asks_only_names(session: *mut c_void) -> bool {
    // SAFETY: as the caller says.
    unsafe { of(session).asks_only_names() }
}

/// # Safety
/// As [`of`]; `module` is a whole one.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_session_take_names(session: *mut c_void, module: *const RawModule) {
    // SAFETY: as the caller says.
    unsafe { of(session).take_names(read_module(&*module)) };
}

/// # Safety
/// Its arrays and texts are as long as they say, and live until the caller returns.
unsafe fn read_module(raw: &RawModule) -> Module {
    // SAFETY: as the caller says.
    let (references, definitions, environment) = unsafe {
        (
            all(raw.references, raw.reference_count),
            all(raw.definitions, raw.definition_count),
            all(raw.environment, raw.environment_size),
        )
    };
    let references = references.iter().map(|reference| Reference {
        target: reference.target,
        flags: reference.flags,
    });
    // SAFETY: as the caller says.
    let definitions = definitions.iter().map(|raw| unsafe { definition(raw) });
    Module {
        definitions: definitions.collect(),
        references: references.collect(),
        environment: environment.to_vec(),
        // SAFETY: as the caller says.
        whole: unsafe { text(raw.whole) },
        level: raw.level,
        has_unasked: raw.has_unasked,
        tells_places: raw.tells_places,
        reads_files: raw.reads_files,
    }
}

/// # Safety
/// As [`of`]; `module` is a whole one, and `actions` has a byte for each of its definitions.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_session_decide(
    session: *mut c_void,
    module: *const RawModule,
    actions: *mut u8,
) -> bool {
    // SAFETY: as the caller says.
    let (session, raw) = unsafe { (of(session), &*module) };
    // SAFETY: the arrays and texts of the module are as long as they say, and live until the caller returns.
    let (module, actions) = unsafe {
        let module = read_module(raw);
        // An array of nothing may be nowhere.
        let actions = match actions.is_null() {
            true => &mut [],
            false => slice::from_raw_parts_mut(actions, module.definitions.len()),
        };
        (module, actions)
    };
    let decided = session.decide(module);
    for (place, action) in actions.iter_mut().zip(decided) {
        *place = *action as u8;
    }
    decided.iter().any(|action| !action.is_compiled())
}

/// # Safety
/// Its texts are as long as they say.
unsafe fn definition(raw: &RawDefinition) -> Definition {
    // SAFETY: as the caller says.
    unsafe {
        Definition {
            name: all(raw.name, raw.name_size).to_vec(),
            original: (!raw.original.is_null())
                .then(|| all(raw.original, raw.original_size).to_vec()),
            reason: text(raw.reason),
            kind: Kind::of(raw.kind),
            flags: Flags(raw.flags),
            references: raw.first_reference..raw.first_reference + raw.reference_count,
            alias_of: (raw.alias_of != u32::MAX).then_some(raw.alias_of),
            head: raw.head,
            body: raw.body,
            properties: raw.properties,
        }
    }
}

/// # Safety
/// As [`of`]; `why` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_session_changed(session: *mut c_void, at: u32, why: *const c_char) {
    // SAFETY: as the caller says.
    unsafe { of(session).changed(at, &text(why).unwrap_or_default()) };
}

/// # Safety
/// As [`of`]. The session is gone afterwards.
#[unsafe(no_mangle)]
unsafe extern "C" fn repo_session_finish(session: *mut c_void, seconds: f64) {
    // SAFETY: as the caller says: it was made by Box::into_raw and is used no more.
    let session = unsafe { Box::from_raw(session.cast::<Session>()) };
    session.finish(seconds);
}
