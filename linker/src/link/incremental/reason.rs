//! Why a link is not incremental, in a few words for the log.

use std::borrow::Cow;

/// Why a link is not incremental.
pub(crate) type Reason = Cow<'static, str>;
