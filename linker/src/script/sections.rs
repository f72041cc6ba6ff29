//! `SECTIONS`: output section descriptions, overlays, input section descriptions.

use super::lexer::{Mode, Token};
use super::parser::Parser;
use super::{
    Constraint, Expr, FilePattern, Fill, InputSpec, Name, OutputSection, Overlay, Pattern, Pos,
    ScriptError, SectionCommand, SectionFlags, SectionPattern, SectionType, SectionsCommand, Sort,
    expr,
};

impl Parser<'_, '_> {
    /// The commands of `SECTIONS`, up to `}`.
    pub(super) fn sections(&mut self, out: &mut Vec<SectionsCommand>) -> Result<(), ScriptError> {
        loop {
            self.skip_semicolons()?;
            let pos = self.pos()?;
            if let Some(assignment) = self.assignment()? {
                out.push(SectionsCommand::Assign(assignment));
                continue;
            }
            match self.peek(Mode::Name)? {
                Token::Punct("}") | Token::End => return Ok(()),
                Token::Word(b"INCLUDE") => {
                    self.lexer.next(Mode::Name)?;
                    self.include(&mut |inner| inner.sections(out))?;
                }
                Token::Word(b"ENTRY") => {
                    self.lexer.next(Mode::Name)?;
                    self.expect("(")?;
                    out.push(SectionsCommand::Entry(self.name(Mode::Name, "a symbol")?));
                    self.expect(")")?;
                }
                Token::Word(b"ASSERT") => {
                    self.lexer.next(Mode::Name)?;
                    out.push(SectionsCommand::Assert(self.assertion(pos)?));
                }
                Token::Word(b"OVERLAY") => {
                    self.lexer.next(Mode::Name)?;
                    out.push(SectionsCommand::Overlay(Box::new(self.overlay(pos)?)));
                }
                Token::Word(_) | Token::Quoted(_) => {
                    out.push(SectionsCommand::Section(Box::new(
                        self.output_section(pos)?,
                    )));
                }
                token => {
                    return Err(ScriptError::expected(
                        pos,
                        "an output section, an assignment or '}'",
                        &token,
                    ));
                }
            }
        }
    }

    /// `name [address] [(type)] : [attributes] { … } [>region] …`.
    fn output_section(&mut self, pos: Pos) -> Result<OutputSection, ScriptError> {
        let name = self.name(Mode::Name, "the name of an output section")?;
        let mut section = OutputSection {
            name,
            pos,
            ..OutputSection::default()
        };
        if self.peek(Mode::Name)? != Token::Punct(":") && !self.at_section_type()? {
            section.address = Some(self.expr()?);
        }
        if self.at_section_type()? {
            self.section_type(&mut section)?;
        }
        self.expect(":")?;
        loop {
            if self.take_keyword(b"AT")? {
                section.at = Some(self.bracketed_expr()?);
            } else if self.take_keyword(b"ALIGN")? {
                section.align = Some(self.bracketed_expr()?);
            } else if self.take_keyword(b"ALIGN_WITH_INPUT")? {
                section.align_with_input = true;
            } else if self.take_keyword(b"SUBALIGN")? {
                section.subalign = Some(self.bracketed_expr()?);
            } else if self.take_keyword(b"ONLY_IF_RO")? {
                section.constraint = Constraint::OnlyIfRo;
            } else if self.take_keyword(b"ONLY_IF_RW")? {
                section.constraint = Constraint::OnlyIfRw;
            } else {
                break;
            }
        }
        if section.align.is_some() && section.align_with_input {
            return Err(ScriptError::new(
                section.pos,
                "ALIGN_WITH_INPUT and ALIGN contradict each other",
            ));
        }
        self.section_body(&mut section)?;
        let tail = self.section_tail()?;
        if section.at.is_some() && tail.lma_region.is_some() {
            return Err(ScriptError::new(
                section.pos,
                "the section has both a load address and a load region",
            ));
        }
        (section.region, section.lma_region) = (tail.region, tail.lma_region);
        (section.phdrs, section.fill) = (tail.phdrs, tail.fill);
        Ok(section)
    }

