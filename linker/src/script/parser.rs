//! Commands at the top level of a script, and what they share with `SECTIONS`: assignments, assertions, `INCLUDE`.

use super::lexer::{Lexer, Mode, Token};
use super::{
    Assertion, AssignOp, Assignment, Attributes, Command, Expr, FileRef, Formats, Loader,
    MemoryRegion, Name, Pos, ProgramHeader, RegionAttributes, Script, ScriptError, Target, expr,
};
use crate::script::version_script;

/// "You can nest calls to INCLUDE up to 10 levels deep."
const MAX_INCLUDE_DEPTH: usize = 10;

/// More files than this are included only by files that include each other many times.
const MAX_INCLUDES: usize = 1000;

/// The state of a parse: where we read, and what is needed to read on in another file.
pub(super) struct Parser<'a, 'l> {
    pub(super) lexer: Lexer<'a>,
    files: &'l mut Vec<String>,
    most_files: usize,
    loader: &'l mut dyn Loader,
    depth: usize,
}

pub(super) fn parse(
    text: &[u8],
    file: &str,
    loader: &mut dyn Loader,
) -> Result<Script, ScriptError> {
    let mut script = Script::default();
    parse_onto(&mut script, text, file, loader)?;
    Ok(script)
}

/// Parses a script behind what `script` has already: its commands and files are added, and positions stay good.
pub(super) fn parse_onto(
    script: &mut Script,
    text: &[u8],
    file: &str,
    loader: &mut dyn Loader,
) -> Result<(), ScriptError> {
    let Script { files, commands } = script;
    let number = u32::try_from(files.len()).unwrap_or(u32::MAX);
    files.push(file.to_string());
    let mut parser = Parser {
        lexer: Lexer::new(text, number),
        most_files: files.len() + MAX_INCLUDES,
        files: &mut *files,
        loader,
        depth: 0,
    };
    parser.commands(commands).map_err(|error| {
        let file = files
            .get(error.pos.file as usize)
            .cloned()
            .unwrap_or_default();
        ScriptError { file, ..error }
    })
}

