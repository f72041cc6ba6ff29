//! The table of options: spelling, argument, help.
//!
//! Names of one letter are short options (`-o FILE`, `-oFILE`); longer names may be written with one dash or two,
//! except that names beginning with `o` need two (GNU ld's manual: `-omagic` is `-o magic`). [`SPECS`] is
//! in the order in which `--help` shows it; [`IGNORED`] and [`UNSUPPORTED`] are tables of their own.

/// What follows an option's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// A value: joined by `=` (long), joined directly (short), or the next word. The text names it in the help.
    Value(&'static str),
    /// A value joined by `=`, or none.
    Optional(&'static str),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// What it does.
    pub id: Id,
    /// Its names without dashes; the first is the one that messages use.
    pub names: &'static [&'static str],
    /// Its argument.
    pub takes: Takes,
    /// Its line in `--help`.
    pub help: &'static str,
}

/// Keywords of `-z` that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Keywords {
    /// As they are written, with the values that they take.
    pub spelled: &'static [&'static str],
    /// Their line in `--help`.
    pub help: &'static str,
}

/// An option that is accepted and does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Ignored {
    /// Its names without dashes.
    pub names: &'static [&'static str],
    /// Its argument.
    pub takes: Takes,
    /// Why nothing is lost.
    pub why: &'static str,
}

/// An option that would change the output, and is not implemented.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// Its names without dashes.
    pub names: &'static [&'static str],
    /// Its argument.
    pub takes: Takes,
    /// What it would need.
    pub reason: &'static str,
}

macro_rules! options {
    ($($section:literal { $($id:ident [$($name:literal),+] $takes:expr, $help:literal;)* })*) => {
        /// The options that we obey.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each is told by its line of help")]
        pub enum Id { $($($id,)*)* }

        /// All options that we obey, by section of the help.
        pub const SPECS: &[(&str, &[Spec])] = &[$(($section, &[
            $(Spec { id: Id::$id, names: &[$($name),+], takes: $takes, help: $help },)*
        ]),)*];
    };
}

use Takes::{Nothing, Optional, Value};

