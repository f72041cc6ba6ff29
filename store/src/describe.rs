//! An error in one line, for people.

use std::error::Error;

/// The error's message and those of its causes, from the outside to the inside. A
/// cause that the message before it already ends with (as those do that are made to
/// stand alone) is not said twice.
pub fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let message = inner.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::describe;
    use crate::engine;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("while looking")]
    struct Outer(#[source] engine::Error);

    #[test]
    fn causes_are_said_once() {
        let error = Outer(engine::Error::Io {
            path: "a.repo".into(),
            action: "write",
            source: io::Error::other("disk on fire"),
        });
        assert_eq!(
            describe(&error),
            "while looking: a.repo: cannot write: disk on fire"
        );
    }
}