    /// Whether `(NOLOAD)` or its like comes next, and not an expression in brackets.
    fn at_section_type(&self) -> Result<bool, ScriptError> {
        let mut ahead = self.lexer;
        Ok(ahead.next(Mode::Name)? == Token::Punct("(")
            && matches!(
                ahead.next(Mode::Name)?,
                Token::Word(
                    b"NOLOAD" | b"DSECT" | b"COPY" | b"INFO" | b"OVERLAY" | b"READONLY" | b"TYPE"
                ) | Token::Punct(")")
            ))
    }

    fn section_type(&mut self, section: &mut OutputSection) -> Result<(), ScriptError> {
        self.expect("(")?;
        if self.take(")")? {
            return Ok(());
        }
        let pos = self.pos()?;
        match self.lexer.next(Mode::Name)? {
            Token::Word(b"NOLOAD") => section.kind = SectionType::NoLoad,
            Token::Word(b"DSECT" | b"COPY" | b"INFO" | b"OVERLAY") => {
                section.kind = SectionType::NotAllocated
            }
            Token::Word(b"READONLY") => {
                section.readonly = true;
                // READONLY (TYPE = type)
                if self.take("(")? {
                    if !self.take_keyword(b"TYPE")? {
                        let found = self.peek(Mode::Name)?;
                        return Err(ScriptError::expected(pos, "TYPE", &found));
                    }
                    section.elf_type = Some(self.elf_type()?);
                    self.expect(")")?;
                }
            }
            Token::Word(b"TYPE") => section.elf_type = Some(self.elf_type()?),
            token => return Err(ScriptError::expected(pos, "a section type", &token)),
        }
        self.expect(")")
    }

    /// `= SHT_NOTE`, or a number.
    fn elf_type(&mut self) -> Result<Expr, ScriptError> {
        self.expect("=")?;
        let Token::Word(word) = self.peek(Mode::Expr)? else {
            return self.expr();
        };
        let value = match word {
            b"SHT_PROGBITS" => 1,
            b"SHT_STRTAB" => 3,
            b"SHT_NOTE" => 7,
            b"SHT_NOBITS" => 8,
            b"SHT_INIT_ARRAY" => 14,
            b"SHT_FINI_ARRAY" => 15,
            b"SHT_PREINIT_ARRAY" => 16,
            _ => return self.expr(),
        };
        self.lexer.next(Mode::Expr)?;
        Ok(Expr::Number(value))
    }

    /// `{ commands }`.
    fn section_body(&mut self, section: &mut OutputSection) -> Result<(), ScriptError> {
        self.expect("{")?;
        self.section_commands(&mut section.commands)?;
        self.expect("}")
    }

