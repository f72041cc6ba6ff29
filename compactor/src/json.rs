//! What is shown as JSON in another form than serde gives it.

use serde::Serializer;
use std::path::Path;
use std::time::Duration;

/// A path as text, in which what is not UTF-8 is replaced: JSON has no other strings.
pub(crate) fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// A time in seconds.
pub(crate) fn in_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
