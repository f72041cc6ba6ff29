//! Which options of the compiler drivers take their argument as a separate word.
//!
//! Only this decides which words of a command line are inputs and which name
//! the output. An option that is missing here makes its argument look like an
//! input, and then an output is expected that never appears: the compiler's
//! own object stays, which is a slower build and not a wrong one.
//!
//! The tables were made from what the drivers themselves do: gcc 12 was asked
//! with `gcc OPTION a.c`, which says "no input files" if the option takes
//! `a.c`; clang 19 with the options of kind `Separate`, `JoinedOrSeparate`,
//! `JoinedAndSeparate` and `MultiArg` that its driver shows. A test asks the
//! installed compilers again.

use super::compiler::Family;

/// Options that take the next word, in gcc and in clang.
const COMMON: &[&str] = &[
    "--assert",
    "--define-macro",
    "--force-link",
    "--for-linker",
    "--imacros",
    "--include",
    "--include-directory",
    "--include-directory-after",
    "--include-prefix",
    "--include-with-prefix",
    "--include-with-prefix-after",
    "--include-with-prefix-before",
    "--language",
    "--library-directory",
    "--output",
    "--param",
    "--prefix",
    "--print-file-name",
    "--print-prog-name",
    "--sysroot",
    "--undefine-macro",
    "-A",
    "-B",
    "-D",
    "-F",
    "-G",
    "-I",
    "-L",
    "-MF",
    "-MQ",
    "-MT",
    "-T",
    "-U",
    "-Xassembler",
    "-Xlinker",
    "-Xpreprocessor",
    "-b",
    "-dumpdir",
    "-e",
    "-idirafter",
    "-imacros",
    "-imultilib",
    "-include",
    "-iprefix",
    "-iquote",
    "-isysroot",
    "-isystem",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-l",
    "-o",
    "-rpath",
    "-specs",
    "-u",
    "-x",
    "-z",
];

/// Options that take the next word in gcc only.
const GCC: &[&str] = &[
    "--dump",
    "--dumpbase",
    "--dumpbase-ext",
    "--dumpdir",
    "--entry",
    "--for-assembler",
    "--specs",
    "-Hd",
    "-Hf",
    "-J",
    "-R",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-V",
    "-Xf",
    "-aux-info",
    "-auxbase",
    "-auxbase-strip",
    "-dumpbase",
    "-dumpbase-ext",
    "-fintrinsic-modules-path",
    "-gnatO",
    "-h",
    "-imultiarch",
    "-wrapper",
];

/// Options that take the next word in clang only.
const CLANG: &[&str] = &[
    "--CLASSPATH",
    "--analyzer-output",
    "--bootclasspath",
    "--classpath",
    "--config",
    "--dyld-prefix",
    "--encoding",
    "--extdirs",
    "--mhwdiv",
    "--no-system-header-prefix",
    "--output-class-directory",
    "--resource",
    "--rtlib",
    "--serialize-diagnostics",
    "--std",
    "--stdlib",
    "--system-header-prefix",
    "-MJ",
    "-Xanalyzer",
    "-Xarch_device",
    "-Xarch_host",
    "-Xclang",
    "-Xcuda-fatbinary",
    "-Xcuda-ptxas",
    "-Xmicrosoft-visualc-tools-root",
    "-Xmicrosoft-visualc-tools-version",
    "-Xmicrosoft-windows-sdk-root",
    "-Xmicrosoft-windows-sdk-version",
    "-Xmicrosoft-windows-sys-root",
    "-Xoffload-linker",
    "-Xopenmp-target",
    "-alias_list",
    "-allowable_client",
    "-arch",
    "-arch_only",
    "-arcmt-migrate-report-output",
    "-bundle_loader",
    "-ccc-arcmt-migrate",
    "-ccc-gcc-name",
    "-ccc-install-dir",
    "-ccc-objcmt-migrate",
    "-client_name",
    "-compatibility_version",
    "-current_version",
    "-cxx-isystem",
    "-darwin-target-variant",
    "-darwin-target-variant-triple",
    "-dependency-dot",
    "-dependency-file",
    "-dsym-dir",
    "-dylib_file",
    "-dylinker_install_name",
    "-exported_symbols_list",
    "-fdebug-compilation-dir",
    "-fexperimental-openacc-macro-override",
    "-filelist",
    "-fmodule-implementation-of",
    "-fmodules-user-build-path",
    "-fnew-alignment",
    "-force_load",
    "-framework",
    "-ftrapv-handler",
    "-gen-cdb-fragment-path",
    "-hlsl-entry",
    "-iapinotes-modules",
    "-iframework",
    "-iframeworkwithsysroot",
    "-image_base",
    "-include-pch",
    "-init",
    "-install_name",
    "-isystem-after",
    "-ivfsoverlay",
    "-iwithsysroot",
    "-lazy_framework",
    "-lazy_library",
    "-meabi",
    "-mllvm",
    "-mmlir",
    "-module-dependency-dir",
    "-mthread-model",
    "-multiply_defined",
    "-multiply_defined_unused",
    "-object-file-name",
    "-pagezero_size",
    "-read_only_relocs",
    "-reexport_framework",
    "-reexport_library",
    "-resource-dir",
    "-sectobjectsymbols",
    "-seg1addr",
    "-seg_addr_table",
    "-seg_addr_table_filename",
    "-segs_read_only_addr",
    "-segs_read_write_addr",
    "-serialize-diagnostics",
    "-stdlib++-isystem",
    "-sub_library",
    "-sub_umbrella",
    "-target",
    "-umbrella",
    "-undefined",
    "-unexported_symbols_list",
    "-vfsoverlay",
    "-weak_framework",
    "-weak_library",
    "-weak_reference_mismatches",
    "-working-directory",
];