    fn section_commands(&mut self, out: &mut Vec<SectionCommand>) -> Result<(), ScriptError> {
        loop {
            self.skip_semicolons()?;
            let pos = self.pos()?;
            if let Some(assignment) = self.assignment()? {
                out.push(SectionCommand::Assign(assignment));
                continue;
            }
            let token = self.peek(Mode::Wild)?;
            let keyword = match token {
                Token::Word(word) => word,
                _ => b"",
            };
            let size = match keyword {
                b"BYTE" => Some(1),
                b"SHORT" => Some(2),
                b"LONG" => Some(4),
                b"QUAD" | b"SQUAD" => Some(8),
                _ => None,
            };
            if let Some(size) = size {
                self.lexer.next(Mode::Wild)?;
                let expr = self.bracketed_expr()?;
                out.push(SectionCommand::Data { size, expr, pos });
                continue;
            }
            match token {
                Token::Punct("}") | Token::End => return Ok(()),
                Token::Word(b"INCLUDE") => {
                    self.lexer.next(Mode::Wild)?;
                    self.include(&mut |inner| inner.section_commands(out))?;
                }
                Token::Word(b"ASSERT") => {
                    self.lexer.next(Mode::Wild)?;
                    out.push(SectionCommand::Assert(self.assertion(pos)?));
                }
                Token::Word(b"FILL") => {
                    self.lexer.next(Mode::Wild)?;
                    self.expect("(")?;
                    out.push(SectionCommand::Fill(self.fill()?));
                    self.expect(")")?;
                }
                Token::Word(b"ASCII" | b"ASCIZ") => {
                    self.lexer.next(Mode::Wild)?;
                    let bracketed = self.take("(")?;
                    let mut text = self.name(Mode::Name, "a string")?;
                    if bracketed {
                        self.expect(")")?;
                    }
                    if keyword == b"ASCIZ" {
                        text.push(0);
                    }
                    out.push(SectionCommand::Text(text));
                }
                Token::Word(b"CREATE_OBJECT_SYMBOLS") => {
                    self.lexer.next(Mode::Wild)?;
                    out.push(SectionCommand::CreateObjectSymbols(pos));
                }
                Token::Word(b"CONSTRUCTORS") => {
                    self.lexer.next(Mode::Wild)?;
                    out.push(SectionCommand::Constructors);
                }
                Token::Word(b"SORT" | b"SORT_BY_NAME") if self.is_sorted_constructors()? => {
                    for _ in 0..4 {
                        self.lexer.next(Mode::Wild)?;
                    }
                    out.push(SectionCommand::Constructors);
                }
                Token::Word(b"KEEP") => {
                    self.lexer.next(Mode::Wild)?;
                    self.expect("(")?;
                    let spec = self.input_spec(true)?;
                    self.expect(")")?;
                    out.push(SectionCommand::Input(spec));
                }
                Token::Word(_) | Token::Quoted(_) => {
                    out.push(SectionCommand::Input(self.input_spec(false)?))
                }
                token => {
                    return Err(ScriptError::expected(
                        pos,
                        "an input section description, an assignment or '}'",
                        &token,
                    ));
                }
            }
        }
    }

    /// `SORT_BY_NAME(CONSTRUCTORS)`.
    fn is_sorted_constructors(&self) -> Result<bool, ScriptError> {
        let mut ahead = self.lexer;
        ahead.next(Mode::Wild)?;
        Ok(ahead.next(Mode::Wild)? == Token::Punct("(")
            && ahead.next(Mode::Wild)? == Token::Word(b"CONSTRUCTORS"))
    }

    /// `EXCLUDE_FILE(…) INPUT_SECTION_FLAGS(…) SORT(file)(sections)`.
    fn input_spec(&mut self, keep: bool) -> Result<InputSpec, ScriptError> {
        let pos = self.pos()?;
        let mut exclude = Vec::new();
        let mut flags = SectionFlags::default();
        let mut file_sort = Sort::Default;
        let mut brackets = 0;
        loop {
            match self.peek(Mode::Wild)? {
                Token::Word(b"EXCLUDE_FILE") => exclude.extend(self.exclude_files()?),
                Token::Word(b"INPUT_SECTION_FLAGS") => flags = self.section_flags()?,
                Token::Word(word @ (b"SORT" | b"SORT_BY_NAME" | b"SORT_NONE" | b"REVERSE")) => {
                    let sort = match word {
                        b"SORT_NONE" => Sort::None,
                        b"REVERSE" => Sort::NameReversed,
                        _ => Sort::Name,
                    };
                    file_sort = match (file_sort, sort) {
                        (Sort::Default, sort) => sort,
                        (Sort::Name, Sort::NameReversed) | (Sort::NameReversed, Sort::Name) => {
                            Sort::NameReversed
                        }
                        _ => break,
                    };
                    self.lexer.next(Mode::Wild)?;
                    self.expect("(")?;
                    brackets += 1;
                }
                _ => break,
            }
        }
        let text = self.pattern("a file or a pattern")?;
        for _ in 0..brackets {
            self.expect(")")?;
        }
        // "You will sometimes see [COMMON] in old linker scripts. It is equivalent to *(COMMON)."
        if text == b"[COMMON]" && self.peek(Mode::Wild)? != Token::Punct("(") {
            let sections = SectionPattern {
                pattern: Pattern::new(b"COMMON"),
                exclude: Vec::new(),
                sort: Sort::Default,
            };
            let file = FilePattern::Plain(Pattern::new(b"*"));
            return Ok(InputSpec {
                keep,
                file,
                file_sort,
                exclude,
                flags,
                sections: Some(vec![sections]),
                pos,
            });
        }
        let file = file_pattern(&text);
        let mut sections = None;
        if self.take("(")? {
            let list = sections.insert(Vec::new());
            while !self.take(")")? {
                self.section_patterns(Vec::new(), list)?;
                self.take(",")?;
            }
        }
        Ok(InputSpec {
            keep,
            file,
            file_sort,
            exclude,
            flags,
            sections,
            pos,
        })
    }

