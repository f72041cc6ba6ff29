//! One compilation, as the plugin goes through it.

use crate::decide::{Action, Decision, Found, decide, mark_constructed, mark_written};
use crate::graph::{Definition, Digests, Flags, Module, Reference};
use crate::memo;
use crate::protocol::{Defined, Report, Request, State};
use std::env;
use std::fs;
use std::path::Path;
use store::program::Repository;

/// Names the file with the [`Request`].
pub const REQUEST_VARIABLE: &str = "REPO_CC_PLUGIN_REQUEST";

/// What is asked of the plugin, and what it has found.
pub struct Session {
    request: Request,
    module: Module,
    digests: Digests,
    decisions: Vec<Decision>,
    actions: Vec<Action>,
}

impl Session {
    /// The session that the environment asks for.
    pub fn asked_for() -> Option<Session> {
        let path = env::var_os(REQUEST_VARIABLE)?;
        let request = fs::read(path).ok()?;
        let request: Request = serde_json::from_slice(&request).ok()?;
        // Whoever asked sees by that that the source was understood, also where nothing comes of the rest.
        fs::write(&request.report, b"").ok()?;
        Some(Session::new(request))
    }

    /// A session for a request.
    pub fn new(request: Request) -> Session {
        Session {
            request,
            module: Module::default(),
            digests: Digests::default(),
            decisions: Vec::new(),
            actions: Vec::new(),
        }
    }

    /// Whether internals are to be promoted.
    pub fn promotes(&self) -> bool {
        self.request.promote
    }

    /// Whether only the names of the definitions are asked for.
    pub fn asks_only_names(&self) -> bool {
        self.request.only_names
    }

    /// Takes the names of the definitions of a module, of which nothing else is known.
    pub fn take_names(&mut self, mut module: Module) {
        refuse_unspeakable(&mut module);
        self.module = module;
    }

    /// The name of the translation unit.
    pub fn unit(&self) -> &str {
        &self.request.unit
    }

    /// What is to become of each definition.
    pub fn decide(&mut self, mut module: Module) -> &[Action] {
        mark_constructed(&mut module);
        mark_written(&mut module);
        refuse_unspeakable(&mut module);
        self.digests = module.digests(self.request.environment.as_bytes());
        let repository = self.repository();
        let programs = repository.as_ref().and_then(|r| r.programs().ok());
        let prune = self.request.prune && programs.is_some();
        self.decisions = decide(&module, &self.digests, prune, |digest| {
            let names = memo::find_dependents(programs.as_ref()?, digest).ok()??;
            Some(Found {
                dependents: names.into_iter().map(<[u8]>::to_vec).collect(),
            })
        });
        self.module = module;
        self.actions = self.decisions.iter().map(|d| d.action).collect();
        &self.actions
    }

    fn repository(&self) -> Option<Repository> {
        let path: &Path = self.request.repository.as_deref()?;
        Repository::open_read_only(path).ok()
    }

    /// That a definition which was to go late has been compiled after all.
    pub fn changed(&mut self, at: u32, why: &str) {
        let decision = &mut self.decisions[at as usize];
        decision.action = Action::Compile;
        decision.known = false;
        decision.why = Some(why.to_owned());
    }

    /// Writes the report. If that fails there is none, and `repo-cc` takes the ordinary road.
    pub fn finish(self, seconds: f64) {
        let report = match self.request.only_names {
            true => self.report_of_names(seconds),
            false => self.report(seconds),
        };
        if let Ok(bytes) = serde_json::to_vec(&report) {
            let _ = fs::write(&self.request.report, bytes);
        }
    }

    fn report_of_names(&self, seconds: f64) -> Report {
        let named = |definition: &Definition| Defined {
            name: String::from_utf8_lossy(&definition.name).into_owned(),
            ..Defined::default()
        };
        Report {
            whole: self.module.whole.clone(),
            has_unasked: self.module.has_unasked,
            tells_places: self.module.tells_places,
            reads_files: self.module.reads_files,
            seconds,
            definitions: self.module.definitions.iter().map(named).collect(),
            ..Report::default()
        }
    }

    fn report(&self, seconds: f64) -> Report {
        let hex = |digest: &[u8; 32]| blake3::Hash::from(*digest).to_hex().to_string();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let module = &self.module;
        let definitions = module.definitions.iter().zip(&self.decisions).enumerate();
        let definitions = definitions.map(|(at, (definition, decision))| {
            let references = module.references_of(at as u32).iter();
            let (contributions, follows): (Vec<_>, Vec<_>) = references
                .filter(|reference| reference.is_followed())
                .partition(|reference| reference.flags & Reference::CONTRIBUTION != 0);
            let targets = |list: Vec<&Reference>| list.iter().map(|r| r.target).collect();
            Defined {
                name: text(&definition.name),
                original: definition.original.as_deref().map(text),
                digest: hex(&self.digests.of[at]),
                head: hex(&definition.head),
                body: hex(&definition.body),
                flags: definition.flags.0,
                state: match (decision.action, decision.known) {
                    (Action::Compile | Action::Write, _) => State::New,
                    (Action::DropLate, _) => State::KnownKept,
                    (Action::Drop, true) => State::Known,
                    (Action::Drop, false) => State::Unreached,
                },
                why: decision.why.clone(),
                follows: targets(follows),
                contributors: targets(contributions),
                component: self.digests.component[at],
                properties: definition.properties,
                alias_of: definition.alias_of,
            }
        });
        Report {
            pruned: self.actions.iter().any(|action| !action.is_compiled()),
            whole: module.whole.clone(),
            level: module.level,
            has_unasked: module.has_unasked,
            tells_places: module.tells_places,
            reads_files: module.reads_files,
            seconds,
            definitions: definitions.collect(),
        }
    }
}

/// Says so where a definition has a name that the report cannot have, or none.
fn refuse_unspeakable(module: &mut Module) {
    let unspeakable = |name: &[u8]| name.is_empty() || std::str::from_utf8(name).is_err();
    if module
        .definitions
        .iter()
        .any(|definition| unspeakable(&definition.name) && !definition.flags.has(Flags::CONTENT))
    {
        module.whole = Some("a definition whose name is no text".to_owned());
    }
}