impl<'a> Parser<'a, '_> {
    // -- tokens

    pub(super) fn pos(&mut self) -> Result<Pos, ScriptError> {
        self.lexer.pos()
    }

    pub(super) fn peek(&self, mode: Mode) -> Result<Token<'a>, ScriptError> {
        self.lexer.peek(mode)
    }

    /// Takes the next token if it is this bracket or operator.
    pub(super) fn take(&mut self, wanted: &str) -> Result<bool, ScriptError> {
        let mut ahead = self.lexer;
        let found = matches!(ahead.next(Mode::Name)?, Token::Punct(punct) if punct == wanted);
        if found {
            self.lexer = ahead;
        }
        Ok(found)
    }

    /// Takes this bracket or operator.
    pub(super) fn expect(&mut self, wanted: &'static str) -> Result<(), ScriptError> {
        let pos = self.pos()?;
        if self.take(wanted)? {
            return Ok(());
        }
        let found = self.peek(Mode::Name)?;
        Err(ScriptError::expected(pos, &format!("'{wanted}'"), &found))
    }

    /// Takes the next word if it is this keyword.
    pub(super) fn take_keyword(&mut self, keyword: &[u8]) -> Result<bool, ScriptError> {
        let mut ahead = self.lexer;
        let found = ahead.next(Mode::Name)? == Token::Word(keyword);
        if found {
            self.lexer = ahead;
        }
        Ok(found)
    }

    /// Takes a name, quoted or not.
    pub(super) fn name(&mut self, mode: Mode, what: &str) -> Result<Name, ScriptError> {
        let pos = self.pos()?;
        match self.lexer.next(mode)? {
            Token::Word(name) | Token::Quoted(name) => Ok(name.to_vec()),
            token => Err(ScriptError::expected(pos, what, &token)),
        }
    }

    /// `(name)`.
    fn bracketed_name(&mut self, mode: Mode, what: &str) -> Result<Name, ScriptError> {
        self.expect("(")?;
        let name = self.name(mode, what)?;
        self.expect(")")?;
        Ok(name)
    }

    /// `(name name, name)`.
    fn bracketed_names(&mut self, mode: Mode, what: &str) -> Result<Vec<Name>, ScriptError> {
        self.expect("(")?;
        let mut names = Vec::new();
        while !self.take(")")? {
            names.push(self.name(mode, what)?);
            self.take(",")?;
        }
        Ok(names)
    }

    pub(super) fn expr(&mut self) -> Result<Expr, ScriptError> {
        expr::parse(&mut self.lexer)
    }

    /// `(expression)`.
    pub(super) fn bracketed_expr(&mut self) -> Result<Expr, ScriptError> {
        self.expect("(")?;
        let expr = self.expr()?;
        self.expect(")")?;
        Ok(expr)
    }

    // -- INCLUDE

    /// Reads the name after `INCLUDE`, and that file's text by `parse`.
    pub(super) fn include(
        &mut self,
        parse: &mut dyn FnMut(&mut Parser<'_, '_>) -> Result<(), ScriptError>,
    ) -> Result<(), ScriptError> {
        let pos = self.pos()?;
        let name = self.name(Mode::File, "the name of a file")?;
        if self.depth == MAX_INCLUDE_DEPTH || self.files.len() > self.most_files {
            return Err(ScriptError::new(
                pos,
                "INCLUDE is nested too deeply (does a script include itself?)",
            ));
        }
        let (path, text) = self.loader.load(&name).map_err(|problem| {
            ScriptError::new(
                pos,
                format!(
                    "cannot include '{}': {problem}",
                    String::from_utf8_lossy(&name)
                ),
            )
        })?;
        let file = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(path);
        let mut inner = Parser {
            lexer: Lexer::new(&text, file),
            files: self.files,
            most_files: self.most_files,
            loader: self.loader,
            depth: self.depth + 1,
        };
        parse(&mut inner)?;
        let pos = inner.pos()?;
        match inner.peek(Mode::Name)? {
            Token::End => Ok(()),
            token => Err(ScriptError::expected(
                pos,
                "the end of the included file",
                &token,
            )),
        }
    }

    // -- what may stand anywhere

    /// An assignment, if the next tokens are one: `name =`, `. +=`, `PROVIDE(`…
    pub(super) fn assignment(&mut self) -> Result<Option<Assignment>, ScriptError> {
        let pos = self.pos()?;
        let mut ahead = self.lexer;
        let (provide, hidden) = match ahead.next(Mode::Name)? {
            Token::Word(b"PROVIDE") => (true, false),
            Token::Word(b"HIDDEN") => (false, true),
            Token::Word(b"PROVIDE_HIDDEN") => (true, true),
            Token::Word(name) | Token::Quoted(name) => {
                let quoted = matches!(self.peek(Mode::Name)?, Token::Quoted(_));
                let Token::Punct(operator) = ahead.next(Mode::Name)? else {
                    return Ok(None);
                };
                let Some(op) = assign_op(operator) else {
                    return Ok(None);
                };
                self.lexer = ahead;
                let target = if name == b"." && !quoted {
                    Target::Dot
                } else {
                    Target::Symbol(name.to_vec())
                };
                let expr = self.expr()?;
                self.end_of_statement()?;
                return Ok(Some(Assignment {
                    target,
                    op,
                    expr,
                    provide: false,
                    hidden: false,
                    pos,
                }));
            }
            _ => return Ok(None),
        };
        if ahead.next(Mode::Name)? != Token::Punct("(") {
            return Ok(None);
        }
        self.lexer = ahead;
        let name = self.name(Mode::Name, "the name of a symbol")?;
        self.expect("=")?;
        let expr = self.expr()?;
        self.expect(")")?;
        // "PROVIDE(symbol = expression)" needs no semicolon.
        self.skip_semicolons()?;
        let target = Target::Symbol(name);
        Ok(Some(Assignment {
            target,
            op: AssignOp::Set,
            expr,
            provide,
            hidden,
            pos,
        }))
    }

    /// `;` or `,`.
    fn end_of_statement(&mut self) -> Result<(), ScriptError> {
        let pos = self.pos()?;
        if self.take(";")? || self.take(",")? {
            return self.skip_semicolons();
        }
        let found = self.peek(Mode::Expr)?;
        Err(ScriptError::expected(
            pos,
            "';' after the expression",
            &found,
        ))
    }

    pub(super) fn skip_semicolons(&mut self) -> Result<(), ScriptError> {
        while self.take(";")? {}
        Ok(())
    }

    /// What follows `ASSERT`.
    pub(super) fn assertion(&mut self, pos: Pos) -> Result<Assertion, ScriptError> {
        self.expect("(")?;
        let expr = self.expr()?;
        self.expect(",")?;
        let message = expr::message(&mut self.lexer)?;
        self.expect(")")?;
        self.skip_semicolons()?;
        Ok(Assertion { expr, message, pos })
    }

    // -- the top level

    fn commands(&mut self, out: &mut Vec<Command>) -> Result<(), ScriptError> {
        loop {
            self.skip_semicolons()?;
            let pos = self.pos()?;
            if self.peek(Mode::Name)? == Token::End {
                return Ok(());
            }
            if let Some(assignment) = self.assignment()? {
                out.push(Command::Assign(assignment));
                continue;
            }
            let keyword = match self.lexer.next(Mode::Name)? {
                Token::Word(keyword) => keyword,
                token => return Err(ScriptError::expected(pos, "a command", &token)),
            };
            if keyword == b"INCLUDE" {
                self.include(&mut |inner| inner.commands(out))?;
                continue;
            }
            let command = self.command(keyword, pos)?;
            out.push(command);
        }
    }

    fn command(&mut self, keyword: &[u8], pos: Pos) -> Result<Command, ScriptError> {
        Ok(match keyword {
            b"INPUT" => Command::Input(self.files_of_input()?),
            b"LIB" => Command::Lib(self.files_of_input()?),
            b"GROUP" => Command::Group(self.files_of_input()?),
            b"STARTUP" => {
                let name = self.bracketed_name(Mode::File, "a file")?;
                Command::Startup(FileRef {
                    name,
                    is_library: false,
                    as_needed: false,
                    pos,
                })
            }
            b"OUTPUT" => Command::Output(self.bracketed_name(Mode::File, "a file")?),
            b"OUTPUT_FORMAT" => {
                let names = self.bracketed_names(Mode::Name, "a format")?;
                // One, or default, big-endian and little-endian.
                let mut names = names.into_iter();
                match (names.next(), names.next(), names.next(), names.next()) {
                    (Some(default), None, ..) => Command::OutputFormat(
                        Formats {
                            default,
                            by_order: None,
                        },
                        pos,
                    ),
                    (Some(default), Some(big), Some(little), None) => Command::OutputFormat(
                        Formats {
                            default,
                            by_order: Some([big, little]),
                        },
                        pos,
                    ),
                    _ => {
                        return Err(ScriptError::new(
                            pos,
                            "OUTPUT_FORMAT takes one or three formats",
                        ));
                    }
                }
            }
            b"OUTPUT_ARCH" => {
                // Names such as i386:x86-64.
                Command::OutputArch(self.bracketed_name(Mode::File, "an architecture")?, pos)
            }
            b"TARGET" => Command::Target(self.bracketed_name(Mode::Name, "a format")?, pos),
            b"SEARCH_DIR" => Command::SearchDir(self.bracketed_name(Mode::File, "a directory")?),
            b"ENTRY" => Command::Entry(self.bracketed_name(Mode::Name, "a symbol")?),
            b"EXTERN" => Command::Extern(self.bracketed_names(Mode::Name, "a symbol")?),
            b"ASSERT" => Command::Assert(self.assertion(pos)?),
            b"SECTIONS" => {
                let mut commands = Vec::new();
                self.expect("{")?;
                self.sections(&mut commands)?;
                self.expect("}")?;
                Command::Sections(commands)
            }
            b"MEMORY" => {
                let mut regions = Vec::new();
                self.expect("{")?;
                self.memory(&mut regions)?;
                self.expect("}")?;
                Command::Memory(regions)
            }
            b"REGION_ALIAS" => {
                self.expect("(")?;
                let alias = self.name(Mode::Name, "the new name of a region")?;
                self.expect(",")?;
                let region = self.name(Mode::Name, "the name of a region")?;
                self.expect(")")?;
                Command::RegionAlias { alias, region, pos }
            }
            b"PHDRS" => Command::Phdrs(self.phdrs()?),
            b"VERSION" => {
                self.expect("{")?;
                let start = self.pos()?;
                let (script, length) =
                    version_script::parse_prefix(self.lexer.rest()).map_err(|error| {
                        let line = start.line.saturating_add(error.line.saturating_sub(1));
                        ScriptError::new(Pos { line, ..start }, error.problem)
                    })?;
                self.lexer.skip(length);
                self.expect("}")?;
                Command::Version(script)
            }
            b"INSERT" => {
                let after = if self.take_keyword(b"AFTER")? {
                    true
                } else if self.take_keyword(b"BEFORE")? {
                    false
                } else {
                    let found = self.peek(Mode::Name)?;
                    return Err(ScriptError::expected(pos, "AFTER or BEFORE", &found));
                };
                Command::Insert {
                    after,
                    section: self.name(Mode::Name, "an output section")?,
                    pos,
                }
            }
            b"NOCROSSREFS" => {
                Command::NoCrossRefs(self.bracketed_names(Mode::Name, "an output section")?, pos)
            }
            b"NOCROSSREFS_TO" => {
                Command::NoCrossRefsTo(self.bracketed_names(Mode::Name, "an output section")?, pos)
            }
            b"FORCE_COMMON_ALLOCATION" => Command::ForceCommonAllocation,
            b"INHIBIT_COMMON_ALLOCATION" => Command::InhibitCommonAllocation,
            b"FORCE_GROUP_ALLOCATION" => Command::ForceGroupAllocation(pos),
            b"LD_FEATURE" => {
                let feature = self.bracketed_name(Mode::Name, "a feature in quotes")?;
                if feature != b"SANE_EXPR" {
                    let feature = String::from_utf8_lossy(&feature).into_owned();
                    return Err(ScriptError::new(
                        pos,
                        format!("unknown feature '{feature}': expected SANE_EXPR"),
                    ));
                }
                Command::SaneExpr
            }
            other => {
                return Err(ScriptError::expected(
                    pos,
                    super::NO_COMMAND,
                    &Token::Word(other),
                ));
            }
        })
    }

    /// `(file -lname AS_NEEDED(…) …)`.
    fn files_of_input(&mut self) -> Result<Vec<FileRef>, ScriptError> {
        let mut files = Vec::new();
        let mut as_needed = false;
        self.expect("(")?;
        loop {
            let pos = self.pos()?;
            if self.take(",")? {
                continue;
            }
            if self.take(")")? {
                if !as_needed {
                    return Ok(files);
                }
                as_needed = false;
                continue;
            }
            match self.lexer.next(Mode::File)? {
                Token::Word(b"AS_NEEDED") if !as_needed => {
                    self.expect("(")?;
                    as_needed = true;
                }
                Token::Word(b"AS_NEEDED") => {
                    return Err(ScriptError::new(pos, "AS_NEEDED may not be nested"));
                }
                Token::Word(name) => {
                    let (name, is_library) = match name.strip_prefix(b"-l") {
                        Some(library) if !library.is_empty() => (library, true),
                        _ => (name, false),
                    };
                    files.push(FileRef {
                        name: name.to_vec(),
                        is_library,
                        as_needed,
                        pos,
                    });
                }
                Token::Quoted(name) => {
                    files.push(FileRef {
                        name: name.to_vec(),
                        is_library: false,
                        as_needed,
                        pos,
                    });
                }
                token => return Err(ScriptError::expected(pos, "a file or ')'", &token)),
            }
        }
    }

    /// `name (attributes) : ORIGIN = …, LENGTH = …`.
    fn memory(&mut self, out: &mut Vec<MemoryRegion>) -> Result<(), ScriptError> {
        loop {
            self.skip_semicolons()?;
            let pos = self.pos()?;
            match self.peek(Mode::Name)? {
                Token::Punct("}") | Token::End => return Ok(()),
                Token::Word(b"INCLUDE") => {
                    self.lexer.next(Mode::Name)?;
                    self.include(&mut |inner| inner.memory(out))?;
                    continue;
                }
                _ => {}
            }
            let name = self.name(Mode::Name, "the name of a region")?;
            let attributes = if self.take("(")? {
                let text = self.name(Mode::Name, "attributes of a region (rwxail!)")?;
                self.expect(")")?;
                region_attributes(&text).ok_or_else(|| {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    ScriptError::new(
                        pos,
                        format!(
                            "unknown attribute in '{text}': expected some of r, w, x, a, i, l, !"
                        ),
                    )
                })?
            } else {
                RegionAttributes::default()
            };
            self.expect(":")?;
            let origin = self.region_value(&[b"ORIGIN", b"org", b"o"], "ORIGIN")?;
            self.take(",")?;
            let length = self.region_value(&[b"LENGTH", b"len", b"l"], "LENGTH")?;
            self.take(",")?;
            out.push(MemoryRegion {
                name,
                attributes,
                origin,
                length,
                pos,
            });
        }
    }

    fn region_value(&mut self, spellings: &[&[u8]], what: &str) -> Result<Expr, ScriptError> {
        let pos = self.pos()?;
        match self.lexer.next(Mode::Expr)? {
            Token::Word(word) if spellings.contains(&word) => {}
            token => return Err(ScriptError::expected(pos, what, &token)),
        }
        self.expect("=")?;
        self.expr()
    }

    /// `{ name type FILEHDR PHDRS AT(…) FLAGS(…); … }`.
    fn phdrs(&mut self) -> Result<Vec<ProgramHeader>, ScriptError> {
        let mut headers = Vec::new();
        self.expect("{")?;
        while !self.take("}")? {
            let pos = self.pos()?;
            let name = self.name(Mode::Name, "the name of a program header")?;
            let kind = match self.peek(Mode::Expr)? {
                Token::Word(word) if segment_type(word).is_some() => {
                    self.lexer.next(Mode::Expr)?;
                    Expr::Number(segment_type(word).unwrap_or_default())
                }
                _ => self.expr()?,
            };
            let mut header = ProgramHeader {
                name,
                kind,
                filehdr: false,
                phdrs: false,
                at: None,
                flags: None,
                pos,
            };
            loop {
                if self.take_keyword(b"FILEHDR")? {
                    header.filehdr = true;
                } else if self.take_keyword(b"PHDRS")? {
                    header.phdrs = true;
                } else if self.take_keyword(b"AT")? {
                    header.at = Some(self.bracketed_expr()?);
                } else if self.take_keyword(b"FLAGS")? {
                    header.flags = Some(self.bracketed_expr()?);
                } else {
                    break;
                }
            }
            self.expect(";")?;
            self.skip_semicolons()?;
            headers.push(header);
        }
        Ok(headers)
    }
}