/// Options of clang that take more than one word.
const CLANG_SEVERAL: &[(&str, usize)] = &[
    ("-sectalign", 3),
    ("-sectcreate", 3),
    ("-sectobjectsymbols", 2),
    ("-sectorder", 3),
    ("-segaddr", 2),
    ("-segcreate", 3),
    ("-segprot", 3),
];

/// Options of clang that take the next word whatever is joined to them.
const CLANG_PREFIXES: &[&str] = &["-Xarch_", "-Xopenmp-target=", "-Xoffload-linker"];

/// How many words after `option` are its arguments.
pub fn separate_arguments(family: Family, option: &str) -> usize {
    if COMMON.contains(&option) {
        return 1;
    }
    match family {
        Family::Gcc => usize::from(GCC.contains(&option)),
        Family::Clang => {
            if let Some((_, count)) = CLANG_SEVERAL.iter().find(|(name, _)| *name == option) {
                *count
            } else {
                usize::from(
                    CLANG.contains(&option)
                        || CLANG_PREFIXES
                            .iter()
                            .any(|prefix| option.starts_with(prefix)),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn counts() {
        for (family, option, count) in [
            (Family::Gcc, "-o", 1),
            (Family::Gcc, "-ox", 0),
            (Family::Gcc, "-Xclang", 0),
            (Family::Gcc, "-wrapper", 1),
            (Family::Clang, "-wrapper", 0),
            (Family::Clang, "-Xclang", 1),
            (Family::Clang, "-Xarch_x86_64", 1),
            (Family::Clang, "-sectcreate", 3),
            (Family::Clang, "-MD", 0),
            (Family::Gcc, "-MD", 0),
            (Family::Gcc, "-O2", 0),
        ] {
            assert_eq!(
                separate_arguments(family, option),
                count,
                "{family:?} {option}"
            );
        }
    }

    /// Whether `compiler` takes the word after `option` as its argument, as
    /// seen from what it says about a command line without any input; `None`
    /// if it rejects the option or cannot be run.
    fn takes_next(compiler: &str, option: &str, dir: &std::path::Path) -> Option<bool> {
        let output = Command::new(compiler)
            .args([option, "word.c", "-c", "-###"])
            .env("LC_ALL", "C")
            .current_dir(dir)
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("unrecognized command-line option") || text.contains("unknown argument") {
            return None;
        }
        // With -### a driver that has no input runs nothing.
        Some(!text.lines().any(|line| {
            (line.starts_with(' ') && line.contains("word.c") && line.contains("cc1"))
                && (line.contains("-quiet word.c")
                    || line.contains(" word.c -quiet")
                    || line.contains("\"word.c\""))
        }))
    }

    #[test]
    fn tables_agree_with_the_installed_compilers() {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("word.c"), "int f;\n").expect("source");
        let mut asked = 0;
        for (compiler, family) in [
            ("gcc", Family::Gcc),
            ("clang", Family::Clang),
            ("clang-19", Family::Clang),
        ] {
            if Command::new(compiler).arg("--version").output().is_err() {
                continue;
            }
            // Options that many command lines have; asking about all costs seconds.
            for option in [
                "-I",
                "-D",
                "-U",
                "-include",
                "-imacros",
                "-isystem",
                "-iquote",
                "-idirafter",
                "-MF",
                "-MT",
                "-MQ",
                "-L",
                "-B",
                "-u",
                "-z",
                "-aux-info",
                "-dumpdir",
                "-Xassembler",
                "-Xpreprocessor",
                "-MD",
                "-MMD",
                "-MP",
                "-g",
                "-O",
                "-w",
                "-v",
                "-pipe",
                "-Xclang",
                "-mllvm",
                "-serialize-diagnostics",
            ] {
                if let Some(takes) = takes_next(compiler, option, dir.path()) {
                    asked += 1;
                    assert_eq!(
                        separate_arguments(family, option) > 0,
                        takes,
                        "{compiler} {option}"
                    );
                }
            }
        }
        if asked == 0 {
            eprintln!("not run: no gcc and no clang on PATH");
        }
    }
}