options! {
    "Output" {
        Output ["o", "output"] Value("FILE"), "write the output to FILE (default a.out)";
        Shared ["shared", "Bshareable"] Nothing, "make a shared object";
        Pie ["pie", "pic-executable"] Nothing, "make a position-independent executable";
        NoPie ["no-pie"] Nothing, "make an executable at a fixed address (default)";
        Static ["static"] Nothing, "make a static executable; look for archives only";
        Relocatable ["r", "i", "relocatable", "Ur"] Nothing, "make a relocatable object";
        ForceGroupAllocation ["force-group-allocation"] Nothing, "dissolve section groups in it";
        EmitRelocs ["q", "emit-relocs"] Nothing, "keep relocations in the output";
        StripAll ["s", "strip-all"] Nothing, "leave out the symbol table and debug sections";
        StripDebug ["S", "strip-debug"] Nothing, "leave out debug sections";
        DiscardAll ["x", "discard-all"] Nothing, "leave out all local symbols";
        DiscardLocals ["X", "discard-locals"] Nothing, "leave out temporary local symbols (.L…)";
        DiscardNone ["discard-none"] Nothing, "keep all local symbols";
        RetainSymbolsFile ["retain-symbols-file"] Value("FILE"), "keep only the symbols listed in FILE";
        OFormat ["oformat"] Value("FORMAT"), "output format: elf64-x86-64 or binary";
        LittleEndian ["EL"] Nothing, "the little-endian format of a script's OUTPUT_FORMAT (x86-64's own, and the default)";
        BigEndian ["EB"] Nothing, "its big-endian format, which must be x86-64's all the same: there is no other here";
        NoinhibitExec ["noinhibit-exec"] Nothing, "keep the output in spite of errors";
    }
    "Inputs" {
        Library ["l", "library"] Value("NAME"), "link libNAME.so or libNAME.a; :FILE for exactly FILE";
        LibraryPath ["L", "library-path"] Value("DIR"), "look for libraries in DIR; a leading = is the sysroot";
        Sysroot ["sysroot"] Value("DIR"), "take the target's libraries from below DIR";
        Nostdlib ["nostdlib"] Nothing, "look for libraries in -L directories only";
        Bstatic ["Bstatic", "dn", "non_shared"] Nothing, "look for archives only, for -l that follow";
        Bdynamic ["Bdynamic", "dy", "call_shared"] Nothing, "look for shared objects too, for -l that follow";
        AsNeeded ["as-needed"] Nothing, "DT_NEEDED only for shared objects that are used, for those that follow";
        NoAsNeeded ["no-as-needed"] Nothing, "always DT_NEEDED (default)";
        WholeArchive ["whole-archive"] Nothing, "link all members of archives that follow";
        NoWholeArchive ["no-whole-archive"] Nothing, "link members that are needed (default)";
        StartGroup ["start-group", "("] Nothing, "begin a group: its archives are searched again and again";
        EndGroup ["end-group", ")"] Nothing, "end the group";
        StartLib ["start-lib"] Nothing, "treat objects that follow as members of an archive";
        EndLib ["end-lib"] Nothing, "end --start-lib";
        PushState ["push-state"] Nothing, "save --as-needed, --whole-archive, -Bstatic and their like";
        PopState ["pop-state"] Nothing, "restore them";
        Format ["b", "format"] Value("FORMAT"), "format of inputs that follow: elf64-x86-64, default or binary";
        JustSymbols ["R", "just-symbols"] Value("FILE"), "take only FILE's symbols; a directory is added to -rpath";
        RemapInputs ["remap-inputs"] Value("PATTERN=FILE"), "read FILE for inputs whose path PATTERN matches; /dev/null: none";
        RemapInputsFile ["remap-inputs-file"] Value("FILE"), "the same, by the lines of FILE";
        Script ["T", "script"] Value("FILE"), "lay out the output by the linker script FILE";
        SectionOrderingFile ["section-ordering-file"] Value("FILE"), "input sections that begin the output sections of the layout";
        DefaultScript ["dT", "default-script"] Value("FILE"), "a linker script for when there is no -T";
        Emulation ["m"] Value("EMULATION"), "elf_x86_64; for others, another linker of the system is run";
        CopyDtNeeded ["copy-dt-needed-entries", "add-needed"] Nothing, "resolve through DT_NEEDED of shared objects too";
        NoCopyDtNeeded ["no-copy-dt-needed-entries", "no-add-needed"] Nothing, "name each library oneself (default)";
        Plugin ["plugin"] Value("FILE"), "load a linker plugin, as gcc does for LTO";
        PluginOpt ["plugin-opt"] Value("ARG"), "pass ARG to the plugin";
        Mllvm ["mllvm"] Value("ARG"), "pass ARG to LLVM's LTO plugin";
    }
    "Symbols" {
        Entry ["e", "entry"] Value("SYMBOL"), "where the program starts (default _start)";
        Undefined ["u", "undefined"] Value("SYMBOL"), "begin with an undefined SYMBOL, so that archives are searched for it";
        UndefinedGlob ["undefined-glob"] Value("PATTERN"), "the same, for all symbols that match";
        RequireDefined ["require-defined"] Value("SYMBOL"), "as -u, and fail if nothing defines it";
        Defsym ["defsym"] Value("SYMBOL=EXPR"), "define SYMBOL";
        Wrap ["wrap"] Value("SYMBOL"), "SYMBOL becomes __wrap_SYMBOL, __real_SYMBOL becomes SYMBOL";
        Init ["init"] Value("SYMBOL"), "the function for DT_INIT (default _init)";
        Fini ["fini"] Value("SYMBOL"), "the function for DT_FINI (default _fini)";
        NoUndefined ["no-undefined"] Nothing, "unresolved symbols are errors, in a shared object too";
        UnresolvedSymbols ["unresolved-symbols"] Value("HOW"), "ignore-all, report-all, ignore-in-object-files, ignore-in-shared-libs";
        WarnUnresolved ["warn-unresolved-symbols"] Nothing, "unresolved symbols are warnings";
        ErrorUnresolved ["error-unresolved-symbols"] Nothing, "unresolved symbols are errors (default)";
        IgnoreUnresolved ["ignore-unresolved-symbol"] Value("SYMBOL"), "an unresolved SYMBOL is no error";
        AllowShlibUndefined ["allow-shlib-undefined"] Nothing, "ignore unresolved symbols of shared inputs";
        NoAllowShlibUndefined ["no-allow-shlib-undefined"] Nothing, "report unresolved symbols of shared inputs";
        AllowMultiple ["allow-multiple-definition"] Nothing, "the first of several definitions wins";
        NoAllowMultiple ["no-allow-multiple-definition"] Nothing, "several definitions are an error (default)";
        WarnCommon ["warn-common"] Nothing, "warn where common symbols meet";
        NoWarnCommon ["no-warn-common"] Nothing, "do not (default)";
        WarnOnce ["warn-once"] Nothing, "warn once for each undefined symbol";
        DefineCommon ["d", "dc", "dp", "define-common"] Nothing, "give common symbols an address even with -r";
        Symbolic ["Bsymbolic"] Nothing, "bind a shared object's references to its own symbols";
        SymbolicFunctions ["Bsymbolic-functions"] Nothing, "the same, for functions";
        SymbolicNonWeak ["Bsymbolic-non-weak"] Nothing, "the same, for symbols that are not weak";
        SymbolicNonWeakFunctions ["Bsymbolic-non-weak-functions"] Nothing, "the same, for functions that are not weak";
        NoSymbolic ["Bno-symbolic"] Nothing, "leave all of them to the dynamic linker (default)";
    }
    "Dynamic linking" {
        DynamicLinker ["I", "dynamic-linker"] Value("FILE"), "the program interpreter";
        NoDynamicLinker ["no-dynamic-linker"] Nothing, "an executable without program interpreter";
        Soname ["h", "soname"] Value("NAME"), "set DT_SONAME";
        Rpath ["rpath"] Value("DIRS"), "add to DT_RUNPATH (DT_RPATH with --disable-new-dtags)";
        RpathLink ["rpath-link"] Value("DIRS"), "where to look for what shared inputs need";
        EnableNewDtags ["enable-new-dtags"] Nothing, "DT_RUNPATH (default)";
        DisableNewDtags ["disable-new-dtags"] Nothing, "DT_RPATH";
        ExportDynamic ["E", "export-dynamic"] Nothing, "export all symbols of an executable";
        NoExportDynamic ["no-export-dynamic"] Nothing, "do not (default)";
        ExportDynamicSymbol ["export-dynamic-symbol"] Value("PATTERN"), "export symbols that match";
        ExportDynamicSymbolList ["export-dynamic-symbol-list"] Value("FILE"), "export the symbols listed in FILE";
        DynamicList ["dynamic-list"] Value("FILE"), "symbols that can be preempted (shared) or are exported (executable)";
        DynamicListData ["dynamic-list-data"] Nothing, "add all data symbols to the dynamic list";
        DynamicListCppNew ["dynamic-list-cpp-new"] Nothing, "add operator new and delete";
        DynamicListCppTypeinfo ["dynamic-list-cpp-typeinfo"] Nothing, "add typeinfo";
        VersionScript ["version-script"] Value("FILE"), "versions and visibility by FILE";
        UndefinedVersion ["undefined-version"] Nothing, "a version script may name undefined symbols (default)";
        NoUndefinedVersion ["no-undefined-version"] Nothing, "it may not";
        DefaultSymver ["default-symver"] Nothing, "symbols get the soname as their version";
        ExcludeLibs ["exclude-libs"] Value("LIB,LIB…"), "do not export what comes from these archives; ALL for all";
        HashStyle ["hash-style"] Value("STYLE"), "sysv, gnu or both";
        Audit ["audit"] Value("LIB"), "set DT_AUDIT";
        DepAudit ["P", "depaudit"] Value("LIB"), "set DT_DEPAUDIT";
        Auxiliary ["f", "auxiliary"] Value("NAME"), "set DT_AUXILIARY";
        Filter ["F", "filter"] Value("NAME"), "set DT_FILTER";
        AndroidRelrTags ["use-android-relr-tags"] Nothing, "use Android's tags for DT_RELR";
        NoAndroidRelrTags ["no-use-android-relr-tags"] Nothing, "do not (default)";
        PackDynRelocs ["pack-dyn-relocs"] Value("HOW"), "none or relr";
        SpareDynamicTags ["spare-dynamic-tags"] Value("N"), "leave N empty entries in .dynamic";
        Bgroup ["Bgroup"] Nothing, "look names up in this object's own group first (DF_1_GROUP)";
    }
    "Sections and layout" {
        GcSections ["gc-sections"] Nothing, "leave out what nothing reaches";
        NoGcSections ["no-gc-sections"] Nothing, "keep all sections of objects (default)";
        PrintGcSections ["print-gc-sections"] Nothing, "say what was left out";
        NoPrintGcSections ["no-print-gc-sections"] Nothing, "do not (default)";
        GcKeepExported ["gc-keep-exported"] Nothing, "with --gc-sections, keep what could be exported";
        Icf ["icf"] Value("MODE"), "fold identical functions: none, safe or all";
        NoIcf ["no-icf"] Nothing, "do not (default)";
        IcfThunks ["icf-thunks"] Nothing, "with --icf, leave a jump in place of functions whose address is significant";
        NoIcfThunks ["no-icf-thunks"] Nothing, "leave them as they are, or with --icf=all fold them too (default)";
        PrintIcfSections ["print-icf-sections"] Nothing, "say what was folded";
        NoPrintIcfSections ["no-print-icf-sections"] Nothing, "do not (default)";
        IgnoreDataAddressEquality ["ignore-data-address-equality"] Nothing, "fold identical read-only data too";
        Relax ["relax"] Nothing, "relax instruction sequences (default)";
        NoRelax ["no-relax"] Nothing, "do not";
        EhFrameHdr ["eh-frame-hdr"] Nothing, "make .eh_frame_hdr";
        NoEhFrameHdr ["no-eh-frame-hdr"] Nothing, "do not (default)";
        DiscardSframe ["discard-sframe"] Nothing, "leave .sframe (stack traces) out of the output";
        Gnu2TlsTag ["gnu2-tls-tag"] Nothing, "TLS descriptors need a glibc with GLIBC_ABI_GNU2_TLS (default if this one is)";
        NoGnu2TlsTag ["no-gnu2-tls-tag"] Nothing, "they do not";
        BuildId ["build-id"] Optional("STYLE"), "make a build id: fast, sha1, md5, sha256, uuid, 0xHEX or none";
        NoBuildId ["no-build-id"] Nothing, "do not";
        CompressDebug ["compress-debug-sections"] Value("HOW"), "none, zlib, zlib-gnu or zstd";
        GdbIndex ["gdb-index"] Nothing, "make .gdb_index";
        NoGdbIndex ["no-gdb-index"] Nothing, "do not (default)";
        PackageMetadata ["package-metadata"] Optional("JSON"), "make a .note.package";
        ImageBase ["image-base"] Value("ADDRESS"), "the address of the first segment";
        Ttext ["Ttext"] Value("ADDRESS"), "the address of .text";
        Tdata ["Tdata"] Value("ADDRESS"), "the address of .data";
        Tbss ["Tbss"] Value("ADDRESS"), "the address of .bss";
        TtextSegment ["Ttext-segment"] Value("ADDRESS"), "the address of the text segment";
        TrodataSegment ["Trodata-segment"] Value("ADDRESS"), "the address of the read-only segment";
        SectionStart ["section-start"] Value("SECTION=ADDRESS"), "the address of a section";
        Rosegment ["rosegment"] Nothing, "read-only data apart from code (default)";
        NoRosegment ["no-rosegment"] Nothing, "together";
        Nmagic ["n", "nmagic"] Nothing, "do not align segments in the file";
        NoNmagic ["no-nmagic"] Nothing, "do (default)";
        Omagic ["N", "omagic"] Nothing, "one segment, writable, not aligned";
        NoOmagic ["no-omagic"] Nothing, "do not (default)";
        OrphanHandling ["orphan-handling"] Value("HOW"), "sections that no script places: place, warn, error or discard";
        SortSection ["sort-section"] Value("HOW"), "name or alignment, where a linker script does not say";
        Unique ["unique"] Optional("PATTERN"), "do not merge input sections that match";
        CheckSections ["check-sections"] Nothing, "overlapping sections are an error (default)";
        NoCheckSections ["no-check-sections"] Nothing, "they are not";
        StripDiscarded ["strip-discarded"] Nothing, "leave out symbols of discarded sections (default)";
        NoStripDiscarded ["no-strip-discarded"] Nothing, "keep them, undefined";
        Z ["z"] Value("KEYWORD"), "see below";
    }
    "Messages and reports" {
        Help ["help"] Nothing, "print this";
        TargetHelp ["target-help"] Nothing, "print this";
        Version ["version"] Nothing, "print the version and stop";
        VersionAndGo ["v"] Nothing, "print the version and go on";
        Emulations ["V"] Nothing, "print the version and the emulations";
        FatalWarnings ["fatal-warnings"] Nothing, "warnings are errors";
        NoFatalWarnings ["no-fatal-warnings"] Nothing, "they are not (default)";
        NoWarnings ["w", "no-warnings"] Nothing, "no warnings";
        Demangle ["demangle"] Optional("STYLE"), "show C++ and Rust names as they are written (default)";
        NoDemangle ["no-demangle"] Nothing, "show names as they are in the file";
        Color ["color-diagnostics"] Optional("WHEN"), "auto, always or never";
        NoColor ["no-color-diagnostics"] Nothing, "never";
        ErrorLimit ["error-limit"] Value("N"), "show at most N errors (default 20; 0 for all)";
        WarnExecstack ["warn-execstack"] Nothing, "warn about an executable stack, also by -z execstack";
        WarnExecstackObjects ["warn-execstack-objects"] Nothing, "warn about objects that ask for an executable stack (default)";
        NoWarnExecstack ["no-warn-execstack"] Nothing, "do not";
        ErrorExecstack ["error-execstack"] Nothing, "such a warning is an error";
        NoErrorExecstack ["no-error-execstack"] Nothing, "it is not (default)";
        NoWarnSearchMismatch ["no-warn-search-mismatch"] Nothing, "say nothing of libraries of another machine that -l passes over";
        WarnTextrel ["warn-textrel", "warn-shared-textrel"] Nothing, "text relocations are a warning";
        WarnRwx ["warn-rwx-segments"] Nothing, "warn about segments that are writable and executable (default)";
        NoWarnRwx ["no-warn-rwx-segments"] Nothing, "do not";
        ErrorRwx ["error-rwx-segments"] Nothing, "segments that are writable and executable are an error";
        NoErrorRwx ["no-error-rwx-segments"] Nothing, "they are not (default)";
        WarnSectionAlign ["warn-section-align"] Nothing, "warn if alignment moves a section";
        NoWarnMismatch ["no-warn-mismatch"] Nothing, "say nothing about mismatched inputs";
        PrintMap ["M", "print-map"] Nothing, "print a map of the output";
        Map ["Map"] Value("FILE"), "write the map to FILE";
        Cref ["cref"] Nothing, "add a cross reference table to the map";
        Trace ["t", "trace"] Nothing, "name each input; twice: archive members too";
        TraceSymbol ["y", "trace-symbol"] Value("SYMBOL"), "say where SYMBOL is mentioned";
        DependencyFile ["dependency-file"] Value("FILE"), "write the inputs as a make rule";
        Verbose ["verbose", "dll-verbose"] Optional("LEVEL"), "say what is done";
        Stats ["stats"] Optional("FILE"), "print figures at the end, or write them to FILE (- is standard output, +FILE appends)";
        NoStats ["no-stats"] Nothing, "do not (default)";
        PrintMemoryUsage ["print-memory-usage"] Nothing, "print how full the script's MEMORY regions are";
        PrintOutputFormat ["print-output-format"] Nothing, "print the output format and stop";
        PrintSysroot ["print-sysroot"] Nothing, "print the sysroot and stop";
    }
    "Only in repo-ld" {
        Repo ["repo"] Value("FILE"), "the program repository, whoever owns it (default: what the tickets name)";
        Remake ["remake"] Nothing, "make tickets whose repository is lost again, by the commands that made them (default)";
        NoRemake ["no-remake"] Nothing, "do not; they are an error";
        Log ["log"] Value("FILE"), "append a line that says how this link went (default $REPO_LOG)";
        PrintTiming ["print-timing"] Optional("FORM"), "print the time of each phase, as table (default) or json";
        Progress ["progress"] Value("WHEN"), "show the progress: always, never, or auto (a second on a terminal; default)";
        NoProgress ["no-progress"] Nothing, "as --progress=never";
        Incremental ["incremental"] Nothing, "change only what was edited since the last link (default with a repository)";
        IncrementalFull ["incremental-full"] Nothing, "the same, but link in full this time";
        NoIncremental ["no-incremental"] Nothing, "keep nothing for the next link, and link in full";
        VerifyIncremental ["verify-incremental"] Nothing, "with --incremental, write every object's part again afterwards and compare";
        Threads ["threads", "thread-count"] Optional("N"), "use at most N threads (default: all processors)";
        NoThreads ["no-threads"] Nothing, "use one thread";
        Fork ["fork"] Nothing, "return when the output is complete, before the memory is free again (default)";
        NoFork ["no-fork"] Nothing, "return when the memory is free again";
        Optimize ["O"] Value("LEVEL"), "0 to 2: how hard to try to make tables and strings small (default 1)";
    }
}