/// The operator of an assignment.
fn assign_op(punct: &str) -> Option<AssignOp> {
    Some(match punct {
        "=" => AssignOp::Set,
        "+=" => AssignOp::Add,
        "-=" => AssignOp::Sub,
        "*=" => AssignOp::Mul,
        "/=" => AssignOp::Div,
        "<<=" => AssignOp::Shl,
        ">>=" => AssignOp::Shr,
        "&=" => AssignOp::And,
        "|=" => AssignOp::Or,
        "^=" => AssignOp::Xor,
        _ => return None,
    })
}

fn region_attributes(text: &[u8]) -> Option<RegionAttributes> {
    let mut attributes = RegionAttributes::default();
    let mut inverted = false;
    for byte in text {
        let attribute = match byte.to_ascii_lowercase() {
            b'!' => {
                inverted = !inverted;
                continue;
            }
            b'r' => Attributes::READ_ONLY,
            b'w' => Attributes::WRITABLE,
            b'x' => Attributes::EXECUTABLE,
            b'a' => Attributes::ALLOCATED,
            b'i' | b'l' => Attributes::INITIALISED,
            _ => return None,
        };
        if inverted {
            attributes.none |= attribute
        } else {
            attributes.any |= attribute
        }
    }
    Some(attributes)
}

/// `p_type` by name (gABI, "Program Header"; the `PT_GNU_*` ones are GNU ld's too).
fn segment_type(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"PT_NULL" => 0,
        b"PT_LOAD" => 1,
        b"PT_DYNAMIC" => 2,
        b"PT_INTERP" => 3,
        b"PT_NOTE" => 4,
        b"PT_SHLIB" => 5,
        b"PT_PHDR" => 6,
        b"PT_TLS" => 7,
        b"PT_GNU_EH_FRAME" => 0x6474_e550,
        b"PT_GNU_STACK" => 0x6474_e551,
        b"PT_GNU_RELRO" => 0x6474_e552,
        b"PT_GNU_PROPERTY" => 0x6474_e553,
        b"PT_GNU_SFRAME" => 0x6474_e554,
        _ => return None,
    })
}