    /// One element of the list of sections: `EXCLUDE_FILE(…) SORT…(pattern pattern)`. `sorts` are the sorts around it.
    fn section_patterns(
        &mut self,
        sorts: Vec<Sort>,
        out: &mut Vec<SectionPattern>,
    ) -> Result<(), ScriptError> {
        let pos = self.pos()?;
        let exclude = match self.peek(Mode::Wild)? {
            Token::Word(b"EXCLUDE_FILE") => self.exclude_files()?,
            _ => Vec::new(),
        };
        let sort = match self.peek(Mode::Wild)? {
            Token::Word(b"SORT" | b"SORT_BY_NAME") => Sort::Name,
            Token::Word(b"SORT_BY_ALIGNMENT") => Sort::Alignment,
            Token::Word(b"SORT_BY_INIT_PRIORITY") => Sort::InitPriority,
            Token::Word(b"SORT_NONE") => Sort::None,
            Token::Word(b"REVERSE") => Sort::NameReversed,
            _ => {
                let text = self.pattern("a section or a pattern")?;
                let sort = nested_sort(&sorts).ok_or_else(|| {
                    ScriptError::new(pos, "these sorts cannot be nested: only SORT_BY_NAME and SORT_BY_ALIGNMENT, or REVERSE and one of the others, once")
                })?;
                out.push(SectionPattern {
                    pattern: Pattern::new(&text),
                    exclude,
                    sort,
                });
                return Ok(());
            }
        };
        if sorts.len() == 2 {
            return Err(ScriptError::new(
                pos,
                "sorts of sections can be nested once only",
            ));
        }
        self.lexer.next(Mode::Wild)?;
        self.expect("(")?;
        let sorts = [sorts, vec![sort]].concat();
        let first = out.len();
        while !self.take(")")? {
            self.section_patterns(sorts.clone(), out)?;
            self.take(",")?;
        }
        // An exclusion before the sort holds for what is in it.
        for pattern in &mut out[first..] {
            pattern.exclude.extend(exclude.iter().cloned());
        }
        Ok(())
    }

    /// A pattern, quoted or not.
    fn pattern(&mut self, what: &str) -> Result<Name, ScriptError> {
        let pos = self.pos()?;
        match self.lexer.next(Mode::Wild)? {
            Token::Word(text) | Token::Quoted(text) => Ok(text.to_vec()),
            token => Err(ScriptError::expected(pos, what, &token)),
        }
    }

