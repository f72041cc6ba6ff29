//! What `repo-cc` asks of the plugin, and what the plugin tells: two small JSON files.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the plugin is to do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Request {
    /// Who the compiler is, and its options, as far as they matter to code: part of each digest.
    pub environment: String,
    /// Nothing is asked but which definitions there are: the module stays as it is, also with debug information.
    pub only_names: bool,
    /// The repository to look in; none to look nowhere.
    pub repository: Option<PathBuf>,
    /// Whether what is known is left out; else it is only said.
    pub prune: bool,
    /// Whether internals are promoted to hidden names.
    pub promote: bool,
    /// The word behind the names of promoted internals (SPEC.md, section 26): translation units that have another share none of these.
    pub unit: String,
    /// Where the report goes.
    pub report: PathBuf,
}

/// What became of a translation unit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The object is not whole without what the repository has.
    pub pruned: bool,
    /// Why nothing is taken from the repository.
    pub whole: Option<String>,
    /// 0 for -O0.
    pub level: u32,
    /// Something works by itself that is there because a template was instantiated, whoever asked for that: of no function's body it is known
    /// that nothing came of it.
    pub has_unasked: bool,
    /// A text may say where a type or a lambda without a name stands.
    pub tells_places: bool,
    /// Assembly may read other files.
    pub reads_files: bool,
    /// Seconds of the processor for the walk, the digests, and looking up.
    pub seconds: f64,
    /// All definitions.
    pub definitions: Vec<Defined>,
}

impl Report {
    /// Where each name is among the definitions.
    pub fn positions(&self) -> FxHashMap<&[u8], usize> {
        (self.definitions.iter().enumerate())
            .map(|(at, defined)| (defined.name.as_bytes(), at))
            .collect()
    }
}

/// What became of a definition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Defined {
    /// Its name, in the module that was compiled.
    pub name: String,
    /// If it was promoted: its name in the source.
    pub original: Option<String>,
    /// Its digest, in hexadecimal.
    pub digest: String,
    /// Of what is said of it as a whole.
    pub head: String,
    /// Of its code or initializer alone.
    pub body: String,
    /// As in [`Flags`](crate::graph::Flags).
    pub flags: u32,
    /// What became of it.
    pub state: State,
    /// Why, if that is not clear from the state.
    pub why: Option<String>,
    /// What it depends on: indices of definitions.
    pub follows: Vec<u32>,
    /// Who has a say in it: indices of definitions.
    pub contributors: Vec<u32>,
    /// The number of its component.
    pub component: u32,
    /// Hashes of the kinds of properties that `head` is of.
    pub properties: [u8; 8],
    /// Of an alias that goes with a function: that function.
    pub alias_of: Option<u32>,
}

impl Defined {
    /// Its name in the source.
    pub fn shown(&self) -> &str {
        self.original.as_deref().unwrap_or(&self.name)
    }
}

/// What became of a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It was compiled.
    #[default]
    New,
    /// It comes from the repository, and nothing of it was compiled.
    Known,
    /// It comes from the repository, and was kept for inlining before.
    KnownKept,
    /// Nobody who is compiled reaches it, and the repository does not have it: it was not compiled.
    Unreached,
}

impl State {
    /// Whether what the repository has stands for it.
    pub fn is_known(self) -> bool {
        matches!(self, State::Known | State::KnownKept)
    }
}
