// Runs clang's front end and code generator: `program -triple … FILE -emit-obj -o OUT`.
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/FrontendTool/Utils.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

// Debian's libraries ask for Polly, which is in a package of its own.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "0", [](llvm::PassBuilder &) {}};
}

int main(int count, const char **words) {
  llvm::InitializeAllTargets();
  llvm::InitializeAllTargetMCs();
  llvm::InitializeAllAsmPrinters();
  llvm::InitializeAllAsmParsers();
  clang::CompilerInstance compiler;
  auto *options = new clang::DiagnosticOptions;
  clang::DiagnosticsEngine diagnostics(new clang::DiagnosticIDs, options,
                                       new clang::TextDiagnosticPrinter(llvm::errs(), options));
  bool understood = clang::CompilerInvocation::CreateFromArgs(
      compiler.getInvocation(), llvm::ArrayRef<const char *>(words + 1, count - 1), diagnostics);
  compiler.createDiagnostics();
  return !understood || !compiler.hasDiagnostics() || !clang::ExecuteCompilerInvocation(&compiler);
}
