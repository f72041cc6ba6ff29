// What the assembly in functions does beside its function.

#pragma once

namespace llvm {
class Module;
}

namespace repo {

/// What statements of assembly do that does not go where their function goes, in words; null if there is no such thing.
const char *beside_functions(const llvm::Module &module);

/// Whether assembly may read other files: the assembler does not say of which its output is made.
bool assembly_reads_files(const llvm::Module &module);

} // namespace repo
