//! Which files clang has read, where the build wants a dependency file without those of the system (`-MMD`): there is only one such file, and
//! clang's graph of them beside it (`-dependency-dot`) has all.
//!
//! A node's label is the file's name, of which the start is left out if it is the system root. That is `/` where none is named, and with another root
//! there is no graph to be read: a name with a slash at its start would be a file below it, or not. So `usr/include/stdio.h` may be two files,
//! and then both count.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Begins a label.
const LABEL: &[u8] = b"label=\"";

/// The files of a graph, in the working directory; `None` if it is no such graph, or a file is not there.
pub fn files(graph: &[u8]) -> Option<Vec<OsString>> {
    let body = graph.trim_ascii().strip_suffix(b"}")?;
    let mut lines = body.split(|byte| *byte == b'\n');
    if lines.next()? != b"digraph \"dependencies\" {" {
        return None;
    }
    let mut files = Vec::new();
    for line in lines {
        let Some(at) = memchr::memmem::find(line, LABEL) else {
            continue;
        };
        let label = line[at + LABEL.len()..].strip_suffix(b"\"];")?;
        let name = unescaped(label)?;
        let before = files.len();
        if name.first() == Some(&b'/') {
            return None;
        }
        for start in [&b"/"[..], b""] {
            let file = OsString::from_vec([start, &name].concat());
            if Path::new(&file).is_file() {
                files.push(file);
            }
        }
        if files.len() == before {
            return None;
        }
    }
    Some(files)
}

/// What a label stands for, which has a backslash before quotes and brackets; `None` where that cannot be said.
fn unescaped(label: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(label.len());
    let mut bytes = label.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(&escaped @ (b'"' | b'{' | b'}' | b'<' | b'>' | b'|')) => name.push(escaped),
                _ => return None,
            },
            _ => name.push(byte),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn labels_are_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("a \"b\".h");
        fs::write(&name, "").expect("written");
        let text = name.to_str().expect("text").replace('"', "\\\"");
        let graph = |label: &str| {
            format!(
                "digraph \"dependencies\" {{\n  header_1 [ shape=\"box\", label=\"{label}\"];\n  header_0 -> header_1;\n}}\n"
            )
        };
        let found = |graph: &str| files(graph.as_bytes());
        let expected = Some(vec![name.clone().into_os_string()]);
        assert_eq!(found(&graph(&text[1..])), expected);
        assert_eq!(found(&graph(&text)), None, "another root");
        assert_eq!(found(&graph("nowhere/a.h")), None);
        assert_eq!(found(&graph(&text[1..]).replace("\\\"b", "\\n")), None);
        assert_eq!(found("digraph \"dependencies\" {\n}\n"), Some(vec![]));
        for broken in [
            "",
            "}",
            "digraph \"others\" {\n}\n",
            "digraph \"dependencies\" {\n label=\"x\n}",
        ] {
            assert_eq!(found(broken), None, "{broken}");
        }
    }
}