macro_rules! keywords {
    ($($spelled:literal),+ => $help:literal) => {
        Keywords { spelled: &[$($spelled),+], help: $help }
    };
}

/// The keywords of `-z`, but for those of other machines and those that change nothing.
pub const Z_KEYWORDS: &[Keywords] = &[
    keywords!("now", "lazy" => "bind all symbols at start, or when first called (default)"),
    keywords!("relro", "norelro" => "make what is constant after relocation read-only (default), or not"),
    keywords!("defs", "undefs" => "unresolved symbols are errors, or not"),
    keywords!("text", "notext", "textoff" => "relocations in read-only segments are errors, or allowed (default: a warning)"),
    keywords!("execstack", "noexecstack" => "whether the stack is executable (default: by the inputs)"),
    keywords!("execstack-if-needed" => "no error if an input asks for an executable stack"),
    keywords!("gnustack", "nognustack" => "a PT_GNU_STACK (default), or none"),
    keywords!("stack-size=N" => "the size of the main thread's stack"),
    keywords!("max-page-size=N", "common-page-size=N" => "page sizes to lay out for (default 4096)"),
    keywords!("separate-code", "noseparate-code", "separate-loadable-segments" => "which segments share no page (default separate-code)"),
    keywords!("muldefs" => "the first of several definitions wins"),
    keywords!("pack-relative-relocs", "nopack-relative-relocs" => "pack relative relocations (DT_RELR), or not (default)"),
    keywords!("origin", "nodelete", "nodlopen", "nodump", "nodefaultlib" => "flags of the output for the dynamic linker"),
    keywords!("initfirst", "interpose", "global", "globalaudit", "loadfltr", "unique", "nounique" => "further ones"),
    keywords!("ibt", "force-ibt", "shstk", "ibtplt", "cet-report=none|warning|error" => "control-flow protection: properties of the output, and its PLT"),
    keywords!("rewrite-endbr", "norewrite-endbr" => "known; not done, with a warning"),
    keywords!("x86-64-baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4" => "the instruction set that the output needs"),
    keywords!("isa-level-report=none|all|needed|used" => "tell which instruction sets the inputs need and use"),
    keywords!("lam-u48", "lam-u57", "lam-report=REPORT", "lam-u48-report=REPORT", "lam-u57-report=REPORT"
        => "masked addresses: properties of the output; REPORT is none, warning or error"),
    keywords!("start-stop-gc", "nostart-stop-gc", "start-stop-visibility=default|protected|hidden|internal"
        => "how __start_SECTION and __stop_SECTION behave"),
    keywords!("dynamic-undefined-weak", "nodynamic-undefined-weak" => "leave undefined weak symbols to the dynamic linker, or not"),
    keywords!("copyreloc", "nocopyreloc" => "allow copy relocations (default), or not"),
    keywords!("extern-protected-data", "noextern-protected-data" => "allow them for protected data, or not (default)"),
    keywords!("indirect-extern-access", "noindirect-extern-access" => "a property: what others define is reached by the GOT only, or not"),
    keywords!("combreloc", "nocombreloc" => "sort dynamic relocations (default), or not"),
    keywords!("report-relative-reloc" => "name the relative relocations that are made"),
    keywords!("noreloc-overflow" => "do not check that relocated values fit"),
    keywords!("dead-reloc-in-nonalloc=PATTERN=N" => "what references to discarded sections become in sections that match"),
    keywords!("mark-plt", "nomark-plt" => "tell the dynamic linker where the PLT is, or not (default)"),
    keywords!("memory-seal", "nomemory-seal" => "ask the dynamic linker to seal the segments, or not (default)"),
    keywords!("keep-text-section-prefix", "nokeep-text-section-prefix" => "keep .text.hot and its like apart, or not (default)"),
    keywords!("sectionheader", "nosectionheader" => "a section header table (default), or none"),
    keywords!("rodynamic" => "make .dynamic read-only"),
    keywords!("unique-symbol", "nounique-symbol" => "give local symbols of one name different names, or not (default)"),
    keywords!("common", "nocommon" => "with -r, common symbols are STT_COMMON, or STT_OBJECT (default)"),
];

