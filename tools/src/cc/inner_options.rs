//! Options that a driver hands on to the programs behind it, as far as they are known to change nothing but the code.

/// What `-Wa,` may ask of the assembler: of each of its options the beginning.
const OF_THE_ASSEMBLER: &[&str] = &[
    "--noexecstack",
    "--execstack",
    "--fatal-warnings",
    "--no-warn",
    "--warn",
    "--compress-debug-sections",
    "--nocompress-debug-sections",
    "--gdwarf",
    "--gen-debug",
    "--32",
    "--64",
    "--keep-locals",
    "--divide",
    "--no-pad-sections",
    "--size-check=",
    "--elf-stt-common=",
    "--generate-missing-build-notes=",
    "-mrelax",
    "-mbranch",
    "-malign",
    "-march=",
    "-mtune=",
    "-msse",
    "-mno-",
    "-g",
    "-W",
    "-L",
];

/// What `-Xclang` may say without other files being read or written: options as they are before a `=`.
const OF_CLANG_PROPER: &[&str] = &[
    "-fcolor-diagnostics",
    "-fconcepts-ts",
    "-fcoroutines-ts",
    "-fmerge-functions",
    "-fno-color-diagnostics",
    "-fno-escaping-block-tail-calls",
    "-fno-merge-functions",
    "-fno-use-init-array",
    "-fsized-deallocation",
    "-ftrivial-auto-var-init",
    "-fuse-init-array",
    "-mframe-pointer",
    "-mno-constructor-aliases",
    "-mno-exec-stack",
    "-mrelax-all",
    "-mstack-alignment",
    "-mstack-probe-size",
    "-munwind-tables",
    "-vectorize-loops",
];

/// What `-mllvm` may say without other files being read or written, or more being said: options as they are before a `=`. Most of what
/// LLVM has are for those who work on it: dumps, statistics, lists of functions in files.
const OF_LLVM: &[&str] = &[
    "-addr-sink-using-gep",
    "-align-all-blocks",
    "-align-all-functions",
    "-align-all-nofallthru-blocks",
    "-align-loops",
    "-asan-globals",
    "-asan-instrumentation-with-call-threshold",
    "-asan-stack",
    "-asan-use-private-alias",
    "-disable-licm-promotion",
    "-disable-lsr",
    "-disable-tail-calls",
    "-disable-vector-combine",
    "-enable-cse-in-irtranslator",
    "-enable-dfa-jump-thread",
    "-enable-gvn-hoist",
    "-enable-gvn-sink",
    "-enable-interleaved-mem-accesses",
    "-enable-load-pre",
    "-enable-loop-distribute",
    "-enable-loop-flatten",
    "-enable-loopinterchange",
    "-enable-masked-interleaved-mem-accesses",
    "-enable-misched",
    "-enable-newgvn",
    "-enable-post-misched",
    "-enable-tail-merge",
    "-enable-unroll-and-jam",
    "-force-vector-interleave",
    "-force-vector-width",
    "-hot-cold-split",
    "-hot-cold-split-threshold",
    "-hwasan-globals",
    "-inline-cold-callsite-threshold",
    "-inline-cost-full",
    "-inline-threshold",
    "-inlinecold-threshold",
    "-inlinehint-threshold",
    "-jump-threading-threshold",
    "-locally-hot-callsite-threshold",
    "-max-jump-table-size",
    "-min-jump-table-entries",
    "-mergefunc-use-aliases",
    "-msan-check-constant-shadow",
    "-msan-instrumentation-with-call-threshold",
    "-no-discriminators",
    "-no-warn-sample-unused",
    "-phi-node-folding-threshold",
    "-pragma-unroll-threshold",
    "-prefer-predicate-over-epilogue",
    "-regalloc",
    "-slp-threshold",
    "-stack-alignment",
    "-switch-to-lookup",
    "-tail-dup-size",
    "-tail-merge-threshold",
    "-treat-scalable-fixed-error-as-warning",
    "-tsan-distinguish-volatile",
    "-two-address-reschedule",
    "-unroll-allow-partial",
    "-unroll-count",
    "-unroll-runtime",
    "-unroll-threshold",
    "-vectorize-loops",
    "-vectorize-slp",
    "-warn-stack-size",
    "-x86-align-branch",
    "-x86-align-branch-boundary",
    "-x86-asm-syntax",
    "-x86-branches-within-32B-boundaries",
    "-x86-cmov-converter",
    "-x86-experimental-unordered-isel",
    "-x86-pad-for-align",
    "-x86-pad-for-branch-align",
    "-x86-speculative-load-hardening",
];

/// Whether an option is in a table of what it is before a `=`.
fn is_in(table: &[&str], option: &[u8]) -> bool {
    let end = option.iter().position(|byte| *byte == b'=');
    let name = &option[..end.unwrap_or(option.len())];
    table.iter().any(|known| known.as_bytes() == name)
}

/// Whether `-Wa,` may say this.
pub fn is_of_the_assembler(option: &str) -> bool {
    let mut known = OF_THE_ASSEMBLER.iter();
    known.any(|known| option.starts_with(known))
}

/// Whether `-Xclang` may say this.
pub fn is_of_clang_proper(option: &[u8]) -> bool {
    is_in(OF_CLANG_PROPER, option)
}

/// Whether `-mllvm` may say this.
pub fn is_of_llvm(option: &[u8]) -> bool {
    is_in(OF_LLVM, option)
}
