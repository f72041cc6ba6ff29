//! The linker plugin interface as C declares it: "plugin-api.h" of binutils,
//! API version 1. Names are those of the header without their prefixes.

use std::ffi::{c_char, c_int, c_void};

/// `enum ld_plugin_status`.
pub type Status = c_int;
pub const OK: Status = 0;
pub const NO_SYMS: Status = 1;
pub const BAD_HANDLE: Status = 2;
pub const ERR: Status = 3;

/// `enum ld_plugin_tag`, as far as we offer or need it.
pub mod tag {
    use std::ffi::c_int;
    pub const NULL: c_int = 0;
    pub const API_VERSION: c_int = 1;
    pub const LINKER_OUTPUT: c_int = 3;
    pub const OPTION: c_int = 4;
    pub const REGISTER_CLAIM_FILE_HOOK: c_int = 5;
    pub const REGISTER_ALL_SYMBOLS_READ_HOOK: c_int = 6;
    pub const REGISTER_CLEANUP_HOOK: c_int = 7;
    pub const ADD_SYMBOLS: c_int = 8;
    pub const GET_SYMBOLS: c_int = 9;
    pub const ADD_INPUT_FILE: c_int = 10;
    pub const MESSAGE: c_int = 11;
    pub const GET_INPUT_FILE: c_int = 12;
    pub const RELEASE_INPUT_FILE: c_int = 13;
    pub const ADD_INPUT_LIBRARY: c_int = 14;
    pub const OUTPUT_NAME: c_int = 15;
    pub const SET_EXTRA_LIBRARY_PATH: c_int = 16;
    pub const GNU_LD_VERSION: c_int = 17;
    pub const GET_VIEW: c_int = 18;
    pub const GET_SYMBOLS_V2: c_int = 25;
    pub const GET_SYMBOLS_V3: c_int = 28;
    pub const ADD_SYMBOLS_V2: c_int = 33;
}

/// `enum ld_plugin_level`: from this one on, the message is an error.
pub const LEVEL_ERROR: c_int = 2;
pub const LEVEL_WARNING: c_int = 1;

/// `struct ld_plugin_input_file`.
#[repr(C)]
pub struct InputFile {
    pub name: *const c_char,
    pub fd: c_int,
    pub offset: libc::off_t,
    pub filesize: libc::off_t,
    pub handle: *mut c_void,
}

/// `struct ld_plugin_symbol`, little-endian layout.
#[repr(C)]
pub struct Symbol {
    pub name: *mut c_char,
    pub version: *mut c_char,
    pub def: c_char,
    pub symbol_type: c_char,
    pub section_kind: c_char,
    pub unused: c_char,
    pub visibility: c_int,
    pub size: u64,
    pub comdat_key: *mut c_char,
    pub resolution: c_int,
}

/// `struct ld_plugin_tv`.
#[repr(C)]
pub struct Transfer {
    pub tag: c_int,
    pub value: Value,
}

/// The union in `struct ld_plugin_tv`.
#[repr(C)]
pub union Value {
    pub number: c_int,
    pub string: *const c_char,
    pub register_claim_file: extern "C" fn(ClaimFile) -> Status,
    pub register_hook: extern "C" fn(Hook) -> Status,
    pub add_symbols: extern "C" fn(*mut c_void, c_int, *const Symbol) -> Status,
    pub get_symbols: extern "C" fn(*const c_void, c_int, *mut Symbol) -> Status,
    pub take_string: extern "C" fn(*const c_char) -> Status,
    pub message: MessageFn,
    pub get_input_file: extern "C" fn(*const c_void, *mut InputFile) -> Status,
    pub get_view: extern "C" fn(*const c_void, *mut *const c_void) -> Status,
    pub release_input_file: extern "C" fn(*const c_void) -> Status,
}

/// The claim-file hook of a plugin.
pub type ClaimFile = unsafe extern "C" fn(*const InputFile, *mut c_int) -> Status;
/// The all-symbols-read and cleanup hooks of a plugin.
pub type Hook = unsafe extern "C" fn() -> Status;
/// `onload` of a plugin.
pub type Onload = unsafe extern "C" fn(*mut Transfer) -> Status;

/// `ld_plugin_message`. In C it is variadic; in the System V ABI for x86-64 the first four
/// variable arguments that are integers or pointers arrive in the same registers as these.
pub type MessageFn = extern "C" fn(c_int, *const c_char, usize, usize, usize, usize) -> Status;
