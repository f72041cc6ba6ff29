//! What is not promised yet. Each of these turns a part of an oracle on; the attack is made in any case, and what it then
//! must not do (die, panic, leave half a file) is always judged.

/// A link from a repository with one flipped bit is an error or the right program. Without it: or `repo-dump --verify`
/// finds the damage.
pub const RECORDS_ARE_CHECKED: bool = true;

/// A repository of another user is not used unless it is named.
pub const REPOSITORIES_OF_OTHERS_ARE_REFUSED: bool = true;

/// A file larger than `RLIMIT_FSIZE` is an error message. Without it: or death of `SIGXFSZ`, as of other programs.
pub const FILE_SIZE_LIMITS_ARE_ERRORS: bool = true;

/// Outputs may have names of 255 bytes.
pub const LONG_NAMES_WORK: bool = true;
