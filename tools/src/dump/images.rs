//! The linked outputs: a list, or one in full.

use super::model::Model;
use super::output::{Text, View, printable, time};
use anyhow::{Result, bail};
use format_spec::digest::Digest;
use format_spec::ids::Address;
use format_spec::program::Index;
use serde::Serialize;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An image in a list.
#[derive(Serialize)]
pub struct Row {
    path: String,
    exists: bool,
    linked: String,
    bytes: u64,
    inputs: usize,
}

/// Heading for [`Row`]s.
pub const HEADING: &str = "state  linked                       bytes  inputs  output";

/// All images.
pub fn list<'s>(model: Model<'s>) -> impl Iterator<Item = Result<Row>> + use<'s> {
    model.programs.records(Index::Images).map(move |record| {
        let view = model.programs.image(&record?)?;
        Ok(Row {
            path: printable(view.path).into_owned(),
            exists: Path::new(OsStr::from_bytes(view.path)).exists(),
            linked: time(view.header.written),
            bytes: view.header.output_size,
            inputs: view.inputs.len(),
        })
    })
}

impl View for Row {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        let state = if self.exists {
            style.name("live")
        } else {
            style.bad("gone")
        };
        writeln!(
            out,
            "{state:<5}  {}  {:>12}  {:>6}  {}",
            self.linked, self.bytes, self.inputs, self.path
        )
    }
}

/// An image in full.
#[derive(Serialize)]
pub struct Detail {
    #[serde(flatten)]
    row: Row,
    options: String,
    inputs_in_order: Vec<Input>,
}

#[derive(Serialize)]
struct Input {
    path: String,
    compilation: Option<String>,
}

/// The image of the output at `path`.
pub fn detail(model: &Model<'_>, path: &Path) -> Result<Detail> {
    let absolute = std::path::absolute(path)?;
    let key = Digest::of(absolute.as_os_str().as_bytes());
    let Some(record) = model.programs.snapshot().get(Index::Images.slot(), &key)? else {
        bail!("{}: no image of it in the repository", path.display());
    };
    let view = model.programs.image(&record)?;
    let mut inputs = Vec::with_capacity(view.inputs.len());
    for input in view.inputs {
        inputs.push(Input {
            path: printable(model.programs.name(input.path)?).into_owned(),
            compilation: match input.compilation {
                Address(0) => None,
                address => {
                    let compilation = model.programs.compilation_at(address)?;
                    Some(compilation.record().key().to_string())
                }
            },
        });
    }
    Ok(Detail {
        row: Row {
            path: printable(view.path).into_owned(),
            exists: absolute.exists(),
            linked: time(view.header.written),
            bytes: view.header.output_size,
            inputs: view.inputs.len(),
        },
        options: view.header.options.to_string(),
        inputs_in_order: inputs,
    })
}

impl View for Detail {
    fn text(&self, out: &mut Text<'_>) -> std::io::Result<()> {
        let style = out.style;
        self.row.text(out)?;
        writeln!(out, "\n{}", style.heading("inputs"))?;
        for (index, input) in self.inputs_in_order.iter().enumerate() {
            let digest = input
                .compilation
                .as_deref()
                .map_or("", |digest| &digest[..12]);
            writeln!(
                out,
                "  {index:>5}  {:<12}  {}",
                style.digest(digest),
                input.path
            )?;
        }
        Ok(())
    }
}