/// Options that are accepted and do nothing, each with the reason.
pub const IGNORED: &[Ignored] = &[
    Ignored {
        names: &["a"],
        takes: Value("KEYWORD"),
        why: "HP/UX compatibility; GNU ld documents it as such",
    },
    Ignored {
        names: &["g"],
        takes: Nothing,
        why: "GNU ld: ignored, for compatibility with other tools",
    },
    Ignored {
        names: &["Qy", "qmagic"],
        takes: Nothing,
        why: "GNU ld: ignored, for SVR4 and old Linux",
    },
    Ignored {
        names: &["assert"],
        takes: Value("KEYWORD"),
        why: "GNU ld: ignored, for SunOS",
    },
    Ignored {
        names: &["G", "gpsize"],
        takes: Value("SIZE"),
        why: "small-data size of MIPS and Alpha; x86-64 has no such area",
    },
    Ignored {
        names: &["Y"],
        takes: Value("PATH"),
        why: "Solaris's default search path",
    },
    Ignored {
        names: &["flto", "flto-partition"],
        takes: Optional("X"),
        why: "the compiler driver's, GNU ld ignores it",
    },
    Ignored {
        names: &["fuse-ld"],
        takes: Value("X"),
        why: "the compiler driver's, GNU ld ignores it",
    },
    Ignored {
        names: &[
            "keep-memory",
            "no-keep-memory",
            "reduce-memory-overheads",
            "map-whole-files",
            "no-map-whole-files",
            "mmap-output-file",
            "no-mmap-output-file",
        ],
        takes: Nothing,
        why: "memory strategy of other linkers: files are mapped here",
    },
    Ignored {
        names: &["max-cache-size", "hash-size"],
        takes: Value("N"),
        why: "memory strategy of GNU ld",
    },
    Ignored {
        names: &[
            "hash-bucket-empty-fraction",
            "sort-common",
            "compress-debug-sections-level",
        ],
        takes: Optional("X"),
        why: "tuning without effect on meaning",
    },
    Ignored {
        names: &["traditional-format"],
        takes: Nothing,
        why: "concerns a.out",
    },
    Ignored {
        names: &["force-exe-suffix"],
        takes: Nothing,
        why: "GNU ld: no effect off Windows",
    },
    Ignored {
        names: &["warn-constructors", "warn-multiple-gp"],
        takes: Nothing,
        why: "never happens in ELF for x86-64",
    },
    Ignored {
        names: &["warn-alternate-em"],
        takes: Nothing,
        why: "objects of another machine are always refused",
    },
    Ignored {
        names: &["accept-unknown-input-arch", "no-accept-unknown-input-arch"],
        takes: Nothing,
        why: "the input's machine is always known",
    },
    Ignored {
        names: &["gnu-tls-tag", "no-gnu-tls-tag"],
        takes: Nothing,
        why: "concerns i386",
    },
    Ignored {
        names: &["link-mapless", "no-link-mapless"],
        takes: Nothing,
        why: "archives need no index",
    },
    Ignored {
        names: &["disable-multiple-abs-defs"],
        takes: Nothing,
        why: "only tightens a check on -R files",
    },
    Ignored {
        names: &["print-map-discarded", "no-print-map-discarded"],
        takes: Nothing,
        why: "a detail of the map",
    },
    Ignored {
        names: &["print-map-locals", "no-print-map-locals"],
        takes: Nothing,
        why: "a detail of the map",
    },
    Ignored {
        names: &["ld-generated-unwind-info"],
        takes: Nothing,
        why: "unwind information for the PLT is ours to decide",
    },
    Ignored {
        names: &["no-ld-generated-unwind-info"],
        takes: Nothing,
        why: "unwind information for the PLT",
    },
    Ignored {
        names: &["ctf-variables", "no-ctf-variables"],
        takes: Nothing,
        why: "CTF is carried, not merged",
    },
    Ignored {
        names: &["ctf-share-types"],
        takes: Value("METHOD"),
        why: "CTF is carried, not merged",
    },
    Ignored {
        names: &["preread-archive-symbols", "quick-exit", "no-quick-exit"],
        takes: Nothing,
        why: "how another linker works inside",
    },
    Ignored {
        names: &[
            "lto-O",
            "lto-CGO",
            "lto-partitions",
            "thinlto-jobs",
            "thinlto-cache-dir",
            "thinlto-cache-policy",
            "lto-jobs",
        ],
        takes: Value("X"),
        why: "concerns LTO code generation, which is done by plugins",
    },
    Ignored {
        names: &["plugin-save-temps"],
        takes: Nothing,
        why: "temporary files of the plugin",
    },
    Ignored {
        names: &["enable-linker-version", "disable-linker-version"],
        takes: Nothing,
        why: "whether .comment names the linker",
    },
    Ignored {
        names: &[
            "warn-backrefs",
            "no-warn-backrefs",
            "warn-ifunc-textrel",
            "no-warn-ifunc-textrel",
            "warn-symbol-ordering",
            "no-warn-symbol-ordering",
        ],
        takes: Nothing,
        why: "warnings of lld about what is no error",
    },
    Ignored {
        names: &["warn-backrefs-exclude"],
        takes: Value("PATTERN"),
        why: "a warning of lld about what is no error",
    },
    Ignored {
        names: &["why-extract", "print-archive-stats", "print-symbol-order"],
        takes: Value("FILE"),
        why: "reports of lld",
    },
    Ignored {
        names: &["time-trace"],
        takes: Optional("FILE"),
        why: "a report of lld; --print-timing is ours",
    },
    Ignored {
        names: &["time-trace-granularity"],
        takes: Value("N"),
        why: "a report of lld; --print-timing is ours",
    },
    Ignored {
        names: &[
            "optimize-bb-jumps",
            "no-optimize-bb-jumps",
            "no-call-graph-profile-sort",
        ],
        takes: Nothing,
        why: "order and length of code, not what it does",
    },
    Ignored {
        names: &["call-graph-profile-sort"],
        takes: Optional("HOW"),
        why: "order of code, not what it does",
    },
    Ignored {
        names: &["ctors-in-init-array", "no-ctors-in-init-array"],
        takes: Nothing,
        why: "gold's: .ctors is never put into .init_array, as with GNU ld",
    },
    Ignored {
        names: &["long-plt", "secure-plt"],
        takes: Nothing,
        why: "forms of PLT entries of ARM and PowerPC",
    },
    Ignored {
        names: &["fortran-common", "gnu-unique", "no-apply-dynamic-relocs"],
        takes: Nothing,
        why: "lld's names for what is always so here",
    },
    Ignored {
        names: &["no-dependent-libraries"],
        takes: Nothing,
        why: "libraries that objects name are not looked for, as with GNU ld",
    },
    Ignored {
        names: &[
            "no-debug-names",
            "no-execute-only",
            "no-lto-basic-block-address-map",
            "no-lto-pgo-warn-mismatch",
            "no-lto-unique-basic-block-section-names",
            "no-lto-validate-all-vtables-have-type-infos",
            "no-lto-whole-program-visibility",
        ],
        takes: Nothing,
        why: "what lld does by default, and what is always so here",
    },
    Ignored {
        names: &["ignore-function-address-equality"],
        takes: Nothing,
        why: "allows what is not made use of",
    },
    Ignored {
        names: &["fat-lto-objects", "no-fat-lto-objects"],
        takes: Nothing,
        why: "the machine code of such objects is linked, or what a plugin makes of them",
    },
    Ignored {
        names: &[
            "lto",
            "lto-aa-pipeline",
            "lto-cs-profile-file",
            "lto-known-safe-vtables",
            "lto-newpm-passes",
            "lto-sample-profile",
            "lto-basic-block-sections",
        ],
        takes: Value("X"),
        why: "concerns LTO code generation, which is done by plugins",
    },
    Ignored {
        names: &[
            "lto-cs-profile-generate",
            "lto-debug-pass-manager",
            "lto-basic-block-address-map",
            "lto-pgo-warn-mismatch",
            "lto-unique-basic-block-section-names",
            "lto-validate-all-vtables-have-type-infos",
            "lto-whole-program-visibility",
        ],
        takes: Nothing,
        why: "concerns LTO code generation, which is done by plugins",
    },
    Ignored {
        names: &["save-temps"],
        takes: Optional("WHAT"),
        why: "temporary files of LTO, which are the plugin's",
    },
    Ignored {
        names: &[
            "opt-remarks-filename",
            "opt-remarks-format",
            "opt-remarks-hotness-threshold",
            "opt-remarks-passes",
        ],
        takes: Value("X"),
        why: "reports of LTO code generation, which is done by plugins",
    },
    Ignored {
        names: &["opt-remarks-with-hotness"],
        takes: Nothing,
        why: "reports of LTO code generation, which is done by plugins",
    },
    Ignored {
        names: &["vs-diagnostics"],
        takes: Nothing,
        why: "another form of messages",
    },
];