    /// `EXCLUDE_FILE(file file …)`.
    fn exclude_files(&mut self) -> Result<Vec<FilePattern>, ScriptError> {
        self.lexer.next(Mode::Wild)?;
        self.expect("(")?;
        let mut files = Vec::new();
        while !self.take(")")? {
            let text = self.pattern("a file, a pattern or ')'")?;
            files.push(file_pattern(&text));
            self.take(",")?;
        }
        Ok(files)
    }

    /// `INPUT_SECTION_FLAGS(SHF_MERGE & !SHF_WRITE & 0x10)`.
    fn section_flags(&mut self) -> Result<SectionFlags, ScriptError> {
        self.lexer.next(Mode::Wild)?;
        self.expect("(")?;
        let mut flags = SectionFlags::default();
        loop {
            let inverted = matches!(self.peek(Mode::Expr)?, Token::Punct("!"));
            if inverted {
                self.lexer.next(Mode::Expr)?;
            }
            let pos = self.pos()?;
            let bits = match self.lexer.next(Mode::Expr)? {
                Token::Word(name) => section_flag(name).ok_or_else(|| {
                    ScriptError::new(
                        pos,
                        format!("unknown section flag '{}'", String::from_utf8_lossy(name)),
                    )
                })?,
                Token::Number(text) => {
                    expr::number(text).map_err(|problem| ScriptError::new(pos, problem))?
                }
                found @ (Token::Punct(_) | Token::Quoted(_) | Token::End) => {
                    return Err(ScriptError::expected(pos, "a section flag (SHF_…)", &found));
                }
            };
            if inverted {
                flags.without |= bits
            } else {
                flags.with |= bits
            }
            if self.take(")")? {
                return Ok(flags);
            }
            expr::expect(&mut self.lexer, "&")?;
        }
    }

    /// `=0x90909090`, or the argument of `FILL`: after the `=` or `(`. Brackets around the digits mean nothing.
    fn fill(&mut self) -> Result<Fill, ScriptError> {
        let mut ahead = self.lexer;
        let mut open = 0;
        while ahead.peek(Mode::Expr)? == Token::Punct("(") {
            ahead.next(Mode::Expr)?;
            open += 1;
        }
        if let Token::Number([b'0', b'x' | b'X', digits @ ..]) = ahead.next(Mode::Expr)?
            && !digits.is_empty()
            && digits.iter().all(u8::is_ascii_hexdigit)
        {
            while open > 0 && ahead.peek(Mode::Expr)? == Token::Punct(")") {
                ahead.next(Mode::Expr)?;
                open -= 1;
            }
            let ends = || -> Result<bool, ScriptError> {
                Ok(!expr::continues(&ahead)?
                    || ahead.peek(Mode::Name)? == Token::Word(b"/DISCARD/"))
            };
            if open == 0 && ends()? {
                self.lexer = ahead;
                return Ok(Fill::Pattern(hex_bytes(digits)));
            }
        }
        Ok(Fill::Expr(self.expr()?))
    }

    /// `OVERLAY [start] : [NOCROSSREFS] [AT(lma)] { name { … } … } …`, after the keyword.
    fn overlay(&mut self, pos: Pos) -> Result<Overlay, ScriptError> {
        let mut overlay = Overlay {
            pos,
            ..Overlay::default()
        };
        if self.peek(Mode::Name)? != Token::Punct(":") {
            overlay.start = Some(self.expr()?);
        }
        self.expect(":")?;
        overlay.no_cross_refs = self.take_keyword(b"NOCROSSREFS")?;
        if self.take_keyword(b"AT")? {
            overlay.at = Some(self.bracketed_expr()?);
        }
        self.expect("{")?;
        while !self.take("}")? {
            let pos = self.pos()?;
            let name = self.name(Mode::Name, "the name of an output section")?;
            let mut section = OutputSection {
                name,
                pos,
                ..OutputSection::default()
            };
            self.section_body(&mut section)?;
            let tail = self.section_tail()?;
            if tail.region.is_some() || tail.lma_region.is_some() {
                return Err(ScriptError::new(
                    pos,
                    "sections of an OVERLAY have no regions of their own",
                ));
            }
            (section.phdrs, section.fill) = (tail.phdrs, tail.fill);
            overlay.sections.push(section);
        }
        let tail = self.section_tail()?;
        (overlay.region, overlay.lma_region) = (tail.region, tail.lma_region);
        (overlay.phdrs, overlay.fill) = (tail.phdrs, tail.fill);
        Ok(overlay)
    }