/// Options that ask for an order of functions that is faster to run. The program is as right without it, so they are
/// answered by a warning.
pub const HINTS: &[Ignored] = &[
    Ignored {
        names: &["symbol-ordering-file"],
        takes: Value("FILE"),
        why: "functions are not ordered by a file",
    },
    Ignored {
        names: &["call-graph-ordering-file"],
        takes: Value("FILE"),
        why: "functions are not ordered by their calls",
    },
];

/// Options that change the output and are not implemented.
pub const UNSUPPORTED: &[Missing] = &[
    Missing {
        names: &["A", "architecture"],
        takes: Value("ARCH"),
        reason: "other machines",
    },
    Missing {
        names: &["c", "mri-script"],
        takes: Value("FILE"),
        reason: "MRI scripts",
    },
    Missing {
        names: &["enable-non-contiguous-regions"],
        takes: Nothing,
        reason: "sections spread over regions",
    },
    Missing {
        names: &["enable-non-contiguous-regions-warnings"],
        takes: Nothing,
        reason: "sections spread over regions",
    },
    Missing {
        names: &["out-implib"],
        takes: Value("FILE"),
        reason: "import libraries",
    },
    Missing {
        names: &["embedded-relocs"],
        takes: Nothing,
        reason: "embedded relocations of m68k",
    },
    Missing {
        names: &["split-by-file"],
        takes: Optional("SIZE"),
        reason: "splitting of output sections",
    },
    Missing {
        names: &["split-by-reloc"],
        takes: Optional("COUNT"),
        reason: "splitting of output sections",
    },
    Missing {
        names: &["task-link"],
        takes: Value("SYMBOL"),
        reason: "task-level linking",
    },
    Missing {
        names: &["error-handling-script"],
        takes: Value("FILE"),
        reason: "running a program for each error",
    },
    Missing {
        names: &["version-exports-section"],
        takes: Value("SYMBOL"),
        reason: "COFF export sections",
    },
    Missing {
        names: &["default-imported-symver"],
        takes: Nothing,
        reason: "versions for symbols of objects without versions, which glibc's dynamic linker refuses to start with",
    },
    Missing {
        names: &["no-define-common"],
        takes: Nothing,
        reason: "shared objects that leave common blocks to the executable",
    },
    Missing {
        names: &["Tldata-segment"],
        takes: Value("ADDRESS"),
        reason: "the large-data segment's address",
    },
    Missing {
        names: &["shuffle-sections"],
        takes: Optional("SEED"),
        reason: "random section order",
    },
    Missing {
        names: &["reverse-sections"],
        takes: Nothing,
        reason: "reversed section order",
    },
    Missing {
        names: &["section-order"],
        takes: Value("FILE"),
        reason: "ordering by file",
    },
    Missing {
        names: &["separate-debug-file"],
        takes: Optional("FILE"),
        reason: "a separate debug file",
    },
    Missing {
        names: &["execute-only"],
        takes: Nothing,
        reason: "execute-only segments",
    },
    Missing {
        names: &["physical-image-base"],
        takes: Value("ADDRESS"),
        reason: "physical addresses without a script",
    },
    Missing {
        names: &["section-align"],
        takes: Value("SECTION=N"),
        reason: "alignment of output sections without a script",
    },
    Missing {
        names: &["discard-section", "no-discard-section"],
        takes: Value("SECTION"),
        reason: "discarding of sections without a script",
    },
    Missing {
        names: &["spare-program-headers"],
        takes: Value("N"),
        reason: "spare program headers",
    },
    Missing {
        names: &["filler"],
        takes: Value("BYTE"),
        reason: "filling of gaps without a script",
    },
    Missing {
        names: &["zero-to-bss"],
        takes: Nothing,
        reason: "turning zero data into .bss",
    },
    Missing {
        names: &["repro", "reproduce"],
        takes: Optional("FILE"),
        reason: "packing up the inputs",
    },
    Missing {
        names: &["android-memtag-heap", "android-memtag-stack"],
        takes: Nothing,
        reason: "memory tags of AArch64",
    },
    Missing {
        names: &["android-memtag-mode"],
        takes: Value("MODE"),
        reason: "memory tags of AArch64",
    },
    Missing {
        names: &["apply-dynamic-relocs"],
        takes: Nothing,
        reason: "addends in places that have dynamic relocations",
    },
    Missing {
        names: &[
            "be8",
            "cmse-implib",
            "fix-cortex-a53-843419",
            "fix-cortex-a8",
            "merge-exidx-entries",
            "no-merge-exidx-entries",
            "pic-veneer",
            "target1-abs",
            "target1-rel",
        ],
        takes: Nothing,
        reason: "ARM and AArch64",
    },
    Missing {
        names: &["in-implib", "target2"],
        takes: Value("X"),
        reason: "ARM",
    },
    Missing {
        names: &[
            "pcrel-optimize",
            "no-pcrel-optimize",
            "no-power10-stubs",
            "toc-optimize",
            "no-toc-optimize",
        ],
        takes: Nothing,
        reason: "PowerPC",
    },
    Missing {
        names: &["power10-stubs"],
        takes: Optional("MODE"),
        reason: "PowerPC",
    },
    Missing {
        names: &["relax-gp", "no-relax-gp"],
        takes: Nothing,
        reason: "RISC-V",
    },
    Missing {
        names: &["compress-sections"],
        takes: Value("PATTERN=HOW"),
        reason: "compression of other sections than those with debugging information",
    },
    Missing {
        names: &["debug-names"],
        takes: Nothing,
        reason: "a merged .debug_names",
    },
    Missing {
        names: &["dependent-libraries"],
        takes: Nothing,
        reason: "libraries that objects name",
    },
    Missing {
        names: &["keep-unique"],
        takes: Value("SYMBOL"),
        reason: "symbols that --icf leaves alone by name",
    },
    Missing {
        names: &["load-pass-plugin"],
        takes: Value("FILE"),
        reason: "plugins of LLVM's code generator",
    },
    Missing {
        names: &["lto-emit-asm", "lto-emit-llvm", "thinlto-single-module"],
        takes: Nothing,
        reason: "outputs of LTO that are not linked",
    },
    Missing {
        names: &["no-fortran-common"],
        takes: Nothing,
        reason: "common blocks that no archive overrides",
    },
    Missing {
        names: &["no-gnu-unique"],
        takes: Nothing,
        reason: "unique symbols that are made global ones",
    },
    Missing {
        names: &["rsp-quoting"],
        takes: Value("STYLE"),
        reason: "response files as on Windows",
    },
    Missing {
        names: &["split-stack-adjust-size"],
        takes: Value("SIZE"),
        reason: "split stacks",
    },
];