    /// `[>region] [AT>region] [:phdr …] [=fill] [,]`.
    fn section_tail(&mut self) -> Result<Tail, ScriptError> {
        let mut tail = Tail::default();
        if self.take(">")? {
            tail.region = Some(self.name(Mode::Name, "a memory region")?);
        }
        let mut ahead = self.lexer;
        if ahead.next(Mode::Name)? == Token::Word(b"AT")
            && ahead.next(Mode::Name)? == Token::Punct(">")
        {
            self.lexer = ahead;
            tail.lma_region = Some(self.name(Mode::Name, "a memory region")?);
        }
        while self.take(":")? {
            tail.phdrs.push(self.name(Mode::Name, "a program header")?);
        }
        if self.take("=")? {
            tail.fill = Some(self.fill()?);
        }
        self.take(",")?;
        Ok(tail)
    }
}

/// What may follow the braces of an output section.
#[derive(Default)]
struct Tail {
    region: Option<Name>,
    lma_region: Option<Name>,
    phdrs: Vec<Name>,
    fill: Option<Fill>,
}

/// Takes `archive:file` apart.
fn file_pattern(text: &[u8]) -> FilePattern {
    let part = |text: &[u8]| (!text.is_empty()).then(|| Pattern::new(text));
    match memchr::memchr(b':', text) {
        Some(colon) => FilePattern::InArchive {
            archive: part(&text[..colon]),
            file: part(&text[colon + 1..]),
        },
        None => FilePattern::Plain(Pattern::new(text)),
    }
}

/// The sorts around a pattern, from the outside in, as one.
fn nested_sort(sorts: &[Sort]) -> Option<Sort> {
    Some(match sorts {
        [] => Sort::Default,
        [sort] => *sort,
        [Sort::Name, Sort::Name] => Sort::Name,
        [Sort::Alignment, Sort::Alignment] => Sort::Alignment,
        [Sort::Name, Sort::Alignment] => Sort::NameAlignment,
        [Sort::Alignment, Sort::Name] => Sort::AlignmentName,
        [Sort::Name, Sort::NameReversed] | [Sort::NameReversed, Sort::Name] => Sort::NameReversed,
        [Sort::InitPriority, Sort::NameReversed] | [Sort::NameReversed, Sort::InitPriority] => {
            Sort::InitPriorityReversed
        }
        _ => return None,
    })
}

/// `SHF_*` (gABI, "Section Header").
fn section_flag(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"SHF_WRITE" => 0x1,
        b"SHF_ALLOC" => 0x2,
        b"SHF_EXECINSTR" => 0x4,
        b"SHF_MERGE" => 0x10,
        b"SHF_STRINGS" => 0x20,
        b"SHF_INFO_LINK" => 0x40,
        b"SHF_LINK_ORDER" => 0x80,
        b"SHF_OS_NONCONFORMING" => 0x100,
        b"SHF_GROUP" => 0x200,
        b"SHF_TLS" => 0x400,
        b"SHF_COMPRESSED" => 0x800,
        b"SHF_EXCLUDE" => 0x8000_0000,
        _ => return None,
    })
}

/// Hexadecimal digits as bytes; an odd number of digits has a zero before it.
fn hex_bytes(digits: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default() as u8;
    let (first, rest) = digits.split_at(digits.len() % 2);
    first
        .iter()
        .map(digit)
        .chain(
            rest.chunks_exact(2)
                .map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])),
        )
        .collect()
}
